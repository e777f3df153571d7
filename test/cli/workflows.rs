//! `fia workflows`: what there is, and each as it can be copied into a configuration.

use pretty_assertions::assert_eq;

use crate::support::project::Project;

const BUILT_IN: [&str; 13] = [
    "bug",
    "build",
    "build_test",
    "document",
    "plan",
    "plan_build_test",
    "prompt",
    "prototype",
    "quality",
    "quick",
    "review",
    "scout",
    "sdlc",
];

/// Checks that every built-in workflow finds what it wants.
const CHECKS: &str = "checks: { test: { run: 'true' }, lint: { run: 'true' } }\n";

#[test]
fn r4_2_the_built_in_workflows_are_listed_and_own_ones_beside_them() {
    let project = Project::new().with("workflows: { mine: { description: only a look, steps: [{ agent: scout }] } }\n");
    let listed = project.json(&["workflows", "--json"]);
    let named = |origin: &str| {
        let rows = listed["workflows"].as_array().unwrap().iter().filter(|row| row["origin"] == origin);
        let mut names: Vec<_> = rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(named("built in"), BUILT_IN);
    assert_eq!(named("config"), ["mine"]);
    let text = project.fia(&["workflows"]).stdout;
    assert!(text.lines().any(|line| line.starts_with("mine") && line.contains("only a look")), "{text}");
}

#[test]
fn r4_2_every_built_in_workflow_is_printed_as_it_could_stand_in_a_configuration() {
    for name in BUILT_IN {
        let project = Project::new();
        let printed = project.fia(&["workflows", name]).stdout;
        let copied = printed.replacen(&format!("  {name}:"), "  copied:", 1);
        let project = project.with(&format!("{CHECKS}{copied}"));
        let finished = project.fia(&["run", "copied", "--dry-run", "do", "it"]);
        assert_eq!(finished.end(), "exit 0", "{name}: {finished}");
    }
}

#[test]
fn r4_2_every_built_in_workflow_can_be_rehearsed() {
    for name in BUILT_IN {
        let project = Project::new().with(CHECKS).script("phases: {}\n").committed();
        let finished = project.fia(&["run", name, "-q", "do", "it"]);
        // The new test of `bug` is never red here, so that one is not accepted.
        let status = if name == "bug" { "exit 1" } else { "exit 0" };
        assert_eq!(finished.end(), status, "{name}: {finished}");
    }
}

#[test]
fn an_unknown_workflow_is_an_error_with_the_nearest_name() {
    let project = Project::new();
    let finished = project.fia(&["workflows", "biuld"]);
    insta::assert_snapshot!(project.shown(&finished), @r"
    exit 2
    -- stdout
    -- stderr
    error: 1 problem in the command line
      no workflow is called `biuld`; there are prompt, scout, plan, build, document, review, quality, build_test, plan_build_test, sdlc, bug, quick, prototype; did you mean `build`?

    hint: `fia workflows` lists the workflows, `fia run --help` the arguments
    ");
}
