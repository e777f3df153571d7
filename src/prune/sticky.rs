//! What was replaced stays replaced: the same bytes on every later request, across restarts.
//!
//! An entry belongs to one tool call and to one exact source. When the client rewrites or clears that
//! result itself, the source no longer matches and the entry is dropped.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::round::Cut;
use super::settings::Images;
use super::{Message, ToolResult};

/// The replacements of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Entry>", into = "Vec<Entry>")]
pub struct Replacements {
    entries: BTreeMap<CallKey, Replacement>,
}

/// Which result of a conversation it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallKey {
    call: String,
    /// Counts results of the same call id, from 1.
    occurrence: u32,
}

/// What takes a result's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replacement {
    pub(crate) cut: Cut,
    pub(crate) text: String,
    /// Of the result's joined text as it came, in hexadecimal.
    pub(crate) source_sha256: String,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    call: String,
    #[serde(default = "first", skip_serializing_if = "is_first")]
    occurrence: u32,
    mode: Cut,
    text: String,
    source_sha256: String,
}

fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_first(occurrence: &u32) -> bool {
    *occurrence == 1
}

impl From<Vec<Entry>> for Replacements {
    fn from(list: Vec<Entry>) -> Self {
        let entries = list.into_iter().map(|entry| {
            let key = CallKey { call: entry.call, occurrence: entry.occurrence };
            (key, Replacement { cut: entry.mode, text: entry.text, source_sha256: entry.source_sha256 })
        });
        Self { entries: entries.collect() }
    }
}

impl From<Replacements> for Vec<Entry> {
    fn from(replacements: Replacements) -> Self {
        let entries = replacements.entries.into_iter().map(|(key, replacement)| Entry {
            call: key.call,
            occurrence: key.occurrence,
            mode: replacement.cut,
            text: replacement.text,
            source_sha256: replacement.source_sha256,
        });
        entries.collect()
    }
}

/// What a request finds in the store.
pub(crate) struct Replay<'a> {
    /// Its tool results by index of their message.
    pub(crate) keys: BTreeMap<usize, CallKey>,
    /// Those that are replaced.
    pub(crate) found: BTreeMap<usize, &'a Replacement>,
    /// Entries whose source is another one now.
    pub(crate) stale: Vec<CallKey>,
}

impl Replacements {
    /// How many results are replaced.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Finds what the results of a request are to be replaced by.
    pub(crate) fn replay(&self, messages: &[Message<'_>]) -> Replay<'_> {
        let mut replay = Replay { keys: BTreeMap::new(), found: BTreeMap::new(), stale: Vec::new() };
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        for (index, message) in messages.iter().enumerate() {
            let Message::Tool(result) = message else { continue };
            let occurrence = seen.entry(&result.call).or_insert(0);
            *occurrence += 1;
            let key = CallKey { call: result.call.to_string(), occurrence: *occurrence };
            if let Some(replacement) = self.entries.get(&key) {
                if source_sha256(result).as_deref() == Some(&replacement.source_sha256) {
                    replay.found.insert(index, replacement);
                } else {
                    replay.stale.push(key.clone());
                }
            }
            replay.keys.insert(index, key);
        }
        replay
    }

    pub(crate) fn remove(&mut self, key: &CallKey) {
        self.entries.remove(key);
    }

    pub(crate) fn insert(&mut self, key: CallKey, replacement: Replacement) {
        self.entries.insert(key, replacement);
    }
}

/// Hash of a result's text; `None` when it is none that is ever replaced. Images count as their marker, so
/// that a replacement outlives a change of that setting.
pub(crate) fn source_sha256(result: &ToolResult<'_>) -> Option<String> {
    result.source(Images::Marker).map(|source| sha256(source.as_bytes()))
}

/// SHA-256 in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Bytes as lower-case hexadecimal.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Block;
    use super::*;
    use pretty_assertions::assert_eq;

    fn result(call: &str, text: &str) -> Message<'static> {
        Message::Tool(ToolResult {
            call: call.to_owned().into(),
            tool: "exec".into(),
            blocks: vec![Block::Text(text.to_owned().into())],
        })
    }

    #[test]
    fn r9_3_results_of_one_call_id_are_told_apart_by_their_order() {
        let messages = [result("t", "one"), result("t", "two")];
        let mut store = Replacements::default();
        let key = store.replay(&messages).keys.remove(&1).unwrap();
        let replacement = Replacement { cut: Cut::Hard, text: "gone".to_owned(), source_sha256: sha256(b"two") };
        store.insert(key, replacement);
        assert_eq!(store.replay(&messages).found.keys().collect::<Vec<_>>(), [&1]);
        let json = serde_json::to_string(&store).unwrap();
        assert_eq!(serde_json::from_str::<Replacements>(&json).unwrap(), store);
    }

    #[test]
    fn hashes_are_spelt_in_lower_case() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
