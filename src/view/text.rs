//! Text that came from outside, made fit for a terminal and for the columns that it has there: counted and cut by
//! columns, not by characters.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub use crate::visible::{block, line};

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
        fn a_cut_text_never_takes_more_than_its_columns(text in "\\PC{0,40}", columns in 0usize..30) {
            prop_assert!(width(&fit(&text, columns)) <= columns);
        }
    }
}
