mod progress;
mod resume;
mod wait;

use chrono::{DateTime, TimeDelta, Utc};
use indexmap::IndexMap;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::next::next;
use super::*;
use crate::event::{
    AgentStart, Approval, CheckRun, EnvelopeTaken, Event, Input, LeaseKind, PhaseEnd, PhaseReused, PhaseStart, Record,
    RunStart, SessionSeen, Step, StepSkipped, TurnStatus, Work,
};
use crate::ids::{Seq, SessionId};
use crate::plan::{Action, Agent, AgentAction, EngineChoice, Plan, PlannedStep, Stop, Writes};

/// A run told step by step: it asks `next`, answers as the test says, and keeps every record.
struct Story {
    plan: Plan,
    stop: Stop,
    state: RunState,
    records: Vec<Record>,
    now: DateTime<Utc>,
    told: Vec<String>,
}

fn agent(name: &str, output: &str) -> AgentAction {
    AgentAction {
        agent: name.into(),
        output: output.to_owned(),
        gates: Vec::new(),
        retries: 1,
        input: None,
        replay: true,
    }
}

fn step(name: &str, action: Action) -> PlannedStep {
    PlannedStep { name: name.into(), when: None, action }
}

fn plan(steps: Vec<PlannedStep>) -> Plan {
    let worker = Agent {
        choices: vec![EngineChoice { engine: EngineName::Scripted, model: "m".to_owned(), level: None }],
        system: String::new(),
        user: String::new(),
        tools: Vec::new(),
        extensions: Vec::new(),
        writes: Writes::Anywhere,
        ceiling: 180_000,
        rotation: crate::plan::RotationPolicy::Ceiling,
        rotate_mid_phase: false,
        phase_levels: IndexMap::new(),
    };
    Plan {
        workflow: "story".to_owned(),
        description: String::new(),
        prompt: "do it".to_owned(),
        steps,
        accept: None,
        agents: ["planner", "builder", "reviewer"].into_iter().map(|name| (name.into(), worker.clone())).collect(),
        checks: IndexMap::new(),
        schemas: IndexMap::new(),
        protected_files: Vec::new(),
        judge_files: Vec::new(),
        benign_paths: Vec::new(),
        engines: IndexMap::new(),
        relay: crate::plan::Relay::Auto,
        session: crate::plan::SessionMode::FreshProcess,
        context_pruning: Value::Null,
        models: Value::Null,
    }
}

fn sdlc() -> Plan {
    plan(vec![
        step("plan", Action::Agent(agent("planner", "plan"))),
        step("build", Action::Agent(agent("builder", "build"))),
        step("tests", Action::Repair { checks: vec!["test".into()], fix: agent("builder", "build") }),
        step("review", Action::Agent(agent("reviewer", "review"))),
        step("save", Action::Commit),
    ])
}

impl Story {
    fn begin(plan: Plan) -> Self {
        let mut story = Self {
            plan,
            stop: Stop::default(),
            state: RunState::default(),
            records: Vec::new(),
            now: DateTime::UNIX_EPOCH,
            told: Vec::new(),
        };
        story.start(false);
        story
    }

    fn record(&mut self, phase: Option<&PhaseName>, event: Event) {
        self.now += TimeDelta::milliseconds(10);
        let record = Record {
            seq: Seq(self.records.len() as u64 + 1),
            ts: self.now,
            run: "r".into(),
            phase: phase.cloned(),
            event,
        };
        self.state.apply(&record).unwrap();
        let open = self.state.phases.values().filter(|phase| phase.progress == Progress::Open);
        assert_eq!(self.state.open, open.count(), "{:?}", record.event);
        self.records.push(record);
    }

    fn start(&mut self, resumed: bool) {
        let start = RunStart {
            workflow: "story".to_owned(),
            format: 1,
            fia_version: "0".to_owned(),
            prompt: "do it".to_owned(),
            plan_digest: String::new(),
            plan: None,
            stop: Value::Null,
            limits: Vec::new(),
            resumed,
            base: None,
            branch: None,
            worktree: false,
            linked: None,
            host: String::new(),
        };
        self.record(None, Event::RunStart(start));
    }

    fn next(&self) -> Step {
        next(&self.plan, &self.stop, &self.state).unwrap()
    }

    fn open(&mut self, order: &Order) {
        let attempt = self.state.phases.get(&order.phase).map_or(1, |phase| phase.attempts + 1);
        let start = PhaseStart {
            step: order.label().into(),
            order: order.clone(),
            kind: order.work.kind().to_owned(),
            agent: order.work.agent().cloned(),
            description: String::new(),
            attempt,
            host: String::new(),
        };
        self.record(Some(&order.phase), Event::PhaseStart(start));
    }

    fn close(&mut self, phase: &PhaseName, status: PhaseStatus, outcome: Option<Outcome>, tree: Option<&str>) {
        let end = PhaseEnd {
            step: "x".into(),
            status,
            elapsed_ms: 1,
            outcome,
            reason: outcome.map(|outcome| outcome.to_string()),
            tree_sha256: tree.map(str::to_owned),
        };
        self.record(Some(phase), Event::PhaseEnd(end));
    }

    /// Does what `next` says, answering agents with `envelope` and checks with `green`; returns what it was.
    fn take(&mut self, envelope: Value, green: bool) -> String {
        let told = match self.next() {
            step @ Step::Wait { .. } => panic!("nothing waits here: {step:?}"),
            Step::Phase(order) => {
                self.open(&order);
                self.finish(&order, envelope, green);
                order.phase.to_string()
            }
            Step::Parallel { orders } => {
                for order in &orders {
                    self.open(order);
                }
                for order in orders.iter().rev() {
                    self.finish(order, envelope.clone(), green);
                }
                orders.iter().map(|order| order.phase.as_str()).collect::<Vec<_>>().join("+")
            }
            Step::Reuse { step, phase } => {
                let told = format!("reuse {phase}");
                self.record(None, Event::PhaseReused(PhaseReused { step, phase }));
                told
            }
            Step::Skip { step, index, when } => {
                let told = format!("skip {step}");
                self.record(None, Event::StepSkipped(StepSkipped { step, index, when }));
                told
            }
            Step::End { outcome, .. } => {
                let end = RunEnd {
                    outcome,
                    reason: String::new(),
                    tokens: self.state.spend.known_usage(),
                    cost_usd: None,
                    phases: 0,
                    replayed: 0,
                    elapsed_ms: 5,
                    tree_sha256: None,
                };
                self.record(None, Event::RunEnd(end));
                format!("end {outcome}")
            }
        };
        self.told.push(told.clone());
        told
    }

    fn finish(&mut self, order: &Order, envelope: Value, green: bool) {
        let phase = &order.phase;
        match &order.work {
            Work::Agent { agent, output, .. } => {
                self.turn(phase, agent);
                let output = output.clone();
                self.record(Some(phase), Event::Envelope(EnvelopeTaken { output, envelope }));
                self.close(phase, PhaseStatus::Success, None, None);
            }
            Work::Check { checks, .. } => {
                for check in checks {
                    let run = CheckRun {
                        check: check.clone(),
                        passed: green,
                        exit: Some(i32::from(!green)),
                        timed_out_minutes: None,
                        log: String::new(),
                        elapsed_ms: 1,
                    };
                    self.record(Some(phase), Event::Check(run));
                }
                let tree = self.records.len().to_string();
                self.close(phase, if green { PhaseStatus::Success } else { PhaseStatus::Red }, None, Some(&tree));
            }
            Work::Commit | Work::Approve { .. } => self.close(phase, PhaseStatus::Success, None, None),
        }
    }

    /// Begins a turn; the session that it goes on with.
    fn begin_turn(&mut self, phase: &PhaseName, agent: &AgentName) -> Option<SessionId> {
        let session = self.state.agents.session(agent, EngineName::Scripted, "m").cloned();
        let start = AgentStart {
            agent: agent.clone(),
            leg: 1,
            turn: 1,
            engine: EngineName::Scripted,
            model: "m".to_owned(),
            level: None,
            session_id: session.clone(),
            lease: if session.is_some() { LeaseKind::Restored } else { LeaseKind::Cold },
            system_sha256: "5".to_owned(),
            host: String::new(),
            boot_id: String::new(),
            pid: 1,
            process_started: 1,
            prompt_sha256: String::new(),
        };
        self.record(Some(phase), Event::AgentStart(start));
        session
    }

    fn turn(&mut self, phase: &PhaseName, agent: &AgentName) {
        let session = self.begin_turn(phase, agent);
        self.name_session(phase, agent, session.is_none());
        self.end_turn(phase, agent);
    }

    fn name_session(&mut self, phase: &PhaseName, agent: &AgentName, new: bool) {
        let seen = SessionSeen {
            agent: agent.clone(),
            engine: EngineName::Scripted,
            model: "m".to_owned(),
            session_id: SessionId::new(format!("s-{agent}")),
            new,
        };
        self.record(Some(phase), Event::Session(seen));
    }

    fn end_turn(&mut self, phase: &PhaseName, agent: &AgentName) {
        let end = crate::event::AgentEnd {
            agent: agent.clone(),
            leg: 1,
            turn: 1,
            engine: EngineName::Scripted,
            model: "m".to_owned(),
            ended: TurnStatus::Completed,
            usage: Some(Usage { input: 10, output: 1, ..Usage::default() }),
            cost_usd: Some(0.5),
            session_cost_usd: None,
            requests: 1,
            context_tokens: Some(10),
            window: None,
            cache_hit_ratio: None,
            rewrite_factor: None,
            elapsed_ms: 1,
        };
        self.record(Some(phase), Event::AgentEnd(end));
    }

    /// Takes steps with approving envelopes; `greens` answers the checks in turn, the last one repeats.
    fn go(&mut self, greens: &[bool]) -> Vec<String> {
        let from = self.told.len();
        let mut greens = greens.iter().copied();
        let mut green = true;
        loop {
            if matches!(self.next(), Step::Phase(Order { work: Work::Check { .. }, .. })) {
                green = greens.next().unwrap_or(green);
            }
            if self.take(json!({"status": "success", "approved": true}), green).starts_with("end") {
                return self.told[from..].to_vec();
            }
        }
    }
}

#[test]
fn a_run_goes_through_its_steps_and_fixes_what_is_red() {
    let mut story = Story::begin(sdlc());
    assert_eq!(
        story.go(&[false, false, true]),
        [
            "01_plan",
            "02_build",
            "03_test_1",
            "04_fix_1",
            "05_test_2",
            "06_fix_2",
            "07_test_3",
            "08_review",
            "09_save",
            "end goal_met"
        ]
    );
    assert_eq!(story.state.outcome(), Some(Outcome::GoalMet));
    assert_eq!(story.state.spend.usage.total(), 55);
    assert_eq!(story.state.spend.known_cost(), Some(2.5));
}

#[test]
fn r4_each_agent_is_handed_the_last_envelope_and_a_fix_the_failures() {
    let mut story = Story::begin(sdlc());
    story.go(&[false, true]);
    let inputs: Vec<_> = story
        .state
        .phases
        .values()
        .filter_map(|phase| match &phase.order.work {
            Work::Agent { input, .. } => Some(input.clone()),
            Work::Check { .. } | Work::Commit | Work::Approve { .. } => None,
        })
        .collect();
    assert_eq!(
        inputs,
        [
            Input::Nothing,
            Input::Envelope { phase: "01_plan".into() },
            Input::Check { phase: "03_test_1".into() },
            Input::Check { phase: "05_test_2".into() },
        ]
    );
}

#[test]
fn r4_repair_tests_every_fix_and_stops_at_the_cap() {
    let mut story = Story::begin(sdlc());
    let told = story.go(&[false]);
    assert_eq!(
        told[2..],
        ["03_test_1", "04_fix_1", "05_test_2", "06_fix_2", "07_test_3", "08_fix_3", "09_test_4", "end attempt_cap"]
    );
    let mut none = Story::begin(sdlc());
    none.stop.attempt_cap = 0;
    assert_eq!(none.go(&[false])[2..], ["03_test_1", "end attempt_cap"]);
}

#[test]
fn r4_10_a_phase_that_brings_about_an_outcome_ends_the_run() {
    let mut story = Story::begin(sdlc());
    story.take(json!({"status": "success"}), true);
    let Step::Phase(order) = story.next() else { panic!() };
    story.open(&order);
    story.close(&order.phase, PhaseStatus::Failed, Some(Outcome::BlockedByGate), None);
    assert_eq!(story.next(), Step::End { outcome: Outcome::BlockedByGate, reason: "blocked_by_gate".to_owned() });
    assert_eq!(story.take(Value::Null, true), "end blocked_by_gate");
}

#[test]
fn r4_1_a_step_whose_condition_does_not_hold_is_skipped_and_the_run_judged_without_it() {
    let mut conditional = sdlc();
    conditional.steps[3].when = Some("tests.passed".to_owned());
    conditional.steps[4].when = Some("review.envelope.approved".to_owned());
    let mut story = Story::begin(conditional.clone());
    story.take(json!({"status": "success"}), true);
    story.take(json!({"status": "success"}), true);
    story.take(Value::Null, true);
    story.take(json!({"status": "success", "approved": false}), true);
    assert_eq!(story.take(Value::Null, true), "skip save");
    assert_eq!(story.take(Value::Null, true), "end verification_failed");
    conditional.accept = Some("tests.passed and tests.rounds == 1".to_owned());
    assert_eq!(Story::begin(conditional.clone()).go(&[true]).last().unwrap(), "end goal_met");
    assert_eq!(Story::begin(conditional).go(&[false, true]).last().unwrap(), "end verification_failed");
}

#[test]
fn a_red_check_step_ends_nothing_and_the_last_check_decides() {
    let check =
        |name: &str| step(name, Action::Check { checks: vec!["test".into()], expect: crate::event::Expect::Green });
    let two = || plan(vec![check("first"), step("build", Action::Agent(agent("builder", "build"))), check("last")]);
    assert_eq!(Story::begin(two()).go(&[false, true]).last().unwrap(), "end goal_met");
    assert_eq!(Story::begin(two()).go(&[true, false]).last().unwrap(), "end verification_failed");
}

#[test]
fn r4_parallel_phases_are_ordered_together_and_a_resume_orders_only_the_rest() {
    let readers = Action::Parallel {
        steps: vec![
            step("first", Action::Agent(agent("planner", "review"))),
            step("second", Action::Agent(agent("reviewer", "review"))),
        ],
    };
    let mut story = Story::begin(plan(vec![step("readers", readers)]));
    let Step::Parallel { orders } = story.next() else { panic!() };
    assert_eq!(orders.iter().map(|order| order.phase.as_str()).collect::<Vec<_>>(), ["01_first", "02_second"]);
    for order in &orders {
        story.open(order);
    }
    story.finish(&orders[1], json!({"status": "success", "approved": true}), true);
    story.start(true);
    assert_eq!(story.go(&[true]), ["reuse 02_second", "01_first", "end goal_met"]);
}

#[test]
fn the_state_of_every_prefix_of_a_log_is_the_state_the_live_run_had_there() {
    let mut live = RunState::default();
    let mut story = Story::begin(sdlc());
    story.go(&[false, true]);
    story.start(true);
    story.go(&[true]);
    for length in 0..=story.records.len() {
        let mut lines = Vec::new();
        story.records[..length].iter().for_each(|record| record.write_line(&mut lines));
        let mut replayed = RunState::default();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line: crate::event::wire::Line<'_> = serde_json::from_slice(line).unwrap();
            replayed.apply(&line.decode().unwrap()).unwrap();
        }
        assert_eq!(replayed, live, "after {length} records");
        if let Some(record) = story.records.get(length) {
            live.apply(record).unwrap();
        }
    }
}

#[test]
fn a_fact_that_cannot_follow_is_refused_and_changes_nothing() {
    let mut story = Story::begin(sdlc());
    let before = story.state.clone();
    let record = Record {
        seq: Seq(2),
        ts: story.now,
        run: "r".into(),
        phase: Some("01_plan".into()),
        event: Event::Approval(Approval::Asked),
    };
    assert_eq!(story.state.apply(&record).unwrap_err().to_string(), "`approval` cannot happen in a run between phases");
    let Step::Phase(order) = story.next() else { panic!() };
    assert_eq!(story.state, before);
    story.open(&order);
    let wrong = Record { phase: Some("07_none".into()), ..record };
    assert_eq!(
        story.state.apply(&wrong).unwrap_err().to_string(),
        "`approval` names the phase `07_none`, which is not open"
    );
}
