//! `fia config`: what is wrong, what holds, and where it comes from.

use pretty_assertions::assert_eq;

use crate::support::project::Project;

#[test]
fn r3_2_every_problem_is_told_at_once_with_its_place_and_the_nearest_name() {
    let project = Project::new().config(
        "defaults:
  coding_agent: scripted
  sesion_rotation_context: 5
agents:
  - name: builder
    writes: ['']
workflows:
  mine:
    steps:
      - { name: build, agent: bilder, gates: [diff_matches_claim], when: 'tests.passed' }
      - { name: build, check: [tset] }
",
    );
    let finished = project.fia(&["config", "check"]);
    insta::assert_snapshot!(project.shown(&finished), @r"
    exit 2
    -- stdout
    -- stderr
    error: 7 problems in fia.config.yaml
      3:3  defaults: unknown key `sesion_rotation_context`; did you mean `session_rotation_context`?
      6:14  agents[0].writes[0]: empty entry; a pattern here would allow every path
      10:31 workflows.mine.steps[0].agent: no agent is called `bilder`; there are builder, planner, scout, tester, reviewer, documenter; did you mean `builder`?
      10:47 workflows.mine.steps[0].gates[0]: no gate or check is called `diff_matches_claim`; there are artifacts_exist, files_non_empty, diff_matches_claims, verdict_consistent; did you mean `diff_matches_claims`?
      10:74 workflows.mine.steps[0].when: no step is called `tests`; steps before it: none
      11:17 workflows.mine.steps[1].name: `build` is the name of an earlier step; give this one its own `name`
      11:32 workflows.mine.steps[1].check[0]: no check is called `tset`; `checks:` and the manifests at the top of the repository name none

    hint: `fia config schema` prints a JSON Schema for your editor
    ");
}

#[test]
fn names_that_mean_nothing_are_told_beside_keys_that_do_and_what_follows_from_another_problem_is_not() {
    let project = Project::new().config(
        "defaults: { coding_agent: scripted }
checks: { t: { runn: x } }
workflows:
  mine:
    steps:
      - { agent: bilder, output: bild, gates: [foo] }
      - { name: tests, chek: [t] }
      - { name: look, agent: scout, when: tests.passed }
",
    );
    for args in [&["config", "check"][..], &["run", "mine", "do it"], &["run", "build", "do it"]] {
        let finished = project.fia(args);
        insta::allow_duplicates! {
            insta::assert_snapshot!(project.shown(&finished), @r"
            exit 2
            -- stdout
            -- stderr
            error: 6 problems in fia.config.yaml
              2:14 checks.t: `run` is missing
              2:16 checks.t: unknown key `runn`; did you mean `run`?
              6:18 workflows.mine.steps[0].agent: no agent is called `bilder`; there are planner, builder, scout, tester, reviewer, documenter; did you mean `builder`?
              6:34 workflows.mine.steps[0].output: no envelope type is called `bild`; there are generic, plan, build, scout, review, document, verify, or a .json file; did you mean `build`?
              6:48 workflows.mine.steps[0].gates[0]: no gate or check is called `foo`; there are artifacts_exist, files_non_empty, diff_matches_claims, verdict_consistent, t
              7:24 workflows.mine.steps[1]: unknown key `chek`; did you mean `check`?

            hint: `fia config schema` prints a JSON Schema for your editor
            ");
        }
    }
    // Without a key that is wrong, steps of no kind and names are told together as well.
    let project = Project::new().with("workflows: { mine: { steps: [{ agent: bilder }, { name: nothing }] } }\n");
    for args in [&["config", "check"][..], &["run", "mine", "do it"]] {
        let finished = project.fia(args);
        assert!(finished.stderr.starts_with("error: 2 problems in "), "{finished}");
    }
}

#[test]
fn names_of_a_workflow_that_mean_nothing_are_told_at_once() {
    let project = Project::new().config(
        "defaults: { coding_agent: scripted }
checks: { test: { run: 'true' } }
workflows:
  mine:
    steps:
      - { name: build, agent: bilder, gates: [diff_matches_claim], when: 'tests.passed' }
      - { name: look, agent: scout, output: scuot, input: biuld }
      - { name: tests, check: [tset] }
    accept: 'tset.passed'
",
    );
    let finished = project.fia(&["config", "check"]);
    insta::assert_snapshot!(project.shown(&finished), @r"
    exit 2
    -- stdout
    -- stderr
    error: 7 problems in fia.config.yaml
      6:31 workflows.mine.steps[0].agent: no agent is called `bilder`; there are planner, builder, scout, tester, reviewer, documenter; did you mean `builder`?
      6:47 workflows.mine.steps[0].gates[0]: no gate or check is called `diff_matches_claim`; there are artifacts_exist, files_non_empty, diff_matches_claims, verdict_consistent, test; did you mean `diff_matches_claims`?
      6:74 workflows.mine.steps[0].when: `tests` has not run by then
      7:45 workflows.mine.steps[1].output: no envelope type is called `scuot`; there are generic, plan, build, scout, review, document, verify, or a .json file; did you mean `scout`?
      7:59 workflows.mine.steps[1].input: no earlier step is called `biuld`; before it: build; did you mean `build`?
      8:32 workflows.mine.steps[2].check[0]: no check is called `tset`; `checks:` and the manifests at the top of the repository name test; did you mean `test`?
      9:13 workflows.mine.accept: no step is called `tset`; steps before it: build, look, tests; did you mean `tests`?

    hint: `fia config schema` prints a JSON Schema for your editor
    ");
}

#[test]
fn r3_6_settings_that_do_nothing_are_told_and_end_nothing() {
    let project = Project::new().config(
        "defaults: { coding_agent: scripted }
qa: { any: thing }
agents: [{ name: builder, coding_agent: pi, model: a/b }]
",
    );
    let finished = project.fia(&["config", "check"]);
    assert_eq!(finished.end(), "exit 0", "{finished}");
    assert!(finished.stdout.contains("warning: fia.config.yaml:2:") && finished.stdout.contains("not acted on: qa"));
    assert!(finished.stdout.trim_end().ends_with("fia.config.yaml: ok"), "{finished}");
    assert_eq!(project.json(&["config", "check", "--json"])["ok"], true);
}

#[test]
fn r3_6_a_ceiling_above_the_window_or_the_compaction_of_its_model_is_told() {
    let told = |model: &str, ceiling: u64, engine: &str| {
        let project = Project::new().config(&format!(
            "defaults: {{ coding_agent: claude, model: {model}, session_rotation_context: {ceiling} }}\n\
             engines: {{ claude: {{ program: sh, {engine} }} }}\n"
        ));
        let finished = project.fia(&["config", "check"]);
        assert_eq!(finished.end(), "exit 0", "{finished}");
        let first = finished.stdout.lines().find(|line| line.contains("planner: ")).unwrap_or_default();
        first.split("planner: ").nth(1).unwrap_or_default().to_owned()
    };
    let above =
        |window| format!("the ceiling of 300000 tokens is above the model's window of {window} and never fires");
    let compacts = |point| format!("claude compacts at {point} tokens, before the ceiling of 300000 fires");
    assert_eq!(told("claude-sonnet-4-5", 300_000, ""), above(200_000));
    assert_eq!(told("claude-sonnet-4-5", 180_000, ""), "");
    assert_eq!(told("sonnet", 300_000, ""), "", "a million tokens fit into what claude calls sonnet");
    assert!(told("sonnet", 1_000_001, "").contains("window of 1000000"));
    assert_eq!(told("unheard-of", 300_000, ""), "");
    assert_eq!(told("sonnet", 300_000, "args: [--autocompact, '250000']"), compacts(250_000));
    assert_eq!(told("sonnet", 300_000, "args: [--autocompact=5]"), compacts(100_000));
    assert_eq!(told("sonnet", 300_000, "env: { CLAUDE_CODE_AUTO_COMPACT_WINDOW: 200000 }"), compacts(200_000));
    assert_eq!(told("sonnet", 300_000, "args: [--autocompact, '400000']"), "");
}

#[test]
fn r3_2_show_prints_each_value_with_its_origin() {
    let project = Project::new().config("defaults: { coding_agent: scripted, session_rotation_context: 7000 }\n");
    let shown = project.fia(&["config", "show"]).stdout;
    let line = shown.lines().find(|line| line.contains("session_rotation_context")).unwrap();
    assert!(line.contains("7000") && line.contains("fia.config.yaml:1"), "{line}");
    let json = project.json(&["config", "show", "--json"]);
    assert_eq!(json["config"]["defaults"]["session_rotation_context"], 7000);
    let origin = json["origins"]["/defaults/session_rotation_context"].as_str().unwrap();
    assert!(origin.contains("fia.config.yaml:1"), "{origin}");
}

#[test]
fn the_schema_for_editors_takes_the_example_that_ships() {
    let project = Project::new();
    let schema = project.json(&["config", "schema"]);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let example = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/fia.config.yaml"));
    let example: serde_json::Value = serde_saphyr::from_str(example).unwrap();
    let errors: Vec<_> = validator.iter_errors(&example).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0]);
}

#[test]
fn a_config_is_found_from_below_by_flag_and_by_variable() {
    let project = Project::new()
        .file("deep/er/file", "")
        .file("other.yaml", "defaults: { coding_agent: scripted, model: other }\n");
    let model = |command: &mut std::process::Command| {
        let finished = crate::support::program::run(command);
        let shown: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
        shown["config"]["defaults"]["model"].as_str().unwrap().to_owned()
    };
    let show = ["config", "show", "--json"];
    let below = project.env().work().join("deep/er");
    assert_eq!(model(project.command(&show).current_dir(below)), "rehearsal");
    assert_eq!(model(project.command(&show).env("FIA_CONFIG", "other.yaml")), "other");
    assert_eq!(model(&mut project.command(&["config", "show", "--json", "--config", "other.yaml"])), "other");
}
