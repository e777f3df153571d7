//! The cases of channel delivery and context pruning, run against the product's own functions.
#![expect(clippy::unwrap_used, reason = "a helper of a test that fails has failed the test")]

#[path = "economy/pruning.rs"]
mod pruning;
#[path = "economy/simulate.rs"]
mod simulate;
#[path = "economy/watermark.rs"]
mod watermark;

use serde_json::Value;

/// A text is a string, or `{rep, n}`, or a list of such parts.
fn expand(text: &Value) -> String {
    match text {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(expand).collect(),
        Value::Object(part) => {
            part["rep"].as_str().unwrap().repeat(usize::try_from(part["n"].as_u64().unwrap()).unwrap())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => panic!("{text} is no text"),
    }
}
