//! The screen of a live run: what ended stands above for good, one block below is drawn again in place.
//!
//! No alternate screen, no hidden cursor and no raw mode: whatever happens, the terminal is as it was. The block
//! is erased by going up as many rows as it takes, counted anew when the terminal became narrower.

use std::io::{self, Write};

use chrono::{DateTime, Utc};

use super::frame::Frame;
use super::human::handle;
use super::lines::Lines;
use super::numbers::{bar, count, dollars, due, ms_between, percent, plural};
use super::paint::{Ink, Paint};
use super::projection::Projection;
use super::rows::PhaseRow;
use super::{text, words};
use crate::event::{BreakCause, Event, Record};
use crate::ids::PhaseName;

/// Phases at work that the block shows; a parallel block may have more.
const SHOWN: usize = 4;
/// Cells of the bar of a live context.
const BAR_CELLS: usize = 20;

/// The live screen of one run.
#[derive(Debug)]
pub struct Live {
    state: Projection,
    frame: Frame,
    paint: Paint,
    /// Lines that ended and are not written yet.
    above: Vec<String>,
    /// Columns of the lines of the block that stands on the screen.
    drawn: Vec<usize>,
}

impl Live {
    /// A screen that has seen nothing yet.
    pub fn new(paint: Paint) -> Self {
        let (state, frame) = (Projection::default(), Frame::default());
        Self { state, frame, paint, above: Vec::new(), drawn: Vec::new() }
    }

    /// What is known of the run so far.
    pub fn state(&self) -> &Projection {
        &self.state
    }

    /// What the run is shown against.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Takes in a record of an earlier stretch: it counts, and its lines were shown then.
    pub fn recall(&mut self, record: &Record) {
        self.state.push(record);
        if let Event::RunStart(start) = &record.event {
            self.frame.push(start);
        }
    }

    /// Takes in the next record. Nothing is written until [`Live::draw`].
    pub fn push(&mut self, record: &Record, width: usize) {
        self.recall(record);
        let lines = self.ended(record, width);
        self.above.extend(lines);
    }

    /// Writes what ended since the last time and draws the block anew, as of `now`, within `width` columns.
    ///
    /// # Errors
    ///
    /// What `out` answers.
    pub fn draw(&mut self, out: &mut dyn Write, now: DateTime<Utc>, width: usize) -> io::Result<()> {
        let block = self.block(now, width);
        let mut bytes = self.erase(width);
        for line in self.above.drain(..).chain(block.iter().map(|line| line.painted(self.paint))) {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        self.drawn = block.iter().map(|line| text::width(&line.text)).collect();
        out.write_all(&bytes)?;
        out.flush()
    }

    /// Takes the block off the screen; what ended stays.
    ///
    /// # Errors
    ///
    /// What `out` answers.
    pub fn clear(&mut self, out: &mut dyn Write, width: usize) -> io::Result<()> {
        let mut bytes = self.erase(width);
        self.drawn.clear();
        for line in self.above.drain(..) {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        out.write_all(&bytes)?;
        out.flush()
    }

    fn erase(&self, width: usize) -> Vec<u8> {
        let rows: usize = self.drawn.iter().map(|columns| columns.div_ceil(width.max(1)).max(1)).sum();
        if rows == 0 { Vec::new() } else { format!("\x1b[{rows}A\r\x1b[J").into_bytes() }
    }

    /// The lines that a record leaves above the block.
    fn ended(&self, record: &Record, width: usize) -> Vec<String> {
        let lines = Lines { frame: &self.frame, paint: self.paint, width, place: None };
        let outside = PhaseName::default();
        let phase = record.phase.as_ref().unwrap_or(&outside);
        let described = || words::describe(&record.event, record.ts);
        match &record.event {
            Event::RunStart(_) => self.header(width),
            Event::PhaseEnd(_) => self.state.phase(phase).map(|row| lines.ended(row)).unwrap_or_default(),
            Event::SessionRotation(rotation) => {
                let row = self.state.phase(phase).and_then(|row| row.rotation.as_ref());
                row.map(|row| lines.rotated(phase, rotation.agent.as_str(), row)).into_iter().collect()
            }
            Event::EngineRelay(relay) => {
                vec![lines.note("⇄", phase, relay.agent.as_str(), &words::engine_relay(relay))]
            }
            Event::EngineError(error) => {
                let what = format!("{}: {}", error.kind.as_str(), error.message);
                vec![lines.note("✗", phase, error.agent.as_str(), &what)]
            }
            Event::CacheBreak(broken) if broken.cause == BreakCause::Rotation => Vec::new(),
            Event::SessionRetired(_)
            | Event::RotationStoodDown(_)
            | Event::UsageUnknown(_)
            | Event::Compacted(_)
            | Event::PhaseReused(_)
            | Event::StepSkipped(_)
            | Event::PermissionRetry(_)
            | Event::ExternalChange(_)
            | Event::BudgetWarning(_)
            | Event::PrefixChanged(_)
            | Event::ApiKeyBilling(_)
            | Event::CacheBreak(_)
            | Event::Committed(_)
            | Event::Error(_) => vec![self.remark(&described(), width)],
            Event::RunEnd(_)
            | Event::PhaseStart(_)
            | Event::AgentStart(_)
            | Event::AgentEnd(_)
            | Event::Session(_)
            | Event::Context(_)
            | Event::ToolCall(_)
            | Event::Envelope(_)
            | Event::CheckStart(_)
            | Event::Check(_)
            | Event::GatePass(_)
            | Event::GateFail(_)
            | Event::EngineRetry(_)
            | Event::EngineFallback(_)
            | Event::EngineContinuation(_)
            | Event::Waiting(_)
            | Event::Approval(_)
            | Event::Verdict(_)
            | Event::Message(_)
            | Event::TreeChanged(_)
            | Event::BoundedContinuation(_)
            | Event::ContextPruned(_)
            | Event::SessionEvicted(_) => Vec::new(),
        }
    }

    fn header(&self, width: usize) -> Vec<String> {
        let run = &self.state.run;
        let resumed = if run.stretches > 1 { "  resumed" } else { "" };
        let line = text::line(&format!("{}  “{}”{resumed}", run.workflow, run.prompt)).into_owned();
        let name = format!("fia {}", text::line(run.run.as_str()));
        let rest = text::fit(&line, width.saturating_sub(text::width(&name) + 2)).into_owned();
        vec![format!("{}  {rest}", self.paint.ink(Ink::Strong, &name)), String::new()]
    }

    fn remark(&self, what: &str, width: usize) -> String {
        let line = text::line(what);
        format!("{} {}", self.paint.ink(Ink::Quiet, "·"), text::fit(&line, width.saturating_sub(2)))
    }

    fn block(&self, now: DateTime<Utc>, width: usize) -> Vec<BlockLine> {
        let mut block = vec![BlockLine::plain(String::new())];
        let running: Vec<&PhaseRow> = self.state.running().collect();
        for phase in running.iter().take(SHOWN) {
            block.push(self.phase_line(phase, now, width));
            block.extend(self.context_line(phase, width));
        }
        if running.len() > SHOWN {
            block.push(BlockLine::plain(format!("  and {} more", running.len() - SHOWN)));
        }
        block.extend(self.wait_lines(now));
        if !running.is_empty() {
            block.extend(self.spend_lines(width));
        }
        for line in &mut block {
            line.text = text::fit(&line.text, width).into_owned();
        }
        if block.len() == 1 { Vec::new() } else { block }
    }

    fn phase_line(&self, phase: &PhaseRow, now: DateTime<Utc>, width: usize) -> BlockLine {
        let lines = Lines { frame: &self.frame, paint: Paint::Plain, width, place: None };
        let doing = phase.last_tool.as_deref().unwrap_or("");
        let line = lines.running(phase, ms_between(phase.started_at, now), doing);
        BlockLine { text: line, ink: Ink::Running }
    }

    fn context_line(&self, phase: &PhaseRow, width: usize) -> Option<BlockLine> {
        let agent = self.state.agent(phase.agent.as_ref()?)?;
        let open = agent.open.as_ref().filter(|open| open.phase.as_ref() == Some(&phase.phase));
        let mut spend = phase.spend;
        if let Some(open) = open {
            spend.requests += open.requests;
            spend.tokens_known += open.tokens;
        }
        let full = self.frame.ceiling(&agent.agent).or(agent.window);
        let context = match (agent.context_tokens, full) {
            (Some(context), Some(full)) => format!("{} of {}", count(context), count(full)),
            (Some(context), None) => count(context),
            (None, _) if agent.unmetered => "not reported".to_owned(),
            (None, _) => "–".to_owned(),
        };
        let requests = plural(spend.requests, "request");
        let cache = spend.cache_hit_ratio().map(|share| format!("cache {}", percent(share)));
        let bar = agent.context_tokens.zip(full).map(|(context, full)| format!("{}  ", bar(context, full, BAR_CELLS)));
        let with_bar = format!("{}{context}", bar.unwrap_or_default());
        // The figures stay longer than their picture.
        let shrinking: [&[Option<&str>]; 4] = [
            &[Some(&with_bar), Some(&requests), cache.as_deref()],
            &[Some(&context), Some(&requests), cache.as_deref()],
            &[Some(&context), cache.as_deref()],
            &[Some(&context)],
        ];
        let line = |parts: &[Option<&str>]| {
            format!("  context  {}", parts.iter().flatten().copied().collect::<Vec<_>>().join("   "))
        };
        let fitting = shrinking.iter().map(|parts| line(parts)).find(|line| text::width(line) <= width);
        Some(BlockLine::plain(fitting.unwrap_or_else(|| line(&[Some(&context)]))))
    }

    /// What the run waits for, and what ends the wait.
    fn wait_lines(&self, now: DateTime<Utc>) -> Vec<BlockLine> {
        let Some(wait) = &self.state.run.waiting else { return Vec::new() };
        let who = wait.agent.as_ref().map(|agent| format!("{agent}: ")).unwrap_or_default();
        let until = wait.until.map(|until| format!(", until {}", due(until, now))).unwrap_or_default();
        let what = text::line(&format!("⏸ {who}{}{until}", wait.reason)).into_owned();
        let run = handle(&self.state.run.run);
        let way_out = if self.state.run.approval_open {
            format!("  fia approve {run} goes on, fia reject {run} ends the run")
        } else {
            "  waiting; Ctrl-C stops, fia resume goes on later".to_owned()
        };
        vec![BlockLine { text: what, ink: Ink::Note }, BlockLine::plain(way_out)]
    }

    fn spend_lines(&self, width: usize) -> Vec<BlockLine> {
        let spend = self.state.spend_so_far();
        let stop = self.frame.stop.as_ref();
        let budget = stop.map(|stop| stop.token_budget).filter(|&budget| budget > 0);
        let tokens = match budget {
            Some(budget) => format!("{} of {}", spend.tokens_text(crate::event::Usage::total), count(budget)),
            None => spend.tokens_text(crate::event::Usage::total),
        };
        let limit = stop.map(|stop| stop.cost_budget_usd).filter(|&limit| limit > 0.0);
        let cost = match limit {
            Some(limit) => format!("{} of {}", spend.cost_text(), dollars(limit)),
            None => spend.cost_text(),
        };
        let one = format!("  tokens   {}cost {cost}", text::left(&tokens, 37));
        let lines = if text::width(&one) <= width {
            vec![one]
        } else {
            vec![format!("  tokens   {tokens}"), format!("  cost     {cost}")]
        };
        lines.into_iter().map(BlockLine::plain).collect()
    }
}

/// A line of the block; its first character is its symbol.
struct BlockLine {
    text: String,
    ink: Ink,
}

impl BlockLine {
    fn plain(text: String) -> Self {
        Self { text, ink: Ink::Text }
    }

    fn painted(&self, paint: Paint) -> String {
        let cut = self.text.chars().next().map_or(0, char::len_utf8);
        let (symbol, rest) = self.text.split_at(cut);
        format!("{}{rest}", paint.ink(self.ink, symbol))
    }
}

#[cfg(test)]
mod tests;
