//! Samples of one series in a request that aren't in the order of their times, put in order before they are appended:
//! each chunk that they lie among is rewritten once then, and not for each of them. Which of them are appended stays as
//! it is. Knows samples and their start timestamps, and nothing of chunks.

use std::ops::Range;

use crate::message::{PartBuffer, PartStart};
use crate::shard::append::TimeBounds;
use silverback_model::Sample;
use silverback_model::limits::SORTED_SAMPLES_MAX;

/// The first steps sort so many that are in no order, some 100 µs; each round of later ones merges two by two what the
/// round before has sorted.
const FIRST_STEP: usize = 2 * 1024;

/// Whether a sample is to be refused, the sample, and its start timestamp, in ms; 0 where it has none.
type Judged = (bool, Sample, i64);

/// Some next samples of a series, while they are sorted.
#[derive(Debug)]
pub(super) struct Sorting {
    /// The places in the part.
    places: Range<usize>,
    /// The series' newest sample, in ms, before these; `None`: it has none.
    newest_ms: Option<i64>,
    bounds: TimeBounds,
    stage: Stage,
    /// A copy. To be refused is what is too old or too far ahead where it is, or too late there and not stored already.
    samples: Vec<Judged>,
}

/// What the next step does.
#[derive(Debug)]
enum Stage {
    Copy,
    /// Sorts so many from a place on.
    Sort {
        step: usize,
        from: usize,
    },
    PutBack,
}

impl Sorting {
    /// Is to sort the first samples of those that have these places in a part.
    pub(super) fn of(places: Range<usize>, newest_ms: Option<i64>, bounds: TimeBounds) -> Self {
        let places = places.start..places.end.min(places.start + SORTED_SAMPLES_MAX);
        Self { places, newest_ms, bounds, stage: Stage::Copy, samples: Vec::new() }
    }

    /// The place after the last of them.
    pub(super) fn end(&self) -> usize {
        self.places.end
    }

    /// Sorts some more. Returns whether all are in the part again: those to be appended by their times, with one time
    /// in the order in which they came, and then those to be refused likewise, so that a chunk is looked into once for
    /// them.
    pub(super) fn step(&mut self, part: &mut PartBuffer) -> bool {
        self.stage = match self.stage {
            Stage::Copy => {
                self.copy_from(part);
                Stage::Sort { step: FIRST_STEP, from: 0 }
            }
            Stage::Sort { step, from } => {
                let end = self.samples.len().min(from + step);
                // What is sorted already is found to be, and merged.
                self.samples[from..end]
                    .sort_by_key(|(is_refused, sample, _)| (*is_refused, sample.timestamp_ms));
                match end < self.samples.len() {
                    true => Stage::Sort { step, from: end },
                    false if step < self.samples.len() => Stage::Sort { step: 2 * step, from: 0 },
                    false => Stage::PutBack,
                }
            }
            Stage::PutBack => {
                self.put_back(part);
                return true;
            }
        };
        false
    }

    fn copy_from(&mut self, part: &PartBuffer) {
        let mut starts = part.starts[starts_of(part, &self.places)].iter().peekable();
        let mut newest_ms = self.newest_ms.unwrap_or(i64::MIN);
        self.samples.reserve_exact(self.places.len());
        for place in self.places.clone() {
            let sample = part.samples[place];
            let late_by_ms = newest_ms.saturating_sub(sample.timestamp_ms);
            let is_refused = self.bounds.check(sample).is_err() || late_by_ms > self.bounds.late_window_ms;
            if !is_refused {
                newest_ms = newest_ms.max(sample.timestamp_ms);
            }
            let start = starts.next_if(|start| start.sample as usize == place);
            self.samples.push((is_refused, sample, start.map_or(0, |start| start.start_ms)));
        }
    }

    fn put_back(&self, part: &mut PartBuffer) {
        let starts = starts_of(part, &self.places);
        let started = self.places.clone().zip(&self.samples).filter(|(_, (.., start_ms))| *start_ms != 0);
        for (start, (place, (.., start_ms))) in part.starts[starts].iter_mut().zip(started) {
            *start = PartStart { sample: place as u32, start_ms: *start_ms };
        }
        for (sample, (_, sorted, _)) in part.samples[self.places.clone()].iter_mut().zip(&self.samples) {
            *sample = *sorted;
        }
    }
}

/// Which start timestamps are those of the samples with these places.
fn starts_of(part: &PartBuffer, places: &Range<usize>) -> Range<usize> {
    let before = |place: usize| part.starts.partition_point(|start| (start.sample as usize) < place);
    before(places.start)..before(places.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVER: TimeBounds =
        TimeBounds { oldest_ms: i64::MIN, newest_ms: i64::MAX, late_window_ms: i64::MAX };

    /// A part with so many samples, whose times jump; every third has a start timestamp of its own.
    fn part(samples: usize) -> PartBuffer {
        let mut part = PartBuffer::default();
        for i in 0..samples {
            // Each time comes twice.
            let at_ms = (i / 2 * 7919 % samples) as i64;
            part.samples.push(Sample::new(at_ms, i as f64));
            part.push_start(if i % 3 == 0 { 1 + i as i64 } else { 0 });
        }
        part
    }

    fn told(part: &PartBuffer, places: Range<usize>) -> Vec<(i64, u64, i64)> {
        let starts = &part.starts;
        let start_of = |place: usize| {
            let at = starts.binary_search_by_key(&place, |start| start.sample as usize);
            at.map_or(0, |at| starts[at].start_ms)
        };
        let of = |place: usize| {
            (part.samples[place].timestamp_ms, part.samples[place].value as u64, start_of(place))
        };
        places.map(of).collect()
    }

    #[test]
    fn samples_are_sorted_with_their_start_timestamps_and_others_stay_where_they_are() {
        for samples in [
            2,
            5,
            FIRST_STEP - 1,
            FIRST_STEP + 1,
            5 * FIRST_STEP,
            SORTED_SAMPLES_MAX,
            SORTED_SAMPLES_MAX + 100,
        ] {
            let mut part = part(samples + 20);
            let all = 10..samples + 10;
            let sorted_places = 10..10 + samples.min(SORTED_SAMPLES_MAX);
            let whole = 0..samples + 20;
            let mut expect = told(&part, whole.clone());
            expect[sorted_places.clone()].sort_by_key(|(at_ms, ..)| *at_ms);
            let starts = part.starts.len();
            let mut sorting = Sorting::of(all, None, EVER);
            let mut steps = 1;
            while !sorting.step(&mut part) {
                steps += 1;
            }
            assert_eq!(told(&part, whole), expect, "{samples} samples");
            assert_eq!(part.starts.len(), starts);
            assert!(part.starts.is_sorted_by_key(|start| start.sample));
            assert!(steps <= 8 + 2 * sorted_places.len().div_ceil(FIRST_STEP), "{steps} steps");
        }
    }

    #[test]
    fn what_is_refused_where_it_stands_comes_last() {
        let bounds = TimeBounds { oldest_ms: 10, newest_ms: 1000, late_window_ms: 100 };
        let mut part = PartBuffer::default();
        let times = [500, 450, 2000, 399, 600, 499, 500, 9, 560, 700, 601, 599];
        for (at_ms, value) in times.into_iter().zip(0..) {
            part.samples.push(Sample::new(at_ms, f64::from(value)));
            part.push_start(if value % 2 == 0 { at_ms + i64::from(value) } else { 0 });
        }
        let mut before = told(&part, 0..times.len());
        let mut sorting = Sorting::of(0..times.len(), Some(480), bounds);
        while !sorting.step(&mut part) {}
        let mut sorted = told(&part, 0..times.len());
        let order: Vec<i64> = sorted.iter().map(|(at_ms, ..)| *at_ms).collect();
        assert_eq!(order, [450, 500, 500, 560, 600, 601, 700, 9, 399, 499, 599, 2000]);
        before.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(sorted, before, "each with its own start timestamp");
    }
}
