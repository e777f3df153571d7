//! The plain log of a run off a terminal: one line an event worth reading, each with its time.
//!
//! Requests, tool calls and turns are not worth a line; `fia events` has them.

use std::io::{self, Write};

use super::numbers::{UNKNOWN, clock, count, span};
use super::projection::Projection;
use super::rows::{PhaseRow, PhaseState};
use super::{text, words};
use crate::event::{AgentStart, Approval, BreakCause, Event, Record, Waiting};
use crate::ids::RunId;

/// The fold that writes the plain log.
#[derive(Debug, Default)]
pub struct PlainLog {
    state: Projection,
}

impl PlainLog {
    /// A log that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is known of the run so far.
    pub fn state(&self) -> &Projection {
        &self.state
    }

    /// Takes in the next record and writes its line, if it is worth one.
    ///
    /// # Errors
    ///
    /// What `out` answers.
    pub fn push(&mut self, record: &Record, out: &mut dyn Write) -> io::Result<()> {
        let first_turn =
            matches!(&record.event, Event::AgentStart(_)) && self.phase(record).is_some_and(|phase| phase.legs == 0);
        self.state.push(record);
        match self.line(record, first_turn) {
            Some(line) => writeln!(out, "{} {}", clock(record.ts), text::line(&line)),
            None => Ok(()),
        }
    }

    fn phase(&self, record: &Record) -> Option<&PhaseRow> {
        self.state.phase(record.phase.as_ref()?)
    }

    fn line(&self, record: &Record, first_turn: bool) -> Option<String> {
        let phase = record.phase.as_ref().map_or("", |phase| phase.as_str());
        let described = || words::describe(&record.event, record.ts);
        Some(match &record.event {
            Event::RunStart(start) if start.resumed => {
                format!("run {} resumed: {}", record.run, self.state.run.workflow)
            }
            Event::RunStart(start) => format!("run {} {}", record.run, start.workflow),
            Event::RunEnd(_) => format!("run ended: {}", described()),
            // The line of an agent's phase names engine and session, which its first turn brings.
            Event::PhaseStart(start) if start.agent.is_some() => return None,
            Event::PhaseStart(start) => format!("phase {phase} started: {}", start.description),
            Event::AgentStart(start) => return turn_line(phase, start, first_turn),
            Event::PhaseEnd(_) => phase_line(self.phase(record)?),
            Event::Check(check) if check.passed => return None,
            Event::Check(_) | Event::GateFail(_) | Event::Committed(_) | Event::Approval(Approval::Asked) => {
                format!("phase {phase}: {}", described())
            }
            Event::EngineError(_) => format!("engine failed: {}", described()),
            Event::EngineRelay(_) => format!("relay: {}", described()),
            Event::EngineFallback(fallback) if fallback.ready => return None,
            Event::Error(fault) => format!("error: {}", fault.message),
            // That of a rotation was told with it.
            Event::CacheBreak(broken) if broken.cause == BreakCause::Rotation => return None,
            Event::CacheBreak(_) => format!("cache break: {}", described()),
            Event::SessionRotation(_) => format!("session rotated: {}", described().replace('≥', ">=")),
            Event::Waiting(waiting) => self.wait_line(record, waiting),
            Event::BudgetWarning(_) => format!("budget: {}", described()),
            Event::PhaseReused(_)
            | Event::StepSkipped(_)
            | Event::Approval(Approval::Answered { .. })
            | Event::Verdict(_)
            | Event::EngineRetry(_)
            | Event::EngineFallback(_)
            | Event::SessionRetired(_)
            | Event::RotationStoodDown(_)
            | Event::UsageUnknown(_)
            | Event::Compacted(_)
            | Event::PermissionRetry(_)
            | Event::ExternalChange(_)
            | Event::BoundedContinuation(_)
            | Event::PrefixChanged(_)
            | Event::ApiKeyBilling(_) => described(),
            Event::ContextPruned(pruned) if pruned.has_shortened() => described(),
            Event::ContextPruned(_)
            | Event::AgentEnd(_)
            | Event::Session(_)
            | Event::Context(_)
            | Event::ToolCall(_)
            | Event::Envelope(_)
            | Event::CheckStart(_)
            | Event::GatePass(_)
            | Event::EngineContinuation(_)
            | Event::Message(_)
            | Event::TreeChanged(_)
            | Event::SessionEvicted(_) => return None,
        })
    }

    fn wait_line(&self, record: &Record, waiting: &Waiting) -> String {
        let how = format!("fia stop {} ends it, fia resume goes on later", handle(&self.state.run.run));
        format!("{}; {how}", words::wait(waiting, record.ts))
    }
}

/// How people name a run in a command: its four letters, or the whole id where those could be part of a date.
pub fn handle(id: &RunId) -> &str {
    let short = id.short();
    if short.bytes().all(|byte| byte.is_ascii_digit()) { id.as_str() } else { short }
}

fn turn_line(phase: &str, start: &AgentStart, first_turn: bool) -> Option<String> {
    let what = words::agent_start(start);
    match (first_turn, start.leg, start.turn) {
        (true, ..) => Some(format!("phase {phase} started: {what}")),
        (false, leg, 1) => Some(format!("phase {phase} leg {leg}: {what}")),
        (false, ..) => None,
    }
}

fn phase_line(phase: &PhaseRow) -> String {
    let elapsed = span(phase.elapsed_ms.unwrap_or_default());
    let how = if phase.status == PhaseState::Success { "done" } else { phase.status.as_str() };
    let mut line = format!("phase {} {how} in {elapsed}", phase.phase);
    if phase.agent.is_some() {
        let context = phase.context_after.map_or_else(|| "unknown".to_owned(), count);
        let cost = match phase.spend.cost_text() {
            unknown if unknown == UNKNOWN => "cost unknown".to_owned(),
            cost => cost,
        };
        line = format!("{line}: context {context}, {cost}");
    }
    if let Some(reason) = &phase.reason {
        line = format!("{line}: {reason}");
    }
    line
}

#[cfg(test)]
mod tests;
