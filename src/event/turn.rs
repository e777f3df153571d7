//! One prompt to an engine process and what came of it.

use serde::{Deserialize, Serialize};

use super::Usage;
use crate::ids::{AgentName, EngineName, SessionId};

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
    /// The model's window in tokens, which some engines tell with the end of a turn only; null is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
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
    /// Dollars of it at the model's prices; null is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
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
