//! What becomes of a phase whose engine died: once more, a fresh session, another engine, or the end.

use std::time::Duration;

use super::agent::{AfterDeath, AgentOrder};
use super::phase::PhaseResult;
use super::{Level, Run, RunError};
use crate::event::item::Failure;
use crate::event::{
    EngineError, EngineRelay, EngineRetry, Event, FailureKind, Outcome, RetirementReason, RotationReason,
    SessionRetired, SessionRotation,
};
use crate::plan::{EngineChoice, Relay};

/// The pause before the one retry on the same engine, before jitter.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

impl Run {
    /// Records a death and decides what comes after it.
    pub(super) async fn after_death(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        failure: Failure,
    ) -> Result<AfterDeath, RunError> {
        let phase = &order.order.phase;
        let choice = self.choice(order.agent).clone();
        let (fresh_before, resumed) = self.with_state(|state| {
            let known = state.phases.get(phase);
            (known.is_some_and(|known| known.overflowed), state.agents.entry(order.agent).is_some())
        });
        match failure.kind {
            FailureKind::BadSession if !fresh_before && resumed => return self.leave_lost_session(order, &choice),
            FailureKind::ContextOverflow if !fresh_before && resumed => return self.leave_full_session(order, &choice),
            FailureKind::BadSession
            | FailureKind::ContextOverflow
            | FailureKind::Overload
            | FailureKind::Crash
            | FailureKind::Timeout
            | FailureKind::Limit
            | FailureKind::Login
            | FailureKind::Missing => {}
        }
        self.record_death(order, leg, &choice, &failure)?;
        let deaths = self.with_state(|state| state.phases.get(phase).map_or(0, |known| known.transient_deaths));
        if failure.kind.is_transient() && deaths < 2 {
            return self.retry(order, leg, &choice, failure.kind).await;
        }
        self.relay(order, &choice, &failure)
    }

    fn record_death(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        choice: &EngineChoice,
        failure: &Failure,
    ) -> Result<(), RunError> {
        let count = self.with_state(|state| state.deaths_of(choice.engine, &choice.model, failure.kind)) + 1;
        let error = EngineError {
            agent: order.agent.clone(),
            engine: choice.engine,
            model: choice.model.clone(),
            kind: failure.kind,
            transient: failure.kind.is_transient(),
            leg,
            count,
            message: failure.message.clone(),
            retry_after: None,
        };
        self.record(Some(&order.order.phase), Event::EngineError(error))
    }

    /// The session to resume is gone: no death, a fresh one once.
    fn leave_lost_session(&self, order: &AgentOrder<'_>, choice: &EngineChoice) -> Result<AfterDeath, RunError> {
        let archived = self.archive(order.agent, choice).unwrap_or_default();
        let from_session = self.with_state(|state| state.agents.entry(order.agent)?.session_id.clone());
        let reason = RetirementReason::SessionLost;
        let retired = SessionRetired { agent: order.agent.clone(), reason, from_session, archived };
        self.record(Some(&order.order.phase), Event::SessionRetired(retired))?;
        Ok(AfterDeath::Again)
    }

    /// The session no longer fits the model: a fresh one once a phase.
    fn leave_full_session(&self, order: &AgentOrder<'_>, choice: &EngineChoice) -> Result<AfterDeath, RunError> {
        let archived = self.archive(order.agent, choice).unwrap_or_default();
        let (from_session, context_tokens) = self.with_state(|state| {
            let entry = state.agents.entry(order.agent);
            (entry.and_then(|entry| entry.session_id.clone()), entry.and_then(|entry| entry.context_tokens))
        });
        let rotation = SessionRotation {
            agent: order.agent.clone(),
            reason: RotationReason::Overflow,
            context_tokens,
            cap: self.plan.agents[order.agent].ceiling,
            from_session,
            archived,
            preamble_bytes: 0,
            price: None,
        };
        self.record(Some(&order.order.phase), Event::SessionRotation(rotation))?;
        Ok(AfterDeath::Again)
    }

    async fn retry(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        choice: &EngineChoice,
        kind: FailureKind,
    ) -> Result<AfterDeath, RunError> {
        let mut random = [0_u8; 1];
        // Without randomness the pause has no jitter, which does no harm.
        let _plain_pause = getrandom::fill(&mut random);
        let delay = RETRY_PAUSE + Duration::from_millis(u64::from(random[0]) * 4);
        let retry = EngineRetry {
            agent: order.agent.clone(),
            engine: choice.engine,
            model: choice.model.clone(),
            kind,
            delay_ms: super::millis(delay),
            leg: leg + 1,
        };
        self.record(Some(&order.order.phase), Event::EngineRetry(retry))?;
        let mut level = self.bells.level.clone();
        tokio::select! {
            _ = level.wait_for(|level| *level > Level::Running) => {
                Ok(AfterDeath::End(PhaseResult::stopped(Outcome::Aborted, "interrupted")))
            }
            () = tokio::time::sleep(delay) => Ok(AfterDeath::Again),
        }
    }

    /// Hands the phase to the next fallback, or ends it.
    fn relay(&self, order: &AgentOrder<'_>, choice: &EngineChoice, failure: &Failure) -> Result<AfterDeath, RunError> {
        let at = self.with_state(|state| state.relayed.get(order.agent).copied().unwrap_or(0));
        let choices = &self.plan.agents[order.agent].choices;
        let said = format!("{} {}: {}", choice.engine, failure.kind.as_str(), failure.message);
        let end = |reason: String| Ok(AfterDeath::End(PhaseResult::failed(Outcome::EngineExhausted, reason)));
        let Some(next) = choices.get(at + 1).filter(|_| self.plan.relay != Relay::Off) else { return end(said) };
        let relay = EngineRelay {
            agent: order.agent.clone(),
            from: choice.engine,
            from_model: choice.model.clone(),
            to: next.engine,
            to_model: next.model.clone(),
            choice: at + 1,
            kind: failure.kind,
            phase: order.order.phase.clone(),
        };
        self.record(Some(&order.order.phase), Event::EngineRelay(relay))?;
        match self.plan.relay {
            Relay::Auto => Ok(AfterDeath::Again),
            Relay::Resume | Relay::Off => end(format!("{said}; a resume goes on with {}", next.engine)),
        }
    }
}
