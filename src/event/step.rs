//! Orders as data: what the run loop is told to do next. Recorded in `phase_start`, followed by a resume.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::event::Outcome;
use crate::ids::{AgentName, CheckName, PhaseName, StepName};

/// What comes next in a run: the answer of `state::next`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Step {
    /// Execute one phase.
    Phase(Order),
    /// Execute phases of reading agents side by side.
    Parallel {
        /// One order an agent.
        orders: Vec<Order>,
    },
    /// Take over a phase that an earlier stretch finished.
    Reuse {
        /// The step of the workflow that it belongs to.
        step: StepName,
        /// The finished phase.
        phase: PhaseName,
    },
    /// Pass over a step whose condition does not hold.
    Skip {
        /// The step.
        step: StepName,
        /// Its position in the workflow, from 0.
        index: usize,
        /// Its condition.
        when: String,
    },
    /// Let time pass before the phase of an agent is tried again on the same engine.
    Wait {
        /// Until then.
        until: DateTime<Utc>,
        /// Who waits.
        agent: Option<AgentName>,
        /// For what, as in the record `waiting`.
        reason: String,
        /// Which wait of the phase this is, from 1.
        count: u32,
    },
    /// End the stretch.
    End {
        /// With this outcome.
        outcome: Outcome,
        /// Why, for people.
        reason: String,
    },
}

/// The order to execute one phase; holds no path of the host and no handle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Name of the phase: `NN_step`.
    pub phase: PhaseName,
    /// The step of the workflow, by its own name; rounds of a repair all have the repair's.
    pub step: StepName,
    /// Position of that step in the workflow, from 0; an inner step of `parallel` has that of its block.
    pub index: usize,
    /// Round of a repair, from 1; 0 elsewhere.
    #[serde(default)]
    pub round: u32,
    /// What to do.
    pub work: Work,
}

/// The kinds of work that a phase does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Work {
    /// A turn of an agent, ended by an envelope.
    Agent {
        /// Who works.
        agent: AgentName,
        /// Envelope type.
        output: String,
        /// Gates by name, in order.
        #[serde(default)]
        gates: Vec<String>,
        /// Gate corrections allowed.
        retries: u32,
        /// Where the previous envelope comes from.
        input: Input,
    },
    /// Commands run by code.
    Check {
        /// Which ones, in order.
        checks: Vec<CheckName>,
        /// The verdict that counts as passed.
        expect: Expect,
    },
    /// A commit of what the run made.
    Commit,
    /// A person's decision.
    Approve {
        /// How long to wait for it without a terminal.
        wait: ApprovalWait,
    },
}

impl Order {
    /// The phase's own part of its name, without the number: `build`, `test_1`, `fix_1`.
    pub fn label(&self) -> &str {
        self.phase.as_str().split_once('_').map_or(self.phase.as_str(), |(_, label)| label)
    }
}

impl Work {
    /// The word for it in records and tables.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Agent { .. } => "agent",
            Self::Check { .. } => "check",
            Self::Commit => "commit",
            Self::Approve { .. } => "approve",
        }
    }

    /// The agent that does it, if one does.
    pub fn agent(&self) -> Option<&AgentName> {
        match self {
            Self::Agent { agent, .. } => Some(agent),
            Self::Check { .. } | Self::Commit | Self::Approve { .. } => None,
        }
    }
}

/// What an agent phase is handed as the previous envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Input {
    /// Nothing went before.
    Nothing,
    /// The envelope of an earlier phase.
    Envelope {
        /// That phase.
        phase: PhaseName,
    },
    /// The failures of a check.
    Check {
        /// The check phase.
        phase: PhaseName,
    },
}

/// The verdict of a check that counts as passed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Expect {
    /// Every command exits with 0.
    #[default]
    Green,
    /// At least one does not, and its output matches the pattern, if there is one.
    Red {
        /// A regular expression.
        pattern: Option<String>,
    },
}

/// How long an approval may be waited for without a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "wait", rename_all = "snake_case")]
pub enum ApprovalWait {
    /// Not at all: the run ends and can be resumed.
    NotAtAll,
    /// So many seconds.
    Seconds {
        /// The span.
        secs: u64,
    },
    /// Without a limit.
    Forever,
}
