//! Texts made from those that fuzzing begins with: pieces put together, cut, and changed at random, always the same.
//! Each is parsed; what parses is printed, read again and evaluated. Nothing of it panics or takes long.

use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use futures::executor::block_on;
use silverback_model::{Labels, Sample};
use silverback_promql::{Budget, Fetched, NoPace, ParseOptions, Plan, PlanOptions, Query, QueryTimes, Run};

const TEXTS: usize = 20_000;

/// A generator of numbers (xorshift): the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

fn seeds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/promql");
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("seeds").map(|entry| entry.expect("a seed").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read_to_string(path).expect("a seed")).collect()
}

fn mutated(seeds: &[String], numbers: &mut Numbers) -> String {
    const PIECES: [&str; 24] = [
        "(",
        ")",
        "[5m]",
        "[1h:1m]",
        " + ",
        " - ",
        " ^ ",
        " and ",
        " or ",
        "sum(",
        " by (a) ",
        " offset 1m",
        " @ 60",
        "rate(",
        "{",
        "}",
        "\"",
        "x_bucket",
        "1e3",
        "-",
        ",",
        " > bool ",
        " group_left () ",
        "quantile(0.5, ",
    ];
    let mut text: Vec<char> = seeds[numbers.below(seeds.len())].chars().collect();
    for _ in 0..=numbers.below(6) {
        let at = numbers.below(text.len() + 1);
        match numbers.below(4) {
            0 => text.truncate(at),
            1 => text.splice(at..at, PIECES[numbers.below(PIECES.len())].chars()).for_each(drop),
            2 if at < text.len() => {
                text.remove(at);
            }
            _ => {
                let other: Vec<char> = seeds[numbers.below(seeds.len())].chars().collect();
                let from = numbers.below(other.len() + 1);
                text.splice(at..at, other[from..].iter().copied()).for_each(drop);
            }
        }
    }
    text.into_iter().collect()
}

fn series() -> Vec<Fetched> {
    let one = |le: &str, factor: f64| {
        let samples = (0..15).map(|i| Sample::new(i * 60_000, factor * (i % 7) as f64)).collect();
        let labels = Labels::from_pairs([("__name__", "x_bucket"), ("job", "a"), ("le", le)]);
        Fetched { labels: Rc::new(labels), runs: vec![Run::Floats(samples)] }
    };
    vec![one("1", 1.0), one("2", f64::NAN), one("+Inf", 3.0)]
}

#[test]
fn no_text_makes_it_panic_and_what_is_printed_is_the_same_expression() {
    let (seeds, mut numbers) = (seeds(), Numbers(0x5eed));
    let (mut parsed, mut evaluated) = (0, 0);
    for _ in 0..TEXTS {
        let text = mutated(&seeds, &mut numbers);
        let begun = Instant::now();
        let Ok(query) = Query::parse(&text, ParseOptions::with_experiments()) else { continue };
        parsed += 1;
        let printed = query.to_string();
        let again = Query::parse(&printed, ParseOptions::with_experiments());
        let again = again.unwrap_or_else(|error| panic!("{text}: {printed}: {error}"));
        assert_eq!(again.to_string(), printed, "{text}");
        assert!(query.pretty().is_none_or(|text| !text.is_empty()) && !query.tree_json().is_empty());
        for times in [
            QueryTimes::Instant { at_ms: 600_000 },
            QueryTimes::Range { start_ms: 0, end_ms: 900_000, step_ms: 60_000 },
        ] {
            let Ok(plan) = Plan::new(query.clone(), times, PlanOptions::default()) else { continue };
            let fetched: Vec<_> = plan.selects().iter().map(|_| series()).collect();
            let budget = Budget::new(200_000, 16 << 20);
            if let Ok(answer) = block_on(plan.evaluate(&fetched, &budget, &NoPace)) {
                assert!(!answer.value.to_json().is_empty());
                evaluated += 1;
            }
        }
        assert!(begun.elapsed().as_secs() < 5, "{text}");
    }
    assert!(parsed > TEXTS / 50 && evaluated > TEXTS / 50, "{parsed} parsed, {evaluated} evaluated");
}
