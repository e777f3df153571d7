//! Colour, which only repeats what a symbol says.

use anstyle::{AnsiColor, Style};

/// Whether output is coloured; the caller knows the terminal, `NO_COLOR` and the flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Paint {
    /// Text alone.
    #[default]
    Plain,
    /// With ANSI styles.
    Ansi,
}

/// What a stretch of text says; one ink has one meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ink {
    /// Nothing of its own.
    #[default]
    Text,
    /// It went well.
    Good,
    /// It went badly.
    Bad,
    /// It works right now.
    Running,
    /// It deserves a look: a rotation, a relay, a wait.
    Note,
    /// It can be passed over.
    Quiet,
    /// It heads something.
    Strong,
}

impl Ink {
    fn style(self) -> Style {
        let coloured = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
        match self {
            Self::Text => Style::new(),
            Self::Good => coloured(AnsiColor::Green),
            Self::Bad => coloured(AnsiColor::Red),
            Self::Running => coloured(AnsiColor::Cyan),
            Self::Note => coloured(AnsiColor::Yellow),
            Self::Quiet => Style::new().dimmed(),
            Self::Strong => Style::new().bold(),
        }
    }
}

impl Paint {
    /// Writes a text in an ink, or as it is.
    pub fn ink(self, ink: Ink, text: &str) -> String {
        let style = ink.style();
        match self {
            Self::Ansi if !style.is_plain() && !text.is_empty() => format!("{style}{text}{style:#}"),
            Self::Ansi | Self::Plain => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paint_adds_nothing_and_ansi_resets_what_it_sets() {
        assert_eq!(Paint::Plain.ink(Ink::Bad, "✗"), "✗");
        assert_eq!(Paint::Ansi.ink(Ink::Text, "✗"), "✗");
        assert_eq!(Paint::Ansi.ink(Ink::Bad, "✗"), "\u{1b}[31m✗\u{1b}[0m");
    }
}
