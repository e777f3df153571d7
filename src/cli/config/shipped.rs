//! What holds where the configuration says nothing, in its shape, as far as parts beside it decide that.

use serde_json::{Map, Value, json};

use crate::cli::report::CliError;
use crate::config::Config;
use crate::economy::prices;
use crate::engine;
use crate::ids::EngineName;
use crate::prune::settings::{Mode, Settings};
use crate::workflow::{self, Origin};

/// Values of engines, models, pruning and workflows that a configuration is laid over.
pub(super) fn shipped(config: &Config) -> Result<Value, CliError> {
    let engines = EngineName::ALL.iter().map(|name| (name.as_str().to_owned(), engine(*name)));
    let models = prices::built_in()
        .map(|model| (model.pattern.clone(), json!({ "prices": model.prices, "as_of": model.as_of })));
    let workflows = workflow::catalog(config)?;
    let workflows = workflows.iter().filter(|workflow| workflow.origin == Origin::BuiltIn);
    let workflows = workflows.map(|workflow| (workflow.name.clone(), workflow.written().clone()));
    let mode = Mode::parse(&config.at::<String>("/context_pruning/mode")).unwrap_or(Mode::CacheTtl);
    Ok(json!({
        "checks": {},
        "engines": engines.collect::<Map<_, _>>(),
        "models": models.collect::<Map<_, _>>(),
        "context_pruning": Settings::of(mode).section(),
        "workflows": workflows.collect::<Map<_, _>>(),
    }))
}

fn engine(name: EngineName) -> Value {
    let facts = engine::for_name(name).facts();
    let mut settings = json!({ "program": facts.programs[0], "args": [], "env": {} });
    if let Some(mode) = facts.permission_mode {
        settings["permission_mode"] = json!(mode);
    }
    settings
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::table::{self, Field, Shape};
    use crate::config::{Surroundings, load};

    /// Keys that hold nothing unless they are written; `*` is an agent, an engine or a model.
    const WITHOUT_DEFAULT: [&str; 10] = [
        "/defaults/model",
        "/defaults/effort",
        "/defaults/thinking",
        "/agents/*/model",
        "/agents/*/effort",
        "/agents/*/thinking",
        "/agents/*/writes",
        "/engines/*/permission_mode",
        "/engines/*/script",
        "/models/*/context_window",
    ];

    /// The pointer without the names that are not keys.
    fn general(at: &str) -> String {
        let mut parts: Vec<&str> = at.split('/').collect();
        if matches!(parts.get(1), Some(&("agents" | "engines" | "models"))) && parts.len() > 2 {
            parts[2] = "*";
        }
        parts.join("/")
    }

    /// Pointers of all keys of a section, and of what is in them as far as it has a shape of its own.
    fn keys(fields: &'static [Field], at: &str, shown: &Value, out: &mut Vec<String>) {
        for field in fields {
            let at = format!("{at}/{}", field.key);
            out.push(at.clone());
            inside(&field.shape, &at, shown, out);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "every other shape is one value")]
    fn inside(shape: &'static Shape, at: &str, shown: &Value, out: &mut Vec<String>) {
        match shape {
            // Steps are shown as they are written.
            Shape::Section(fields) if !at.starts_with("/workflows") => keys(fields, at, shown, out),
            Shape::CamelSection(fields) => keys(fields, at, shown, out),
            Shape::Map(entry) | Shape::Named(entry) | Shape::ByEngine(entry) => {
                for name in shown.pointer(at).and_then(Value::as_object).into_iter().flat_map(Map::keys) {
                    inside(entry, &crate::config::pointer::below(at, name), shown, out);
                }
            }
            Shape::List(entry) => {
                let entries = shown.pointer(at).and_then(Value::as_array).map_or(0, Vec::len);
                (0..entries).for_each(|index| inside(entry, &format!("{at}/{index}"), shown, out));
            }
            _ => {}
        }
    }

    #[test]
    fn r3_2_every_key_of_the_tables_that_has_a_default_is_shown_without_a_file() {
        let around = Surroundings { top: Path::new("/nowhere"), engines: &[] };
        let config = load(None, around).unwrap().config;
        let shown = config.clone().over(&shipped(&config).unwrap_or_else(|_| panic!("what ships"))).show();
        let mut wanted = Vec::new();
        keys(table::FILE, "", &shown["config"], &mut wanted);
        assert!(wanted.len() > 150, "{}", wanted.len());
        wanted.retain(|at| shown["config"].pointer(at).is_none());
        wanted.retain(|at| !WITHOUT_DEFAULT.contains(&general(at).as_str()));
        assert_eq!(wanted, [""; 0]);
        assert_eq!(shown["config"].pointer("/context_pruning/soft_trim/max_chars"), Some(&json!(4000)));
        assert_eq!(shown["config"].pointer("/engines/claude/permission_mode"), Some(&json!("acceptEdits")));
        assert_eq!(shown["config"]["workflows"].as_object().unwrap().len(), 13);
        assert!(!shown.to_string().contains("\"engines\":null"));
    }
}
