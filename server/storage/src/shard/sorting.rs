//! Samples of one series in a request that aren't in the order of their times, put in order before they are taken in:
//! each chunk that they lie among is written anew once then, and not for each of them. Knows samples and their start
//! timestamps, and nothing of chunks.

use std::ops::Range;

use crate::message::{PartBuffer, PartStart};
use silverback_model::Sample;
use silverback_model::limits::SORTED_SAMPLES_MAX;

/// The first steps sort so many that lie anyhow, some 100 µs; each round of later ones merges two by two what the round
/// before has sorted.
const FIRST_STEP: usize = 2 * 1024;

/// Some next samples of a series, while they are sorted.
#[derive(Debug)]
pub(super) struct Sorting {
    /// The places in the part.
    places: Range<usize>,
    /// A copy, with start timestamps, in ms; 0 where a sample has none. Empty before the first step.
    samples: Vec<(Sample, i64)>,
    /// So many are sorted by a step, and where the next one begins.
    step: usize,
    next: usize,
}

impl Sorting {
    /// Is to sort the first samples of those that have these places in a part.
    pub(super) fn of(places: Range<usize>) -> Self {
        let places = places.start..places.end.min(places.start + SORTED_SAMPLES_MAX);
        Self { places, samples: Vec::new(), step: FIRST_STEP, next: 0 }
    }

    /// Sorts some more. Tells whether all are in the part again, by their times: those of the same time in the order in
    /// which they came.
    pub(super) fn step(&mut self, part: &mut PartBuffer) -> bool {
        if self.samples.is_empty() {
            self.copy_from(part);
        } else if self.next < self.samples.len() {
            let end = self.samples.len().min(self.next + self.step);
            // What is sorted already is found to be, and merged.
            self.samples[self.next..end].sort_by_key(|(sample, _)| sample.timestamp_ms);
            self.next = end;
        } else if self.step < self.samples.len() {
            (self.step, self.next) = (2 * self.step, 0);
        } else {
            self.put_back(part);
            return true;
        }
        false
    }

    fn copy_from(&mut self, part: &PartBuffer) {
        let mut starts = part.starts[starts_of(part, &self.places)].iter().peekable();
        self.samples.extend(self.places.clone().map(|place| {
            let start = starts.next_if(|start| start.sample as usize == place);
            (part.samples[place], start.map_or(0, |start| start.start_ms))
        }));
    }

    fn put_back(&self, part: &mut PartBuffer) {
        let starts = starts_of(part, &self.places);
        let sorted = self.places.clone().zip(&self.samples).filter(|(_, (_, start_ms))| *start_ms != 0);
        for (start, (place, (_, start_ms))) in part.starts[starts].iter_mut().zip(sorted) {
            *start = PartStart { sample: place as u32, start_ms: *start_ms };
        }
        for (sample, (sorted, _)) in part.samples[self.places.clone()].iter_mut().zip(&self.samples) {
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
            let mut sorting = Sorting::of(all);
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
}
