//! What comparisons consist of, and what came of them: figures of all rounds, as a table. It knows no
//! processes and no plots.

use std::collections::BTreeMap;
use std::fmt::Write;

use silverback_load::replay::spread::Spread;

use super::Job;
use super::meter::Figures;
use crate::rebalance::verdict::Bound;

/// One of the comparisons.
#[derive(Debug)]
pub struct Comparison {
    /// As it is asked for, and as its plot is called.
    pub name: &'static str,
    /// What the plot says above it.
    pub title: &'static str,
    /// What is measured, in the table's order.
    pub rows: Vec<Row>,
    /// What the table tells of each.
    pub columns: Vec<Column>,
    /// The column that is plotted.
    pub plotted: usize,
    /// Whether system calls and cache misses are counted for each operation.
    pub counts_events: bool,
    /// What has to hold.
    pub judge: fn(&Results) -> Vec<Bound>,
}

/// One row: a way of doing a piece of work.
#[derive(Debug)]
pub struct Row {
    /// The work, where a comparison has more than one.
    pub setting: String,
    /// Who does it.
    pub side: String,
    /// What a process is to measure.
    pub job: Job,
}

/// One figure of every row.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// The figure's name.
    pub figure: &'static str,
    /// What is above it, with its unit.
    pub head: &'static str,
    /// What the figure is divided by before it is shown.
    pub unit: f64,
    /// Digits after the point.
    pub digits: usize,
}

/// What was measured, by row.
#[derive(Debug)]
pub struct Results {
    /// In the comparison's order.
    pub rows: Vec<Measured>,
}

/// One row's figures of all rounds.
#[derive(Debug)]
pub struct Measured {
    /// As the row's.
    pub setting: String,
    /// As the row's.
    pub side: String,
    figures: BTreeMap<String, Vec<f64>>,
}

impl Measured {
    /// A row that nothing was measured of.
    pub fn new(setting: impl Into<String>, side: impl Into<String>) -> Self {
        Self { setting: setting.into(), side: side.into(), figures: BTreeMap::new() }
    }

    /// Adds a round's figures.
    pub fn add(&mut self, figures: Figures) {
        for (name, value) in figures {
            self.figures.entry(name).or_default().push(value);
        }
    }

    /// A figure's spread. What was never measured isn't a number.
    pub fn spread(&self, figure: &str) -> Spread {
        Spread::of(self.figures.get(figure).into_iter().flatten().copied())
    }

    /// The middle of a figure's rounds.
    pub fn median(&self, figure: &str) -> f64 {
        self.spread(figure).median
    }
}

impl Results {
    /// Nothing yet.
    pub fn of(comparison: &Comparison) -> Self {
        let row = |row: &Row| Measured::new(row.setting.clone(), row.side.clone());
        Self { rows: comparison.rows.iter().map(row).collect() }
    }

    /// The median of a row's figure; not a number where there is no such row.
    pub fn median(&self, setting: &str, side: &str, figure: &str) -> f64 {
        let row = self.rows.iter().find(|row| row.setting == setting && row.side == side);
        row.map_or(f64::NAN, |row| row.median(figure))
    }

    /// The table, in Markdown. Columns that nobody could measure are left out.
    pub fn markdown(&self, columns: &[Column]) -> String {
        let is_measured = |column: &&Column| self.rows.iter().any(|row| !row.median(column.figure).is_nan());
        let columns: Vec<&Column> = columns.iter().filter(is_measured).collect();
        let has_settings = self.rows.iter().any(|row| row.setting != self.rows[0].setting);
        let mut text = String::from(if has_settings { "| work | side |" } else { "| side |" });
        columns.iter().for_each(|column| text += &format!(" {} |", column.head));
        text += if has_settings { "\n|---|---|" } else { "\n|---|" };
        columns.iter().for_each(|_| text += "--:|");
        for row in &self.rows {
            let setting = if has_settings { format!("| {} ", row.setting) } else { String::new() };
            write!(text, "\n{setting}| {} |", row.side).expect("text takes text");
            columns
                .iter()
                .for_each(|column| text += &format!(" {} |", column.cell(row.spread(column.figure))));
        }
        text + "\n"
    }
}

impl Column {
    /// `median (least to most)`; the median alone where it is all the same or was measured once.
    fn cell(&self, Spread { min, median, max }: Spread) -> String {
        let show = |value: f64| format!("{:.*}", self.digits, value / self.unit);
        match (show(min), show(median), show(max)) {
            _ if median.is_nan() => "–".to_owned(),
            (min, median, max) if min == max => median,
            (min, median, max) => format!("{median} ({min} to {max})"),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn results(rows: &[(&str, &str, &[f64])]) -> Results {
        let measured = |(setting, side, values): &(&str, &str, &[f64])| Measured {
            setting: (*setting).to_owned(),
            side: (*side).to_owned(),
            figures: BTreeMap::from([("ns".to_owned(), values.to_vec())]),
        };
        Results { rows: rows.iter().map(measured).collect() }
    }

    const COLUMNS: [Column; 2] = [
        Column { figure: "ns", head: "µs", unit: 1e3, digits: 1 },
        Column { figure: "misses", head: "misses", unit: 1.0, digits: 0 },
    ];

    #[test]
    fn a_table_has_medians_and_their_spread_and_no_empty_column() {
        let table = results(&[("", "a", &[1000.0, 3000.0, 2000.0]), ("", "b", &[500.0])]).markdown(&COLUMNS);
        assert_eq!(table, "| side | µs |\n|---|--:|\n| a | 2.0 (1.0 to 3.0) |\n| b | 0.5 |\n");
    }

    #[test]
    fn settings_have_a_column_where_they_differ() {
        let table = results(&[("x", "a", &[1000.0]), ("y", "a", &[])]).markdown(&COLUMNS);
        assert_eq!(table, "| work | side | µs |\n|---|---|--:|\n| x | a | 1.0 |\n| y | a | – |\n");
    }
}
