//! How sure a ratio of two runs is: a bootstrap over their seconds. It knows no figures by name.
//!
//! Seconds in a row resemble each other, so blocks of them are drawn (circular block bootstrap), and
//! the margin is what the middle 95 % of the drawn ratios span (percentiles).

use silverback_load::random::SplitMix;

use super::super::tally::Second;

/// Ratios that are drawn.
pub(super) const RESAMPLES: usize = 2000;
/// The same runs give the same margin.
pub(super) const SEED: u64 = 1;
/// With fewer seconds a margin says nothing.
pub(super) const SECONDS_MIN: usize = 5;

/// A figure of some seconds; `None` if they don't have it.
pub(super) type Figure = fn(&[&Second]) -> Option<f64>;

/// Where a ratio lies, with 95 % certainty as far as these seconds tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Margin {
    /// Not below.
    pub low: f64,
    /// Not above.
    pub high: f64,
}

impl Margin {
    /// Of the ratio of a figure of `b` to that of `a`. `None` with too few seconds, or without the
    /// figure.
    pub(super) fn of_ratio(a: &[&Second], b: &[&Second], figure: Figure) -> Option<Self> {
        if a.len().min(b.len()) < SECONDS_MIN {
            return None;
        }
        let (mut random_a, mut random_b) = (SplitMix::new(SEED, 0), SplitMix::new(SEED, 1));
        let (mut drawn_a, mut drawn_b) = (Vec::with_capacity(a.len()), Vec::with_capacity(b.len()));
        let mut ratios = Vec::with_capacity(RESAMPLES);
        for _ in 0..RESAMPLES {
            draw(a, &mut random_a, &mut drawn_a);
            draw(b, &mut random_b, &mut drawn_b);
            // A draw of only such seconds as don't have the figure, or of none but zeros.
            let ratio = figure(&drawn_a).zip(figure(&drawn_b)).map(|(a, b)| b / a);
            ratios.extend(ratio.filter(|ratio| ratio.is_finite()));
        }
        ratios.sort_by(f64::total_cmp);
        let last = ratios.len().checked_sub(1)?;
        let at = |part: f64| ratios[(last as f64 * part).round() as usize];
        Some(Self { low: at(0.025), high: at(0.975) })
    }

    /// Whether there may be no difference at all.
    pub(super) fn has_one(&self) -> bool {
        (self.low..=self.high).contains(&1.0)
    }
}

/// Seconds of a block.
pub(super) fn block_len(seconds: usize) -> usize {
    (seconds as f64).cbrt().ceil() as usize
}

/// As many seconds as there are, in blocks from anywhere; after the last comes the first.
fn draw<'a>(seconds: &[&'a Second], random: &mut SplitMix, drawn: &mut Vec<&'a Second>) {
    drawn.clear();
    while drawn.len() < seconds.len() {
        let start = (random.unit() * seconds.len() as f64) as usize;
        let block = seconds.iter().cycle().skip(start).take(block_len(seconds.len()));
        drawn.extend(block.take(seconds.len() - drawn.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(samples: impl IntoIterator<Item = u64>) -> Vec<Second> {
        let second = |samples_written| Second { span_s: 1.0, samples_written, ..Second::default() };
        samples.into_iter().map(second).collect()
    }

    fn margin(a: &[Second], b: &[Second]) -> Option<Margin> {
        let figure: Figure = |seconds| {
            let sum: u64 = seconds.iter().map(|second| second.samples_written).sum();
            Some(sum as f64 / seconds.len() as f64)
        };
        Margin::of_ratio(&a.iter().collect::<Vec<_>>(), &b.iter().collect::<Vec<_>>(), figure)
    }

    #[test]
    fn runs_without_noise_have_no_margin() {
        let expected = Some(Margin { low: 2.0, high: 2.0 });
        assert_eq!(margin(&seconds([100; 10]), &seconds([200; 30])), expected);
    }

    #[test]
    fn the_margin_holds_the_ratio_and_narrows_with_more_seconds() {
        let noisy = |count, middle: u64, stream| {
            let mut random = SplitMix::new(7, stream);
            seconds((0..count).map(move |_| middle - 20 + random.next_u64() % 41))
        };
        let width = |count| {
            let margin = margin(&noisy(count, 100, 1), &noisy(count, 110, 2)).expect("a margin");
            assert!(margin.low < 1.1 && 1.1 < margin.high, "{margin:?}");
            margin.high - margin.low
        };
        let (narrow, wide) = (width(1000), width(20));
        assert!(narrow * 4.0 < wide, "{narrow} and {wide}");
        assert_eq!(
            margin(&noisy(50, 100, 1), &noisy(50, 110, 2)),
            margin(&noisy(50, 100, 1), &noisy(50, 110, 2))
        );
    }

    #[test]
    fn a_few_seconds_have_no_margin() {
        assert_eq!(margin(&seconds([1; 4]), &seconds([1; 100])), None);
    }
}
