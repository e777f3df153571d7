//! `--budget KEY=VALUE`: another limit of `stop:` for one stretch of a run.

use super::Config;
use super::pointer::below;
use super::problem::{ConfigError, Problem, did_you_mean};
use super::scalar::Scalar;
use super::table::STOP;
use super::value::{self, Reading};

impl Config {
    /// The configuration with these limits in place of those of `stop:`; a later one beats an earlier one.
    ///
    /// # Errors
    ///
    /// A text that is not `KEY=VALUE`, an unknown key, or a value that cannot be used: what degrades in a file
    /// is an error here, as someone has just typed it.
    pub fn with_limits<S: AsRef<str>>(mut self, limits: &[S]) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        for text in limits.iter().map(AsRef::as_ref) {
            let flag = format!("--budget {text}");
            if let Err(message) = self.limit(text, &flag) {
                problems.push(Problem::with(flag, message));
            }
        }
        ConfigError::unless_empty(problems)?;
        Ok(self)
    }

    fn limit(&mut self, text: &str, flag: &str) -> Result<(), String> {
        let (key, written) = text.split_once('=').ok_or("the form is KEY=VALUE, as in token_budget=5_000_000")?;
        let keys = || STOP.iter().map(|field| field.key);
        let field = STOP.iter().find(|field| field.key == key).ok_or_else(|| {
            let known: Vec<_> = keys().collect();
            format!("no limit is called `{key}`; there are {}{}", known.join(", "), did_you_mean(key, keys()))
        })?;
        match value::read(&field.shape, Scalar::read(written, true), written) {
            Reading::Taken(value) => {
                self.layers.set(&below("/stop", key), value, flag.to_owned());
                Ok(())
            }
            Reading::Degraded(knob) => Err(format!("`{written}` is no usable number of {}", knob.unit.as_str())),
            Reading::Adjusted(_, message) | Reading::Ignored(message) | Reading::Wrong(message) => Err(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use crate::config::tests::loaded;

    #[test]
    fn limits_of_a_flag_replace_those_of_the_file() {
        let config = loaded("stop: {token_budget: 5}").unwrap().config;
        let config = config.with_limits(&["token_budget=7_000", "budget_minutes=0.5"]).unwrap();
        let stop: serde_json::Value = config.at("/stop");
        assert_eq!((&stop["token_budget"], &stop["budget_minutes"]), (&7000.into(), &0.5.into()));
        assert_eq!(config.show()["origins"]["/stop/token_budget"], "--budget token_budget=7_000");
    }

    #[test]
    fn what_degrades_in_a_file_is_an_error_in_a_flag() {
        for text in [
            "token_budget",
            "tokenbudget=1",
            "token_budget=",
            "token_budget=-1",
            "token_budget=0.5",
            "token_budget=1e30",
            "cost_budget_usd=1e-400",
        ] {
            assert!(loaded("").unwrap().config.with_limits(&[text]).is_err(), "{text}");
        }
    }
}
