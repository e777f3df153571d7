use insta::assert_snapshot;

use super::*;
use crate::event::{
    BudgetWarning, ContextPruned, EngineError, EngineRelay, EngineRetry, FailureKind, GateVerdict, Outcome, PhaseStatus,
};
use crate::ids::EngineName;
use crate::view::story::{self, Story};

fn logged(story: &Story) -> String {
    let mut log = PlainLog::new();
    let mut out = Vec::new();
    story.records.iter().for_each(|record| log.push(record, &mut out).unwrap());
    String::from_utf8(out).unwrap()
}

#[test]
fn a_good_run_is_a_few_lines() {
    assert_snapshot!(logged(&story::fixed()), @"
        14:22:10 run 20261130-142210-k3fa plan_build_test
        14:22:10 phase 01_plan started: planner on claude sonnet, new session
        14:22:51 phase 01_plan done in 41s: context 38k, $0.06
        14:22:51 phase 02_build started: builder on pi gpt-5.6, new session
        14:28:53 phase 02_build done in 6m 02s: context 187k, $0.88
        14:28:53 phase 03_test_1 started: check test
        14:29:05 phase 03_test_1: test failed, exit 101, in 12s: context_handoff/03_test_1.log
        14:29:05 phase 03_test_1 red in 12s
        14:29:05 session rotated: builder 187k >= 180k, reseed 1.4 kB, archived pi_session.1.rotated.jsonl
        14:29:05 phase 04_fix_1 started: builder on pi gpt-5.6, new session
        14:31:52 phase 04_fix_1 done in 2m 47s: context 42k, $0.09
        14:31:52 phase 05_test_2 started: check test
        14:32:04 phase 05_test_2 done in 12s
        14:32:04 phase 06_save started: commit what the run made
        14:32:05 phase 06_save: committed 3 files as 4f2a91c on main: Add a health endpoint
        14:32:05 phase 06_save done in 1s
        14:32:05 run ended: goal met in 9m 55s, 8.4M tokens, $1.03: every step succeeded
        ");
}

#[test]
fn deaths_relays_waits_and_gates_are_worth_a_line() {
    let error = EngineError {
        agent: "builder".into(),
        engine: EngineName::Pi,
        model: "openai-codex/gpt-5.6".to_owned(),
        kind: FailureKind::Limit,
        transient: false,
        leg: 1,
        count: 1,
        message: "usage limit reached\u{1b}[2J".to_owned(),
        retry_after: None,
    };
    let story = Story::begins("build", "x").phase("01_build", "builder").turn(None).reads([20_000]);
    let until = story.now + chrono::TimeDelta::minutes(131);
    let story = story
        .event(Event::EngineError(EngineError { retry_after: Some(until), ..error.clone() }))
        .event(Event::EngineRetry(EngineRetry {
            agent: "builder".into(),
            engine: EngineName::Pi,
            model: "gpt-5.6".to_owned(),
            kind: FailureKind::Overload,
            delay_ms: 2_000,
            leg: 2,
            from: Some(EngineName::Pi),
            to: Some(EngineName::Pi),
        }))
        .event(Event::Waiting(Waiting {
            until: Some(until),
            reason: "pi's plan limit".to_owned(),
            agent: Some("builder".into()),
            count: 1,
        }))
        .event(Event::EngineRelay(EngineRelay {
            agent: "builder".into(),
            from: EngineName::Pi,
            from_model: "gpt-5.6".to_owned(),
            to: EngineName::Claude,
            to_model: "sonnet".to_owned(),
            choice: 1,
            kind: FailureKind::Limit,
            phase: "01_build".into(),
            at_resume: false,
        }))
        .turn_ends(None)
        .event(Event::GateFail(GateVerdict {
            gate: "diff_matches_claims".to_owned(),
            attempt: 2,
            violations: vec!["src/a.rs is claimed and was not changed".to_owned()],
        }))
        .ends(PhaseStatus::Failed)
        .run_ends(Outcome::BlockedByGate, "01_build: a gate is still violated");
    assert_snapshot!(logged(&story), @"
        14:22:10 run 20261130-142210-k3fa build
        14:22:10 phase 01_build started: builder on pi gpt-5.6, new session
        14:22:15 engine failed: builder on pi gpt-5.6: limit; back 16:33 UTC (in 2h 11m): usage limit reached␛[2J
        14:22:15 builder tries pi gpt-5.6 again after 2s (overload)
        14:22:15 waiting: builder: pi's plan limit, until 16:33 UTC (in 2h 11m); fia stop k3fa ends it, fia resume goes on later
        14:22:15 relay: builder handed from pi gpt-5.6 to claude sonnet (limit)
        14:22:15 phase 01_build: gate diff_matches_claims failed (look 2): src/a.rs is claimed and was not changed
        14:22:15 phase 01_build failed in 5s: context 20k, cost unknown
        14:22:15 run ended: blocked by gate in 5s, 20k tokens, –: 01_build: a gate is still violated
        ");
}

#[test]
fn a_resume_says_what_it_takes_over() {
    let reused = crate::event::PhaseReused { step: "plan".into(), phase: "01_plan".into() };
    let story =
        story::fixing().run_ends(Outcome::StoppedByRequest, "asked to").resumes().event(Event::PhaseReused(reused));
    let lines = logged(&story);
    assert_snapshot!(lines.lines().rev().take(3).collect::<Vec<_>>().join("\n"), @"
        14:30:17 01_plan taken over from an earlier stretch
        14:30:17 run 20261130-142210-k3fa resumed: plan_build_test
        14:30:17 run ended: stopped by request in 8m 07s, 7.5M tokens, $0.94: asked to
        ");
}

#[test]
fn a_request_that_was_left_as_it_is_needs_no_line_and_one_that_was_shortened_does() {
    let pruned = |reason: &str, soft| {
        Event::ContextPruned(ContextPruned {
            agent: "builder".into(),
            reason: reason.to_owned(),
            soft,
            hard: 0,
            chars_before: 9_000,
            chars_after: 9_000 - u64::from(soft) * 1_000,
            ratio_before: 0.1,
            ratio_after: 0.1,
            gap_ms: None,
            first_changed: None,
        })
    };
    let story = Story::begins("build", "x").event(pruned("no_clock", 0)).event(pruned("ttl", 2));
    assert_snapshot!(logged(&story), @"
        14:22:10 run 20261130-142210-k3fa build
        14:22:10 builder pruned (ttl): 2 trimmed, 0 cleared, 9k → 7k characters
        ");
    assert_eq!(words::describe(&pruned("no_clock", 0), story.now), "builder was not pruned: no_clock");
}

#[test]
fn what_is_only_to_come_or_was_only_seen_is_not_told_as_done() {
    let relay = EngineRelay {
        agent: "builder".into(),
        from: EngineName::Pi,
        from_model: String::new(),
        to: EngineName::Claude,
        to_model: "sonnet".to_owned(),
        choice: 1,
        kind: FailureKind::Limit,
        phase: "01_build".into(),
        at_resume: true,
    };
    let budget = BudgetWarning { limit: "token_budget".to_owned(), percent: 80, used: 160_000.0, of: 100_000.0 };
    let story = Story::begins("build", "x")
        .event(Event::EngineRelay(relay))
        .event(Event::ExternalChange(crate::event::ExternalChange::noticed(vec![".fia/stop appeared".to_owned()])))
        .event(Event::ExternalChange(crate::event::ExternalChange::put_back(vec!["HEAD".to_owned()])))
        .event(Event::BudgetWarning(budget));
    assert_snapshot!(logged(&story), @"
        14:22:10 run 20261130-142210-k3fa build
        14:22:10 relay: builder leaves pi (limit) and will go on with claude sonnet at fia resume
        14:22:10 noticed: .fia/stop appeared
        14:22:10 put back: HEAD
        14:22:10 budget: 160% of token_budget used: 160k of 100k
        ");
}
