use insta::assert_json_snapshot;

use super::*;
use crate::event::{Compacted, Outcome, PhaseStatus, RetirementReason, SessionRetired, Usage, Verdict, Waiting};
use crate::view::numbers::ms_between;
use crate::view::story::{self, Story};

fn project(story: &Story) -> Projection {
    let mut projection = Projection::default();
    for record in &story.records {
        projection.push(record);
    }
    projection
}

#[test]
fn a_run_is_one_row_that_adds_up() {
    let run = project(&story::fixed()).run;
    assert_json_snapshot!(run, @r#"
        {
          "run": "20261130-142210-k3fa",
          "workflow": "plan_build_test",
          "prompt": "add a /health endpoint",
          "fia_version": "0.1.0",
          "outcome": "goal_met",
          "reason": "every step succeeded",
          "started_at": "2026-11-30T14:22:10Z",
          "stretch_at": "2026-11-30T14:22:10Z",
          "updated_at": "2026-11-30T14:32:05Z",
          "elapsed_ms": 595000,
          "elapsed_before_ms": 0,
          "stretches": 1,
          "spend": {
            "turns": 3,
            "requests": 109,
            "tokens": {
              "input": 1090,
              "output": 32700,
              "cache_read": 8084000,
              "cache_write": 265910
            },
            "tokens_known": {
              "input": 1090,
              "output": 32700,
              "cache_read": 8084000,
              "cache_write": 265910
            },
            "cost_usd": 1.03,
            "cost_known_usd": 1.03
          },
          "rotations": 1,
          "relays": 0,
          "cache_breaks": 0,
          "branch": "main",
          "worktree": false,
          "commits": 1,
          "commit": "4f2a91c0de4f2a91c0de4f2a91c0de4f2a91c0de",
          "commit_branch": "main",
          "committed_paths": 3,
          "mixed": [],
          "left_out": [],
          "waiting": null,
          "approval_open": false,
          "retry_after": null,
          "last_engine_error": null,
          "limits": [],
          "last_budget_warning": null,
          "recoveries": 0,
          "verdicts": 0,
          "events": 138
        }
        "#);
}

#[test]
fn a_phase_knows_its_context_before_and_after() {
    let projection = project(&story::fixed());
    let seen: Vec<_> = projection
        .phases
        .iter()
        .map(|row| (row.phase.as_str(), row.status, row.context_before, row.context_after, row.rotations))
        .collect();
    assert_eq!(
        seen,
        [
            ("01_plan", PhaseState::Success, Some(0), Some(38_000), 0),
            ("02_build", PhaseState::Success, Some(0), Some(187_000), 0),
            ("03_test_1", PhaseState::Red, None, None, 0),
            ("04_fix_1", PhaseState::Success, Some(0), Some(42_000), 1),
            ("05_test_2", PhaseState::Success, None, None, 0),
            ("06_save", PhaseState::Success, None, None, 0),
        ]
    );
}

#[test]
fn a_session_that_goes_on_brings_its_context_along() {
    let story = story::built().phase("04_fix_1", "builder").turn(Some("s-1")).reads([190_000]);
    let projection = project(&story);
    assert_eq!(projection.phases[3].context_before, Some(187_000));
    assert_eq!(projection.agents[1].context_tokens, Some(190_000));
}

#[test]
fn a_state_put_away_after_any_record_goes_on_as_if_it_had_not_been() {
    let story = story::capped().resumes().phase("04_fix_1", "builder").turn(None).reads([9_000]);
    let whole = project(&story);
    for cut in 0..story.records.len() {
        let mut first = Projection::default();
        story.records[..cut].iter().for_each(|record| first.push(record));
        let json = serde_json::to_string(&first).unwrap();
        let mut second: Projection = serde_json::from_str(&json).unwrap();
        story.records[cut..].iter().for_each(|record| second.push(record));
        assert_eq!(second, whole, "put away after {cut} records");
    }
}

#[test]
fn a_turn_cut_off_by_a_kill_makes_sums_unknown_but_keeps_what_was_seen() {
    let story = Story::begins("build", "x").phase("01_build", "builder").turn(None).reads([10_000, 12_000]).resumes();
    let projection = project(&story);
    assert_eq!(projection.phases[0].status, PhaseState::Interrupted);
    assert_eq!(projection.run.spend.tokens, None);
    assert_eq!(
        projection.run.spend.tokens_known,
        Usage { input: 20, output: 600, cache_read: 10_000, cache_write: 11_980, cache_write_1h: 0 }
    );
    assert_eq!(projection.run.spend.requests, 2);
    assert_eq!(projection.run.spend.cost_usd, None);
}

#[test]
fn unknown_usage_is_null_and_not_nothing() {
    let story = Story::begins("review", "x")
        .phase("01_review", "reviewer")
        .turn(None)
        .turn_ends(None)
        .ends(PhaseStatus::Success);
    let spend = project(&story).run.spend;
    assert_eq!(
        (spend.tokens, spend.cost_usd, spend.tokens_text(Usage::total), spend.cost_text()),
        (None, None, "–".into(), "–".into())
    );
}

#[test]
fn a_retired_session_leaves_no_context_behind() {
    let retired = SessionRetired {
        agent: "builder".into(),
        reason: RetirementReason::SessionLost,
        from_session: Some("s-1".into()),
        archived: Vec::new(),
    };
    let agent = project(&story::built().event(Event::SessionRetired(retired))).agents[1].clone();
    assert_eq!((agent.session_id, agent.context_tokens, agent.rotations), (None, None, 0));
}

#[test]
fn r10_6_only_resumes_after_a_judged_outcome_count_as_recoveries() {
    let judged = project(&story::capped().event(Event::Verdict(crate::event::Verdict::default())).resumes()).run;
    assert_eq!((judged.recoveries, judged.verdicts), (2, 1));
    let stopped = project(&story::fixing().run_ends(Outcome::StoppedByRequest, "asked").resumes()).run;
    assert_eq!((stopped.recoveries, stopped.verdicts), (0, 0));
}

#[test]
fn the_state_grows_with_phases_not_with_records() {
    let long = |requests: u64| {
        let story =
            Story::begins("build", "x").phase("01_build", "builder").turn(None).reads((0..requests).map(|n| 5_000 + n));
        serde_json::to_string(&project(&story)).unwrap().len()
    };
    assert!(long(20_000) < long(1_000) + 1_000);
}

#[test]
fn engines_and_models_add_up_over_runs() {
    let rows = [project(&story::fixed()), project(&story::capped())].into_iter().flat_map(|run| run.models);
    let sums: Vec<_> = ModelRow::over(rows)
        .into_iter()
        .map(|row| (row.model, row.runs, row.spend.requests, row.spend.cost_text(), row.window, row.context_max))
        .collect();
    let row = |model: &str, requests, cost: &str, largest| {
        (model.to_owned(), 2, requests, cost.to_owned(), Some(200_000), Some(largest))
    };
    assert_eq!(sums, [row("gpt-5.6", 183, "$1.94", 187_000), row("sonnet", 16, "$0.12", 38_000)]);
}

#[test]
fn r10_a_run_waits_for_a_limit_until_the_phase_starts_again_although_it_ended() {
    let waiting = Waiting { until: None, reason: "limit".to_owned(), agent: Some("builder".into()), count: 1 };
    let story = Story::begins("build", "do it").phase("01_build", "builder").event(Event::Waiting(waiting));
    let story = story.ends(PhaseStatus::Stopped);
    assert_eq!(project(&story).run.waiting.map(|wait| wait.reason), Some("limit".to_owned()));
    let story = story.phase("01_build", "builder");
    assert_eq!(project(&story).run.waiting, None);
}

/// Milliseconds from the start of the last stretch to the last record.
fn since_resumed(story: &Story) -> u64 {
    let began = story.records.iter().rfind(|record| matches!(record.event, Event::RunStart(_))).unwrap();
    ms_between(began.ts, story.records.last().unwrap().ts)
}

fn verdict() -> Event {
    Event::Verdict(Verdict { missing: vec!["docs".to_owned()], redo: Vec::new(), note: None })
}

#[test]
fn the_time_between_two_stretches_is_nobodys() {
    let ended = story::capped();
    let before = project(&ended).run.elapsed_ms;
    let resumed = ended.after(3600).event(verdict()).after(60).resumes();
    assert_eq!(project(&resumed).run.elapsed_ms, before);
    let story = resumed.phase("04_fix_1", "builder").after(7).turn(None);
    assert_eq!(project(&story).run.elapsed_ms, before + since_resumed(&story));
}

#[test]
fn the_time_between_a_kill_and_the_next_stretch_is_nobodys() {
    let killed = Story::begins("build", "x").phase("01_build", "builder").after(5).turn(None);
    let before = project(&killed).run.elapsed_ms;
    let mut story = killed.after(3600).event(verdict());
    story.records.last_mut().unwrap().phase = None;
    let story = story.after(60).resumes();
    assert_eq!(project(&story).run.elapsed_ms, before);
}

#[test]
fn r6_1_after_a_compaction_the_context_is_unknown_until_the_next_message() {
    let compacted = Compacted { agent: "builder".into(), before: Some(170_000), after: Some(20_000) };
    let story = story::built().phase("02_more", "builder").turn(Some("s")).reads([170_000]);
    let context = |story: &Story| project(story).agent(&"builder".into()).unwrap().context_tokens;
    assert_eq!(context(&story), Some(170_000));
    let story = story.event(Event::Compacted(compacted));
    assert_eq!(context(&story), None);
    assert_eq!(context(&story.reads([21_000])), Some(21_000));
}
