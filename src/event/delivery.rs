//! Rows of the channel that a prompt brought to an agent.

use serde::{Deserialize, Serialize};

use crate::ids::{AgentName, SessionId};

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
