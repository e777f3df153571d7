//! `fia run`: what it takes, what it shows, what it leaves.

use std::process::Stdio;

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::support::program::{self, Running};
use crate::support::project::{Project, steady};

/// A workflow with a condition, a repair loop and a schema file.
const RELEASE: &str = r#"
agents: [{ name: builder, writes: ["src/"] }]
checks: { test: { run: "sh test.sh" } }
workflows:
  release:
    steps:
      - { name: notes, agent: scout, output: schemas/notes.json }
      - { name: skipped, agent: planner, when: "notes.envelope.urgent" }
      - { name: build, agent: builder, output: build, gates: [diff_matches_claims], when: "not notes.envelope.urgent" }
      - { name: tests, repair: { check: [test], fix: builder } }
      - { name: judge, agent: reviewer, output: review, when: "tests.rounds > 1" }
    accept: "tests.passed and judge.envelope.approved"
"#;

const NOTES: &str = r#"{
  "type": "object",
  "required": ["status", "urgent"],
  "properties": { "status": { "enum": ["success", "fail"] }, "urgent": { "type": "boolean" } }
}
"#;

const STORY: &str = "
phases:
  notes:
    - { answer: { status: success } }
    - { answer: { status: success, urgent: false } }
  build:
    - do: [{ write: { src/a: first } }]
      answer: { status: success, summary: a, changed_files: [src/a] }
  fix_1:
    - do: [{ write: { src/a: second } }]
";

fn release() -> Project {
    Project::new()
        .with(RELEASE)
        .file("schemas/notes.json", NOTES)
        .file("test.sh", "grep second src/a\n")
        .script(STORY)
        .committed()
}

#[test]
fn r4_a_workflow_with_a_condition_a_repair_and_a_schema_file_runs() {
    let project = release();
    let finished = project.fia(&["run", "release", "write", "a"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert_eq!(finished.stdout, "");
    insta::assert_snapshot!(steady(&finished.stderr, &project.env().work()), @r"
    TIME run RUN release
    TIME phase 01_notes started: scout on scripted rehearsal, new session
    TIME phase 01_notes done in SPAN: context 607, <$0.01
    TIME skipped skipped, as `notes.envelope.urgent` does not hold
    TIME phase 02_build started: builder on scripted rehearsal, new session
    TIME phase 02_build done in SPAN: context 877, <$0.01
    TIME phase 03_test_1 started: sh test.sh
    TIME phase 03_test_1: test failed, exit 1, in SPAN: context_handoff/03_test_1.log
    TIME phase 03_test_1 red in SPAN
    TIME phase 04_fix_1 started: builder on scripted rehearsal, session SESSION
    TIME phase 04_fix_1 done in SPAN: context 1k, <$0.01
    TIME phase 05_test_2 started: sh test.sh
    TIME phase 05_test_2 done in SPAN
    TIME phase 06_judge started: reviewer on scripted rehearsal, new session
    TIME phase 06_judge done in SPAN: context 845, <$0.01
    TIME run ended: goal met in SPAN, 6k tokens, $0.01: every step is done

    ✓ goal met in SPAN  nothing committed
      tokens 6k (55% cache reads)  cost $0.01
      fia report  fia report --svg context.svg
    ");
    let log = project.log();
    assert_eq!(log.starts().iter().filter(|(phase, _)| phase == "01_notes").count(), 2);
    let correction = log.prompt("scout", "01_notes", 1, 2);
    assert!(correction.contains("urgent"), "{correction}");
    assert_eq!(project.env().git(&["status", "--porcelain"]), "?? src/\n");
}

#[test]
fn r4_3_a_dry_run_prints_the_plan_and_runs_nothing() {
    let project = release();
    let before = project.tree();
    let finished = project.fia(&["run", "release", "--dry-run", "write", "a"]);
    insta::assert_snapshot!(project.shown(&finished), @r"
    exit 0
    -- stdout
    release
      1  notes  scout on scripted rehearsal  report schemas/notes.json
      2  skipped  planner on scripted rehearsal  report plan  when notes.envelope.urgent
      3  build  builder on scripted rehearsal  report build, gates diff_matches_claims  when not notes.envelope.urgent
      4  tests  check test, fix builder on scripted rehearsal  test_1, then fix_i and test_i+1 while red, at most 3 fixes
      5  judge  reviewer on scripted rehearsal  report review  when tests.rounds > 1
    accepted when tests.passed and judge.envelope.approved

    agents, one session each
      builder  scripted rehearsal  build, fix_i  rotates at 180k  writes src/
      planner  scripted rehearsal  skipped  rotates at 180k  reads only
      scout  scripted rehearsal  notes  rotates at 180k  reads only
      reviewer  scripted rehearsal  judge  rotates at 180k  reads only

    checks
      test  sh test.sh  10 min

    limits
      fixes of a repair  3
      tokens of the run  30M
      tokens of a phase  8M
      cost of the run  no limit
      time of the run  no limit
      time of a phase  50 min
      silence of an engine  10 min
      wait for a plan limit  360 min
      paths changed  no limit
    -- stderr
    ");
    let plan = project.json(&["run", "release", "--dry-run", "--json", "write", "a"]);
    assert_eq!(plan["workflow"], "release");
    assert_eq!(project.tree(), before);
    assert_eq!(project.runs(), [""; 0]);
}

#[test]
fn r2_3_json_is_one_object_on_stdout_and_nothing_else() {
    let project = Project::new();
    let finished = project.fia(&["run", "build", "--json", "do", "it"]);
    let told: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!((finished.end().as_str(), finished.stderr.as_str()), ("exit 0", ""), "{finished}");
    assert_eq!(told["outcome"], "goal_met");
    assert_eq!(told, project.json(&["show", "--json"]));
}

#[test]
fn r2_4_quiet_shows_the_end_alone() {
    let project = Project::new();
    let finished = project.fia(&["run", "build", "-q", "do", "it"]);
    insta::assert_snapshot!(project.shown(&finished), @r"
    exit 0
    -- stdout
    -- stderr

    ✓ goal met in SPAN  nothing committed
      tokens 825 (0% cache reads)  cost <$0.01
      fia report  fia report --svg context.svg
    ");
}

#[test]
fn r2_4_a_run_that_did_not_meet_its_goal_says_why_and_how_to_go_on() {
    let project = Project::new()
        .script("phases: { build: [{ answer: { status: fail, summary: the disk is made of cheese } }] }\n");
    let finished = project.fia(&["run", "build", "-q", "do", "it"]);
    assert_eq!(finished.end(), "exit 1");
    let id = project.runs().pop().unwrap();
    assert!(finished.stderr.contains(&id) && finished.stderr.contains("the disk is made of cheese"), "{finished}");
    assert!(finished.stderr.contains("next:  fia "), "{finished}");
}

#[test]
fn the_prompt_comes_from_words_from_a_file_or_from_stdin() {
    let project = Project::new().file("brief.md", "from a\nfile\n");
    let asked = |id: &str, prompt: &[&str], stdin: &str| {
        let args = [&["run", "build", "-q", "--run", id], prompt].concat();
        let finished = Running::start(&mut project.command(&args), stdin).finish();
        assert_eq!(finished.end(), "exit 0", "{finished}");
        project.json(&["show", id, "--json"])["prompt"].as_str().unwrap().to_owned()
    };
    assert_eq!(asked("one", &["from", "words"], ""), "from words");
    assert_eq!(asked("two", &["-f", "brief.md"], ""), "from a\nfile\n");
    assert_eq!(asked("three", &["-f", "-"], "from\nstdin"), "from\nstdin");
}

#[test]
fn another_engine_is_chosen_by_a_flag() {
    let project = Project::new().config("agents: [{ name: builder, coding_agent: pi, model: a/b }]\n");
    let finished = project.fia(&["run", "build", "-q", "--use", "builder=scripted:toy@high", "do", "it"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    let log = project.log();
    let start = log.start("01_build");
    assert_eq!(
        (start.engine.as_str(), start.model.as_str(), start.level.as_deref()),
        ("scripted", "toy", Some("high"))
    );
}

#[test]
fn a_run_does_not_notice_that_nobody_reads_what_it_prints() {
    let project = Project::new();
    for args in [&["run", "build", "do", "it"][..], &["run", "build", "--json", "do", "it"]] {
        let mut command = project.command(args);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        drop(child.stderr.take());
        assert!(program::wait(&mut child).success(), "{args:?}");
    }
    assert_eq!(project.log().outcome().as_str(), "goal_met");
}

#[test]
fn r10_7_ctrl_c_ends_the_turn_and_says_so() {
    let project = Project::new().script("phases: { build: [{ hang: true }] }\n");
    let running = project.start(&["run", "build", "do", "it"]);
    project.wait_for(&running, "agent_start");
    running.signal(rustix::process::Signal::INT);
    let finished = running.finish();
    assert_eq!(finished.end(), "exit 130", "{finished}");
    assert_eq!(project.log().outcome().as_str(), "aborted");
    assert!(finished.stderr.contains("next:  fia "), "{finished}");
}

#[cfg(target_os = "linux")]
#[test]
fn r2_4_a_terminal_shows_a_live_block_and_no_color_takes_its_colours_away() {
    let colour = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    // The agent works until the block was seen.
    let waits = "phases: { build: [{ do: [{ run: 'until [ -e ../seen ]; do sleep 0.01; done' }] }] }\n";
    let on_terminal = |environment: &str| {
        let project = Project::new().script(waits);
        let line = format!("stty cols 100 rows 30; {environment} fia run build do it");
        let mut terminal = super::asking::Terminal::start(&project, &line)?;
        terminal.wait_until("a live block", |seen| {
            let seen = colour.replace_all(seen, "");
            seen.contains("▶ 01 build") && seen.contains("context")
        });
        project.env().write("../seen", "");
        let (status, text) = terminal.end();
        assert_eq!(status, 0, "{text}");
        assert!(text.contains("goal met"), "{text}");
        Some(text)
    };
    let (Some(coloured), Some(plain)) = (on_terminal(""), on_terminal("NO_COLOR=1")) else { return };
    assert!(colour.is_match(&coloured), "{coloured:?}");
    assert!(!colour.is_match(&plain), "{plain:?}");
    assert!(plain.contains("\u{1b}["), "it moves the cursor: {plain:?}");
}

#[test]
fn r2_3_there_is_no_colour_and_no_live_block_off_a_terminal() {
    let project = Project::new();
    let finished = project.fia(&["run", "build", "do", "it"]);
    for args in [&["show"][..], &["runs"], &["phases"], &["agents"], &["events"], &["workflows"]] {
        let shown = program::run(&mut project.command(args));
        assert!(!shown.stdout.contains('\u{1b}') && shown.stdout.len() > 20, "{shown}");
    }
    assert!(!finished.stderr.contains('\u{1b}'), "{finished}");
}

#[test]
fn r10_8_an_engine_is_given_the_environment_with_what_env_sets_and_unsets() {
    let project = Project::new()
        .config(
            "defaults: { coding_agent: scripted, model: rehearsal }\n\
             engines: { scripted: { script: rehearsal.yaml, env: { SET: given, UNSET: null } } }\n",
        )
        .script("phases: { '*': [{ do: [{ run: 'echo ${SET-none} ${UNSET-none} ${KEPT-none} > seen' }] }] }\n")
        .committed();
    let mut command = project.command(&["run", "prompt", "x", "-q"]);
    command.env("UNSET", "of the caller").env("KEPT", "kept");
    let finished = program::run(&mut command);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert_eq!(project.env().read("seen"), "given none kept\n");
}

#[test]
fn a_dash_in_place_of_the_prompt_reads_it_from_standard_input() {
    let project = Project::new();
    let piped = |args: &[&str], text: &str| Running::start(&mut project.command(args), text).finish();
    let finished = piped(&["run", "build", "-", "-q"], "add a route\nand its test\n");
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert!(project.log().prompt("builder", "01_build", 1, 1).contains("add a route\nand its test"));
    for args in [&["run", "build", "-"][..], &["run", "build", "-f", "-"]] {
        let refused = piped(args, " \n");
        assert_eq!(refused.end(), "exit 2", "{refused}");
        assert!(refused.stderr.starts_with("error: the prompt in standard input is empty\n"), "{refused}");
    }
    assert_eq!(project.runs().len(), 1);
    // Among other words it is a word.
    let both = project.fia(&["run", "build", "-q", "-", "words"]);
    assert_eq!(both.end(), "exit 2", "{both}");
    assert!(
        both.stderr.starts_with("error: a prompt is read from standard input or given as words, not both\n"),
        "{both}"
    );
    assert_eq!(project.fia(&["run", "build", "-q", "--run", "zz", "a", "-", "b"]).end(), "exit 0");
    assert!(project.log().prompt("builder", "01_build", 1, 1).contains("a - b"));
    assert!(project.fia(&["run", "--help"]).stdout.contains("`-` alone reads it from standard input"));
}
