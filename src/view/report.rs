//! `fia report`: what a run cost, phase by phase and agent by agent, and what rotation and pruning saved.
//!
//! One pass, memory by phases and agents. What an engine did not report is null in JSON and `–` in the text; a sum
//! with such a part shows what is known after `≥`.

mod words;

use std::collections::BTreeMap;

use serde::Serialize;

use super::dollars::{CachePrices, prices_of, saved_usd};
use super::frame::Frame;
use super::numbers::share;
use super::projection::Projection;
use super::rows::{AgentRow, PhaseRow, PhaseState, RunSummary};
use super::savings::{PruningSaving, RotationSaving, Savings};
use super::spend::Spend;
use crate::event::{BreakCause, CacheBreak, Event, LeaseKind, Record};
use crate::ids::{AgentName, EngineName, PhaseName};

/// How `saved` is computed, as text and JSON say it.
pub const ROTATION_FORMULA: &str = "sum over the requests of the fresh session of (would - context), less what its \
    first request wrote again; would = context of the session left + (context - context of the first request), at \
    most the model's window";

/// The fold that a report is made of.
#[derive(Debug, Default)]
pub struct ReportFold {
    state: Projection,
    frame: Frame,
    savings: Savings,
    breaks: BreaksByCause,
    phase_breaks: BTreeMap<PhaseName, BreaksByCause>,
}

/// Cache breaks, their causes told apart.
pub type BreaksByCause = BTreeMap<BreakCause, Breaks>;

/// Cache breaks of one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Breaks {
    /// How many.
    pub count: u64,
    /// Tokens that were expected in the cache and not found.
    pub tokens: u64,
}

/// A report: `fia report --json` is this object.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The run in one row; its `spend` is the total.
    pub run: RunSummary,
    /// Share of cache reads in all known tokens; null when there are none.
    pub read_share: Option<f64>,
    /// Share of known input tokens that came from the cache; null when there are none.
    pub cache_hit_ratio: Option<f64>,
    /// Every phase, in order.
    pub phases: Vec<PhaseReport>,
    /// Every agent, in roster order.
    pub agents: Vec<AgentReport>,
    /// Tokens that rotation saved; null when there is nothing to compare.
    pub rotation_saved_tokens: Option<i64>,
    /// How that was computed.
    pub rotation_formula: &'static str,
    /// Each rotation.
    pub rotations: Vec<RotationReport>,
    /// What pruning saved.
    pub pruning: PruningSaving,
    /// Cache breaks by cause.
    pub cache_breaks: BreaksByCause,
}

/// A phase of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseReport {
    /// The phase.
    pub phase: PhaseName,
    /// Kind of work.
    pub kind: String,
    /// Where it stands.
    pub status: PhaseState,
    /// The agent, if one works.
    pub agent: Option<AgentName>,
    /// The engine of its last turn.
    pub engine: Option<EngineName>,
    /// Its model.
    pub model: Option<String>,
    /// Its effort or thinking level.
    pub level: Option<String>,
    /// What the engine knew of the session at the first turn.
    pub lease: Option<LeaseKind>,
    /// Turns, requests, tokens and dollars.
    pub spend: Spend,
    /// Share of known input tokens that came from the cache; null is unknown.
    pub cache_hit_ratio: Option<f64>,
    /// Tokens written to the cache over the largest live context; null is unknown.
    pub rewrite_factor: Option<f64>,
    /// Live context when it began: 0 in a fresh session, null is unknown.
    pub context_before: Option<u64>,
    /// Live context at its last request; null is unknown.
    pub context_after: Option<u64>,
    /// The largest; null is unknown.
    pub context_max: Option<u64>,
    /// The agent's ceiling, 0 never rotates; null is unknown.
    pub ceiling: Option<u64>,
    /// The model's window; null is unknown.
    pub window: Option<u64>,
    /// Rotations at its start and inside it.
    pub rotations: u32,
    /// How often it was handed to another engine.
    pub relays: u32,
    /// Cache breaks by cause.
    pub cache_breaks: BreaksByCause,
    /// How long it took; null while it runs.
    pub elapsed_ms: Option<u64>,
}

/// An agent of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgentReport {
    /// The agent.
    pub agent: AgentName,
    /// The engine of its last turn.
    pub engine: Option<EngineName>,
    /// Its model.
    pub model: Option<String>,
    /// Turns, requests, tokens and dollars.
    pub spend: Spend,
    /// Share of known input tokens that came from the cache; null is unknown.
    pub cache_hit_ratio: Option<f64>,
    /// Tokens written to the cache over the largest live context; null is unknown.
    pub rewrite_factor: Option<f64>,
    /// Live context now; null is unknown.
    pub context_tokens: Option<u64>,
    /// The largest; null is unknown.
    pub context_max: Option<u64>,
    /// The ceiling, 0 never rotates; null is unknown.
    pub ceiling: Option<u64>,
    /// The model's window; null is unknown.
    pub window: Option<u64>,
    /// Sessions replaced on purpose.
    pub rotations: u32,
    /// Phases handed to another engine.
    pub relays: u32,
    /// Cache breaks.
    pub cache_breaks: u32,
}

/// A rotation of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RotationReport {
    /// What it saved, and from what that was computed.
    #[serde(flatten)]
    pub saving: RotationSaving,
    /// Tokens saved, less those written again.
    pub saved_tokens: i64,
    /// The same in dollars, below 0 where what was written again cost more than the reads that were saved; null where the model has no price.
    pub saved_usd: Option<f64>,
}

impl ReportFold {
    /// Takes in the next record.
    pub fn push(&mut self, record: &Record) {
        self.state.push(record);
        self.savings.push(record);
        if let Event::RunStart(start) = &record.event {
            self.frame.push(start);
        }
        if let Event::CacheBreak(broken) = &record.event {
            count(&mut self.breaks, broken);
            if let Some(phase) = &record.phase {
                count(self.phase_breaks.entry(phase.clone()).or_default(), broken);
            }
        }
    }

    /// What is known of the run so far.
    pub fn state(&self) -> &Projection {
        &self.state
    }

    /// What the run is shown against.
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// What rotation and pruning saved so far.
    pub fn savings(&self) -> &Savings {
        &self.savings
    }

    /// The report so far; `prices` knows what the cache of a model costs, by its name.
    pub fn report(&self, prices: impl Fn(&str) -> Option<CachePrices>) -> Report {
        let state = &self.state.clone().so_far();
        let rotations =
            self.savings.rotations().iter().map(|saving| RotationReport::of(saving, prices_of(saving, &prices, state)));
        Report {
            run: state.run.clone(),
            read_share: state.run.spend.read_share(),
            cache_hit_ratio: state.run.spend.cache_hit_ratio(),
            phases: state.phases.iter().map(|row| self.phase(row, state)).collect(),
            agents: state.agents.iter().map(AgentReport::of).collect(),
            rotation_saved_tokens: self.savings.rotation_net(),
            rotation_formula: ROTATION_FORMULA,
            rotations: rotations.collect(),
            pruning: self.savings.pruning().clone(),
            cache_breaks: self.breaks.clone(),
        }
    }

    fn phase(&self, row: &PhaseRow, state: &Projection) -> PhaseReport {
        let agent = row.agent.as_ref().and_then(|agent| state.agent(agent));
        PhaseReport {
            phase: row.phase.clone(),
            kind: row.kind.clone(),
            status: row.status,
            agent: row.agent.clone(),
            engine: row.engine,
            model: row.model.clone(),
            level: row.level.clone(),
            lease: row.lease,
            spend: row.spend,
            cache_hit_ratio: row.spend.cache_hit_ratio(),
            rewrite_factor: row.rewrite_factor(),
            context_before: row.context_before,
            context_after: row.context_after,
            context_max: row.context_max,
            ceiling: agent.and_then(|agent| agent.ceiling),
            window: agent.and_then(|agent| agent.window),
            rotations: row.rotations,
            relays: row.relays,
            cache_breaks: self.phase_breaks.get(&row.phase).cloned().unwrap_or_default(),
            elapsed_ms: row.elapsed_ms,
        }
    }
}

fn count(causes: &mut BreaksByCause, broken: &CacheBreak) {
    let breaks = causes.entry(broken.cause).or_default();
    breaks.count += 1;
    breaks.tokens = breaks.tokens.saturating_add(broken.expected.saturating_sub(broken.seen));
}

impl AgentReport {
    fn of(row: &AgentRow) -> Self {
        let largest = row.context_max.filter(|&largest| largest > 0);
        let written = row.spend.tokens.filter(|usage| !usage.is_zero()).map(|usage| usage.cache_write);
        Self {
            agent: row.agent.clone(),
            engine: row.engine,
            model: row.model.clone(),
            spend: row.spend,
            cache_hit_ratio: row.spend.cache_hit_ratio(),
            rewrite_factor: written.zip(largest).and_then(|(written, largest)| share(written, largest)),
            context_tokens: row.context_tokens,
            context_max: row.context_max,
            ceiling: row.ceiling,
            window: row.window,
            rotations: row.rotations,
            relays: row.relays,
            cache_breaks: row.cache_breaks,
        }
    }
}

impl RotationReport {
    fn of(saving: &RotationSaving, prices: Option<CachePrices>) -> Self {
        Self { saved_tokens: saving.net(), saved_usd: saved_usd(saving, prices), saving: saving.clone() }
    }
}

#[cfg(test)]
mod tests;
