//! `fia events`: which records are asked for, and how one is shown.

use std::collections::VecDeque;
use std::io::{self, Write};

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

use super::numbers::clock;
use super::paint::{Ink, Paint};
use super::{subject, text, words};
use crate::event::wire::Line;
use crate::event::{Event, Record};
use crate::ids::{PhaseName, Seq};

/// Which records are asked for. Values of one kind are alternatives; different kinds must all hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// `type` of the record.
    pub types: Vec<String>,
    /// `name` of the record.
    pub names: Vec<String>,
    /// The phase: by its whole name, its number or its step.
    pub phases: Vec<String>,
    /// The agent that it is about.
    pub agents: Vec<String>,
    /// The first record.
    pub since: Option<Since>,
}

/// Where to begin, that record or time included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// At a record.
    Seq(Seq),
    /// At a time.
    Time(DateTime<Utc>),
}

/// A beginning that is neither a number nor a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a record number, nor a span like `10m`, nor a date or time like `2026-11-30T14:22:10Z`")]
pub struct SinceError(String);

impl Since {
    /// Reads a record number (`41`), a span before `now` (`90s`, `10m`, `2h`, `3d`), a date or an RFC 3339 time.
    ///
    /// # Errors
    ///
    /// When the text is none of these.
    pub fn parse(text: &str, now: DateTime<Utc>) -> Result<Self, SinceError> {
        if let Ok(seq) = text.parse::<u64>() {
            return Ok(Self::Seq(Seq(seq)));
        }
        if let Some(back) = span_before(text) {
            return now.checked_sub_signed(back).map(Self::Time).ok_or_else(|| SinceError(text.to_owned()));
        }
        if let Ok(time) = text.parse::<DateTime<Utc>>() {
            return Ok(Self::Time(time));
        }
        let midnight = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().and_then(|date| date.and_hms_opt(0, 0, 0));
        midnight.map(|time| Self::Time(time.and_utc())).ok_or_else(|| SinceError(text.to_owned()))
    }
}

fn span_before(text: &str) -> Option<TimeDelta> {
    let (figure, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let figure: u32 = figure.parse().ok()?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    TimeDelta::try_seconds(i64::from(figure) * seconds)
}

impl Filter {
    /// Whether a record is asked for.
    pub fn admits(&self, record: &Record) -> bool {
        let phase = record.phase.as_ref().map(PhaseName::as_str);
        let head = Head { kind: record.event.kind(), name: record.event.name(), phase, seq: record.seq };
        self.admits_head(&head, || Some(record.ts)) && self.admits_event(&record.event)
    }

    /// Whether a record may be asked for, as far as it can be told without its payload.
    pub fn admits_line(&self, line: &Line<'_>) -> bool {
        let head = Head { kind: &line.kind, name: &line.name, phase: line.phase.as_deref(), seq: line.seq };
        self.admits_head(&head, || line.ts.parse().ok())
    }

    /// Whether [`Filter::admits_line`] tells all.
    pub fn is_told_by_line(&self) -> bool {
        self.agents.is_empty()
    }

    fn admits_event(&self, event: &Event) -> bool {
        any(&self.agents, |agent| about(event, agent))
    }

    fn admits_head(&self, head: &Head<'_>, time: impl FnOnce() -> Option<DateTime<Utc>>) -> bool {
        any(&self.types, |kind| kind == head.kind)
            && any(&self.names, |name| name == head.name)
            && any(&self.phases, |phase| head.phase.is_some_and(|name| is_phase(name, phase)))
            && self.since.is_none_or(|since| match since {
                Since::Seq(seq) => head.seq >= seq,
                Since::Time(since) => time().is_some_and(|time| time >= since),
            })
    }

    /// Bytes that stand on every line with a record that is asked for; `None` when nothing can be said.
    pub fn needle(&self) -> Option<Vec<u8>> {
        // Letters like these are never written as an escape.
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        let only = |wanted: &[String]| match wanted {
            [one] if plain(one) => Some(one.clone()),
            [] | [_, ..] => None,
        };
        let without_zeros = |phase: String| phase.parse::<u32>().map_or(phase, |number| number.to_string());
        let quoted = |text: String| format!("\"{text}\"");
        let needle = only(&self.names)
            .map(quoted)
            .or_else(|| only(&self.types).map(quoted))
            .or_else(|| only(&self.agents).map(quoted))
            .or_else(|| only(&self.phases).map(without_zeros));
        needle.map(String::into_bytes)
    }
}

/// What a record says outside of its payload.
struct Head<'a> {
    kind: &'a str,
    name: &'a str,
    phase: Option<&'a str>,
    seq: Seq,
}

/// Whether one of the values wanted holds, or none is wanted.
fn any(wanted: &[String], holds: impl Fn(&str) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(|one| holds(one))
}

/// Whether a phase of this name is meant: by the whole name, its number or its step.
pub fn is_phase(name: &str, wanted: &str) -> bool {
    let (number, step) = name.split_once('_').unwrap_or((name, ""));
    let same_number = || number.parse::<u32>().is_ok_and(|number| wanted.parse() == Ok(number));
    wanted == name || wanted == step || same_number()
}

/// Whether an event is about an agent; of an undone write, any of those that may have done it.
fn about(event: &Event, agent: &str) -> bool {
    if let Event::PermissionRetry(retry) = event {
        return retry.agents.iter().any(|one| one.as_str() == agent);
    }
    subject::agent_of(event).is_some_and(|one| one.as_str() == agent)
}

/// The last records of a stream, at most so many.
#[derive(Debug, Clone)]
pub struct Last {
    limit: usize,
    records: VecDeque<Record>,
}

impl Last {
    /// Keeps the last `limit` records.
    pub fn new(limit: usize) -> Self {
        Self { limit, records: VecDeque::new() }
    }

    /// Takes in the next one, and drops the oldest when there are too many.
    pub fn push(&mut self, record: Record) {
        self.records.push_back(record);
        if self.records.len() > self.limit {
            self.records.pop_front();
        }
    }

    /// The records kept, oldest first.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }
}

/// Writes a record as one line for people: number, time, phase, type and name, and what it says.
///
/// # Errors
///
/// What `out` answers.
pub fn write_text(out: &mut dyn Write, record: &Record, paint: Paint) -> io::Result<()> {
    // The name of a tool call is what it acted on, which the words say anyway.
    let name = if matches!(record.event, Event::ToolCall(_)) { "" } else { record.event.name() };
    let kind = format!("{} {name}", record.event.kind());
    let phase = record.phase.as_ref().map_or("", PhaseName::as_str);
    let said = words::describe(&record.event, record.ts);
    let line = format!(
        "{} {} {} {} {}",
        paint.ink(Ink::Quiet, &text::right(&record.seq.to_string(), 5)),
        clock(record.ts),
        text::left(&text::line(phase), 12),
        paint.ink(ink(&record.event), &text::left(&text::line(kind.trim_end()), 28)),
        text::line(&said)
    );
    writeln!(out, "{}", line.trim_end())
}

/// What an event says at a glance.
pub(super) fn ink(event: &Event) -> Ink {
    match event {
        Event::GateFail(_) | Event::EngineError(_) | Event::Error(_) => Ink::Bad,
        Event::CacheBreak(_)
        | Event::EngineRelay(_)
        | Event::EngineRetry(_)
        | Event::Waiting(_)
        | Event::SessionRotation(_)
        | Event::SessionRetired(_)
        | Event::PermissionRetry(_)
        | Event::BudgetWarning(_)
        | Event::PrefixChanged(_) => Ink::Note,
        Event::RunStart(_) | Event::RunEnd(_) | Event::PhaseStart(_) | Event::PhaseEnd(_) => Ink::Strong,
        Event::Context(_) | Event::ToolCall(_) | Event::Session(_) | Event::CheckStart(_) => Ink::Quiet,
        Event::AgentStart(_)
        | Event::AgentEnd(_)
        | Event::Envelope(_)
        | Event::Check(_)
        | Event::GatePass(_)
        | Event::EngineFallback(_)
        | Event::EngineContinuation(_)
        | Event::Approval(_)
        | Event::Verdict(_)
        | Event::Message(_)
        | Event::RotationStoodDown(_)
        | Event::UsageUnknown(_)
        | Event::Compacted(_)
        | Event::PhaseReused(_)
        | Event::StepSkipped(_)
        | Event::TreeChanged(_)
        | Event::ExternalChange(_)
        | Event::Committed(_)
        | Event::BoundedContinuation(_)
        | Event::ContextPruned(_)
        | Event::SessionEvicted(_)
        | Event::ApiKeyBilling(_) => Ink::Text,
    }
}

#[cfg(test)]
mod tests;
