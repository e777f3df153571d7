//! `--use [AGENT=]ENGINE[:MODEL[@LEVEL]]`: another engine for one run.

use std::str::FromStr;

use serde_json::json;

use super::pointer::below;
use super::problem::{ConfigError, Problem, did_you_mean};
use super::table::{EFFORTS, THINKING};
use super::{Config, value};
use crate::ids::EngineName;

/// One `--use`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The flag's value as written.
    text: String,
    agent: Option<String>,
    engine: EngineName,
    model: Option<String>,
    level: Option<String>,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A model may hold `=`, `:` and `@`; the first two separate left of it, the last one right of it.
        let (engine, model) = text.split_once(':').map_or((text, None), |(engine, model)| (engine, Some(model)));
        let (agent, engine) = engine.split_once('=').map_or((None, engine), |(agent, engine)| (Some(agent), engine));
        let (model, level) =
            match model.map(|model| model.rsplit_once('@').map_or((model, None), |(m, l)| (m, Some(l)))) {
                Some((model, level)) => (Some(model), level),
                None => (None, None),
            };
        if agent == Some("") || model == Some("") && level.is_none() || level == Some("") {
            return Err(format!("`{text}` has an empty part; the form is [AGENT=]ENGINE[:MODEL[@LEVEL]]"));
        }
        let engine = EngineName::parse(engine).ok_or_else(|| value::engine(engine).err().unwrap_or_default())?;
        if let Some(level) = level {
            check_level(engine, level)?;
        }
        Ok(Self {
            text: text.to_owned(),
            agent: agent.map(str::to_owned),
            engine,
            model: model.filter(|model| !model.is_empty()).map(str::to_owned),
            level: level.map(str::to_owned),
        })
    }
}

/// Whether an engine knows a word for how hard to think.
pub(crate) fn level_fits(engine: EngineName, level: &str) -> bool {
    match engine {
        EngineName::Claude => EFFORTS.contains(&level),
        EngineName::Pi => THINKING.contains(&level),
        EngineName::Cursor => false,
        EngineName::Scripted => EFFORTS.contains(&level) || THINKING.contains(&level),
    }
}

fn check_level(engine: EngineName, level: &str) -> Result<(), String> {
    if level_fits(engine, level) {
        return Ok(());
    }
    match engine {
        EngineName::Claude | EngineName::Scripted => Err(value::unknown_word(level, EFFORTS)),
        EngineName::Pi => Err(value::unknown_word(level, THINKING)),
        EngineName::Cursor => Err(format!("cursor has no levels, so not `{level}`")),
    }
}

impl Config {
    /// The configuration with these choices laid over it: first those for all agents, then those for one.
    ///
    /// Fallbacks stay, except for the scripted engine: a rehearsal must not spend.
    ///
    /// # Errors
    ///
    /// A choice for an agent that is not there.
    pub fn with_choices(mut self, choices: &[Choice]) -> Result<Self, ConfigError> {
        let names: Vec<String> = self.agent_names().map(str::to_owned).collect();
        let mut problems = Vec::new();
        let general = choices.iter().filter(|choice| choice.agent.is_none());
        for choice in general.chain(choices.iter().filter(|choice| choice.agent.is_some())) {
            let is_meant = |name: &String| choice.agent.as_ref().is_none_or(|agent| agent == name);
            if !names.iter().any(is_meant) {
                let agent = choice.agent.as_deref().unwrap_or_default();
                let near = did_you_mean(agent, names.iter().map(String::as_str));
                let message = format!("no agent is called `{agent}`; there are {}{near}", names.join(", "));
                problems.push(Problem::with(format!("--use {}", choice.text), message));
            }
            for index in (0..names.len()).filter(|index| is_meant(&names[*index])) {
                self.choose(&format!("/agents/{index}"), choice);
            }
        }
        ConfigError::unless_empty(problems)?;
        Ok(self)
    }

    fn choose(&mut self, at: &str, choice: &Choice) {
        let origin = format!("--use {}", choice.text);
        let engine = json!(choice.engine.as_str());
        // Model and level are words of their engine.
        let (same_engine, has_level) =
            (self.layers.get(&below(at, "coding_agent")) == Some(&engine), choice.level.is_some());
        for key in ["model", "effort", "thinking"] {
            if !same_engine || has_level && key != "model" {
                self.layers.remove(at, key);
            }
        }
        self.layers.set(&below(at, "coding_agent"), engine, origin.clone());
        if let Some(model) = &choice.model {
            self.layers.set(&below(at, "model"), json!(model), origin.clone());
        }
        if let Some(level) = &choice.level {
            let key = if choice.engine == EngineName::Pi { "thinking" } else { "effort" };
            self.layers.set(&below(at, key), json!(level), origin);
        }
        if choice.engine == EngineName::Scripted {
            self.layers.remove(at, "fallbacks");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (Option<String>, EngineName, Option<String>, Option<String>) {
        let choice: Choice = text.parse().unwrap();
        (choice.agent, choice.engine, choice.model, choice.level)
    }

    #[test]
    fn a_choice_is_read_from_left_and_right() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parts("scripted"), (None, EngineName::Scripted, None, None));
        assert_eq!(parts("claude_code:opus"), (None, EngineName::Claude, some("opus"), None));
        assert_eq!(
            parts("builder=pi:openai/gpt-5.6:beta@x@high"),
            (some("builder"), EngineName::Pi, some("openai/gpt-5.6:beta@x"), some("high"))
        );
        assert_eq!(parts("claude:@max"), (None, EngineName::Claude, None, some("max")));
        assert_eq!(parts("pi:a=b"), (None, EngineName::Pi, some("a=b"), None));
    }

    #[test]
    fn a_choice_that_says_nothing_or_something_unknown_is_refused() {
        for text in ["", "clade", "=pi", "pi:", "pi:m@", "pi:m@xhigh", "cursor:m@high"] {
            assert!(text.parse::<Choice>().is_err(), "{text}");
        }
    }
}
