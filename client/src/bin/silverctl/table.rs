//! Rows of text in columns. It knows no terminal: a tone says how much a value matters, not what
//! colour it has.

/// How much a value asks to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A column's name.
    Head,
    /// As any other.
    Plain,
    /// Worth a look.
    Warm,
    /// Near its end.
    Hot,
}

/// A value, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// What it says.
    pub text: String,
    /// How much it matters.
    pub tone: Tone,
}

/// Rows of values, each as wide as its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table(Vec<Vec<Value>>);

const GAP: &str = "  ";

impl Value {
    /// One like any other.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }
}

impl Table {
    /// A table without rows, of columns with these names.
    pub fn new(columns: &[&str]) -> Self {
        let head = columns.iter().map(|name| Value { text: (*name).to_owned(), tone: Tone::Head });
        Self(vec![head.collect()])
    }

    /// Adds a row, of as many values as there are columns.
    pub fn push(&mut self, row: Vec<Value>) {
        self.0.push(row);
    }

    /// Its rows, with every value as wide as its column.
    pub fn rows(&self) -> impl Iterator<Item = Vec<Value>> {
        let columns = self.0.first().map_or(0, Vec::len);
        let width =
            |column: usize| self.0.iter().map(|row| row[column].text.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        self.0.iter().map(move |row| {
            let wide = |(value, width): (&Value, &usize)| Value {
                text: format!("{:>width$}{GAP}", value.text),
                tone: value.tone,
            };
            row.iter().zip(&widths).map(wide).collect()
        })
    }

    /// Its lines, without tones.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.rows()
            .map(|row| row.iter().map(|value| value.text.as_str()).collect::<String>().trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_value() {
        let mut table = Table::new(&["a", "b"]);
        table.push(["10", "x"].map(Value::plain).into());
        table.push(["2", "yy"].map(Value::plain).into());
        assert_eq!(table.lines().collect::<Vec<_>>(), [" a   b", "10   x", " 2  yy"]);
    }
}
