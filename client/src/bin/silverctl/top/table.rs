//! Shards and cells as rows of text.

use indicatif::BinaryBytes;

use super::rates::{CellRates, Rates, ShardRates};
use crate::figures::{grouped, of_core};
use crate::shards::cpu;
use crate::table::{Column, Table, TableValue, Tone};

/// Parts of a whole from which on a value is worth a look, and near its end.
const WARM: f64 = 0.7;
const HOT: f64 = 0.9;
const BAR_WIDTH: usize = 10;

impl Table {
    /// One row for each shard, and one for all where there are several.
    pub(crate) fn of_shards(rates: &Rates) -> Self {
        let number = Column::of_numbers;
        // In the order in which they are read; what a narrow screen leaves out first weighs least.
        let mut table = Self::of(vec![
            number("shard"),
            number("cpu").weighing(4),
            number("samples/s"),
            number("refused/s").weighing(8),
            number("busy").weighing(10),
            number("series").weighing(6),
            number("new/s").weighing(5),
            number("commits/s").weighing(2),
            number("queued").weighing(7),
            number("memory").weighing(9),
            number("WAL").weighing(3),
            number("cells").weighing(1),
        ]);
        let one = |shard: &ShardRates| shard_row(shard.now.number.to_string(), cpu(&shard.now), shard);
        rates.shards.iter().map(one).for_each(|row| table.push(row));
        if rates.shards.len() > 1 {
            table.push(shard_row("all".to_owned(), String::new(), &rates.all));
        }
        table
    }

    /// The busiest cells.
    pub(crate) fn of_cells(rates: &Rates, count: usize) -> Self {
        let number = Column::of_numbers;
        let mut table = Self::of(vec![
            number("cell"),
            number("shard").weighing(3),
            number("core").weighing(5),
            number("of all").weighing(2),
            number("samples/s").weighing(4),
            number("series").weighing(1),
        ]);
        rates.cells.iter().take(count).map(cell_row).for_each(|row| table.push(row));
        table
    }
}

fn shard_row(number: String, cpu: String, shard: &ShardRates) -> Vec<TableValue> {
    let (now, per_s) = (&shard.now, shard.per_s);
    let memory = part(now.memory_bytes, now.memory_bytes_max);
    vec![
        TableValue::plain(number),
        TableValue::plain(cpu),
        TableValue::plain(rate(per_s.map(|per_s| per_s.samples))),
        TableValue {
            text: rate(per_s.map(|per_s| per_s.refused)),
            tone: if per_s.is_some_and(|per_s| per_s.refused > 0.0) { Tone::Warm } else { Tone::Plain },
        },
        per_s.map_or_else(|| TableValue::plain("–"), |per_s| busy(per_s.busy)),
        TableValue::plain(grouped(now.series)),
        TableValue::plain(rate(per_s.map(|per_s| per_s.series_created))),
        TableValue::plain(rate(per_s.map(|per_s| per_s.commits))),
        TableValue::plain(grouped(now.queued)),
        TableValue {
            text: format!("{} ({:.0} %)", BinaryBytes(now.memory_bytes), memory * 100.0),
            tone: tone(memory),
        },
        TableValue::plain(BinaryBytes(now.wal_bytes).to_string()),
        TableValue::plain(grouped(now.cells.into())),
    ]
}

fn cell_row(cell: &CellRates) -> Vec<TableValue> {
    let part = cell.part.map_or("–".to_owned(), |part| format!("{:.1} %", part * 100.0));
    let texts = [
        cell.now.number.to_string(),
        cell.now.shard.to_string(),
        of_core(cell.now.busy_us_per_s),
        part,
        grouped(cell.now.samples_per_s),
        grouped(cell.now.series),
    ];
    texts.into_iter().map(TableValue::plain).collect()
}

fn rate(per_s: Option<f64>) -> String {
    per_s.map_or("–".to_owned(), |per_s| grouped(per_s.round() as u64))
}

fn part(value: u64, max: u64) -> f64 {
    if max == 0 { 0.0 } else { value as f64 / max as f64 }
}

fn tone(part: f64) -> Tone {
    if part >= HOT {
        Tone::Hot
    } else if part >= WARM {
        Tone::Warm
    } else {
        Tone::Plain
    }
}

/// A bar and a number.
fn busy(part: f64) -> TableValue {
    let full = ((part * BAR_WIDTH as f64).round() as usize).min(BAR_WIDTH);
    let text = format!("{}{} {:>3.0} %", "█".repeat(full), "·".repeat(BAR_WIDTH - full), part * 100.0);
    TableValue { text, tone: tone(part) }
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::look;
    use super::*;

    fn rates() -> Rates {
        let (older, newer) =
            (look(10, [1_000_000, 3000], [10, 30, 60]), look(14, [1_000_000, 3000], [10, 30, 60]));
        Rates::between(Some(&older), &newer)
    }

    #[test]
    fn shards_are_rows_and_so_is_their_sum() {
        let lines: Vec<_> = Table::of_shards(&rates()).lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].starts_with("shard  cpu  samples/s  refused/s"), "{}", lines[0]);
        let words: Vec<_> = lines[1].split_whitespace().collect();
        assert_eq!(words[..6], ["0", "0", "1,000,000", "1", "███·······", "25"]);
        assert!(lines[1].contains("64.00 MiB (25 %)   5.00 GiB"), "{}", lines[1]);
        assert!(lines[3].trim_start().starts_with("all"), "{}", lines[3]);
    }

    #[test]
    fn no_more_cells_than_asked_for_the_hottest_first() {
        let lines: Vec<_> = Table::of_cells(&rates(), 2).lines().collect();
        let words: Vec<_> = lines[1].split_whitespace().collect();
        assert_eq!((lines.len(), words), (3, vec!["2", "0", "0.06", "%", "60.0", "%", "60", "10"]));
    }

    #[test]
    fn columns_are_aligned() {
        let widths: Vec<_> = Table::of_shards(&rates()).rows().map(|row| row.len()).collect();
        assert_eq!(widths, [12; 4]);
        let table = Table::of_cells(&rates(), 3);
        let lines: Vec<usize> =
            table.rows().map(|row| row.iter().map(|v| v.text.chars().count()).sum()).collect();
        assert!(lines.iter().all(|width| *width == lines[0]), "{lines:?}");
    }

    #[test]
    fn eighty_columns_hold_what_matters_most() {
        let (mut shards, mut cells) = (Table::of_shards(&rates()), Table::of_cells(&rates(), 3));
        assert_eq!(shards.narrow(80), ["cells", "commits/s", "WAL", "cpu", "new/s"]);
        assert!(shards.lines().all(|line| line.chars().count() <= 80));
        let head = shards.lines().next().expect("a head");
        let names: Vec<_> = head.split_whitespace().collect();
        assert_eq!(names, ["shard", "samples/s", "refused/s", "busy", "series", "queued", "memory"]);
        assert!(cells.narrow(80).is_empty());
    }

    #[test]
    fn what_is_nearly_full_is_hot() {
        assert_eq!([0.0, 0.7, 0.9, 1.5].map(tone), [Tone::Plain, Tone::Warm, Tone::Hot, Tone::Hot]);
        assert_eq!(busy(1.2).text, "██████████ 120 %");
    }
}
