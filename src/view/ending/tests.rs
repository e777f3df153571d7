use insta::assert_snapshot;
use serde_json::json;

use super::*;
use crate::event::{Approval, BudgetWarning, EngineError, Event, FailureKind, GateVerdict, PhaseStatus};
use crate::ids::EngineName;
use crate::view::story::{self, Story};

fn ending(story: &Story) -> String {
    braked(story, Brake::Off)
}

fn braked(story: &Story, brake: Brake) -> String {
    let (mut state, mut frame, mut savings) = (Projection::default(), Frame::default(), Savings::default());
    for record in &story.records {
        state.push(record);
        savings.push(record);
        if let Event::RunStart(start) = &record.event {
            frame.push(start);
        }
    }
    let mut out = Vec::new();
    let ending = Ending { state: &state, frame: &frame, savings: Some(&savings), brake, instead: None, place: None };
    ending.write(&mut out, story.now, Paint::Plain).unwrap();
    String::from_utf8(out).unwrap()
}

fn next(story: &Story) -> String {
    ending(story).lines().last().unwrap().trim_start_matches("  next:  ").to_owned()
}

#[test]
fn a_good_end_says_what_it_made_what_it_cost_and_what_rotation_saved() {
    assert_snapshot!(ending(&story::fixed()), @"
        ✓ goal met in 9m 55s          3 files changed, committed as 4f2a91c on main
          tokens 8.4M (96% cache reads)   cost $1.03   1 rotation saved about 5.3M tokens
          fia report     fia report --svg context.svg
        ");
}

#[test]
fn r2_4_a_bad_end_says_what_is_red_and_the_next_command() {
    assert_snapshot!(ending(&story::capped()), @r#"
        ✗ attempt cap: the suite is still red after 3 fixes           20261130-142210-k3fa
          failing: test (context_handoff/09_test_4.log)
          Work is kept in the tree, nothing was committed.
          If what you mended is no file of the run: fia resume k3fa --retry-unchanged
          tokens 7.8M (96% cache reads)   cost $1.03   1 rotation saved about 2.1M tokens
          next:  fia verdict set k3fa --missing "…" && fia resume k3fa
        "#);
}

#[test]
fn files_are_named_as_they_can_be_opened_from_here() {
    let story = story::capped();
    let (mut state, frame) = (Projection::default(), Frame::default());
    story.records.iter().for_each(|record| state.push(record));
    let place = Some(".fia/runs/20261130-142210-k3fa");
    let ending = Ending { state: &state, frame: &frame, savings: None, brake: Brake::Off, instead: None, place };
    let mut out = Vec::new();
    ending.write(&mut out, story.now, Paint::Plain).unwrap();
    let text = String::from_utf8(out).unwrap();
    let path = "failing: test (.fia/runs/20261130-142210-k3fa/context_handoff/09_test_4.log)\n";
    assert!(text.contains(path), "{text}");
}

#[test]
fn r10_6_where_code_failed_the_next_command_goes_on_without_a_verdict() {
    let mut story = story::capped();
    let last = story
        .records
        .iter_mut()
        .rev()
        .find_map(|record| if let Event::PhaseEnd(end) = &mut record.event { Some(end) } else { None });
    last.unwrap().status = PhaseStatus::Failed;
    assert_eq!(next(&story), "fia resume k3fa --retry-unchanged");
}

#[test]
fn r2_4_a_gate_that_stayed_violated_is_named() {
    let verdict = GateVerdict {
        gate: "diff_matches_claims".to_owned(),
        attempt: 2,
        violations: vec!["src/a.rs is claimed and was not changed\u{1b}[2J".to_owned()],
    };
    let story = story::fixing()
        .turn_ends(None)
        .event(Event::GateFail(verdict))
        .ends(PhaseStatus::Failed)
        .run_ends(Outcome::BlockedByGate, "04_fix_1: a gate is still violated");
    assert_snapshot!(ending(&story), @r#"
        ✗ blocked by gate: 04_fix_1: a gate is still violated         20261130-142210-k3fa
          diff_matches_claims: src/a.rs is claimed and was not changed␛[2J
          Work is kept in the tree, nothing was committed.
          tokens 7.8M (96% cache reads)   cost ≥$0.94   1 rotation saved about 2.1M tokens
          next:  fia verdict set k3fa --missing "…" && fia resume k3fa
        "#);
}

#[test]
fn r2_4_an_exhausted_engine_says_when_it_can_go_on() {
    let story = story::fixing();
    let at = story.now + chrono::TimeDelta::minutes(131);
    let story = story
        .event(Event::EngineError(EngineError {
            agent: "builder".into(),
            engine: EngineName::Pi,
            model: "gpt-5.6".to_owned(),
            kind: FailureKind::Limit,
            transient: false,
            leg: 1,
            count: 1,
            message: "usage limit reached".to_owned(),
            retry_after: Some(at),
        }))
        .run_ends(Outcome::EngineExhausted, "no engine is left for 04_fix_1");
    assert_snapshot!(ending(&story), @"
        ✗ engine exhausted: no engine is left for 04_fix_1            20261130-142210-k3fa
          pi: usage limit reached
          An engine can go on at 16:41 UTC (in 2h 11m).
          Work is kept in the tree, nothing was committed.
          tokens ≥7.8M (96% cache reads)   cost ≥$0.94   1 rotation saved about 2.1M tokens
          next:  fia resume k3fa
        ");
}

#[test]
fn r2_4_every_outcome_has_a_next_command_that_will_be_accepted() {
    let commands: Vec<String> = Outcome::ALL
        .into_iter()
        .filter(|outcome| *outcome != Outcome::GoalMet)
        .map(|outcome| format!("{outcome}: {}", next(&story::built().run_ends(outcome, "why"))))
        .collect();
    assert_snapshot!(commands.join("\n"), @r#"
        verification_failed: fia verdict set k3fa --missing "…" && fia resume k3fa
        attempt_cap: fia verdict set k3fa --missing "…" && fia resume k3fa
        no_progress: fia verdict set k3fa --missing "…" && fia resume k3fa
        budget_exhausted: fia resume k3fa --budget token_budget=60000000
        breadth_exceeded: fia resume k3fa --budget breadth_ceiling=0
        blocked_by_gate: fia verdict set k3fa --missing "…" && fia resume k3fa
        engine_exhausted: fia resume k3fa
        stopped_by_request: fia resume k3fa
        aborted: fia resume k3fa
        failed: fia verdict set k3fa --missing "…" && fia resume k3fa
        "#);
}

#[test]
fn r2_4_while_everything_is_stopped_the_next_command_takes_that_back_first() {
    for outcome in Outcome::ALL {
        let story = story::built().run_ends(outcome, "why");
        let last = |text: String| text.lines().last().unwrap().trim_start_matches("  next:  ").to_owned();
        let freed = if outcome == Outcome::GoalMet { "" } else { "fia stop --clear && " };
        let wanted = format!("{freed}{}", next(&story));
        assert_eq!(last(braked(&story, Brake::On)), wanted);
    }
}

#[test]
fn r2_4_an_open_approval_is_answered_before_the_resume() {
    let story = story::built().event(Event::Approval(Approval::Asked));
    assert_eq!(
        next(&story.run_ends(Outcome::StoppedByRequest, "nobody to ask")),
        "fia approve k3fa && fia resume k3fa"
    );
}

#[test]
fn r10_3_the_limit_that_was_reached_is_the_one_that_is_raised() {
    let ended = |stop: serde_json::Value| next(&story::built().limited(stop).run_ends(Outcome::BudgetExhausted, "why"));
    assert_eq!(ended(json!({"cost_budget_usd": 0.9})), "fia resume k3fa --budget cost_budget_usd=1.8");
    assert_eq!(ended(json!({"budget_minutes": 5, "cost_budget_usd": 9})), "fia resume k3fa --budget budget_minutes=10");
    assert_eq!(ended(json!({"token_budget": 5_000_000})), "fia resume k3fa --budget token_budget=16000000");
    let warning = BudgetWarning { limit: "cost_budget_usd".to_owned(), percent: 80, used: 0.8, of: 1.0 };
    let story = story::built().limited(json!({"cost_budget_usd": 1})).event(Event::BudgetWarning(warning));
    let story = story.run_ends(Outcome::BudgetExhausted, "nearly");
    assert_eq!(next(&story), "fia resume k3fa --budget cost_budget_usd=2");
}

#[test]
fn r10_6_a_used_up_ledger_no_longer_offers_what_would_be_refused() {
    let again = |verdicts: usize, resumes: usize| {
        let mut story = story::capped();
        for _ in 0..verdicts {
            story = story.event(Event::Verdict(crate::event::Verdict::default()));
        }
        for _ in 0..resumes {
            story = story.resumes().run_ends(Outcome::AttemptCap, "still red");
        }
        next(&story)
    };
    assert_eq!(again(3, 3), "fia verdict set k3fa --missing \"…\" && fia resume k3fa");
    assert_eq!(again(4, 3), "fia resume k3fa --retry-unchanged");
    assert_eq!(again(4, 4), "fia run plan_build_test \"…\"");
}

#[test]
fn a_run_without_an_end_has_no_last_words() {
    assert_eq!(ending(&story::fixing()), "");
}

#[test]
fn r2_4_limits_that_were_given_for_the_last_stretch_stay_in_the_next_command() {
    let limits = "--budget token_budget=90_000_000 --budget budget_minutes=7";
    let ended = |outcome| {
        let mut story = story::built().resumes();
        if let Event::RunStart(start) = &mut story.records.last_mut().unwrap().event {
            start.limits = vec!["token_budget=90_000_000".to_owned(), "budget_minutes=7".to_owned()];
        }
        next(&story.run_ends(outcome, "why"))
    };
    assert_eq!(ended(Outcome::Failed), format!("fia verdict set k3fa --missing \"…\" && fia resume k3fa {limits}"));
    assert_eq!(ended(Outcome::Aborted), format!("fia resume k3fa {limits}"));
    assert_eq!(ended(Outcome::BreadthExceeded), format!("fia resume k3fa {limits} --budget breadth_ceiling=0"));
    assert_eq!(
        ended(Outcome::BudgetExhausted),
        "fia resume k3fa --budget budget_minutes=7 --budget token_budget=60000000"
    );
}
