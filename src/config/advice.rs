//! What `config check` finds odd (SPEC 3.6): settings that are allowed and do nothing, or cost.

use serde_json::Value;

use super::pointer::shown;
use super::problem::Warning;
use super::{Config, level_fits, wildcard};
use crate::ids::EngineName;

/// What is known of engines and models outside of the config.
pub trait Facts {
    /// Whether the program of an engine is there.
    fn is_installed(&self, engine: EngineName) -> bool;
    /// Whether an engine reports how full its sessions are.
    fn reports_usage(&self, engine: EngineName) -> bool;
    /// Tokens that fit a model, if known.
    fn window(&self, engine: EngineName, model: &str) -> Option<u64>;
    /// Live context at which the engine compacts by itself, in tokens, if it does.
    fn compacts_at(&self, engine: EngineName, model: &str) -> Option<u64>;
}

/// Looks at every agent in force; keys that are not acted on are named once.
pub fn advise(config: &Config, facts: &dyn Facts) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(first) = config.not_served.first() {
        let keys: Vec<_> = config.not_served.iter().map(|at| shown(at)).collect();
        warnings.push(Warning(config.document.problem(first, format!("not acted on: {}", keys.join(", ")))));
    }
    warnings.extend(idle(config, facts));
    for (index, agent) in config.agents().iter().enumerate() {
        let about = Advice { config, facts, agent, at: format!("/agents/{index}") };
        warnings.extend(about.ceiling());
        warnings.extend(about.level());
        warnings.extend(about.overrides());
        warnings.extend(about.fallbacks());
    }
    warnings
}

/// Agents for whom nothing is there: neither their engine nor a fallback. Often all of them, so it is said once.
fn idle(config: &Config, facts: &dyn Facts) -> Option<Warning> {
    let engines = |agent: &Value| -> Vec<EngineName> {
        let fallbacks = agent["fallbacks"].as_array().map_or(&[][..], Vec::as_slice);
        std::iter::once(agent).chain(fallbacks).filter_map(engine_of).collect()
    };
    let is_idle = |agent: &&Value| !engines(agent).into_iter().any(|engine| facts.is_installed(engine));
    let idle: Vec<&Value> = config.agents().iter().filter(is_idle).collect();
    let first = idle.first()?;
    let mut missing: Vec<&str> = idle.iter().flat_map(|agent| engines(agent)).map(EngineName::as_str).collect();
    missing.sort_unstable();
    missing.dedup();
    let verb = if missing.len() == 1 { "is" } else { "are" };
    let names: Vec<_> = idle.iter().filter_map(|agent| agent["name"].as_str()).collect();
    let who = if idle.len() == config.agents().len() {
        "no agent can work".to_owned()
    } else {
        format!("{} cannot work", names.join(", "))
    };
    let index = config.agents().iter().position(|agent| agent == *first).unwrap_or(0);
    let message = format!("{} {verb} not installed, so {who}", missing.join(", "));
    Some(Warning(config.document.problem(&format!("/agents/{index}/coding_agent"), message)))
}

struct Advice<'a> {
    config: &'a Config,
    facts: &'a dyn Facts,
    agent: &'a Value,
    at: String,
}

impl Advice<'_> {
    fn warning(&self, key: &str, message: &str) -> Warning {
        let name = self.agent["name"].as_str().unwrap_or_default();
        Warning(self.config.document.problem(&format!("{}/{key}", self.at), format!("{name}: {message}")))
    }

    /// A ceiling that can never be reached.
    fn ceiling(&self) -> Option<Warning> {
        let ceiling = self.agent["session_rotation_context"].as_u64().filter(|ceiling| *ceiling > 0)?;
        let engine = engine_of(self.agent)?;
        let model = self.agent["model"].as_str().unwrap_or_default();
        let key = "session_rotation_context";
        if !self.facts.reports_usage(engine) {
            return Some(self.warning(key, &format!("{engine} does not report usage, so this agent never rotates")));
        }
        if let Some(window) =
            self.config.window(model).or_else(|| self.facts.window(engine, model)).filter(|w| *w < ceiling)
        {
            let message =
                format!("the ceiling of {ceiling} tokens is above the model's window of {window} and never fires");
            return Some(self.warning(key, &message));
        }
        let point = self.facts.compacts_at(engine, model).filter(|point| *point <= ceiling)?;
        Some(self.warning(key, &format!("{engine} compacts at {point} tokens, before the ceiling of {ceiling} fires")))
    }

    /// A word for how hard to think that the engine does not know.
    fn level(&self) -> Option<Warning> {
        let engine = engine_of(self.agent)?;
        let words = ["effort", "thinking"].map(|key| Some((key, self.agent[key].as_str()?)));
        let mut words = words.into_iter().flatten().peekable();
        let (key, word) = words.peek().copied()?;
        if words.any(|(_, word)| level_fits(engine, word)) {
            return None;
        }
        Some(self.warning(key, &format!("{engine} has no level `{word}`, so it uses its own default")))
    }

    /// A level that changes inside of a session.
    fn overrides(&self) -> Option<Warning> {
        self.agent["phase_overrides"].as_object().filter(|overrides| !overrides.is_empty())?;
        let message = "its phases share one session, whose context is written again at each change of level";
        Some(self.warning("phase_overrides", message))
    }

    fn fallbacks(&self) -> Vec<Warning> {
        let fallbacks = self.agent["fallbacks"].as_array().map_or(&[][..], Vec::as_slice);
        let missing = fallbacks.iter().enumerate().filter_map(|(index, fallback)| Some((index, engine_of(fallback)?)));
        missing
            .filter(|(_, engine)| !self.facts.is_installed(*engine))
            .map(|(index, engine)| self.warning(&format!("fallbacks/{index}"), &format!("{engine} is not installed")))
            .collect()
    }
}

fn engine_of(value: &Value) -> Option<EngineName> {
    value["coding_agent"].as_str().and_then(EngineName::parse)
}

impl Config {
    /// The window of a model as configured, in tokens: exact name first, then the first wildcard.
    pub fn window(&self, model: &str) -> Option<u64> {
        let models = self.layers.get("/models")?.as_object()?;
        let wild = || models.iter().find(|(pattern, _)| wildcard(pattern, model)).map(|(_, entry)| entry);
        models.get(model).or_else(wild)?["context_window"].as_u64()
    }
}

#[cfg(test)]
mod tests;
