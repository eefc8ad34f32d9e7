//! The move of one large cell, back and forth, beside a load that leaves the cores room: what it costs
//! the requests.

use std::error::Error;
use std::time::Duration;

use silverback_client::{Admin, MovedCell};
use silverback_load::catalogue::Label;
use silverback_model::CellId;
use silverback_model::limits::CELL_COUNT;
use tokio::time::sleep;

use super::feed::{Feed, FeedOptions};
use super::node::Node;
use super::population::{Search, Weights};
use super::seconds::{Second, Seconds, table};
use super::verdict::{Bound, Kind};

/// The cell that is moved.
const CELL: CellId = CellId(700);
const _: () = assert!((CELL.0 as usize) < CELL_COUNT);
/// A request may be so much slower than the slowest of a second without a move.
const SLOWER_MS_MAX: f64 = 20.0;

/// How much.
#[derive(Debug, Clone)]
pub struct BigCellOptions {
    /// Series of the cell.
    pub series: usize,
    /// Connections.
    pub connections: usize,
    /// Samples of a request.
    pub batch: usize,
    /// How long a connection rests after an answer.
    pub pause: Duration,
    /// Moves, a second apart, and seconds without any before.
    pub moves: usize,
}

/// What the moves came to.
#[derive(Debug)]
pub struct BigCell {
    seconds: Seconds,
    still: [usize; 2],
    moving: [usize; 2],
    moves: Vec<MovedCell>,
}

/// Moves the cell on a node.
pub async fn run(node: &Node, options: &BigCellOptions) -> Result<BigCell, Box<dyn Error>> {
    let admin = node.admin().await?;
    let weights = vec![Weights::half_on(CELL)];
    let feed_options =
        FeedOptions { batch: options.batch, of_series: 1, pause: Some(options.pause), weights };
    let feed = Feed::start(node.address, of_connections(node.seed, options), &feed_options)?;
    wait_for_series(&admin, options.series).await?;
    let from = feed.second() + 1;
    sleep(Duration::from_secs(options.moves as u64 + 1)).await;
    let still = [from, feed.second()];
    let mut moves = Vec::new();
    let from = feed.second();
    for to in [0, 1].into_iter().cycle().take(options.moves) {
        moves.push(admin.move_cell(CELL.0.into(), to).await?);
        sleep(Duration::from_secs(1)).await;
    }
    let moving = [from, feed.second()];
    Ok(BigCell { seconds: feed.end()?, still, moving, moves })
}

/// A few series in every cell, and the large cell's: each connection has its part of them.
fn of_connections(seed: u64, options: &BigCellOptions) -> Vec<Vec<Vec<Vec<Label>>>> {
    let mut search = Search::new(seed, "beside_a_move");
    let of_connection = |_| {
        let mut series = search.in_every_cell(1);
        series[usize::from(CELL.0)] = search.in_cell(CELL, options.series / options.connections);
        series
    };
    (0..options.connections).map(of_connection).collect()
}

/// Until all series of the cell have come: they are drawn by chance, so nearly all.
async fn wait_for_series(admin: &Admin, count: usize) -> Result<(), Box<dyn Error>> {
    loop {
        let cells = admin.cells(None).await?;
        let big = cells.iter().find(|cell| cell.number == u32::from(CELL.0));
        let held = big.map_or(0, |cell| cell.series);
        if held as usize >= count * 9 / 10 {
            return Ok(());
        }
        eprintln!("{held} of {count} series in the cell");
        sleep(Duration::from_secs(1)).await;
    }
}

impl BigCell {
    /// Prints what came of it, and returns the bounds.
    pub fn judge(&self) -> Vec<Bound> {
        let between = |[from, to]: [usize; 2]| self.seconds.between(from, to);
        let slowest = |seconds: &[Second]| seconds.iter().map(Second::max_ms).fold(0.0, f64::max);
        let (still, moving) = (slowest(between(self.still)), slowest(between(self.moving)));
        println!("\n{}", table(between(self.moving), 1));
        for moved in &self.moves {
            let MovedCell { series, bytes, took, paused, .. } = moved;
            println!(
                "- moved {series} series, {} KiB in {took:.1?}; writes waited {paused:.1?}",
                bytes / 1024
            );
        }
        let errors: u64 = between([0, usize::MAX]).iter().map(|second| second.errors).sum();
        let text = format!(
            "slowest request beside moves {moving:.1} ms, without {still:.1} ms: at most {SLOWER_MS_MAX} ms more"
        );
        vec![
            Bound::new(Kind::Speed, moving <= still + SLOWER_MS_MAX, text),
            Bound::new(Kind::Soundness, errors == 0, format!("{errors} requests failed: at most 0")),
        ]
    }
}
