//! Text that came from outside, made harmless: nothing in it moves the cursor, changes a colour, turns the direction
//! of writing or hides.
//!
//! Control characters become their Unicode pictures (`␛`), marks that steer direction or are invisible become
//! their number (`⟨202e⟩`).

use std::borrow::Cow;
use std::fmt::Write as _;

/// Makes a text fit for one line: line breaks and tabs become blanks.
pub fn line(text: &str) -> Cow<'_, str> {
    let breaks = |letter: char| matches!(letter, '\n' | '\r' | '\t');
    match block(text) {
        Cow::Borrowed(text) if !text.contains(breaks) => Cow::Borrowed(text),
        Cow::Borrowed(text) => Cow::Owned(text.replace(breaks, " ")),
        Cow::Owned(text) => Cow::Owned(text.replace(breaks, " ")),
    }
}

/// Makes a text of several lines fit: line feeds and tabs stay, everything else as in [`line()`].
pub fn block(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match letter {
            '\u{0}'..='\u{1f}' if steers(letter) => shown.push(picture(letter)),
            '\u{7f}' => shown.push('␡'),
            _ if steers(letter) => {
                let _infallible = write!(shown, "⟨{:04x}⟩", u32::from(letter));
            }
            _ => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// The picture of a C0 control character.
fn picture(control: char) -> char {
    char::from_u32(0x2400 + u32::from(control)).unwrap_or('\u{fffd}')
}

/// Whether a character acts on what stands around it, or is not to be seen.
///
/// Bidirectional marks, embeddings and isolates: Unicode 16, UAX 9. Joiners stay, as scripts and emoji need them.
pub(crate) fn steers(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escape_sequences_and_bidi_marks_are_shown_not_obeyed() {
        assert_eq!(line("\x1b[31mred\x1b[0m\x07"), "␛[31mred␛[0m␇");
        assert_eq!(line("user\u{202e}gpj.exe"), "user⟨202e⟩gpj.exe");
        assert_eq!(line("a\u{200b}b\u{9b}c\u{feff}"), "a⟨200b⟩b⟨009b⟩c⟨feff⟩");
        assert_eq!(line("two\nlines\tand  blanks"), "two lines and  blanks");
        assert_eq!(block("two\nlines\tand \x08"), "two\nlines\tand ␈");
    }

    #[test]
    fn what_scripts_and_emoji_need_stays() {
        assert!(matches!(line("naïve 健康 👩‍💻 שלום"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn no_text_keeps_a_character_that_steers(text in any::<String>()) {
            prop_assert!(!line(&text).chars().any(|c| c.is_control() || steers(c)));
            prop_assert!(!block(&text).chars().any(steers));
        }
    }
}
