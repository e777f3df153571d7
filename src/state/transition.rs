//! Which facts may follow which: the transition table of a run.

use std::fmt;

use crate::event::Event;

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Nothing is recorded.
    Blank,
    /// In a stretch, between phases.
    Between,
    /// In a stretch, at least one phase open.
    InPhase,
    /// The last stretch ended.
    Ended,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Self; 4] = [Self::Blank, Self::Between, Self::InPhase, Self::Ended];
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blank => "an empty run",
            Self::Between => "a run between phases",
            Self::InPhase => "a run inside a phase",
            Self::Ended => "an ended stretch",
        })
    }
}

/// A fact that cannot follow what is recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// The stage does not allow it.
    #[error("`{event}` cannot happen in {stage}")]
    Stage {
        /// `type` of the record.
        event: &'static str,
        /// Where the run is.
        stage: Stage,
    },
    /// It belongs to a phase that is not open.
    #[error("`{event}` names the phase `{phase}`, which is not open")]
    Phase {
        /// `type` of the record.
        event: &'static str,
        /// The phase; empty when the record names none.
        phase: String,
    },
}

/// What a fact needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Any stage: it begins a stretch, after a crash also in the middle of a phase.
    Nothing,
    /// A stretch, between phases or inside one.
    Stretch,
    /// An open phase, which the record names.
    Phase,
    /// A stretch, and not the phase that it starts.
    Begin,
    /// Anything but an empty run: people act on a run whether it lives or not.
    Run,
    /// An open phase that the record names, or none: `fia ask` turns to an agent between stretches, and a stretch that
    /// was killed has no end.
    Turn,
}

impl Needs {
    /// Whether a stage gives it.
    pub(super) fn met_in(self, stage: Stage) -> bool {
        match (self, stage) {
            (Self::Nothing, _) => true,
            (_, Stage::Blank) => false,
            (Self::Stretch | Self::Begin, Stage::Between | Stage::InPhase) => true,
            (Self::Stretch | Self::Begin, Stage::Ended) => false,
            (Self::Phase, Stage::InPhase) => true,
            (Self::Phase, Stage::Between | Stage::Ended) => false,
            (Self::Run, Stage::Between | Stage::InPhase | Stage::Ended) => true,
            (Self::Turn, Stage::Between | Stage::InPhase | Stage::Ended) => true,
        }
    }
}

/// The table: what each fact needs.
pub(super) fn needs(event: &Event) -> Needs {
    match event {
        Event::RunStart(_) => Needs::Nothing,
        Event::RunEnd(_)
        | Event::PhaseReused(_)
        | Event::StepSkipped(_)
        | Event::BudgetWarning(_)
        | Event::Waiting(_)
        | Event::TreeChanged(_)
        | Event::PermissionRetry(_) => Needs::Stretch,
        Event::PhaseStart(_) => Needs::Begin,
        Event::PhaseEnd(_)
        | Event::Envelope(_)
        | Event::CheckStart(_)
        | Event::Check(_)
        | Event::GatePass(_)
        | Event::GateFail(_)
        | Event::EngineRetry(_)
        | Event::EngineRelay(_)
        | Event::EngineFallback(_)
        | Event::EngineContinuation(_)
        | Event::Approval(_)
        | Event::SessionRotation(_)
        | Event::RotationStoodDown(_)
        | Event::Committed(_)
        | Event::BoundedContinuation(_) => Needs::Phase,
        Event::AgentStart(_)
        | Event::AgentEnd(_)
        | Event::Session(_)
        | Event::Context(_)
        | Event::ToolCall(_)
        | Event::EngineError(_)
        | Event::CacheBreak(_)
        | Event::Message(_)
        | Event::SessionRetired(_)
        | Event::UsageUnknown(_)
        | Event::Compacted(_)
        | Event::PrefixChanged(_)
        | Event::ContextPruned(_)
        | Event::ApiKeyBilling(_) => Needs::Turn,
        Event::Verdict(_) | Event::Error(_) | Event::SessionEvicted(_) | Event::ExternalChange(_) => Needs::Run,
    }
}

#[cfg(test)]
mod tests;
