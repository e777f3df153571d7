//! Text that came from outside, made fit for a terminal: nothing in it moves the cursor, changes a colour,
//! turns the direction of writing or hides.
//!
//! Control characters become their Unicode pictures (`␛`), marks that steer direction or are invisible become
//! their number (`⟨202e⟩`). What is left is width-counted and cut by columns, not by characters.

use std::borrow::Cow;
use std::fmt::Write as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

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
fn steers(letter: char) -> bool {
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

/// Columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to so many columns, the last of them `…` when something is missing.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    let mut left = columns.saturating_sub(1);
    for letter in text.chars() {
        let takes = letter.width().unwrap_or(0);
        if takes > left {
            break;
        }
        left -= takes;
        shown.push(letter);
    }
    if columns > 0 {
        shown.push('…');
    }
    Cow::Owned(shown)
}

/// Cuts or fills up a text to exactly so many columns, blanks at the end.
pub fn left(text: &str, columns: usize) -> String {
    let cut = fit(text, columns);
    let blanks = columns.saturating_sub(width(&cut));
    format!("{cut}{}", " ".repeat(blanks))
}

/// Cuts or fills up a text to exactly so many columns, blanks in front.
pub fn right(text: &str, columns: usize) -> String {
    let cut = fit(text, columns);
    let blanks = columns.saturating_sub(width(&cut));
    format!("{}{cut}", " ".repeat(blanks))
}

/// Breaks a sentence into lines of at most so many columns, at blanks; a longer word stands alone, cut.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(fit(word, columns).into_owned()),
        }
    }
    lines
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

    #[test]
    fn cutting_counts_columns() {
        assert_eq!(fit("健康検査", 5), "健康…");
        assert_eq!(fit("健康検査", 8), "健康検査");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(right("7", 3), "  7");
        assert_eq!(left("健", 3), "健 ");
    }

    #[test]
    fn sentences_break_at_blanks() {
        assert_eq!(wrap("one two  three-is-long four", 8), ["one two", "three-i…", "four"]);
        assert!(wrap("", 8).is_empty());
    }

    proptest! {
        #[test]
        fn no_text_keeps_a_character_that_steers(text in any::<String>()) {
            prop_assert!(!line(&text).chars().any(|c| c.is_control() || steers(c)));
            prop_assert!(!block(&text).chars().any(steers));
        }

        #[test]
        fn a_cut_text_never_takes_more_than_its_columns(text in "\\PC{0,40}", columns in 0usize..30) {
            prop_assert!(width(&fit(&text, columns)) <= columns);
        }
    }
}
