//! The facts of a run: what the log holds, one record a fact, each in the past tense.
//!
//! State that is not in these facts does not exist: a live run and a resume fold the same events
//! through the same `apply`. Events hold ids and values, never handles, and never text made for the
//! screen. [`wire`] maps each to the `type`, `name` and `payload` of its record and back.

mod cache;
pub mod change;
mod delivery;
pub mod item;
mod outcome;
mod phase;
mod relay;
mod run;
#[cfg(test)]
pub(crate) mod sample;
mod session;
mod step;
mod tree;
mod turn;
pub mod wire;

use chrono::{DateTime, Utc};

pub use cache::{BreakCause, CacheBreak, ContextPruned, PrefixChanged};
pub use change::{Content, FileKind, PathChange, RepoPath};
pub use delivery::{DeliveredList, DeliveredMark, Delivery};
pub use item::{FailureKind, Usage};
pub use outcome::Outcome;
pub use phase::{
    CheckRun, CheckStart, EnvelopeTaken, GateVerdict, PhaseEnd, PhaseReused, PhaseStart, PhaseStatus, StepSkipped,
};
pub use relay::{EngineContinuation, EngineError, EngineFallback, EngineRelay, EngineRetry};
pub use run::{ApiKeyBilling, Approval, BudgetWarning, Fault, FaultKind, RunEnd, RunStart, Verdict, Waiting};
pub use session::{
    BoundedContinuation, Compacted, EvictionReason, RetirementReason, RotationReason, RotationStoodDown,
    SessionEvicted, SessionRetired, SessionRotation, SessionSeen,
};
pub use step::{ApprovalWait, Expect, Input, Order, Step, Work};
pub use tree::{Committed, ExternalChange, PermissionRetry, TreeChanged};
pub use turn::{AgentEnd, AgentStart, ContextRead, LeaseKind, ToolCall, TurnStatus, Unreported, UsageUnknown};

use crate::ids::{PhaseName, RunId, Seq};

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
