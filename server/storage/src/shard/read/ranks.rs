//! Labels by their ranks among those of some series: of labels that many series have, each text is compared a few times and
//! not once for each two series.

use hashbrown::HashMap;

use super::OrEnds;
use crate::cell::series::LabelRef;
use crate::shard::Host;
use crate::shard::index::IndexMoment;
use crate::shard::read::job::ReadJob;
use crate::shard::read::memory::ReadReservation;
use crate::shard::read::sort::sort_in_slices;

/// Labels between two looks at the slice: some µs.
const STEP: usize = 512;

/// Labels are ranked where a series has no more than one in so many of its own.
const SERIES_OF_LABEL_MIN: usize = 4;

/// What a label that differs from the others takes, in bytes: itself, its number in a table of which less than half may be
/// used, its place where they are sorted, twice, and its rank.
const BYTES_OF_ONE: usize = size_of::<LabelRef>() + 3 * size_of::<(LabelRef, u32)>() + 3 * size_of::<u32>();

/// The rank of each of some labels, in their order, and its memory.
pub(super) struct Ranks {
    pub(super) of_labels: Vec<u32>,
    _reserved: ReadReservation,
}

/// Ranks the labels of so many series, as they are at a moment. `None`: too many of them differ, or there is no memory for it
/// at once.
pub(super) async fn ranked<H: Host>(
    job: &ReadJob<H>,
    labels: &[LabelRef],
    series: usize,
    moment: IndexMoment,
) -> OrEnds<Option<Ranks>> {
    let most = series / SERIES_OF_LABEL_MIN;
    let mut reserved = job.memory.nothing();
    if !matches!(reserved.try_grow(most * BYTES_OF_ONE + size_of_val(labels)), Ok(true)) {
        return Ok(None);
    }
    let mut numbers: HashMap<LabelRef, u32> = HashMap::with_capacity(most);
    let (mut different, mut of_labels) = (Vec::with_capacity(most), Vec::with_capacity(labels.len()));
    for step in labels.chunks(STEP) {
        for label in step {
            let number = match numbers.get(label) {
                Some(number) => *number,
                None if different.len() == most => return Ok(None),
                None => {
                    let number = different.len() as u32;
                    numbers.insert(*label, number);
                    different.push(*label);
                    number
                }
            };
            of_labels.push(number);
        }
        job.yield_if_needed().await?;
    }
    drop(numbers);
    let compare = |a: &u32, b: &u32| {
        let [a, b] = [a, b].map(|number| different[*number as usize]);
        job.shard.borrow().index.compare_pairs(a, b, moment)
    };
    let sorted = sort_in_slices((0..different.len() as u32).collect(), job, compare).await?;
    let mut ranks = vec![0; sorted.len()];
    let mut rank = 0;
    for step in sorted.chunks(STEP) {
        for number in step {
            ranks[*number as usize] = rank;
            rank += 1;
        }
        job.yield_if_needed().await?;
    }
    for step in of_labels.chunks_mut(STEP) {
        step.iter_mut().for_each(|number| *number = ranks[*number as usize]);
        job.yield_if_needed().await?;
    }
    Ok(Some(Ranks { of_labels, _reserved: reserved }))
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::shard::read::job::tests::job;

    /// The ranks of labels of these names and values, as many series have them; each is there once at first.
    fn ranks(labels: &[(&str, &str)], series: usize) -> Option<Vec<u32>> {
        let job = job();
        let refs: Vec<_> = {
            let index = &mut job.shard.borrow_mut().index;
            let intern = |(name, value): &(&str, &str)| index.intern(name.as_bytes(), value.as_bytes());
            labels.iter().map(intern).map(Option::unwrap).collect()
        };
        let moment = job.shard.borrow().index.now();
        block_on(ranked(&job, &refs, series, moment)).unwrap().map(|ranks| ranks.of_labels)
    }

    #[test]
    fn labels_are_ranked_by_their_names_and_then_by_their_values() {
        let labels = [("b", "1"), ("a", "2"), ("b", "1"), ("a", "10"), ("c", "0")];
        assert_eq!(ranks(&labels, 16), Some(vec![2, 1, 2, 0, 3]));
        assert_eq!(ranks(&[], 0), Some(Vec::new()));
    }

    #[test]
    fn labels_of_which_too_many_differ_are_not_ranked() {
        let labels = [("a", "1"), ("a", "2"), ("a", "3"), ("a", "4")];
        assert!(ranks(&labels, 16).is_some() && ranks(&labels, 15).is_none());
    }
}
