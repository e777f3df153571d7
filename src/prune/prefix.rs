//! Whether a request extends the one before it: a hash a block, in the order in which the provider reads them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::raw::without_cache_control;
use super::sticky::sha256;
use super::wire::{Outer, is_string};

/// Bytes of a difference that are shown of each side.
const SHOWN_BYTES: usize = 60;

/// A block of a request: a tool, a block of the system prompt, or one of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixBlock {
    /// Where it stands: `tools[9] Bash`, `system[0]`, `messages[4].content[1] tool_result`.
    pub name: String,
    /// SHA-256 of its bytes (and its role) without cache markers, in hexadecimal.
    pub sha256: String,
}

/// Where a request stops being an extension of the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The first block that differs, named as in the earlier request.
    pub block: String,
    /// The first differing byte in it.
    pub byte: usize,
    /// What the earlier request had from there on, at most 60 bytes, masked.
    pub before: String,
    /// What the later one has, at most 60 bytes, masked; empty when it ends there.
    pub after: String,
}

struct Part<'a> {
    name: String,
    role: String,
    text: Cow<'a, str>,
}

/// The blocks of a request body; `None` when it is none that fia understands.
pub fn blocks(body: &[u8]) -> Option<Vec<PrefixBlock>> {
    let parts = parts(body)?.into_iter();
    let hash = |block: Part<'_>| PrefixBlock {
        sha256: sha256(format!("{}\n{}", block.role, block.text).as_bytes()),
        name: block.name,
    };
    Some(parts.map(hash).collect())
}

/// The first block of `before` that `after` does not have in the same place; `None` when `after` extends it.
pub fn first_difference<'a>(before: &'a [PrefixBlock], after: &[PrefixBlock]) -> Option<&'a PrefixBlock> {
    before
        .iter()
        .enumerate()
        .find(|(at, block)| after.get(*at).is_none_or(|a| a.sha256 != block.sha256))
        .map(|(_, b)| b)
}

/// Compares two bodies: where and how the later one differs; `None` when it extends the earlier one, or either
/// is no known body. `mask` takes secrets out of a text before any of it is shown.
pub fn difference(before: &[u8], after: &[u8], mask: impl Fn(&str) -> String) -> Option<Difference> {
    let (before, after) = (parts(before)?, parts(after)?);
    let nothing = Part { name: String::new(), role: String::new(), text: Cow::Borrowed("") };
    let (at, old) = before
        .iter()
        .enumerate()
        .find(|(at, block)| after.get(*at).is_none_or(|other| other.role != block.role || other.text != block.text))?;
    let new = after.get(at).unwrap_or(&nothing);
    // Masked first, cut afterwards: the rest of a secret that was cut in two is still one.
    let (old_shown, new_shown) = (mask(&old.text), mask(&new.text));
    let from = common_bytes(&old_shown, &new_shown);
    Some(Difference {
        block: old.name.clone(),
        byte: common_bytes(&old.text, &new.text),
        before: window(&old_shown, from),
        after: window(&new_shown, from),
    })
}

fn common_bytes(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

fn window(text: &str, from: usize) -> String {
    let boundary = |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[boundary(from)..boundary(from.saturating_add(SHOWN_BYTES))].to_owned()
}

fn parts(body: &[u8]) -> Option<Vec<Part<'_>>> {
    let outer: Outer<'_> = serde_json::from_slice(body).ok()?;
    let mut parts = Vec::new();
    for (at, tool) in outer.tools.iter().flatten().enumerate() {
        let name = format!("tools[{at}] {}", word(tool, Word::Name));
        parts.push(Part { name, role: String::new(), text: without_cache_control(tool.get()) });
    }
    if let Some(system) = outer.system {
        push_content(&mut parts, system, "system", &|at, _| format!("system[{at}]"))?;
    }
    for (index, message) in outer.messages.iter().enumerate() {
        let Some(content) = message.content else { continue };
        let name = |at: usize, kind: &str| format!("messages[{index}].content[{at}] {kind}");
        push_content(&mut parts, content, &message.role, &name)?;
    }
    Some(parts)
}

fn push_content<'a>(
    parts: &mut Vec<Part<'a>>,
    content: &'a RawValue,
    role: &str,
    name: &dyn Fn(usize, &str) -> String,
) -> Option<()> {
    let role = role.to_owned();
    if is_string(content) {
        let text = Cow::Owned(format!(r#"{{"type":"text","text":{}}}"#, content.get()));
        parts.push(Part { name: name(0, "text"), role, text });
        return Some(());
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(content.get()).ok()?;
    for (at, block) in blocks.into_iter().enumerate() {
        let text = without_cache_control(block.get());
        parts.push(Part { name: name(at, &word(block, Word::Kind)), role: role.clone(), text });
    }
    Some(())
}

#[derive(Clone, Copy)]
enum Word {
    Name,
    Kind,
}

/// The word that tells a block from others; `?` when it has none.
fn word(block: &RawValue, word: Word) -> String {
    #[derive(Deserialize)]
    struct Words {
        #[serde(default)]
        name: Option<String>,
        #[serde(default, rename = "type")]
        kind: Option<String>,
    }
    let words = serde_json::from_str::<Words>(block.get()).ok();
    let found = words.and_then(|words| match word {
        Word::Name => words.name,
        Word::Kind => words.kind,
    });
    found.unwrap_or_else(|| "?".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    fn body(tool: &str, system: &str, texts: &[&str]) -> Vec<u8> {
        let messages: Vec<_> =
            texts.iter().map(|text| json!({"role": "user", "content": [{"type": "text", "text": text}]})).collect();
        json!({"tools": [{"name": "Bash", "description": tool}], "system": system, "messages": messages})
            .to_string()
            .into_bytes()
    }

    fn same(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn r6_7_a_longer_request_extends_a_shorter_one_whatever_its_markers() {
        let before = br#"{"system":"s","messages":[{"role":"user","content":"a"}]}"#;
        let after = br#"{"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]},
            {"role":"assistant","content":"b"}],"system":[{"cache_control":{"ttl":"1h"},"type":"text","text":"s"}]}"#;
        let (before_blocks, after_blocks) = (blocks(before).unwrap(), blocks(after).unwrap());
        assert_eq!(first_difference(&before_blocks, &after_blocks), None);
        assert_eq!(difference(before, after, same), None);
        assert_eq!(first_difference(&after_blocks, &before_blocks).unwrap().name, "messages[1].content[0] text");
    }

    #[test]
    fn r6_7_the_first_difference_is_named_with_its_byte() {
        let before = body("runs a command", "you build", &["one", "two"]);
        assert_eq!(
            difference(&before, &body("runs commands", "you build", &["one", "two"]), same).unwrap(),
            Difference {
                block: "tools[0] Bash".to_owned(),
                byte: 35,
                before: "a command\"}".to_owned(),
                after: "commands\"}".to_owned(),
            }
        );
        let changed = difference(&before, &body("runs a command", "you test", &["one"]), same).unwrap();
        assert_eq!((changed.block.as_str(), changed.before.as_str()), ("system[0]", "build\"}"));
        let shorter = difference(&before, &body("runs a command", "you build", &["one"]), same).unwrap();
        assert_eq!((shorter.block.as_str(), shorter.byte), ("messages[1].content[0] text", 0));
        assert_eq!(shorter.after, "");
    }

    #[test]
    fn r5_1_a_secret_is_masked_before_it_is_cut() {
        let before = body("x", "key sk-abc", &["one"]);
        let after = body("x", "key sk-abd", &["one"]);
        let mask = |text: &str| text.replace("sk-abc", "[secret]").replace("sk-abd", "[secret]");
        let found = difference(&before, &after, mask).unwrap();
        assert_eq!((found.before.as_str(), found.after.as_str()), ("", ""));
        assert_eq!(found.block, "system[0]");
    }

    #[test]
    fn a_window_never_cuts_a_character() {
        let before = body("x", &"é".repeat(100), &["one"]);
        let found = difference(&before, &body("x", &"è".repeat(100), &["one"]), same).unwrap();
        assert!(found.before.chars().all(|c| c == 'é') && found.after.chars().all(|c| c == 'è'), "{found:?}");
    }
}
