//! The events of a run, filtered and by page, newest page first.

use std::fs::File;

use axum::response::Response;
use chrono::Utc;
use serde::Deserialize;

use super::library::{Library, Missing};
use super::page::{Page, Part, cell, figure};
use crate::event::Record;
use crate::event::wire::Line;
use crate::ids::{PhaseName, RunId, Seq};
use crate::store::{Entry, LogReader, RunDir, StoreError, Tail, offset_of_last};
use crate::view::events::{Filter, Since};
use crate::view::markup::escape;
use crate::view::numbers::clock;
use crate::view::tables::Life;
use crate::view::words;

/// Events on one page.
const A_PAGE: usize = 200;

/// What the address asks for; empty fields of the form ask for nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    part: u8,
    #[serde(rename = "type")]
    kind: String,
    name: String,
    phase: String,
    agent: String,
    since: String,
    /// Events before this record.
    before: Option<Seq>,
}

impl Asked {
    fn filter(&self) -> Filter {
        let wanted = |text: &str| if text.trim().is_empty() { Vec::new() } else { vec![text.trim().to_owned()] };
        Filter {
            types: wanted(&self.kind),
            names: wanted(&self.name),
            phases: wanted(&self.phase),
            agents: wanted(&self.agent),
            // What is no beginning asks for nothing.
            since: Since::parse(self.since.trim(), Utc::now()).ok(),
        }
    }

    fn fields(&self) -> [(&'static str, &str); 5] {
        [
            ("type", &self.kind),
            ("name", &self.name),
            ("phase", &self.phase),
            ("agent", &self.agent),
            ("since", &self.since),
        ]
    }

    fn form(&self) -> String {
        let fields = self.fields().map(|(name, value)| {
            format!("<label>{name} <input name=\"{name}\" value=\"{}\" size=\"14\"></label>\n", escape(value))
        });
        format!("<form id=\"filter\" method=\"get\">\n{}<button>filter</button>\n</form>\n", fields.concat())
    }

    /// A link to the same question about the events before a record, or about the newest.
    fn link(&self, before: Option<Seq>, word: &str) -> String {
        let given = self.fields().into_iter().filter(|(_, value)| !value.is_empty());
        let mut given: Vec<String> = given.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        given.extend(before.map(|before| format!("before={before}")));
        format!("<a href=\"?{}\">{word}</a> ", escape(&given.join("&")))
    }
}

pub(super) fn page(library: &Library, root: &str, run: &RunId, asked: &Asked) -> Result<Response, Missing> {
    let dir = library.dir(run)?;
    let before = asked.before.unwrap_or(Seq(u64::MAX));
    let found = found(&dir, &asked.filter(), before, A_PAGE)?;
    let mut body = format!("<h1>Events</h1>\n{}{}<p>", asked.form(), table(&found.records));
    if asked.before.is_some() {
        body += &asked.link(None, "newest");
    }
    if let (true, Some(first)) = (found.more, found.records.first()) {
        body += &asked.link(Some(first.seq), "older");
    }
    body += "</p>\n";
    let alive = asked.before.is_none() && library.life(run)? == Life::Alive;
    let live = alive.then(|| format!("{root}/run/{run}/live"));
    let title = format!("fia {run}: events");
    Ok(Page { root, title: &title, run: Some(run), live }.response(Part { part: asked.part }, body))
}

/// The last events of a run as a table.
pub(super) fn last(dir: &RunDir, count: usize) -> Result<String, StoreError> {
    Ok(table(&found(dir, &Filter::default(), Seq(u64::MAX), count)?.records))
}

/// Records that were asked for, oldest first.
struct Found {
    records: Vec<Record>,
    /// Whether there are older ones.
    more: bool,
}

/// The last `count` records before a record that a filter admits, found from the end of the log.
fn found(dir: &RunDir, filter: &Filter, before: Seq, count: usize) -> Result<Found, StoreError> {
    let path = dir.events();
    let failed = |source| StoreError::Io { action: "read", path: path.clone(), source };
    let mut file = File::open(&path).map_err(failed)?;
    let needle = filter.needle().unwrap_or_default();
    let needle = memchr::memmem::Finder::new(&needle);
    let wanted = |line: &Line<'_>| {
        (line.seq < before && filter.admits_line(line))
            .then(|| line.decode().ok())
            .flatten()
            .filter(|it| filter.admits(it))
    };
    let admits = |line: &[u8]| {
        needle.find(line).is_some()
            && serde_json::from_slice::<Line<'_>>(line).is_ok_and(|line| wanted(&line).is_some())
    };
    // One more than are shown tells whether there are older ones.
    let offset = offset_of_last(&mut file, count + 1, admits).map_err(failed)?;
    let mut reader = LogReader::open_at(&path, Tail::Growing, offset)?;
    let mut records = Vec::new();
    while let Some(entry) = reader.next()? {
        let Entry::Record { line, .. } = entry else { continue };
        if line.seq >= before {
            break;
        }
        records.extend(wanted(&line));
    }
    let extra = records.len().saturating_sub(count);
    records.drain(..extra);
    Ok(Found { records, more: extra > 0 })
}

fn table(records: &[Record]) -> String {
    let mut table = String::from(
        "<div class=\"wide\"><table class=\"events\">\n<tr><th class=\"num\">#<th>time<th>phase<th>what<th></tr>\n",
    );
    for record in records {
        let kind = match record.event.kind() {
            "log" => record.event.name(),
            kind => kind,
        };
        table += &format!(
            "<tr class=\"{}\">{}{}{}{}{}</tr>\n",
            escape(kind),
            figure(&record.seq.to_string()),
            cell(&clock(record.ts)),
            cell(record.phase.as_ref().map_or("", PhaseName::as_str)),
            cell(kind),
            cell(&words::describe(&record.event, record.ts))
        );
    }
    table += "</table></div>\n";
    if records.is_empty() {
        table += "<p class=\"quiet\">no such events</p>\n";
    }
    table
}

/// A text as it stands in the query of an address.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().fold(String::new(), |encoded, byte| {
        encoded + &if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    })
}
