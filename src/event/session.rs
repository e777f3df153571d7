//! An agent's session: seen, compacted, bounded, left, and the process that holds it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ids::{AgentName, EngineName, SessionId};

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
