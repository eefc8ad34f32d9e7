//! The samples that a query looks at, as Prometheus' statistics count them: at each step those that the step sees, one
//! that several steps see for each of them. How many were read, and held, is the budget's to count.

use std::cell::RefCell;

use crate::SampleCounting;
use crate::plan::Times;

/// Samples that were looked at. A native histogram counts as the floats that would take its memory in Prometheus.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryableSamples {
    /// At all steps; 0 where [`SampleCounting::Off`] is asked for.
    pub total: u64,
    /// At each of the query's steps; empty unless [`SampleCounting::PerStep`] is asked for.
    pub per_step: Vec<u64>,
}

impl QueryableSamples {
    /// What a list of steps takes, in bytes.
    pub(crate) const fn bytes_of(steps: usize) -> usize {
        steps.saturating_mul(size_of::<u64>())
    }

    fn add(&mut self, step: usize, samples: u64) {
        self.total += samples;
        if let Some(of_step) = self.per_step.get_mut(step) {
            *of_step += samples;
        }
    }
}

/// The samples that an evaluation has looked at so far.
#[derive(Debug)]
pub(crate) struct Queryable {
    counting: SampleCounting,
    counted: RefCell<QueryableSamples>,
}

impl Queryable {
    /// Of an evaluation at these times.
    pub(crate) fn begin(times: Times, counting: SampleCounting) -> Self {
        let per_step = match counting {
            SampleCounting::PerStep => vec![0; times.count],
            SampleCounting::Off | SampleCounting::Total => Vec::new(),
        };
        Self { counting, counted: RefCell::new(QueryableSamples { total: 0, per_step }) }
    }

    /// Whether anything is counted.
    pub(crate) fn counts(&self) -> bool {
        self.counting != SampleCounting::Off
    }

    pub(crate) fn into_counted(self) -> QueryableSamples {
        self.counted.into_inner()
    }

    /// Counts what a step sees.
    pub(crate) fn add(&self, step: usize, samples: u64) {
        if self.counts() {
            self.counted.borrow_mut().add(step, samples);
        }
    }

    /// Counts what each step sees, in their order.
    pub(crate) fn add_steps(&self, of_steps: impl Iterator<Item = u64>) {
        if !self.counts() {
            return;
        }
        let mut counted = self.counted.borrow_mut();
        of_steps.enumerate().for_each(|(step, samples)| counted.add(step, samples));
    }

    /// Counts what others have counted, at the same steps.
    pub(crate) fn merge(&self, other: &QueryableSamples) {
        let mut counted = self.counted.borrow_mut();
        counted.total += other.total;
        counted.per_step.iter_mut().zip(&other.per_step).for_each(|(own, other)| *own += other);
    }

    /// Counts from nothing, and at no steps, until [`Self::resume`]: what follows has steps of its own.
    pub(crate) fn apart(&self) -> QueryableSamples {
        std::mem::take(&mut *self.counted.borrow_mut())
    }

    /// Goes on with what was counted before, and gives what was counted since.
    pub(crate) fn resume(&self, before: QueryableSamples) -> u64 {
        std::mem::replace(&mut *self.counted.borrow_mut(), before).total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_apart_is_in_no_step() {
        let counted = Queryable::begin(Times { count: 2, ..Times::at(0) }, SampleCounting::PerStep);
        counted.add(1, 3);
        let before = counted.apart();
        counted.add(0, 5);
        assert_eq!(counted.resume(before), 5);
        counted.add_steps([1, 1].into_iter());
        counted.merge(&QueryableSamples { total: 7, per_step: vec![3, 4] });
        assert_eq!(counted.into_counted(), QueryableSamples { total: 12, per_step: vec![4, 8] });
    }
}
