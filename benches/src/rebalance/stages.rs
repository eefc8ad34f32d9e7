//! An even load, then one of which four fifths lie on one of two shards: at first with cells at rest, as
//! `--rebalance=off` has them for good, then with cells that move.

use std::error::Error;
use std::time::Duration;

use silverback_load::catalogue::Label;
use tokio::time::sleep;

use super::feed::{Feed, FeedOptions};
use super::node::Node;
use super::population::{Search, Weights};
use super::seconds::{Second, Seconds, Typical, table};
use super::verdict::{Bound, Kind};

/// The part of the skewed load that lies on one shard.
const HOT_PART: f64 = 0.8;
/// What an even load's throughput and p99 are against those of one that was evened out.
const THROUGHPUT_MIN: f64 = 0.9;
const P99_MAX: f64 = 1.5;
/// Within so many seconds.
const RECOVERY_S_MAX: usize = 10;
/// The first seconds of a stage are on the way to it.
const SETTLING_S: usize = 2;

/// How long and how much.
#[derive(Debug, Clone)]
pub struct StageOptions {
    /// Seconds of each stage.
    pub seconds: usize,
    /// Connections.
    pub connections: usize,
    /// Series of each cell for each connection.
    pub series: usize,
    /// Samples of a request.
    pub batch: usize,
    /// Samples of a series that follow each other in a request.
    pub of_series: usize,
}

/// What the stages came to.
#[derive(Debug)]
pub struct Stages {
    seconds: Seconds,
    even: [usize; 2],
    resting: [usize; 2],
    moving: [usize; 2],
    moves: u64,
    imbalance: f64,
}

/// Runs the stages on a node.
pub async fn run(node: &Node, options: &StageOptions) -> Result<Stages, Box<dyn Error>> {
    let admin = node.admin().await?;
    let series = of_connections(node.seed, options);
    let weights = vec![Weights::even(), Weights::skewed(HOT_PART)];
    let feed_options =
        FeedOptions { batch: options.batch, of_series: options.of_series, pause: None, weights };
    let feed = Feed::start(node.address, series, &feed_options)?;
    let even = stage(&feed, "even", options.seconds).await;
    feed.turn_to(1);
    let resting = stage(&feed, "skewed, cells at rest", options.seconds).await;
    admin.resume_rebalance().await?;
    let moving = stage(&feed, "skewed, cells move", options.seconds.max(RECOVERY_S_MAX + 5)).await;
    let rebalance = admin.rebalance().await?;
    admin.pause_rebalance().await?;
    let seconds = feed.end()?;
    let (moves, imbalance) = (rebalance.moves_done, rebalance.imbalance);
    Ok(Stages { seconds, even, resting, moving, moves, imbalance })
}

fn of_connections(seed: u64, options: &StageOptions) -> Vec<Vec<Vec<Vec<Label>>>> {
    let mut search = Search::new(seed, "skewed");
    (0..options.connections).map(|_| search.in_every_cell(options.series)).collect()
}

/// Lets the feed go on; which seconds that were.
async fn stage(feed: &Feed, name: &str, seconds: usize) -> [usize; 2] {
    eprintln!("{name}: {seconds} s");
    let from = feed.second() + 1;
    sleep(Duration::from_secs(seconds as u64 + 1)).await;
    [from, feed.second()]
}

impl Stages {
    /// Prints what came of them, and returns the bounds.
    pub fn judge(&self) -> Vec<Bound> {
        let between = |[from, to]: [usize; 2]| self.seconds.between(from, to);
        let settled = |[from, to]: [usize; 2]| Typical::of(self.seconds.between(from + SETTLING_S, to));
        let (even, resting) = (settled(self.even), settled(self.resting));
        let moving = between(self.moving);
        let recovered = recovery_s(moving, even);
        let later = Typical::of(&moving[recovered.unwrap_or(moving.len()).min(moving.len())..]);
        println!("\n{}", table(moving, 1));
        println!("- even load: {even}");
        println!("- four fifths on one shard, cells at rest: {resting}, {}", against(resting, even));
        println!("- the same, cells moved: {later}, {}", against(later, even));
        println!("- {} cells moved; the busiest shard is at {:.2} of the mean", self.moves, self.imbalance);
        let errors: u64 = between([0, usize::MAX]).iter().map(|second| second.errors).sum();
        let in_time = recovered.is_some_and(|second| second <= RECOVERY_S_MAX);
        let after = recovered.map_or("not at all".to_owned(), |second| format!("after {second} s"));
        let recovery =
            format!("90 % of the even load's throughput at 1.5 times its p99: {after}, at most 10 s");
        vec![
            Bound::new(Kind::Speed, in_time, recovery),
            Bound::new(Kind::Soundness, errors == 0, format!("{errors} requests failed: at most 0")),
            Bound::new(Kind::Speed, self.moves > 0, format!("{} cells moved: at least 1", self.moves)),
        ]
    }
}

fn against(stage: Typical, even: Typical) -> String {
    let part = stage.samples as f64 / even.samples.max(1) as f64;
    format!(
        "{:.0} % of the even load's throughput, {:.1} times its p99",
        part * 100.0,
        stage.p99_ms / even.p99_ms
    )
}

/// From which second on three in a row were as good as an even load's.
fn recovery_s(seconds: &[Second], even: Typical) -> Option<usize> {
    let is_good = |second: &Second| {
        second.samples as f64 >= THROUGHPUT_MIN * even.samples as f64
            && second.p99_ms() <= P99_MAX * even.p99_ms
    };
    seconds.windows(3).position(|three| three.iter().all(is_good))
}
