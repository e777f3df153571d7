//! The messages that pi's `context` hook hands over, and the replacements that it gets back.
//!
//! The hook sees every message as a deep copy and its answer holds for one request, so it asks on each one.
//! Fields as pi 1.6.0 names them: `toolResult`, `toolCallId`, `toolName`, `isError`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::conversation::Shown;
use super::raw::{compact_chars, string_chars};
use super::round::IMAGE_CHARS;
use super::{Block, Message, ToolResult};

#[derive(Deserialize)]
struct PiMessage<'a> {
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "toolCallId")]
    tool_call_id: Cow<'a, str>,
    #[serde(borrow, default, rename = "toolName")]
    tool_name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PiBlock<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// What the hook is told: the results to replace, each by one text block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer<'a> {
    /// In order of index.
    pub replacements: &'a [Shown],
}

/// Reads the array of messages of one request; `None` when it is none, and nothing is to be replaced.
pub fn parse(messages: &[u8]) -> Option<Vec<Message<'_>>> {
    let messages: Vec<PiMessage<'_>> = serde_json::from_slice(messages).ok()?;
    messages.into_iter().map(read).collect()
}

fn read(message: PiMessage<'_>) -> Option<Message<'_>> {
    Some(match message.role.as_ref() {
        "user" => Message::User { chars: chars(message.content)? },
        "assistant" => Message::Assistant { chars: chars(message.content)? },
        "toolResult" => Message::Tool(ToolResult {
            call: message.tool_call_id,
            tool: message.tool_name,
            blocks: result_blocks(message.content)?,
        }),
        _ => Message::Other,
    })
}

fn blocks_of(content: &RawValue) -> Option<Vec<PiBlock<'_>>> {
    serde_json::from_str(content.get()).ok()
}

fn chars(content: Option<&RawValue>) -> Option<u64> {
    match content {
        None => Some(0),
        Some(text) if text.get().starts_with('"') => Some(string_chars(text.get())),
        Some(blocks) => Some(blocks_of(blocks)?.iter().map(block_chars).sum()),
    }
}

fn block_chars(block: &PiBlock<'_>) -> u64 {
    let text = |value: Option<&RawValue>| value.map_or(0, |value| string_chars(value.get()));
    match block.kind.as_ref() {
        "text" => text(block.text),
        "thinking" => text(block.thinking),
        "toolCall" => block.arguments.map_or(0, |value| compact_chars(value.get())),
        "image" => IMAGE_CHARS,
        _ => 0,
    }
}

fn result_blocks(content: Option<&RawValue>) -> Option<Vec<Block<'_>>> {
    let Some(content) = content else { return Some(vec![Block::Foreign(0)]) };
    let blocks = blocks_of(content)?.into_iter().map(|block| match (block.kind.as_ref(), block.text) {
        ("text", Some(text)) => super::text_block(text),
        ("image", _) => Block::Image,
        _ => Block::Foreign(block_chars(&block)),
    });
    Some(blocks.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn r9_4_messages_of_pi_map_one_to_one() {
        let json = br#"[
            {"role":"user","content":"task"},
            {"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"c2ln"},
                {"type":"toolCall","id":"t1","name":"read","arguments":{"path": "a"}}]},
            {"role":"toolResult","toolCallId":"t1","toolName":"read","content":[{"type":"text","text":"x\ny"},
                {"type":"image","data":"AA==","mimeType":"image/png"}],"isError":false,"timestamp":1},
            {"role":"compactionSummary","summary":"s"}
        ]"#;
        let result = ToolResult {
            call: "t1".into(),
            tool: "read".into(),
            blocks: vec![Block::Text("x\ny".into()), Block::Image],
        };
        assert_eq!(
            parse(json).unwrap(),
            [Message::User { chars: 4 }, Message::Assistant { chars: 2 + 12 }, Message::Tool(result), Message::Other,]
        );
    }

    #[test]
    fn what_is_no_list_of_messages_is_left_alone() {
        for bytes in [&b"{}"[..], b"[1]", b"", b"[{\"role\":\"user\",\"content\":[1]}]"] {
            assert_eq!(parse(bytes), None);
        }
    }

    #[test]
    fn an_answer_names_index_mode_and_text() {
        let shown = [Shown { index: 2, cut: super::super::round::Cut::Hard, text: "gone".to_owned() }];
        let json = serde_json::to_string(&Answer { replacements: &shown }).unwrap();
        assert_eq!(json, r#"{"replacements":[{"index":2,"mode":"hard","text":"gone"}]}"#);
    }
}
