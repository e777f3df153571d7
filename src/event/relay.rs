//! Deaths of engines, and who goes on.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::FailureKind;
use crate::ids::{AgentName, EngineName, PhaseName};

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

/// Payload of `engine_relay`: from its next turn on the agent works on another engine.
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
    /// Whether that is after the next `fia resume`: the policy ends the stretch here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_resume: bool,
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
