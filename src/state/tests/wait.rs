//! Waits as steps: ordered from the log, over with the start of their phase.

use pretty_assertions::assert_eq;

use super::*;
use crate::event::{BudgetWarning, ContextRead, EngineError, Verdict, Waiting};
use crate::state::next::after_wait;

impl Story {
    fn limited(&mut self, order: &Order, until: DateTime<Utc>) {
        self.open(order);
        let agent = order.work.agent().cloned();
        let count = self.state.phases[&order.phase].waits + 1;
        let waiting = Waiting { until: Some(until), reason: WAITS_FOR_LIMIT.to_owned(), agent, count };
        self.record(Some(&order.phase), Event::Waiting(waiting));
        self.close(&order.phase, PhaseStatus::Stopped, None, None);
    }

    fn ordered(&self) -> Order {
        let step = after_wait(&self.plan, &self.stop, &self.state).unwrap();
        let Step::Phase(order) = step else { panic!("{step:?}") };
        order
    }
}

fn until(minutes: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::minutes(minutes)
}

fn wait(minutes: i64, count: u32) -> Step {
    Step::Wait { until: until(minutes), agent: Some("planner".into()), reason: WAITS_FOR_LIMIT.to_owned(), count }
}

#[test]
fn r10_a_wait_is_ordered_until_its_phase_starts_again_also_after_a_resume() {
    let mut story = Story::begin(sdlc());
    let first = story.ordered();
    story.limited(&first, until(60));
    assert_eq!(story.next(), wait(60, 1));
    story.start(true);
    assert_eq!(story.next(), wait(60, 1), "a resume goes on waiting");
    assert_eq!(story.ordered(), first, "the same phase, under its own name");
    story.limited(&first, until(90));
    assert_eq!(story.next(), wait(90, 1), "a resume counts anew");
    let again = story.ordered();
    story.limited(&again, until(120));
    assert_eq!(story.next(), wait(120, 2));
    assert_eq!(story.state.phases[&first.phase].waits_since, Some(story.records[6].ts));
    story.open(&again);
    story.finish(&again, json!({"status": "success"}), true);
    assert!(matches!(story.next(), Step::Phase(order) if order.phase.as_str() == "02_build"));
    assert_eq!(story.state.phases[&first.phase].waits, 0);
}

#[test]
fn r10_a_fix_that_waited_goes_on_without_another_test() {
    let mut story = Story::begin(plan(vec![step(
        "tests",
        Action::Repair { checks: vec!["test".into()], fix: agent("builder", "build") },
    )]));
    story.take(json!({}), false);
    let fix = story.ordered();
    assert_eq!(fix.phase.as_str(), "02_fix_1");
    story.limited(&fix, until(60));
    assert_eq!(story.ordered(), fix);
    story.start(true);
    assert_eq!(story.ordered().phase.as_str(), "01_test_1", "a resume tests again first");
}

#[test]
fn an_approval_that_is_waited_for_is_no_wait_for_a_limit() {
    let mut story = Story::begin(sdlc());
    let order = story.ordered();
    story.open(&order);
    let waiting = Waiting { until: Some(until(60)), reason: "approval".to_owned(), agent: None, count: 1 };
    story.record(Some(&order.phase), Event::Waiting(waiting));
    assert_eq!((story.state.phases[&order.phase].waits, &story.state.phases[&order.phase].wait), (0, &None));
}

#[test]
fn r10_2_deaths_are_counted_by_engine_model_and_kind_and_in_a_row_by_phase() {
    let mut story = Story::begin(sdlc());
    let order = story.ordered();
    story.open(&order);
    let mut die = |kind: FailureKind, retry_after| {
        let count = story.state.deaths_of(EngineName::Scripted, "m", kind) + 1;
        let error = EngineError {
            agent: "planner".into(),
            engine: EngineName::Scripted,
            model: "m".to_owned(),
            kind,
            transient: kind.is_transient(),
            leg: count,
            count,
            message: String::new(),
            retry_after,
        };
        story.record(Some(&order.phase), Event::EngineError(error));
        let phase = &story.state.phases[&order.phase];
        (count, phase.transient_deaths, phase.legs)
    };
    assert_eq!(die(FailureKind::Overload, None), (1, 1, 1));
    assert_eq!(die(FailureKind::Crash, None), (1, 2, 1));
    assert_eq!(die(FailureKind::Overload, None), (2, 3, 2));
    assert_eq!(die(FailureKind::Limit, Some(until(5))), (1, 0, 2), "another kind breaks the row");
    assert_eq!(story.state.limited[&(EngineName::Scripted, "m".to_owned())], until(5));
}

#[test]
fn r10_3_minutes_of_a_stretch_that_was_killed_count_up_to_its_last_record() {
    let mut story = Story::begin(sdlc());
    story.now += TimeDelta::minutes(7);
    let order = story.ordered();
    story.open(&order);
    story.now += TimeDelta::minutes(100);
    let verdict = Verdict { missing: vec!["docs".to_owned()], redo: Vec::new(), note: None };
    story.record(None, Event::Verdict(verdict));
    story.start(true);
    assert_eq!(story.state.spend.earlier_ms, 7 * 60_000 + 10);
}

#[test]
fn r10_3_a_phase_remembers_the_warnings_of_its_own_budget() {
    let mut story = Story::begin(sdlc());
    let order = story.ordered();
    story.open(&order);
    for limit in ["phase_token_budget", "token_budget"] {
        let warning = BudgetWarning { limit: limit.to_owned(), percent: 50, used: 1.0, of: 2.0 };
        story.record(Some(&order.phase), Event::BudgetWarning(warning));
    }
    assert_eq!(story.state.phases[&order.phase].warned, BTreeSet::from([50]));
    assert!(story.state.warned.contains(&("token_budget".to_owned(), 50)));
}

/// One request of an open turn: 1000 tokens and a dollar.
fn request(story: &mut Story, order: &Order) {
    let usage = Usage { cache_read: 900, output: 100, ..Usage::default() };
    let read = ContextRead {
        agent: order.work.agent().unwrap().clone(),
        context_tokens: Some(900),
        window: None,
        usage: Some(usage),
        cost_usd: Some(1.0),
    };
    story.record(Some(&order.phase), Event::Context(read));
}

/// Tokens of the run and of the phase, and dollars, as the budgets see them.
fn used(story: &Story, order: &Order) -> String {
    let stop = Stop { token_budget: 1, phase_token_budget: 1, cost_budget_usd: 1.0, ..Stop::default() };
    let meters = budget::meters(&stop, &story.state, Some(&order.phase), 0);
    format!("{} {} {}", meters[0].used, meters[1].used, meters[2].used)
}

#[test]
fn r10_3_what_the_requests_of_a_turn_showed_counts_while_it_is_open_and_after_a_kill() {
    let mut story = Story::begin(sdlc());
    let order = story.ordered();
    story.open(&order);
    let agent = order.work.agent().unwrap().clone();
    for stretch in 1..=3 {
        story.begin_turn(&order.phase, &agent);
        story.name_session(&order.phase, &agent, stretch == 1);
        request(&mut story, &order);
        request(&mut story, &order);
        let killed = format!("{0} {0} {1}", stretch * 2000, stretch * 2);
        assert_eq!(used(&story, &order), killed);
        story.start(true);
        assert_eq!(used(&story, &order), killed, "lost with its stretch, and counted once");
        story.open(&order);
    }
    assert_eq!(story.state.spend.known_usage(), None, "the request that was under way may have cost more");
    assert_eq!(story.state.agents.entry(&agent).unwrap().session_cost_usd, Some(6.0), "a total of the engine has it");
}

#[test]
fn r10_3_what_a_turn_says_at_its_end_takes_the_place_of_what_its_requests_showed() {
    let mut story = Story::begin(sdlc());
    let order = story.ordered();
    story.open(&order);
    let agent = order.work.agent().unwrap().clone();
    story.begin_turn(&order.phase, &agent);
    request(&mut story, &order);
    story.end_turn(&order.phase, &agent);
    assert_eq!(used(&story, &order), "11 11 0.5");
    request(&mut story, &order);
    assert_eq!(used(&story, &order), "11 11 0.5", "outside of a turn nothing is spent");
}

#[test]
fn what_a_turn_spent_whose_end_nobody_recorded_is_unknown() {
    let mut story = Story::begin(sdlc());
    let order = story.ordered();
    story.open(&order);
    let known = |story: &Story| (story.state.spend.known_usage(), story.state.spend.known_cost());
    assert_eq!(known(&story), (Some(crate::event::Usage::default()), Some(0.0)));
    story.begin_turn(&order.phase, order.work.agent().unwrap());
    assert_eq!(known(&story), (None, None));
    story.start(true);
    assert_eq!((known(&story), story.state.spend.unknown_usage), ((None, None), 1));
}
