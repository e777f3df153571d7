//! Keys in the environment that bill an API although a subscription may be logged in (SPEC 10.8).

use std::ffi::{OsStr, OsString};

use super::turn::TurnOrder;
use super::{Run, RunError};
use crate::engine::Facts;
use crate::event::{ApiKeyBilling, Event};
use crate::process::CommandSpec;

impl Run {
    /// Names the first billing key that an engine is given, once an engine.
    pub(super) fn name_billing(
        &self,
        asked: &TurnOrder<'_>,
        facts: &Facts,
        spec: &CommandSpec,
    ) -> Result<(), RunError> {
        let engine = asked.choice.engine;
        if self.with_state(|state| state.billing_named.contains(&engine)) {
            return Ok(());
        }
        let Some(variable) = facts.billing_keys.iter().find(|name| is_given(spec, name, std::env::var_os(name))) else {
            return Ok(());
        };
        let billing = ApiKeyBilling { engine, variable: (*variable).to_owned() };
        self.record(asked.phase, Event::ApiKeyBilling(billing))
    }
}

/// Whether a command gets a variable that is not empty: its own changes come before what it inherits.
fn is_given(spec: &CommandSpec, name: &str, inherited: Option<OsString>) -> bool {
    let value = spec.env.get(OsStr::new(name)).cloned().unwrap_or(inherited);
    value.is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r10_8_a_key_counts_when_the_engine_gets_it_and_not_when_it_is_taken_away_or_empty() {
        let plain = CommandSpec::new("engine", "/");
        let key = |value: &str| Some(OsString::from(value));
        assert!(is_given(&plain, "X_API_KEY", key("k")));
        assert!(!is_given(&plain, "X_API_KEY", None));
        assert!(!is_given(&plain, "X_API_KEY", key("")));
        assert!(!is_given(&plain.clone().unset("X_API_KEY"), "X_API_KEY", key("k")));
        assert!(is_given(&plain.set("X_API_KEY", "k"), "X_API_KEY", None));
    }
}
