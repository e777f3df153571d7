//! An answer as the Messages API words it: one object, or the events of a stream.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::request::Request;
use super::scenario::{Action, Content, ErrorAnswer, Response};
use super::tokens::PromptUsage;

/// How many characters a delta holds when the scenario names no number.
const CHARACTERS_A_DELTA: usize = 4096;

/// A message ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) model: Value,
    pub(super) content: Vec<Value>,
    pub(super) stop_reason: String,
    pub(super) usage: Map<String, Value>,
}

/// Gives out the ids of messages and tool calls.
#[derive(Debug, Default)]
pub(super) struct Ids(u64);

impl Ids {
    fn next(&mut self, kind: &str) -> String {
        self.0 += 1;
        format!("{kind}_loop{:04}", self.0)
    }
}

impl Message {
    /// Fills a response of the scenario in: ids, tool names of this client, usage.
    pub(super) fn fill(
        response: &Response,
        request: &Request<'_>,
        tokens: PromptUsage,
        ids: &mut Ids,
        base: Option<&Path>,
    ) -> Self {
        let mut content: Vec<Value> = response
            .content
            .iter()
            .map(|part| match part {
                Content::Block(block) => block.clone(),
                Content::Do(action) => tool_use(action, request, base),
            })
            .collect();
        let mut calls_tool = false;
        for block in content.iter_mut().filter(|block| block["type"] == "tool_use") {
            calls_tool = true;
            if block["id"].is_null() {
                block["id"] = json!(ids.next("toolu"));
            }
        }
        let usual_stop = if calls_tool { "tool_use" } else { "end_turn" };
        let mut usage = match serde_json::to_value(tokens) {
            Ok(Value::Object(usage)) => usage,
            Ok(_) | Err(_) => Map::new(),
        };
        let length = content.iter().map(|block| block.to_string().len() + 1).sum::<usize>() + 1;
        let output = response.output_tokens.unwrap_or_else(|| (length as u64 / 4).max(1));
        usage.insert("output_tokens".to_owned(), json!(output));
        usage.extend(response.usage.clone());
        Self {
            id: ids.next("msg"),
            model: response.model.as_ref().map_or_else(|| request.field("model").clone(), |model| json!(model)),
            content,
            stop_reason: response.stop_reason.clone().unwrap_or_else(|| usual_stop.to_owned()),
            usage,
        }
    }

    /// The whole message as one object.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": self.content,
            "stop_reason": self.stop_reason, "stop_sequence": null, "usage": self.usage,
        })
    }

    /// The message as server-sent events, each ready to be sent, with deltas of at most `chunk` characters.
    pub(super) fn events(&self, chunk: Option<usize>) -> Vec<String> {
        let chunk = chunk.unwrap_or(CHARACTERS_A_DELTA);
        // As the service does, the count at the start is that of a message just begun.
        let mut start_usage = self.usage.clone();
        start_usage.insert("output_tokens".to_owned(), json!(1));
        let mut events = vec![
            event(
                "message_start",
                json!({"message": {
                    "id": self.id, "type": "message", "role": "assistant", "model": self.model, "content": [],
                    "stop_reason": null, "stop_sequence": null, "usage": start_usage,
                }}),
            ),
            event("ping", json!({})),
        ];
        for (index, block) in self.content.iter().enumerate() {
            let (start, deltas) = block_in_parts(block, chunk);
            events.push(event("content_block_start", json!({"index": index, "content_block": start})));
            let deltas = deltas.into_iter();
            events.extend(deltas.map(|delta| event("content_block_delta", json!({"index": index, "delta": delta}))));
            events.push(event("content_block_stop", json!({"index": index})));
        }
        let stop = json!({"stop_reason": self.stop_reason, "stop_sequence": null});
        events.push(event("message_delta", json!({"delta": stop, "usage": self.usage})));
        events.push(event("message_stop", json!({})));
        events
    }
}

/// The body of an error, which is also the data of an error event.
pub(super) fn error_body(kind: &str, message: &str, request_id: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id})
}

/// An error event.
pub(super) fn error_event(error: &ErrorAnswer, request_id: &str) -> String {
    event("error", error_body(&error.kind, &error.message, request_id))
}

/// One server-sent event; its data begins with its type.
fn event(name: &str, data: Value) -> String {
    let mut object = Map::new();
    object.insert("type".to_owned(), json!(name));
    if let Value::Object(fields) = data {
        object.extend(fields);
    }
    format!("event: {name}\ndata: {}\n\n", Value::Object(object))
}

/// How a block starts in a stream, and the deltas that fill it.
fn block_in_parts(block: &Value, chunk: usize) -> (Value, Vec<Value>) {
    match block["type"].as_str() {
        Some("text") => {
            let text = block["text"].as_str().unwrap_or_default();
            let deltas = pieces(text, chunk).map(|piece| json!({"type": "text_delta", "text": piece})).collect();
            (json!({"type": "text", "text": ""}), deltas)
        }
        Some("thinking") => {
            let deltas = vec![
                json!({"type": "thinking_delta", "thinking": block["thinking"]}),
                json!({"type": "signature_delta", "signature": block["signature"].as_str().unwrap_or_default()}),
            ];
            (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
        }
        Some("tool_use") => {
            let input = block["input"].to_string();
            let delta = |piece: &str| json!({"type": "input_json_delta", "partial_json": piece});
            let start = json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}});
            (start, pieces(&input, chunk).map(delta).collect())
        }
        Some(_) | None => (block.clone(), Vec::new()),
    }
}

/// A text cut into pieces of so many characters.
fn pieces(text: &str, size: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.char_indices().nth(size).map_or(rest.len(), |(at, _)| at);
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        (!piece.is_empty()).then_some(piece)
    })
}

/// An action as a call of the client's own tool: pi's tools have lower-case names, all else is taken for claude.
fn tool_use(action: &Action, request: &Request<'_>, base: Option<&Path>) -> Value {
    let is_pi = request.tool_names().any(|name| ["write", "read", "bash", "edit"].contains(&name));
    let (name, input) = if is_pi { call_of_pi(action) } else { call_of_claude(action, request, base) };
    json!({"type": "tool_use", "name": name, "input": input})
}

fn call_of_pi(action: &Action) -> (&'static str, Value) {
    match action {
        Action::Write { path, content } => ("write", json!({"path": path, "content": content})),
        Action::Read { path } => ("read", json!({"path": path})),
        Action::Edit { path, old, new } => ("edit", json!({"path": path, "edits": [{"oldText": old, "newText": new}]})),
        Action::Bash { command, description: _ } => ("bash", json!({"command": command})),
    }
}

/// claude wants absolute paths: they start at `base`, else at the directory that the request names.
fn call_of_claude(action: &Action, request: &Request<'_>, base: Option<&Path>) -> (&'static str, Value) {
    let absolute = |path: &str| {
        let base = base.map(Path::to_path_buf).or_else(|| request.working_directory().map(PathBuf::from));
        base.unwrap_or_default().join(path).to_string_lossy().into_owned()
    };
    match action {
        Action::Write { path, content } => ("Write", json!({"file_path": absolute(path), "content": content})),
        Action::Read { path } => ("Read", json!({"file_path": absolute(path)})),
        Action::Edit { path, old, new } => {
            ("Edit", json!({"file_path": absolute(path), "old_string": old, "new_string": new}))
        }
        Action::Bash { command, description } => {
            let description = description.as_deref().unwrap_or("Run a scripted command");
            ("Bash", json!({"command": command, "description": description}))
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use pretty_assertions::assert_eq;

    use super::*;

    fn filled(response: Value, body: &Value, base: Option<&Path>) -> Message {
        let response: Response = serde_json::from_value(response).unwrap();
        let headers = HeaderMap::new();
        Message::fill(&response, &Request::new(body, &headers), PromptUsage::default(), &mut Ids::default(), base)
    }

    fn call(response: Value, body: &Value, base: Option<&Path>) -> Value {
        let mut block = filled(response, body, base).content.remove(0);
        block["input"]["tool"] = block["name"].clone();
        block["input"].take()
    }

    #[test]
    fn actions_become_calls_of_the_tools_that_the_client_offers() {
        let claude = json!({"tools": [{"name": "Bash"}], "system": "Primary working directory: /w\n"});
        let pi = json!({"tools": [{"name": "bash"}], "system": "Working directory: /w\n"});
        let write = json!({"do": "write", "path": "a", "content": "x"});
        assert_eq!(call(write.clone(), &claude, None), json!({"file_path": "/w/a", "content": "x", "tool": "Write"}));
        assert_eq!(call(write.clone(), &pi, None), json!({"path": "a", "content": "x", "tool": "write"}));
        let base = Path::new("/base");
        assert_eq!(call(write, &claude, Some(base))["file_path"], "/base/a");
        let read = json!({"do": "read", "path": "/b"});
        assert_eq!(call(read.clone(), &claude, Some(base)), json!({"file_path": "/b", "tool": "Read"}));
        assert_eq!(call(read, &pi, None), json!({"path": "/b", "tool": "read"}));
        let edit = json!({"do": "edit", "path": "c", "old": "1", "new": "2"});
        let edited = json!({"file_path": "/w/c", "old_string": "1", "new_string": "2", "tool": "Edit"});
        assert_eq!(call(edit.clone(), &claude, None), edited);
        let edited = json!({"path": "c", "edits": [{"oldText": "1", "newText": "2"}], "tool": "edit"});
        assert_eq!(call(edit, &pi, None), edited);
        let run = json!({"do": "bash", "command": "ls"});
        assert_eq!(call(run.clone(), &pi, None), json!({"command": "ls", "tool": "bash"}));
        assert_eq!(
            call(run, &claude, None),
            json!({"command": "ls", "description": "Run a scripted command", "tool": "Bash"})
        );
    }

    #[test]
    fn the_events_of_a_message_are_those_of_the_messages_api() {
        let response = json!({"think": "h", "text": "añb", "tool": "T", "input": {"k": 1}, "chunk": 2,
                              "usage": {"input_tokens": 7}});
        let message = filled(response, &json!({"model": "m"}), None);
        let events = message.events(Some(2)).concat();
        let usage = |output: u64| {
            format!(
                r#"{{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{}"#,
                format_args!(
                    r#"{{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}},"output_tokens":{output}}}"#
                )
            )
        };
        let expected = [
            ("message_start", format!(r#""message":{{"id":"msg_loop0002","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{}}}"#, usage(1))),
            ("ping", String::new()),
            ("content_block_start", r#""index":0,"content_block":{"type":"thinking","thinking":"","signature":""}"#.to_owned()),
            ("content_block_delta", r#""index":0,"delta":{"type":"thinking_delta","thinking":"h"}"#.to_owned()),
            ("content_block_delta", r#""index":0,"delta":{"type":"signature_delta","signature":"bG9vcGJhY2s="}"#.to_owned()),
            ("content_block_stop", r#""index":0"#.to_owned()),
            ("content_block_start", r#""index":1,"content_block":{"type":"text","text":""}"#.to_owned()),
            ("content_block_delta", r#""index":1,"delta":{"type":"text_delta","text":"añ"}"#.to_owned()),
            ("content_block_delta", r#""index":1,"delta":{"type":"text_delta","text":"b"}"#.to_owned()),
            ("content_block_stop", r#""index":1"#.to_owned()),
            ("content_block_start", r#""index":2,"content_block":{"type":"tool_use","id":"toolu_loop0001","name":"T","input":{}}"#.to_owned()),
            ("content_block_delta", r#""index":2,"delta":{"type":"input_json_delta","partial_json":"{\""}"#.to_owned()),
            ("content_block_delta", r#""index":2,"delta":{"type":"input_json_delta","partial_json":"k\""}"#.to_owned()),
            ("content_block_delta", r#""index":2,"delta":{"type":"input_json_delta","partial_json":":1"}"#.to_owned()),
            ("content_block_delta", r#""index":2,"delta":{"type":"input_json_delta","partial_json":"}"}"#.to_owned()),
            ("content_block_stop", r#""index":2"#.to_owned()),
            ("message_delta", format!(r#""delta":{{"stop_reason":"tool_use","stop_sequence":null}},"usage":{}"#, usage(40))),
            ("message_stop", String::new()),
        ]
        .map(|(name, fields)| {
            let comma = if fields.is_empty() { "" } else { "," };
            format!("event: {name}\ndata: {{\"type\":\"{name}\"{comma}{fields}}}\n\n")
        });
        assert_eq!(events, expected.concat());
    }

    #[test]
    fn what_a_scenario_says_of_usage_model_and_stop_wins() {
        let response = json!({"text": "x", "usage": {"input_tokens": null, "extra": 1}, "output_tokens": 9,
                              "model": "other", "stop_reason": "max_tokens"});
        let message = filled(response, &json!({"model": "m"}), None);
        assert_eq!(
            message.to_json(),
            json!({"id": "msg_loop0001", "type": "message", "role": "assistant", "model": "other",
                   "content": [{"type": "text", "text": "x"}], "stop_reason": "max_tokens", "stop_sequence": null,
                   "usage": {"input_tokens": null, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                             "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
                             "output_tokens": 9, "extra": 1}})
        );
    }
}
