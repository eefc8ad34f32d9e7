//! How a series' value moves from scrape to scrape. It knows no labels and no timestamps.

use crate::random::SplitMix;

/// The kinds of value that a node's metrics have: what decides how well chunks compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Never changes.
    Constant,
    /// An integer counter that grows on every scrape.
    Count,
    /// An integer counter that hardly ever grows.
    RareCount,
    /// A counter of seconds in hundredths, as CPU times are.
    Seconds,
    /// A gauge of bytes that moves in pages of 4 KiB.
    Bytes,
    /// A small integer gauge.
    Level,
    /// A gauge with two decimals.
    Decimal,
    /// A float of full precision, new on every scrape.
    Noisy,
}

impl ValueKind {
    /// The kind of this name in the catalogue.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "constant" => Self::Constant,
            "count" => Self::Count,
            "rare" => Self::RareCount,
            "seconds" => Self::Seconds,
            "bytes" => Self::Bytes,
            "level" => Self::Level,
            "decimal" => Self::Decimal,
            "noisy" => Self::Noisy,
            _ => return None,
        })
    }
}

/// One series' values, in order.
#[derive(Debug, Clone)]
pub struct ValueStream {
    kind: ValueKind,
    current: f64,
    pace: f64,
    random: SplitMix,
}

impl ValueStream {
    /// Starts a series of this kind around `base`; each series moves at its own pace.
    pub fn new(kind: ValueKind, base: f64, mut random: SplitMix) -> Self {
        let spread = ((random.unit() - 0.5) * 4.0).exp();
        let (pace, current) = match kind {
            ValueKind::Constant => (0.0, base),
            ValueKind::Count => {
                let pace = (base * spread).round().max(1.0);
                (pace, (pace * random.unit() * 1e4).round())
            }
            ValueKind::RareCount => (base, (random.unit() * 50.0).round()),
            ValueKind::Seconds => {
                let pace = base * spread.min(1.25);
                (pace, hundredths(pace * random.unit() * 1e4))
            }
            ValueKind::Bytes => {
                let pages = base / PAGE_BYTES;
                ((pages / 500.0).max(16.0), (pages * spread).round() * PAGE_BYTES)
            }
            ValueKind::Level => ((base / 100.0).max(1.0), (base * spread).round()),
            ValueKind::Decimal => ((base / 50.0).max(0.05), hundredths(base * spread)),
            ValueKind::Noisy => (base, base * spread),
        };
        Self { kind, current, pace, random }
    }

    /// The next scrape's value.
    pub fn advance(&mut self) -> f64 {
        match self.kind {
            ValueKind::Constant => {}
            ValueKind::Count => self.current += (self.pace * (0.7 + 0.6 * self.random.unit())).round(),
            ValueKind::RareCount => {
                if self.random.one_in(50) {
                    self.current += 1.0 + (self.random.unit() * self.pace).floor();
                }
            }
            ValueKind::Seconds => {
                self.current = hundredths(self.current + self.pace * (0.8 + 0.4 * self.random.unit()));
            }
            ValueKind::Bytes => {
                if !self.random.one_in(4) {
                    let pages = (self.around_zero() * self.pace).round();
                    self.current = (self.current + pages * PAGE_BYTES).max(PAGE_BYTES);
                }
            }
            ValueKind::Level => {
                if self.random.one_in(3) {
                    self.current = (self.current + (self.around_zero() * 2.0 * self.pace).round()).max(0.0);
                }
            }
            ValueKind::Decimal => {
                self.current = hundredths(self.current + self.around_zero() * self.pace).max(0.0);
            }
            ValueKind::Noisy => return self.current * (0.9 + 0.2 * self.random.unit()),
        }
        self.current
    }

    fn around_zero(&mut self) -> f64 {
        self.random.unit() - 0.5
    }
}

const PAGE_BYTES: f64 = 4096.0;

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: ValueKind, holds: impl Fn(f64, f64) -> bool) {
        let mut values = ValueStream::new(kind, 100.0, SplitMix::new(1, 1));
        let mut last = values.advance();
        for _ in 0..1000 {
            let next = values.advance();
            assert!(holds(last, next), "{kind:?}: {last} then {next}");
            last = next;
        }
    }

    #[test]
    fn counters_never_fall() {
        for kind in [ValueKind::Count, ValueKind::RareCount, ValueKind::Seconds] {
            check(kind, |last, next| next >= last);
        }
    }

    #[test]
    fn a_constant_never_moves() {
        check(ValueKind::Constant, |last, next| last == next);
    }

    #[test]
    fn gauges_of_bytes_are_whole_pages() {
        check(ValueKind::Bytes, |_, next| next % PAGE_BYTES == 0.0 && next > 0.0);
    }
}
