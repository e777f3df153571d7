//! Text from outside as text in SVG and HTML, in content and in quoted attributes alike.

use super::text;

/// Escapes a text of one line.
pub fn escape(raw: &str) -> String {
    entities(&text::line(raw))
}

/// Escapes a text of several lines.
pub fn escape_block(raw: &str) -> String {
    entities(&text::block(raw))
}

fn entities(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML 1.0 has no place for these two.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        let escaped = escape("<script>alert(1)</script> \"><img onerror='x'> & \u{1b}[31m\u{202e}\u{ffff}");
        assert_eq!(
            escaped,
            "&lt;script&gt;alert(1)&lt;/script&gt; &quot;&gt;&lt;img onerror=&#39;x&#39;&gt; &amp; ␛[31m⟨202e⟩\u{fffd}"
        );
    }
}
