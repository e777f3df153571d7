use pretty_assertions::assert_eq;

use super::*;
use crate::config::tests::loaded;

fn config(text: &str) -> Config {
    loaded(text).unwrap().config
}

fn problems(steps: &str) -> Vec<String> {
    let error = catalog(&config(&format!("workflows:\n  w:\n    steps:\n{steps}"))).unwrap_err();
    error.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn r4_2_the_built_in_workflows_are_there_and_a_name_of_the_config_replaces_one() {
    let config = config("workflows: {build: {steps: [{agent: scout}]}, mine: {description: own, steps: [{commit: }]}}");
    let workflows = catalog(&config).unwrap();
    let names: Vec<_> = workflows.iter().map(|workflow| workflow.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "prompt",
            "scout",
            "plan",
            "build",
            "document",
            "review",
            "quality",
            "build_test",
            "plan_build_test",
            "sdlc",
            "bug",
            "quick",
            "prototype",
            "mine"
        ]
    );
    let own: Vec<_> = workflows.iter().filter(|workflow| workflow.origin == Origin::Config).collect();
    assert_eq!(own.iter().map(|workflow| workflow.name.as_str()).collect::<Vec<_>>(), ["build", "mine"]);
    assert!(
        workflows
            .iter()
            .filter(|workflow| workflow.origin == Origin::BuiltIn)
            .all(|workflow| !workflow.description.is_empty())
    );
}

#[test]
fn a_step_is_of_exactly_one_kind_with_the_keys_of_that_kind() {
    let steps = "      - { name: nothing }
      - { name: two, agent: a, commit: {} }
      - { name: three, check: [x], gates: [y] }
      - { name: four, check: [x], red_pattern: y }
      - { name: five, check: [x], expect: red, red_pattern: '(' }
";
    let found = problems(steps);
    assert_eq!(found.len(), 5, "{found:#?}");
    assert_eq!(
        found[0],
        "fia.config.yaml:4:9 workflows.w.steps[0]: this step does nothing; it needs one of agent, check, repair, commit, approve, parallel"
    );
    assert_eq!(
        found[1],
        "fia.config.yaml:5:9 workflows.w.steps[1]: this step is agent and commit at once; make it several steps"
    );
    assert_eq!(found[2], "fia.config.yaml:6:43 workflows.w.steps[2].gates: `gates` is for `agent:` steps");
    assert!(found[3].contains("needs `expect: red`"));
    assert!(found[4].contains("no regular expression"));
}

#[test]
fn step_names_are_unique_and_default_to_agent_or_kind() {
    let steps = "      - { agent: builder }\n      - { agent: builder }\n      - { check: [a] }\n      - { name: check, check: [b] }\n      - { agent: doc-writer }\n";
    let found = problems(steps);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[0].contains("steps[1]: `builder` is the name of an earlier step"));
    assert!(found[1].contains("steps[3].name: `check` is the name of an earlier step"));
    assert!(found[2].contains("`doc-writer` cannot be the name of a step"));
}

#[test]
fn a_workflow_without_steps_is_a_problem() {
    assert_eq!(problems("      []\n"), ["fia.config.yaml:4:7 workflows.w.steps: no steps"]);
}

#[test]
fn approvals_wait_as_long_as_they_say() {
    let config = config(
        "workflows: {w: {steps: [{name: a, approve: }, {name: b, approve: {wait: 24h}}, {name: c, approve: {}, wait: never}]}}",
    );
    let kinds: Vec<_> = find(&config, "w").unwrap().steps.into_iter().map(|step| step.kind).collect();
    let approve = |wait| Kind::Approve { wait };
    let day = ApprovalWait::Seconds { secs: 86_400 };
    assert_eq!(kinds, [approve(ApprovalWait::NotAtAll), approve(day), approve(ApprovalWait::Forever)]);
}

#[test]
fn an_unknown_workflow_is_answered_with_the_known_ones() {
    let error = find(&config(""), "biuld").unwrap_err().to_string();
    assert!(error.contains("no workflow is called `biuld`; there are prompt, scout"), "{error}");
}

#[test]
fn a_workflow_prints_its_own_lines() {
    let text =
        "workflows:\n  a:\n    steps:\n\n      - commit:\n  # of b\n  b: { steps: [{ agent: scout }] }\nstop: {}\n";
    let config = config(text);
    assert_eq!(find(&config, "a").unwrap().source(), "  a:\n    steps:\n\n      - commit:\n");
    assert_eq!(find(&config, "b").unwrap().source(), "  b: { steps: [{ agent: scout }] }\n");
    assert!(find(&config, "sdlc").unwrap().source().starts_with("workflows:\n  sdlc:\n"));
}
