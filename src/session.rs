//! The conversations of a run: which session each agent has, how full it is, and when it is replaced.
//!
//! Everything here is folded from the log. The agent map on disk is a projection for people.

pub mod digest;
pub mod lease;
pub mod pool;
pub mod reseed;
pub mod rotation;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::event::{AgentEnd, AgentStart, ContextRead, Event, SessionSeen, item};
use crate::ids::{AgentName, EngineName, SessionId};
use reseed::Fresh;

/// Agent to session, for one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentMap(BTreeMap<AgentName, AgentEntry>);

/// What is known of an agent's session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentEntry {
    /// The engine that worked last.
    pub coding_agent: EngineName,
    /// The model as configured.
    pub model: String,
    /// Effort or thinking level of the last turn.
    #[serde(default)]
    pub level: Option<String>,
    /// The session to go on with; null when the next one is fresh.
    pub session_id: Option<SessionId>,
    /// Live context in tokens at the last main-thread request; null is unknown.
    pub context_tokens: Option<u64>,
    /// The model's window in tokens; null is unknown.
    pub context_window: Option<u64>,
    /// SHA-256 of the system prompt, in hexadecimal.
    pub system_sha256: String,
    /// Turns of this agent in this run, also failed ones.
    pub turns: u64,
    /// Rotations of this agent in this run.
    pub rotations: u32,
    /// Sessions left behind, oldest first.
    pub retired: Vec<RetiredSession>,
    /// Whether a fresh session was ordered and none has succeeded since.
    pub pending_reseed: bool,
    /// Why the last fresh session was ordered; its preamble says so.
    #[serde(default)]
    pub fresh: Option<Fresh>,
    /// What the session has cost so far, as its engine counts; null is unknown.
    #[serde(default)]
    pub session_cost_usd: Option<f64>,
    /// Usage of the session's last request; null is unknown.
    #[serde(default)]
    pub last_request: Option<item::Usage>,
    /// Time of the last change.
    pub updated_at: DateTime<Utc>,
}

/// A session that was left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetiredSession {
    /// Its native id; null when the engine never gave one.
    pub session_id: Option<SessionId>,
    /// Its live context when it was left, in tokens; null is unknown.
    pub context_tokens: Option<u64>,
    /// When it was left.
    pub at: DateTime<Utc>,
    /// Its archived file, relative to the run directory; null when it has none.
    pub transcript: Option<String>,
}

impl AgentMap {
    /// The entry of an agent that has worked in this run.
    pub fn entry(&self, agent: &AgentName) -> Option<&AgentEntry> {
        self.0.get(agent)
    }

    /// Every entry, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&AgentName, &AgentEntry)> {
        self.0.iter()
    }

    /// The session that a turn on this engine and model goes on with; a session never changes either.
    pub fn session(&self, agent: &AgentName, engine: EngineName, model: &str) -> Option<&SessionId> {
        let entry = self.entry(agent)?;
        if entry.coding_agent == engine && entry.model == model { entry.session_id.as_ref() } else { None }
    }

    /// Takes a fact into the map; facts that say nothing of a session change nothing.
    pub(crate) fn apply(&mut self, at: DateTime<Utc>, event: &Event) {
        match event {
            Event::AgentStart(start) => self.started(at, start),
            Event::Session(seen) => self.session_seen(at, seen),
            Event::Context(read) => self.context_read(at, read),
            Event::AgentEnd(end) => self.ended(at, end),
            Event::Compacted(compacted) => self.change(at, &compacted.agent, |entry| {
                entry.context_tokens = None;
                entry.last_request = None;
            }),
            Event::SessionRotation(rotation) => {
                let fresh = Fresh::Rotated {
                    reason: rotation.reason,
                    context_tokens: rotation.context_tokens,
                    cap: rotation.cap,
                };
                self.retire(at, &rotation.agent, fresh, rotation.archived.first());
                self.change(at, &rotation.agent, |entry| entry.rotations += 1);
            }
            Event::SessionRetired(retired) => {
                self.retire(at, &retired.agent, Fresh::Retired(retired.reason), retired.archived.first());
            }
            Event::RunStart(_)
            | Event::RunEnd(_)
            | Event::PhaseStart(_)
            | Event::PhaseEnd(_)
            | Event::ToolCall(_)
            | Event::Envelope(_)
            | Event::CheckStart(_)
            | Event::Check(_)
            | Event::GatePass(_)
            | Event::GateFail(_)
            | Event::EngineError(_)
            | Event::EngineRetry(_)
            | Event::EngineRelay(_)
            | Event::EngineFallback(_)
            | Event::EngineContinuation(_)
            | Event::CacheBreak(_)
            | Event::Waiting(_)
            | Event::Approval(_)
            | Event::Verdict(_)
            | Event::Message(_)
            | Event::Error(_)
            | Event::RotationStoodDown(_)
            | Event::UsageUnknown(_)
            | Event::PhaseReused(_)
            | Event::StepSkipped(_)
            | Event::TreeChanged(_)
            | Event::PermissionRetry(_)
            | Event::ExternalChange(_)
            | Event::Committed(_)
            | Event::BudgetWarning(_)
            | Event::BoundedContinuation(_)
            | Event::PrefixChanged(_)
            | Event::ContextPruned(_)
            | Event::SessionEvicted(_)
            | Event::ApiKeyBilling(_) => {}
        }
    }

    fn change(&mut self, at: DateTime<Utc>, agent: &AgentName, change: impl FnOnce(&mut AgentEntry)) {
        if let Some(entry) = self.0.get_mut(agent) {
            change(entry);
            entry.updated_at = at;
        }
    }

    fn started(&mut self, at: DateTime<Utc>, start: &AgentStart) {
        let entry = self.0.entry(start.agent.clone()).or_insert_with(|| AgentEntry {
            coding_agent: start.engine,
            model: start.model.clone(),
            level: None,
            session_id: None,
            context_tokens: None,
            context_window: None,
            system_sha256: String::new(),
            turns: 0,
            rotations: 0,
            retired: Vec::new(),
            pending_reseed: false,
            fresh: None,
            session_cost_usd: None,
            last_request: None,
            updated_at: at,
        });
        if start.session_id.is_none() {
            entry.session_id = None;
            entry.context_tokens = None;
            entry.session_cost_usd = None;
            entry.last_request = None;
        }
        if entry.coding_agent != start.engine || entry.model != start.model {
            entry.context_window = None;
        }
        entry.coding_agent = start.engine;
        entry.model.clone_from(&start.model);
        entry.level.clone_from(&start.level);
        entry.system_sha256.clone_from(&start.system_sha256);
        entry.turns += 1;
        entry.updated_at = at;
    }

    fn session_seen(&mut self, at: DateTime<Utc>, seen: &SessionSeen) {
        self.change(at, &seen.agent, |entry| entry.session_id = Some(seen.session_id.clone()));
    }

    fn context_read(&mut self, at: DateTime<Utc>, read: &ContextRead) {
        self.change(at, &read.agent, |entry| {
            if read.context_tokens.is_some() {
                entry.context_tokens = read.context_tokens;
                entry.last_request = read.usage;
            }
            if read.window.is_some() {
                entry.context_window = read.window;
            }
        });
    }

    fn ended(&mut self, at: DateTime<Utc>, end: &AgentEnd) {
        self.change(at, &end.agent, |entry| {
            entry.context_window = end.window.or(entry.context_window);
            if end.session_cost_usd.is_some() {
                entry.session_cost_usd = end.session_cost_usd;
            }
            if end.ended == crate::event::TurnStatus::Completed {
                entry.pending_reseed = false;
            }
        });
    }

    /// Takes what a turn cost whose end nobody recorded: the engine's own total will hold it.
    pub(crate) fn turn_lost(&mut self, agent: &AgentName, cost_usd: f64) {
        if let Some(entry) = self.0.get_mut(agent).filter(|_| cost_usd > 0.0) {
            *entry.session_cost_usd.get_or_insert(0.0) += cost_usd;
        }
    }

    fn retire(&mut self, at: DateTime<Utc>, agent: &AgentName, fresh: Fresh, transcript: Option<&String>) {
        self.change(at, agent, |entry| {
            entry.retired.push(RetiredSession {
                session_id: entry.session_id.take(),
                context_tokens: entry.context_tokens.take(),
                at,
                transcript: transcript.cloned(),
            });
            entry.session_cost_usd = None;
            entry.last_request = None;
            entry.pending_reseed = true;
            entry.fresh = Some(fresh);
        });
    }
}
