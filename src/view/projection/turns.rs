//! What turns and sessions do to a projection.

use chrono::{DateTime, Utc};

use super::Projection;
use crate::event::{AgentEnd, AgentStart, ContextRead, Record, SessionRotation};
use crate::ids::AgentName;
use crate::view::rows::{ModelRow, OpenTurn, PhaseState, RotationRow};

impl Projection {
    /// Closes what an ended or killed stretch left open.
    pub(super) fn settle(&mut self) {
        for phase in self.phases.iter_mut().filter(|row| row.status == PhaseState::Running) {
            phase.status = PhaseState::Interrupted;
        }
        for agent in 0..self.agents.len() {
            self.lose_turn(agent);
        }
    }

    fn lose_turn(&mut self, agent: usize) {
        let Some(open) = self.agents[agent].open.take() else { return };
        self.agents[agent].spend.add_lost_turn(&open);
        self.run.spend.add_lost_turn(&open);
        let lost = &self.agents[agent];
        if let Some(engine) = lost.engine {
            let model = lost.model.as_deref().unwrap_or_default();
            ModelRow::find(&mut self.models, engine, model).spend.add_lost_turn(&open);
        }
        if let Some(row) = self.phase_mut(open.phase.as_ref()) {
            row.spend.add_lost_turn(&open);
        }
    }

    pub(super) fn turn_started(&mut self, record: &Record, start: &AgentStart) {
        self.run.waiting = None;
        let at = self.agent_at(&start.agent, record.ts);
        self.lose_turn(at);
        let agent = &mut self.agents[at];
        let model = Some(start.model.clone()).filter(|model| !model.is_empty());
        if (agent.engine, &agent.model) != (Some(start.engine), &model) {
            agent.window = None;
        }
        agent.engine = Some(start.engine);
        agent.model.clone_from(&model);
        agent.open = Some(OpenTurn { phase: record.phase.clone(), ..OpenTurn::default() });
        if start.session_id.is_none() {
            if agent.session_id.is_some() {
                agent.trace.border();
            }
            agent.context_tokens = None;
        }
        agent.session_id.clone_from(&start.session_id);
        let before = if start.session_id.is_some() { agent.context_tokens } else { Some(0) };
        ModelRow::find(&mut self.models, start.engine, &start.model).runs = 1;
        if let Some(row) = self.phase_mut(record.phase.as_ref()) {
            if row.legs == 0 {
                row.context_before = before;
                row.lease = Some(start.lease);
            }
            row.legs = row.legs.max(start.leg);
            row.engine = Some(start.engine);
            row.model = model;
            row.level.clone_from(&start.level);
        }
    }

    pub(super) fn turn_ended(&mut self, record: &Record, end: &AgentEnd) {
        let agent = self.agent_mut(&end.agent, record.ts);
        let seen = agent.open.take().unwrap_or_default();
        agent.spend.add_turn(end, &seen);
        agent.context_tokens = end.context_tokens.or(agent.context_tokens);
        agent.window = end.window.or(agent.window);
        let (window, largest) = (agent.window, agent.context_tokens);
        let model = ModelRow::find(&mut self.models, end.engine, &end.model);
        model.spend.add_turn(end, &seen);
        model.window = window.or(model.window);
        model.context_max = model.context_max.max(largest);
        self.run.spend.add_turn(end, &seen);
        if let Some(row) = self.phase_mut(record.phase.as_ref()) {
            row.spend.add_turn(end, &seen);
            row.context_after = end.context_tokens.or(row.context_after);
            row.context_max = row.context_max.max(end.context_tokens);
        }
    }

    pub(super) fn context_read(&mut self, record: &Record, read: &ContextRead) {
        let at_ms = self.run.elapsed_ms;
        let agent = self.agent_mut(&read.agent, record.ts);
        agent.window = read.window.or(agent.window);
        if let Some(open) = &mut agent.open {
            open.requests += 1;
            open.tokens += read.usage.unwrap_or_default();
            open.cost_usd += read.cost_usd.unwrap_or(0.0);
        }
        let Some(tokens) = read.context_tokens else { return };
        agent.context_tokens = Some(tokens);
        agent.context_max = agent.context_max.max(Some(tokens));
        agent.trace.push(at_ms, tokens);
        if let Some(row) = self.phase_mut(record.phase.as_ref()) {
            row.context_after = Some(tokens);
            row.context_max = row.context_max.max(Some(tokens));
        }
    }

    pub(super) fn rotated(&mut self, record: &Record, rotation: &SessionRotation) {
        self.run.rotations += 1;
        self.session_left(&rotation.agent, record.ts);
        self.agent_mut(&rotation.agent, record.ts).rotations += 1;
        if let Some(row) = self.phase_mut(record.phase.as_ref()) {
            row.rotations += 1;
            row.rotation = Some(RotationRow {
                reason: rotation.reason,
                context_tokens: rotation.context_tokens,
                cap: rotation.cap,
                preamble_bytes: rotation.preamble_bytes,
            });
        }
    }

    pub(super) fn session_left(&mut self, agent: &AgentName, ts: DateTime<Utc>) {
        let row = self.agent_mut(agent, ts);
        row.session_id = None;
        row.context_tokens = None;
        row.trace.border();
    }
}
