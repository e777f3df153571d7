//! What the provider's cache holds of a session, and what moved under it.

use serde::{Deserialize, Serialize};

use crate::ids::AgentName;

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

impl ContextPruned {
    /// Whether anything was shortened; else it says why nothing was.
    pub fn has_shortened(&self) -> bool {
        self.soft + self.hard > 0
    }
}
