//! A report for people.

use std::io::{self, Write};

use super::{AgentReport, Breaks, BreaksByCause, PhaseReport, ROTATION_FORMULA, Report, RotationReport};
use crate::event::{BreakCause, LeaseKind, Usage};
use crate::view::dollars::{saved_words, yet_words};
use crate::view::human;
use crate::view::numbers::{self, UNKNOWN, count, dollars, factor, or_unknown, percent, plural, span};
use crate::view::paint::{Ink, Paint};
use crate::view::spend::Spend;
use crate::view::table::{Align, Cell, Table};
use crate::view::{text, words};

/// Rotations that are told one by one.
const TOLD: usize = 5;
/// Columns of the sentences where the width is not known.
const USUAL_WIDTH: usize = 110;

impl Report {
    /// Writes the report for people.
    ///
    /// # Errors
    ///
    /// What `out` answers.
    pub fn write_text(&self, out: &mut dyn Write, width: Option<usize>, paint: Paint) -> io::Result<()> {
        let head = format!("fia {}  {}  “{}”", self.run.run, self.run.workflow, self.run.prompt);
        writeln!(out, "{}\n", text::fit(&text::line(&head), width.unwrap_or(USUAL_WIDTH)))?;
        self.phase_table().write(out, width, paint)?;
        writeln!(out)?;
        self.agent_table().write(out, width, paint)?;
        writeln!(out)?;
        for sentence in self.sentences() {
            for line in text::wrap(&text::line(&sentence), width.unwrap_or(USUAL_WIDTH)) {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }

    fn phase_table(&self) -> Table {
        let mut table = Table::new([
            ("PHASE", Align::Left),
            ("AGENT", Align::Left),
            ("ENGINE", Align::Left),
            ("REQ", Align::Right),
            ("INPUT", Align::Right),
            ("WRITE", Align::Right),
            ("READ", Align::Right),
            ("OUTPUT", Align::Right),
            ("CACHE", Align::Right),
            ("REWRITE", Align::Right),
            ("COST", Align::Right),
            ("CONTEXT", Align::Right),
            ("TIME", Align::Right),
            ("LEASE", Align::Left),
            ("NOTE", Align::Left),
        ]);
        let worked = || self.phases.iter().filter(|phase| phase.agent.is_some());
        for phase in worked() {
            table.row(phase_cells(phase));
        }
        let elapsed = worked().filter_map(|phase| phase.elapsed_ms).fold(0, u64::saturating_add);
        let mut total: Vec<Cell> = vec!["total".into(), "".into(), "".into()];
        total.extend(spend_cells(&self.run.spend));
        total.extend(["".into(), self.run.spend.cost_text().into(), "".into(), span(elapsed).into()]);
        table.row(total.into_iter().map(|cell| cell.ink(Ink::Strong)));
        table
    }

    fn agent_table(&self) -> Table {
        let mut table = Table::new([
            ("AGENT", Align::Left),
            ("ENGINE", Align::Left),
            ("REQ", Align::Right),
            ("INPUT", Align::Right),
            ("WRITE", Align::Right),
            ("READ", Align::Right),
            ("OUTPUT", Align::Right),
            ("CACHE", Align::Right),
            ("REWRITE", Align::Right),
            ("COST", Align::Right),
            ("LARGEST", Align::Right),
            ("CEILING", Align::Right),
            ("WINDOW", Align::Right),
            ("ROTATED", Align::Right),
            ("RELAYED", Align::Right),
        ]);
        for agent in self.agents.iter().filter(|agent| agent.spend != Spend::default()) {
            table.row(agent_cells(agent));
        }
        table
    }

    fn sentences(&self) -> Vec<String> {
        let mut told = Vec::new();
        if self.run.outcome.is_none() {
            told.push("no outcome yet: `≥` stands before what is known so far.".to_owned());
        }
        let others: Vec<_> = self.phases.iter().filter(|phase| phase.agent.is_none()).collect();
        if !others.is_empty() {
            let elapsed = others.iter().filter_map(|phase| phase.elapsed_ms).fold(0, u64::saturating_add);
            told.push(format!(
                "checks, commits and approvals: {} in {}",
                plural(others.len() as u64, "phase"),
                span(elapsed)
            ));
        }
        if let Some(share) = self.read_share {
            told.push(format!("reads are {} of all tokens.", percent(share)));
        }
        told.extend(self.rotations.iter().take(TOLD).map(RotationReport::sentence));
        if self.rotations.len() > TOLD {
            let more = plural((self.rotations.len() - TOLD) as u64, "rotation");
            told.push(format!(
                "{more} more; all of them {}.",
                self.rotation_saved_tokens.map_or_else(|| "left nothing to compare".to_owned(), saved_words)
            ));
        }
        if !self.rotations.is_empty() {
            let id = human::handle(&self.run.run);
            told.push(format!(
                "saved = {ROTATION_FORMULA}. (fia simulate rotation --from-run {id} shows other ceilings.)"
            ));
        }
        if self.pruning.rounds > 0 {
            told.push(format!(
                "Pruning removed {} characters in {} and saved about {} reads over {}, at four characters a token.",
                count(self.pruning.chars_removed),
                plural(self.pruning.rounds, "round"),
                count(self.pruning.reads_saved),
                plural(self.pruning.requests, "request")
            ));
        }
        told.push(format!("cache breaks: {}", breaks(&self.cache_breaks).unwrap_or_else(|| "none".to_owned())));
        told
    }
}

impl RotationReport {
    fn sentence(&self) -> String {
        let saving = &self.saving;
        let place = saving.phase.as_ref().map(|phase| format!(" before {}", phase.as_str().replacen('_', " ", 1)));
        let place = place.unwrap_or_else(|| format!(" {}", saving.agent));
        let (Some(context), Some(would)) = (saving.context, saving.would) else {
            return format!("Rotating{place} left nothing to compare: no request after it reported its context.");
        };
        let same = |usd: f64| format!(" ({})", dollars(usd.abs()));
        let usd = self.saved_usd.map(|usd| yet_words(self.saved_tokens, usd).unwrap_or_else(|| same(usd)));
        format!(
            "Rotating{place} {}{}: {} at {} instead of {}, minus {} written again.",
            saved_words(self.saved_tokens),
            usd.unwrap_or_default(),
            plural(saving.requests, "request"),
            range(context),
            range(would),
            count(saving.written_again)
        )
    }
}

/// Cache breaks by cause; `None` when there were none.
fn breaks(causes: &BreaksByCause) -> Option<String> {
    let told = |(cause, breaks): (&BreakCause, &Breaks)| {
        format!("{} {} ({} tokens)", breaks.count, words::break_cause(*cause), count(breaks.tokens))
    };
    (!causes.is_empty()).then(|| causes.iter().map(told).collect::<Vec<_>>().join(", "))
}

fn range((first, largest): (u64, u64)) -> String {
    if first == largest { count(first) } else { format!("{}–{}", count(first), count(largest)) }
}

/// REQ to CACHE.
fn spend_cells(spend: &Spend) -> [Cell; 6] {
    let tokens = |kind: fn(&Usage) -> u64| Cell::from(spend.tokens_text(kind));
    [
        count(spend.requests).into(),
        tokens(|usage| usage.input),
        tokens(|usage| usage.cache_write),
        tokens(|usage| usage.cache_read),
        tokens(|usage| usage.output),
        or_unknown(spend.cache_hit_ratio(), percent).into(),
    ]
}

fn engine(engine: Option<crate::ids::EngineName>, model: Option<&str>) -> String {
    or_unknown(engine, |engine| words::engine_model(engine, model.unwrap_or_default()))
}

fn phase_cells(phase: &PhaseReport) -> Vec<Cell> {
    let name = phase.phase.as_str().replacen('_', " ", 1);
    let rotated = if phase.rotations > 0 { "↻  " } else { "" };
    let course = match (phase.context_before, phase.context_after) {
        (None, None) => UNKNOWN.to_owned(),
        (before, after) => format!("{rotated}{}→{}", or_unknown(before, count), or_unknown(after, count)),
    };
    let mut cells: Vec<Cell> = vec![
        name.into(),
        phase.agent.as_ref().map_or("", |agent| agent.as_str()).into(),
        engine(phase.engine, phase.model.as_deref()).into(),
    ];
    cells.extend(spend_cells(&phase.spend));
    cells.extend([
        or_unknown(phase.rewrite_factor, factor).into(),
        phase.spend.cost_text().into(),
        course.into(),
        or_unknown(phase.elapsed_ms, span).into(),
        or_unknown(phase.lease, |lease| lease_word(lease).to_owned()).into(),
        note(phase).into(),
    ]);
    cells
}

fn note(phase: &PhaseReport) -> String {
    let mut notes = Vec::new();
    notes.extend((phase.relays > 0).then(|| format!("⇄ {}", plural(u64::from(phase.relays), "relay"))));
    notes.extend(breaks(&phase.cache_breaks).map(|causes| format!("cache breaks: {causes}")));
    notes.join(", ")
}

fn lease_word(lease: LeaseKind) -> &'static str {
    match lease {
        LeaseKind::Cold => "cold",
        LeaseKind::Restored => "restored",
        LeaseKind::Warm => "warm",
    }
}

fn agent_cells(agent: &AgentReport) -> Vec<Cell> {
    let ceiling = |tokens: u64| if tokens == 0 { "off".to_owned() } else { count(tokens) };
    let mut cells: Vec<Cell> = vec![agent.agent.as_str().into(), engine(agent.engine, agent.model.as_deref()).into()];
    cells.extend(spend_cells(&agent.spend));
    cells.extend([
        or_unknown(agent.rewrite_factor, numbers::factor).into(),
        agent.spend.cost_text().into(),
        or_unknown(agent.context_max, count).into(),
        or_unknown(agent.ceiling, ceiling).into(),
        or_unknown(agent.window, count).into(),
        agent.rotations.to_string().into(),
        agent.relays.to_string().into(),
    ]);
    cells
}
