//! Lenient, borrowed reading of JSON that others wrote.
//!
//! A line may be megabytes of somebody's tool output, so nothing here copies more than its caller asks
//! for, and a leaf of another type than expected is absent rather than an error. Half a surrogate pair,
//! which strict readers refuse, becomes the replacement character.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;

/// Text kept of one answer of an agent, in bytes: a report fits many times over.
pub(super) const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// Lines up to this length are read although they are not UTF-8: repairing one makes a copy of it.
const MAX_REPAIRED_BYTES: usize = 1024 * 1024;

/// How far into a line its `type` is looked for before the whole line is parsed for it.
const KIND_WINDOW_BYTES: usize = 64;

/// A value that is read later, or never.
pub(super) type Raw<'a> = Option<&'a RawValue>;

/// Hands an event to `event` by its `type` and its JSON; a line that is none, or that `event` cannot read, is `None`.
///
/// A byte order mark and white space around it are no part of a line, and a blank one is no noise.
pub(super) fn read_line(line: &[u8], event: impl FnOnce(&str, &str) -> Option<()>) -> Option<()> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Some(());
    }
    if !line.starts_with(b"{") {
        return None;
    }
    let text = match std::str::from_utf8(line) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) if line.len() <= MAX_REPAIRED_BYTES => String::from_utf8_lossy(line),
        Err(_) => return None,
    };
    event(&kind(&text)?, &text)
}

/// The `type` of an object, in most cases without reading further than that.
fn kind(text: &str) -> Option<Cow<'_, str>> {
    leading_kind(text).map(Cow::Borrowed).or_else(|| name(serde_json::from_str::<Envelope<'_>>(text).ok()?.kind))
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Raw<'a>,
}

/// The `type` where it comes first, as all three CLIs write it on almost every line.
fn leading_kind(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("{\"type\":\"")?;
    let end = rest.bytes().take(KIND_WINDOW_BYTES).position(|byte| byte == b'"' || byte == b'\\')?;
    (rest.as_bytes()[end] == b'"').then(|| &rest[..end])
}

/// A short string, borrowed where it holds no escapes.
pub(super) fn name(raw: Raw<'_>) -> Option<Cow<'_, str>> {
    let inner = inner(raw?)?;
    Some(if inner.contains('\\') { Cow::Owned(Unescaped::of(inner).collect()) } else { Cow::Borrowed(inner) })
}

/// A short string of our own; empty when it is absent.
pub(super) fn owned(raw: Raw<'_>) -> String {
    name(raw).map(Cow::into_owned).unwrap_or_default()
}

/// A string of at most `max_bytes` bytes; what is longer is cut.
pub(super) fn string(raw: Raw<'_>, max_bytes: usize) -> Option<String> {
    let inner = inner(raw?)?;
    if !inner.contains('\\') {
        let end = (0..=max_bytes.min(inner.len())).rev().find(|at| inner.is_char_boundary(*at));
        return Some(inner[..end.unwrap_or(0)].to_owned());
    }
    let mut out = String::with_capacity(inner.len().min(max_bytes));
    for c in Unescaped::of(inner) {
        if out.len() + c.len_utf8() > max_bytes {
            break;
        }
        out.push(c);
    }
    Some(out)
}

/// The first line with anything on it of a string, at most `max_chars` characters, control characters blanked.
pub(super) fn first_line(raw: Raw<'_>, max_chars: usize) -> Option<String> {
    let inner = inner(raw?)?;
    // Most lines begin with plain text, of which a slice will do.
    let plain = inner.bytes().take(max_chars).take_while(|byte| (b' '..0x7f).contains(byte) && *byte != b'\\').count();
    if plain == max_chars.min(inner.len()) && !inner.starts_with(' ') {
        return Some(inner[..plain].trim_end().to_owned());
    }
    let line = Unescaped::of(inner).skip_while(|c| c.is_whitespace()).take_while(|c| *c != '\n').take(max_chars);
    let mut line: String = line.map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.truncate(line.trim_end().len());
    Some(line)
}

/// The JSON of a value, at most `max_chars` characters of it.
pub(super) fn cut(raw: Raw<'_>, max_chars: usize) -> String {
    let text = raw.map_or("", RawValue::get);
    if text.len() <= max_chars {
        return text.to_owned();
    }
    // Most arguments begin with plain text, whose characters need no counting.
    if text.as_bytes()[..max_chars].is_ascii() {
        return text[..max_chars].to_owned();
    }
    let end = text.char_indices().nth(max_chars).map_or(text.len(), |(at, _)| at);
    text[..end].to_owned()
}

/// Reads a value as `T`; `None` when it is absent or of another shape.
pub(super) fn read<'a, T: Deserialize<'a>>(raw: Raw<'a>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// What stands between the quotes of a string; `None` when the value is no string.
fn inner(raw: &RawValue) -> Option<&str> {
    raw.get().strip_prefix('"')?.strip_suffix('"')
}

/// The characters of a JSON string, its escapes resolved one by one.
struct Unescaped<'a>(std::str::Chars<'a>);

impl<'a> Unescaped<'a> {
    fn of(inner: &'a str) -> Self {
        Self(inner.chars())
    }

    fn unit(chars: &mut std::str::Chars<'_>) -> Option<u32> {
        (0..4).try_fold(0, |unit, _| Some(unit * 16 + chars.next()?.to_digit(16)?))
    }

    fn code_point(&mut self) -> char {
        let Some(unit) = Self::unit(&mut self.0) else { return char::REPLACEMENT_CHARACTER };
        if (0xd800..0xdc00).contains(&unit) {
            let mut ahead = self.0.clone();
            if ahead.next() == Some('\\')
                && ahead.next() == Some('u')
                && let Some(low @ 0xdc00..0xe000) = Self::unit(&mut ahead)
            {
                self.0 = ahead;
                let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
            }
        }
        char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

impl Iterator for Unescaped<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self.0.next()? {
            '\\' => Some(match self.0.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'u' => self.code_point(),
                other => other,
            }),
            other => Some(other),
        }
    }
}

/// A whole number; any other value is absent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count(pub(super) Option<u64>);

impl Count {
    /// The number, absent counted as nothing.
    pub(super) fn or_zero(self) -> u64 {
        self.0.unwrap_or(0)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Count, E> {
        Ok(Count(Some(value)))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Count, E> {
        Ok(Count(u64::try_from(value).ok()))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float cast saturates, which is meant"
    )]
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Count, E> {
        Ok(Count((value >= 0.0).then_some(value as u64)))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Count, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("test JSON")
    }

    #[test]
    fn strings_are_unescaped_and_cut_at_a_character() {
        let value = raw(r#""a\n\u00e9\ud83d\ude00\ud83d \"q\"\\""#);
        assert_eq!(string(Some(&value), 100).as_deref(), Some("a\né😀\u{fffd} \"q\"\\"));
        assert_eq!(string(Some(&value), 4).as_deref(), Some("a\né"));
        assert_eq!(string(Some(&raw("\"éé\"")), 3).as_deref(), Some("é"));
        assert_eq!(string(Some(&raw("12")), 3), None);
    }

    #[test]
    fn the_first_line_skips_blank_ones_and_control_characters() {
        assert_eq!(first_line(Some(&raw(r#""\n  one\ttwo \nthree""#)), 80).as_deref(), Some("one two"));
        assert_eq!(first_line(Some(&raw(r#""abcdef""#)), 3).as_deref(), Some("abc"));
        assert_eq!(first_line(Some(&raw("[]")), 3), None);
    }

    #[test]
    fn values_are_cut_by_characters_and_not_by_bytes() {
        assert_eq!(cut(Some(&raw(r#"["abc"]"#)), 4), r#"["ab"#);
        assert_eq!(cut(Some(&raw(r#"["é€"]"#)), 4), r#"["é€"#);
        assert_eq!(cut(Some(&raw("12345")), 5), "12345");
        assert_eq!(cut(None, 4), "");
    }

    #[test]
    fn counts_are_lenient() {
        #[derive(Deserialize)]
        struct Row {
            #[serde(default)]
            n: Count,
        }
        for (json, count) in [
            (r#"{"n":7}"#, Some(7)),
            (r#"{"n":7.9}"#, Some(7)),
            (r#"{"n":-1}"#, None),
            (r#"{"n":null}"#, None),
            (r#"{"n":"7"}"#, None),
            (r#"{"n":[1,{"a":2}]}"#, None),
            (r#"{"n":{"a":[2]}}"#, None),
            (r#"{"n":true}"#, None),
            ("{}", None),
        ] {
            let row: Row = serde_json::from_str(json).unwrap();
            assert_eq!(row.n.0, count, "{json}");
        }
    }

    #[test]
    fn kinds_are_found_wherever_they_stand() {
        let kind_of = |line: &str| {
            let mut found = "(blank)".to_owned();
            let read = read_line(line.as_bytes(), |kind, _| {
                kind.clone_into(&mut found);
                Some(())
            });
            read.map(|()| found)
        };
        for (line, kind) in [
            ("{\"type\":\"a\",\"x\":1}\r", Some("a")),
            ("\u{feff}{\"x\":{\"type\":\"b\"},\"type\":\"a\"}", Some("a")),
            (r#"{"type":"\u0061b"}"#, Some("ab")),
            (" ", Some("(blank)")),
            (r#"{"type":7}"#, None),
            (r#"{"x":1}"#, None),
            (r#"{"type":"#, None),
            ("[]", None),
        ] {
            assert_eq!(kind_of(line).as_deref(), kind, "{line}");
        }
        assert_eq!(read_line(b"{\"type\":\"a\",\"x\":\"\xff\"}", |kind, _| (kind == "a").then_some(())), Some(()));
    }
}
