//! Aligned tables that use the width there is and drop their last columns below it.

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
}

/// Blanks between two columns.
const GAP: usize = 2;

impl Table {
    /// A table with these columns.
    pub fn new(columns: impl IntoIterator<Item = (&'static str, Align)>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row; cells that are missing are empty, cells beyond the columns are not shown.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes the table into so many columns of text; `None` is as wide as it gets.
    ///
    /// # Errors
    ///
    /// What `out` answers.
    pub fn write(&self, out: &mut dyn Write, width: Option<usize>, paint: Paint) -> io::Result<()> {
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|column| self.column_width(column)).collect();
        if let Some(width) = width {
            while widths.len() > 1 && widths.iter().sum::<usize>() + GAP * (widths.len() - 1) > width {
                widths.pop();
            }
            if let [only] = widths.as_mut_slice() {
                *only = width.min(*only);
            }
        }
        let head: Vec<Cell> = self.columns.iter().map(|(title, _)| Cell::from(*title).ink(Ink::Quiet)).collect();
        for row in std::iter::once(&head).chain(&self.rows) {
            self.write_row(out, row, &widths, paint)?;
        }
        Ok(())
    }

    fn column_width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| text::width(&cell.text));
        cells.fold(text::width(self.columns[column].0), usize::max)
    }

    fn write_row(&self, out: &mut dyn Write, row: &[Cell], widths: &[usize], paint: Paint) -> io::Result<()> {
        let nothing = Cell::default();
        let cell = |column: usize| row.get(column).unwrap_or(&nothing);
        // Blanks at the end of a line help nobody.
        let last = (0..widths.len()).rev().find(|&column| !cell(column).text.is_empty());
        let Some(last) = last else { return writeln!(out) };
        for (column, &width) in widths.iter().enumerate().take(last + 1) {
            let Cell { text, ink } = cell(column);
            let shown = text::fit(text, width);
            let blanks = " ".repeat(width - text::width(&shown));
            let gap = if column == 0 { "" } else { "  " };
            let shown = paint.ink(*ink, &shown);
            match self.columns[column].1 {
                Align::Right => write!(out, "{gap}{blanks}{shown}")?,
                Align::Left if column == last => write!(out, "{gap}{shown}")?,
                Align::Left => write!(out, "{gap}{shown}{blanks}")?,
            }
        }
        writeln!(out)
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
    fn below_the_width_the_last_columns_go_and_the_first_is_cut() {
        assert_snapshot!(written(Some(17)), @"
        NAME     TOKENS
        健康          9
        builder    2.1M
        ");
        assert_snapshot!(written(Some(5)), @"
        NAME
        健康
        buil…
        ");
    }
}
