//! The JSON Schemas of envelopes.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Names of the built-in envelope types.
pub const BUILT_IN: [&str; 7] = ["generic", "plan", "build", "scout", "review", "document", "verify"];

/// A compiled JSON Schema with the name of its envelope type.
#[derive(Debug)]
pub struct Schema {
    name: String,
    source: Value,
    validator: jsonschema::Validator,
}

/// A JSON Schema that is none.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is no JSON Schema: {problem}")]
pub struct SchemaError {
    /// The envelope type.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Schema {
    /// Compiles a schema. References to other files or the network are not followed.
    ///
    /// # Errors
    ///
    /// When the value is no JSON Schema.
    pub fn compile(name: &str, source: Value) -> Result<Self, SchemaError> {
        match jsonschema::validator_for(&source) {
            Ok(validator) => Ok(Self { name: name.to_owned(), source, validator }),
            Err(error) => Err(SchemaError { name: name.to_owned(), problem: error.to_string() }),
        }
    }

    /// The schema of a built-in envelope type. It says nothing that draft 7 does not know, whose own schema is compiled
    /// in a fraction of the time that a newer one takes.
    pub fn built_in(name: &str) -> Option<Self> {
        let source = built_in(name)?;
        let validator = jsonschema::draft7::new(&source).expect("what ships is a schema");
        Some(Self { name: name.to_owned(), source, validator })
    }

    /// The envelope type.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether a value is an envelope of this type.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// What is wrong with a value, each line with its field; at most 10.
    pub fn problems(&self, value: &Value) -> Vec<String> {
        self.validator
            .iter_errors(value)
            .take(10)
            .map(|error| {
                let field = error.instance_path().to_string();
                let place = if field.is_empty() { "report".to_owned() } else { field };
                let told: String = error.to_string().chars().take(300).collect();
                format!("{place}: {told}")
            })
            .collect()
    }

    /// The part of a user prompt that asks for this report: field by field, required ones marked.
    pub fn request(&self) -> String {
        let mut text = format!(
            "End your answer with one JSON object, your report of type `{}`, in a ```json block. Fields:\n",
            self.name
        );
        let required: Vec<&str> = self
            .source
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let fields = self.source.get("properties").and_then(Value::as_object);
        for (field, shape) in fields.into_iter().flatten() {
            let need = if required.contains(&field.as_str()) { "required" } else { "optional" };
            let told = shape.get("description").and_then(Value::as_str).unwrap_or("");
            let _infallible = writeln!(text, "- `{field}` ({}, {need}): {told}", shape_of(shape));
        }
        text
    }
}

fn shape_of(shape: &Value) -> String {
    if let Some(words) = shape.get("enum").and_then(Value::as_array) {
        let words: Vec<String> = words.iter().map(Value::to_string).collect();
        return words.join(" or ");
    }
    match shape.get("type").and_then(Value::as_str) {
        Some("array") => {
            let of = shape.get("items").map_or_else(|| "anything".to_owned(), shape_of);
            format!("list of {of}")
        }
        Some("object") => {
            let fields = shape.get("properties").and_then(Value::as_object);
            let names: Vec<&str> = fields.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            if names.is_empty() { "object".to_owned() } else { format!("{{{}}}", names.join(", ")) }
        }
        Some(other) => other.to_owned(),
        None => "anything".to_owned(),
    }
}

/// The JSON Schema of a built-in envelope type.
pub fn built_in(name: &str) -> Option<Value> {
    let texts = |told: &str| json!({"type": "array", "items": {"type": "string"}, "description": told});
    let text = |told: &str| json!({"type": "string", "description": told});
    let mut fields = json!({
        "status": {"type": "string", "enum": ["success", "fail"], "description": "whether the work of this phase is done"},
        "summary": text("what was done and what was found, a few sentences"),
        "artifacts": texts("files for later phases, as paths from the top of the work tree"),
        "notes_for_next_agent": text("what the next agent should know and cannot see in the files"),
    });
    let commit_message = || text("the message for a commit of this work: subject, blank line, body");
    let mut required = vec!["status"];
    let own = match name {
        "generic" => json!({}),
        "plan" => json!({"commit_message": commit_message()}),
        "build" => json!({
            "changed_files": texts("every file created, changed or removed, as paths from the top of the work tree"),
            "commit_message": commit_message(),
        }),
        "scout" => json!({"findings": {"type": "array", "description": "what was found, most useful first"}}),
        "review" => {
            required.push("approved");
            json!({
                "approved": {"type": "boolean", "description": "true only if every requirement is met and nothing blocks"},
                "findings": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["requirement", "met"],
                        "properties": {
                            "requirement": {"type": "string"},
                            "met": {"type": "boolean"},
                            "evidence": {"type": "string"},
                        },
                    },
                    "description": "one a requirement, with the evidence",
                },
                "blocking": texts("what has to change before approval; empty when approved"),
            })
        }
        "document" => json!({
            "document_path": text("the document that was written"),
            "documented_files": texts("the files that it describes"),
            "commit_message": commit_message(),
        }),
        "verify" => {
            required.push("passed");
            json!({
                "passed": {"type": "boolean", "description": "whether everything that was verified holds"},
                "failures": texts("what does not hold, one line each"),
            })
        }
        _ => return None,
    };
    let all = fields.as_object_mut().expect("written as an object above");
    all.extend(own.as_object().expect("written as an object above").clone());
    Some(json!({"type": "object", "required": required, "properties": fields}))
}
