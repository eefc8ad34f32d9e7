//! Profiles beside each other, in Markdown. It knows no symbols and no loads.

use std::fmt::Write;

use super::groups::{Group, Share, group_of, shares, unclassified};
use super::loads::Column;
use super::symbols::Symbol;

/// Groups that no column has so much of are left out with their row.
const SHOWN_MIN: f64 = 0.0005;

/// One row for each group, one column for each side: nanoseconds of CPU time for a unit of work, and the share of the
/// process's own.
pub fn markdown(groups: &[Group], columns: &[Column]) -> String {
    let all: Vec<Vec<Share>> = columns.iter().map(|column| shares(groups, &column.profile)).collect();
    let mut text = String::from("| |");
    columns.iter().for_each(|column| text += &format!(" {} |", column.head));
    text += "\n|---|";
    columns.iter().for_each(|_| text += "--:|");
    let Some(first) = all.first() else { return text + "\n" };
    for (at, Share { group, .. }) in first.iter().enumerate() {
        if all.iter().all(|shares| shares[at].share < SHOWN_MIN) {
            continue;
        }
        let cells = columns.iter().zip(&all).map(|(column, shares)| cell(column.cpu_ns, shares[at].share));
        row(&mut text, group, cells);
    }
    row(&mut text, "**all**", columns.iter().map(|column| cell(column.cpu_ns, 1.0)));
    text + "\n\n" + &footnote(columns, &all) + "\n"
}

fn row(text: &mut String, name: &str, cells: impl Iterator<Item = String>) {
    write!(text, "\n| {name} |").expect("text takes text");
    cells.for_each(|cell| *text += &format!(" {cell} |"));
}

fn cell(cpu_ns: f64, share: f64) -> String {
    format!("{} ns ({:.1} %)", nanoseconds(cpu_ns * share), share * 100.0)
}

/// As exact as a thousand samples are.
fn nanoseconds(ns: f64) -> String {
    let digits = if ns < 100.0 { 1 } else { 0 };
    format!("{ns:.digits$}")
}

/// How many samples there are, by which event, and what no group has.
fn footnote(columns: &[Column], all: &[Vec<Share>]) -> String {
    let one = |(column, shares): (&Column, &Vec<Share>)| {
        let samples: u64 = column.profile.symbols.iter().map(|symbol| symbol.samples).sum();
        let (event, other) = (&column.profile.event, unclassified(shares) * 100.0);
        format!("{}: {samples} of {event}, {other:.1} % in no group", column.head)
    };
    let parts: Vec<_> = columns.iter().zip(all).map(one).collect();
    format!("Samples: {}.", parts.join("; "))
}

/// The heaviest symbols of one column, each with its group.
pub fn symbols(groups: &[Group], column: &Column, count: usize) -> String {
    let all: u64 = column.profile.symbols.iter().map(|symbol| symbol.weight).sum();
    let mut heaviest: Vec<&Symbol> = column.profile.symbols.iter().collect();
    heaviest.sort_by_key(|symbol| std::cmp::Reverse(symbol.weight));
    let mut text = format!("| {} | | |\n|--:|---|---|\n", column.head);
    for symbol in heaviest.into_iter().take(count) {
        let share = symbol.weight as f64 / all.max(1) as f64 * 100.0;
        let group = group_of(groups, symbol);
        writeln!(text, "| {share:.1} % | {group} | `{}` |", symbol.name).expect("text takes text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::groups::Pattern::Begins;
    use super::super::groups::tests::symbol;
    use super::super::symbols::Profile;
    use super::*;

    const TABLE: [Group; 3] = [
        Group { name: "kernel: memory", is_kernel: true, patterns: &[Begins("clear")] },
        Group { name: "append", is_kernel: false, patterns: &[Begins("a::")] },
        Group { name: "nobody", is_kernel: false, patterns: &[Begins("n::")] },
    ];

    fn column(head: &str, cpu_ns: f64, symbols: Vec<Symbol>) -> Column {
        let profile = Profile { event: "cycles".to_owned(), symbols };
        Column { head: head.to_owned(), profile, cpu_ns }
    }

    fn columns() -> [Column; 2] {
        let ours = vec![symbol(false, "a::b", 75), symbol(true, "clear_page", 20), symbol(false, "x", 5)];
        let theirs = vec![symbol(false, "a::b", 10), symbol(false, "a::c", 30)];
        [column("ours", 400.0, ours), column("theirs", 1000.0, theirs)]
    }

    #[test]
    fn a_group_s_row_has_nanoseconds_of_a_unit_of_work_and_its_share() {
        assert_eq!(
            markdown(&TABLE, &columns()),
            "| | ours | theirs |\n|---|--:|--:|\n\
             | kernel: memory | 80.0 ns (20.0 %) | 0.0 ns (0.0 %) |\n\
             | append | 300 ns (75.0 %) | 1000 ns (100.0 %) |\n\
             | anything else | 20.0 ns (5.0 %) | 0.0 ns (0.0 %) |\n\
             | **all** | 400 ns (100.0 %) | 1000 ns (100.0 %) |\n\n\
             Samples: ours: 3 of cycles, 5.0 % in no group; theirs: 2 of cycles, 0.0 % in no group.\n"
        );
    }

    #[test]
    fn the_heaviest_symbols_come_first_with_their_group() {
        let [_, theirs] = columns();
        assert_eq!(
            symbols(&TABLE, &theirs, 1),
            "| theirs | | |\n|--:|---|---|\n| 75.0 % | append | `a::c` |\n"
        );
    }
}
