//! The JSON report that ends an agent phase: its types, how it is found in an answer, and what of it the
//! next agent is told.
//!
//! An envelope is taken only when it validates against the JSON Schema of its type. Nothing else of an
//! answer is ever believed.

pub mod gate;
mod schema;

use serde_json::{Map, Value};

pub use schema::{BUILT_IN, Schema, SchemaError, built_in};

/// Largest envelope that is taken, in bytes of compact JSON: it stands whole in the log.
pub const MAX_ENVELOPE_BYTES: usize = 64 * 1024;

/// Characters of an envelope that the next agent is told.
pub const MAX_PASSED_ON_CHARS: usize = 8000;

/// Why an answer holds no envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// There is no JSON object in it.
    #[error("the answer holds no JSON object")]
    NoObject,
    /// There are objects, and the last of them fails the schema.
    #[error("the last JSON object of the answer is no `{output}` report: {}", problems.join("; "))]
    Invalid {
        /// The type that was asked for.
        output: String,
        /// What is wrong, each with the field.
        problems: Vec<String>,
    },
    /// It is valid and too large.
    #[error("the report has {bytes} bytes; at most {MAX_ENVELOPE_BYTES} are taken")]
    TooLarge {
        /// Its size as compact JSON.
        bytes: usize,
    },
}

/// Finds the envelope of an answer: the last balanced JSON object that validates.
///
/// Braces in prose, several code fences and examples before the report do no harm. An object inside
/// another is looked at only when the outer one fails the schema.
///
/// # Errors
///
/// When no object validates, with the problems of the last one; or when the envelope is too large.
pub fn extract(answer: &str, schema: &Schema) -> Result<Value, EnvelopeError> {
    let mut objects = outermost_objects(answer);
    let Some(last) = objects.last() else { return Err(EnvelopeError::NoObject) };
    let problems = schema.problems(last);
    let envelope = objects.iter_mut().rev().find_map(|object| last_valid(object, schema));
    let Some(envelope) = envelope else {
        return Err(EnvelopeError::Invalid { output: schema.name().to_owned(), problems });
    };
    let bytes = envelope.to_string().len();
    if bytes > MAX_ENVELOPE_BYTES {
        return Err(EnvelopeError::TooLarge { bytes });
    }
    Ok(envelope)
}

/// Every JSON object of a text that lies in no other one.
///
/// The JSON reader gives up at 128 levels, so a byte is read at most 128 times whatever the text.
fn outermost_objects(text: &str) -> Vec<Value> {
    let mut objects = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find('{').map(|offset| from + offset) {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Map<String, Value>>();
        match values.next() {
            Some(Ok(object)) => {
                from = at + values.byte_offset();
                objects.push(Value::Object(object));
            }
            Some(Err(_)) | None => from = at + 1,
        }
    }
    objects
}

/// The object itself when it validates, else the last valid one inside it.
fn last_valid(value: &mut Value, schema: &Schema) -> Option<Value> {
    if value.is_object() && schema.is_valid(value) {
        return Some(value.take());
    }
    match value {
        Value::Object(fields) => fields.values_mut().rev().find_map(|inner| last_valid(inner, schema)),
        Value::Array(items) => items.iter_mut().rev().find_map(|inner| last_valid(inner, schema)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Whether the report says that the work succeeded. Reports without a `status` of their own count as such.
pub fn reports_success(envelope: &Value) -> bool {
    envelope.get("status").and_then(Value::as_str) != Some("fail")
}

/// Fields that the next agent is told, in this order.
const PASSED_ON: [&str; 6] = ["status", "summary", "artifacts", "changed_files", "notes_for_next_agent", "failures"];

/// What of an envelope the next agent is told: six fields, as pretty JSON of at most 8000 characters.
///
/// Too long, the longest field is shortened first, so that a long list does not push out the summary.
pub fn passed_on(envelope: &Value) -> String {
    let mut kept = Map::new();
    for field in PASSED_ON {
        if let Some(value) = envelope.get(field) {
            kept.insert(field.to_owned(), value.clone());
        }
    }
    loop {
        let text = serde_json::to_string_pretty(&kept).expect("a map of JSON values is JSON");
        let over = text.chars().count().saturating_sub(MAX_PASSED_ON_CHARS);
        if over == 0 || !shorten_longest(&mut kept, over) {
            return text;
        }
    }
}

/// Shortens the field that takes most room by about `over` characters, or halves it; false when nothing gives.
fn shorten_longest(fields: &mut Map<String, Value>, over: usize) -> bool {
    let Some(longest) = fields.values_mut().max_by_key(|value| value.to_string().len()) else { return false };
    let before = longest.to_string().len();
    match longest {
        Value::String(text) => {
            // Escapes make JSON longer than its text, so a plain difference could leave nothing of it.
            let chars = text.chars().count();
            let cut: String = text.chars().take(chars.saturating_sub(over + 2).max(chars / 2)).collect();
            *text = format!("{} …", cut.trim_end_matches([' ', '…']));
        }
        Value::Array(items) if items.len() > 1 => items.truncate(items.len() / 2),
        Value::Array(_) | Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
            *longest = Value::String(format!("(left out: {before} characters)"));
        }
    }
    longest.to_string().len() < before
}

#[cfg(test)]
mod tests;
