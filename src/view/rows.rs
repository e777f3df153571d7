//! What is known of a run, of each of its phases and of each of its agents: the rows of all tables, and the JSON
//! that `runs`, `show`, `phases` and `agents` answer with. Names of fields are stable.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::numbers;
use super::spend::Spend;
use super::trace::Trace;
use crate::event::{LeaseKind, Outcome, PhaseStatus, RepoPath, RotationReason, Usage};
use crate::ids::{AgentName, EngineName, PhaseName, RunId, Seq, SessionId, StepName};

/// A run in one row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: String,
    /// What was asked for, its first 200 characters.
    pub prompt: String,
    /// Version of fia that wrote the last stretch.
    pub fia_version: String,
    /// How its last stretch ended; null while it is open, or when fia was killed.
    pub outcome: Option<Outcome>,
    /// Why, for people.
    pub reason: Option<String>,
    /// Start of the first stretch.
    pub started_at: DateTime<Utc>,
    /// Start of the last stretch.
    pub stretch_at: DateTime<Utc>,
    /// Time of the last record.
    pub updated_at: DateTime<Utc>,
    /// Time spent in ended stretches, and in the open one up to its last record.
    pub elapsed_ms: u64,
    /// The part of it before the last stretch.
    pub elapsed_before_ms: u64,
    /// Starts and resumes.
    pub stretches: u32,
    /// Tokens, dollars and requests.
    pub spend: Spend,
    /// Sessions replaced on purpose.
    pub rotations: u32,
    /// Phases handed to another engine.
    pub relays: u32,
    /// Requests that found less in the cache than was left there.
    pub cache_breaks: u32,
    /// The branch that was checked out.
    pub branch: Option<String>,
    /// Whether the run has a work tree of its own.
    pub worktree: bool,
    /// Commits made.
    pub commits: u32,
    /// The last of them.
    pub commit: Option<String>,
    /// The branch that it went to.
    pub commit_branch: Option<String>,
    /// Paths in all of them.
    pub committed_paths: u64,
    /// Paths that the last commit left out, since they hold changes of the user's too.
    #[serde(default)]
    pub mixed: Vec<RepoPath>,
    /// Paths that it left out since the run did not change them, or they cannot be committed.
    #[serde(default)]
    pub left_out: Vec<RepoPath>,
    /// What the run waits for.
    pub waiting: Option<Wait>,
    /// Whether an approval was asked for and not answered.
    pub approval_open: bool,
    /// The earliest time at which an engine that died in this stretch can go on, as far as any said so.
    pub retry_after: Option<DateTime<Utc>>,
    /// What the last engine that died said.
    pub last_engine_error: Option<String>,
    /// The limits that were given for the last stretch alone, as `KEY=VALUE`.
    #[serde(default)]
    pub limits: Vec<String>,
    /// The limit of `stop:` that was warned about last.
    pub last_budget_warning: Option<String>,
    /// Verdicts taken in, and resumes after an outcome that judges: together at most 8 (SPEC 10.6).
    pub recoveries: u32,
    /// Verdicts taken in, at most 4.
    pub verdicts: u32,
    /// Number of the last record.
    pub events: Seq,
}

impl RunSummary {
    /// Time spent up to `now`, while the last stretch is at work.
    pub fn so_far(&self, now: DateTime<Utc>) -> u64 {
        self.elapsed_before_ms.saturating_add(numbers::ms_between(self.stretch_at, now))
    }
}

/// What a run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// Until when; null is not known.
    pub until: Option<DateTime<Utc>>,
    /// For what.
    pub reason: String,
    /// The agent that waits, if one does.
    pub agent: Option<AgentName>,
    /// The phase that it holds up.
    pub phase: Option<PhaseName>,
}

/// Where a phase stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseState {
    /// At work, or cut off with the log.
    Running,
    /// It did its work.
    Success,
    /// A check with another verdict than the expected one.
    Red,
    /// It did not do its work.
    Failed,
    /// Stopped before its end.
    Stopped,
    /// A later stretch began before it had ended.
    Interrupted,
}

impl PhaseState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Success => "success",
            Self::Red => "red",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<PhaseStatus> for PhaseState {
    fn from(status: PhaseStatus) -> Self {
        match status {
            PhaseStatus::Success => Self::Success,
            PhaseStatus::Red => Self::Red,
            PhaseStatus::Failed => Self::Failed,
            PhaseStatus::Stopped => Self::Stopped,
        }
    }
}

/// A phase in one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseRow {
    /// The phase.
    pub phase: PhaseName,
    /// Its step.
    pub step: StepName,
    /// Kind of work: agent, check, commit, approve.
    pub kind: String,
    /// One line for people.
    pub description: String,
    /// The agent, if one works.
    pub agent: Option<AgentName>,
    /// The engine of the last turn.
    pub engine: Option<EngineName>,
    /// Its model; null where it is left to the CLI.
    pub model: Option<String>,
    /// Its effort or thinking level.
    pub level: Option<String>,
    /// What the engine knew of the session at the first turn.
    pub lease: Option<LeaseKind>,
    /// Where it stands.
    pub status: PhaseState,
    /// Why it did not succeed.
    pub reason: Option<String>,
    /// Which try over all stretches this is, from 1.
    pub attempt: u32,
    /// Tries on an engine in this attempt.
    pub legs: u32,
    /// Whether a later stretch took it over.
    pub reused: bool,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// How long it took; null while it runs.
    pub elapsed_ms: Option<u64>,
    /// Tokens, dollars and requests.
    pub spend: Spend,
    /// Live context when it began: 0 in a fresh session, null is unknown.
    pub context_before: Option<u64>,
    /// Live context at the last request; null is unknown.
    pub context_after: Option<u64>,
    /// The largest live context; null is unknown.
    pub context_max: Option<u64>,
    /// The last rotation at its start or inside it.
    pub rotation: Option<RotationRow>,
    /// Rotations at its start and inside it.
    pub rotations: u32,
    /// How often it was handed to another engine.
    pub relays: u32,
    /// Cache breaks.
    pub cache_breaks: u32,
    /// What its commands found, the last round.
    pub checks: Vec<CheckRow>,
    /// What its gates found, the last look of each.
    pub gates: Vec<GateRow>,
    /// The last tool call.
    pub last_tool: Option<String>,
}

impl PhaseRow {
    /// Tokens written to the cache over the largest live context: 1.0 is each token written once.
    pub fn rewrite_factor(&self) -> Option<f64> {
        let largest = self.context_max.filter(|&largest| largest > 0)?;
        let usage = self.spend.tokens.filter(|usage| !usage.is_zero())?;
        numbers::share(usage.cache_write, largest)
    }
}

/// A rotation, as far as tables show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RotationRow {
    /// Why.
    pub reason: RotationReason,
    /// Live context of the session left; null is unknown.
    pub context_tokens: Option<u64>,
    /// The ceiling in force.
    pub cap: u64,
    /// Size of the reseed preamble.
    pub preamble_bytes: usize,
}

/// A command that judged the tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckRow {
    /// The check.
    pub check: String,
    /// Whether the command was satisfied.
    pub passed: bool,
    /// Its exit status; null when it had none.
    pub exit: Option<i32>,
    /// The time limit that ended it, in minutes; absent when none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out_minutes: Option<f64>,
    /// The whole output: a file, relative to the run directory.
    pub log: String,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// A gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateRow {
    /// The gate.
    pub gate: String,
    /// Whether it let the envelope pass.
    pub passed: bool,
    /// Which look this was, from 1.
    pub attempt: u32,
    /// What it found: the first 5 lines.
    pub violations: Vec<String>,
}

/// An agent in one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRow {
    /// The agent.
    pub agent: AgentName,
    /// The engine of its last turn, before the first the planned one.
    pub engine: Option<EngineName>,
    /// Its model; null where it is left to the CLI.
    pub model: Option<String>,
    /// Its session; null when it has none.
    pub session_id: Option<SessionId>,
    /// Live context in tokens; null is unknown.
    pub context_tokens: Option<u64>,
    /// The model's window in tokens; null is unknown.
    pub window: Option<u64>,
    /// The largest live context; null is unknown.
    pub context_max: Option<u64>,
    /// The ceiling in tokens, 0 never rotates; null is unknown.
    pub ceiling: Option<u64>,
    /// Whether its engine was found to report no usage.
    pub unmetered: bool,
    /// Sessions replaced on purpose.
    pub rotations: u32,
    /// Phases handed to another engine.
    pub relays: u32,
    /// Cache breaks.
    pub cache_breaks: u32,
    /// Tokens, dollars and requests.
    pub spend: Spend,
    /// Its last record; null before the first turn.
    pub last_at: Option<DateTime<Utc>>,
    /// The turn that has not ended.
    pub open: Option<OpenTurn>,
    /// The course of its live context.
    pub trace: Trace,
}

impl AgentRow {
    /// An agent of which nothing is known yet.
    pub fn new(agent: AgentName) -> Self {
        Self {
            agent,
            engine: None,
            model: None,
            session_id: None,
            context_tokens: None,
            window: None,
            context_max: None,
            ceiling: None,
            unmetered: false,
            rotations: 0,
            relays: 0,
            cache_breaks: 0,
            spend: Spend::default(),
            last_at: None,
            open: None,
            trace: Trace::small(),
        }
    }
}

/// An engine with a model in one row, of a run or over several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRow {
    /// The engine.
    pub engine: EngineName,
    /// The model as configured; empty left it to the CLI, and is null in JSON.
    #[serde(serialize_with = "null_where_empty", deserialize_with = "empty_where_null")]
    pub model: String,
    /// Runs in which it had a turn.
    pub runs: u32,
    /// Tokens, dollars and requests.
    pub spend: Spend,
    /// Its window in tokens, as last reported; null is unknown.
    pub window: Option<u64>,
    /// The largest live context; null is unknown.
    pub context_max: Option<u64>,
}

impl ModelRow {
    /// The row of an engine and model in `rows`, made when it is not there.
    pub fn find<'a>(rows: &'a mut Vec<Self>, engine: EngineName, model: &str) -> &'a mut Self {
        let at = rows.iter().position(|row| row.engine == engine && row.model == model).unwrap_or_else(|| {
            let (model, spend) = (model.to_owned(), Spend::default());
            rows.push(Self { engine, model, runs: 0, spend, window: None, context_max: None });
            rows.len() - 1
        });
        &mut rows[at]
    }

    /// Adds up the rows of several runs, the dearest in tokens first.
    pub fn over(runs: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut rows: Vec<Self> = Vec::new();
        for row in runs {
            let sum = Self::find(&mut rows, row.engine, &row.model);
            sum.runs += row.runs;
            sum.spend.add(&row.spend);
            sum.window = row.window.or(sum.window);
            sum.context_max = sum.context_max.max(row.context_max);
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.spend.tokens_known.total()));
        rows
    }
}

fn null_where_empty<S: Serializer>(model: &str, serializer: S) -> Result<S::Ok, S::Error> {
    Some(model).filter(|model| !model.is_empty()).serialize(serializer)
}

fn empty_where_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Option::<String>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A turn whose end is not in the log yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenTurn {
    /// The phase.
    pub phase: Option<PhaseName>,
    /// Model calls answered so far.
    pub requests: u64,
    /// What they reported.
    pub tokens: Usage,
    /// Dollars of those whose prices are known.
    #[serde(default)]
    pub cost_usd: f64,
}

/// A step that was passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkipRow {
    /// The step.
    pub step: StepName,
    /// Its condition, which did not hold.
    pub when: String,
}
