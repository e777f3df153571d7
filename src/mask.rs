//! Masking of secrets in texts that people and logs get to see.
//!
//! It hides values of `*_API_KEY` and `*_TOKEN`, bearer headers and `sk-…` keys, by their shape; a
//! [`Mask`] also hides the values that such variables have in an environment, wherever they occur.
//! It never looks at an environment itself, and what decides anything in a run is never masked.

use std::borrow::Cow;

/// What stands in the place of a secret.
pub const MASKED: &str = "***";

/// Values shorter than this are no secrets worth hiding everywhere: hiding `1` would garble every text.
const SHORTEST_SECRET_BYTES: usize = 8;

/// Endings of variable names whose values are secrets.
const SECRET_NAMES: [&str; 2] = ["_API_KEY", "_TOKEN"];

/// The secrets known by their value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Mask {
    values: Vec<String>,
}

impl Mask {
    /// Takes the secrets out of the variables of an environment.
    pub fn of_variables<N: AsRef<str>, V: Into<String>>(variables: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut values: Vec<String> = variables
            .into_iter()
            .filter(|(name, _)| is_secret_name(name.as_ref()))
            .map(|(_, value)| value.into())
            .filter(|value| value.len() >= SHORTEST_SECRET_BYTES)
            .collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { values }
    }

    /// Hides the known values and everything that has the shape of a secret.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for value in &self.values {
            if text.contains(value) {
                text = Cow::Owned(text.replace(value, MASKED));
            }
        }
        match text {
            Cow::Borrowed(text) => secrets(text),
            Cow::Owned(text) => Cow::Owned(secrets(&text).into_owned()),
        }
    }
}

impl std::fmt::Debug for Mask {
    /// Shows how many values there are, never one of them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mask").field("values", &self.values.len()).finish()
    }
}

/// Whether the value of a variable of this name is a secret.
pub fn is_secret_name(name: &str) -> bool {
    let ends_with = |ending: &&str| {
        let start = name.len().checked_sub(ending.len());
        start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
    };
    SECRET_NAMES.iter().any(ends_with)
}

/// Hides what has the shape of a secret: `NAME_API_KEY=…`, `NAME_TOKEN: …`, `Bearer …`, `sk-…`.
pub fn secrets(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut kept = 0;
    let mut at = 0;
    while let Some((start, end)) = next_word(text, at) {
        let word = &text[start..end];
        let secret = if word.starts_with("sk-") && word.len() >= SHORTEST_SECRET_BYTES {
            Some((start + 3, end))
        } else if word.eq_ignore_ascii_case("bearer") {
            credential_after(text, end)
        } else if is_secret_name(word) {
            value_after(text, end)
        } else {
            None
        };
        at = end;
        if let Some((from, to)) = secret {
            out.push_str(&text[kept..from]);
            out.push_str(MASKED);
            kept = to;
            at = to;
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

/// The next run of letters, digits, `_` and `-` at or after `from`, as byte offsets.
fn next_word(text: &str, from: usize) -> Option<(usize, usize)> {
    let start = from + text.get(from..)?.find(is_word)?;
    Some((start, start + length_while(&text[start..], is_word)))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// A credential as headers carry it: after white space, up to the next separator.
fn credential_after(text: &str, from: usize) -> Option<(usize, usize)> {
    let blank = length_while(&text[from..], |c| c == ' ' || c == '\t');
    if blank == 0 {
        return None;
    }
    let start = from + blank;
    let length = length_while(&text[start..], is_credential);
    (length >= SHORTEST_SECRET_BYTES).then_some((start, start + length))
}

/// A value after `=` or `:`, with or without quotes.
fn value_after(text: &str, from: usize) -> Option<(usize, usize)> {
    let gap = length_while(&text[from..], |c| matches!(c, '"' | '\'' | '\\' | ' ' | '=' | ':'));
    if !text[from..from + gap].contains(['=', ':']) {
        return None;
    }
    let start = from + gap;
    let length = length_while(&text[start..], is_credential);
    (length > 0).then_some((start, start + length))
}

fn is_credential(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, '"' | '\'' | '\\' | ',' | ';' | '&' | ')' | '}' | ']' | '<' | '>')
}

fn length_while(text: &str, keep: impl Fn(char) -> bool) -> usize {
    text.find(|c| !keep(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r5_1_secrets_are_hidden_by_their_shape() {
        let cases = [
            ("ANTHROPIC_API_KEY=abc123 next", "ANTHROPIC_API_KEY=*** next"),
            ("env: {\"GITHUB_TOKEN\": \"ghp_x1\", \"A\": 1}", "env: {\"GITHUB_TOKEN\": \"***\", \"A\": 1}"),
            ("Authorization: Bearer eyJhbGciOi.abc-_", "Authorization: Bearer ***"),
            ("key sk-ant-api03-AAAA_BBBB-CC failed", "key sk-*** failed"),
            ("export my_token='s3cret'; ls", "export my_token='***'; ls"),
            ("two sk-aaaaaaaa, sk-bbbbbbbb", "two sk-***, sk-***"),
        ];
        for (text, masked) in cases {
            assert_eq!(secrets(text), masked, "{text}");
        }
    }

    #[test]
    fn texts_without_secrets_stay_as_they_are() {
        for text in [
            "",
            "the bearer of news",
            "set CURSOR_API_KEY environment variable",
            "task-sk-1",
            "max_tokens: 12",
            "é sk-",
        ] {
            assert!(matches!(secrets(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn r5_1_values_of_the_environment_are_hidden_wherever_they_occur() {
        let mask =
            Mask::of_variables([("LOOP_API_KEY", "hunter2hunter2"), ("SHORT_TOKEN", "1"), ("HOME", "visible-home")]);
        assert_eq!(mask.text("with hunter2hunter2 at visible-home 1"), "with *** at visible-home 1");
        assert_eq!(format!("{mask:?}"), "Mask { values: 1 }");
    }
}
