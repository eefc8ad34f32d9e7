//! Rows of text in columns. It knows no terminal: a tone says how much a value matters, not what
//! colour it has.

/// How much a value asks to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
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
pub(crate) struct TableValue {
    /// What it says.
    pub text: String,
    /// How much it matters.
    pub tone: Tone,
}

/// A column's name, and how it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    name: &'static str,
    weight: Weight,
    side: Side,
}

/// How much a column matters where there is no room for all: the lightest is left out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    /// The more, the heavier.
    Of(u8),
    /// It is never left out.
    Kept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// Rows of values, each as wide as its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<TableValue>>,
}

const GAP: &str = "  ";

impl TableValue {
    /// One like any other.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }
}

impl Column {
    /// Of numbers: each value ends where the column does. It is never left out.
    pub(crate) const fn of_numbers(name: &'static str) -> Self {
        Self { name, weight: Weight::Kept, side: Side::Right }
    }

    /// Of words: each value begins where the column does. It is never left out.
    pub(crate) const fn of_words(name: &'static str) -> Self {
        Self { name, weight: Weight::Kept, side: Side::Left }
    }

    /// The same, left out where there is room for heavier ones alone.
    #[must_use]
    pub(crate) const fn weighing(self, weight: u8) -> Self {
        Self { weight: Weight::Of(weight), ..self }
    }
}

impl Table {
    /// A table without rows, of columns with these names, each of numbers.
    pub(crate) fn new(columns: &[&'static str]) -> Self {
        Self::of(columns.iter().copied().map(Column::of_numbers).collect())
    }

    /// A table without rows, of these columns.
    pub(crate) fn of(columns: Vec<Column>) -> Self {
        let head = columns.iter().map(|column| TableValue { text: column.name.to_owned(), tone: Tone::Head });
        Self { rows: vec![head.collect()], columns }
    }

    /// Adds a row, of as many values as there are columns.
    pub(crate) fn push(&mut self, row: Vec<TableValue>) {
        self.rows.push(row);
    }

    /// Leaves the lightest columns out until its lines are no wider than `width` characters, or none is left that
    /// may be left out. The names of those that were, the lightest first.
    pub(crate) fn narrow(&mut self, width: usize) -> Vec<&'static str> {
        let mut left_out = Vec::new();
        while self.width() > width {
            let lightest = self.columns.iter().enumerate().min_by_key(|(_, column)| column.weight);
            let Some((at, Column { name, weight: Weight::Of(_), .. })) = lightest else { break };
            left_out.push(*name);
            self.columns.remove(at);
            self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
        left_out
    }

    fn width(&self) -> usize {
        let gaps = GAP.len() * self.columns.len().saturating_sub(1);
        self.widths().iter().sum::<usize>() + gaps
    }

    fn widths(&self) -> Vec<usize> {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].text.chars().count()).max().unwrap_or(0);
        (0..self.columns.len()).map(width).collect()
    }

    /// Its rows, with every value as wide as its column.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<TableValue>> {
        let widths = self.widths();
        self.rows.iter().map(move |row| {
            let wide = |((value, width), column): ((&TableValue, &usize), &Column)| {
                let text = match column.side {
                    Side::Right => format!("{:>width$}{GAP}", value.text),
                    Side::Left => format!("{:<width$}{GAP}", value.text),
                };
                TableValue { text, tone: value.tone }
            };
            row.iter().zip(&widths).zip(&self.columns).map(wide).collect()
        })
    }

    /// Its lines, without tones.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.rows()
            .map(|row| row.iter().map(|value| value.text.as_str()).collect::<String>().trim_end().to_owned())
    }
}

/// As much of a line as `width` characters hold; one that is cut ends in `…`.
pub(crate) fn cut(line: &str, width: usize) -> String {
    match line.char_indices().nth(width) {
        None => line.to_owned(),
        Some(_) => line.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_value() {
        let mut table = Table::new(&["a", "b"]);
        table.push(["10", "x"].map(TableValue::plain).into());
        table.push(["2", "yy"].map(TableValue::plain).into());
        assert_eq!(table.lines().collect::<Vec<_>>(), [" a   b", "10   x", " 2  yy"]);
    }

    #[test]
    fn words_begin_where_their_column_does() {
        let mut table = Table::of(vec![Column::of_words("a"), Column::of_numbers("b")]);
        table.push(["x", "10"].map(TableValue::plain).into());
        table.push(["yyy", "2"].map(TableValue::plain).into());
        assert_eq!(table.lines().collect::<Vec<_>>(), ["a     b", "x    10", "yyy   2"]);
    }

    #[test]
    fn the_lightest_columns_are_left_out_until_the_others_fit() {
        let check = |width: usize, line: &str, left_out: &[&str]| {
            let number = Column::of_numbers;
            let columns = vec![
                number("id"),
                number("aaaa").weighing(1),
                number("bb").weighing(3),
                number("c").weighing(2),
            ];
            let mut table = Table::of(columns);
            table.push(["1", "2", "3", "4"].map(TableValue::plain).into());
            assert_eq!(table.narrow(width), left_out, "{width}");
            assert_eq!(table.lines().next().as_deref(), Some(line), "{width}");
            assert!(table.rows().all(|row| row.len() + left_out.len() == 4));
        };
        check(15, "id  aaaa  bb  c", &[]);
        check(14, "id  bb  c", &["aaaa"]);
        check(8, "id  bb", &["aaaa", "c"]);
        check(1, "id", &["aaaa", "c", "bb"]);
    }

    #[test]
    fn a_line_is_cut_where_the_width_ends() {
        assert_eq!([cut("höhe", 4), cut("höhen", 4), cut("ab", 1), cut("", 0)], ["höhe", "höh…", "…", ""]);
    }
}
