//! What a request says: its blocks in cache order, its last human message, whose conversation it is.

use std::borrow::Cow;

use axum::body::Bytes;
use axum::http::HeaderMap;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A parsed request to `/v1/messages`.
pub(super) struct Request<'a> {
    body: &'a Value,
    headers: &'a HeaderMap,
}

impl<'a> Request<'a> {
    /// A view of a body and the headers that it came with.
    pub(super) fn new(body: &'a Value, headers: &'a HeaderMap) -> Self {
        Self { body, headers }
    }

    /// A field of the body, null when it is not there.
    pub(super) fn field(&self, name: &str) -> &'a Value {
        &self.body[name]
    }

    /// The elements of a list of the body; none when it is no list.
    pub(super) fn list(&self, name: &str) -> &'a [Value] {
        self.body[name].as_array().map_or(&[], Vec::as_slice)
    }

    /// The model as asked for.
    pub(super) fn model(&self) -> Option<&'a str> {
        self.body["model"].as_str()
    }

    /// Whether the answer is wanted as a stream of events.
    pub(super) fn wants_stream(&self) -> bool {
        self.body["stream"].as_bool() == Some(true)
    }

    /// A small request of claude beside its main conversation (titles, summaries): it offers no tools.
    pub(super) fn is_side_request(&self) -> bool {
        self.list("tools").is_empty() && self.header("user-agent").is_some_and(|agent| agent.contains("claude-cli"))
    }

    /// The names of the tools that the client offers.
    pub(super) fn tool_names(&self) -> impl Iterator<Item = &'a str> {
        self.list("tools").iter().filter_map(|tool| tool["name"].as_str())
    }

    /// The text of the last human message, and the number of answers since.
    pub(super) fn position(&self) -> (String, usize) {
        let messages = self.list("messages");
        let last = messages.iter().rposition(is_human);
        let human = last.map_or_else(String::new, |index| text(&messages[index]["content"]));
        let answers =
            messages.iter().skip(last.map_or(0, |index| index + 1)).filter(|m| m["role"] == "assistant").count();
        (human, answers)
    }

    /// A name for the conversation that this request goes on with: the client's session and sub-agent, else its first
    /// message; requests of another model or without tools are conversations of their own.
    pub(super) fn conversation(&self) -> String {
        let session = ["x-claude-code-session-id", "session_id", "x-session-id"]
            .iter()
            .find_map(|name| self.header(name))
            .map(str::to_owned)
            .or_else(|| session_of_user_id(self.body["metadata"]["user_id"].as_str()?));
        let first = if session.is_some() {
            String::new()
        } else {
            let message = self.list("messages").iter().find(|m| m["role"] == "user").unwrap_or(&Value::Null);
            sha256(&canonical(message))[..12].to_owned()
        };
        format!(
            "{}|{}|{first}|{}|{}",
            session.unwrap_or_default(),
            self.header("x-claude-code-agent-id").unwrap_or_default(),
            self.model().unwrap_or_default(),
            if self.list("tools").is_empty() { "no tools" } else { "tools" },
        )
    }

    /// The directory that the client says it works in.
    pub(super) fn working_directory(&self) -> Option<String> {
        std::iter::once(self.field("system"))
            .chain(self.list("messages").iter().take(3).map(|message| &message["content"]))
            .find_map(|content| directory_in(&text(content)))
    }

    fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.get(name)?.to_str().ok().filter(|value| !value.is_empty())
    }
}

/// The blocks of a content or system field: a bare text is one text block.
pub(super) fn blocks(content: &Value) -> Vec<Cow<'_, Value>> {
    let block = |value: &str| Cow::Owned(json!({"type": "text", "text": value}));
    match content {
        Value::String(text) => vec![block(text)],
        Value::Array(list) => list.iter().map(|item| item.as_str().map_or(Cow::Borrowed(item), block)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// Compact JSON without cache marks: marks move between requests and are no part of what is cached.
pub(super) fn canonical(value: &Value) -> Vec<u8> {
    let mut bare = value.clone();
    strip_marks(&mut bare);
    bare.to_string().into_bytes()
}

/// SHA-256 as lower-case hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Bytes::copy_from_slice(&Sha256::digest(bytes)))
}

fn strip_marks(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.shift_remove("cache_control");
            map.values_mut().for_each(strip_marks);
        }
        Value::Array(list) => list.iter_mut().for_each(strip_marks),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn text(content: &Value) -> String {
    let blocks = blocks(content);
    let texts: Vec<&str> =
        blocks.iter().filter(|b| b["type"] == "text").map(|b| b["text"].as_str().unwrap_or_default()).collect();
    texts.join("\n")
}

fn is_human(message: &Value) -> bool {
    message["role"] == "user" && !blocks(&message["content"]).iter().any(|block| block["type"] == "tool_result")
}

/// The session in `metadata.user_id`: `user_…_session_UUID`, or JSON text with a `session_id` (claude 2.1.332).
fn session_of_user_id(user_id: &str) -> Option<String> {
    user_id.match_indices("session_").find_map(|(at, found)| {
        let rest = &user_id[at + found.len()..];
        let rest = rest.strip_prefix("id\"").map_or(rest, |r| r.trim_start_matches([' ', ':', '"']));
        let id = rest.get(..36)?;
        id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-').then(|| id.to_owned())
    })
}

/// The path after the words "working directory", as claude writes them.
fn directory_in(text: &str) -> Option<String> {
    text.match_indices("orking directory").find_map(|(at, found)| {
        let rest = &text[at + found.len()..];
        let rest = rest.strip_prefix(':').unwrap_or(rest).trim_start();
        let path = rest.split(|c: char| c.is_whitespace() || c == '<').next()?;
        path.starts_with('/').then(|| path.trim_end_matches('.').to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_counts_answers_after_the_last_human_message() {
        let body = json!({"messages": [
            {"role": "user", "content": "JOB-1"},
            {"role": "assistant", "content": "fine"},
            {"role": "user", "content": [{"type": "text", "text": "JOB-2"}, {"type": "text", "text": "please"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]},
        ]});
        assert_eq!(Request::new(&body, &HeaderMap::new()).position(), ("JOB-2\nplease".to_owned(), 1));
    }

    #[test]
    fn a_body_of_another_shape_has_no_position_and_no_blocks() {
        let body = json!({"messages": 7, "system": {"a": 1}});
        let headers = HeaderMap::new();
        let request = Request::new(&body, &headers);
        assert_eq!(request.position(), (String::new(), 0));
        assert_eq!(request.working_directory(), None);
        assert!(blocks(request.field("system")).is_empty());
    }

    #[test]
    fn a_conversation_is_known_by_header_then_by_user_id_then_by_its_first_message() {
        let id = "0c7a1d1e-5f3d-4f0e-9c55-6a8a3f1f2b77";
        let mut headers = HeaderMap::new();
        let plain = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
        let user = |text: String| json!({"model": "m", "metadata": {"user_id": text}});
        let by_user = format!("{id}|||m|no tools");
        for text in [format!("user_1_account__session_{id}"), format!("{{\"session_id\": \"{id}\"}}")] {
            assert_eq!(Request::new(&user(text), &headers).conversation(), by_user);
        }
        assert_eq!(Request::new(&plain, &headers).conversation().len(), "||123456789012|m|no tools".len());
        headers.insert("x-claude-code-session-id", "s".parse().unwrap());
        headers.insert("x-claude-code-agent-id", "a".parse().unwrap());
        assert_eq!(Request::new(&plain, &headers).conversation(), "s|a||m|no tools");
    }

    #[test]
    fn the_working_directory_is_read_from_system_text_or_an_early_message() {
        let directory = |text: &str| {
            let body = json!({"messages": [{"role": "user", "content": text}]});
            Request::new(&body, &HeaderMap::new()).working_directory()
        };
        assert_eq!(directory("Primary working directory: /a/b\nmore"), Some("/a/b".to_owned()));
        assert_eq!(directory("the working directory is here. Working directory: /c.<x>"), Some("/c".to_owned()));
        assert_eq!(directory("working directory: relative"), None);
    }

    #[test]
    fn canonical_text_has_no_cache_marks_and_keeps_the_order_of_keys() {
        let value = json!({"b": 1, "cache_control": {"type": "ephemeral"}, "a": [{"cache_control": 1, "c": "é"}]});
        assert_eq!(canonical(&value), r#"{"b":1,"a":[{"c":"é"}]}"#.as_bytes());
    }
}
