//! Whether an agent gets a fresh session: decided once, at the start of a phase, before its first turn.

use crate::economy::break_even::{Standing, reason};
use crate::event::RotationReason;
use crate::ids::EngineName;
use crate::plan::RotationPolicy;
use crate::session::AgentEntry;

/// What the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Live-context ceiling in tokens; 0 never rotates.
    pub ceiling: u64,
    /// What is known of the agent's session; absent before its first turn.
    pub entry: Option<&'a AgentEntry>,
    /// The engine that the phase will use.
    pub engine: EngineName,
    /// The model that it will use.
    pub model: &'a str,
    /// Whether an engine died in this phase: its next leg is a continuation, not a rotation.
    pub death_marker: bool,
    /// What decides below the ceiling.
    pub policy: RotationPolicy,
    /// The session against a fresh one, where price may decide and there is enough to reckon with.
    pub standing: Option<&'a Standing>,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rotation {
    /// The session stays, or there is none.
    Never,
    /// A fresh session is due.
    Due {
        /// Why.
        reason: RotationReason,
        /// The live context that is left behind, in tokens.
        context_tokens: u64,
    },
}

/// Decides by SPEC 6.3: rotate if and only if there is a ceiling, the agent has a session on this engine and
/// model, its live context is known and at or over the ceiling, and no engine died in this phase. Below the ceiling
/// the policy may let price decide (SPEC 6.9).
pub fn decide(question: &Question<'_>) -> Rotation {
    let Some(entry) = question.entry else { return Rotation::Never };
    let same = entry.coding_agent == question.engine && entry.model == question.model;
    if question.ceiling == 0 || question.death_marker || entry.session_id.is_none() || !same {
        return Rotation::Never;
    }
    let Some(context_tokens) = entry.context_tokens else { return Rotation::Never };
    match reason(question.policy, question.ceiling, context_tokens, question.standing) {
        Some(reason) => Rotation::Due { reason, context_tokens },
        None => Rotation::Never,
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::economy::break_even::CacheState;
    use crate::economy::prices::{CacheLifetime, Rates};
    use crate::ids::SessionId;

    fn entry(context_tokens: Option<u64>) -> AgentEntry {
        AgentEntry {
            coding_agent: EngineName::Pi,
            model: "loop/one".to_owned(),
            level: None,
            session_id: Some(SessionId::new("s-1")),
            context_tokens,
            context_window: Some(200_000),
            system_sha256: String::new(),
            turns: 3,
            rotations: 0,
            retired: Vec::new(),
            pending_reseed: false,
            fresh: None,
            session_cost_usd: None,
            last_request: None,
            updated_at: DateTime::UNIX_EPOCH,
        }
    }

    fn question(entry: Option<&AgentEntry>, ceiling: u64) -> Question<'_> {
        Question {
            ceiling,
            entry,
            engine: EngineName::Pi,
            model: "loop/one",
            death_marker: false,
            policy: RotationPolicy::Ceiling,
            standing: None,
        }
    }

    fn ask(entry: Option<&AgentEntry>, ceiling: u64) -> Rotation {
        decide(&question(entry, ceiling))
    }

    const DUE: Rotation = Rotation::Due { reason: RotationReason::Ceiling, context_tokens: 180_000 };

    #[test]
    fn r6_3_a_session_at_the_ceiling_exactly_rotates_and_one_token_below_it_does_not() {
        assert_eq!(ask(Some(&entry(Some(180_000))), 180_000), DUE);
        assert_eq!(ask(Some(&entry(Some(179_999))), 180_000), Rotation::Never);
    }

    #[test]
    fn r6_3_a_ceiling_of_zero_never_rotates() {
        assert_eq!(ask(Some(&entry(Some(u64::MAX))), 0), Rotation::Never);
    }

    #[test]
    fn r6_3_an_unknown_context_an_agent_without_a_session_and_a_new_agent_never_rotate() {
        assert_eq!(ask(Some(&entry(None)), 1), Rotation::Never);
        assert_eq!(ask(Some(&AgentEntry { session_id: None, ..entry(Some(180_000)) }), 1), Rotation::Never);
        assert_eq!(ask(None, 1), Rotation::Never);
    }

    #[test]
    fn r6_3_another_engine_or_model_never_rotates() {
        let full = entry(Some(180_000));
        let question = question(Some(&full), 1);
        assert_eq!(decide(&question), DUE);
        assert_eq!(decide(&Question { engine: EngineName::Claude, ..question }), Rotation::Never);
        assert_eq!(decide(&Question { model: "loop/two", ..question }), Rotation::Never);
    }

    #[test]
    fn r6_3_a_death_marker_of_this_phase_holds_the_rotation_back() {
        let full = entry(Some(180_000));
        assert_eq!(decide(&Question { death_marker: true, ..question(Some(&full), 1) }), Rotation::Never);
    }

    #[test]
    fn r6_9_price_decides_below_the_ceiling_and_never_against_what_forbids_a_rotation() {
        let large = entry(Some(120_000));
        let cold = Standing {
            context: 120_000,
            fresh: 40_000,
            prefix: 20_000,
            expected: 1,
            cache: CacheState::Cold,
            rates: Rates::STANDARD,
            lifetime: CacheLifetime::FiveMinutes,
        };
        let priced = |policy| Question { policy, standing: Some(&cold), ..question(Some(&large), 180_000) };
        let due = Rotation::Due { reason: RotationReason::Expired, context_tokens: 120_000 };
        assert_eq!(decide(&priced(RotationPolicy::BreakEven)), due);
        assert_eq!(decide(&priced(RotationPolicy::Ceiling)), Rotation::Never);
        let marked = Question { death_marker: true, ..priced(RotationPolicy::BreakEven) };
        assert_eq!(decide(&marked), Rotation::Never);
        assert_eq!(decide(&Question { ceiling: 0, ..priced(RotationPolicy::BreakEven) }), Rotation::Never);
    }
}
