//! One agent phase: legs, turns, corrections and gates, until there is an envelope or an end.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use tokio::time::Instant;

use super::order::{AgentOrder, minutes};
use super::phase::PhaseResult;
use super::prompt::Opening;
use super::rotation::{Bound, Onward, ended_by_us};
use super::stop::Urgency;
use super::turn::{TurnOrder, Turned};
use super::wait::Asked;
use super::{Run, RunError};
use crate::engine::SessionChoice;
use crate::envelope::{self, gate};
use crate::event::item::{Cut, Failure, TurnEnd};
use crate::event::{EnvelopeTaken, Event, Fault, FaultKind, GateVerdict, Order, Outcome, PathChange, PermissionRetry};
use crate::ids::AgentName;
use crate::plan::EngineChoice;
use crate::tree::LegStart;

/// Correction turns for an answer without a valid report, or one that was cut.
const MAX_CORRECTIONS: u32 = 2;

/// How a leg ended.
enum LegEnd {
    /// With a valid envelope that every gate let pass.
    Done(Value),
    /// Without one: the phase is over, with this outcome.
    Failed(Outcome, String),
    /// Stopped from outside.
    Stopped(Outcome, String),
    /// The engine died.
    Died(Failure),
}

/// What comes after a death.
pub(super) enum AfterDeath {
    /// Another leg.
    Again,
    /// The end of the phase.
    End(PhaseResult),
}

/// How an agent of a block came out: with a valid envelope, or without.
pub(super) type Member = Result<Value, PhaseResult>;

impl Run {
    /// The engine that an agent works on now.
    pub(super) fn choice(&self, agent: &AgentName) -> &EngineChoice {
        let at = self.with_state(|state| state.relayed.get(agent).copied().unwrap_or(0));
        let choices = &self.plan.agents.get(agent).expect("a plan names only agents that it holds").choices;
        choices.get(at).or(choices.first()).expect("an agent has an engine")
    }

    /// Executes the order of an agent phase.
    pub(super) async fn agent_phase(&self, order: &Order) -> Result<PhaseResult, RunError> {
        let Some(order) = AgentOrder::of(order) else { return Ok(PhaseResult::success()) };
        let mut note = None;
        loop {
            let before = self.before(&[order.order]).await?;
            let leg = self.next_leg(&order);
            let ended = self.leg(&order, leg, Some(&before), note.take()).await?;
            let undone = self.judge_leg(before, order.order, leg, order.agent).await?;
            if !undone.is_empty() {
                let stopped = matches!(ended, LegEnd::Stopped(..));
                note = self.after_violation(&order, &undone, stopped)?;
                if note.is_none() && !(stopped && undone.is_complete()) {
                    let reason = format!("{} {}", order.agent, undone.reason());
                    return Ok(PhaseResult::failed(Outcome::BlockedByGate, reason));
                }
            }
            match ended {
                LegEnd::Stopped(outcome, reason) => return Ok(PhaseResult::stopped(outcome, reason)),
                LegEnd::Died(failure) => match self.after_death(&order, leg, failure).await? {
                    AfterDeath::Again => {}
                    AfterDeath::End(result) => return Ok(result),
                },
                // What was reported is of a tree that is no more.
                LegEnd::Done(_) | LegEnd::Failed(..) if note.is_some() => {}
                LegEnd::Done(envelope) => return self.take(&order, envelope),
                LegEnd::Failed(outcome, reason) => return Ok(PhaseResult::failed(outcome, reason)),
            }
        }
    }

    /// Executes the order of one agent of a block, up to its valid envelope. The snapshots are around the block.
    pub(super) async fn member(&self, order: &AgentOrder<'_>, note: Option<&str>) -> Result<Member, RunError> {
        let mut note = note.map(str::to_owned);
        loop {
            let leg = self.next_leg(order);
            match self.leg(order, leg, None, note.take()).await? {
                LegEnd::Done(envelope) => return Ok(Ok(envelope)),
                LegEnd::Failed(outcome, reason) => return Ok(Err(PhaseResult::failed(outcome, reason))),
                LegEnd::Stopped(outcome, reason) => return Ok(Err(PhaseResult::stopped(outcome, reason))),
                LegEnd::Died(failure) => match self.after_death(order, leg, failure).await? {
                    AfterDeath::Again => {}
                    AfterDeath::End(result) => return Ok(Err(result)),
                },
            }
        }
    }

    /// The number of the leg that comes next.
    fn next_leg(&self, order: &AgentOrder<'_>) -> u32 {
        self.with_state(|state| state.phases.get(&order.order.phase).map_or(0, |phase| phase.legs)) + 1
    }

    /// Writes a valid envelope down; one that reports failure ends the run.
    pub(super) fn take(&self, order: &AgentOrder<'_>, envelope: Value) -> Result<PhaseResult, RunError> {
        let success = envelope::reports_success(&envelope);
        let summary = envelope.get("summary").and_then(Value::as_str).unwrap_or("no summary").to_owned();
        self.post_notes(order.agent, &envelope)?;
        let taken = EnvelopeTaken { output: order.output.to_owned(), envelope };
        self.record(Some(&order.order.phase), Event::Envelope(taken))?;
        Ok(if success {
            PhaseResult::success()
        } else {
            PhaseResult::failed(Outcome::Failed, format!("{} reports failure: {summary}", order.agent))
        })
    }

    /// Records undone writes. Returns the note for the one retry, or nothing when there is none left.
    fn after_violation(
        &self,
        order: &AgentOrder<'_>,
        undone: &super::guard::Undone,
        stopped: bool,
    ) -> Result<Option<String>, RunError> {
        let phase = &order.order.phase;
        let before = self.with_state(|state| state.phases.get(phase).is_some_and(|known| known.permission_retried));
        let again = !before && !stopped && undone.is_complete();
        let retry = PermissionRetry {
            agents: vec![order.agent.clone()],
            undone: undone.changes.clone(),
            rescue: undone.rescue,
            again,
        };
        if !undone.changes.is_empty() {
            self.record(Some(phase), Event::PermissionRetry(retry))?;
        }
        Ok(again.then(|| super::prompt::permission_note(&undone.changes)))
    }

    /// One leg: turns in one session until a report passes its gates, or there is nothing more to try.
    async fn leg(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        before: Option<&LegStart>,
        note: Option<String>,
    ) -> Result<LegEnd, RunError> {
        let ended = self.turns(order, leg, before, note).await;
        self.unless_session_stays(order, ended, |reason| LegEnd::Failed(Outcome::Failed, reason))
    }

    async fn turns(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        before: Option<&LegStart>,
        note: Option<String>,
    ) -> Result<LegEnd, RunError> {
        let choice = self.choice(order.agent).clone();
        let opening = self.open_session(order, leg, &choice)?;
        let mut prompt = self.first_prompt(order, leg, &opening, note.as_deref())?;
        let deadline = minutes(self.stop.phase_timeout_minutes).map(|span| Instant::now() + span);
        let mut session = opening.session;
        let (mut corrections, mut look) = (0, 0);
        for turn in 1.. {
            // A turn is not begun only to be ended: one of a block that waited, or a correction.
            if let Some((outcome, reason)) = self.asked(Urgency::Now) {
                return Ok(LegEnd::Stopped(outcome, reason));
            }
            if let Some((outcome, reason)) = self.over_budget(Some(&order.order.phase))? {
                return Ok(LegEnd::Stopped(outcome, reason));
            }
            let bound = self.bound(order, &choice, &session);
            let asked = TurnOrder {
                order: order.order,
                phase: Some(&order.order.phase),
                agent: order.agent,
                leg,
                turn,
                choice: &choice,
                session,
                prompt,
                deadline,
                bound,
            };
            let told = match self.turn(asked).await? {
                Turned::Stopped(outcome, reason) => return Ok(LegEnd::Stopped(outcome, reason)),
                Turned::Ended(told) => told,
            };
            if let Some(bound) = ended_by_us(bound, &told.end) {
                (session, prompt) = self.onward(order, leg, &choice, bound)?;
                continue;
            }
            let correction = match told.end {
                TurnEnd::Failed(failure) => return Ok(LegEnd::Died(failure)),
                TurnEnd::Cut(cut) => Err(cut_off(cut)),
                TurnEnd::Completed => envelope::extract(&told.text.unwrap_or_default(), &self.schemas[order.output])
                    .map_err(|error| error.to_string()),
            };
            prompt = match correction {
                Ok(envelope) => {
                    look += 1;
                    let violations = match self.apply_gates(order, before, &envelope, look).await? {
                        Ok(violations) => violations,
                        Err((outcome, reason)) => return Ok(LegEnd::Stopped(outcome, reason)),
                    };
                    if violations.is_empty() {
                        return Ok(LegEnd::Done(envelope));
                    }
                    if look > order.retries {
                        return Ok(LegEnd::Failed(Outcome::BlockedByGate, violations.join("; ")));
                    }
                    super::prompt::gate_correction(&violations)
                }
                Err(problem) => {
                    corrections += 1;
                    if corrections > MAX_CORRECTIONS {
                        let fault =
                            Fault { place: order.order.phase.to_string(), kind: FaultKind::Envelope, message: problem };
                        let reason = format!("{} never gave a valid report: {}", order.agent, fault.message);
                        self.record(Some(&order.order.phase), Event::Error(fault))?;
                        return Ok(LegEnd::Failed(Outcome::Failed, reason));
                    }
                    super::prompt::report_correction(&problem, &self.schemas[order.output])
                }
            };
            let Some(known) = self.session(order, &choice) else {
                let reason = format!("{} gave no session to correct its report in", choice.engine);
                return Ok(LegEnd::Failed(Outcome::Failed, reason));
            };
            session = known;
        }
        unreachable!("corrections and gates are counted")
    }

    /// The session that the agent is in now, to go on with.
    fn session(&self, order: &AgentOrder<'_>, choice: &EngineChoice) -> Option<SessionChoice> {
        let known = self.with_state(|state| state.agents.session(order.agent, choice.engine, &choice.model).cloned());
        known.map(SessionChoice::Resume)
    }

    /// The session and the prompt that a leg goes on with after fia ended a turn.
    fn onward(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        choice: &EngineChoice,
        bound: Bound,
    ) -> Result<(SessionChoice, String), RunError> {
        if let (Onward::Same(prompt), Some(session)) =
            (self.go_on(order, leg, choice, bound)?, self.session(order, choice))
        {
            return Ok((session, prompt));
        }
        let opening = self.opening(order, leg + 1, choice)?;
        let prompt = self.first_prompt(order, leg, &opening, None)?;
        Ok((opening.session, prompt))
    }

    /// What a fresh or resumed session is told first in a leg.
    fn first_prompt(
        &self,
        order: &AgentOrder<'_>,
        leg: u32,
        opening: &Opening,
        note: Option<&str>,
    ) -> Result<String, RunError> {
        let mut prompt = self.compose(order.order, opening, note, &self.schemas[order.output])?;
        let block = self.hear_leg(order, leg, &opening.session, &prompt)?;
        super::hear::end_with(&mut prompt, &block);
        Ok(prompt)
    }

    /// Applies every gate and returns all violations of all of them, or the request that ended one.
    async fn apply_gates(
        &self,
        order: &AgentOrder<'_>,
        before: Option<&LegStart>,
        envelope: &Value,
        look: u32,
    ) -> Result<Result<Vec<String>, Asked>, RunError> {
        if order.gates.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let facts = Facts::gather(self, order.order, before).await?;
        let mut all = Vec::new();
        for name in order.gates {
            let violations = match gate::apply(name, envelope, &facts) {
                Some(violations) => violations,
                None => match self.gate_check(order.order, name, look).await? {
                    Ok(violations) => violations,
                    Err(asked) => return Ok(Err(asked)),
                },
            };
            let passed = violations.is_empty();
            all.extend(violations.iter().map(|violation| format!("{name}: {violation}")));
            let verdict = GateVerdict { gate: name.clone(), attempt: look, violations };
            if !passed {
                self.post_failed_gate(&order.order.phase, &verdict)?;
            }
            let event = if passed { Event::GatePass(verdict) } else { Event::GateFail(verdict) };
            self.record(Some(&order.order.phase), event)?;
        }
        Ok(Ok(all))
    }

    /// Finds or replaces the session of an agent at the start of a leg, and says what its prompt begins with.
    fn open_session(&self, order: &AgentOrder<'_>, leg: u32, choice: &EngineChoice) -> Result<Opening, RunError> {
        self.rotate_if_due(order, leg, choice)?;
        self.opening(order, leg, choice)
    }
}

fn cut_off(cut: Cut) -> String {
    match cut {
        Cut::OutputLimit => "your answer ran into the output limit before its report".to_owned(),
        Cut::MaxTurns => "your turn was ended before its report: it had used its requests".to_owned(),
        Cut::Interrupted => "your turn was interrupted before its report".to_owned(),
    }
}

/// What gates ask of the tree.
struct Facts<'a> {
    top: &'a Path,
    by_phase: BTreeSet<String>,
    by_run: BTreeSet<String>,
}

impl<'a> Facts<'a> {
    async fn gather(run: &'a Run, order: &Order, before: Option<&LegStart>) -> Result<Self, RunError> {
        let now: Vec<PathChange> = run.guard.changes_since(before).await?;
        let names =
            |changes: &[PathChange]| changes.iter().map(|change| change.path.to_string()).collect::<BTreeSet<_>>();
        let (mut by_phase, mut by_run) = (names(&now), names(&now));
        run.with_state(|state| {
            by_phase.extend(state.phases.get(&order.phase).into_iter().flat_map(|phase| names(&phase.changes)));
            by_run.extend(state.changed.keys().map(ToString::to_string));
        });
        Ok(Self { top: &run.place.top, by_phase, by_run })
    }
}

impl gate::TreeFacts for Facts<'_> {
    fn size(&self, path: &str) -> Option<u64> {
        std::fs::metadata(self.top.join(path)).ok().filter(std::fs::Metadata::is_file).map(|found| found.len())
    }

    fn changed_by_phase(&self) -> BTreeSet<String> {
        self.by_phase.clone()
    }

    fn changed_by_run(&self) -> BTreeSet<String> {
        self.by_run.clone()
    }
}
