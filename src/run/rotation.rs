//! Giving an agent a fresh session: at the start of a phase, and inside a phase that outgrows the ceiling.

use serde_json::Value;

use super::order::AgentOrder;
use super::{Run, RunError};
use crate::economy::break_even::turns_to_ceiling;
use crate::economy::prices::{self, Rates};
use crate::engine::{self, MidPhase, SessionChoice};
use crate::event::item::{Cut, TurnEnd};
use crate::event::{BoundedContinuation, Event, RotationReason, RotationStoodDown, SessionRotation};
use crate::plan::{EngineChoice, RotationPolicy};
use crate::session::reseed::Fresh;
use crate::session::rotation::{Question, Rotation, decide};

/// Requests that a one-shot turn is given while nobody knows how fast the session grows.
const PROBING_REQUESTS: u32 = 5;

/// What a session is told that goes on after fia ended its turn; always the same.
const GO_ON: &str = "Your turn was ended to look at the size of this session; nothing failed. \
     Go on with the task where you stopped, and end with the report that was asked for.\n";

/// Where fia ends the turns of a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bound {
    /// Live context in tokens at which a turn is ended.
    pub(super) ceiling: u64,
    /// Requests that a one-shot turn is given, for an engine that counts them.
    pub(super) max_turns: Option<u32>,
}

/// How a leg goes on after fia ended a turn.
pub(super) enum Onward {
    /// In the same session, with this prompt.
    Same(String),
    /// In a fresh one.
    Fresh,
}

impl Run {
    /// Gives the agent a fresh session when one is due, before the first turn of the phase.
    pub(super) fn rotate_if_due(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        choice: &EngineChoice,
    ) -> Result<(), RunError> {
        let agent = &self.plan.agents[order.agent];
        let expected = match agent.rotation {
            RotationPolicy::Ceiling => None,
            RotationPolicy::BreakEven => Some(self.expected_requests(order.agent, &order.order.step)),
        };
        let (decision, price) = self.with_state(|state| {
            let entry = state.agents.entry(order.agent);
            let context = entry.and_then(|entry| entry.context_tokens);
            let standing = context.zip(expected).and_then(|(context, expected)| {
                state.watch.standing(order.agent, context, expected, (self.now)(), self.rates(choice))
            });
            let decision = decide(&Question {
                ceiling: agent.ceiling,
                entry,
                engine: choice.engine,
                model: &choice.model,
                death_marker: self.is_marked(order),
                policy: agent.rotation,
                standing: standing.as_ref(),
            });
            let growth = state.watch.estimate(order.agent).and_then(|estimate| estimate.growth);
            (decision, standing.and_then(|standing| serde_json::to_value(standing.price(growth)).ok()))
        });
        let Rotation::Due { reason, context_tokens } = decision else { return Ok(()) };
        self.rotate(order, leg, choice, reason, Some(context_tokens), price).map(drop)
    }

    /// Whether an engine died in this phase, or writes were undone: its next leg is none to rotate at.
    fn is_marked(&self, order: &AgentOrder<'_>) -> bool {
        self.with_state(|state| {
            let known = state.phases.get(&order.order.phase);
            known.is_some_and(|phase| phase.death_marker || phase.permission_retried)
        })
    }

    fn rates(&self, choice: &EngineChoice) -> Rates {
        let prices = prices::find(&self.plan.models, &choice.model).and_then(|model| model.prices);
        prices.map_or(Rates::STANDARD, |prices| prices.rates())
    }

    /// Leaves the session of an agent for a fresh one. False when the old one could not be moved aside: then it stays.
    fn rotate(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        choice: &EngineChoice,
        reason: RotationReason,
        context_tokens: Option<u64>,
        price: Option<Value>,
    ) -> Result<bool, RunError> {
        let phase = Some(&order.order.phase);
        let archived = match self.archive(order.agent, choice) {
            Ok(archived) => archived,
            Err(error) => {
                let stood_down = RotationStoodDown { agent: order.agent.clone(), message: error.to_string() };
                self.record(phase, Event::RotationStoodDown(stood_down))?;
                return Ok(false);
            }
        };
        let cap = self.plan.agents[order.agent].ceiling;
        let fresh = Fresh::Rotated { reason, context_tokens, cap };
        let preamble_bytes = self.preamble(order, leg, fresh, archived.first()).len();
        let from_session = self.with_state(|state| state.agents.entry(order.agent)?.session_id.clone());
        let agent = order.agent.clone();
        let rotation =
            SessionRotation { agent, reason, context_tokens, cap, from_session, archived, preamble_bytes, price };
        self.record(phase, Event::SessionRotation(rotation))?;
        Ok(true)
    }

    /// Where the next turn of a leg is to be ended; `None` where it is left to run, by configuration or because the
    /// engine cannot be stopped between two requests.
    pub(super) fn bound(
        &self,
        order: &AgentOrder<'_>,
        choice: &EngineChoice,
        session: &SessionChoice,
    ) -> Option<Bound> {
        let agent = &self.plan.agents[order.agent];
        let can = engine::for_name(choice.engine).capabilities();
        let stops = match can.mid_phase() {
            MidPhase::Always => true,
            MidPhase::WhenResident => self.resides(choice.engine),
            MidPhase::Never => false,
        };
        if !agent.rotate_mid_phase || agent.ceiling == 0 || !stops || self.is_marked(order) {
            return None;
        }
        let ceiling = agent.ceiling;
        let max_turns = can.max_turns.then(|| {
            self.with_state(|state| {
                let estimate = state.watch.estimate(order.agent);
                let entry = state.agents.entry(order.agent);
                let context = match session {
                    SessionChoice::Resume(_) => entry.and_then(|entry| entry.context_tokens),
                    SessionChoice::Fresh => estimate.map(|estimate| estimate.fresh),
                };
                let growth = estimate.and_then(|estimate| estimate.growth).filter(|growth| *growth > 0);
                growth.map_or(PROBING_REQUESTS, |growth| turns_to_ceiling(ceiling, context.unwrap_or(0), growth))
            })
        });
        Some(Bound { ceiling, max_turns })
    }

    /// What follows a turn that fia ended itself: no failure, no correction.
    pub(super) fn go_on(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        choice: &EngineChoice,
        bound: Bound,
    ) -> Result<Onward, RunError> {
        let agent = order.agent.clone();
        let context_tokens = self.with_state(|state| state.agents.entry(order.agent)?.context_tokens);
        let over = context_tokens.is_some_and(|context| context >= bound.ceiling);
        // The digest of this leg is of the session that is left, so the preamble may name it.
        let fresh = over && self.rotate(order, leg + 1, choice, RotationReason::MidPhase, context_tokens, None)?;
        let continued = BoundedContinuation { agent, context_tokens, same_session: !fresh };
        self.record(Some(&order.order.phase), Event::BoundedContinuation(continued))?;
        Ok(if fresh { Onward::Fresh } else { Onward::Same(GO_ON.to_owned()) })
    }
}

/// Whether a turn came to its end because fia ended it.
pub(super) fn ended_by_us(bound: Option<Bound>, end: &TurnEnd) -> Option<Bound> {
    match end {
        TurnEnd::Cut(Cut::MaxTurns | Cut::Interrupted) => bound,
        TurnEnd::Cut(Cut::OutputLimit) | TurnEnd::Completed | TurnEnd::Failed(_) => None,
    }
}
