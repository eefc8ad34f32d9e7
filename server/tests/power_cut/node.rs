//! A node under load whose machine loses its power, again and again: what it acknowledged is there.

use silverback_node_test_support::ledger::Verdict;
use silverback_node_test_support::sender::{HistogramTally, Sender};
use silverback_test_support::home::{Home, NodeProcess};
use silverback_test_support::random::Random;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::home;
use crate::machine::Machine;
use crate::volatile::Survivors;

const DISK_BYTES: usize = 256 << 20;
const SENDERS: u64 = 4;
/// Small, so that segments are left and used again all the time.
const SMALL: [&str; 5] = ["--shards=2", "--wal-segment-bytes", "1MiB", "--checkpoint-bytes", "1MiB"];

/// A node on a machine whose power is cut, and its senders.
struct Trial {
    machine: Machine,
    home: Home,
    arguments: Vec<&'static str>,
    random: Random,
    senders: Vec<Sender>,
}

impl Trial {
    fn new(name: &str, arguments: &[&'static str]) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seed = now.as_nanos() as u64 % 1_000_000;
        println!("{name}: seed {seed}");
        let mut random = Random::new(seed);
        let now_ms = now.as_millis() as i64;
        let senders = (0..SENDERS).map(|name| Sender::new(name, random.next(), now_ms)).collect();
        let machine = Machine::new(DISK_BYTES);
        let home = home(name);
        Self { machine, home, arguments: [&SMALL, arguments].concat(), random, senders }
    }

    fn start(&mut self) -> NodeProcess {
        self.home.move_data_dir(self.machine.path().join("data"));
        self.home.start_ready(&self.arguments)
    }

    /// All senders write for a random time, until the power goes.
    fn cut_under_load(&mut self, survivors: Survivors) {
        let mut node = self.start();
        let address = node.address();
        let life = Duration::from_millis(100 + self.random.below(900));
        let (machine, senders) = (&mut self.machine, &mut self.senders);
        std::thread::scope(|scope| {
            for sender in senders {
                scope.spawn(move || sender.run(address));
            }
            std::thread::sleep(life);
            machine.cut_power(survivors, |_| node.kill());
        });
    }

    fn compare(&mut self) -> Verdict {
        let mut node = self.start();
        let mut all = Verdict::default();
        self.senders.iter().for_each(|sender| all.add(sender.compare(&mut node)));
        node.stop();
        all
    }
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn whatever_was_acknowledged_is_there_after_any_number_of_power_cuts() {
    const CUTS: u64 = 20;

    let mut trial = Trial::new("power", &[]);
    for cut in 0..CUTS {
        trial.cut_under_load(match cut % 3 {
            0 => Survivors::None,
            1 => Survivors::Half { seed: cut },
            _ => Survivors::All,
        });
        let verdict = trial.compare();
        verdict.check();
        if cut == CUTS - 1 {
            let Verdict { acknowledged, histograms, exemplars, .. } = verdict;
            let HistogramTally { late, again } = HistogramTally::of(&trial.senders);
            println!(
                "{CUTS} cuts: {acknowledged} samples and {exemplars} exemplars acknowledged, none lost; \
                 {histograms} of them native histograms, {late} late and {again} once more"
            );
            assert!(acknowledged > 10_000 && exemplars > 30, "too little to mean anything");
            assert!(
                histograms > 1500 && late > 10 && again > 100,
                "too few native histograms to mean anything"
            );
        }
    }
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn what_is_acknowledged_from_memory_is_lost_by_a_power_cut_and_found_missing() {
    const CUTS: usize = 10;

    let mut trial = Trial::new("power-memory", &["--ack=memory"]);
    for cut in 1..=CUTS {
        trial.cut_under_load(Survivors::None);
        let verdict = trial.compare();
        assert_eq!(verdict.strange, 0, "{verdict:?}");
        if verdict.lost > 0 {
            println!("cut {cut}: {verdict:?}");
            return;
        }
    }
    panic!("{CUTS} power cuts lost nothing: this trial can't fail");
}
