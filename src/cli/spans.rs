//! Sends the spans of a run to an OpenTelemetry collector: OTLP over HTTP with JSON.
//!
//! `OTEL_EXPORTER_OTLP_ENDPOINT` names the collector and `OTEL_EXPORTER_OTLP_HEADERS` what else it wants to be told
//! (both as the OpenTelemetry specification of exporters has them, 1.50). Only plain `http` is spoken, which is what a
//! collector on the same machine listens to. A run that ended sends its last stretch; nothing that goes wrong here
//! changes how it ended.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use super::reading;
use super::report::CliError;
use crate::event::Record;
use crate::event::wire::Line;
use crate::ids::Seq;
use crate::store::{RunDir, StoreError, offset_of_last};
use crate::view::otlp::{BATCH, SpanFold};
use crate::view::tables::Life;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// How long each step of a request may take: the default of the specification.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer that are looked at.
const ANSWER_BYTES: u64 = 4096;

/// Where spans go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Collector {
    /// Host and port.
    authority: String,
    path: String,
    headers: Vec<(String, String)>,
}

/// Why spans did not arrive.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpanError {
    #[error("`{0}` is no address of a collector that can be sent to")]
    Address(String),
    #[error("cannot send spans to `{authority}`")]
    Io {
        authority: String,
        #[source]
        source: io::Error,
    },
    #[error("the collector at `{authority}` answered `{answer}`")]
    Refused { authority: String, answer: String },
}

impl From<SpanError> for CliError {
    fn from(error: SpanError) -> Self {
        match error {
            SpanError::Address(_) => Self::usage(
                error.to_string(),
                format!("set {ENDPOINT} to a plain address, such as http://127.0.0.1:4318"),
            ),
            SpanError::Io { .. } | SpanError::Refused { .. } => Self::machine("spans were not sent", error),
        }
    }
}

impl Collector {
    /// The collector that the environment names.
    pub(super) fn named() -> Result<Self, CliError> {
        let hint = "export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318";
        Self::configured()
            .ok_or_else(|| CliError::usage(format!("{ENDPOINT} is not set"), hint))?
            .map_err(CliError::from)
    }

    /// The same; `None` where none is named.
    fn configured() -> Option<Result<Self, SpanError>> {
        let endpoint = std::env::var(ENDPOINT).ok().filter(|endpoint| !endpoint.trim().is_empty())?;
        Some(Self::parse(endpoint.trim(), &std::env::var(HEADERS).unwrap_or_default()))
    }

    fn parse(endpoint: &str, headers: &str) -> Result<Self, SpanError> {
        let bad = || SpanError::Address(endpoint.to_owned());
        let rest = endpoint.strip_prefix("http://").ok_or_else(bad)?;
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '@' | '?' | '#');
        if authority.is_empty() || !rest.chars().all(plain) {
            return Err(bad());
        }
        let port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if port { authority.to_owned() } else { format!("{authority}:80") };
        let headers = headers.split(',').filter_map(|pair| pair.split_once('='));
        let headers = headers.map(|(name, value)| (name.trim().to_owned(), unescaped(value.trim())));
        let fit = |text: &str| !text.is_empty() && !text.contains(|letter: char| letter.is_control());
        Ok(Self {
            authority,
            path: format!("{}/v1/traces", path.trim_end_matches('/')),
            headers: headers.filter(|(name, value)| fit(name) && fit(value)).collect(),
        })
    }

    /// Sends one request body and waits for the answer.
    fn send(&self, body: &[u8]) -> Result<(), SpanError> {
        let answer =
            self.exchange(body).map_err(|source| SpanError::Io { authority: self.authority.clone(), source })?;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        if answer.starts_with("HTTP/1.") && status.starts_with('2') {
            return Ok(());
        }
        Err(SpanError::Refused { authority: self.authority.clone(), answer })
    }

    /// The first line of the answer.
    fn exchange(&self, body: &[u8]) -> io::Result<String> {
        let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in self.authority.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => return self.over(stream, body),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn over(&self, mut stream: TcpStream, body: &[u8]) -> io::Result<String> {
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            self.path,
            self.authority,
            body.len()
        );
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES).read_to_end(&mut answer)?;
        let line = answer.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(line).into_owned())
    }
}

/// A value of the headers variable, which is percent-encoded. What is no code stands for itself.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Spans on their way, in memory that does not grow with the log.
pub(super) struct Export {
    collector: Collector,
    spans: SpanFold,
    /// Spans that ended before this record were sent by an earlier stretch.
    since: Seq,
}

impl Export {
    /// All that a run did.
    pub(super) fn of_all(collector: Collector) -> Self {
        Self { collector, spans: SpanFold::default(), since: Seq(0) }
    }

    /// Takes in the next record, and sends what has come together.
    pub(super) fn push(&mut self, record: &Record) -> Result<(), CliError> {
        if record.seq == self.since {
            self.spans.close();
            while self.spans.batch().is_some() {}
        }
        self.spans.push(record);
        if record.seq >= self.since && self.spans.waiting() >= BATCH {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends the rest. What a run that is gone left open ended with its log; what a live one has open is not sent.
    pub(super) fn end(mut self, life: Life) -> Result<(), CliError> {
        if life == Life::Gone {
            self.spans.close();
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), CliError> {
        while let Some(body) = self.spans.batch() {
            self.collector.send(body.to_string().as_bytes())?;
        }
        Ok(())
    }
}

/// Sends the last stretch of a run that ended, if a collector is named. A failure is one warning.
pub(super) fn export_stretch(dir: &RunDir) {
    let Some(collector) = Collector::configured() else { return };
    let sent = collector.map_err(CliError::from).and_then(|collector| {
        let mut export = Export { since: last_stretch(dir)?, ..Export::of_all(collector) };
        reading::records(dir, |record| export.push(record))?;
        export.end(Life::Gone)
    });
    if let Err(error) = sent {
        use std::error::Error as _;
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        // A closed standard error takes no warnings.
        let _gone = writeln!(anstream::stderr().lock(), "warning: {error}{cause}");
    }
}

/// The record with which the last stretch began.
fn last_stretch(dir: &RunDir) -> Result<Seq, StoreError> {
    let path = dir.events();
    let failed = |source| StoreError::Io { action: "read", path: path.clone(), source };
    let mut file = File::open(&path).map_err(failed)?;
    let mut began = Seq(0);
    offset_of_last(&mut file, 1, |line| {
        let start = serde_json::from_slice::<Line<'_>>(line).ok().filter(|line| line.kind == "run_start");
        began = start.as_ref().map_or(began, |line| line.seq);
        start.is_some()
    })
    .map_err(failed)?;
    Ok(began)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn a_collector_is_named_by_an_address_to_which_the_path_is_added() {
        let parsed = |endpoint| {
            let collector = Collector::parse(endpoint, "api-key=a%20b, =x,bad").map_err(|error| error.to_string())?;
            assert_eq!(collector.headers, [("api-key".to_owned(), "a b".to_owned())]);
            Ok::<_, String>(format!("{}{}", collector.authority, collector.path))
        };
        assert_eq!(parsed("http://127.0.0.1:4318"), Ok("127.0.0.1:4318/v1/traces".to_owned()));
        assert_eq!(parsed("http://[::1]:4318/otlp/"), Ok("[::1]:4318/otlp/v1/traces".to_owned()));
        assert_eq!(parsed("http://collector.example.invalid"), Ok("collector.example.invalid:80/v1/traces".to_owned()));
        for bad in ["https://example.invalid", "localhost:4318", "http://", "http://a b", "http://u@example.invalid"] {
            assert_eq!(parsed(bad), Err(format!("`{bad}` is no address of a collector that can be sent to")));
        }
    }

    #[test]
    fn what_is_no_percent_code_stands_for_itself() {
        assert_eq!(["a%2Cb", "100%", "%zz", "%e2%82%ac"].map(unescaped), ["a,b", "100%", "%zz", "€"]);
    }
}
