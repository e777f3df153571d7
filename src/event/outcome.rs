//! How a run ends.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The eleven outcomes of a run. The first one written in a stretch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every step that ran succeeded and the run was accepted.
    GoalMet,
    /// The steps ran, but the result was not accepted.
    VerificationFailed,
    /// A repair is still red after its last allowed fix.
    AttemptCap,
    /// Fixes no longer change anything.
    NoProgress,
    /// A limit of tokens, dollars or minutes was reached.
    BudgetExhausted,
    /// The run changed more paths than allowed.
    BreadthExceeded,
    /// A gate or a write stayed violated.
    BlockedByGate,
    /// No engine was left for a phase.
    EngineExhausted,
    /// Somebody asked the run to stop, or rejected it.
    StoppedByRequest,
    /// fia was interrupted.
    Aborted,
    /// An agent phase reported failure or never reported.
    Failed,
}

impl Outcome {
    /// Every outcome, in the order of SPEC 5.6.
    pub const ALL: [Self; 11] = [
        Self::GoalMet,
        Self::VerificationFailed,
        Self::AttemptCap,
        Self::NoProgress,
        Self::BudgetExhausted,
        Self::BreadthExceeded,
        Self::BlockedByGate,
        Self::EngineExhausted,
        Self::StoppedByRequest,
        Self::Aborted,
        Self::Failed,
    ];

    /// The name as logged.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GoalMet => "goal_met",
            Self::VerificationFailed => "verification_failed",
            Self::AttemptCap => "attempt_cap",
            Self::NoProgress => "no_progress",
            Self::BudgetExhausted => "budget_exhausted",
            Self::BreadthExceeded => "breadth_exceeded",
            Self::BlockedByGate => "blocked_by_gate",
            Self::EngineExhausted => "engine_exhausted",
            Self::StoppedByRequest => "stopped_by_request",
            Self::Aborted => "aborted",
            Self::Failed => "failed",
        }
    }

    /// Finds an outcome by the name that is logged.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text)
    }

    /// Whether the unchanged-tree guard and the recovery ledger hold after it (SPEC 10.6).
    pub fn is_judged(self) -> bool {
        match self {
            Self::VerificationFailed | Self::AttemptCap | Self::NoProgress | Self::BlockedByGate | Self::Failed => true,
            Self::GoalMet
            | Self::BudgetExhausted
            | Self::BreadthExceeded
            | Self::EngineExhausted
            | Self::StoppedByRequest
            | Self::Aborted => false,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
