//! The JSON Schema that editors complete and check a config by, printed from the table of keys.

use serde_json::{Map, Value, json};

use super::table::{FILE, Field, NOT_SERVED, Range, Shape};
use crate::ids::EngineName;

/// The schema of `fia.config.yaml`, JSON Schema 2020-12.
///
/// Numbers that degrade with a warning are described as they should be, so an editor marks them.
pub fn json_schema() -> Value {
    let mut schema = section(FILE, Spelling::Snake);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("fia.config.yaml");
    schema
}

#[derive(Clone, Copy)]
enum Spelling {
    Snake,
    Either,
}

fn section(fields: &[Field], spelling: Spelling) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = shape(&field.shape);
        schema["description"] = json!(field.about);
        if let Shape::Knob(knob) = &field.shape {
            schema["default"] = knob.value();
        }
        let camel = camel(field.key);
        if matches!(spelling, Spelling::Either) && camel != field.key {
            properties.insert(camel, schema.clone());
        }
        properties.insert(field.key.to_owned(), schema);
    }
    for key in NOT_SERVED {
        properties.entry(*key).or_insert_with(|| json!({ "description": "not acted on" }));
    }
    let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.key).collect();
    // A key with nothing after its colon is an empty section, which only one without required keys can be.
    let kind = if required.is_empty() { json!(["object", "null"]) } else { json!("object") };
    let mut schema = json!({ "type": kind, "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn shape(shape: &Shape) -> Value {
    let scalar = json!(["string", "number", "boolean"]);
    match shape {
        Shape::Text | Shape::DataDir => json!({ "type": scalar }),
        Shape::Name => json!({ "type": "string", "pattern": NAME }),
        Shape::StepName => json!({ "type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$" }),
        Shape::Choice(words) => json!({ "enum": words }),
        Shape::Engine => json!({ "enum": engines() }),
        Shape::Switch => json!({ "type": "boolean" }),
        Shape::Knob(knob) => json!({ "type": number(knob.unit.has_fraction()), "minimum": 0 }),
        Shape::Whole | Shape::Clamped(Range::Count) => json!({ "type": "integer", "minimum": 0 }),
        Shape::Amount => json!({ "type": "number", "minimum": 0 }),
        Shape::Clamped(Range::Ratio) => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Shape::Ttl => json!({ "type": ["string", "number"] }),
        Shape::Wait => json!({ "type": "string", "pattern": "^(never|[0-9.]+ *(s|m|h|d))$" }),
        Shape::WebAddress => json!({ "type": "string", "pattern": "^https?://" }),
        Shape::Patterns => json!({ "type": "array", "items": { "type": scalar, "minLength": 1 } }),
        Shape::Texts => json!({ "type": "array", "items": { "type": scalar } }),
        Shape::Choices(words) => json!({ "type": "array", "items": { "enum": words } }),
        Shape::OneOrMore => {
            json!({ "oneOf": [{ "type": "string" }, { "type": "array", "items": { "type": scalar }, "minItems": 1 }] })
        }
        Shape::Variable => json!({ "type": ["string", "number", "boolean", "null"] }),
        Shape::Section(fields) => section(fields, Spelling::Snake),
        Shape::CamelSection(fields) => section(fields, Spelling::Either),
        Shape::Map(inner) => json!({ "type": ["object", "null"], "additionalProperties": self::shape(inner) }),
        Shape::Named(inner) => {
            json!({ "type": ["object", "null"], "propertyNames": { "pattern": NAME }, "additionalProperties": self::shape(inner) })
        }
        Shape::ByEngine(inner) => {
            json!({ "type": ["object", "null"], "propertyNames": { "enum": engines() }, "additionalProperties": self::shape(inner) })
        }
        Shape::List(inner) => json!({ "type": ["array", "null"], "items": self::shape(inner) }),
    }
}

/// The form of names that become file names.
const NAME: &str = "^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$";

fn number(has_fraction: bool) -> &'static str {
    if has_fraction { "number" } else { "integer" }
}

fn engines() -> Vec<&'static str> {
    let names = EngineName::ALL.into_iter().map(EngineName::as_str);
    names.chain(["claude_code"]).collect()
}

fn camel(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        text + &head.to_ascii_uppercase() + tail
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_a_schema_and_knows_both_spellings_of_pruning() {
        let schema = json_schema();
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(validator.is_valid(&json!({ "context_pruning": { "softTrim": { "max_chars": 1 } }, "stop": null })));
        assert!(!validator.is_valid(&json!({ "defaults": { "modell": "x" } })));
        assert!(!validator.is_valid(&json!({ "agents": [{ "model": "x" }] })));
        assert!(!validator.is_valid(&json!({ "agents": [{ "name": "x", "writes": null }] })));
    }
}
