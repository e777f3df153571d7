//! `fia runs`, `show`, `phases` and `agents`: tables for people, one JSON object for programs.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::support::program;
use crate::support::project::Project;

const STORY: &str = "
phases:
  '*':
    - usage: { input: 1, output: 2, cache_read: 30, cache_write: 4 }
";

fn ran() -> Project {
    let project = Project::new().with("agents: [{ name: builder, session_rotation_context: 1000 }]\n").script(STORY);
    assert_eq!(project.fia(&["run", "build", "-q", "do", "it"]).end(), "exit 0");
    project
}

/// The parts of an object that a test is about.
fn parts<const N: usize>(value: &Value, keys: [&str; N]) -> Value {
    keys.iter().map(|key| ((*key).to_owned(), value[*key].clone())).collect()
}

#[test]
fn r2_1_a_run_is_found_by_a_unique_part_of_its_id_and_the_newest_by_default() {
    let project = ran();
    let first = project.runs().pop().unwrap();
    assert_eq!(project.fia(&["run", "build", "--run", "mine", "-q", "do", "more"]).end(), "exit 0");
    let shown = |args: &[&str]| project.json(args)["run"].as_str().unwrap().to_owned();
    assert_eq!(shown(&["show", &first[9..], "--json"]), first);
    assert_eq!(shown(&["show", "min", "--json"]), "mine");
    let missing = project.fia(&["show", "zzzz"]);
    assert_eq!(missing.end(), "exit 2");
    insta::assert_snapshot!(project.shown(&missing), @r"
    exit 2
    -- stdout
    -- stderr
    error: no run has `zzzz` in its id

    hint: `fia runs` lists the runs of this repository
    ");
}

#[test]
fn json_answers_hold_exact_figures_and_null_for_what_is_not_known() {
    let project = ran();
    let runs = project.json(&["runs", "--json"]);
    let listed = parts(&runs["runs"][0], ["workflow", "state", "outcome"]);
    assert_eq!(listed, json!({"workflow": "build", "state": "ended", "outcome": "goal_met"}));
    let phases = project.json(&["phases", "--json"]);
    assert_eq!(
        parts(&phases["phases"][0], ["phase", "status", "agent"]),
        json!({"phase": "01_build", "status": "success", "agent": "builder"})
    );
    let agents = project.json(&["agents", "--json"]);
    assert_eq!(
        parts(&agents["agents"][0], ["agent", "context_tokens", "ceiling"]),
        json!({"agent": "builder", "context_tokens": 35, "ceiling": 1000})
    );
}

#[test]
fn tables_are_for_people() {
    let project = ran();
    let shown = |args: &[&str]| project.shown(&project.fia(args));
    insta::assert_snapshot!(shown(&["runs"]), @r"
    exit 0
    -- stdout
    RUN  WORKFLOW  STATE  STARTED  TIME  TOKENS  COST  PROMPT
    RUN  build  ✓ goal met  WHEN  SPAN  65  <$0.01  do it
    -- stderr
    ");
    insta::assert_snapshot!(shown(&["phases"]), @r"
    exit 0
    -- stdout
    PHASE  STATUS  AGENT  ENGINE  TIME  REQ  CONTEXT  COST  TRY  NOTE
    01_build  ✓ success  builder  scripted rehearsal  SPAN  1  0→35  <$0.01  1
    -- stderr
    ");
    insta::assert_snapshot!(shown(&["agents"]), @r"
    exit 0
    -- stdout
    AGENT  ENGINE  SESSION  CONTEXT  CEILING  ROTATED  CACHE  LAST
    builder  scripted rehearsal  SESSION  35 ▕▎  ▏  1k  0  86%  WHEN
    -- stderr
    ");
    insta::assert_snapshot!(shown(&["show"]), @r"
    exit 0
    -- stdout
    fia RUN  build  “do it”
    started DATE UTC, on main

    ✓ 01 build  builder  scripted rehe…  SPAN  context  35  <$0.01

    context  builder ▁
    ✓ goal met in SPAN  nothing committed
      tokens 65 (46% cache reads)  cost <$0.01
      fia report  fia report --svg context.svg
    -- stderr
    ");
}

#[test]
fn figures_of_a_phase_at_work_are_those_of_the_log_so_far_and_those_of_a_killed_one_stay() {
    let project = Project::new()
        .script(
            "phases: { build: [{ hang: true, do: [{ write: { a: b } }], usage: { input: 1, output: 2, cache_read: 30, cache_write: 4 } }] }\n",
        )
        .committed();
    let running = project.start(&["run", "build", "x"]);
    project.wait_for(&running, "tool_call");
    let so_far = |look: &str| {
        let run = project.json(&["show", "--json"]);
        let spend = json!({
            "turns": 0, "requests": 1, "tokens": null, "cost_usd": null, "cost_known_usd": 0.0,
            "tokens_known": {"input": 1, "output": 2, "cache_read": 30, "cache_write": 4},
        });
        for part in [&run, &run["phases"][0], &run["agents"][0], &run["models"][0]] {
            assert_eq!(part["spend"], spend, "{look}: {run}");
        }
        assert_eq!(run["agents"][0]["context_tokens"], 35, "{look}");
        let shown = |args: &[&str]| project.shown(&project.fia(args));
        let (runs, agents, phases) = (shown(&["runs"]), shown(&["agents"]), shown(&["phases"]));
        assert!(runs.contains("≥37  –"), "{look}: {runs}");
        assert!(
            agents.contains("builder  scripted rehearsal  SESSION  35") && phases.contains("1  0→35  –"),
            "{agents}{phases}"
        );
        let (shown, report) = (shown(&["show"]), shown(&["report"]));
        assert!(shown.contains("so far: context 35 of 180k, 1 request, ≥37 tokens"), "{look}: {shown}");
        assert!(report.contains("no outcome yet") && report.contains("total  1  ≥1  ≥4  ≥30  ≥2"), "{look}: {report}");
        shown
    };
    assert!(so_far("live").contains("tokens  ≥37 so far  cost –"));
    running.signal(rustix::process::Signal::KILL);
    running.finish();
    assert!(so_far("killed").contains("interrupted"));
    // The engine that the killed run left.
    project.fia(&["stop"]);
}

#[test]
fn a_model_that_is_left_to_the_cli_is_null() {
    let project = Project::new()
        .config("defaults: { coding_agent: scripted }\nengines: { scripted: { script: rehearsal.yaml } }\n");
    assert_eq!(project.fia(&["run", "build", "-q", "x"]).end(), "exit 0");
    let run = project.json(&["show", "--json"]);
    assert_eq!(
        [&run["phases"][0]["model"], &run["agents"][0]["model"], &run["models"][0]["model"]],
        [&json!(null); 3],
        "{run}"
    );
}

#[test]
fn a_repository_without_runs_says_so() {
    let project = Project::new();
    assert_eq!(project.json(&["runs", "--json"]), json!({"runs": []}));
    let finished = project.fia(&["show"]);
    assert_eq!(finished.end(), "exit 2");
    insta::assert_snapshot!(project.shown(&finished), @r"
    exit 2
    -- stdout
    -- stderr
    error: there is no run in `WORK/.fia/runs`

    hint: `fia run WORKFLOW PROMPT` starts one
    ");
}

#[test]
fn r5_answers_come_from_the_log_when_the_run_file_is_damaged() {
    let project = ran();
    let before = project.json(&["show", "--json"]);
    std::fs::write(project.run_dir().join("run.json"), "{").unwrap();
    assert_eq!(project.json(&["show", "--json"]), before);
    std::fs::remove_file(project.run_dir().join("run.json")).unwrap();
    assert_eq!(project.json(&["show", "--json"]), before);
}

#[test]
fn version_and_help_are_data() {
    let project = Project::new();
    let version = project.fia(&["--version"]);
    assert_eq!((version.end().as_str(), version.stderr.as_str()), ("exit 0", ""));
    assert_eq!(version.stdout, format!("fia {}\n", env!("CARGO_PKG_VERSION")));
    let help = project.fia(&["--help"]);
    assert_eq!((help.end().as_str(), help.stderr.as_str()), ("exit 0", ""));
    assert!(help.stdout.contains("Usage: fia <COMMAND>"), "{help}");
    assert_eq!(project.fia(&["dance"]).end(), "exit 2");
}

#[test]
fn tables_in_a_pipe_are_as_wide_as_they_are_unless_columns_says_otherwise() {
    let project = Project::new();
    assert_eq!(project.fia(&["run", "build", "-q", &"long ".repeat(30)]).end(), "exit 0");
    let widest = |columns: &str| {
        let told = program::run(project.command(&["runs"]).env("COLUMNS", columns));
        assert_eq!(told.end(), "exit 0", "{told}");
        told.stdout.lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert!(widest("") > 90 && widest("x") > 90 && widest("0") > 90);
    assert!(widest("80") <= 80);
}
