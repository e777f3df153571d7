//! What the user wrote: `fia.config.yaml`, checked as a whole, laid over what ships.
//!
//! A [`Config`] holds every value in force in the shape of the file, each with its origin, and the prompts
//! and schemas that the file names. All problems of a file are reported at once, each with its place, key
//! and the nearest name that exists. Limits degrade to their defaults with a warning; permissions never
//! widen: what is not clearly a pattern is an error. What names mean across sections (an agent that a
//! workflow uses, a step that a condition asks for) is decided by [`crate::plan`].

mod advice;
mod builtin;
mod check;
mod choice;
pub(crate) mod document;
mod files;
mod findings;
mod found;
mod layer;
mod limit;
mod load;
pub(crate) mod pointer;
mod problem;
mod scalar;
mod schema;
mod show;
mod starter;
pub(crate) mod table;
pub(crate) mod value;
mod yaml;

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use advice::{Facts, advise};
pub use choice::Choice;
pub(crate) use choice::level_fits;
pub(crate) use files::{is_schema_file, read_text};
pub use load::{FILE_NAME, Loaded, Surroundings, data_dir, find, load, load_what_holds, misnamed, misnamed_problem};
pub(crate) use problem::did_you_mean;
pub use problem::{ConfigError, Problem, Warning};
pub use schema::json_schema;
pub use starter::{Starter, taken_over};
pub use yaml::Mark;

use document::Document;
use layer::Layers;

/// A checked configuration with every value in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file as written; without content when there is none.
    pub(crate) document: Document,
    layers: Layers,
    /// System and user prompt by agent.
    pub(crate) prompts: BTreeMap<String, Prompts>,
    /// JSON Schemas that workflows of the file name, by the path as written.
    pub(crate) schemas: IndexMap<String, Value>,
    /// The file itself and the prompts and schemas it names, relative to the top of the work tree.
    pub(crate) judge_files: Vec<String>,
    /// Pointers of keys that are accepted and not acted on.
    not_served: Vec<String>,
}

/// The prompt templates of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompts {
    pub(crate) system: Template,
    pub(crate) user: Template,
}

/// A prompt template and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) text: String,
    /// The file as shown.
    pub(crate) file: String,
}

impl Config {
    /// The value at a JSON pointer in the shape of the file, in the type that the table promises.
    ///
    /// Everything in force was checked, so the only way to fail is to ask for another type; the default
    /// of `T` answers then, and where there is no value.
    pub(crate) fn at<T: DeserializeOwned + Default>(&self, pointer: &str) -> T {
        self.layers.get(pointer).cloned().and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
    }

    /// The agents in force, in roster order, in the shape of the file.
    pub(crate) fn agents(&self) -> &[Value] {
        self.layers.get("/agents").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Names of the agents in force.
    pub(crate) fn agent_names(&self) -> impl Iterator<Item = &str> {
        self.agents().iter().filter_map(|agent| agent["name"].as_str())
    }

    /// Names of the checks in force.
    pub(crate) fn check_names(&self) -> Vec<String> {
        let checks = self.layers.get("/checks").and_then(Value::as_object);
        checks.into_iter().flat_map(serde_json::Map::keys).cloned().collect()
    }

    /// Whether an agent may write at all; one that is not there may not.
    pub(crate) fn may_write(&self, agent: &str) -> bool {
        let agent = self.agents().iter().find(|known| known["name"] == agent);
        agent.is_some_and(|agent| agent["writes"].as_array().is_none_or(|writes| !writes.is_empty()))
    }

    /// Where runs are kept, relative to the top of the work tree unless absolute.
    pub fn data_dir(&self) -> String {
        self.at("/defaults/data_dir")
    }

    /// Whom to tell what, and when.
    pub fn notify(&self) -> Notify {
        self.at("/notify")
    }
}

/// The `notify` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
pub struct Notify {
    /// Whether anything is sent.
    pub enabled: bool,
    /// What is worth a message: `run_end`, `gate_block`, `waiting`, `approval`.
    pub events: Vec<String>,
    /// Where messages go.
    pub targets: Vec<Webhook>,
}

/// A webhook. Its address may hold a secret and is never shown.
#[derive(Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Webhook {
    /// `https://…`, or `http://` on this machine.
    pub url: String,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Webhook")
    }
}

/// Whether `pattern`, in which `*` stands for any run of characters, is the whole of `text`.
pub(crate) fn wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
pub(crate) mod tests;
