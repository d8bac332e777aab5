//! Plain tables: aligned columns, no borders, nothing truncated, no terminal control characters.

use std::borrow::Cow;

use weir_host::terminal::printable;

/// Rows with a header. The first column is left-aligned, all others are right-aligned.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Table {
    /// Creates a table with this header, whose first `left` columns are left-aligned.
    pub(crate) fn new(head: &[&str], left: usize) -> Self {
        Self { rows: vec![head.iter().map(|cell| printable(cell).into_owned()).collect()], left }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, mut cells: Vec<String>) {
        for cell in &mut cells {
            if let Cow::Owned(shown) = printable(cell) {
                *cell = shown;
            }
        }
        self.rows.push(cells);
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }

    /// Length of its longest line in characters.
    pub(crate) fn width(&self) -> usize {
        self.text().lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    /// The table as text, with one additional left-aligned column.
    pub(crate) fn with_last(&self, title: &str, cells: impl Iterator<Item = String>) -> String {
        let cells = cells.map(|cell| printable(&cell).into_owned());
        let cells = std::iter::once(title.to_owned()).chain(cells);
        let line =
            |(line, cell): (&str, String)| format!("{line}  {cell}").trim_end().to_owned() + "\n";
        self.text().lines().zip(cells).map(line).collect()
    }

    /// The table as text; each line is indented by two spaces.
    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let fill = " ".repeat(widths[column] - cell.chars().count());
                line.push_str("  ");
                if column < self.left {
                    line.push_str(cell);
                    line.push_str(&fill);
                } else {
                    line.push_str(&fill);
                    line.push_str(cell);
                }
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
        let mut table = Table::new(&["NAME", "N"], 1);
        table.row(vec!["a".to_owned(), "1,000".to_owned()]);
        table.row(vec!["long-name".to_owned(), "2".to_owned()]);
        assert_eq!(table.text(), "  NAME           N\n  a          1,000\n  long-name      2\n");
    }
}
