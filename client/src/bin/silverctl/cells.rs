//! `silverctl cells` and `silverctl cell`: where the cells of a node are, what they cost, and where
//! they are to be.

use std::cmp::Reverse;

use clap::{Args, Subcommand, ValueEnum};
use indicatif::BinaryBytes;
use serde_json::{Value as Json, json};
use silverback_client::Cell;

use crate::connection::ConnectionArgs;
use crate::error::Done;
use crate::figures::{counted, grouped, of_core};
use crate::shown::ShownArgs;
use crate::table::{Table, TableValue};

/// List a node's cells: those that hold a series, and those that are pinned.
#[derive(Debug, Args)]
pub(crate) struct CellsArgs {
    /// Only those of this shard.
    #[arg(long, value_name = "NUMBER")]
    shard: Option<u32>,
    /// Which come first.
    #[arg(long, value_enum, default_value_t = Order::Number)]
    sort: Order,
    /// At most so many.
    #[arg(long, value_name = "CELLS")]
    limit: Option<usize>,
    #[command(flatten)]
    shown: ShownArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// By number.
    Number,
    /// Those that take most of their core.
    Load,
    /// Those with the most series.
    Series,
}

/// Move a cell, or say that it stays.
#[derive(Debug, Subcommand)]
pub(crate) enum CellCommand {
    /// Keep a cell where it is, until it is unpinned or the node ends.
    Pin {
        /// Its number.
        cell: u32,
    },
    /// Let a cell be moved again.
    Unpin {
        /// Its number.
        cell: u32,
    },
    /// Move a cell to a shard now, pinned or not, while traffic flows.
    Move {
        /// Its number.
        cell: u32,
        /// The shard that is to have it.
        #[arg(long, value_name = "SHARD")]
        to: u32,
    },
}

/// Lists them.
pub(crate) async fn list(arguments: &CellsArgs, connection: &ConnectionArgs) -> Done {
    let mut cells = connection.connect().await?.admin().cells(arguments.shard).await?;
    sort(&mut cells, arguments.sort);
    cells.truncate(arguments.limit.unwrap_or(usize::MAX));
    arguments.shown.print(&cells, table, to_json)
}

/// Does what the command says, and reports what came of it.
pub(crate) async fn run(command: CellCommand, connection: &ConnectionArgs) -> Done {
    let admin = connection.connect().await?.admin();
    match command {
        CellCommand::Pin { cell } => {
            admin.pin_cell(cell).await?;
            println!("cell {cell} is pinned");
        }
        CellCommand::Unpin { cell } => {
            admin.unpin_cell(cell).await?;
            println!("cell {cell} is not pinned");
        }
        CellCommand::Move { cell, to } => {
            let moved = admin.move_cell(cell, to).await?;
            let series = counted(moved.series, "series", "series");
            println!(
                "cell {cell} moved from shard {} to shard {to}: {series}, {} in {:.1?}; its writes waited {:.1?}",
                moved.from_shard,
                BinaryBytes(moved.bytes),
                moved.took,
                moved.paused,
            );
        }
    }
    Ok(())
}

fn sort(cells: &mut [Cell], order: Order) {
    match order {
        Order::Number => cells.sort_by_key(|cell| cell.number),
        Order::Load => {
            cells.sort_by_key(|cell| (Reverse((cell.busy_us_per_s, cell.samples_per_s)), cell.number));
        }
        Order::Series => cells.sort_by_key(|cell| (Reverse(cell.series), cell.number)),
    }
}

fn table(cells: &[Cell]) -> Table {
    let mut table = Table::new(&["cell", "shard", "core", "samples/s", "series", "memory", "pinned"]);
    for cell in cells {
        let texts = [
            cell.number.to_string(),
            cell.shard.to_string(),
            of_core(cell.busy_us_per_s),
            grouped(cell.samples_per_s),
            grouped(cell.series),
            BinaryBytes(cell.memory_bytes).to_string(),
            if cell.pinned { "yes" } else { "" }.to_owned(),
        ];
        table.push(texts.into_iter().map(TableValue::plain).collect());
    }
    table
}

fn to_json(cell: &Cell) -> Json {
    json!({
        "cell": cell.number,
        "shard": cell.shard,
        "busy_us_per_s": cell.busy_us_per_s,
        "samples_per_s": cell.samples_per_s,
        "samples": cell.samples,
        "series": cell.series,
        "memory_bytes": cell.memory_bytes,
        "pinned": cell.pinned,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(order: Order, expect: [u32; 3]) {
        let cell = |number, busy_us_per_s, series| Cell { number, busy_us_per_s, series, ..Cell::default() };
        let mut cells = [cell(2, 50, 1), cell(0, 10, 7), cell(1, 90, 3)];
        sort(&mut cells, order);
        assert_eq!(cells.map(|cell| cell.number), expect);
    }

    #[test]
    fn cells_come_in_the_order_that_is_asked_for() {
        check(Order::Number, [0, 1, 2]);
        check(Order::Load, [1, 2, 0]);
        check(Order::Series, [0, 1, 2]);
    }
}
