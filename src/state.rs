//! What has happened in a run, folded from its log.
//!
//! A live run and a resume go through the same [`RunState::apply`]; what it does not know does not exist.
//! [`next`](next::next) decides from this state and the plan what comes next.

pub mod budget;
mod folding;
pub mod next;
pub mod recovery;
pub mod relay;
pub mod stop;
mod transition;

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde_json::Value;

use crate::economy::watch::Watch;
use crate::event::{
    CheckRun, Content, Delivery, FailureKind, Order, Outcome, PathChange, PhaseStatus, RepoPath, RunEnd, Unreported,
    Usage, Verdict,
};
use crate::ids::{AgentName, EngineName, PhaseName, RunId, StepName};
use crate::session::AgentMap;

use recovery::Recovery;

pub use transition::{Impossible, Stage};

/// The folded log of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunState {
    /// The run; absent before its first record.
    pub run: Option<RunId>,
    /// Workflow, prompt and plan as the first record has them.
    pub origin: Option<Origin>,
    /// Stretches begun, this one included.
    pub stretches: u32,
    /// Limits in force in this stretch, as JSON.
    pub stop: Value,
    /// When the last record was written.
    pub last_record: Option<DateTime<Utc>>,
    /// When this stretch began.
    pub stretch_started: Option<DateTime<Utc>>,
    /// The last end of a stretch, if the present one has none: how the one before ended.
    pub last_end: Option<RunEnd>,
    /// Whether the present stretch has ended.
    pub ended: bool,
    /// What a phase brought about, until it is written as the end of the stretch.
    pub ending: Option<(Outcome, String)>,
    /// Steps that have been touched, by their own names, in the order of the first touch.
    pub steps: IndexMap<StepName, StepState>,
    /// Phases in the order of their first start.
    pub phases: IndexMap<PhaseName, PhaseState>,
    /// How many of them are open.
    pub open: usize,
    /// Which session each agent has.
    pub agents: AgentMap,
    /// Position in its list of engines that an agent was relayed to.
    pub relayed: BTreeMap<AgentName, usize>,
    /// How the requests of each agent went, and the cache break that the last one showed.
    pub watch: Watch,
    /// Engine deaths by engine, model and kind.
    pub deaths: BTreeMap<(EngineName, String, FailureKind), u32>,
    /// When the limit of an engine and model ends, as it said last.
    pub limited: BTreeMap<(EngineName, String), DateTime<Utc>>,
    /// What was spent over all stretches.
    pub spend: Spend,
    /// Every path that the run changed and kept: content before the run, and as the run last left it.
    pub changed: BTreeMap<RepoPath, (Option<Content>, Option<Content>)>,
    /// The same, change by change, oldest first.
    pub made: Vec<PathChange>,
    /// The verdict in force, and the phases whose agents have been told of it.
    pub verdict: Option<(Verdict, BTreeSet<PhaseName>)>,
    /// Whether no stretch has begun since that verdict.
    pub verdict_is_new: bool,
    /// Limits of which a share was reported as used, with the share.
    pub warned: BTreeSet<(String, u32)>,
    /// Deliveries of channel messages whose phase succeeded; committing one twice has no effect.
    pub deliveries: Vec<StagedDelivery>,
    /// Resumes and verdicts used up under SPEC 10.6.
    pub recovery: Recovery,
    /// Number of the last rescue of undone paths.
    pub rescues: u32,
    /// Phases taken over into this stretch.
    pub reused: usize,
    /// Agents whose engine was said not to report something.
    pub usage_unknown: BTreeSet<(AgentName, Unreported)>,
    /// Commits made, oldest first.
    pub commits: Vec<String>,
    /// Engines whose billing key was named.
    pub billing_named: BTreeSet<EngineName>,
}

/// What the first record of a run fixes.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// Name of the workflow.
    pub workflow: String,
    /// What was asked for.
    pub prompt: String,
    /// SHA-256 of the plan.
    pub plan_digest: String,
    /// The plan as JSON; null in a log that lost its first record.
    pub plan: Value,
    /// The commit that was checked out.
    pub base: Option<String>,
    /// Whether the run has a work tree of its own.
    pub worktree: bool,
    /// Git's name for the linked work tree that it works in; `None` in the main one.
    pub linked: Option<String>,
    /// When the run began.
    pub started: DateTime<Utc>,
}

/// What is known of a step of the workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct StepState {
    /// Its position in the workflow.
    pub index: usize,
    /// How it stands in the present stretch.
    pub status: StepStatus,
    /// Its last phase.
    pub phase: Option<PhaseName>,
    /// Rounds of a repair tested so far; 0 elsewhere.
    pub rounds: u32,
    /// The round before the first one that the attempt cap counts: moved by a verdict.
    pub rounds_before: u32,
}

impl StepState {
    fn untouched(index: usize) -> Self {
        Self { index, status: StepStatus::Pending, phase: None, rounds: 0, rounds_before: 0 }
    }
}

/// How a step stands in the present stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepStatus {
    /// Still to come, or under way.
    Pending,
    /// An earlier stretch finished its agent phase or commit, and nothing since made that stale.
    Reusable,
    /// Done in this stretch or taken over into it.
    Done {
        /// Of checks: the verdict was the expected one. Of a review: as reported. Else true.
        passed: bool,
    },
    /// Passed over: its condition does not hold.
    Skipped,
}

/// What is known of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseState {
    /// The order that it follows.
    pub order: Order,
    /// How often it was started.
    pub attempts: u32,
    /// When it was started last.
    pub started: DateTime<Utc>,
    /// When the first of the attempts right before this one was started that were cut off; `None` when the one before
    /// came to an end.
    pub cut_off_since: Option<DateTime<Utc>>,
    /// Legs begun over all attempts.
    pub legs: u32,
    /// How it stands.
    pub progress: Progress,
    /// Its envelope, once one validated.
    pub envelope: Option<Value>,
    /// Checks that ran in its last attempt.
    pub checks: Vec<CheckRun>,
    /// Content of all that the run had changed when a check of a repair ended.
    pub tree_sha256: Option<String>,
    /// Tokens spent in it, all legs.
    pub usage: Usage,
    /// Transient deaths in a row, in this attempt.
    pub transient_deaths: u32,
    /// Whether any engine died in this phase since its last success.
    pub death_marker: bool,
    /// The engine that died last in it, and of what.
    pub last_death: Option<(EngineName, FailureKind)>,
    /// Kinds of failure for which it was given a fresh session, once each: overflow, lost session.
    pub renewed: BTreeSet<FailureKind>,
    /// The wait for a limit that it ended with, until it is started again.
    pub wait: Option<Wait>,
    /// Waits for limits in this stretch.
    pub waits: u32,
    /// When the first of them began.
    pub waits_since: Option<DateTime<Utc>>,
    /// Shares of its own token budget that were warned of, in percent.
    pub warned: BTreeSet<u32>,
    /// What its legs changed and kept, this attempt and earlier ones.
    pub changes: Vec<PathChange>,
    /// Whether a write against the rules was undone in it already.
    pub permission_retried: bool,
    /// Deliveries staged and not yet committed.
    pub staged: Vec<Delivery>,
    /// Whether a verdict asks for it again, or work before it was done anew since: it is not taken over then.
    pub stale: bool,
}

/// A wait for a limit's reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Until then.
    pub until: DateTime<Utc>,
    /// Who waits.
    pub agent: Option<AgentName>,
    /// Which wait of the phase this is, from 1.
    pub count: u32,
}

/// `reason` of a `waiting` record that waits for a limit's reset.
pub const WAITS_FOR_LIMIT: &str = "limit";

/// How a phase stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Started, no end yet.
    Open,
    /// Started by a stretch that was killed.
    Interrupted,
    /// Ended.
    Ended(PhaseStatus),
}

/// A delivery of channel messages whose phase succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedDelivery {
    /// Who heard it.
    pub agent: AgentName,
    /// What was delivered.
    pub delivery: Delivery,
    /// The session that heard it; `None` when its engine never named one.
    pub session: Option<crate::ids::SessionId>,
}

/// Tokens and dollars of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spend {
    /// Tokens by kind, as far as they are known.
    pub usage: Usage,
    /// Dollars, as far as they are known.
    pub cost_usd: f64,
    /// Turns whose tokens are unknown.
    pub unknown_usage: u32,
    /// Turns whose dollars are unknown.
    pub unknown_cost: u32,
    /// Turns in all.
    pub turns: u32,
    /// Turns that have begun and not ended, by agent: what their requests showed is in none of the sums yet.
    pub open: BTreeMap<AgentName, OpenTurn>,
    /// Milliseconds of earlier stretches; of one that was killed, up to its last record.
    pub earlier_ms: u64,
}

/// A turn whose end is not recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OpenTurn {
    /// Its phase; none of a question between stretches.
    pub phase: Option<PhaseName>,
    /// Tokens of its requests so far.
    pub usage: Usage,
    /// Dollars of those whose prices are known.
    pub cost_usd: f64,
}

impl Spend {
    /// Tokens, or `None` when those of any turn are unknown.
    pub fn known_usage(&self) -> Option<Usage> {
        (self.unknown_usage == 0 && self.open.is_empty()).then_some(self.usage)
    }

    /// Dollars, or `None` when those of any turn are unknown.
    pub fn known_cost(&self) -> Option<f64> {
        (self.unknown_cost == 0 && self.open.is_empty()).then_some(self.cost_usd)
    }
}

impl RunState {
    /// The step of this name, if it was touched.
    pub fn step(&self, name: &StepName) -> Option<&StepState> {
        self.steps.get(name)
    }

    /// The phases that are open now.
    pub fn open_phases(&self) -> impl Iterator<Item = (&PhaseName, &PhaseState)> {
        self.phases.iter().filter(|(_, phase)| phase.progress == Progress::Open).take(self.open)
    }

    /// The last envelope of a step.
    pub fn envelope(&self, step: &StepName) -> Option<&Value> {
        self.phases.get(self.step(step)?.phase.as_ref()?)?.envelope.as_ref()
    }

    /// The deaths of one engine, model and kind.
    pub fn deaths_of(&self, engine: EngineName, model: &str, kind: FailureKind) -> u32 {
        self.deaths.get(&(engine, model.to_owned(), kind)).copied().unwrap_or(0)
    }

    /// The last leg of an agent: its phase and number.
    pub fn last_leg(&self, agent: &AgentName) -> Option<(&PhaseName, u32)> {
        let mut worked =
            self.phases.iter().filter(|(_, phase)| phase.order.work.agent() == Some(agent) && phase.legs > 0);
        worked.next_back().map(|(name, phase)| (name, phase.legs))
    }

    /// The number that the next phase gets.
    pub fn next_phase(&self, label: &str) -> PhaseName {
        PhaseName::new(format!("{:02}_{label}", self.phases.len() + 1))
    }

    /// The outcome of the run: that of its last stretch, if it ended.
    pub fn outcome(&self) -> Option<Outcome> {
        self.last_end.as_ref().filter(|_| self.ended).map(|end| end.outcome)
    }
}

#[cfg(test)]
mod tests;
