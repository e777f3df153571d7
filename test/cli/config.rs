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
    insta::assert_snapshot!(project.shown(&finished), @"");
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
    insta::assert_snapshot!(project.shown(&finished), @"");
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
