//! The line of a phase as the live screen leaves it behind and `show` lists it: within 80 columns.

use super::frame::Frame;
use super::numbers::{UNKNOWN, bytes, count, plural, span};
use super::paint::{Ink, Paint};
use super::rows::{PhaseRow, PhaseState, RotationRow};
use super::{text, words};
use crate::event::Usage;
use crate::ids::PhaseName;

/// Columns of a line before the elapsed time: symbol, number, step, agent, engine.
const STEP_COLUMNS: usize = 10;
const AGENT_COLUMNS: usize = 10;
const ENGINE_COLUMNS: usize = 15;
/// Columns below which a screen has no room for agents and engines.
const NARROW: usize = 72;

/// The lines of one phase.
#[derive(Debug, Clone, Copy)]
pub struct Lines<'a> {
    /// Ceilings and commands.
    pub frame: &'a Frame,
    /// Colour or not.
    pub paint: Paint,
    /// Columns of the screen; nothing is wider.
    pub width: usize,
    /// The run's directory as a command here can be given it; `None` where files are named relative to it.
    pub place: Option<&'a str>,
}

impl Lines<'_> {
    /// A phase that ended, with a line more for each check that was not satisfied.
    pub fn ended(&self, phase: &PhaseRow) -> Vec<String> {
        let (symbol, ink) = symbol(phase.status);
        let elapsed = span(phase.elapsed_ms.unwrap_or_default());
        let (detail, reason) = (self.detail(phase), phase.reason.clone().unwrap_or_default());
        let both = format!("{detail}  {reason}");
        let whole = self.whole_line(phase, &elapsed, both.trim());
        let mut lines = if text::width(&whole) <= self.room() {
            vec![self.line(symbol, ink, phase, &elapsed, both.trim())]
        } else {
            let first = self.line(symbol, ink, phase, &elapsed, &detail);
            std::iter::once(first).chain(self.below(&reason)).collect()
        };
        for check in phase.checks.iter().filter(|check| !check.passed) {
            let ended = words::check_end(check.exit, check.timed_out_minutes);
            let log = self.place.map_or_else(|| check.log.clone(), |place| format!("{place}/{}", check.log));
            lines.extend(self.below(&format!("{}: {ended}, see {log}", check.check)));
        }
        for gate in phase.gates.iter().filter(|gate| !gate.passed) {
            lines.extend(self.below(&format!("{}: {}", gate.gate, gate.violations.join("; "))));
        }
        lines
    }

    /// A phase at work: its elapsed time, and what it does right now.
    pub fn running(&self, phase: &PhaseRow, elapsed_ms: u64, doing: &str) -> String {
        self.line("▶", Ink::Running, phase, &span(elapsed_ms), doing)
    }

    /// The live context of a phase at work, and its requests; nothing for one without an agent.
    pub fn so_far(&self, phase: &PhaseRow) -> Vec<String> {
        let Some(agent) = phase.agent.as_ref().filter(|_| phase.status == PhaseState::Running) else {
            return Vec::new();
        };
        let context = phase.context_after.map_or_else(|| UNKNOWN.to_owned(), count);
        let ceiling = self.frame.ceiling(agent).map(|ceiling| format!(" of {}", count(ceiling))).unwrap_or_default();
        let (requests, tokens) = (plural(phase.spend.requests, "request"), phase.spend.tokens_text(Usage::total));
        self.below(&format!("so far: context {context}{ceiling}, {requests}, {tokens} tokens"))
    }

    /// A fresh session on purpose.
    pub fn rotated(&self, phase: &PhaseName, agent: &str, rotation: &RotationRow) -> String {
        let reason = words::rotation_reason(rotation.reason, rotation.context_tokens, rotation.cap);
        let preamble = bytes(rotation.preamble_bytes as u64);
        self.note("↻", phase, agent, &format!("fresh session: {reason}, reseed {preamble}"))
    }

    /// Something about an agent in a phase that deserves a look.
    pub fn note(&self, symbol: &str, phase: &PhaseName, agent: &str, what: &str) -> String {
        let line = format!(
            "{} {}{}",
            number_and_step(phase),
            text::left(&text::line(agent), AGENT_COLUMNS - 1),
            text::line(&format!(" {what}"))
        );
        format!("{} {}", self.paint.ink(Ink::Note, symbol), self.cut(&line))
    }

    fn line(&self, symbol: &str, ink: Ink, phase: &PhaseRow, elapsed: &str, detail: &str) -> String {
        format!("{} {}", self.paint.ink(ink, symbol), self.cut(&self.whole_line(phase, elapsed, detail)))
    }

    /// A line beside its symbol, however long.
    fn whole_line(&self, phase: &PhaseRow, elapsed: &str, detail: &str) -> String {
        // On a narrow screen what it costs and how full it is goes before who works.
        let is_narrow = self.width < NARROW;
        let who = match &phase.agent {
            Some(_) if is_narrow => String::new(),
            Some(agent) => {
                let engine =
                    phase.engine.map(|engine| words::engine_model(engine, phase.model.as_deref().unwrap_or("")));
                format!(
                    "{} {}",
                    text::left(&text::line(agent.as_str()), AGENT_COLUMNS - 1),
                    text::left(&text::line(&engine.unwrap_or_default()), ENGINE_COLUMNS - 1)
                )
            }
            None if is_narrow => text::fit(&text::line(&self.command(phase)), AGENT_COLUMNS).into_owned(),
            None => text::left(&text::line(&self.command(phase)), AGENT_COLUMNS + ENGINE_COLUMNS - 1),
        };
        let line =
            format!("{} {who} {}  {}", number_and_step(&phase.phase), text::right(elapsed, 7), text::line(detail));
        line.trim_end().to_owned()
    }

    /// Something about the phase in the line above, in as many lines as it takes.
    fn below(&self, what: &str) -> Vec<String> {
        let indent = if self.width < NARROW { 2 } else { STEP_COLUMNS + 5 };
        let lines = text::wrap(&text::line(what), self.width.saturating_sub(indent).max(1));
        lines.iter().map(|line| format!("{}{line}", " ".repeat(indent))).collect()
    }

    /// Columns beside the symbol.
    fn room(&self) -> usize {
        self.width.saturating_sub(2)
    }

    /// What is left of a line beside its symbol.
    fn cut(&self, line: &str) -> String {
        text::fit(line, self.room()).into_owned()
    }

    /// What a phase without an agent runs.
    fn command(&self, phase: &PhaseRow) -> String {
        let checks = phase.checks.iter().filter_map(|check| self.frame.checks.get(check.check.as_str()));
        let commands: Vec<&str> = checks.map(String::as_str).collect();
        if commands.is_empty() { phase.description.clone() } else { commands.join("; ") }
    }

    fn detail(&self, phase: &PhaseRow) -> String {
        if phase.agent.is_none() {
            return String::new();
        }
        let context = phase.context_after.map_or_else(|| UNKNOWN.to_owned(), count);
        let ceiling = phase.agent.as_ref().and_then(|agent| self.frame.ceiling(agent));
        let over = phase.context_after.zip(ceiling).is_some_and(|(context, ceiling)| context >= ceiling);
        let over = if over { "▲ceiling" } else { "" };
        let cost = phase.spend.cost_text();
        if self.width < NARROW {
            return format!("{context}{} {cost}", if over.is_empty() { "" } else { "▲" });
        }
        format!("context {} {}{}", text::right(&context, 4), text::left(over, 9), text::right(&cost, 7))
    }
}

fn symbol(status: PhaseState) -> (&'static str, Ink) {
    match status {
        PhaseState::Running => ("▶", Ink::Running),
        PhaseState::Success => ("✓", Ink::Good),
        PhaseState::Red | PhaseState::Failed => ("✗", Ink::Bad),
        PhaseState::Stopped | PhaseState::Interrupted => ("·", Ink::Note),
    }
}

/// `04_fix_1` as `04 fix_1`, filled up to its columns.
fn number_and_step(phase: &PhaseName) -> String {
    let name = text::line(phase.as_str());
    let (number, step) = name.split_once('_').unwrap_or(("", &name));
    format!("{} {}", text::left(number, 2), text::left(step, STEP_COLUMNS - 1))
}
