//! JSON as it stands on the wire: sizes and spans without building or changing a value.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// Characters of the string that a JSON string literal stands for.
///
/// A pair of surrogate escapes is one character; a lone one, which no text can hold, counts one too.
pub(super) fn string_chars(literal: &str) -> u64 {
    let inner = literal.strip_prefix('"').unwrap_or(literal);
    let mut rest = inner.strip_suffix('"').unwrap_or(inner);
    let mut chars = 0;
    while let Some(letter) = rest.chars().next() {
        let length = if letter == '\\' { escape_length(rest) } else { letter.len_utf8() };
        rest = rest.get(length..).unwrap_or("");
        chars += 1;
    }
    chars
}

/// Bytes of the escape at the start of `text`.
fn escape_length(text: &str) -> usize {
    match code_unit(text) {
        Some(0xd800..0xdc00) if matches!(text.get(6..).and_then(code_unit), Some(0xdc00..0xe000)) => 12,
        Some(_) => 6,
        None => 2,
    }
}

fn code_unit(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

/// Characters of a value as compact JSON: what stands between strings loses its white space, and escapes
/// that a compact writer would not write count as what they stand for.
pub(super) fn compact_chars(json: &str) -> u64 {
    let mut rest = json;
    let mut chars = 0;
    let mut in_string = false;
    while let Some(letter) = rest.chars().next() {
        let mut length = letter.len_utf8();
        let mut counts = 1;
        match (in_string, letter) {
            (_, '"') => in_string = !in_string,
            (true, '\\') => {
                length = escape_length(rest);
                counts = compact_escape(rest);
            }
            (false, ' ' | '\n' | '\r' | '\t') => counts = 0,
            (true | false, _) => {}
        }
        chars += counts;
        rest = rest.get(length..).unwrap_or("");
    }
    chars
}

/// Characters that the escape at the start of `text` has in compact JSON.
fn compact_escape(text: &str) -> u64 {
    match code_unit(text) {
        Some(0x08 | 0x09 | 0x0a | 0x0c | 0x0d | 0x22 | 0x5c) => 2,
        Some(0..0x20) => 6,
        Some(_) => 1,
        None if text[1..].starts_with('/') => 1,
        None => 2,
    }
}

/// Where a borrowed value stands in the body that it was read from.
pub(super) fn span(body: &[u8], value: &RawValue) -> std::ops::Range<usize> {
    let start = (value.get().as_ptr() as usize).saturating_sub(body.as_ptr() as usize);
    start..start + value.get().len()
}

const MARKER_KEY: &str = "\"cache_control\"";

/// The text without members named `cache_control`, everything else byte for byte.
///
/// A quote inside a JSON string has a backslash before it, so the bare key is found by looking for it.
pub(super) fn without_cache_control(json: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let mut rest = json;
    let mut from = 0;
    while let Some(at) = rest[from..].find(MARKER_KEY).map(|at| at + from) {
        match member(rest, at) {
            Some((start, end)) => {
                kept.push_str(&rest[..start]);
                rest = &rest[end..];
                from = 0;
            }
            None => from = at + MARKER_KEY.len(),
        }
    }
    if kept.is_empty() && rest.len() == json.len() {
        return Cow::Borrowed(json);
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// The span of the member whose key stands at `at`, with one of the commas around it; `None` when it is no key.
fn member(json: &str, at: usize) -> Option<(usize, usize)> {
    let before = json[..at].trim_end();
    if before.ends_with('\\') {
        return None;
    }
    let value = json[at + MARKER_KEY.len()..].trim_start().strip_prefix(':')?;
    let mut values = serde_json::Deserializer::from_str(value).into_iter::<&RawValue>();
    values.next()?.ok()?;
    let mut end = json.len() - value.len() + values.byte_offset();
    if let Some(before) = before.strip_suffix(',') {
        return Some((before.len(), end));
    }
    let after = json[end..].trim_start();
    if let Some(after) = after.strip_prefix(',') {
        end = json.len() - after.len();
    }
    Some((at, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn lone_surrogates_count_as_one_character() {
        assert_eq!(string_chars(r#""a\ud83d\ude00\ud800\n\u0041""#), 5);
        assert_eq!(compact_chars(r#"{ "a" : [1.50, "\u00e9\/\u0001\ud83d\ude00"] }"#), 24);
    }

    #[test]
    fn markers_go_wherever_they_stand_and_nothing_else_does() {
        for (with, without) in [
            (r#"{"a":1,"cache_control":{"type":"ephemeral"}}"#, r#"{"a":1}"#),
            (r#"{ "cache_control" : {"ttl":"1h"} , "a" : 1 }"#, r#"{  "a" : 1 }"#),
            (r#"{"cache_control":null}"#, "{}"),
            (r#"[{"cache_control":{}},{"x":1,"cache_control":{}}]"#, r#"[{},{"x":1}]"#),
        ] {
            assert_eq!(without_cache_control(with), without);
        }
        for same in [r#"{"a":"\"cache_control\":{}"}"#, r#"["cache_control"]"#, "{}", ""] {
            assert_eq!(without_cache_control(same), same);
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![any::<String>().prop_map(Value::from), any::<i32>().prop_map(Value::from), Just(json!(null))];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((any::<String>(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn sizes_are_those_of_the_decoded_value(value in values(), text in any::<String>()) {
            let literal = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(string_chars(&literal), text.chars().count() as u64);
            let compact = value.to_string().chars().count() as u64;
            prop_assert_eq!(compact_chars(&serde_json::to_string_pretty(&value).unwrap()), compact);
        }

        #[test]
        fn any_text_is_measured_without_panic(text in any::<String>()) {
            string_chars(&text);
            compact_chars(&text);
            without_cache_control(&text);
        }
    }
}
