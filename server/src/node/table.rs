//! Columns that are under each other, and sizes that people can read.

use std::io::{self, Write};

/// Rows of text: the first column begins at the left, the others end at the right.
#[derive(Debug, Default)]
pub(in crate::node) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Only its headings yet.
    pub(in crate::node) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row.
    pub(in crate::node) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes the rows, each after `indent`.
    pub(in crate::node) fn write(&self, out: &mut impl Write, indent: &str) -> io::Result<()> {
        for row in &self.rows {
            write!(out, "{indent}")?;
            for (column, cell) in row.iter().enumerate() {
                let width = self.width(column);
                match column {
                    0 if row.len() == 1 => write!(out, "{cell}")?,
                    0 => write!(out, "{cell:<width$}")?,
                    _ => write!(out, "  {cell:>width$}")?,
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

/// A size with one decimal, in the largest unit that it has one of.
pub(in crate::node) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];

    let (mut size, mut unit) = (bytes as f64, "B");
    for larger in UNITS {
        if size < 1024.0 {
            break;
        }
        (size, unit) = (size / 1024.0, larger);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{size:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_largest_unit_that_they_have_one_of() {
        let expect = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1 << 20, "1.0 MiB")];
        expect.into_iter().for_each(|(bytes, text)| assert_eq!(size(bytes), text));
        assert_eq!(size(5 << 29), "2.5 GiB");
        assert_eq!(size(1 << 50), "1024.0 TiB");
    }

    #[test]
    fn columns_stand_under_each_other() {
        let mut table = TextTable::new(&["file", "size"]);
        table.row(["a".to_owned(), "1.0 KiB".to_owned()]);
        table.row(["longer".to_owned(), "7 B".to_owned()]);
        let mut text = Vec::new();
        table.write(&mut text, "  ").unwrap();
        let expect = "  file       size\n  a       1.0 KiB\n  longer      7 B\n";
        assert_eq!(String::from_utf8(text).unwrap(), expect);
    }
}
