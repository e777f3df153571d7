//! What rotation and pruning saved, against a run that had done neither.
//!
//! Without a rotation the session would have gone on from where it was and grown by what the fresh one grew:
//! `would = left + (context - first)`, at most the model's window. Each request of the fresh session saved
//! `would - context` tokens read, and its first request wrote the fresh prefix again. A second rotation counts
//! from what the session would have been by then. A session lost or compacted on the way ends the comparison.
//!
//! A round of pruning spares every later request of that session the characters removed, at four a token.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::event::{ContextPruned, ContextRead, Event, Record, RotationReason, SessionRotation};
use crate::ids::{AgentName, PhaseName};

/// Characters of a token, for what pruning removed: no tokenizer is asked.
const CHARS_PER_TOKEN: u64 = 4;

/// The fold that compares a run with one that never rotated and never pruned.
#[derive(Debug, Clone, Default)]
pub struct Savings {
    agents: BTreeMap<AgentName, Course>,
    rotations: Vec<RotationSaving>,
    pruning: PruningSaving,
}

/// Where an agent's session is, and where it would be.
#[derive(Debug, Clone, Default)]
struct Course {
    context: Option<u64>,
    would: Option<u64>,
    window: Option<u64>,
    /// Index of the rotation that the session began with.
    rotation: Option<usize>,
    /// Tokens that pruning keeps out of each request.
    pruned: u64,
}

/// What one rotation saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RotationSaving {
    /// The agent.
    pub agent: AgentName,
    /// The phase that it preceded.
    pub phase: Option<PhaseName>,
    /// Why it was done.
    pub reason: RotationReason,
    /// Live context that the session would have had at that point; null is unknown.
    pub left: Option<u64>,
    /// Requests of the fresh session that reported their context.
    pub requests: u64,
    /// Live context at the first and at the largest of them.
    pub context: Option<(u64, u64)>,
    /// What it would have been there.
    pub would: Option<(u64, u64)>,
    /// Tokens that were not read: the sum of `would - context`.
    pub reads_saved: i64,
    /// Tokens that the first request paid for again: its input and cache writes.
    pub written_again: u64,
}

impl RotationSaving {
    /// Tokens saved, less those written again.
    pub fn net(&self) -> i64 {
        self.reads_saved.saturating_sub(signed(self.written_again))
    }
}

/// What pruning saved.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PruningSaving {
    /// Rounds that shortened something.
    pub rounds: u64,
    /// Characters that they removed.
    pub chars_removed: u64,
    /// Requests that were smaller for it.
    pub requests: u64,
    /// Tokens that were not read: an estimate.
    pub reads_saved: u64,
}

impl Savings {
    /// Takes in the next record.
    pub fn push(&mut self, record: &Record) {
        match &record.event {
            Event::Context(read) => self.read(read),
            Event::SessionRotation(rotation) => self.rotated(record, rotation),
            Event::ContextPruned(pruned) => self.pruned(pruned),
            Event::SessionRetired(retired) => self.lost(&retired.agent),
            Event::Compacted(compacted) => self.lost(&compacted.agent),
            // A fresh session on purpose has no context yet; one that has was lost without a word.
            Event::AgentStart(start) if start.session_id.is_none() => {
                if self.agents.get(&start.agent).is_some_and(|course| course.context.is_some()) {
                    self.lost(&start.agent);
                }
            }
            Event::AgentEnd(end) => {
                let course = self.agents.entry(end.agent.clone()).or_default();
                course.window = end.window.or(course.window);
            }
            Event::AgentStart(_)
            | Event::RunStart(_)
            | Event::RunEnd(_)
            | Event::PhaseStart(_)
            | Event::PhaseEnd(_)
            | Event::Session(_)
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
            | Event::SessionEvicted(_)
            | Event::ApiKeyBilling(_) => {}
        }
    }

    /// What each rotation saved, in order.
    pub fn rotations(&self) -> &[RotationSaving] {
        &self.rotations
    }

    /// What pruning saved in all.
    pub fn pruning(&self) -> &PruningSaving {
        &self.pruning
    }

    /// Tokens that all rotations saved, less those written again; `None` when no request followed one.
    pub fn rotation_net(&self) -> Option<i64> {
        let compared = self.rotations.iter().any(|saving| saving.would.is_some());
        compared.then(|| self.rotations.iter().map(RotationSaving::net).fold(0, i64::saturating_add))
    }

    fn read(&mut self, read: &ContextRead) {
        let course = self.agents.entry(read.agent.clone()).or_default();
        course.window = read.window.or(course.window);
        let Some(context) = read.context_tokens else { return };
        if course.pruned > 0 {
            self.pruning.requests += 1;
            self.pruning.reads_saved = self.pruning.reads_saved.saturating_add(course.pruned);
        }
        course.context = Some(context);
        course.would = None;
        let Some(saving) = course.rotation.and_then(|at| self.rotations.get_mut(at)) else { return };
        let (first, largest) = saving.context.unwrap_or((context, context));
        if saving.requests == 0 {
            saving.written_again = read.usage.map_or(context, |usage| usage.input.saturating_add(usage.cache_write));
        }
        saving.requests += 1;
        saving.context = Some((first, largest.max(context)));
        let Some(left) = saving.left else { return };
        let grown = left.saturating_add(context).saturating_sub(first);
        let would = course.window.map_or(grown, |window| grown.min(window.max(left)));
        course.would = Some(would);
        let (would_first, would_largest) = saving.would.unwrap_or((would, would));
        saving.would = Some((would_first, would_largest.max(would)));
        saving.reads_saved = saving.reads_saved.saturating_add(signed(would) - signed(context));
    }

    fn rotated(&mut self, record: &Record, rotation: &SessionRotation) {
        let course = self.agents.entry(rotation.agent.clone()).or_default();
        let left = course.would.or(rotation.context_tokens).or(course.context);
        *course = Course { window: course.window, rotation: Some(self.rotations.len()), ..Course::default() };
        self.rotations.push(RotationSaving {
            agent: rotation.agent.clone(),
            phase: record.phase.clone(),
            reason: rotation.reason,
            left,
            requests: 0,
            context: None,
            would: None,
            reads_saved: 0,
            written_again: 0,
        });
    }

    fn pruned(&mut self, pruned: &ContextPruned) {
        let removed = pruned.chars_before.saturating_sub(pruned.chars_after);
        if removed > 0 {
            self.pruning.rounds += 1;
            self.pruning.chars_removed = self.pruning.chars_removed.saturating_add(removed);
            let course = self.agents.entry(pruned.agent.clone()).or_default();
            course.pruned = course.pruned.saturating_add(removed / CHARS_PER_TOKEN);
        }
    }

    fn lost(&mut self, agent: &AgentName) {
        if let Some(course) = self.agents.get_mut(agent) {
            *course = Course { window: course.window, ..Course::default() };
        }
    }
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::story::{Story, fixed};

    fn savings(story: &Story) -> Savings {
        let mut savings = Savings::default();
        story.records.iter().for_each(|record| savings.push(record));
        savings
    }

    #[test]
    fn a_rotation_saves_the_difference_at_every_request_that_follows() {
        let savings = savings(&fixed());
        // 31 requests at 12k to 42k instead of 187k to 200k, where the window ends; the first wrote its 12k again.
        let expected = RotationSaving {
            agent: "builder".into(),
            phase: Some("04_fix_1".into()),
            reason: RotationReason::Ceiling,
            left: Some(187_000),
            requests: 31,
            context: Some((12_000, 42_000)),
            would: Some((187_000, 200_000)),
            reads_saved: (0..31).map(|n| (187_000 + n * 1_000).min(200_000) - (12_000 + n * 1_000)).sum(),
            written_again: 12_000,
        };
        assert_eq!(savings.rotation_net(), Some(expected.net()));
        assert_eq!(savings.rotations(), [expected]);
    }

    #[test]
    fn a_second_rotation_counts_from_what_the_session_would_have_been() {
        let story = Story::begins("build", "x")
            .phase("01_build", "builder")
            .turn(None)
            .reads([100_000])
            .rotates(100_000)
            .turn(None)
            .reads([10_000, 50_000])
            .rotates(50_000)
            .turn(None)
            .reads([10_000]);
        let lefts: Vec<_> =
            savings(&story).rotations().iter().map(|saving| (saving.left, saving.reads_saved)).collect();
        assert_eq!(lefts, [(Some(100_000), 180_000), (Some(140_000), 130_000)]);
    }

    #[test]
    fn without_a_request_after_it_nothing_is_claimed() {
        let story =
            Story::begins("build", "x").phase("01_build", "builder").turn(None).reads([100_000]).rotates(100_000);
        assert_eq!(savings(&story).rotation_net(), None);
    }

    #[test]
    fn a_session_lost_on_the_way_ends_the_comparison() {
        let story = Story::begins("build", "x")
            .phase("01_build", "builder")
            .turn(None)
            .reads([100_000])
            .rotates(100_000)
            .turn(None)
            .reads([10_000])
            .turn(None)
            .reads([9_000, 9_000]);
        assert_eq!(savings(&story).rotations()[0].requests, 1);
    }
}
