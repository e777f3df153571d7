//! A table of text in columns.

/// Columns of words and numbers; the first is aligned to the left, all others to the right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with its heading.
    pub fn new<T: Into<String>>(heading: impl IntoIterator<Item = T>) -> Self {
        Self { rows: vec![heading.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row.
    pub fn push<T: Into<String>>(&mut self, row: impl IntoIterator<Item = T>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// Puts a name in front of every row but the heading.
    pub fn prefix_rows(&mut self, name: &str) {
        for cell in self.rows.iter_mut().skip(1).filter_map(|row| row.first_mut()) {
            *cell = format!("{name} {cell}");
        }
    }

    /// Adds the rows of another table with the same heading.
    pub fn append(&mut self, other: Self) {
        self.rows.extend(other.rows.into_iter().skip(1));
    }

    /// The lines, without spaces at their ends.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let space = " ".repeat(widths[column] - cell.chars().count());
                let parts = if column == 0 { [cell.as_str(), &space] } else { [&space, cell.as_str()] };
                line.push_str(if column == 0 { "" } else { "  " });
                line.extend(parts);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["policy", "cost"]);
        table.push(["never", "1,000"]);
        table.push(["é", "9"]);
        assert_eq!(table.text(), "policy   cost\nnever   1,000\né           9\n");
    }
}
