//! The request log: what reached the provider and how it answered, in memory and as JSON lines.
//!
//! Of keys and tokens it says only whether they were there.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use axum::body::Bytes;
use axum::http::HeaderMap;
use serde::Serialize;
use serde_json::{Map, Value};

use super::ProviderError;
use super::request::{Request, blocks, canonical, sha256};
use super::tokens::Account;

/// The headers that are logged as they came.
const LOGGED_HEADERS: [&str; 14] = [
    "user-agent",
    "content-type",
    "content-length",
    "content-encoding",
    "accept",
    "anthropic-version",
    "anthropic-beta",
    "x-app",
    "x-stainless-retry-count",
    "x-stainless-timeout",
    "x-claude-code-session-id",
    "x-claude-code-agent-id",
    "x-claude-code-parent-agent-id",
    "x-client-request-id",
];

/// One request, as a line of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoggedRequest {
    /// Its number, from 1.
    pub n: u64,
    /// When it came, in seconds since the provider started.
    pub t: f64,
    /// Present while a silent answer is still going on; a second line follows when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The headers of interest; `x-api-key` is `present` or `absent`, of `authorization` there is only the scheme.
    pub headers: BTreeMap<String, String>,
    /// The length of the body in bytes, as it came.
    pub raw_bytes: usize,
    /// How it was answered, for people: `200 sse end_turn`, `429`, `cut after 4 events`, `count_tokens`, `probe`, …
    pub answer: String,
    /// What a request to `/v1/messages` asked for; absent for all others.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<LoggedPrompt>,
    /// The body as it came, when the provider was told to keep bodies.
    #[serde(skip)]
    pub body: Option<Bytes>,
}

impl LoggedRequest {
    /// The live context that the answer reported: input, cache reads and cache writes together, in tokens. `None` when
    /// the scenario made one of them no number, or for no model request.
    pub fn context_tokens(&self) -> Option<u64> {
        ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]
            .iter()
            .map(|field| self.usage(field))
            .sum()
    }

    /// A field of the usage that the answer reported.
    pub fn usage(&self, field: &str) -> Option<u64> {
        self.prompt.as_ref()?.usage.get(field)?.as_u64()
    }
}

/// What a request is in the middle of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The silence has begun.
    Begin,
}

/// A model request: its shape, how it compares with the ones before, and its usage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoggedPrompt {
    /// The conversation that it was taken to go on with.
    pub conversation: String,
    /// The model asked for.
    pub model: Option<String>,
    /// Whether events were asked for.
    pub stream: bool,
    /// `max_tokens` as it came.
    pub max_tokens: Value,
    /// `thinking` as it came.
    pub thinking: Value,
    /// SHA-256 of the system field as compact JSON without cache marks.
    pub system_sha256: String,
    /// Its length in bytes.
    pub system_bytes: usize,
    /// The number of its blocks.
    pub system_blocks: usize,
    /// SHA-256 of the tools as compact JSON without cache marks.
    pub tools_sha256: String,
    /// Their length in bytes.
    pub tools_bytes: usize,
    /// Their number.
    pub tools_count: usize,
    /// The number of messages.
    pub messages: usize,
    /// The length in bytes of the prompt in cache order.
    pub prompt_bytes: usize,
    /// How many of them the previous request of this conversation began with too.
    pub common_prefix_bytes: usize,
    /// Whether the previous request of this conversation is a prefix of this one, whole; `None` for the first.
    pub prefix_of_previous: Option<bool>,
    /// The length in bytes of that previous prompt.
    pub previous_bytes: Option<usize>,
    /// The block, and the byte in it, where the two part: `messages[3].content[0]+12`; `none` when they do not.
    pub diverges_at: Option<String>,
    /// The longest prefix shared with any of the last 32 requests of this model.
    pub any_prefix_bytes: usize,
    /// The usage that the answer reported, or would have.
    pub usage: Map<String, Value>,
    /// The place in the scenario that answered: `rule 0 step 2`, `queue 1`, `exhausted`, `side`.
    pub picked: String,
    /// The id of the answer; `None` where there was none.
    pub message_id: Option<String>,
}

impl LoggedPrompt {
    pub(super) fn new(request: &Request<'_>, account: Account, picked: String) -> Self {
        let system = canonical(request.field("system"));
        let tools = canonical(request.field("tools"));
        let usage = match serde_json::to_value(account.tokens) {
            Ok(Value::Object(usage)) => usage,
            Ok(_) | Err(_) => Map::new(),
        };
        Self {
            conversation: account.conversation,
            model: request.model().map(str::to_owned),
            stream: request.wants_stream(),
            max_tokens: request.field("max_tokens").clone(),
            thinking: request.field("thinking").clone(),
            system_sha256: sha256(&system),
            system_bytes: system.len(),
            system_blocks: blocks(request.field("system")).len(),
            tools_sha256: sha256(&tools),
            tools_bytes: tools.len(),
            tools_count: request.list("tools").len(),
            messages: request.list("messages").len(),
            prompt_bytes: account.prompt_bytes,
            common_prefix_bytes: account.common_prefix_bytes,
            prefix_of_previous: account.previous_bytes.map(|bytes| bytes == account.common_prefix_bytes),
            previous_bytes: account.previous_bytes,
            diverges_at: account.diverges_at,
            any_prefix_bytes: account.any_prefix_bytes,
            usage,
            picked,
            message_id: None,
        }
    }
}

/// The headers of a request that may be logged.
pub(super) fn logged_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let mut logged: BTreeMap<String, String> =
        LOGGED_HEADERS.iter().filter_map(|name| Some(((*name).to_owned(), text(name)?))).collect();
    let key = if headers.contains_key("x-api-key") { "present" } else { "absent" };
    logged.insert("x-api-key".to_owned(), key.to_owned());
    let scheme = text("authorization")
        .map_or("absent".to_owned(), |value| value.split_once(' ').map_or("present", |(scheme, _)| scheme).to_owned());
    logged.insert("authorization".to_owned(), scheme);
    logged
}

/// The log of one provider.
#[derive(Debug, Default)]
pub(super) struct Log {
    requests: Vec<LoggedRequest>,
    file: Option<File>,
}

impl Log {
    /// A log that also appends to a file.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, ProviderError> {
        let open = |path: &Path| {
            OpenOptions::new().create(true).append(true).open(path).map_err(ProviderError::file("open", path))
        };
        Ok(Self { requests: Vec::new(), file: path.map(open).transpose()? })
    }

    /// All requests that were answered, or whose silence has begun, in that order.
    pub(super) fn requests(&self) -> &[LoggedRequest] {
        &self.requests
    }

    /// Adds a request; in memory its end takes the place of its begin.
    pub(super) fn add(&mut self, request: LoggedRequest) {
        if let Some(file) = &mut self.file {
            let line = serde_json::to_string(&request).map(|line| line + "\n").unwrap_or_default();
            if let Err(error) = file.write_all(line.as_bytes()) {
                tracing::warn!("cannot append to the request log: {error}");
            }
        }
        match self.requests.iter_mut().find(|known| known.n == request.n) {
            Some(begun) => *begun = request,
            None => self.requests.push(request),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn of_keys_and_tokens_the_log_says_only_whether_they_were_there() {
        let mut headers = HeaderMap::new();
        let pairs = |logged: BTreeMap<String, String>| logged.into_iter().collect::<Vec<_>>();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs(logged_headers(&headers)), [pair("authorization", "absent"), pair("x-api-key", "absent")]);
        for (name, value) in [("authorization", "Bearer abc"), ("x-api-key", "abc"), ("cookie", "abc"), ("accept", "a")]
        {
            headers.insert(name, value.parse().unwrap());
        }
        assert_eq!(
            pairs(logged_headers(&headers)),
            [pair("accept", "a"), pair("authorization", "Bearer"), pair("x-api-key", "present")]
        );
        headers.insert("authorization", "abc".parse().unwrap());
        assert_eq!(logged_headers(&headers)["authorization"], "present");
    }
}
