use insta::assert_snapshot;

use super::*;
use crate::event::{Event, Unreported, UsageUnknown};
use crate::ids::EngineName;
use crate::view::ending::Brake;
use crate::view::frame::Frame;
use crate::view::story::{self, Story};

fn fold(story: &Story) -> (Projection, Frame) {
    let (mut state, mut frame) = (Projection::default(), Frame::default());
    for record in &story.records {
        state.push(record);
        if let Event::RunStart(start) = &record.event {
            frame.push(start);
        }
    }
    (state, frame)
}

fn text_of(table: &Table, width: Option<usize>) -> String {
    let mut out = Vec::new();
    table.write(&mut out, width, Paint::Plain).unwrap();
    String::from_utf8(out).unwrap()
}

fn shown(story: &Story, life: Life) -> String {
    let (state, frame) = fold(story);
    let state = state.so_far();
    let mut out = Vec::new();
    show(
        &mut out,
        Ending { state: &state, frame: &frame, savings: None, brake: Brake::Off, instead: None },
        life,
        story.now,
        Some(80),
        Paint::Plain,
    )
    .unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn agents_are_listed_in_roster_order_with_what_is_known() {
    let story = story::fixing().phase("05_review", "reviewer").turn(None).event(Event::UsageUnknown(UsageUnknown {
        agent: "reviewer".into(),
        engine: EngineName::Cursor,
        what: Unreported::Tokens,
    }));
    assert_snapshot!(text_of(&agents(&fold(&story).0, story.now), None), @"
        AGENT     ENGINE         SESSION   CONTEXT            CEILING  ROTATED  CACHE  LAST
        planner   claude sonnet  84f0b9e9   38k ▕██        ▏     180k        0    83%  7m ago
        builder   pi gpt-5.6     s-2        23k ▕█▎        ▏     180k        1    97%  12s ago
        reviewer  cursor         –            – not reported        –        0      –  now
        ");
    assert_snapshot!(text_of(&agents(&fold(&Story::begins("build", "x")).0, story.now), None), @"
        AGENT     ENGINE         SESSION  CONTEXT  CEILING  ROTATED  CACHE  LAST
        planner   claude sonnet  –           –        180k        –      –  not started
        builder   pi gpt-5.6     –           –        180k        –      –  not started
        reviewer  cursor         –           –        180k        –      –  not started
        ");
}

#[test]
fn phases_are_listed_with_context_cost_and_what_to_note() {
    let (state, _) = fold(&story::fixed());
    assert_snapshot!(text_of(&phases(&state), None), @"
        PHASE      STATUS     AGENT    ENGINE           TIME  REQ  CONTEXT   COST  TRY  NOTE
        01_plan    ✓ success  planner  claude sonnet     41s    8    0→38k  $0.06    1
        02_build   ✓ success  builder  pi gpt-5.6     6m 02s   70   0→187k  $0.88    1
        03_test_1  ✗ red                                 12s                         1  test red: context_handoff/03_test_1.log
        04_fix_1   ✓ success  builder  pi gpt-5.6     2m 47s   31  ↻ 0→42k  $0.09    1
        05_test_2  ✓ success                             12s                         1
        06_save    ✓ success                              1s                         1
        ");
    assert_snapshot!(text_of(&phases(&state), Some(60)), @"
        PHASE      STATUS     AGENT    ENGINE           TIME  REQ
        01_plan    ✓ success  planner  claude sonnet     41s    8
        02_build   ✓ success  builder  pi gpt-5.6     6m 02s   70
        03_test_1  ✗ red                                 12s
        04_fix_1   ✓ success  builder  pi gpt-5.6     2m 47s   31
        05_test_2  ✓ success                             12s
        06_save    ✓ success                              1s
        ");
}

#[test]
fn runs_are_listed_with_their_state() {
    let good = fold(&story::fixed()).0.run;
    let bad = fold(&story::capped()).0.run;
    let open = fold(&story::fixing()).0.run;
    let now = story::fixed().now;
    let table = runs([(&good, Life::Gone), (&bad, Life::Gone), (&open, Life::Alive), (&open, Life::Gone)], now);
    assert_snapshot!(text_of(&table, None), @"
        RUN                   WORKFLOW         STATE          STARTED    TIME  TOKENS   COST  PROMPT
        20261130-142210-k3fa  plan_build_test  ✓ goal met      9m ago  9m 55s    8.4M  $1.03  add a /health endpoint
        20261130-142210-k3fa  plan_build_test  ✗ attempt cap   9m ago  8m 19s    7.8M  $1.03  add a /health endpoint
        20261130-142210-k3fa  plan_build_test  ▶ running       9m ago  7m 55s    7.5M  $0.94  add a /health endpoint
        20261130-142210-k3fa  plan_build_test  · interrupted   9m ago  7m 55s    7.5M  $0.94  add a /health endpoint
        ");
}

#[test]
fn models_are_listed_with_what_they_did() {
    assert_snapshot!(text_of(&models(&fold(&story::fixed()).0.models), None), @"
        ENGINE  MODEL    RUNS  TURNS  REQ  TOKENS  CACHE   COST  LARGEST  WINDOW
        claude  sonnet      1      1    8    222k    83%  $0.06      38k    200k
        pi      gpt-5.6     1      2  101    8.2M    97%  $0.97     187k    200k
        ");
}

#[test]
fn show_tells_the_story_of_the_context_in_one_line() {
    assert_snapshot!(shown(&story::fixed(), Life::Gone), @"
        fia 20261130-142210-k3fa  plan_build_test  “add a /health endpoint”
        started 2026-11-30 14:22:10 UTC, on main

        ✓ 01 plan      planner   claude sonnet      41s  context  38k            $0.06
        ✓ 02 build     builder   pi gpt-5.6      6m 02s  context 187k ▲ceiling   $0.88
        ✗ 03 test_1    cargo test                   12s
                       test: exit 101, see context_handoff/03_test_1.log
        ↻ 04 fix_1     builder   fresh session: 187k ≥ 180k, reseed 1.4 kB
        ✓ 04 fix_1     builder   pi gpt-5.6      2m 47s  context  42k            $0.09
        ✓ 05 test_2    cargo test                   12s
        ✓ 06 save      commit what the run made      1s

        context  planner ▁▁▂▂▂▂▂▂   builder ▂▃▄▅▅▆▇██↻▁▂▂▂
        ✓ goal met in 9m 55s          3 files changed, committed as 4f2a91c on main
          tokens 8.4M (96% cache reads)   cost $1.03   1 rotation
          fia report     fia report --svg context.svg
        ");
}

#[test]
fn show_of_a_live_run_says_where_it_stands() {
    assert_snapshot!(shown(&story::fixing(), Life::Alive), @"
        fia 20261130-142210-k3fa  plan_build_test  “add a /health endpoint”
        started 2026-11-30 14:22:10 UTC, on main

        ✓ 01 plan      planner   claude sonnet      41s  context  38k            $0.06
        ✓ 02 build     builder   pi gpt-5.6      6m 02s  context 187k ▲ceiling   $0.88
        ✗ 03 test_1    cargo test                   12s
                       test: exit 101, see context_handoff/03_test_1.log
        ↻ 04 fix_1     builder   fresh session: 187k ≥ 180k, reseed 1.4 kB
        ▶ 04 fix_1     builder   pi gpt-5.6      1m 12s  edit src/health.rs
                       so far: context 23k of 180k, 12 requests, ≥214k tokens

        context  planner ▁▁▂▂▂▂▂▂   builder ▂▂▃▃▃▄▄▅▅▅▆▆▇▇▇███↻▁▁▁
        tokens   ≥7.8M so far   cost ≥$0.94   last record 12s ago
        ");
}

#[test]
fn r2_4_show_of_a_killed_run_names_the_command_that_goes_on() {
    let text = shown(&story::fixing(), Life::Gone);
    assert!(text.ends_with("no outcome is recorded\n  next:  fia resume k3fa\n"), "{text}");
}

#[test]
fn text_from_outside_cannot_steer_the_terminal() {
    let story = Story::begins("build\u{1b}[2J", "x\u{202e}y\n\u{9b}31m").phase("01_bu\u{1b}ild", "builder").turn(None);
    let (state, _) = fold(&story);
    let all = [
        shown(&story, Life::Alive),
        text_of(&phases(&state), None),
        text_of(&agents(&state, story.now), None),
        text_of(&runs([(&state.run, Life::Alive)], story.now), None),
    ];
    assert!(all.iter().all(|text| !text.contains(['\u{1b}', '\u{202e}', '\u{9b}'])), "{all:?}");
}

#[test]
fn json_keeps_the_names_that_scripts_read() {
    let (state, _) = fold(&story::fixing());
    let keys = |value: serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let json = |value: &dyn erased::Json| value.json();
    let shown = json(&crate::view::json::Shown::of(&state, Life::Alive));
    assert_snapshot!(keys(shown.clone()), @"state run workflow prompt fia_version outcome reason started_at stretch_at updated_at elapsed_ms elapsed_before_ms stretches spend rotations relays cache_breaks branch worktree commits commit commit_branch committed_paths mixed left_out waiting approval_open retry_after last_engine_error limits last_budget_warning recoveries verdicts events phases skipped agents models");
    assert_snapshot!(keys(shown["phases"][3].clone()), @"phase step kind description agent engine model level lease status reason attempt legs reused started_at elapsed_ms spend context_before context_after context_max rotation rotations relays cache_breaks checks gates last_tool");
    assert_snapshot!(keys(shown["agents"][1].clone()), @"agent engine model session_id context_tokens window context_max ceiling unmetered rotations relays cache_breaks spend last_at open trace");
    let runs = json(&crate::view::json::RunList::of([(&state.run, Life::Gone)]));
    assert_eq!(runs["runs"][0]["state"], "interrupted");
    assert_eq!(runs["runs"][0]["run"], "20261130-142210-k3fa");
}

mod erased {
    pub(super) trait Json {
        fn json(&self) -> serde_json::Value;
    }

    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> serde_json::Value {
            let mut out = Vec::new();
            crate::view::json::write(&mut out, self).unwrap();
            serde_json::from_slice(&out).unwrap()
        }
    }
}
