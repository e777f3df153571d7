//! The facts of a run: what the log holds, one record a fact, each in the past tense.
//!
//! State that is not in these facts does not exist: a live run and a resume fold the same events
//! through the same `apply`. Events hold ids and values, never handles, and never text made for the
//! screen. [`wire`] maps each to the `type`, `name` and `payload` of its record and back.

pub mod change;
pub mod item;
mod outcome;
#[cfg(test)]
pub(crate) mod sample;
mod step;
pub mod wire;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use change::{Content, FileKind, PathChange, RepoPath};
pub use item::{FailureKind, Usage};
pub use outcome::Outcome;
pub use step::{ApprovalWait, Expect, Input, Order, Step, Work};

use crate::host::Mark;
use crate::ids::{AgentName, CheckName, EngineName, PhaseName, RunId, Seq, SessionId, StepName};

/// The number of the log format that this program writes.
pub const FORMAT: u32 = 1;

/// One line of a log: a numbered, dated fact.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Its number in the log, from 1.
    pub seq: Seq,
    /// When it was written; times of two hosts are never compared.
    pub ts: DateTime<Utc>,
    /// The run.
    pub run: RunId,
    /// The phase that it belongs to, if any.
    pub phase: Option<PhaseName>,
    /// The fact.
    pub event: Event,
}

impl Record {
    /// Whether a stretch tells it. What an agent does that is asked something between two stretches is of no phase,
    /// and a verdict is taken in before the next one begins: the time until either is nobody's work.
    pub fn is_of_a_stretch(&self) -> bool {
        let own = matches!(
            self.event,
            Event::RunStart(_)
                | Event::RunEnd(_)
                | Event::PhaseReused(_)
                | Event::StepSkipped(_)
                | Event::Waiting(_)
                | Event::BudgetWarning(_)
        );
        own || self.phase.is_some()
    }
}

/// A fact of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A stretch of a run began: its start or a resume.
    RunStart(RunStart),
    /// A stretch ended.
    RunEnd(RunEnd),
    /// A phase was ordered.
    PhaseStart(PhaseStart),
    /// A phase ended.
    PhaseEnd(PhaseEnd),
    /// An engine process was given a turn; written before the prompt leaves.
    AgentStart(AgentStart),
    /// A turn ended.
    AgentEnd(AgentEnd),
    /// A native session id was seen.
    Session(SessionSeen),
    /// A model call answered.
    Context(ContextRead),
    /// A tool call ended.
    ToolCall(ToolCall),
    /// A validated envelope.
    Envelope(EnvelopeTaken),
    /// The process of a check began; written before its command does.
    CheckStart(CheckStart),
    /// A command judged the tree.
    Check(CheckRun),
    /// A gate let an envelope pass.
    GatePass(GateVerdict),
    /// A gate did not.
    GateFail(GateVerdict),
    /// An engine died or refused.
    EngineError(EngineError),
    /// The same engine is tried once more.
    EngineRetry(EngineRetry),
    /// A phase is handed to another engine.
    EngineRelay(EngineRelay),
    /// A fallback was looked at.
    EngineFallback(EngineFallback),
    /// A leg goes on where another engine died.
    EngineContinuation(EngineContinuation),
    /// A request found less in the provider's cache than the last one left there.
    CacheBreak(CacheBreak),
    /// The run waits.
    Waiting(Waiting),
    /// An approval was asked for or answered.
    Approval(Approval),
    /// A verdict of a person was taken into the run.
    Verdict(Verdict),
    /// Channel messages were put into a prompt.
    Message(Delivery),
    /// Something went wrong that ends the stretch or the phase.
    Error(Fault),
    /// An agent was given a fresh session on purpose.
    SessionRotation(SessionRotation),
    /// A session was left behind for another reason than a rotation.
    SessionRetired(SessionRetired),
    /// A rotation was due and could not be carried out; it is tried at the next phase.
    RotationStoodDown(RotationStoodDown),
    /// An engine reports no usage or no cost; said once.
    UsageUnknown(UsageUnknown),
    /// The engine compacted its session.
    Compacted(Compacted),
    /// A phase of an earlier stretch was taken over.
    PhaseReused(PhaseReused),
    /// A step was passed over.
    StepSkipped(StepSkipped),
    /// What a leg or a check changed in the tree.
    TreeChanged(TreeChanged),
    /// An agent wrote where it may not; it was undone and the phase is tried once more.
    PermissionRetry(PermissionRetry),
    /// Something other than agents' work changed and was put back.
    ExternalChange(ExternalChange),
    /// A commit was made.
    Committed(Committed),
    /// A share of a limit was used up.
    BudgetWarning(BudgetWarning),
    /// A long turn was stopped by fia and goes on.
    BoundedContinuation(BoundedContinuation),
    /// A system prompt is not the one of this run.
    PrefixChanged(PrefixChanged),
    /// Old tool results were shortened in a request, or why none was.
    ContextPruned(ContextPruned),
    /// A resident process was lost or sent away.
    SessionEvicted(SessionEvicted),
    /// A key in the environment bills an API instead of a subscription.
    ApiKeyBilling(ApiKeyBilling),
}

/// Payload of `run_start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// Name of the workflow; the record's name.
    #[serde(skip)]
    pub workflow: String,
    /// Format of the log; absent means 1.
    #[serde(default = "first_format")]
    pub format: u32,
    /// Version of fia.
    pub fia_version: String,
    /// What was asked for.
    pub prompt: String,
    /// SHA-256 of the plan as JSON, in hexadecimal.
    pub plan_digest: String,
    /// The whole plan, at the first stretch only: workflow, prompts and roster are frozen there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
    /// Limits in force in this stretch, read anew on resume.
    #[serde(default)]
    pub stop: Value,
    /// Those of them that were given for this stretch alone, as `KEY=VALUE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
    /// Whether this stretch resumes the run.
    #[serde(default)]
    pub resumed: bool,
    /// The commit that was checked out, absent on an unborn branch.
    #[serde(default)]
    pub base: Option<String>,
    /// The branch that was checked out, absent when detached.
    #[serde(default)]
    pub branch: Option<String>,
    /// Whether the run has a work tree of its own.
    #[serde(default)]
    pub worktree: bool,
    /// Git's name for the linked work tree that the run works in; absent in the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked: Option<String>,
    /// The machine.
    #[serde(default)]
    pub host: String,
}

fn first_format() -> u32 {
    1
}

/// Payload of `run_end`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEnd {
    /// How the stretch ended; also the record's name.
    pub outcome: Outcome,
    /// Why, for people.
    pub reason: String,
    /// Tokens over the whole run, all stretches; `None` when any part is unknown.
    pub tokens: Option<Usage>,
    /// Dollars over the whole run; `None` when any part is unknown.
    pub cost_usd: Option<f64>,
    /// Phases executed in this stretch.
    pub phases: u32,
    /// Phases taken over from earlier stretches.
    pub replayed: u32,
    /// Length of the stretch.
    pub elapsed_ms: u64,
    /// SHA-256 over path and content of all that the run changed, for the unchanged-tree guard.
    #[serde(default)]
    pub tree_sha256: Option<String>,
}

/// Payload of `phase_start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseStart {
    /// The step; the record's name.
    #[serde(skip)]
    pub step: StepName,
    /// The order, which a resume follows.
    pub order: Order,
    /// Kind of work: agent, check, commit, approve.
    pub kind: String,
    /// The agent, if one works.
    pub agent: Option<AgentName>,
    /// One line for people.
    pub description: String,
    /// Which try at this phase this is, from 1, over all stretches.
    pub attempt: u32,
    /// The machine.
    pub host: String,
}

/// Payload of `phase_end`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseEnd {
    /// The step; the record's name.
    #[serde(skip)]
    pub step: StepName,
    /// How it ended.
    pub status: PhaseStatus,
    /// How long it took, all legs together.
    pub elapsed_ms: u64,
    /// The outcome of the run that this end brings about, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of a check in a repair: SHA-256 over path and content of all that the run had changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_sha256: Option<String>,
}

/// How a phase ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseStatus {
    /// It did its work; of a check: it passed.
    Success,
    /// A check whose verdict was not the expected one. Ends nothing by itself.
    Red,
    /// It did not do its work.
    Failed,
    /// It was stopped before its end.
    Stopped,
}

/// Payload of `agent_start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentStart {
    /// The agent; the record's name.
    #[serde(skip)]
    pub agent: AgentName,
    /// Which try of the phase on an engine this is, from 1.
    pub leg: u32,
    /// Which prompt of the leg this is, from 1.
    pub turn: u32,
    /// The engine.
    pub engine: EngineName,
    /// The model as configured.
    pub model: String,
    /// Effort or thinking level.
    #[serde(default)]
    pub level: Option<String>,
    /// The session that is resumed; null starts a fresh one.
    pub session_id: Option<SessionId>,
    /// What the process knows already.
    pub lease: LeaseKind,
    /// SHA-256 of the system prompt, in hexadecimal.
    pub system_sha256: String,
    /// The machine.
    pub host: String,
    /// The boot of that machine.
    pub boot_id: String,
    /// Process id of the engine, the leader of its own group.
    pub pid: u32,
    /// Start time of that process in clock ticks since boot, which tells it from a later one of the same id.
    pub process_started: u64,
    /// SHA-256 of the user prompt sent, in hexadecimal; its text is in the run directory.
    #[serde(default)]
    pub prompt_sha256: String,
}

/// What an engine process knows of the session when a turn begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseKind {
    /// New process, no saved session.
    Cold,
    /// New process, saved session.
    Restored,
    /// Process that had a turn before.
    Warm,
}

/// Payload of `agent_end`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentEnd {
    /// The agent; the record's name.
    #[serde(skip)]
    pub agent: AgentName,
    /// The leg.
    pub leg: u32,
    /// The turn in that leg.
    pub turn: u32,
    /// The engine that burned it.
    pub engine: EngineName,
    /// The model as configured.
    pub model: String,
    /// How the turn ended.
    pub ended: TurnStatus,
    /// Tokens of the turn; null is unknown.
    pub usage: Option<Usage>,
    /// Dollars of the turn; null is unknown.
    pub cost_usd: Option<f64>,
    /// What the session has cost in all, as its engine counts; the base of the next difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_cost_usd: Option<f64>,
    /// Model calls of the main thread.
    pub requests: u32,
    /// Live context at the last of them; null is unknown.
    pub context_tokens: Option<u64>,
    /// Share of input tokens that came from the cache; null is unknown.
    pub cache_hit_ratio: Option<f64>,
    /// Tokens written to the cache over the largest live context; null is unknown.
    pub rewrite_factor: Option<f64>,
    /// How long the turn took.
    #[serde(default)]
    pub elapsed_ms: u64,
}

/// How a turn ended, as logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// Reported as a success.
    Completed,
    /// Cut by a limit that is no death.
    Cut,
    /// Failed; the kind is in `engine_error`.
    Failed,
    /// Stopped by fia.
    Stopped,
}

/// Payload of `session`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSeen {
    /// The agent; the record's name.
    #[serde(skip)]
    pub agent: AgentName,
    /// The engine.
    pub engine: EngineName,
    /// The model as configured.
    pub model: String,
    /// The native id.
    pub session_id: SessionId,
    /// Whether it is another one than the agent had.
    pub new: bool,
}

/// Payload of `context`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextRead {
    /// The agent; the record's name.
    #[serde(skip)]
    pub agent: AgentName,
    /// Live context in tokens; null is unknown.
    pub context_tokens: Option<u64>,
    /// The model's window in tokens; null is unknown.
    pub window: Option<u64>,
    /// Usage of this one request; null is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// Payload of `tool_call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// What it acted on, at most 120 characters; the record's name.
    #[serde(skip)]
    pub summary: String,
    /// The agent.
    pub agent: AgentName,
    /// The tool.
    pub tool: String,
    /// Whether it succeeded.
    pub ok: bool,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// The record `envelope`: its payload is the envelope itself.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvelopeTaken {
    /// Its type; the record's name.
    pub output: String,
    /// The whole validated envelope.
    pub envelope: Value,
}

/// Payload of `check_start`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckStart {
    /// The check; the record's name.
    #[serde(skip)]
    pub check: CheckName,
    /// Its process, the leader of its own group.
    #[serde(flatten)]
    pub mark: Mark,
}

/// Payload of `check`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckRun {
    /// The check; the record's name.
    #[serde(skip)]
    pub check: CheckName,
    /// Whether the command was satisfied.
    pub passed: bool,
    /// Its exit status; null when it had none (signal, time-out, not started).
    pub exit: Option<i32>,
    /// The time limit that ended it, in minutes; absent when none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out_minutes: Option<f64>,
    /// The whole output: a file, relative to the run directory.
    pub log: String,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// Payload of `gate_pass` and `gate_fail`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateVerdict {
    /// The gate; the record's name.
    #[serde(skip)]
    pub gate: String,
    /// Which look at the phase's result this was, from 1.
    pub attempt: u32,
    /// What it found, one line each.
    #[serde(default)]
    pub violations: Vec<String>,
}

/// Payload of `engine_error`: a marker of a death, counted by engine, model and kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineError {
    /// The agent; the record's name.
    #[serde(skip)]
    pub agent: AgentName,
    /// The engine.
    pub engine: EngineName,
    /// The model as configured.
    pub model: String,
    /// Its kind.
    pub kind: FailureKind,
    /// Whether another try may help.
    pub transient: bool,
    /// The leg that died.
    pub leg: u32,
    /// Deaths of this engine, model and kind in this run, this one included.
    pub count: u32,
    /// What it said, at most 500 characters, secrets masked.
    pub message: String,
    /// When it can be tried again, if it said so.
    pub retry_after: Option<DateTime<Utc>>,
}

/// Payload of `engine_retry`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineRetry {
    /// The agent; the record's name.
    #[serde(skip)]
    pub agent: AgentName,
    /// The engine.
    pub engine: EngineName,
    /// The model as configured.
    pub model: String,
    /// The death before it.
    pub kind: FailureKind,
    /// The pause before the try.
    pub delay_ms: u64,
    /// The leg that follows.
    pub leg: u32,
    /// The engine that died.
    #[serde(default)]
    pub from: Option<EngineName>,
    /// The engine that goes on, which is the same one.
    #[serde(default)]
    pub to: Option<EngineName>,
}

/// Payload of `engine_relay`: from here on the agent works on another engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineRelay {
    /// The agent; the record's name.
    #[serde(skip)]
    pub agent: AgentName,
    /// The engine left.
    pub from: EngineName,
    /// Its model.
    pub from_model: String,
    /// The engine taken.
    pub to: EngineName,
    /// Its model.
    pub to_model: String,
    /// Position of the choice in the agent's list: 0 is its own engine, 1 the first fallback.
    pub choice: usize,
    /// Why.
    pub kind: FailureKind,
    /// The phase that died.
    pub phase: PhaseName,
}

/// Payload of `engine_fallback`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineFallback {
    /// The agent; the record's name.
    #[serde(skip)]
    pub agent: AgentName,
    /// The fallback.
    pub engine: EngineName,
    /// Its model.
    pub model: String,
    /// Whether it can take over.
    pub ready: bool,
    /// Why not.
    #[serde(default)]
    pub reason: Option<String>,
    /// What the engine that the agent works on died of.
    #[serde(default)]
    pub kind: Option<FailureKind>,
    /// That engine.
    #[serde(default)]
    pub from: Option<EngineName>,
    /// The fallback.
    #[serde(default)]
    pub to: Option<EngineName>,
}

/// Payload of `engine_continuation`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EngineContinuation {
    /// The agent; the record's name.
    #[serde(skip)]
    pub agent: AgentName,
    /// The leg that begins with the continuation preamble.
    pub leg: u32,
    /// Size of that preamble.
    pub preamble_bytes: usize,
    /// What the engine before it died of.
    #[serde(default)]
    pub kind: Option<FailureKind>,
    /// That engine.
    #[serde(default)]
    pub from: Option<EngineName>,
    /// The engine that goes on; the same one after a retry.
    #[serde(default)]
    pub to: Option<EngineName>,
}

/// Payload of `cache_break`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheBreak {
    /// The agent; the record's name.
    #[serde(skip)]
    pub agent: AgentName,
    /// Tokens that the last request left in the cache.
    pub expected: u64,
    /// Tokens that this one read from it.
    pub seen: u64,
    /// The likely cause.
    pub cause: BreakCause,
}

/// Likely causes of a cache break, the first that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakCause {
    /// The engine compacted.
    Compaction,
    /// fia rotated.
    Rotation,
    /// fia pruned.
    Pruning,
    /// Another model or effort.
    ModelChanged,
    /// Another system prompt or tool set.
    PrefixChanged,
    /// The cache's time had passed.
    TtlPassed,
    /// The first request of a new process.
    ResumeRewrite,
    /// None of these.
    Unknown,
}

/// Payload of `waiting`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Until when; null is not known.
    pub until: Option<DateTime<Utc>>,
    /// For what: limit or approval.
    pub reason: String,
    /// The agent that waits, if one does.
    #[serde(default)]
    pub agent: Option<AgentName>,
    /// Which wait of this phase this is, from 1.
    #[serde(default)]
    pub count: u32,
}

/// Payload of `approval`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Approval {
    /// Somebody is asked.
    Asked,
    /// Somebody answered.
    Answered {
        /// Yes or no.
        approved: bool,
        /// What they added.
        #[serde(default)]
        reason: Option<String>,
    },
}

/// Payload of `verdict`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What is missing, in a person's words.
    pub missing: Vec<String>,
    /// Phases to do again.
    #[serde(default)]
    pub redo: Vec<PhaseName>,
    /// A remark.
    #[serde(default)]
    pub note: Option<String>,
}

/// Payload of `message`: rows put into a prompt, staged until the phase succeeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The agent that hears them.
    pub agent: AgentName,
    /// `PHASE.LEG`, or the id of the question of `fia ask`.
    pub delivery: String,
    /// What was staged, a list each.
    pub lists: Vec<DeliveredList>,
    /// Where the agent stands once the phase succeeds; with the ids of the lists it is what is kept.
    #[serde(default)]
    pub watermark: Option<DeliveredMark>,
}

/// The place in the channel that a delivery leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveredMark {
    /// The native session that hears it; null for a fresh one, whose id is not known yet.
    pub native: Option<SessionId>,
    /// The newest of the times of all rows.
    pub last_at: i64,
}

/// Rows of one list of the channel that a delivery covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveredList {
    /// The root of the thread; empty for the channel itself.
    #[serde(default)]
    pub thread: String,
    /// Ids of the rows, oldest first.
    pub ids: Vec<String>,
    /// The newest of their times.
    pub last_at: i64,
    /// How many of them were shown.
    pub shown: usize,
}

/// Payload of `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Where: the phase, or empty; the record's name.
    #[serde(skip)]
    pub place: String,
    /// What kind.
    pub kind: FaultKind,
    /// What happened, secrets masked.
    pub message: String,
}

/// Kinds of faults that are none of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A file could not be read or written.
    Storage,
    /// git failed.
    Git,
    /// An agent's answer held no valid envelope.
    Envelope,
    /// A commit hook refused.
    CommitHook,
    /// A prompt could not be made.
    Prompt,
    /// A hook of `notify` failed.
    Notify,
    /// A check could not be started.
    Check,
    /// An engine runs without the context pruning that was asked for.
    Pruning,
}

/// Payload of `session_rotation`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRotation {
    /// The agent.
    pub agent: AgentName,
    /// Why.
    pub reason: RotationReason,
    /// Live context of the session left, in tokens; null is unknown.
    pub context_tokens: Option<u64>,
    /// The ceiling in force.
    pub cap: u64,
    /// The session left.
    pub from_session: Option<SessionId>,
    /// Its files as archived, relative to the run directory.
    pub archived: Vec<String>,
    /// Size of the reseed preamble.
    pub preamble_bytes: usize,
    /// Both sides of the sum, where price decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Value>,
}

/// Why a session is replaced on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RotationReason {
    /// The live context reached the ceiling.
    Ceiling,
    /// A fresh session is cheaper over the requests to come.
    BreakEven,
    /// The cache is gone and the session is larger than a fresh one.
    Expired,
    /// The ceiling was passed inside a phase.
    MidPhase,
    /// The session no longer fits the model.
    Overflow,
}

/// Payload of `session_retired`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRetired {
    /// The agent.
    pub agent: AgentName,
    /// Why.
    pub reason: RetirementReason,
    /// The session left.
    pub from_session: Option<SessionId>,
    /// Its files as archived, relative to the run directory.
    pub archived: Vec<String>,
}

/// Why a session is left behind without a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetirementReason {
    /// The engine no longer knows it.
    SessionLost,
    /// Another engine or model works now.
    ModelChanged,
}

/// Payload of `rotation_stood_down`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotationStoodDown {
    /// The agent.
    pub agent: AgentName,
    /// What failed.
    pub message: String,
}

/// Payload of `usage_unknown`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageUnknown {
    /// The agent.
    pub agent: AgentName,
    /// The engine that reports none.
    pub engine: EngineName,
    /// What it does not report.
    #[serde(default)]
    pub what: Unreported,
}

/// What an engine does not report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unreported {
    /// Live context or tokens: its session never rotates, and token budgets see only a part.
    #[default]
    Tokens,
    /// Dollars, with a cost budget in force that therefore sees only a part.
    Dollars,
}

/// Payload of `compacted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// The agent.
    pub agent: AgentName,
    /// Live context before, in tokens.
    pub before: Option<u64>,
    /// Live context after, in tokens.
    pub after: Option<u64>,
}

/// Payload of `phase_reused`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseReused {
    /// The step.
    pub step: StepName,
    /// The phase.
    pub phase: PhaseName,
}

/// Payload of `step_skipped`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSkipped {
    /// The step.
    pub step: StepName,
    /// Its position in the workflow, from 0.
    pub index: usize,
    /// Its condition, which did not hold.
    pub when: String,
}

/// Payload of `tree_changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeChanged {
    /// The leg that did it, 0 for a check.
    pub leg: u32,
    /// What changed and was kept.
    pub changes: Vec<PathChange>,
}

/// Payload of `permission_retry`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionRetry {
    /// The agents that may have done it; several in a parallel block.
    pub agents: Vec<AgentName>,
    /// What was written against the rules and undone.
    pub undone: Vec<PathChange>,
    /// Number of the rescue that brings it back; 0 when only files of fia's own were put back.
    pub rescue: u32,
    /// Whether the phase is tried again; else it is blocked.
    pub again: bool,
}

/// Payload of `external_change`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalChange {
    /// What it was: by-products, head, refs, index, git config, hooks.
    pub what: Vec<String>,
    /// Paths put back.
    #[serde(default)]
    pub undone: Vec<PathChange>,
    /// Number of the rescue that brings them back, if there is one.
    #[serde(default)]
    pub rescue: Option<u32>,
}

/// Payload of `committed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// The commit; null when there was nothing to commit.
    pub commit: Option<String>,
    /// The branch it went to.
    pub branch: Option<String>,
    /// First line of its message.
    pub subject: String,
    /// Paths in it.
    pub paths: Vec<RepoPath>,
    /// Paths that an envelope declares and the run did not change.
    #[serde(default)]
    pub declared_only: Vec<RepoPath>,
    /// Paths that the user had changed before, left out.
    #[serde(default)]
    pub mixed: Vec<RepoPath>,
    /// Paths that cannot be in it: ignored, in a repository of their own, or neither file nor link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfit: Vec<RepoPath>,
}

/// Payload of `budget_warning`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetWarning {
    /// The key of `stop:`.
    pub limit: String,
    /// 50 or 80.
    pub percent: u32,
    /// Used so far, in the limit's unit.
    pub used: f64,
    /// The limit.
    pub of: f64,
}

/// Payload of `bounded_continuation`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundedContinuation {
    /// The agent.
    pub agent: AgentName,
    /// Live context when it stopped, in tokens.
    pub context_tokens: Option<u64>,
    /// Whether the same session goes on; else a fresh one does.
    pub same_session: bool,
}

/// Payload of `prefix_changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixChanged {
    /// The agent.
    pub agent: AgentName,
    /// The block that differs first.
    pub block: String,
    /// The first differing byte in it.
    pub byte: usize,
    /// What was there before, at most 60 bytes, secrets masked.
    pub before: String,
    /// What is there now, at most 60 bytes, secrets masked.
    pub after: String,
}

/// Payload of `context_pruned`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextPruned {
    /// The agent.
    pub agent: AgentName,
    /// What opened the round: ttl, warm, trigger; or why none ran.
    pub reason: String,
    /// Results trimmed in this round.
    pub soft: u32,
    /// Results cleared in this round.
    pub hard: u32,
    /// Characters before.
    pub chars_before: u64,
    /// Characters after.
    pub chars_after: u64,
    /// Share of the window before.
    pub ratio_before: f64,
    /// Share of the window after.
    pub ratio_after: f64,
    /// Time since the last successful request.
    pub gap_ms: Option<u64>,
    /// The first block that changed.
    #[serde(default)]
    pub first_changed: Option<String>,
}

/// Payload of `session_evicted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEvicted {
    /// The agent.
    pub agent: AgentName,
    /// Why: idle, room, lost.
    pub reason: EvictionReason,
}

/// Why a resident process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvictionReason {
    /// It had nothing to do for too long.
    Idle,
    /// Another one needed its place.
    Room,
    /// It died.
    Lost,
}

/// Payload of `api_key_billing`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyBilling {
    /// The engine.
    pub engine: EngineName,
    /// The variable, never its value.
    pub variable: String,
}
