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

/// The lines of one phase.
#[derive(Debug, Clone, Copy)]
pub struct Lines<'a> {
    /// Ceilings and commands.
    pub frame: &'a Frame,
    /// Colour or not.
    pub paint: Paint,
    /// Columns of the screen; nothing is wider.
    pub width: usize,
}

impl Lines<'_> {
    /// A phase that ended, with a line more for each check that was not satisfied.
    pub fn ended(&self, phase: &PhaseRow) -> Vec<String> {
        let (symbol, ink) = symbol(phase.status);
        let detail = self.detail(phase);
        let mut lines = vec![self.line(symbol, ink, phase, &span(phase.elapsed_ms.unwrap_or_default()), &detail)];
        for check in phase.checks.iter().filter(|check| !check.passed) {
            let ended = words::check_end(check.exit, check.timed_out_minutes);
            lines.push(self.below(&format!("{}: {ended}, see {}", check.check, check.log)));
        }
        for gate in phase.gates.iter().filter(|gate| !gate.passed) {
            lines.push(self.below(&format!("{}: {}", gate.gate, gate.violations.join("; "))));
        }
        lines
    }

    /// A phase at work: its elapsed time, and what it does right now.
    pub fn running(&self, phase: &PhaseRow, elapsed_ms: u64, doing: &str) -> String {
        self.line("▶", Ink::Running, phase, &span(elapsed_ms), doing)
    }

    /// The live context of a phase at work, and its requests; nothing for one without an agent.
    pub fn so_far(&self, phase: &PhaseRow) -> Option<String> {
        let agent = phase.agent.as_ref().filter(|_| phase.status == PhaseState::Running)?;
        let context = phase.context_after.map_or_else(|| UNKNOWN.to_owned(), count);
        let ceiling = self.frame.ceiling(agent).map(|ceiling| format!(" of {}", count(ceiling))).unwrap_or_default();
        let (requests, tokens) = (plural(phase.spend.requests, "request"), phase.spend.tokens_text(Usage::total));
        Some(self.below(&format!("so far: context {context}{ceiling}, {requests}, {tokens} tokens")))
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
        let who = match &phase.agent {
            Some(agent) => {
                let engine =
                    phase.engine.map(|engine| words::engine_model(engine, phase.model.as_deref().unwrap_or("")));
                format!(
                    "{} {}",
                    text::left(&text::line(agent.as_str()), AGENT_COLUMNS - 1),
                    text::left(&text::line(&engine.unwrap_or_default()), ENGINE_COLUMNS - 1)
                )
            }
            None => text::left(&text::line(&self.command(phase)), AGENT_COLUMNS + ENGINE_COLUMNS - 1),
        };
        let line =
            format!("{} {who} {}  {}", number_and_step(&phase.phase), text::right(elapsed, 7), text::line(detail));
        format!("{} {}", self.paint.ink(ink, symbol), self.cut(line.trim_end()))
    }

    fn below(&self, what: &str) -> String {
        format!("  {}", self.cut(&format!("   {}{}", " ".repeat(STEP_COLUMNS), text::line(what))))
    }

    /// What is left of a line beside its symbol.
    fn cut(&self, line: &str) -> String {
        text::fit(line, self.width.saturating_sub(2)).into_owned()
    }

    /// What a phase without an agent runs.
    fn command(&self, phase: &PhaseRow) -> String {
        let checks = phase.checks.iter().filter_map(|check| self.frame.checks.get(check.check.as_str()));
        let commands: Vec<&str> = checks.map(String::as_str).collect();
        if commands.is_empty() { phase.description.clone() } else { commands.join("; ") }
    }

    fn detail(&self, phase: &PhaseRow) -> String {
        if phase.agent.is_none() {
            return phase.reason.clone().unwrap_or_default();
        }
        let context = phase.context_after.map_or_else(|| UNKNOWN.to_owned(), count);
        let ceiling = phase.agent.as_ref().and_then(|agent| self.frame.ceiling(agent));
        let over = phase.context_after.zip(ceiling).is_some_and(|(context, ceiling)| context >= ceiling);
        let over = if over { "▲ceiling" } else { "" };
        let cost = phase.spend.cost_text();
        let failed = phase.reason.as_ref().map(|reason| format!("  {reason}")).unwrap_or_default();
        format!("context {} {}{}{failed}", text::right(&context, 4), text::left(over, 9), text::right(&cost, 7))
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
