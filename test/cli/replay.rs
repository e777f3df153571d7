//! The log is the truth: what a real run left is what a replay of its log says.

use fia::event::Record;
use fia::state::RunState;
use fia::view::projection::Projection;
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::support::project::{Log, Project};

/// A run with a correction, a red test, a fix in a rotated session, a skipped step and a commit.
fn recorded() -> Log {
    let project = Project::new()
        .with(
            "
agents: [{ name: builder, session_rotation_context: 2000 }]
checks: { test: { run: 'grep good a' } }
workflows:
  all:
    steps:
      - { name: plan, agent: planner, output: plan }
      - { name: build, agent: builder, output: build, gates: [diff_matches_claims] }
      - { name: tests, repair: { check: [test], fix: builder } }
      - { name: never, agent: scout, when: 'not tests.passed' }
      - { name: save, commit: {} }
",
        )
        .script(
            "
phases:
  plan: [{ text: no report }, {}]
  build:
    - do: [{ write: { a: bad } }]
      answer: { status: success, changed_files: [a, b] }
      usage: { input: 0, output: 9, cache_read: 3000, cache_write: 7 }
    - answer: { status: success, changed_files: [a] }
      usage: { input: 0, output: 9, cache_read: 3007, cache_write: 7 }
  fix_1: [{ do: [{ write: { a: good } }] }]
",
        )
        .committed();
    let log = project.run("all");
    assert_eq!(log.outcome().as_str(), "goal_met");
    assert_eq!(log.rotated_in(), ["04_fix_1"]);
    log
}

fn fold(records: &[Record]) -> (RunState, Projection) {
    let (mut state, mut projection) = (RunState::default(), Projection::default());
    for record in records {
        state.apply(record).unwrap();
        projection.push(record);
    }
    (state, projection)
}

#[test]
fn r5_1_the_files_of_a_run_are_what_a_replay_of_its_log_says() {
    let log = recorded();
    let (state, projection) = fold(&log.records);
    let file = |name: &str| serde_json::from_str::<Value>(&log.file(name)).unwrap();
    assert_eq!(file("agent_map.json"), serde_json::to_value(&state.agents).unwrap());
    assert_eq!(file("run.json"), serde_json::to_value(&projection).unwrap());
}

/// A run is killed at each append in turn; what it had shown of itself is what its log replays to.
#[cfg(debug_assertions)]
#[test]
fn r5_1_a_run_that_was_killed_anywhere_left_no_file_ahead_of_its_log() {
    for boundary in (1..60).step_by(7) {
        let project = Project::new();
        let mut command = project.command(&["run", "build", "do", "it", "-q"]);
        let finished = crate::support::program::run(command.env("FIA_FAULT_AT", boundary.to_string()));
        let Some(run) = project.runs().pop() else { continue };
        let path = project.env().work().join(".fia/runs").join(run);
        if !path.join("events.jsonl").exists() {
            continue;
        }
        let log = Log::read(project.env(), &path);
        // The run file is written behind the records it tells of, so some prefix of the log tells the same.
        let Ok(file) = std::fs::read(path.join("run.json")) else { continue };
        let file: Value = serde_json::from_slice(&file).unwrap();
        let told = |end: usize| serde_json::to_value(fold(&log.records[..end]).1).unwrap();
        assert!((1..=log.records.len()).any(|end| told(end) == file), "boundary {boundary}: {finished}");
    }
}

#[test]
fn every_record_of_a_real_run_is_written_again_byte_for_byte() {
    let log = recorded();
    let mut again = Vec::new();
    log.records.iter().for_each(|record| record.write_line(&mut again));
    assert_eq!(String::from_utf8(again).unwrap(), log.file("events.jsonl"));
}

#[test]
fn every_prefix_of_a_real_log_loads_and_goes_on_to_the_same_end() {
    let log = recorded();
    let (whole, _) = fold(&log.records);
    for end in 0..=log.records.len() {
        let (mut state, _) = fold(&log.records[..end]);
        for record in &log.records[end..] {
            state.apply(record).unwrap();
        }
        assert_eq!(state, whole, "from record {end}");
    }
}
