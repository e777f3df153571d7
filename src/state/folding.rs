//! How each fact changes the state.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::budget::PHASE_TOKENS;
use super::transition::{Impossible, Needs, needs};
use super::{
    OpenTurn, Origin, PhaseState, Progress, RunState, Stage, StagedDelivery, StepState, StepStatus, WAITS_FOR_LIMIT,
    Wait,
};
use crate::event::{
    AgentEnd, EngineError, Event, FailureKind, Order, PathChange, PhaseEnd, PhaseStart, PhaseStatus, Record,
    RetirementReason, RunEnd, RunStart, StepSkipped, TurnStatus, Usage, Verdict, Waiting, Work,
};
use crate::ids::{AgentName, PhaseName, StepName};

impl RunState {
    /// Where the run is.
    pub fn stage(&self) -> Stage {
        if self.run.is_none() {
            Stage::Blank
        } else if self.ended {
            Stage::Ended
        } else if self.open > 0 {
            Stage::InPhase
        } else {
            Stage::Between
        }
    }

    /// Takes one fact into the state.
    ///
    /// # Errors
    ///
    /// When the fact cannot follow what is recorded; the state is then unchanged.
    pub fn apply(&mut self, record: &Record) -> Result<(), Impossible> {
        self.check(record)?;
        let phase = record.phase.as_ref();
        let before = self.last_record;
        if record.is_of_a_stretch() {
            self.last_record = Some(record.ts);
        }
        match &record.event {
            Event::RunStart(start) => self.run_started(record, start, before),
            Event::RunEnd(end) => self.run_ended(end),
            Event::PhaseStart(start) => self.phase_started(record, start),
            Event::PhaseEnd(end) => self.phase_ended(phase, end),
            Event::AgentStart(start) => {
                self.lose_turn(&start.agent);
                let turn = OpenTurn { phase: phase.cloned(), ..OpenTurn::default() };
                self.spend.open.insert(start.agent.clone(), turn);
                self.in_phase(phase, |open| open.legs = open.legs.max(start.leg));
            }
            Event::Context(read) => {
                if let Some(turn) = self.spend.open.get_mut(&read.agent) {
                    turn.usage += read.usage.unwrap_or_default();
                    turn.cost_usd += read.cost_usd.unwrap_or(0.0);
                }
            }
            Event::AgentEnd(end) => self.turn_ended(phase, end),
            Event::Envelope(taken) => self.in_phase(phase, |open| open.envelope = Some(taken.envelope.clone())),
            Event::Check(check) => {
                self.in_phase(phase, |open| open.checks.push(check.clone()));
            }
            Event::EngineError(error) => self.engine_died(phase, error),
            Event::EngineRelay(relay) => {
                self.relayed.insert(relay.agent.clone(), relay.choice);
                self.in_phase(phase, |open| open.transient_deaths = 0);
            }
            Event::SessionRotation(rotation) if rotation.reason == crate::event::RotationReason::Overflow => {
                self.in_phase(phase, |open| open.renewed.extend([FailureKind::ContextOverflow]));
            }
            Event::SessionRetired(retired) if retired.reason == RetirementReason::SessionLost => {
                self.in_phase(phase, |open| open.renewed.extend([FailureKind::BadSession]));
            }
            Event::Waiting(waiting) => self.waits(record, waiting),
            Event::Verdict(verdict) => self.verdict_given(verdict),
            // A later leg renders anew, and takes the place of what an earlier one was shown.
            Event::Message(delivery) => self.in_phase(phase, |open| open.staged = vec![delivery.clone()]),
            Event::PhaseReused(reused) => self.reused(&reused.step),
            Event::StepSkipped(skipped) => self.skipped(skipped),
            Event::TreeChanged(changed) => self.tree_changed(phase, &changed.changes),
            Event::PermissionRetry(retry) => {
                self.rescues = self.rescues.max(retry.rescue);
                match phase {
                    Some(_) => self.in_phase(phase, |open| open.permission_retried = true),
                    // Of a block: nobody can tell which agent it was.
                    None => self.open_phases_of(&retry.agents).for_each(|open| open.permission_retried = true),
                }
            }
            Event::ExternalChange(change) => self.rescues = self.rescues.max(change.rescue.unwrap_or(0)),
            Event::Committed(committed) => self.commits.extend(committed.commit.clone()),
            Event::BudgetWarning(warning) => {
                self.warned.insert((warning.limit.clone(), warning.percent));
                self.in_phase(phase, |open| {
                    if warning.limit == PHASE_TOKENS {
                        open.warned.insert(warning.percent);
                    }
                });
            }
            Event::ApiKeyBilling(billing) => {
                self.billing_named.insert(billing.engine);
            }
            Event::UsageUnknown(unknown) => {
                self.usage_unknown.insert((unknown.agent.clone(), unknown.what));
            }
            Event::Session(_)
            | Event::CheckStart(_)
            | Event::ToolCall(_)
            | Event::GatePass(_)
            | Event::GateFail(_)
            | Event::EngineRetry(_)
            | Event::EngineFallback(_)
            | Event::EngineContinuation(_)
            | Event::CacheBreak(_)
            | Event::Approval(_)
            | Event::Error(_)
            | Event::SessionRotation(_)
            | Event::SessionRetired(_)
            | Event::RotationStoodDown(_)
            | Event::Compacted(_)
            | Event::BoundedContinuation(_)
            | Event::PrefixChanged(_)
            | Event::ContextPruned(_)
            | Event::SessionEvicted(_) => {}
        }
        self.agents.apply(record.ts, &record.event);
        self.watch.apply(record);
        Ok(())
    }

    fn check(&self, record: &Record) -> Result<(), Impossible> {
        let (stage, event) = (self.stage(), record.event.kind());
        let need = needs(&record.event);
        if !need.met_in(stage) {
            return Err(Impossible::Stage { event, stage });
        }
        let named = record.phase.as_ref();
        let open =
            named.is_some_and(|name| self.phases.get(name).is_some_and(|phase| phase.progress == Progress::Open));
        let fits = match need {
            Needs::Phase => open,
            Needs::Turn => open || named.is_none() || stage == Stage::Ended,
            Needs::Begin => named.is_some() && !open,
            Needs::Nothing | Needs::Stretch | Needs::Run => true,
        };
        let phase = named.map(PhaseName::to_string).unwrap_or_default();
        if fits { Ok(()) } else { Err(Impossible::Phase { event, phase }) }
    }

    /// Changes the named phase; facts outside any phase change none.
    fn in_phase(&mut self, phase: Option<&PhaseName>, change: impl FnOnce(&mut PhaseState)) {
        if let Some(open) = phase.and_then(|name| self.phases.get_mut(name)) {
            change(open);
        }
    }

    fn open_phases_of(&mut self, agents: &[AgentName]) -> impl Iterator<Item = &mut PhaseState> {
        self.phases.values_mut().filter(|phase| {
            phase.progress == Progress::Open && phase.order.work.agent().is_some_and(|agent| agents.contains(agent))
        })
    }

    fn run_started(&mut self, record: &Record, start: &RunStart, before: Option<DateTime<Utc>>) {
        self.run = Some(record.run.clone());
        if self.origin.is_none() {
            self.origin = Some(Origin {
                workflow: start.workflow.clone(),
                prompt: start.prompt.clone(),
                plan_digest: start.plan_digest.clone(),
                plan: start.plan.clone().unwrap_or(Value::Null),
                base: start.base.clone(),
                worktree: start.worktree,
                linked: start.linked.clone(),
                started: record.ts,
            });
        }
        if start.resumed && self.ended && self.last_end.as_ref().is_some_and(|end| end.outcome.is_judged()) {
            self.recovery.resumes += 1;
        }
        if let (false, Some(began), Some(last)) = (self.ended, self.stretch_started, before) {
            self.spend.earlier_ms += u64::try_from((last - began).num_milliseconds()).unwrap_or(0);
        }
        for agent in self.spend.open.keys().cloned().collect::<Vec<_>>() {
            self.lose_turn(&agent);
        }
        self.stretches += 1;
        self.stop = start.stop.clone();
        self.stretch_started = Some(record.ts);
        self.ended = false;
        self.ending = None;
        self.verdict_is_new = false;
        self.reused = 0;
        self.cut_open_phases_off();
        for phase in self.phases.values_mut() {
            // Whoever resumes allows the waiting anew.
            (phase.waits, phase.waits_since) = (0, None);
        }
        self.reopen_steps();
    }

    /// A new stretch goes through the workflow again: what an agent or a commit finished can be taken over.
    fn reopen_steps(&mut self) {
        for step in self.steps.values_mut() {
            let last = step.phase.as_ref().and_then(|name| self.phases.get(name));
            let finished = last.is_some_and(|phase| {
                let repeats =
                    matches!(phase.order.work, Work::Check { .. } | Work::Approve { .. }) || phase.order.round > 0;
                phase.progress == Progress::Ended(PhaseStatus::Success) && !repeats && !phase.stale
            });
            step.status = if finished { StepStatus::Reusable } else { StepStatus::Pending };
        }
    }

    fn run_ended(&mut self, end: &RunEnd) {
        self.spend.earlier_ms += end.elapsed_ms;
        self.last_end = Some(end.clone());
        self.ended = true;
        self.cut_open_phases_off();
    }

    fn cut_open_phases_off(&mut self) {
        for phase in self.phases.values_mut().filter(|phase| phase.progress == Progress::Open).take(self.open) {
            phase.progress = Progress::Interrupted;
        }
        self.open = 0;
    }

    fn phase_started(&mut self, record: &Record, start: &PhaseStart) {
        let Some(name) = record.phase.clone() else { return };
        let order = &start.order;
        let fresh = PhaseState {
            order: order.clone(),
            attempts: start.attempt,
            started: record.ts,
            cut_off_since: None,
            legs: 0,
            progress: Progress::Open,
            envelope: None,
            checks: Vec::new(),
            tree_sha256: None,
            usage: Usage::default(),
            transient_deaths: 0,
            death_marker: false,
            last_death: None,
            renewed: BTreeSet::new(),
            wait: None,
            waits: 0,
            waits_since: None,
            warned: BTreeSet::new(),
            changes: Vec::new(),
            permission_retried: false,
            staged: Vec::new(),
            stale: false,
        };
        self.open += 1;
        match self.phases.get_mut(&name) {
            // Legs, spend, changes and deaths of an earlier attempt are still the phase's own.
            Some(known) => {
                known.attempts = start.attempt;
                let cut_off = known.progress == Progress::Interrupted;
                known.cut_off_since = known.cut_off_since.or(Some(known.started)).filter(|_| cut_off);
                known.started = record.ts;
                known.progress = Progress::Open;
                known.envelope = None;
                known.checks.clear();
                known.transient_deaths = 0;
                known.wait = None;
                known.permission_retried = false;
                known.staged.clear();
                known.stale = false;
            }
            None => {
                self.phases.insert(name.clone(), fresh);
            }
        }
        self.step_begun(name, order);
    }

    fn step_begun(&mut self, phase: PhaseName, order: &Order) {
        let step = self.steps.entry(order.step.clone()).or_insert(StepState::untouched(order.index));
        step.status = StepStatus::Pending;
        step.phase = Some(phase);
        if matches!(order.work, Work::Check { .. }) {
            step.rounds = order.round;
        }
        // Work done anew makes what later steps had finished stale.
        if matches!(order.work, Work::Agent { .. }) {
            for later in self.steps.values_mut().filter(|later| later.index > order.index) {
                if later.status == StepStatus::Reusable {
                    later.status = StepStatus::Pending;
                }
            }
            self.outdate(order.index + 1);
        }
    }

    /// Marks what was done from this step of the workflow on as not to be taken over, also by a later stretch.
    fn outdate(&mut self, from: usize) {
        for phase in self.phases.values_mut().filter(|phase| phase.order.index >= from) {
            phase.stale = true;
        }
    }

    fn phase_ended(&mut self, phase: Option<&PhaseName>, end: &PhaseEnd) {
        let Some(name) = phase else { return };
        let Some(open) = self.phases.get_mut(name) else { return };
        open.progress = Progress::Ended(end.status);
        self.open -= 1;
        open.tree_sha256.clone_from(&end.tree_sha256);
        let order = open.order.clone();
        let approved = open.envelope.as_ref().and_then(|envelope| envelope.get("approved")).and_then(Value::as_bool);
        let staged = std::mem::take(&mut open.staged);
        if end.status == PhaseStatus::Success {
            open.death_marker = false;
            open.renewed.clear();
            (open.waits, open.waits_since) = (0, None);
            for delivery in staged {
                let session = self.agents.entry(&delivery.agent).and_then(|entry| entry.session_id.clone());
                self.deliveries.push(StagedDelivery { agent: delivery.agent.clone(), delivery, session });
            }
        }
        if let Some(outcome) = end.outcome
            && self.ending.is_none()
        {
            self.ending = Some((outcome, end.reason.clone().unwrap_or_default()));
        }
        self.step_ended(&order, end.status, approved);
    }

    fn step_ended(&mut self, order: &Order, status: PhaseStatus, approved: Option<bool>) {
        let Some(step) = self.steps.get_mut(&order.step) else { return };
        let repairing = order.round > 0;
        step.status = match (&order.work, status) {
            // A repair goes on after a red test and after each fix.
            (Work::Agent { .. }, PhaseStatus::Success) if repairing => StepStatus::Pending,
            (Work::Check { .. }, PhaseStatus::Red) if repairing => StepStatus::Pending,
            (Work::Check { .. }, PhaseStatus::Red) => StepStatus::Done { passed: false },
            (Work::Agent { .. }, PhaseStatus::Success) => StepStatus::Done { passed: approved.unwrap_or(true) },
            (Work::Check { .. } | Work::Commit | Work::Approve { .. }, PhaseStatus::Success) => {
                StepStatus::Done { passed: true }
            }
            (Work::Agent { .. } | Work::Commit | Work::Approve { .. }, PhaseStatus::Red)
            | (_, PhaseStatus::Failed | PhaseStatus::Stopped) => StepStatus::Pending,
        };
    }

    fn turn_ended(&mut self, phase: Option<&PhaseName>, end: &AgentEnd) {
        self.spend.turns += 1;
        // What the turn says of itself takes the place of what its requests showed.
        let seen = self.spend.open.remove(&end.agent).unwrap_or_default();
        self.spent(phase, end.usage.unwrap_or(seen.usage), end.cost_usd.unwrap_or(seen.cost_usd));
        self.spend.unknown_usage += u32::from(end.usage.is_none());
        self.spend.unknown_cost += u32::from(end.cost_usd.is_none());
        self.in_phase(phase, |open| {
            if end.ended == TurnStatus::Completed {
                open.transient_deaths = 0;
            }
        });
        if let (Some((_, told)), Some(phase), TurnStatus::Completed) = (&mut self.verdict, phase, end.ended) {
            told.insert(phase.clone());
        }
    }

    /// Takes a turn as lost, whose end nobody recorded: what its requests showed was spent, and how much more it was
    /// stays unknown.
    fn lose_turn(&mut self, agent: &AgentName) {
        let Some(lost) = self.spend.open.remove(agent) else { return };
        self.spent(lost.phase.as_ref(), lost.usage, lost.cost_usd);
        (self.spend.unknown_usage, self.spend.unknown_cost) =
            (self.spend.unknown_usage + 1, self.spend.unknown_cost + 1);
        self.agents.turn_lost(agent, lost.cost_usd);
    }

    fn spent(&mut self, phase: Option<&PhaseName>, usage: Usage, cost_usd: f64) {
        self.spend.usage += usage;
        self.spend.cost_usd += cost_usd;
        self.in_phase(phase, |open| open.usage += usage);
    }

    fn engine_died(&mut self, phase: Option<&PhaseName>, error: &EngineError) {
        self.deaths.insert((error.engine, error.model.clone(), error.kind), error.count);
        if let (FailureKind::Limit, Some(reset)) = (error.kind, error.retry_after) {
            self.limited.insert((error.engine, error.model.clone()), reset);
        }
        self.in_phase(phase, |open| {
            open.death_marker = true;
            open.last_death = Some((error.engine, error.kind));
            // One that was refused before it could be started was a leg all the same.
            open.legs = open.legs.max(error.leg);
            open.transient_deaths = if error.transient { open.transient_deaths + 1 } else { 0 };
        });
    }

    fn waits(&mut self, record: &Record, waiting: &Waiting) {
        let Some(until) = waiting.until.filter(|_| waiting.reason == WAITS_FOR_LIMIT) else { return };
        self.in_phase(record.phase.as_ref(), |open| {
            open.wait = Some(Wait { until, agent: waiting.agent.clone(), count: waiting.count });
            open.waits += 1;
            open.waits_since.get_or_insert(record.ts);
        });
    }

    fn verdict_given(&mut self, verdict: &Verdict) {
        self.recovery.verdicts += 1;
        self.verdict = Some((verdict.clone(), BTreeSet::new()));
        self.verdict_is_new = true;
        let redo = self.phases.iter().filter(|(name, _)| verdict.redo.contains(name));
        if let Some(from) = redo.map(|(_, phase)| phase.order.index).min() {
            self.outdate(from);
        }
        // A verdict asks for more work, so the repairs before it do not count against the cap.
        for step in self.steps.values_mut() {
            step.rounds_before = step.rounds.saturating_sub(1);
        }
    }

    fn reused(&mut self, step: &StepName) {
        self.reused += 1;
        let passed = self.envelope(step).and_then(|envelope| envelope.get("approved")).and_then(Value::as_bool);
        if let Some(step) = self.steps.get_mut(step) {
            step.status = StepStatus::Done { passed: passed.unwrap_or(true) };
        }
    }

    fn skipped(&mut self, skipped: &StepSkipped) {
        let step = self.steps.entry(skipped.step.clone()).or_insert(StepState::untouched(skipped.index));
        step.status = StepStatus::Skipped;
    }

    fn tree_changed(&mut self, phase: Option<&PhaseName>, changes: &[PathChange]) {
        for change in changes {
            let first = self.changed.entry(change.path.clone()).or_insert_with(|| (change.before.clone(), None));
            first.1.clone_from(&change.after);
        }
        self.changed.retain(|_, (before, after)| before != after);
        self.made.extend(changes.iter().cloned());
        self.in_phase(phase, |open| open.changes.extend(changes.iter().cloned()));
    }
}
