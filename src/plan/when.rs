//! Conditions: `when` of a step and `accept` of a workflow, expressions over steps by their names.
//!
//! A step is seen by its `status`, `passed`, `rounds` and `envelope.*`. What is not there yet, such as the
//! envelope of a step that was passed over, is undefined and counts as false. Names are checked before a run.

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde_json::{Map, Value, json};

use crate::config::did_you_mean;

/// What a condition can ask of a step.
pub const ATTRIBUTES: [&str; 4] = ["status", "passed", "rounds", "envelope"];

/// A condition that could not be decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot decide `{expression}`: {reason}")]
pub struct WhenError {
    /// The condition.
    expression: String,
    /// What is wrong with it.
    reason: String,
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment
}

/// Decides a condition over `steps`: name -> `{status, passed, rounds, envelope}`.
///
/// The answer is the truth of the expression's value, as in any template: empty and undefined are false.
///
/// # Errors
///
/// The expression cannot be read, or compares what cannot be compared.
pub fn evaluate(expression: &str, steps: &Map<String, Value>) -> Result<bool, WhenError> {
    let environment = environment();
    let fail = |error: minijinja::Error| WhenError { expression: expression.to_owned(), reason: reason(&error) };
    let compiled = environment.compile_expression(expression).map_err(fail)?;
    compiled.eval(Serde(steps)).map(|value| value.is_true()).map_err(fail)
}

/// Checks a condition against the steps that it may ask for and those that only run later; one message a flaw.
pub(crate) fn check(expression: &str, earlier: &[&str], later: &[&str]) -> Vec<String> {
    let environment = environment();
    let compiled = match environment.compile_expression(expression) {
        Ok(compiled) => compiled,
        Err(error) => return vec![format!("cannot read the expression: {}", reason(&error))],
    };
    let mut names: Vec<_> = compiled.undeclared_variables(true).into_iter().collect();
    names.sort();
    let mut flaws: Vec<_> = names.iter().filter_map(|name| flaw(name, earlier, later)).collect();
    if flaws.is_empty() {
        flaws.extend(trial(&compiled, earlier));
    }
    flaws
}

fn flaw(name: &str, earlier: &[&str], later: &[&str]) -> Option<String> {
    let mut parts = name.split('.');
    let step = parts.next().unwrap_or_default();
    if !earlier.contains(&step) {
        if later.contains(&step) {
            return Some(format!("`{step}` has not run by then"));
        }
        let near = did_you_mean(step, earlier.iter().copied());
        return Some(format!("no step is called `{step}`; steps before it: {}{near}", list(earlier)));
    }
    match parts.next() {
        None => Some(format!("`{step}` alone is no condition; ask for {}", ask(step))),
        Some(attribute) if ATTRIBUTES.contains(&attribute) => None,
        Some(attribute) => {
            let near = did_you_mean(attribute, ATTRIBUTES);
            Some(format!("a step has no `{attribute}`; ask for {}{near}", ask(step)))
        }
    }
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn ask(step: &str) -> String {
    ATTRIBUTES.map(|attribute| format!("{step}.{attribute}")).join(", ")
}

/// Filters, tests and functions are only looked up when they are used, so the expression is tried once.
fn trial(compiled: &minijinja::Expression<'_, '_>, earlier: &[&str]) -> Option<String> {
    let step = json!({ "status": "success", "passed": true, "rounds": 1, "envelope": {} });
    let steps: Map<String, Value> = earlier.iter().map(|name| ((*name).to_owned(), step.clone())).collect();
    let error = compiled.eval(Serde(steps)).err()?;
    let is_unknown =
        matches!(error.kind(), ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownFunction);
    is_unknown.then(|| reason(&error))
}

/// What minijinja says, less its own line numbers, which mean nothing in a file of several expressions.
fn reason(error: &minijinja::Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Map<String, Value> {
        let steps = json!({
            "tests": { "status": "success", "passed": true, "rounds": 2, "envelope": null },
            "review": { "status": "success", "passed": null, "rounds": 0, "envelope": { "approved": false, "blocking": ["x"] } },
            "skipped": { "status": "skipped", "passed": null, "rounds": 0, "envelope": null },
        });
        steps.as_object().unwrap().clone()
    }

    #[test]
    fn r4_1_conditions_are_decided_over_steps() {
        for (expression, expected) in [
            ("tests.passed", true),
            ("tests.passed and review.envelope.approved", false),
            ("tests.passed and not review.envelope.approved", true),
            ("tests.rounds > 1", true),
            ("tests.status == 'success'", true),
            ("review.envelope.blocking | length == 1", true),
            ("review.envelope.blocking", true),
            ("skipped.envelope.approved", false),
            ("tests.envelope.deep.down", false),
            ("skipped.passed or tests.passed", true),
        ] {
            assert_eq!(evaluate(expression, &steps()), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn r4_1_unknown_names_are_found_before_a_run() {
        let check = |expression: &str| check(expression, &["build", "tests"], &["review"]);
        assert_eq!(check("tests.passed and build.envelope.x.y"), Vec::<String>::new());
        assert_eq!(
            check("test.passed"),
            ["no step is called `test`; steps before it: build, tests; did you mean `tests`?"]
        );
        assert_eq!(check("review.passed"), ["`review` has not run by then"]);
        assert_eq!(
            check("tests.pased"),
            [
                "a step has no `pased`; ask for tests.status, tests.passed, tests.rounds, tests.envelope; did you mean `passed`?"
            ]
        );
        assert_eq!(check("tests").len(), 1);
        assert_eq!(check("x.passed or y.passed").len(), 2);
        assert_eq!(check("tests.passed and").len(), 1);
        assert_eq!(check("").len(), 1);
    }

    #[test]
    fn unknown_filters_are_found_before_a_run() {
        assert_eq!(check("tests.envelope | nofilter", &["tests"], &[]).len(), 1);
        assert_eq!(check("tests.rounds is notest", &["tests"], &[]).len(), 1);
        assert_eq!(check("nofunction()", &["tests"], &[]).len(), 1);
        assert_eq!(check("tests.envelope.findings | length > 0", &["tests"], &[]), Vec::<String>::new());
    }

    #[test]
    fn what_cannot_be_compared_is_an_error() {
        assert!(evaluate("tests.status < ", &steps()).is_err());
        assert!(evaluate("tests.status + 1", &steps()).is_err());
    }
}
