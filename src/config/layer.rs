//! Layers, lowest first: what ships, what is found, `defaults:`, the agent, `--use`.
//!
//! The result has the shape of the file with every value in it, and knows of each where it came from.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::builtin;
use super::document::Document;
use super::pointer::{self, below};
use super::problem::BUILT_IN;
use super::table::{DEFAULT_CEILING, STOP, Shape};
use crate::ids::EngineName;

/// Every value in force, in the shape of the file, and its origin by JSON pointer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layers {
    pub(crate) values: Value,
    /// `built-in`, `FILE:LINE:COLUMN`, `defaults, FILE:LINE:COLUMN`, `found in FILE` or a flag.
    pub(crate) origins: IndexMap<String, String>,
}

/// Keys that an agent takes from `defaults:` one by one.
const INHERITED: &[&str] =
    &["tools", "harness_engineering", "session_rotation_context", "session_rotation", "rotate_mid_phase"];

impl Layers {
    /// Lays `file` over what ships. `engines` are those that are installed, `found` the checks that the
    /// repository suggests: name, command line and the file that suggested it.
    pub(crate) fn new(file: &Document, engines: &[EngineName], found: &[(&str, String, &str)]) -> Self {
        let shipped = builtin::layer();
        let mut layers = Self { values: json!({}), origins: IndexMap::new() };
        layers.lay("", &shipped.value, &|_| BUILT_IN.to_owned());
        if let Some(engine) = engines.first().filter(|_| !engines.contains(&EngineName::Claude)) {
            layers.set("/defaults/coding_agent", json!(engine.as_str()), "built-in, as it is installed".to_owned());
        }
        layers.set("/defaults/session_rotation_context", json!(DEFAULT_CEILING), BUILT_IN.to_owned());
        for field in STOP {
            if let Shape::Knob(knob) = &field.shape {
                layers.set(&below("/stop", field.key), knob.value(), BUILT_IN.to_owned());
            }
        }
        for (name, run, manifest) in found {
            let check = json!({ "run": run, "timeout_minutes": DEFAULT_CHECK_MINUTES });
            layers.lay(&below("/checks", name), &check, &|_| format!("found in {manifest}"));
        }
        layers.lay("", &file.value, &|at| place(file, at));
        for name in file.value["checks"].as_object().into_iter().flat_map(Map::keys) {
            let at = below(&below("/checks", name), "timeout_minutes");
            if pointer::at(&file.value, &at).is_none() {
                layers.set(&at, json!(DEFAULT_CHECK_MINUTES), BUILT_IN.to_owned());
            }
        }
        layers.agents(file, &shipped);
        layers
    }

    /// The value at `pointer`.
    pub(crate) fn get(&self, pointer: &str) -> Option<&Value> {
        pointer::at(&self.values, pointer)
    }

    /// Puts one value in, with its origin.
    pub(crate) fn set(&mut self, pointer: &str, value: Value, origin: String) {
        if self.get(pointer).is_some_and(Value::is_object) {
            let inside = format!("{pointer}/");
            self.origins.retain(|known, _| !known.starts_with(&inside));
        }
        self.origins.insert(pointer.to_owned(), origin);
        *slot(&mut self.values, pointer) = value;
    }

    /// Puts another form of a value in; its origin stays.
    pub(crate) fn replace(&mut self, pointer: &str, value: Value) {
        if let Some(slot) = self.values.pointer_mut(pointer) {
            *slot = value;
        }
    }

    /// Takes one value out.
    pub(crate) fn remove(&mut self, parent: &str, key: &str) {
        if let Some(map) = self.values.pointer_mut(parent).and_then(Value::as_object_mut) {
            map.shift_remove(key);
        }
        let at = below(parent, key);
        self.origins.retain(|known, _| *known != at && !known.starts_with(&format!("{at}/")));
    }

    /// Lays a tree over what is there: mappings merge, everything else replaces. Agents are layered by name, apart.
    fn lay(&mut self, at: &str, over: &Value, origin: &dyn Fn(&str) -> String) {
        match over.as_object() {
            Some(map) if !map.is_empty() => {
                for (key, value) in map.iter().filter(|(key, _)| !at.is_empty() || *key != "agents") {
                    self.lay(&below(at, key), value, origin);
                }
            }
            Some(_) if self.get(at).is_some() => {}
            Some(_) | None => self.set(at, over.clone(), origin(at)),
        }
    }

    /// Lays a tree under what is there: it fills what is missing. A workflow is a whole.
    pub(crate) fn under(&mut self, at: &str, tree: &Value) {
        match (self.get(at), tree.as_object()) {
            (Some(Value::Object(_)), Some(map)) if !at.starts_with("/workflows/") => {
                for (key, value) in map {
                    self.under(&below(at, key), value);
                }
            }
            (Some(_), _) => {}
            (None, _) => self.set(at, tree.clone(), BUILT_IN.to_owned()),
        }
    }

    /// The roster: the agents of the file in their order, then the built-in roles that it does not name.
    fn agents(&mut self, file: &Document, shipped: &Document) {
        let written = file.value["agents"].as_array().map_or(&[][..], Vec::as_slice);
        let roles = shipped.value["agents"].as_array().map_or(&[][..], Vec::as_slice);
        let unnamed = roles.iter().filter(|role| !written.iter().any(|agent| agent["name"] == role["name"]));
        let engine_is_set = file.value.pointer("/defaults/coding_agent").is_some();
        slot(&mut self.values, "/agents").clone_from(&json!([]));
        for (index, agent) in written.iter().chain(unnamed).enumerate() {
            let at = format!("/agents/{index}");
            let own = |pointer: &str| if index < written.len() { place(file, pointer) } else { BUILT_IN.to_owned() };
            self.agent(&at, agent, engine_is_set, &own);
        }
    }

    fn agent(&mut self, at: &str, agent: &Value, engine_is_set: bool, own: &dyn Fn(&str) -> String) {
        if let Some(agents) = self.values["agents"].as_array_mut() {
            agents.push(json!({}));
        }
        self.lay(at, agent, own);
        self.inherit(at, "coding_agent");
        // A model's name means nothing to another engine than the one it was written for.
        let same_engine = self.get(&below(at, "coding_agent")) == self.get("/defaults/coding_agent");
        if same_engine || !engine_is_set {
            self.inherit(at, "model");
            // Effort and thinking are one knob under two names.
            if agent.get("effort").is_none() && agent.get("thinking").is_none() {
                self.inherit(at, "effort");
                self.inherit(at, "thinking");
            }
        }
        for key in INHERITED {
            self.inherit(at, key);
        }
    }

    fn inherit(&mut self, at: &str, key: &str) {
        let (from, to) = (below("/defaults", key), below(at, key));
        if self.get(&to).is_some() {
            return;
        }
        if let Some(value) = self.get(&from).cloned() {
            let origin = self.origins.get(&from).map_or(BUILT_IN, String::as_str);
            let origin = if origin.starts_with(BUILT_IN) { origin.to_owned() } else { format!("defaults, {origin}") };
            self.set(&to, value, origin);
        }
    }
}

/// Minutes that a check may take, unless configured.
const DEFAULT_CHECK_MINUTES: f64 = 10.0;

fn place(file: &Document, pointer: &str) -> String {
    file.mark(pointer).map_or_else(|| file.file.clone(), |mark| format!("{}:{}:{}", file.file, mark.line, mark.column))
}

/// The place of `pointer` in `values`, made where it is not there.
fn slot<'v>(values: &'v mut Value, pointer: &str) -> &'v mut Value {
    pointer::segments(pointer).fold(values, |value, key| {
        if value.is_array() {
            let index = key.parse::<usize>().ok();
            return index.and_then(|index| value.get_mut(index)).expect("lists are laid whole, agents pushed first");
        }
        if !value.is_object() {
            *value = json!({});
        }
        value.as_object_mut().expect("made above").entry(key).or_insert(Value::Null)
    })
}
