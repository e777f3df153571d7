//! What a single value may be: one pure function from a scalar and a shape to a reading.

use serde_json::{Value, json};

use super::problem::did_you_mean;
use super::scalar::Scalar;
use super::table::{Knob, Range, Shape, Unit};
use crate::ids::EngineName;

/// The first number that 64 bits do not hold.
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// The longest name of an agent, check or workflow, as names become file names.
const MAX_NAME_CHARS: usize = 64;

/// What became of a scalar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reading {
    Taken(Value),
    /// Used in another form than written, with the warning that says so.
    Adjusted(Value, String),
    /// Left out, with the warning that says so.
    Ignored(String),
    /// A knob whose default stands.
    Degraded(Knob),
    Wrong(String),
}

/// Reads a scalar as `shape` has it. Shapes that are not scalars refuse it.
pub(crate) fn read(shape: &Shape, scalar: Scalar<'_>, text: &str) -> Reading {
    // No argument, variable or path can hold it.
    if text.contains('\0') {
        return Reading::Wrong("a NUL character has no place in a configuration".to_owned());
    }
    match shape {
        Shape::Knob(knob) => self::knob(*knob, scalar, text),
        Shape::Clamped(range) => clamped(*range, scalar, text),
        Shape::Ttl => ttl(scalar, text),
        Shape::Switch => switch(scalar, text),
        Shape::Whole => whole(scalar, text),
        Shape::Amount => amount(scalar, text),
        Shape::Variable if scalar == Scalar::Null => Reading::Taken(Value::Null),
        Shape::Variable => taken(text),
        _ if scalar == Scalar::Null || text.trim().is_empty() => Reading::Wrong("a value is missing".to_owned()),
        Shape::Text => taken(text),
        Shape::DataDir => data_dir(text),
        Shape::Name => plain_name(text).map_or_else(Reading::Wrong, |()| taken(text)),
        Shape::StepName => step_name(text).map_or_else(Reading::Wrong, |()| taken(text)),
        Shape::Choice(words) if words.contains(&text) => taken(text),
        Shape::Choice(words) => Reading::Wrong(unknown_word(text, words)),
        Shape::Engine => engine(text).map_or_else(Reading::Wrong, taken),
        Shape::Wait if text == "never" || duration_ms(text, 0).is_some_and(|ms| ms >= 1000.0) => taken(text),
        Shape::Wait => Reading::Wrong(format!("`{text}` is no time to wait: a number with s, m, h or d, or `never`")),
        Shape::WebAddress if is_safe_address(text) => taken(text),
        // The address may hold a secret, so it is not repeated.
        Shape::WebAddress => Reading::Wrong("an address that begins with https://, or http://localhost".to_owned()),
        Shape::Patterns
        | Shape::Texts
        | Shape::Choices(_)
        | Shape::OneOrMore
        | Shape::Section(_)
        | Shape::CamelSection(_)
        | Shape::Map(_)
        | Shape::Named(_)
        | Shape::ByEngine(_)
        | Shape::List(_) => Reading::Wrong("no single value expected".to_owned()),
    }
}

fn taken(value: impl Into<Value>) -> Reading {
    Reading::Taken(value.into())
}

fn too_big(text: &str) -> Reading {
    Reading::Wrong(format!("`{text}` does not fit 64 bits"))
}

fn switch(scalar: Scalar<'_>, text: &str) -> Reading {
    if let Scalar::Bool(value) = scalar {
        taken(value)
    } else {
        Reading::Wrong(format!("`{text}` is neither true nor false"))
    }
}

fn whole(scalar: Scalar<'_>, text: &str) -> Reading {
    match scalar {
        Scalar::Integer(value) if value >= 0 => u64::try_from(value).map_or_else(|_| too_big(text), taken),
        Scalar::Unbounded => too_big(text),
        Scalar::Null | Scalar::Bool(_) | Scalar::Integer(_) | Scalar::Fraction(_) | Scalar::Text(_) => {
            Reading::Wrong(format!("`{text}` is no whole number from 0"))
        }
    }
}

fn amount(scalar: Scalar<'_>, text: &str) -> Reading {
    match scalar {
        // Amounts may be minutes, and a timer counts seconds.
        Scalar::Fraction(value) if value >= TWO_TO_64 / 60.0 => too_big(text),
        Scalar::Integer(value) if approximate(value) >= TWO_TO_64 / 60.0 => too_big(text),
        Scalar::Integer(value) if value >= 0 => taken(approximate(value)),
        Scalar::Fraction(value) if value >= 0.0 => taken(value),
        Scalar::Unbounded => too_big(text),
        Scalar::Null | Scalar::Bool(_) | Scalar::Integer(_) | Scalar::Fraction(_) | Scalar::Text(_) => {
            Reading::Wrong(format!("`{text}` is no number from 0"))
        }
    }
}

/// Reads a tolerant knob (SPEC 3.3).
fn knob(knob: Knob, scalar: Scalar<'_>, text: &str) -> Reading {
    let number = match scalar {
        Scalar::Unbounded => return too_big(text),
        Scalar::Integer(value) if value < 0 => return Reading::Degraded(knob),
        Scalar::Integer(value) if !knob.unit.has_fraction() => {
            return u64::try_from(value).map_or_else(|_| too_big(text), taken);
        }
        Scalar::Integer(value) => approximate(value),
        Scalar::Fraction(value) => value,
        Scalar::Null | Scalar::Bool(_) | Scalar::Text(_) => return Reading::Degraded(knob),
    };
    // A timer counts seconds, so that is what has to fit.
    let scale = if knob.unit == Unit::Minutes { 60.0 } else { 1.0 };
    if number * scale >= TWO_TO_64 {
        return too_big(text);
    }
    if number < 0.0 {
        return Reading::Degraded(knob);
    }
    if knob.unit.has_fraction() {
        return taken(number);
    }
    // Nothing above 0 becomes 0, which would switch the limit off.
    if number > 0.0 && number < 1.0 { Reading::Degraded(knob) } else { taken(floor(number)) }
}

/// Reads a number of `context_pruning`, which is brought into its range (CONTEXT 2.1).
fn clamped(range: Range, scalar: Scalar<'_>, text: &str) -> Reading {
    let number = match scalar {
        Scalar::Integer(value) => approximate(value),
        Scalar::Fraction(value) => value,
        Scalar::Unbounded => return too_big(text),
        Scalar::Null | Scalar::Bool(_) | Scalar::Text(_) => return Reading::Wrong(format!("`{text}` is no number")),
    };
    let value = match range {
        Range::Ratio => json!(number.clamp(0.0, 1.0)),
        Range::Count if number >= TWO_TO_64 => return too_big(text),
        Range::Count => json!(floor(number.max(0.0))),
    };
    let same = value.as_f64().is_some_and(|used| (used - number).abs() < f64::EPSILON);
    if same {
        return Reading::Taken(value);
    }
    let message = format!("`{text}` is out of range and counts as {value}");
    Reading::Adjusted(value, message)
}

fn ttl(scalar: Scalar<'_>, text: &str) -> Reading {
    let readable = match scalar {
        Scalar::Integer(_) | Scalar::Fraction(_) | Scalar::Text(_) => duration_ms(text, 60_000).is_some(),
        Scalar::Null | Scalar::Bool(_) | Scalar::Unbounded => false,
    };
    if readable {
        return taken(text);
    }
    Reading::Ignored(format!("`{text}` is no time to live (a number with ms, s, m, h or d); the default stands"))
}

/// Milliseconds of a number with ms, s, m, h or d; a bare number counts `bare_ms` each, or is none if that is 0.
pub(crate) fn duration_ms(text: &str, bare_ms: u32) -> Option<f64> {
    let text = text.trim();
    let split = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" if bare_ms > 0 => f64::from(bare_ms),
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 60e3,
        "h" => 3.6e6,
        "d" => 86.4e6,
        _ => return None,
    };
    let value = number.trim().parse::<f64>().ok()? * factor;
    (value.abs() < TWO_TO_64).then_some(value)
}

/// Whole seconds of a number with ms, s, m, h or d.
pub(crate) fn duration_secs(text: &str) -> Option<u64> {
    duration_ms(text, 0).filter(|ms| *ms >= 0.0).map(|ms| floor(ms / 1000.0))
}

/// Refuses names that could not stand in a file name or a flag.
pub(crate) fn plain_name(text: &str) -> Result<(), String> {
    let first = text.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
    let all = text.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-'));
    if first && all && text.len() <= MAX_NAME_CHARS {
        return Ok(());
    }
    Err(format!("`{text}` is no name: up to {MAX_NAME_CHARS} letters, digits, `_` and `-`"))
}

/// Refuses names of steps that an expression could not use.
pub(crate) fn step_name(text: &str) -> Result<(), String> {
    let first = text.starts_with(|letter: char| letter.is_ascii_lowercase());
    let all = text.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_');
    if first && all && text.len() <= MAX_NAME_CHARS {
        return Ok(());
    }
    Err(format!("`{text}` is no name of a step: [a-z][a-z0-9_]*, up to {MAX_NAME_CHARS} characters"))
}

/// The name of an engine for any accepted spelling.
pub(crate) fn engine(text: &str) -> Result<&'static str, String> {
    let names = EngineName::ALL.map(EngineName::as_str);
    EngineName::parse(text).map(EngineName::as_str).ok_or_else(|| unknown_word(text, &names))
}

/// The message for a word that is not one of `words`.
pub(crate) fn unknown_word(word: &str, words: &[&str]) -> String {
    format!("`{word}` is none of {}{}", words.join(", "), did_you_mean(word, words.iter().copied()))
}

/// Why a text is no pattern of paths below the top of the work tree, or `None` if it is one.
pub(crate) fn pattern_flaw(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        return Some("empty entry; a pattern here would allow every path");
    }
    if text.contains('\0') {
        return Some("a NUL byte stands in no path");
    }
    if text.starts_with('/') {
        return Some("patterns are relative to the top of the work tree; leave the first `/` out");
    }
    if text.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Some("`.` and `..` have no meaning in a pattern; write it from the top of the work tree");
    }
    None
}

/// Refuses folders in which fia's own files would lie among those of others.
fn data_dir(text: &str) -> Reading {
    let parts: Vec<_> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Reading::Wrong("`..` has no place in a data directory".to_owned());
    }
    match parts.first() {
        None => Reading::Wrong(format!("`{text}` is no folder of its own")),
        Some(&".git") => Reading::Wrong("the data directory cannot be inside of .git".to_owned()),
        Some(_) => taken(text),
    }
}

/// Whether a message may be sent there: encrypted, or to this machine.
fn is_safe_address(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix("https://") {
        return !rest.is_empty() && !rest.starts_with('/');
    }
    let Some(rest) = text.strip_prefix("http://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return false;
    }
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => authority.split(':').next(),
    };
    matches!(host, Some("localhost" | "127.0.0.1" | "::1"))
}

#[expect(clippy::cast_precision_loss, reason = "limits that large are compared, not counted")]
fn approximate(value: i128) -> f64 {
    value as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "callers checked 0 <= value < 2^64")]
fn floor(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_or_a_meaning_for_bare_numbers() {
        let rows =
            [("5m", Some(300_000.0)), ("1h", Some(3.6e6)), ("250 ms", Some(250.0)), ("90", Some(5.4e6)), ("x", None)];
        for (text, expected) in rows {
            assert_eq!(duration_ms(text, 60_000), expected, "{text}");
        }
        assert_eq!(duration_ms("90", 0), None);
        assert_eq!(duration_ms("-5m", 0), Some(-300_000.0));
    }

    #[test]
    fn no_text_holds_a_nul_character() {
        for shape in [Shape::Text, Shape::Variable, Shape::DataDir, Shape::Ttl, Shape::WebAddress] {
            let text = "https://a\0b";
            assert!(matches!(read(&shape, Scalar::Text(text), text), Reading::Wrong(_)), "{shape:?}");
        }
    }

    #[test]
    fn patterns_outside_of_the_work_tree_are_refused() {
        for text in ["", "  ", "/etc", "../x", "a/../b", "./src/", ".", "a\0b"] {
            assert!(pattern_flaw(text).is_some(), "{text:?}");
        }
        for text in ["src/", "**/*.md", ".env*", "a b", "[x]", "!x", "C:\\x"] {
            assert_eq!(pattern_flaw(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_data_directory_is_a_folder_of_its_own() {
        let of = |text: &str| read(&Shape::DataDir, Scalar::Text(text), text);
        for text in [".", "./", "/", "..", "a/../..", ".git", ".git/fia"] {
            assert!(matches!(of(text), Reading::Wrong(_)), "{text}");
        }
        for text in [".fia", "build/fia", "/var/fia", "..fia"] {
            assert_eq!(of(text), taken(text), "{text}");
        }
    }

    #[test]
    fn messages_are_sent_encrypted_or_to_this_machine() {
        for text in ["https://example.invalid/x", "http://localhost:8080/x", "http://127.0.0.1", "http://[::1]:9/"] {
            assert!(is_safe_address(text), "{text}");
        }
        for text in
            ["http://example.invalid", "http://localhost@example.invalid/", "ftp://localhost", "https://", "http://"]
        {
            assert!(!is_safe_address(text), "{text}");
        }
        assert!(!is_safe_address("http://localhost.example.invalid/"));
    }
}
