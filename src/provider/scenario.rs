//! Scenarios as written: JSON that says how the provider answers.
//!
//! ```json
//! {"growth": 9.0,
//!  "rules": [{"match": "JOB-7", "steps": [{"do": "write", "path": "a.txt", "content": "x"},
//!                                         [{"error": 529}, {"do": "bash", "command": "cat a.txt"}],
//!                                         {"text": "finished"}]}],
//!  "responses": [{"text": "the first answer"}, {"cut": 4, "text": "torn"}],
//!  "exhausted": {"text": "no rule matched, and the queue is empty"}}
//! ```
//!
//! `rules` come first: the first one whose `match` is part of the last human message answers, by the step that counts
//! the answers given since. So a rule needs no memory, and a client that resumes or restarts gets the same answers.
//! A step that is a list gives its entries to one attempt each (a client that retries), and repeats the last.
//! Without a rule, `responses` is a queue that every main request takes one entry from (`repeat` keeps an entry for
//! so many requests, -1 for ever), and after it `exhausted` answers. `side` answers claude's small requests without
//! tools; `"main": "all"` counts them as main ones.
//!
//! An unknown key is an error: a scenario that is read otherwise than it was meant proves nothing.

mod written;

use std::time::Duration;

use axum::http::HeaderMap;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

use self::written::{WrittenResponse, WrittenScenario};

/// How the provider answers.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(try_from = "WrittenScenario")]
pub struct Scenario {
    pub(super) growth: Option<f64>,
    pub(super) main: MainRequests,
    pub(super) side: Option<Response>,
    pub(super) rules: Vec<Rule>,
    pub(super) responses: Vec<Response>,
    pub(super) exhausted: Option<Response>,
}

impl Scenario {
    /// Reads a scenario from JSON text.
    ///
    /// # Errors
    ///
    /// When the text is no JSON, a key is unknown, or a value has no meaning; the reason says which and where.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Reads a scenario from a JSON value, as tests write them with `json!`.
    ///
    /// # Errors
    ///
    /// As for [`Scenario::parse`], without a position.
    pub fn from_value(value: Value) -> Result<Self, serde_json::Error> {
        serde_json::from_value(value)
    }

    /// A scenario that comes with the provider; `None` when there is none of this name.
    pub fn builtin(name: &str) -> Option<Self> {
        let (_, value) = builtins().into_iter().find(|(known, _)| *known == name)?;
        Self::from_value(value).ok()
    }

    /// The names of the scenarios that come with the provider.
    pub fn builtin_names() -> Vec<&'static str> {
        builtins().into_iter().map(|(name, _)| name).collect()
    }
}

/// The scenarios that come with the provider: one for each way to answer and to fail.
fn builtins() -> Vec<(&'static str, Value)> {
    let always = |response: Value| json!({ "exhausted": response });
    let retry_after = json!({"retry-after": "1"});
    vec![
        ("plain", always(json!({"text": "Hello from the loopback provider."}))),
        (
            "tools",
            json!({"responses": [
                {"text": "I will write a file.", "do": "write", "path": "hello.txt", "content": "hello loopback\n"},
                {"do": "bash", "command": "wc -c hello.txt && echo ran"},
                {"do": "read", "path": "hello.txt"},
                {"text": "All three steps are done."},
            ]}),
        ),
        ("400", always(json!({"error": 400}))),
        ("401", always(json!({"error": 401}))),
        ("403", always(json!({"error": 403}))),
        ("404", always(json!({"error": 404}))),
        ("413", always(json!({"error": 413}))),
        ("429", always(json!({"error": 429, "headers": retry_after}))),
        ("429-once", json!({"responses": [{"error": 429, "headers": retry_after}, {"text": "after one 429"}]})),
        ("500", always(json!({"error": 500}))),
        ("529", always(json!({"error": 529}))),
        ("529-twice", json!({"responses": [{"error": 529, "repeat": 2}, {"text": "after two 529"}]})),
        ("stream-error", always(json!({"error": 529, "in_stream": true}))),
        ("cut", always(json!({"cut": 4, "text": "this text is cut before its end"}))),
        ("cut-once", json!({"responses": [{"cut": 4, "text": "this text is cut"}, {"text": "after the cut"}]})),
        ("hang", always(json!({"hang": 3600, "when": "before"}))),
        ("hang-mid", always(json!({"hang": 3600, "when": "after", "text": "partial text, then silence"}))),
        ("garbage", always(json!({"garbage": true}))),
        ("slow", always(json!({"text": "slow ".repeat(40), "chunk": 5, "chunk_delay_ms": 200}))),
    ]
}

/// Which requests take from the rules and the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum MainRequests {
    /// All but claude's requests without tools.
    #[default]
    Auto,
    /// All.
    All,
}

/// Answers to a human message that contains a text.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    #[serde(rename = "match")]
    pub(super) pattern: String,
    #[serde(default)]
    pub(super) steps: Vec<Step>,
}

/// The answers to the attempts at one step; the last repeats.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step(pub(super) Vec<Response>);

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StepVisitor;
        impl<'de> Visitor<'de> for StepVisitor {
            type Value = Step;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a response or a list of responses")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Step, A::Error> {
                Response::deserialize(MapAccessDeserializer::new(map)).map(|response| Step(vec![response]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Step, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(Step)
            }
        }
        deserializer.deserialize_any(StepVisitor)
    }
}

/// One answer: what it says, how it fails, and how fast it comes.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(try_from = "WrittenResponse")]
pub(super) struct Response {
    pub(super) content: Vec<Content>,
    pub(super) fault: Fault,
    pub(super) delay: Duration,
    pub(super) chunk_delay: Duration,
    /// The most characters in one delta.
    pub(super) chunk: Option<usize>,
    pub(super) stop_reason: Option<String>,
    /// Fields that replace or join the computed usage.
    pub(super) usage: Map<String, Value>,
    pub(super) output_tokens: Option<u64>,
    pub(super) model: Option<String>,
    pub(super) repeat: Repeat,
}

impl Response {
    /// A final text.
    pub(super) fn text(text: &str) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }
}

/// How many requests take an entry of the queue before the next one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    Times(u64),
    Forever,
}

impl Default for Repeat {
    fn default() -> Self {
        Self::Times(1)
    }
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// A content block as it goes out.
    Block(Value),
    /// A tool call in the client's own words.
    Do(Action),
}

impl Content {
    fn text(text: &str) -> Self {
        Self::Block(json!({"type": "text", "text": text}))
    }
}

/// What a client is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Write { path: String, content: String },
    Read { path: String },
    Edit { path: String, old: String, new: String },
    Bash { command: String, description: Option<String> },
}

/// How an answer fails.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Fault {
    #[default]
    None,
    /// A body that is neither JSON nor events.
    Garbage,
    /// An HTTP status and an error body.
    Status(ErrorAnswer),
    /// An error event after so many events.
    InStream { error: ErrorAnswer, after: usize },
    /// A reset of the connection after so many events.
    Cut { after: usize },
    /// No byte at all for so long.
    SilentBefore(Duration),
    /// So many events, and then silence for so long.
    SilentAfter { after: usize, silence: Duration },
}

/// An error as the Messages API words it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ErrorAnswer {
    pub(super) status: u16,
    pub(super) kind: String,
    pub(super) message: String,
    pub(super) headers: HeaderMap,
}

/// Whether a number can be a growth factor.
pub(super) fn is_growth(growth: f64) -> bool {
    growth.is_finite() && growth > 0.0
}

#[cfg(test)]
mod tests;
