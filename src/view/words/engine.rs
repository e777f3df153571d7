//! Engines, sessions and turns in words.

use chrono::{DateTime, Utc};

use crate::event::{
    AgentEnd, AgentStart, EngineError, EngineFallback, EngineRelay, EngineRetry, LeaseKind, SessionSeen, TurnStatus,
};
use crate::ids::EngineName;
use crate::view::numbers::{self, count, dollars, or_unknown, percent, span};

/// An engine and its model, as tables name them.
pub fn engine_model(engine: EngineName, model: &str) -> String {
    // A model's provider says little beside its engine and takes half the column.
    let model = model.rsplit('/').next().unwrap_or(model);
    if model.is_empty() { engine.to_string() } else { format!("{engine} {model}") }
}

/// What a turn starts with: engine, model and session.
pub fn agent_start(start: &AgentStart) -> String {
    let session = match (&start.session_id, start.lease) {
        (None, _) => "new session".to_owned(),
        (Some(session), LeaseKind::Warm) => format!("warm session {}", short_session(session.as_str())),
        (Some(session), LeaseKind::Cold | LeaseKind::Restored) => {
            format!("session {}", short_session(session.as_str()))
        }
    };
    format!("{} on {}, {session}", start.agent, engine_model(start.engine, &start.model))
}

/// The part of a session's id that tells it apart: up to its first dash when that is long, 12 characters at most.
pub fn short_session(id: &str) -> &str {
    let head = id.split_once('-').map_or(id, |(head, _)| if head.len() < 8 { id } else { head });
    head.char_indices().nth(12).map_or(head, |(cut, _)| &head[..cut])
}

pub(super) fn agent_end(end: &AgentEnd) -> String {
    let status = match end.ended {
        TurnStatus::Completed => "completed",
        TurnStatus::Cut => "cut",
        TurnStatus::Failed => "failed",
        TurnStatus::Stopped => "stopped",
    };
    format!(
        "{} {status}: {}, {} tokens, context {}, cache {}, {}",
        end.agent,
        numbers::plural(u64::from(end.requests), "request"),
        or_unknown(end.usage, |usage| count(usage.total())),
        or_unknown(end.context_tokens, count),
        or_unknown(end.cache_hit_ratio, percent),
        or_unknown(end.cost_usd, dollars)
    )
}

pub(super) fn session(seen: &SessionSeen) -> String {
    let new = if seen.new { "new " } else { "" };
    format!("{} {new}session {} on {}", seen.agent, seen.session_id, engine_model(seen.engine, &seen.model))
}

pub(super) fn engine_error(error: &EngineError, at: DateTime<Utc>) -> String {
    let back = error.retry_after.map(|time| format!("; back {}", numbers::due(time, at))).unwrap_or_default();
    let model = engine_model(error.engine, &error.model);
    let again = if error.count > 1 { format!(" (no. {})", error.count) } else { String::new() };
    format!("{} on {model}: {}{again}{back}: {}", error.agent, error.kind.as_str(), error.message)
}

pub(super) fn engine_retry(retry: &EngineRetry) -> String {
    let model = engine_model(retry.engine, &retry.model);
    format!("{} tries {model} again after {} ({})", retry.agent, span(retry.delay_ms), retry.kind.as_str())
}

/// From which engine to which, and why.
pub fn engine_relay(relay: &EngineRelay) -> String {
    let from = engine_model(relay.from, &relay.from_model);
    let to = engine_model(relay.to, &relay.to_model);
    let (agent, kind) = (&relay.agent, relay.kind.as_str());
    if relay.at_resume {
        return format!("{agent} leaves {from} ({kind}) and will go on with {to} at fia resume");
    }
    format!("{agent} handed from {from} to {to} ({kind})")
}

pub(super) fn engine_fallback(fallback: &EngineFallback) -> String {
    let model = engine_model(fallback.engine, &fallback.model);
    match (&fallback.reason, fallback.ready) {
        (_, true) => format!("fallback {model} of {} is ready", fallback.agent),
        (Some(reason), false) => format!("fallback {model} of {} is not ready: {reason}", fallback.agent),
        (None, false) => format!("fallback {model} of {} is not ready", fallback.agent),
    }
}
