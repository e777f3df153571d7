//! Carries out what [`crate::state::relay`] decides about a phase whose engine died.

use chrono::{DateTime, Utc};

use super::agent::AfterDeath;
use super::order::AgentOrder;
use super::phase::PhaseResult;
use super::pruning::chain;
use super::{Run, RunError};
use crate::engine;
use crate::engine::failure::{MESSAGE_CHARS, retry_at};
use crate::event::item::Failure;
use crate::event::{
    EngineError, EngineRelay, EngineRetry, Event, FailureKind, Fault, FaultKind, Outcome, RetirementReason,
    RotationReason, SessionRetired, SessionRotation, Waiting,
};
use crate::ids::{AgentName, PhaseName};
use crate::plan::{EngineChoice, Relay};
use crate::session::reseed::Fresh;
use crate::state::WAITS_FOR_LIMIT;
use crate::state::relay::{self, Death, Elsewhere, First, Renewal, Stuck};

/// A leg whose engine died.
pub(super) struct Dead<'a> {
    pub(super) order: &'a AgentOrder<'a>,
    leg: u32,
    pub(super) choice: &'a EngineChoice,
    pub(super) kind: FailureKind,
    /// What it said and what to do about it, without secrets.
    message: String,
    retry_after: Option<DateTime<Utc>>,
}

impl Run {
    /// Records a death and does what comes after it.
    pub(super) async fn after_death(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        failure: Failure,
    ) -> Result<AfterDeath, RunError> {
        let after = self.go_on_after(order, leg, failure).await;
        self.unless_session_stays(order, after, |reason| AfterDeath::End(PhaseResult::failed(Outcome::Failed, reason)))
    }

    async fn go_on_after(&self, order: &AgentOrder<'_>, leg: u32, failure: Failure) -> Result<AfterDeath, RunError> {
        let choice = self.choice(order.agent).clone();
        let dead = Dead {
            order,
            leg,
            choice: &choice,
            kind: failure.kind,
            message: self.told(&choice, &failure),
            retry_after: retry_at(&failure.reset, (self.now)(), &self.zone),
        };
        match relay::first(self.death(&dead)) {
            First::FreshForLost => {
                self.leave_lost_session(Some(&dead.order.order.phase), dead.order.agent, dead.choice)?;
            }
            First::FreshForOverflow => {
                self.record_death(&dead)?;
                self.leave_full_session(&dead)?;
            }
            First::Retry => {
                self.record_death(&dead)?;
                return self.retry(&dead).await;
            }
            First::Nothing => {
                self.record_death(&dead)?;
                return self.elsewhere(&dead).await;
            }
        }
        Ok(AfterDeath::Again)
    }

    /// What the log knows that the decision depends on.
    fn death(&self, dead: &Dead<'_>) -> Death {
        self.with_state(|state| {
            let phase = state.phases.get(&dead.order.order.phase);
            let entry = state.agents.entry(dead.order.agent);
            // Without a session there is nothing to leave.
            let used = match dead.kind {
                FailureKind::BadSession => entry.is_none_or(|entry| entry.session_id.is_none()),
                FailureKind::ContextOverflow
                | FailureKind::Overload
                | FailureKind::Crash
                | FailureKind::Timeout
                | FailureKind::Limit
                | FailureKind::Login
                | FailureKind::Missing => entry.is_none(),
            };
            let used = used || phase.is_some_and(|phase| phase.renewed.contains(&dead.kind));
            Death {
                kind: dead.kind,
                in_a_row: phase.map_or(0, |phase| phase.transient_deaths) + 1,
                renewal: if used { Renewal::Used } else { Renewal::Possible },
            }
        })
    }

    /// The words for a death: what the engine said, and what a person can do about it.
    fn told(&self, choice: &EngineChoice, failure: &Failure) -> String {
        let facts = engine::for_name(choice.engine).facts();
        let advice = match failure.kind {
            FailureKind::Login if !facts.login.is_empty() => format!("; log in with `{}`", facts.login),
            FailureKind::Missing if !facts.install.is_empty() => {
                format!("; see `fia doctor` ({})", facts.install)
            }
            FailureKind::Login
            | FailureKind::Missing
            | FailureKind::Overload
            | FailureKind::Crash
            | FailureKind::Timeout
            | FailureKind::Limit
            | FailureKind::ContextOverflow
            | FailureKind::BadSession => String::new(),
        };
        let said = self.mask.text(&failure.message);
        let room = MESSAGE_CHARS.saturating_sub(advice.chars().count());
        said.chars().take(room).collect::<String>() + &advice
    }

    fn record_death(&self, dead: &Dead<'_>) -> Result<(), RunError> {
        let choice = dead.choice;
        let count = self.with_state(|state| state.deaths_of(choice.engine, &choice.model, dead.kind)) + 1;
        let error = EngineError {
            agent: dead.order.agent.clone(),
            engine: choice.engine,
            model: choice.model.clone(),
            kind: dead.kind,
            transient: dead.kind.is_transient(),
            leg: dead.leg,
            count,
            message: dead.message.clone(),
            retry_after: dead.retry_after,
        };
        self.record(Some(&dead.order.order.phase), Event::EngineError(error))
    }

    /// Ends with a fault what would have gone on in a fresh session while the old one stands in its way.
    pub(super) fn unless_session_stays<T>(
        &self,
        order: &AgentOrder<'_>,
        done: Result<T, RunError>,
        failed: impl FnOnce(String) -> T,
    ) -> Result<T, RunError> {
        let Err(error @ RunError::Archive { .. }) = &done else { return done };
        let message = chain(error);
        let phase = &order.order.phase;
        let fault = Fault { place: phase.to_string(), kind: FaultKind::Storage, message: message.clone() };
        self.record(Some(phase), Event::Error(fault))?;
        Ok(failed(message))
    }

    /// The session to resume is gone: a fresh one, with the preamble.
    pub(super) fn leave_lost_session(
        &self,
        phase: Option<&PhaseName>,
        agent: &AgentName,
        choice: &EngineChoice,
    ) -> Result<(), RunError> {
        let archived = self.leave_session(agent, choice)?;
        let from_session = self.with_state(|state| state.agents.entry(agent)?.session_id.clone());
        let reason = RetirementReason::SessionLost;
        let retired = SessionRetired { agent: agent.clone(), reason, from_session, archived };
        self.record(phase, Event::SessionRetired(retired))
    }

    /// The session no longer fits the model: a fresh one, with the preamble.
    fn leave_full_session(&self, dead: &Dead<'_>) -> Result<(), RunError> {
        let agent = dead.order.agent;
        let archived = self.leave_session(agent, dead.choice)?;
        let (from_session, context_tokens) = self.with_state(|state| {
            let entry = state.agents.entry(agent);
            (entry.and_then(|entry| entry.session_id.clone()), entry.and_then(|entry| entry.context_tokens))
        });
        let (reason, cap) = (RotationReason::Overflow, self.plan.agents[agent].ceiling);
        let fresh = Fresh::Rotated { reason, context_tokens, cap };
        let preamble_bytes = self.preamble(dead.order, dead.leg + 1, fresh, archived.first()).len();
        let agent = agent.clone();
        let rotation =
            SessionRotation { agent, reason, context_tokens, cap, from_session, archived, preamble_bytes, price: None };
        self.record(Some(&dead.order.order.phase), Event::SessionRotation(rotation))
    }

    async fn retry(&self, dead: &Dead<'_>) -> Result<AfterDeath, RunError> {
        let mut random = [0_u8; 1];
        // Without randomness the pause has no jitter, which does no harm.
        let _plain_pause = getrandom::fill(&mut random);
        let pause = relay::retry_pause(random[0]);
        let retry = EngineRetry {
            agent: dead.order.agent.clone(),
            engine: dead.choice.engine,
            model: dead.choice.model.clone(),
            kind: dead.kind,
            delay_ms: super::millis(pause),
            leg: dead.leg + 1,
            from: Some(dead.choice.engine),
            to: Some(dead.choice.engine),
        };
        self.record(Some(&dead.order.order.phase), Event::EngineRetry(retry))?;
        Ok(match self.pause(pause).await {
            Some((outcome, reason)) => AfterDeath::End(PhaseResult::stopped(outcome, reason)),
            None => AfterDeath::Again,
        })
    }

    /// Another engine, a wait, or the end.
    async fn elsewhere(&self, dead: &Dead<'_>) -> Result<AfterDeath, RunError> {
        let ready = match self.plan.relay {
            Relay::Off => None,
            Relay::Auto | Relay::Resume => match self.ready_fallback(dead).await? {
                Ok(ready) => ready,
                Err((outcome, reason)) => return Ok(AfterDeath::End(PhaseResult::stopped(outcome, reason))),
            },
        };
        let (waits, waits_since) = self.with_state(|state| {
            let phase = state.phases.get(&dead.order.order.phase);
            (phase.map_or(0, |phase| phase.waits), phase.and_then(|phase| phase.waits_since))
        });
        let decided = relay::elsewhere(&Stuck {
            kind: dead.kind,
            policy: self.plan.relay,
            ready,
            now: (self.now)(),
            reset: dead.retry_after,
            waits,
            waits_since,
            limit_wait_minutes: self.stop.limit_wait_minutes,
            run_ends: self.minutes_end(),
        });
        let said = format!("{} {}: {}", dead.choice.engine, dead.kind.as_str(), dead.message);
        Ok(match decided {
            Elsewhere::Relay(choice) => {
                self.relay(dead, choice, false)?;
                AfterDeath::Again
            }
            Elsewhere::RelayOnResume(choice) => {
                let next = self.relay(dead, choice, true)?;
                let reason = format!("{said}; `fia resume` goes on with {next}");
                AfterDeath::End(PhaseResult::failed(Outcome::EngineExhausted, reason))
            }
            Elsewhere::Wait { until, count } => {
                let reason = WAITS_FOR_LIMIT.to_owned();
                let waiting = Waiting { until: Some(until), reason, agent: Some(dead.order.agent.clone()), count };
                self.record(Some(&dead.order.order.phase), Event::Waiting(waiting))?;
                AfterDeath::End(PhaseResult::waits())
            }
            Elsewhere::Exhausted => {
                let when = dead.retry_after.map(|at| format!("; it can go on at {}", self.local_time(at)));
                let reason = format!("{said}{}", when.unwrap_or_default());
                AfterDeath::End(PhaseResult::failed(Outcome::EngineExhausted, reason))
            }
        })
    }

    /// Switches the agent to a fallback for the rest of the run, now or at the next resume, and names it.
    fn relay(&self, dead: &Dead<'_>, position: usize, at_resume: bool) -> Result<String, RunError> {
        let next = &self.plan.agents[dead.order.agent].choices[position];
        let relay = EngineRelay {
            agent: dead.order.agent.clone(),
            from: dead.choice.engine,
            from_model: dead.choice.model.clone(),
            to: next.engine,
            to_model: next.model.clone(),
            choice: position,
            kind: dead.kind,
            phase: dead.order.order.phase.clone(),
            at_resume,
        };
        self.record(Some(&dead.order.order.phase), Event::EngineRelay(relay))?;
        Ok(format!("{} {}", next.engine, next.model).trim_end().to_owned())
    }

    /// A time as people here read it.
    pub(super) fn local_time(&self, at: DateTime<Utc>) -> String {
        self.zone.shown(at)
    }
}
