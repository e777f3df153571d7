//! What a run is shown against: its limits, its roster and the commands behind its checks.

use indexmap::IndexMap;
use serde::Deserialize as _;
use serde_json::Value;

use crate::event::RunStart;
use crate::ids::{AgentName, CheckName};
use crate::plan::{Agent, EngineChoice, Plan, Stop};

/// The frame of a run, read from its `run_start` records. What they do not say stays unknown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Frame {
    /// The agents of the plan in roster order.
    pub agents: IndexMap<AgentName, AgentFrame>,
    /// Command lines by check.
    pub checks: IndexMap<CheckName, String>,
    /// The limits in force in the last stretch.
    pub stop: Option<Stop>,
    /// What the configuration says of models: prices and windows; null for nothing.
    pub models: Value,
}

/// What the plan says of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentFrame {
    /// Live-context ceiling in tokens; 0 never rotates.
    pub ceiling: u64,
    /// Its own engine; `None` when the plan names none.
    pub choice: Option<EngineChoice>,
}

impl Frame {
    /// Takes in the start of a stretch: the plan stands in the first, limits in each.
    pub fn push(&mut self, start: &RunStart) {
        if let Some(plan) = start.plan.as_ref().and_then(|plan| Plan::deserialize(plan).ok()) {
            self.agents = plan.agents.into_iter().map(|(name, agent)| (name, AgentFrame::of(agent))).collect();
            self.checks = plan.checks.into_iter().map(|(name, check)| (name, check.run)).collect();
            self.models = plan.models;
        }
        if start.stop.is_object() {
            self.stop = Stop::deserialize(&start.stop).ok();
        }
    }

    /// The ceiling of an agent in tokens; `None` when it is unknown or switched off.
    pub fn ceiling(&self, agent: &AgentName) -> Option<u64> {
        self.agents.get(agent).map(|agent| agent.ceiling).filter(|&ceiling| ceiling > 0)
    }
}

impl AgentFrame {
    fn of(agent: Agent) -> Self {
        Self { ceiling: agent.ceiling, choice: agent.choices.into_iter().next() }
    }
}
