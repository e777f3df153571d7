//! Aligned tables that use the width there is: below it prose goes on in the next line, columns that can be spared go,
//! and the table says which.

use std::io::{self, Write};

use super::paint::{Ink, Paint};
use super::text;

/// On which side a column's blanks stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// A cell: its text, and what it says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    ink: Ink,
}

impl Cell {
    /// Colours the cell.
    #[must_use]
    pub fn ink(mut self, ink: Ink) -> Self {
        self.ink = ink;
        self
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    /// Takes any text; what could steer a terminal is made visible.
    fn from(text: T) -> Self {
        Self { text: text::line(text.as_ref()).into_owned(), ink: Ink::Text }
    }
}

/// A table, row by row.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
    /// Columns to do without where the width is too small, the least needed one first.
    spare: &'static [&'static str],
    last: Last,
}

/// What becomes of the last column where it does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// It is a column like any other.
    Whole,
    /// It goes on in the next line, and where little room is left stands below the row.
    Wrapped,
    /// It is cut.
    Cut,
}

impl Last {
    /// Columns below which others go, or it goes itself, rather than that it becomes narrower.
    fn least(self) -> usize {
        match self {
            Self::Whole => usize::MAX,
            Self::Wrapped => 32,
            Self::Cut => 12,
        }
    }
}

/// Blanks between two columns.
const GAP: usize = 2;

/// A table as it fits a screen.
struct Layout {
    /// The columns shown, each with its width.
    shown: Vec<(usize, usize)>,
    /// Titles of the others.
    hidden: Vec<&'static str>,
    /// Whether the last column stands below each row.
    below: bool,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: impl IntoIterator<Item = (&'static str, Align)>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new(), spare: &[], last: Last::Whole }
    }

    /// Where the width is too small, does without these columns, the first one first; then without the last ones.
    #[must_use]
    pub fn spare(mut self, columns: &'static [&'static str]) -> Self {
        self.spare = columns;
        self
    }

    /// Lets the last column, which holds sentences, go on in the next line.
    #[must_use]
    pub fn wrap_last(mut self) -> Self {
        self.last = Last::Wrapped;
        self
    }

    /// Lets the last column be cut where it does not fit.
    #[must_use]
    pub fn cut_last(mut self) -> Self {
        self.last = Last::Cut;
        self
    }

    /// Adds a row; cells that are missing are empty, cells beyond the columns are not shown.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes the table into so many columns of text; `None` is as wide as it gets. Columns that did not fit are named
    /// below it.
    ///
    /// # Errors
    ///
    /// What `out` answers.
    pub fn write(&self, out: &mut dyn Write, width: Option<usize>, paint: Paint) -> io::Result<()> {
        let layout = self.layout(width);
        let head: Vec<Cell> = self.columns.iter().map(|(title, _)| Cell::from(*title).ink(Ink::Quiet)).collect();
        self.write_row(out, &head, &layout.shown, paint)?;
        for row in &self.rows {
            self.write_row(out, row, &layout.shown, paint)?;
            if let (true, Some(cell), Some(width)) = (layout.below, row.get(self.columns.len() - 1), width) {
                for line in text::wrap(&cell.text, width.saturating_sub(GAP)) {
                    writeln!(out, "{}{}", " ".repeat(GAP), paint.ink(cell.ink, &line))?;
                }
            }
        }
        if let (Some(width), false) = (width, layout.hidden.is_empty()) {
            let hidden = format!("(no room for {}; --json has them)", layout.hidden.join(", "));
            for line in text::wrap(&hidden, width) {
                writeln!(out, "{}", paint.ink(Ink::Quiet, &line))?;
            }
        }
        Ok(())
    }

    fn layout(&self, width: Option<usize>) -> Layout {
        let all = self.columns.len();
        let mut shown: Vec<(usize, usize)> = (0..all).map(|column| (column, self.column_width(column))).collect();
        let mut hidden = Vec::new();
        let Some(width) = width else { return Layout { shown, hidden: Vec::new(), below: false } };
        let (mut spare, mut below) = (self.spare.iter(), false);
        // What the table takes when its last column is as narrow as it may be.
        let takes = |shown: &[(usize, usize)]| {
            let least = |(column, natural): &(usize, usize)| {
                if column + 1 == all { (*natural).min(self.last.least()) } else { *natural }
            };
            shown.iter().map(least).sum::<usize>() + GAP * shown.len().saturating_sub(1)
        };
        while shown.len() > 1 && takes(&shown) > width {
            let spared = spare.find_map(|title| shown.iter().position(|(at, _)| self.columns[*at].0 == *title));
            below |= spared.is_none() && self.last == Last::Wrapped;
            let (column, _) = shown.remove(spared.unwrap_or(shown.len() - 1));
            if column + 1 < all || self.last != Last::Wrapped {
                hidden.push(column);
            }
        }
        let others: usize = shown.iter().rev().skip(1).map(|(_, natural)| natural + GAP).sum();
        if let Some((column, natural)) = shown.last_mut()
            && (*column + 1 == all || others == 0)
        {
            *natural = (*natural).min(width.saturating_sub(others));
        }
        hidden.sort_unstable();
        Layout { below, shown, hidden: hidden.into_iter().map(|column| self.columns[column].0).collect() }
    }

    fn column_width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| text::width(&cell.text));
        cells.fold(text::width(self.columns[column].0), usize::max)
    }

    fn write_row(&self, out: &mut dyn Write, row: &[Cell], shown: &[(usize, usize)], paint: Paint) -> io::Result<()> {
        let nothing = Cell::default();
        let cell = |column: usize| row.get(column).unwrap_or(&nothing);
        // Blanks at the end of a line help nobody.
        let last = shown.iter().rposition(|(column, _)| !cell(*column).text.is_empty());
        let Some(last) = last else { return writeln!(out) };
        let mut further = Vec::new();
        for (place, &(column, width)) in shown.iter().enumerate().take(last + 1) {
            let Cell { text, ink } = cell(column);
            let fits = match self.last {
                Last::Wrapped if column + 1 == self.columns.len() && text::width(text) > width => {
                    let mut lines = text::wrap(text, width).into_iter();
                    let first = lines.next().unwrap_or_default();
                    further = lines.collect();
                    first.into()
                }
                Last::Wrapped | Last::Whole | Last::Cut => text::fit(text, width),
            };
            let blanks = " ".repeat(width - text::width(&fits));
            let gap = if place == 0 { "" } else { "  " };
            let painted = paint.ink(*ink, &fits);
            match self.columns[column].1 {
                Align::Right => write!(out, "{gap}{blanks}{painted}")?,
                Align::Left if place == last => write!(out, "{gap}{painted}")?,
                Align::Left => write!(out, "{gap}{painted}{blanks}")?,
            }
        }
        writeln!(out)?;
        let indent: usize = shown.iter().take(last).map(|(_, width)| width + GAP).sum();
        let ink = cell(self.columns.len() - 1).ink;
        further.iter().try_for_each(|line| writeln!(out, "{}{}", " ".repeat(indent), paint.ink(ink, line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn sample() -> Table {
        let mut table = Table::new([("NAME", Align::Left), ("TOKENS", Align::Right), ("NOTE", Align::Left)]);
        table.row(["健康".into(), "9".into(), Cell::from("\u{1b}[2J")]);
        table.row(["builder".into(), "2.1M".into(), Cell::from("")]);
        table
    }

    fn written(width: Option<usize>) -> String {
        let mut out = Vec::new();
        sample().write(&mut out, width, Paint::Plain).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_aligned_by_width_and_lines_end_without_blanks() {
        assert_snapshot!(written(None), @"
        NAME     TOKENS  NOTE
        健康          9  ␛[2J
        builder    2.1M
        ");
    }

    #[test]
    fn below_the_width_the_last_columns_go_the_first_is_cut_and_the_table_says_so() {
        assert_snapshot!(written(Some(17)), @"
        NAME     TOKENS
        健康          9
        builder    2.1M
        (no room for
        NOTE; --json has
        them)
        ");
        assert_snapshot!(written(Some(5)), @"
        NAME
        健康
        buil…
        (no
        room
        for
        TOKE…
        NOTE;
        --js…
        has
        them)
        ");
    }

    #[test]
    fn what_can_be_spared_goes_first_and_sentences_go_on_in_the_next_line() {
        let titles = [("NAME", Align::Left), ("TOKENS", Align::Right), ("COST", Align::Right), ("NOTE", Align::Left)];
        let mut table = Table::new(titles).spare(&["TOKENS"]).wrap_last();
        let note = "a check was red twice before it was green";
        table.row(["builder".into(), "2.1M".into(), "$1.03".into(), note.into()]);
        let written = |width: usize| {
            let mut out = Vec::new();
            table.write(&mut out, Some(width), Paint::Plain).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_snapshot!(written(56), @"
        NAME     TOKENS   COST  NOTE
        builder    2.1M  $1.03  a check was red twice before it
                                was green
        ");
        assert_snapshot!(written(50), @"
        NAME      COST  NOTE
        builder  $1.03  a check was red twice before it
                        was green
        (no room for TOKENS; --json has them)
        ");
        assert_snapshot!(written(30), @"
        NAME      COST
        builder  $1.03
          a check was red twice before
          it was green
        (no room for TOKENS; --json
        has them)
        ");
    }
}
