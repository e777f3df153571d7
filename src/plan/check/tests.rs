use pretty_assertions::assert_eq;

use crate::config::ConfigError;
use crate::config::table::{FILE, Field, Shape};
use crate::config::tests::loaded_with;
use crate::plan::prompt::{UserValues, render_user};

const CARGO: (&str, &[u8]) = ("Cargo.toml", b"");

fn check(text: &str) -> Result<(), ConfigError> {
    super::config(&loaded_with(text, &[CARGO]).unwrap().config)
}

fn problems(steps: &str) -> Vec<String> {
    let text = format!("workflows:\n  w:\n    steps:\n{steps}");
    let result = check(&text);
    result.err().map_or_else(Vec::new, |error| error.problems.iter().map(ToString::to_string).collect())
}

#[test]
fn unknown_names_are_located_and_the_known_ones_named() {
    let steps = "      - { agent: bilder, output: biuld, gates: [artifacts_exst, test], input: tests }
      - { name: tests, repair: { check: [tests], fix: revewer } }
      - { name: save, commit: {}, when: test.passed }
";
    assert_eq!(
        problems(steps),
        [
            "fia.config.yaml:4:18 workflows.w.steps[0].agent: no agent is called `bilder`; there are planner, builder, scout, tester, reviewer, documenter; did you mean `builder`?",
            "fia.config.yaml:4:34 workflows.w.steps[0].output: no envelope type is called `biuld`; there are generic, plan, build, scout, review, document, verify, or a .json file; did you mean `build`?",
            "fia.config.yaml:4:49 workflows.w.steps[0].gates[0]: no gate or check is called `artifacts_exst`; there are artifacts_exist, files_non_empty, diff_matches_claims, verdict_consistent, test, lint; did you mean `artifacts_exist`?",
            "fia.config.yaml:4:79 workflows.w.steps[0].input: no earlier step is called `tests`; before it: none",
            "fia.config.yaml:5:42 workflows.w.steps[1].repair.check[0]: no check is called `tests`; `checks:` and the manifests at the top of the repository name test, lint; did you mean `test`?",
            "fia.config.yaml:5:55 workflows.w.steps[1].repair.fix: no agent is called `revewer`; there are planner, builder, scout, tester, reviewer, documenter; did you mean `reviewer`?",
            "fia.config.yaml:6:41 workflows.w.steps[2].when: no step is called `test`; steps before it: bilder, tests; did you mean `tests`?",
        ]
    );
}

#[test]
fn r4_1_accept_may_ask_every_step_and_nothing_else() {
    let text =
        |accept: &str| format!("workflows: {{w: {{steps: [{{agent: builder}}, {{commit: }}], accept: '{accept}'}}}}");
    assert!(check(&text("builder.passed and commit.passed")).is_ok());
    assert!(check(&text("builder.pased")).is_err());
    assert!(check(&text("tests.passed")).is_err());
}

#[test]
fn agents_of_parallel_are_distinct_and_may_not_write() {
    let steps = "      - parallel:\n        - { agent: scout }\n        - { name: again, agent: scout }\n        - { agent: builder }\n        - { agent: nobody }\n";
    let found = problems(steps);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(found[0].contains("`scout` works beside itself"));
    assert!(found[1].contains("`builder` may write"));
    assert!(found[2].contains("no agent is called `nobody`"));
}

#[test]
fn a_step_that_leaves_no_report_is_no_input() {
    let steps = "      - commit:\n      - { agent: builder, input: commit }\n";
    assert_eq!(problems(steps).len(), 1);
}

#[test]
fn a_step_inside_of_parallel_may_be_asked_for_afterwards_and_not_before() {
    let steps = "      - { name: both, parallel: [{ agent: scout }, { agent: planner }] }\n      - { agent: builder, when: scout.passed, input: scout }\n";
    assert_eq!(problems(steps), Vec::<String>::new());
    let inside = "      - { name: both, parallel: [{ agent: scout }, { agent: planner, input: scout }] }\n";
    assert_eq!(problems(inside).len(), 1);
}

#[test]
fn r3_5_templates_are_checked_with_their_own_file_and_line() {
    let text = "agents: [{name: a, prompt_engineering: {system: s.md, user: u.md}}]";
    let files: [(&str, &[u8]); 2] = [("s.md", b"x\n{{ previous_envelope }}"), ("u.md", b"{{ promt }}\n\n{{ x }}")];
    let error = super::config(&loaded_with(text, &files).unwrap().config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "3 problems\n  s.md:2:1 a system template has no `previous_envelope`; it has prompt, context_handoff_dir, run_id\n  u.md:1:1 a user template has no `promt`; it has prompt, previous_envelope, context_handoff_dir, run_id; did you mean `prompt`?\n  u.md:3:1 a user template has no `x`; it has prompt, previous_envelope, context_handoff_dir, run_id"
    );
}

#[test]
fn the_built_in_templates_are_in_order_with_and_without_a_report_before() {
    assert_eq!(check("agents: [{name: other}]"), Ok(()));
    let config = loaded_with("agents: [{name: other}]", &[]).unwrap().config;
    for name in ["other", "planner", "builder", "scout", "tester", "reviewer", "documenter"] {
        let render = |previous_envelope| {
            let values =
                UserValues { prompt: "THE PROMPT", previous_envelope, context_handoff_dir: "handoff", run_id: "r" };
            render_user(&config.prompts[name].user.text, values).unwrap()
        };
        let (first, later) = (render(""), render("2 tests failed"));
        assert!(first.contains("THE PROMPT") && first.contains("handoff") && !first.contains("left behind"), "{first}");
        assert!(later.contains("left behind") && later.contains("2 tests failed"), "{later}");
    }
}

/// Every key of a table and of the tables inside of it.
fn keys(fields: &'static [Field], found: &mut Vec<&'static str>) {
    for field in fields {
        let mut shape = &field.shape;
        found.push(field.key);
        while let Shape::List(inner) | Shape::Map(inner) | Shape::Named(inner) | Shape::ByEngine(inner) = shape {
            shape = inner;
        }
        if let Shape::Section(inner) | Shape::CamelSection(inner) = shape {
            keys(inner, found);
        }
    }
}

#[test]
fn the_config_of_this_repository_is_in_order_and_shows_every_key() {
    let text = include_str!("../../../fia.config.yaml");
    let loaded = loaded_with(text, &[]).unwrap();
    assert_eq!(loaded.warnings, []);
    assert_eq!(super::config(&loaded.config), Ok(()));
    let mut known = Vec::new();
    keys(FILE, &mut known);
    for key in known {
        let is_shown =
            text.match_indices(&format!("{key}:")).any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric));
        assert!(is_shown, "{key}");
    }
}

#[test]
fn the_config_of_this_repository_is_valid_under_its_schema() {
    let loaded = loaded_with(include_str!("../../../fia.config.yaml"), &[]).unwrap();
    let validator = jsonschema::validator_for(&crate::config::json_schema()).unwrap();
    let errors: Vec<_> = validator.iter_errors(&loaded.config.document.value).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
}

#[test]
fn the_limits_shown_are_the_defaults() {
    let config = loaded_with(include_str!("../../../fia.config.yaml"), &[]).unwrap().config;
    assert_eq!(crate::plan::build::stop(&config), crate::plan::Stop::default());
}
