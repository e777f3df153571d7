//! What is shown and kept of a tool call: one line each of what it acts on and what came of it.

use serde::Deserialize;

use super::json::{Raw, cut, first_line, read};

/// Characters that are kept of a line or of arguments: more than is ever told of them, so that what is a secret is
/// hidden while it is whole, and cut afterwards.
pub(super) const KEPT_CHARS: usize = 4096;

/// The arguments that say what a call acts on, over all engines, the more telling first.
#[derive(Deserialize)]
struct Target<'a> {
    #[serde(borrow, default)]
    command: Raw<'a>,
    #[serde(borrow, default)]
    file_path: Raw<'a>,
    #[serde(borrow, default)]
    notebook_path: Raw<'a>,
    #[serde(borrow, default)]
    pattern: Raw<'a>,
    #[serde(borrow, default, rename = "globPattern")]
    glob_pattern: Raw<'a>,
    #[serde(borrow, default)]
    path: Raw<'a>,
    #[serde(borrow, default)]
    url: Raw<'a>,
    #[serde(borrow, default)]
    query: Raw<'a>,
    #[serde(borrow, default)]
    description: Raw<'a>,
    #[serde(borrow, default)]
    prompt: Raw<'a>,
}

/// One line, at most 4096 characters, that says what a call acts on; empty when its arguments do not say.
pub(super) fn summary(arguments: Raw<'_>) -> String {
    let Some(target) = read::<Target<'_>>(arguments) else { return String::new() };
    [
        target.command,
        target.file_path,
        target.notebook_path,
        target.pattern,
        target.glob_pattern,
        target.path,
        target.url,
        target.query,
        target.description,
        target.prompt,
    ]
    .into_iter()
    .find_map(|raw| first_line(raw, KEPT_CHARS).filter(|line| !line.is_empty()))
    .unwrap_or_default()
}

/// The arguments as the stream has them, at most 4096 characters.
pub(super) fn arguments(raw: Raw<'_>) -> String {
    cut(raw, KEPT_CHARS)
}

/// A text block of a result.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Raw<'a>,
}

/// The first line of a result that is a string or a list of blocks, at most 4096 characters.
pub(super) fn result_line(content: Raw<'_>) -> String {
    first_line(content, KEPT_CHARS)
        .or_else(|| {
            let parts: Vec<Part<'_>> = read(content)?;
            parts.into_iter().find_map(|part| first_line(part.text, KEPT_CHARS))
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("test JSON")
    }

    #[test]
    fn a_summary_names_what_the_call_acts_on() {
        for (json, line) in [
            (r#"{"description":"d","command":"cargo test\nls"}"#, "cargo test"),
            (r#"{"file_path":"src/a.rs","content":"x"}"#, "src/a.rs"),
            (r#"{"path":".","pattern":"fn main"}"#, "fn main"),
            (r#"{"other":1}"#, ""),
            ("[1]", ""),
            (r#"{"command":7,"path":"p"}"#, "p"),
        ] {
            assert_eq!(summary(Some(&raw(json))), line, "{json}");
        }
        let long = format!(r#"{{"command":"{}"}}"#, "é".repeat(5000));
        assert_eq!(summary(Some(&raw(&long))).chars().count(), KEPT_CHARS);
    }

    #[test]
    fn a_result_line_comes_from_text_or_blocks() {
        assert_eq!(result_line(Some(&raw(r#""one\ntwo""#))), "one");
        assert_eq!(result_line(Some(&raw(r#"[{"type":"image"},{"type":"text","text":"a\nb"}]"#))), "a");
        assert_eq!(result_line(Some(&raw("{}"))), "");
        assert_eq!(result_line(None), "");
    }
}
