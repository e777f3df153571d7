//! Context pruning: old tool results become short in what is sent, never in what is stored.
//!
//! A round decides on lengths ([`round`]); what it replaced is kept and replaced by the same bytes in every
//! later request ([`sticky`]), because a replacement that lives for one request breaks the provider's cache
//! twice and costs more than none. [`conversation`] holds the gate and its clock; [`wire`] and [`pi`] read
//! the requests of the CLIs. User and assistant messages, their order and count never change.

pub mod conversation;
pub mod pi;
pub mod prefix;
mod raw;
pub mod round;
pub mod settings;
pub mod sticky;
pub mod wire;

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use round::{IMAGE_CHARS, Kind, Shape, UNKNOWN_ROLE_CHARS};
use settings::{Images, Settings};

/// A message of a request, as far as pruning looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// Of the user; its size in characters.
    User {
        /// Text lengths and images.
        chars: u64,
    },
    /// Of the model; its size in characters.
    Assistant {
        /// Texts, thinking and the arguments of tool calls as compact JSON, without signatures.
        chars: u64,
    },
    /// One tool result.
    Tool(ToolResult<'a>),
    /// Of a role that is not known.
    Other,
}

/// A tool result as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult<'a> {
    /// Id of the call that it answers.
    pub call: Cow<'a, str>,
    /// Name of the tool; empty when the call is not in the request.
    pub tool: Cow<'a, str>,
    /// Its content.
    pub blocks: Vec<Block<'a>>,
}

/// A part of a tool result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// An image.
    Image,
    /// Something that fia does not know and therefore does not touch; its size in characters.
    Foreign(u64),
}

/// What an image becomes where the settings ask for a marker.
const IMAGE_MARKER: &str = "[Image of an old tool result removed]";

impl ToolResult<'_> {
    /// Its size as it came: text lengths and images.
    fn chars(&self) -> u64 {
        let size = |block: &Block<'_>| match block {
            Block::Text(text) => text.chars().count() as u64,
            Block::Image => IMAGE_CHARS,
            Block::Foreign(chars) => *chars,
        };
        self.blocks.iter().map(size).sum()
    }

    /// The text that it is judged by and trimmed from; `None` when it must not be touched.
    fn source(&self, images: Images) -> Option<Cow<'_, str>> {
        let mut texts = self.blocks.iter().map(|block| match (block, images) {
            (Block::Text(text), _) => Some(text.as_ref()),
            (Block::Image, Images::Marker) => Some(IMAGE_MARKER),
            (Block::Image, Images::Keep) | (Block::Foreign(_), _) => None,
        });
        if self.blocks.len() == 1 {
            return texts.next().flatten().map(Cow::Borrowed);
        }
        texts.collect::<Option<Vec<_>>>().map(|texts| Cow::Owned(texts.join("\n")))
    }
}

/// The shape of a message that nothing was replaced in.
fn shape(message: &Message<'_>, settings: &Settings) -> Shape {
    match message {
        Message::User { chars } => Shape { kind: Kind::User, chars: *chars },
        Message::Assistant { chars } => Shape { kind: Kind::Assistant, chars: *chars },
        Message::Other => Shape { kind: Kind::Other, chars: UNKNOWN_ROLE_CHARS },
        Message::Tool(result) => {
            let source = if settings.tools.allows(&result.tool) { result.source(settings.images) } else { None };
            let joined = source.map(|text| text.chars().count() as u64);
            let images = result.blocks.contains(&Block::Image);
            let kind = joined.map_or(Kind::Fixed, |joined| Kind::Whole { joined, images });
            Shape { kind, chars: result.chars() }
        }
    }
}

/// A text that can be decoded; one with half a surrogate pair cannot, and is left alone.
fn text_block(literal: &RawValue) -> Block<'_> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    match serde_json::from_str::<Text<'_>>(literal.get()) {
        Ok(text) => Block::Text(text.0),
        Err(_) => Block::Foreign(raw::string_chars(literal.get())),
    }
}
