//! Whom an event is about.

use crate::event::Event;
use crate::ids::AgentName;

/// The agent that an event is about, if it is about one.
pub fn agent_of(event: &Event) -> Option<&AgentName> {
    match event {
        Event::PhaseStart(it) => it.agent.as_ref(),
        Event::AgentStart(it) => Some(&it.agent),
        Event::AgentEnd(it) => Some(&it.agent),
        Event::Session(it) => Some(&it.agent),
        Event::Context(it) => Some(&it.agent),
        Event::ToolCall(it) => Some(&it.agent),
        Event::EngineError(it) => Some(&it.agent),
        Event::EngineRetry(it) => Some(&it.agent),
        Event::EngineRelay(it) => Some(&it.agent),
        Event::EngineFallback(it) => Some(&it.agent),
        Event::EngineContinuation(it) => Some(&it.agent),
        Event::CacheBreak(it) => Some(&it.agent),
        Event::Waiting(it) => it.agent.as_ref(),
        Event::Message(it) => Some(&it.agent),
        Event::SessionRotation(it) => Some(&it.agent),
        Event::SessionRetired(it) => Some(&it.agent),
        Event::RotationStoodDown(it) => Some(&it.agent),
        Event::UsageUnknown(it) => Some(&it.agent),
        Event::Compacted(it) => Some(&it.agent),
        Event::BoundedContinuation(it) => Some(&it.agent),
        Event::PrefixChanged(it) => Some(&it.agent),
        Event::ContextPruned(it) => Some(&it.agent),
        Event::SessionEvicted(it) => Some(&it.agent),
        Event::RunStart(_)
        | Event::RunEnd(_)
        | Event::PhaseEnd(_)
        | Event::Envelope(_)
        | Event::CheckStart(_)
        | Event::Check(_)
        | Event::GatePass(_)
        | Event::GateFail(_)
        | Event::Approval(_)
        | Event::Verdict(_)
        | Event::Error(_)
        | Event::PhaseReused(_)
        | Event::StepSkipped(_)
        | Event::TreeChanged(_)
        | Event::PermissionRetry(_)
        | Event::ExternalChange(_)
        | Event::Committed(_)
        | Event::BudgetWarning(_)
        | Event::ApiKeyBilling(_) => None,
    }
}
