//! Kill -9, again and again, at random moments under load.
//!
//! To run one seed again: `CRASH_SEED=… cargo test -p silverback --test crash kills -- --nocapture`.
//! When a kill comes is then the same; what the node was doing at that moment need not be.

use silverback_node_test_support::ledger::Verdict;
use silverback_node_test_support::sender::{HistogramTally, Sender};
use silverback_test_support::home::{Home, NodeProcess, names};
use silverback_test_support::random::Random;
use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::home;

/// Restarts after a kill.
const RESTARTS: usize = 55;
/// All senders' series are read back after so many restarts; one sender's after the others.
const FULL_COMPARISON: usize = 6;
/// The number of shards is another one after so many restarts.
const SHARDS_CHANGE: usize = 8;
const SEGMENTS_MIN: usize = RESTARTS / 3;
const SENDERS: u64 = 4;
const LIFE_MS_MAX: u64 = 900;
/// Fewer series, and native histograms that come late or once more, would mean little.
const SERIES_MIN: usize = 1000;
const LATE_MIN: usize = 20;
const AGAIN_MIN: usize = 200;
/// Small, so that segments are left and used again and checkpoints written all the time.
const SMALL: [&str; 4] = ["--wal-segment-bytes", "1MiB", "--checkpoint-bytes", "1MiB"];

/// A node that is killed and started over, and its senders.
pub(crate) struct Trial {
    home: Home,
    arguments: Vec<&'static str>,
    random: Random,
    senders: Vec<Sender>,
    shards: u64,
    /// A life ends before that, about.
    life_ms_max: u64,
    seen: Seen,
}

/// What was met on disk between a kill and a restart.
#[derive(Debug, Default)]
struct Seen {
    generations: BTreeSet<String>,
    segments: BTreeSet<String>,
    checkpoints: BTreeSet<String>,
    spares: usize,
    unfinished: usize,
}

impl Trial {
    pub(crate) fn new(name: &str, arguments: &[&'static str]) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seed = std::env::var("CRASH_SEED").map(|seed| seed.parse().unwrap());
        let seed: u64 = seed.unwrap_or(now.as_nanos() as u64 % 1_000_000);
        println!("{name}: CRASH_SEED={seed}");
        let mut random = Random::new(seed);
        let now_ms = now.as_millis() as i64;
        let senders = (0..SENDERS).map(|name| Sender::new(name, random.next(), now_ms)).collect();
        let arguments = [&SMALL, arguments].concat();
        let (home, seen) = (home(name), Seen::default());
        Self { home, arguments, random, senders, shards: 2, life_ms_max: LIFE_MS_MAX, seen }
    }

    /// The same, but one of so many series of a request has an exemplar.
    pub(crate) fn with_exemplar_in(self, series_per_exemplar: u64) -> Self {
        let senders = self.senders.into_iter().map(|sender| sender.with_exemplar_in(series_per_exemplar));
        Self { senders: senders.collect(), ..self }
    }

    fn start(&self) -> NodeProcess {
        let shards = format!("--shards={}", self.shards);
        self.home.start(&[&[&*shards][..], &self.arguments].concat())
    }

    pub(crate) fn start_ready(&self) -> NodeProcess {
        let mut node = self.start();
        node.wait_until_ready();
        node
    }

    /// Another number of shards: the logs are rewritten at the next start.
    pub(crate) fn change_shards(&mut self) {
        self.shards = 1 + (self.shards + self.random.below(2)) % 3;
    }

    /// A kill before the node is ready, whatever it was at.
    fn kill_during_start(&mut self) {
        let node = self.start();
        std::thread::sleep(Duration::from_millis(self.random.below(150)));
        node.kill();
        self.seen.look(&self.home);
    }

    /// All senders write for a random time, until the node is killed beneath them.
    pub(crate) fn kill_under_load(&mut self, mut node: NodeProcess) {
        let address = node.address();
        let life = Duration::from_millis(30 + self.random.below(self.life_ms_max));
        std::thread::scope(|scope| {
            for sender in &mut self.senders {
                scope.spawn(move || sender.run(address));
            }
            std::thread::sleep(life);
            node.kill();
        });
        self.seen.look(&self.home);
    }

    pub(crate) fn compare_all(&self, node: &mut NodeProcess) -> Verdict {
        let mut all = Verdict::default();
        self.senders.iter().for_each(|sender| all.add(sender.compare(node)));
        all
    }

    /// Series of all senders.
    fn series(&self) -> usize {
        self.senders.iter().map(Sender::series).sum()
    }

    /// The log turned over, and it held enough of everything.
    fn is_enough(&self) -> bool {
        let HistogramTally { late, again } = self.histograms();
        let has_turned_over = self.seen.has_let_go() && self.seen.segments.len() >= SEGMENTS_MIN;
        has_turned_over && self.series() > SERIES_MIN && late > LATE_MIN && again > AGAIN_MIN
    }

    /// What became of all senders' native histograms.
    fn histograms(&self) -> HistogramTally {
        HistogramTally::of(&self.senders)
    }

    /// The number of shards now.
    pub(crate) fn shards(&self) -> u64 {
        self.shards
    }

    /// A seed for something beside the senders.
    pub(crate) fn draw(&mut self) -> u64 {
        self.random.next()
    }

    /// Runs `silverback wal` on the logs.
    pub(crate) fn look_at_logs(&self, arguments: &[&str]) -> (i32, String, String) {
        self.home.look_at_logs(arguments)
    }

    pub(crate) fn check_nothing_refused(&self) {
        for sender in &self.senders {
            assert!(
                sender.refused.is_empty(),
                "{} refused, first: {}",
                sender.refused.len(),
                sender.refused[0]
            );
        }
    }
}

impl Seen {
    fn look(&mut self, home: &Home) {
        for generation in names(&home.data_dir().join("wal"), "") {
            for shard in names(&home.data_dir().join("wal").join(&generation), "") {
                let place = home.log_dir(&generation, shard.parse().unwrap());
                let named = |name: String| format!("{generation}/{shard}/{name}");
                self.segments.extend(names(&place, ".wal").into_iter().map(named));
                self.checkpoints.extend(names(&place, ".checkpoint").into_iter().map(named));
                self.unfinished += names(&place, ".tmp").len();
                self.spares += names(&place, "").iter().filter(|name| name.starts_with("spare-")).count();
            }
            self.generations.insert(generation);
        }
    }

    /// The trial was one: the log turned over many times.
    fn check(&self) {
        assert!(self.generations.len() > RESTARTS / SHARDS_CHANGE, "{:?}", self.generations);
        // A start goes on in the last one.
        assert!(self.segments.len() >= SEGMENTS_MIN, "{} segments", self.segments.len());
        assert!(self.has_let_go(), "{:?}, {} spares", self.checkpoints, self.spares);
    }

    /// A checkpoint was written and segments were kept to be used again.
    fn has_let_go(&self) -> bool {
        // The first one of a log was written by a change of the shards' number.
        let mut later =
            self.checkpoints.iter().filter(|name| !name.ends_with("/00000000000000000001.checkpoint"));
        later.next().is_some() && self.spares > 0
    }
}

#[test]
fn whatever_was_acknowledged_is_there_after_any_number_of_kills() {
    let began = Instant::now();
    let mut trial = Trial::new("kills", &[]);
    for restart in 0..2 * RESTARTS {
        // A machine that has much else to do writes less in each life: then its log needs more of them, and longer ones.
        if restart >= RESTARTS && trial.is_enough() {
            break;
        }
        if restart == RESTARTS {
            trial.life_ms_max *= 6;
        }
        if restart < RESTARTS && restart % SHARDS_CHANGE == SHARDS_CHANGE - 1 {
            trial.change_shards();
        }
        if trial.random.once_in(4) {
            trial.kill_during_start();
        }
        let mut node = trial.start_ready();
        if restart % FULL_COMPARISON == 0 {
            trial.compare_all(&mut node).check();
        } else {
            trial.senders[restart % SENDERS as usize].compare(&mut node).check();
        }
        trial.check_nothing_refused();
        trial.kill_under_load(node);
    }
    let mut node = trial.start_ready();
    let verdict = trial.compare_all(&mut node);
    let series = trial.series();
    let Verdict { acknowledged, histograms, unasked, exemplars, .. } = verdict;
    let HistogramTally { late, again } = trial.histograms();
    let Seen { generations, segments, checkpoints, spares, unfinished } = &trial.seen;
    println!(
        "{RESTARTS} restarts or more in {:.0?}: {series} series, {acknowledged} samples and {exemplars} exemplars \
         acknowledged, {unasked} more stored; {histograms} of them native histograms, {late} late and {again} once more; {} generations, {} segments, {} checkpoints, {spares} spares, {unfinished} unfinished files",
        began.elapsed(),
        generations.len(),
        segments.len(),
        checkpoints.len(),
    );
    verdict.check();
    trial.seen.check();
    assert!(trial.is_enough() && acknowledged > 20_000 && exemplars > 100, "too little to mean anything");
    assert!(histograms > 4000, "too few native histograms to mean anything");
    node.kill();
    let (code, told, complaint) = trial.home.look_at_logs(&["verify"]);
    assert!(code == 0 && told.contains("\nno damage"), "{told}{complaint}");
    trial.start_ready().stop();
    trial.compare_all(&mut trial.start_ready()).check();
}

/// The trial itself on trial: with writes acknowledged from memory, a kill costs what was not on disk
/// yet, and the comparison must find it.
#[test]
fn what_is_acknowledged_from_memory_is_lost_by_a_kill_and_found_missing() {
    const ROUNDS: usize = 10;

    let mut trial = Trial::new("kills-memory", &["--ack=memory"]);
    for round in 1..=ROUNDS {
        let node = trial.start_ready();
        trial.kill_under_load(node);
        let verdict = trial.compare_all(&mut trial.start_ready());
        assert_eq!(verdict.strange, 0, "{verdict:?}");
        if verdict.lost > 0 {
            println!("round {round}: {verdict:?}");
            return;
        }
    }
    panic!("{ROUNDS} kills lost nothing: this trial can't fail");
}
