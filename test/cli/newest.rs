//! Which run is the newest, and runs that cannot be read.

use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::project::Project;

#[test]
fn r2_1_the_newest_run_is_the_one_that_was_started_last_for_every_command() {
    let project = Project::new()
        .with("workflows: { one: { steps: [{ name: work, agent: builder }] } }\n")
        .script("phases: { work: [{ do: [{ write: { made: \"1\" } }] }] }\n")
        .committed();
    assert_eq!(project.fia(&["run", "one", "a", "--run", "zz-nightly", "-q"]).end(), "exit 0");
    assert_eq!(project.fia(&["run", "one", "b", "--run", "aa-later", "-q"]).end(), "exit 0");
    assert_eq!(project.json(&["show", "--json"])["run"], "aa-later");
    assert_eq!(project.json(&["report", "--json"])["run"]["run"], "aa-later");
    let listed = project.json(&["runs", "-n", "1", "--json"]);
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1));
    assert_eq!(listed["runs"][0]["run"], "aa-later");
    // The later run changed nothing: what the earlier one made is not taken back.
    assert_eq!(project.fia(&["undo", "--apply"]).end(), "exit 0");
    assert_eq!(project.env().read("made"), "1");
}

#[test]
fn r2_1_an_id_that_looks_like_an_option_is_refused() {
    let refused = Project::new().fia(&["run", "build", "x", "--run=-n"]);
    assert_eq!(refused.end(), "exit 2", "{refused}");
    assert!(refused.stderr.contains("`-n` cannot be the id of a run"), "{refused}");
}

#[test]
fn a_run_that_cannot_be_read_is_named_and_passed_over_by_every_command() {
    let project = Project::new();
    assert_eq!(project.fia(&["run", "build", "x", "--run", "good", "-q"]).end(), "exit 0");
    let runs = project.env().work().join(".fia/runs");
    fs::create_dir_all(runs.join("20991231-000000-aaaa/events.jsonl")).unwrap();
    fs::create_dir(runs.join("zzz")).unwrap();
    fs::create_dir(runs.join("torn")).unwrap();
    fs::write(runs.join("torn/events.jsonl"), "{\"seq\":1,\"ts\":\"2099-11-30T14:22:10.000Z\",\"run\"").unwrap();
    for command in [&["show"][..], &["report"], &["events"], &["undo"], &["runs"], &["models"], &["phases"]] {
        let told = project.fia(command);
        assert_eq!(told.end(), "exit 0", "{command:?}: {told}");
        for bad in ["20991231-000000-aaaa", "zzz", "torn"] {
            assert!(told.stderr.contains(&format!("warning: run {bad} is passed over: ")), "{command:?}: {told}");
        }
    }
    assert_eq!(project.json(&["show", "--json"])["run"], "good");
    let runs = project.json(&["runs", "--json"]);
    assert_eq!(runs["runs"].as_array().unwrap().iter().map(|run| &run["run"]).collect::<Vec<_>>(), ["good"]);
    for command in [&["resume"][..], &["stop"]] {
        let told = project.fia(command);
        assert_eq!(told.end(), "exit 2", "{command:?}: {told}");
        assert!(told.stderr.contains("error: no run is "), "{command:?}: {told}");
    }
    for command in [&["stop", "--status"][..], &["stop", "--all"], &["stop", "--clear"]] {
        assert_eq!(project.fia(command).end(), "exit 0", "{command:?}");
    }
}

#[test]
fn the_time_of_a_live_run_goes_on_between_two_records() {
    let project = Project::new().script("phases: { build: [{ do: [{ run: touch ../ready }], hang: true }] }\n");
    let running = project.start(&["run", "build", "x"]);
    running.until("ready", || project.env().work().with_file_name("ready").exists());
    let elapsed = |args: &[&str]| {
        let answer = project.json(args);
        let run = answer.get("runs").map_or(&answer, |runs| &runs[0]);
        (run["state"].clone(), run["elapsed_ms"].as_u64().unwrap())
    };
    let (state, first) = elapsed(&["runs", "--json"]);
    assert_eq!(state, "running");
    // Nothing is recorded any more, and each look takes its time.
    let (_, second) = elapsed(&["show", "--json"]);
    assert!(second > first, "{first} ms, later {second} ms");
    running.signal(rustix::process::Signal::TERM);
    drop(running.finish());
}

/// Tokens and dollars: of the end's record, of the line, of the last words, of `runs`.
fn told(script: &str) -> (serde_json::Value, String, String, String) {
    let project = Project::new().script(script);
    let finished = project.fia(&["run", "build", "x"]);
    let log = fs::read_to_string(project.run_dir().join("events.jsonl")).unwrap();
    let end: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    let line = |word: &str| {
        let found = finished.stderr.lines().find(|line| line.contains(word));
        found.unwrap_or_else(|| panic!("no {word} in {finished}")).trim().to_owned()
    };
    let ended = line("run ended: ");
    let (_, figures) = ended.split_once(" in ").unwrap();
    let figures: Vec<&str> = figures.split([',', ':']).skip(1).take(2).map(str::trim).collect();
    let runs = project.fia(&["runs"]);
    let row = runs.stdout.lines().nth(1).unwrap().split_whitespace().rev().skip(1).take(2);
    let row: Vec<&str> = row.collect();
    let payload = &end["payload"];
    (
        json!([payload["tokens"].get("input").unwrap_or(&payload["tokens"]), payload["cost_usd"]]),
        figures.join(" "),
        line("tokens ").split("   ").take(2).collect::<Vec<_>>().join(" "),
        format!("{} {}", row[1], row[0]),
    )
}

#[test]
fn what_an_engine_did_not_report_is_unknown_everywhere() {
    let dies = told("phases: { build: [{ exit: 3 }] }\n");
    assert_eq!(dies, (json!([null, null]), "– tokens –".into(), "tokens – cost –".into(), "– –".into()));
}

#[test]
fn nothing_spent_is_0_everywhere() {
    let project = Project::new()
        .with("checks: { test: { run: \"false\" } }\nworkflows: { w: { steps: [{ name: t, check: [test] }], accept: \"t.passed\" } }\n");
    let finished = project.fia(&["run", "w", "x"]);
    assert!(finished.stderr.contains(" 0 tokens, $0.00: "), "{finished}");
    assert!(finished.stderr.contains("  tokens 0   cost $0.00\n"), "{finished}");
    let run = project.json(&["show", "--json"]);
    assert_eq!(run["spend"]["tokens"]["input"], 0);
    assert_eq!(run["spend"]["cost_usd"], 0.0);
}
