//! Requests in the form of the Anthropic Messages API, changed on their own bytes.
//!
//! A body is read without being rebuilt: what is replaced is spliced into the bytes that came, so that key
//! order, number text, signatures and cache markers stay as they were. Only `content` values of tool
//! results in user messages change; a body that holds nothing to replace goes on as it is.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::conversation::Shown;
use super::raw::{compact_chars, span, string_chars, without_cache_control};
use super::round::IMAGE_CHARS;
use super::sticky::hexadecimal;
use super::{Block, Message, ToolResult};
use crate::economy::prices::CacheLifetime;

/// A request body, read.
#[derive(Debug)]
pub struct Body<'a> {
    bytes: &'a [u8],
    outer: Outer<'a>,
    messages: Vec<Message<'a>>,
    /// Of each message: where it came from.
    places: Vec<Place>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Outer<'a> {
    #[serde(borrow)]
    pub(super) messages: Vec<RawMessage<'a>>,
    #[serde(borrow, default)]
    pub(super) system: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) tools: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RawMessage<'a> {
    #[serde(borrow)]
    pub(super) role: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) content: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    tool_use_id: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_control: Option<&'a RawValue>,
}

/// Where a message stands in the body.
#[derive(Debug, Clone, Default)]
struct Place {
    message: usize,
    block: Option<usize>,
    /// The value of `content`, of a tool result that has one.
    content: Option<Content>,
}

#[derive(Debug, Clone)]
struct Content {
    span: Range<usize>,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    Text,
    /// An array, with the marker found in it.
    Blocks {
        cache_control: Option<String>,
    },
}

impl<'a> Body<'a> {
    /// Reads a body; `None` when it is none that fia understands, which is then never changed.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let outer: Outer<'a> = serde_json::from_slice(bytes).ok()?;
        let mut body = Self { bytes, outer, messages: Vec::new(), places: Vec::new() };
        let mut tools: BTreeMap<String, Cow<'a, str>> = BTreeMap::new();
        for index in 0..body.outer.messages.len() {
            let RawMessage { role, content } = &body.outer.messages[index];
            let (role, content) = (role.clone(), *content);
            match role.as_ref() {
                "assistant" => {
                    let chars = assistant_chars(content, &mut tools)?;
                    body.push(Message::Assistant { chars }, Place { message: index, ..Place::default() });
                }
                "user" => body.read_user(index, content, &tools)?,
                _ => body.push(Message::Other, Place { message: index, ..Place::default() }),
            }
        }
        Some(body)
    }

    /// One message a tool result, then one for all other blocks.
    fn read_user(
        &mut self,
        message: usize,
        content: Option<&'a RawValue>,
        tools: &BTreeMap<String, Cow<'a, str>>,
    ) -> Option<()> {
        let mut chars = 0;
        let mut others = 0;
        let mut results = 0;
        match content {
            None => {}
            Some(text) if is_string(text) => chars = string_chars(text.get()),
            Some(blocks) => {
                for (at, block) in blocks_of(blocks)?.into_iter().enumerate() {
                    if block.kind != "tool_result" {
                        others += 1;
                        chars += block_chars(&block);
                        continue;
                    }
                    results += 1;
                    let tool = tools.get(block.tool_use_id.as_ref()).cloned().unwrap_or_default();
                    let (content, blocks) = self.read_content(block.content)?;
                    self.push(
                        Message::Tool(ToolResult { call: block.tool_use_id, tool, blocks }),
                        Place { message, block: Some(at), content },
                    );
                }
            }
        }
        if results == 0 || others > 0 {
            self.push(Message::User { chars }, Place { message, ..Place::default() });
        }
        Some(())
    }

    fn read_content(&self, content: Option<&'a RawValue>) -> Option<(Option<Content>, Vec<Block<'a>>)> {
        // A result without content has nothing to shorten and no value to replace.
        let Some(value) = content.filter(|value| value.get() != "null") else {
            return Some((None, vec![Block::Foreign(0)]));
        };
        let span = span(self.bytes, value);
        if is_string(value) {
            return Some((Some(Content { span, form: Form::Text }), vec![super::text_block(value)]));
        }
        let mut cache_control = None;
        let mut blocks = Vec::new();
        for block in blocks_of(value)? {
            if let Some(marker) = block.cache_control {
                cache_control = Some(marker.get().to_owned());
            }
            blocks.push(match (block.kind.as_ref(), block.text) {
                ("text", Some(text)) if is_string(text) => super::text_block(text),
                ("image", _) => Block::Image,
                _ => Block::Foreign(block_chars(&block)),
            });
        }
        Some((Some(Content { span, form: Form::Blocks { cache_control } }), blocks))
    }

    fn push(&mut self, message: Message<'a>, place: Place) {
        self.messages.push(message);
        self.places.push(place);
    }

    /// Its messages, as pruning sees them.
    pub fn messages(&self) -> &[Message<'a>] {
        &self.messages
    }

    /// Name of the block that a message stands for: `messages[4].content[1] tool_result`.
    pub fn label(&self, index: usize) -> Option<String> {
        let place = self.places.get(index)?;
        Some(match place.block {
            Some(block) => format!("messages[{}].content[{block}] tool_result", place.message),
            None => format!("messages[{}]", place.message),
        })
    }

    /// Message and block of the body that a message stands for.
    pub fn position(&self, index: usize) -> Option<(usize, Option<usize>)> {
        self.places.get(index).map(|place| (place.message, place.block))
    }

    /// The bytes to send: those that came, with the content of these results replaced.
    pub fn replaced(&self, shown: &[Shown]) -> Cow<'a, [u8]> {
        let mut edits: Vec<(Range<usize>, String)> = shown
            .iter()
            .filter_map(|shown| {
                let content = self.places.get(shown.index)?.content.as_ref()?;
                Some((content.span.clone(), content.form.with(&shown.text)))
            })
            .collect();
        if edits.is_empty() {
            return Cow::Borrowed(self.bytes);
        }
        edits.sort_by_key(|(span, _)| span.start);
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut from = 0;
        for (span, text) in edits {
            bytes.extend_from_slice(&self.bytes[from..span.start]);
            bytes.extend_from_slice(text.as_bytes());
            from = span.end;
        }
        bytes.extend_from_slice(&self.bytes[from..]);
        Cow::Owned(bytes)
    }

    /// How long the provider keeps what this request writes: an hour where a marker asks for it.
    pub fn lifetime(&self) -> CacheLifetime {
        let system = self.outer.system.into_iter();
        let tools = self.outer.tools.iter().flatten().copied();
        let contents = self.outer.messages.iter().filter_map(|message| message.content);
        let asks = |raw: &RawValue| raw.get().contains("\"cache_control\"") && asks_for_an_hour(raw.get());
        if system.chain(tools).chain(contents).any(asks) { CacheLifetime::OneHour } else { CacheLifetime::FiveMinutes }
    }

    /// Which conversation this is: a hash over tools, system and the first message, as the side calls of a
    /// session differ in them, and the id of the sub-agent. Cache markers wander and do not count.
    pub fn conversation(&self, sub_agent: Option<&str>) -> String {
        let mut hash = Sha256::new();
        let mut part = |bytes: &str| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes.as_bytes());
        };
        part(sub_agent.unwrap_or(""));
        for tool in self.outer.tools.iter().flatten() {
            part(&without_cache_control(tool.get()));
        }
        part(&self.outer.system.map_or(Cow::Borrowed(""), as_blocks));
        part(&self.outer.messages.first().and_then(|first| first.content).map_or(Cow::Borrowed(""), as_blocks));
        hexadecimal(&hash.finalize())
    }
}

impl Form {
    /// The new value of `content`: a string stays one, an array becomes one of one text block.
    fn with(&self, text: &str) -> String {
        let text = serde_json::Value::from(text).to_string();
        match self {
            Self::Text => text,
            Self::Blocks { cache_control: None } => format!(r#"[{{"type":"text","text":{text}}}]"#),
            Self::Blocks { cache_control: Some(marker) } => {
                format!(r#"[{{"type":"text","text":{text},"cache_control":{marker}}}]"#)
            }
        }
    }
}

fn asks_for_an_hour(json: &str) -> bool {
    #[derive(Deserialize)]
    struct Marker<'a> {
        #[serde(borrow, default)]
        ttl: Cow<'a, str>,
    }
    json.match_indices("\"cache_control\"").any(|(at, key)| {
        let value = json[at + key.len()..].trim_start().strip_prefix(':');
        let marker = value.and_then(|value| {
            serde_json::Deserializer::from_str(value).into_iter::<Marker<'_>>().next().and_then(Result::ok)
        });
        marker.is_some_and(|marker| marker.ttl == "1h") && !json[..at].ends_with('\\')
    })
}

/// A content value with string shorthand spelt out, and without cache markers.
pub(super) fn as_blocks(content: &RawValue) -> Cow<'_, str> {
    if is_string(content) {
        return Cow::Owned(format!(r#"[{{"type":"text","text":{}}}]"#, content.get()));
    }
    without_cache_control(content.get())
}

pub(super) fn is_string(value: &RawValue) -> bool {
    value.get().starts_with('"')
}

fn blocks_of(value: &RawValue) -> Option<Vec<RawBlock<'_>>> {
    serde_json::from_str(value.get()).ok()
}

fn assistant_chars<'a>(content: Option<&'a RawValue>, tools: &mut BTreeMap<String, Cow<'a, str>>) -> Option<u64> {
    let Some(content) = content else { return Some(0) };
    if is_string(content) {
        return Some(string_chars(content.get()));
    }
    let mut chars = 0;
    for block in blocks_of(content)? {
        chars += block_chars(&block);
        if block.kind == "tool_use" {
            tools.insert(block.id.into_owned(), block.name);
        }
    }
    Some(chars)
}

fn block_chars(block: &RawBlock<'_>) -> u64 {
    let text = |value: Option<&RawValue>| value.map_or(0, |value| string_chars(value.get()));
    let json = |value: Option<&RawValue>| value.map_or(0, |value| compact_chars(value.get()));
    match block.kind.as_ref() {
        "text" => text(block.text),
        "thinking" => text(block.thinking),
        "tool_use" | "server_tool_use" => json(block.input),
        "image" | "document" => IMAGE_CHARS,
        "redacted_thinking" => 0,
        _ => json(block.content).saturating_add(text(block.text)),
    }
}

#[cfg(test)]
mod tests;
