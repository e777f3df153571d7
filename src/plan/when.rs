//! Conditions of steps: minijinja expressions over the steps before them.

use minijinja::{Environment, UndefinedBehavior};
use serde_json::Value;

/// A condition that cannot be evaluated.
#[derive(Debug, thiserror::Error)]
#[error("condition `{condition}` cannot be evaluated")]
pub struct ConditionError {
    /// The condition as written.
    pub condition: String,
    /// What minijinja says.
    #[source]
    pub source: minijinja::Error,
}

/// Evaluates a condition over steps by name.
///
/// # Errors
///
/// When it is no expression, or names what is not there.
pub fn holds(condition: &str, steps: &Value) -> Result<bool, ConditionError> {
    let failed = |source| ConditionError { condition: condition.to_owned(), source };
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    let expression = environment.compile_expression(condition).map_err(failed)?;
    Ok(expression.eval(minijinja::value::Serde(steps)).map_err(failed)?.is_true())
}
