//! Texts made from those that fuzzing begins with: pieces put together, cut, and changed at random, always the same.
//! Each is parsed; what parses is printed, read again and evaluated. Nothing of it panics or takes long.

mod any_text;

use std::fs;
use std::path::Path;
use std::time::Instant;

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

#[test]
fn no_text_makes_it_panic_and_what_is_printed_is_the_same_expression() {
    let (seeds, mut numbers) = (seeds(), Numbers(0x5eed));
    let (mut parsed, mut evaluated) = (0, 0);
    for _ in 0..TEXTS {
        let text = mutated(&seeds, &mut numbers);
        let begun = Instant::now();
        if let Some(answers) = any_text::check(&text) {
            parsed += 1;
            evaluated += answers;
        }
        assert!(begun.elapsed().as_secs() < 5, "{text}");
    }
    assert!(parsed > TEXTS / 50 && evaluated > TEXTS / 50, "{parsed} parsed, {evaluated} evaluated");
}
