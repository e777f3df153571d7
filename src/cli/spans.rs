//! Sends the spans of a run to an OpenTelemetry collector: OTLP over HTTP with JSON.
//!
//! `OTEL_EXPORTER_OTLP_ENDPOINT` names the collector and `OTEL_EXPORTER_OTLP_HEADERS` what else it wants to be told
//! (both as the OpenTelemetry specification of exporters has them, 1.50). A run that ended sends its last stretch;
//! nothing that goes wrong here changes how it ended.

use std::fs::File;
use std::time::Duration;

use reqwest::{Client, StatusCode, Url};
use tokio::runtime::Runtime;

use super::reading;
use super::report::CliError;
use super::say;
use crate::event::Record;
use crate::event::wire::Line;
use crate::gateway::client_for;
use crate::ids::Seq;
use crate::store::{RunDir, StoreError, offset_of_last};
use crate::view::otlp::{BATCH, SpanFold};
use crate::view::tables::Life;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// How long a request may take: the default of the specification.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where spans go.
pub(super) struct Collector {
    address: Address,
    client: Client,
    runtime: Runtime,
}

/// What the environment says of a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    url: Url,
    headers: Vec<(String, String)>,
}

/// Why spans did not arrive. The address may hold a secret and is not shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum SpanError {
    #[error("{ENDPOINT} is no address of a collector")]
    Address,
    #[error("the collector cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    #[error("the collector answered {0}")]
    Refused(StatusCode),
    #[error("cannot start the runtime")]
    Runtime(#[source] std::io::Error),
}

impl From<SpanError> for CliError {
    fn from(error: SpanError) -> Self {
        match error {
            SpanError::Address => Self::usage(error.to_string(), "name one such as http://127.0.0.1:4318"),
            SpanError::Unreachable(_) | SpanError::Refused(_) | SpanError::Runtime(_) => {
                Self::machine("spans were not sent", error)
            }
        }
    }
}

impl Collector {
    /// The collector that the environment names.
    pub(super) fn named() -> Result<Self, CliError> {
        let hint = format!("export {ENDPOINT}=http://127.0.0.1:4318");
        Self::configured().ok_or_else(|| CliError::usage(format!("{ENDPOINT} is not set"), hint))?.map_err(Into::into)
    }

    /// The same; `None` where none is named.
    fn configured() -> Option<Result<Self, SpanError>> {
        let endpoint = std::env::var(ENDPOINT).ok().filter(|endpoint| !endpoint.trim().is_empty())?;
        let headers = std::env::var(HEADERS).unwrap_or_default();
        Some(Address::parse(&endpoint, &headers).ok_or(SpanError::Address).and_then(Self::at))
    }

    fn at(address: Address) -> Result<Self, SpanError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SpanError::Runtime)?;
        let client = client_for(&address.url).map_err(unreachable)?;
        Ok(Self { address, client, runtime })
    }

    /// Sends one request body and waits for the answer.
    fn send(&self, body: String) -> Result<(), SpanError> {
        let mut request = self.client.post(self.address.url.clone()).timeout(PATIENCE);
        for (name, value) in &self.address.headers {
            request = request.header(name, value);
        }
        let request = request.header("content-type", "application/json").body(body);
        // Its clock needs a runtime from the first call on.
        let answer = self.runtime.block_on(async { request.send().await });
        let status = answer.map_err(unreachable)?.status();
        if status.is_success() { Ok(()) } else { Err(SpanError::Refused(status)) }
    }
}

fn unreachable(error: reqwest::Error) -> SpanError {
    SpanError::Unreachable(error.without_url())
}

impl Address {
    /// The path for traces is added to what is named.
    fn parse(endpoint: &str, headers: &str) -> Option<Self> {
        let mut url: Url = endpoint.trim().parse().ok()?;
        url.set_path(&format!("{}/v1/traces", url.path().trim_end_matches('/')));
        let headers = headers.split(',').filter_map(|pair| pair.split_once('='));
        let headers = headers.map(|(name, value)| (name.trim().to_owned(), unescaped(value.trim())));
        let headers = headers.filter(|(name, _)| !name.is_empty()).collect();
        matches!(url.scheme(), "http" | "https").then_some(Self { url, headers })
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
            self.collector.send(body.to_string())?;
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
        say(&format!("warning: {}", said(&error)));
    }
}

/// An error with its causes, on one line.
fn said(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
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
        let parsed = |endpoint| Address::parse(endpoint, "").map(|address| address.url.to_string());
        assert_eq!(parsed("http://127.0.0.1:4318").as_deref(), Some("http://127.0.0.1:4318/v1/traces"));
        assert_eq!(parsed(" http://[::1]:4318/otlp/ ").as_deref(), Some("http://[::1]:4318/otlp/v1/traces"));
        assert_eq!(parsed("https://example.invalid").as_deref(), Some("https://example.invalid/v1/traces"));
        assert_eq!(
            ["localhost:4318", "http://", "ftp://example.invalid", "4318"].map(parsed),
            [None, None, None, None]
        );
        let headers = Address::parse("http://[::1]", "api-key=a%20b, =x,bad, c = d").unwrap().headers;
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(headers, [pair("api-key", "a b"), pair("c", "d")]);
    }

    #[test]
    fn what_is_no_percent_code_stands_for_itself() {
        assert_eq!(["a%2Cb", "100%", "%zz", "%e2%82%ac"].map(unescaped), ["a,b", "100%", "%zz", "€"]);
    }
}
