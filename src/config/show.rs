//! Every value in force with its origin, for people and programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Config;
use super::layer::Layers;
use super::pointer::{below, shown};
use super::problem::BUILT_IN;
use crate::visible;

/// What is shown in place of a value that may be a secret.
const HIDDEN: &str = "(set)";

impl Config {
    /// The configuration laid over values that parts beside it ship, in the shape of the file.
    #[must_use]
    pub fn over(mut self, shipped: &Value) -> Self {
        self.layers.under("", shipped);
        self
    }

    /// `{config, origins}`: the values in the shape of the file, and where each came from by JSON pointer.
    /// Variables of engines and addresses of webhooks may be secrets and are not shown.
    pub fn show(&self) -> Value {
        let layers = self.shown_layers();
        json!({ "config": layers.values, "origins": layers.origins })
    }

    /// The same as lines of `key = value`, each with its origin.
    pub fn show_text(&self) -> String {
        let layers = self.shown_layers();
        let mut rows = Vec::new();
        leaves(&layers.values, "", &mut rows);
        let row = |at: &str, value| visible::line(&format!("{} = {value}", shown(at))).into_owned();
        let rows: Vec<_> = rows.into_iter().map(|(at, value)| (row(&at, value), at)).collect();
        let width = rows.iter().map(|(row, _)| row.chars().count()).filter(|width| *width <= 72).max().unwrap_or(0);
        rows.into_iter().fold(String::new(), |mut text, (row, at)| {
            let _infallible = writeln!(text, "{row:width$}  # {}", visible::line(origin(&layers, &at)));
            text
        })
    }

    /// The layers with the prompts that ship named, and what may be a secret hidden.
    fn shown_layers(&self) -> Layers {
        let mut layers = self.layers.clone();
        for (index, name) in self.agent_names().enumerate() {
            for (key, nothing) in [("phase_overrides", json!({})), ("fallbacks", json!([]))] {
                let at = format!("/agents/{index}/{key}");
                if layers.get(&at).is_none() {
                    layers.set(&at, nothing, BUILT_IN.to_owned());
                }
            }
            let Some(prompts) = self.prompts.get(name) else { continue };
            for (key, template) in [("system", &prompts.system), ("user", &prompts.user)] {
                let at = format!("/agents/{index}/prompt_engineering/{key}");
                if layers.get(&at).is_none() {
                    layers.set(&at, json!(template.file), BUILT_IN.to_owned());
                }
            }
        }
        hide(&mut layers.values);
        layers
    }
}

/// Where the value at a pointer came from: its own origin, or that of the nearest value around it.
fn origin<'a>(layers: &'a Layers, pointer: &str) -> &'a str {
    let mut around = pointer;
    loop {
        if let Some(origin) = layers.origins.get(around) {
            return origin;
        }
        match around.rfind('/') {
            Some(end) => around = &around[..end],
            None => return BUILT_IN,
        }
    }
}

fn hide(config: &mut Value) {
    let engines = config.pointer_mut("/engines").and_then(Value::as_object_mut);
    for engine in engines.into_iter().flat_map(serde_json::Map::values_mut) {
        let variables = engine.get_mut("env").and_then(Value::as_object_mut);
        for value in variables.into_iter().flat_map(serde_json::Map::values_mut).filter(|value| !value.is_null()) {
            *value = json!(HIDDEN);
        }
    }
    for target in config.pointer_mut("/notify/targets").and_then(Value::as_array_mut).into_iter().flatten() {
        target["url"] = json!(HIDDEN);
    }
}

/// Agents and mappings are opened, every other value is one row.
fn leaves<'v>(value: &'v Value, at: &str, rows: &mut Vec<(String, &'v Value)>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                leaves(value, &below(at, key), rows);
            }
        }
        Value::Array(entries) if at == "/agents" => {
            for (index, entry) in entries.iter().enumerate() {
                leaves(entry, &format!("{at}/{index}"), rows);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            rows.push((at.to_owned(), value));
        }
    }
}
