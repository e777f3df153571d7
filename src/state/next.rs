//! What comes next: a pure function of the plan and of what has happened.

use serde_json::{Map, Value, json};

use super::stop::{no_progress, out_of_attempts};
use super::{Progress, RunState, StepStatus, WAITS_FOR_LIMIT};
use crate::event::{Input, Order, Outcome, PhaseStatus, Step, Work};
use crate::ids::{PhaseName, StepName};
use crate::plan::when::{self, WhenError};
use crate::plan::{Action, AgentAction, Plan, PlannedStep, Stop};

/// Decides what comes next.
///
/// # Errors
///
/// When a condition of the workflow cannot be evaluated.
pub fn next(plan: &Plan, stop: &Stop, state: &RunState) -> Result<Step, WhenError> {
    if let Some((outcome, reason)) = &state.ending {
        return Ok(Step::End { outcome: *outcome, reason: reason.clone() });
    }
    // The latest of several, as the phases of a block are ordered together.
    let waiting = state.phases.values().filter_map(|phase| phase.wait.as_ref()).max_by_key(|wait| wait.until);
    if let Some(wait) = waiting {
        let (until, agent, count) = (wait.until, wait.agent.clone(), wait.count);
        return Ok(Step::Wait { until, agent, reason: WAITS_FOR_LIMIT.to_owned(), count });
    }
    work(plan, stop, state)
}

/// Decides what comes next once a wait is over; the start of its phase is what the log knows of that.
///
/// # Errors
///
/// When a condition of the workflow cannot be evaluated.
pub fn after_wait(plan: &Plan, stop: &Stop, state: &RunState) -> Result<Step, WhenError> {
    work(plan, stop, state)
}

fn work(plan: &Plan, stop: &Stop, state: &RunState) -> Result<Step, WhenError> {
    let place = Place { plan, stop, state };
    for (index, step) in plan.steps.iter().enumerate() {
        if let Some(next) = place.at(index, step)? {
            return Ok(next);
        }
    }
    place.verdict()
}

/// How the steps of a plan stand, as conditions see them: status, passed, rounds and envelope by step name.
pub fn standing(plan: &Plan, state: &RunState) -> Map<String, Value> {
    let mut steps = Map::new();
    for step in plan.steps.iter().flat_map(flattened) {
        let known = state.step(&step.name);
        let phase = known.and_then(|known| state.phases.get(known.phase.as_ref()?));
        let (status, passed) = match known.map(|known| known.status) {
            Some(StepStatus::Done { passed: true }) => ("success", true),
            Some(StepStatus::Done { passed: false }) => {
                (if matches!(step.action, Action::Agent(_)) { "success" } else { "red" }, false)
            }
            Some(StepStatus::Skipped) => ("skipped", false),
            Some(StepStatus::Pending | StepStatus::Reusable) | None => ("pending", false),
        };
        let envelope = phase.and_then(|phase| phase.envelope.clone()).unwrap_or(Value::Object(Map::new()));
        let rounds = known.map_or(0, |known| known.rounds);
        steps.insert(
            step.name.to_string(),
            json!({"status": status, "passed": passed, "rounds": rounds, "envelope": envelope}),
        );
    }
    steps
}

/// A step and, of a parallel block, the steps inside it.
fn flattened(step: &PlannedStep) -> Vec<&PlannedStep> {
    match &step.action {
        Action::Parallel { steps } => std::iter::once(step).chain(steps).collect(),
        Action::Agent(_) | Action::Check { .. } | Action::Repair { .. } | Action::Commit | Action::Approve { .. } => {
            vec![step]
        }
    }
}

#[derive(Clone, Copy)]
struct Place<'a> {
    plan: &'a Plan,
    stop: &'a Stop,
    state: &'a RunState,
}

impl Place<'_> {
    /// What a step still asks for; `None` when it is settled.
    fn at(&self, index: usize, step: &PlannedStep) -> Result<Option<Step>, WhenError> {
        let status = self.state.step(&step.name).map_or(StepStatus::Pending, |known| known.status);
        if matches!(status, StepStatus::Done { .. } | StepStatus::Skipped) {
            return Ok(None);
        }
        if let Some(when) = &step.when
            && !self.begun(step)
            && !when::evaluate(when, &standing(self.plan, self.state))?
        {
            return Ok(Some(Step::Skip { step: step.name.clone(), index, when: when.clone() }));
        }
        if let (StepStatus::Reusable, Some(phase), true) = (status, self.phase_of(&step.name), replays(&step.action)) {
            return Ok(Some(Step::Reuse { step: step.name.clone(), phase }));
        }
        Ok(match &step.action {
            Action::Parallel { steps } => self.parallel(index, steps)?,
            Action::Repair { checks, fix } => Some(self.repair(index, step, checks, fix)),
            Action::Agent(_) | Action::Check { .. } | Action::Commit | Action::Approve { .. } => {
                self.single(index, step).map(Step::Phase)
            }
        })
    }

    /// Whether a repair is under way in this stretch: its condition was decided before its first test.
    fn begun(&self, step: &PlannedStep) -> bool {
        let phase = self.phase_of(&step.name).and_then(|name| self.state.phases.get(&name));
        phase.is_some_and(|phase| phase.order.round > 0 && self.of_this_stretch(phase.started))
    }

    fn of_this_stretch(&self, started: chrono::DateTime<chrono::Utc>) -> bool {
        self.state.stretch_started.is_some_and(|stretch| started >= stretch)
    }

    fn phase_of(&self, step: &StepName) -> Option<PhaseName> {
        self.state.step(step)?.phase.clone()
    }

    fn single(&self, index: usize, step: &PlannedStep) -> Option<Order> {
        let work = match &step.action {
            Action::Agent(agent) => self.agent_work(index, agent),
            Action::Check { checks, expect } => Work::Check { checks: checks.clone(), expect: expect.clone() },
            Action::Commit => Work::Commit,
            Action::Approve { wait } => Work::Approve { wait: *wait },
            Action::Repair { .. } | Action::Parallel { .. } => return None,
        };
        Some(self.order(step.name.as_str(), &step.name, index, 0, work))
    }

    /// An order under the name of the phase that already stands for it, or the next number.
    fn order(&self, label: &str, step: &StepName, index: usize, round: u32, work: Work) -> Order {
        let known = self.state.phases.values().find(|phase| {
            phase.order.step == *step && phase.order.round == round && phase.order.work.kind() == work.kind()
        });
        match known {
            // An order that was given and not finished is followed as it was given.
            Some(phase) if phase.progress == Progress::Interrupted => phase.order.clone(),
            Some(phase) => Order { phase: phase.order.phase.clone(), step: step.clone(), index, round, work },
            None => Order { phase: self.state.next_phase(label), step: step.clone(), index, round, work },
        }
    }

    fn agent_work(&self, index: usize, action: &AgentAction) -> Work {
        Work::Agent {
            agent: action.agent.clone(),
            output: action.output.clone(),
            gates: action.gates.clone(),
            retries: action.retries,
            input: self.input(index, action),
        }
    }

    /// The envelope that a phase is handed: of the step it names, else the last one before it.
    fn input(&self, index: usize, action: &AgentAction) -> Input {
        let from_step = |name: &StepName| {
            let phase = self.phase_of(name)?;
            let known = self.state.phases.get(&phase)?;
            match (&known.order.work, &known.envelope) {
                (Work::Check { .. }, _) => Some(Input::Check { phase }),
                (_, Some(_)) => Some(Input::Envelope { phase }),
                (_, None) => None,
            }
        };
        if let Some(name) = &action.input {
            return from_step(name).unwrap_or(Input::Nothing);
        }
        self.plan.steps[..index]
            .iter()
            .rev()
            .flat_map(flattened)
            .filter(|step| !matches!(self.state.step(&step.name).map(|known| known.status), Some(StepStatus::Skipped)))
            .find_map(|step| from_step(&step.name))
            .unwrap_or(Input::Nothing)
    }

    fn parallel(&self, index: usize, steps: &[PlannedStep]) -> Result<Option<Step>, WhenError> {
        let mut orders: Vec<Order> = Vec::new();
        for inner in steps {
            match self.at(index, inner)? {
                Some(Step::Phase(mut order)) => {
                    if !self.state.phases.contains_key(&order.phase) {
                        let number = self.state.phases.len() + 1 + orders.len();
                        order.phase = PhaseName::new(format!("{number:02}_{}", inner.name));
                    }
                    orders.push(order);
                }
                Some(settled @ (Step::Skip { .. } | Step::Reuse { .. })) => return Ok(Some(settled)),
                Some(Step::Parallel { .. } | Step::Wait { .. } | Step::End { .. }) | None => {}
            }
        }
        Ok(if orders.is_empty() { None } else { Some(Step::Parallel { orders }) })
    }

    /// Test, then fix and test again while red. A resume tests the last round anew before it fixes.
    fn repair(&self, index: usize, step: &PlannedStep, checks: &[crate::ids::CheckName], fix: &AgentAction) -> Step {
        let test = |round: u32| {
            let work = Work::Check { checks: checks.to_vec(), expect: crate::event::Expect::Green };
            Step::Phase(self.order(&format!("test_{round}"), &step.name, index, round, work))
        };
        let last = self.phase_of(&step.name).and_then(|name| self.state.phases.get(&name));
        let Some(last) = last else { return test(1) };
        let round = last.order.round.max(1);
        let here = self.of_this_stretch(last.started);
        match (&last.order.work, last.progress) {
            (Work::Agent { .. }, Progress::Ended(PhaseStatus::Success)) => return test(round + 1),
            (Work::Check { .. }, Progress::Ended(_)) if here => {}
            // It waited for a limit; what it is to fix has not changed.
            (Work::Agent { .. }, Progress::Ended(PhaseStatus::Stopped)) if here => {
                return Step::Phase(last.order.clone());
            }
            (Work::Agent { .. } | Work::Check { .. } | Work::Commit | Work::Approve { .. }, _) => return test(round),
        }
        if let Some((outcome, reason)) = out_of_attempts(self.stop, self.state, &step.name, round)
            .or_else(|| no_progress(self.stop, self.state, &step.name))
        {
            return Step::End { outcome, reason };
        }
        let work = Work::Agent {
            agent: fix.agent.clone(),
            output: fix.output.clone(),
            gates: fix.gates.clone(),
            retries: fix.retries,
            input: Input::Check { phase: last.order.phase.clone() },
        };
        Step::Phase(self.order(&format!("fix_{round}"), &step.name, index, round, work))
    }

    /// All steps are settled: whether the run is accepted (SPEC 4.1).
    fn verdict(&self) -> Result<Step, WhenError> {
        let unmet = match &self.plan.accept {
            Some(accept) => {
                let holds = when::evaluate(accept, &standing(self.plan, self.state))?;
                (!holds).then(|| format!("`accept` does not hold: {accept}"))
            }
            None => self.unmet_by_default(),
        };
        Ok(match unmet {
            None => Step::End { outcome: Outcome::GoalMet, reason: "every step is done".to_owned() },
            Some(reason) => Step::End { outcome: Outcome::VerificationFailed, reason },
        })
    }

    fn unmet_by_default(&self) -> Option<String> {
        let settled = |kind: fn(&PlannedStep) -> bool| {
            self.plan.steps.iter().flat_map(flattened).filter(|step| kind(step)).rev_find_done(self.state)
        };
        if let Some((name, false)) = settled(|step| matches!(step.action, Action::Check { .. } | Action::Repair { .. }))
        {
            return Some(format!("the last check, `{name}`, is not as it should be"));
        }
        let reviews = |step: &PlannedStep| matches!(&step.action, Action::Agent(action) if action.output == "review");
        if let Some((name, false)) = settled(reviews) {
            return Some(format!("the last review, `{name}`, does not approve"));
        }
        None
    }
}

/// The last step of an iteration that was done, with its verdict.
trait LastDone<'a>: Iterator<Item = &'a PlannedStep> + Sized {
    fn rev_find_done(self, state: &RunState) -> Option<(&'a StepName, bool)> {
        let done = self.filter_map(|step| match state.step(&step.name)?.status {
            StepStatus::Done { passed } => Some((&step.name, passed)),
            StepStatus::Pending | StepStatus::Reusable | StepStatus::Skipped => None,
        });
        done.last()
    }
}

impl<'a, I: Iterator<Item = &'a PlannedStep>> LastDone<'a> for I {}

/// Whether a resume takes over what this step finished.
fn replays(action: &Action) -> bool {
    match action {
        Action::Agent(action) => action.replay,
        Action::Commit => true,
        Action::Check { .. } | Action::Repair { .. } | Action::Approve { .. } | Action::Parallel { .. } => false,
    }
}
