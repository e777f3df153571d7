//! The keys of a scenario file, and what they mean together.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Action, Content, ErrorAnswer, Fault, MainRequests, Repeat, Response, Rule, Scenario, is_growth};

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenScenario {
    growth: Option<f64>,
    main: MainRequests,
    side: Option<Response>,
    rules: Vec<Rule>,
    responses: Vec<Response>,
    exhausted: Option<Response>,
}

impl TryFrom<WrittenScenario> for Scenario {
    type Error = String;

    fn try_from(written: WrittenScenario) -> Result<Self, String> {
        let WrittenScenario { growth, main, side, rules, responses, exhausted } = written;
        if growth.is_some_and(|growth| !is_growth(growth)) {
            return Err("`growth` is not above 0".to_owned());
        }
        Ok(Self { growth, main, side, rules, responses, exhausted })
    }
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WrittenResponse {
    text: Option<String>,
    text_bytes: Option<usize>,
    think: Option<String>,
    tool: Option<String>,
    input: Option<Map<String, Value>>,
    r#do: Option<Verb>,
    path: Option<String>,
    content: Option<String>,
    old: Option<String>,
    new: Option<String>,
    command: Option<String>,
    description: Option<String>,
    blocks: Option<Vec<Map<String, Value>>>,
    error: Option<u16>,
    r#type: Option<String>,
    message: Option<String>,
    headers: BTreeMap<String, Value>,
    in_stream: bool,
    cut: Option<Value>,
    hang: Option<f64>,
    when: When,
    events: Option<usize>,
    garbage: bool,
    delay_ms: u64,
    chunk_delay_ms: u64,
    chunk: Option<usize>,
    stop_reason: Option<String>,
    usage: Map<String, Value>,
    output_tokens: Option<u64>,
    model: Option<String>,
    repeat: Option<i64>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Verb {
    Write,
    Read,
    Edit,
    Bash,
}

#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "lowercase")]
enum When {
    #[default]
    Before,
    After,
}

impl TryFrom<WrittenResponse> for Response {
    type Error = String;

    fn try_from(mut written: WrittenResponse) -> Result<Self, String> {
        let repeat = match written.repeat {
            None => Repeat::default(),
            Some(-1) => Repeat::Forever,
            Some(times) => match u64::try_from(times) {
                Ok(times) if times > 0 => Repeat::Times(times),
                Ok(_) | Err(_) => return Err(format!("`repeat` is {times}, neither above 0 nor -1")),
            },
        };
        Ok(Self {
            fault: written.take_fault()?,
            content: written.take_content()?,
            delay: Duration::from_millis(written.delay_ms),
            chunk_delay: Duration::from_millis(written.chunk_delay_ms),
            chunk: written.chunk.map(|size| size.max(1)),
            stop_reason: written.stop_reason,
            usage: written.usage,
            output_tokens: written.output_tokens,
            model: written.model,
            repeat,
        })
    }
}

impl WrittenResponse {
    fn take_content(&mut self) -> Result<Vec<Content>, String> {
        if let Some(blocks) = self.blocks.take() {
            return Ok(blocks.into_iter().map(|block| Content::Block(Value::Object(block))).collect());
        }
        let mut content = Vec::new();
        if let Some(thinking) = self.think.take() {
            // Nobody checks the signature; it only has to be there.
            content
                .push(Content::Block(json!({"type": "thinking", "thinking": thinking, "signature": "bG9vcGJhY2s="})));
        }
        let filler = self.text_bytes.map(|bytes| "0123456789abcde\n".chars().cycle().take(bytes).collect());
        if let Some(text) = filler.or(self.text.take()) {
            content.push(Content::text(&text));
        }
        if let Some(tool) = self.tool.take() {
            let input = self.input.take().unwrap_or_default();
            content.push(Content::Block(json!({"type": "tool_use", "name": tool, "input": input})));
        }
        if let Some(verb) = self.r#do {
            content.push(Content::Do(self.take_action(verb)?));
        }
        if content.is_empty() {
            content.push(Content::text("done"));
        }
        Ok(content)
    }

    fn take_action(&mut self, verb: Verb) -> Result<Action, String> {
        fn need(value: &mut Option<String>, name: &str) -> Result<String, String> {
            value.take().ok_or_else(|| format!("`do` needs `{name}` here"))
        }
        Ok(match verb {
            Verb::Write => {
                Action::Write { path: need(&mut self.path, "path")?, content: self.content.take().unwrap_or_default() }
            }
            Verb::Read => Action::Read { path: need(&mut self.path, "path")? },
            Verb::Edit => Action::Edit {
                path: need(&mut self.path, "path")?,
                old: need(&mut self.old, "old")?,
                new: need(&mut self.new, "new")?,
            },
            Verb::Bash => {
                Action::Bash { command: need(&mut self.command, "command")?, description: self.description.take() }
            }
        })
    }

    fn take_fault(&mut self) -> Result<Fault, String> {
        const EVENTS_BEFORE_FAULT: usize = 4;
        let after = self.events.unwrap_or(EVENTS_BEFORE_FAULT);
        if self.garbage {
            return Ok(Fault::Garbage);
        }
        if let Some(status) = self.error {
            let error = self.take_error(status)?;
            return Ok(if self.in_stream {
                Fault::InStream { error, after: self.events.unwrap_or(2) }
            } else {
                Fault::Status(error)
            });
        }
        if let Some(cut) = &self.cut {
            return match cut.as_u64().and_then(|events| usize::try_from(events).ok()) {
                Some(after) => Ok(Fault::Cut { after }),
                None if *cut == Value::Bool(true) => Ok(Fault::Cut { after }),
                None => Err(format!("`cut` is {cut}, neither a number of events nor true")),
            };
        }
        let Some(seconds) = self.hang else { return Ok(Fault::None) };
        let silence = Duration::try_from_secs_f64(seconds).map_err(|error| format!("`hang`: {error}"))?;
        Ok(match self.when {
            When::Before => Fault::SilentBefore(silence),
            When::After => Fault::SilentAfter { after, silence },
        })
    }

    fn take_error(&mut self, status: u16) -> Result<ErrorAnswer, String> {
        if !(400..600).contains(&status) {
            return Err(format!("`error` is {status}, no status from 400 to 599"));
        }
        let (kind, message) = usual_error(status);
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let header = HeaderName::try_from(name).ok().zip(HeaderValue::try_from(text).ok());
            let (name, value) = header.ok_or_else(|| format!("`{name}: {value}` is no header"))?;
            headers.insert(name, value);
        }
        Ok(ErrorAnswer {
            status,
            kind: self.r#type.take().unwrap_or_else(|| kind.to_owned()),
            message: self.message.take().unwrap_or_else(|| message.to_owned()),
            headers,
        })
    }
}

/// The type that the Messages API gives to a status, with a message of the same kind.
fn usual_error(status: u16) -> (&'static str, &'static str) {
    match status {
        400 => ("invalid_request_error", "The request was not understood."),
        401 => ("authentication_error", "invalid x-api-key"),
        403 => ("permission_error", "Your API key does not have permission to use the specified resource."),
        404 => ("not_found_error", "model: not found"),
        413 => ("request_too_large", "Request exceeds the maximum allowed number of bytes."),
        429 => ("rate_limit_error", "This request would exceed your account's rate limit. Please try again later."),
        529 => ("overloaded_error", "Overloaded"),
        _ => ("api_error", "Internal server error"),
    }
}
