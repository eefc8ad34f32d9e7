//! What a query may hold at a time, in samples and in bytes, and what gives the core to others meanwhile.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;

use crate::error::QueryError;

/// Memory that queries have together with others, of which each takes what it holds.
pub trait Room: std::fmt::Debug {
    /// Takes so many bytes more; or says why not: [`QueryError::BudgetExceeded`] where others have them,
    /// [`QueryError::TooMuchMemory`] where no query may have so many.
    fn take(&self, bytes: usize) -> Result<(), QueryError>;

    /// Gives so many bytes back.
    fn give_back(&self, bytes: usize);
}

/// A query's bounds and what it holds of them. One query has one, on one core.
#[derive(Debug)]
pub struct Budget {
    room: Option<Box<dyn Room>>,
    samples_max: usize,
    bytes_max: usize,
    samples: Cell<usize>,
    bytes: Cell<usize>,
    samples_peak: Cell<usize>,
    bytes_peak: Cell<usize>,
    samples_read: Cell<u64>,
}

impl Budget {
    /// With the most samples and bytes that are held at a time.
    pub const fn new(samples_max: usize, bytes_max: usize) -> Self {
        Self {
            room: None,
            samples_max,
            bytes_max,
            samples: Cell::new(0),
            bytes: Cell::new(0),
            samples_peak: Cell::new(0),
            bytes_peak: Cell::new(0),
            samples_read: Cell::new(0),
        }
    }

    /// The same, with each byte taken from memory that others have too.
    pub fn within(self, room: Box<dyn Room>) -> Self {
        Self { room: Some(room), ..self }
    }

    /// The most samples that were held at a time, with those that others held for the query.
    pub const fn samples_peak(&self) -> usize {
        self.samples_peak.get()
    }

    /// The most bytes that were held at a time.
    pub const fn bytes_peak(&self) -> usize {
        self.bytes_peak.get()
    }

    /// The samples that were read from the series fetched.
    pub const fn samples_read(&self) -> u64 {
        self.samples_read.get()
    }

    pub(crate) fn count_read(&self, samples: usize) {
        self.samples_read.set(self.samples_read.get() + samples as u64);
    }

    /// Counts what others, each within a budget of its own, have read for the query and held at the same time.
    pub(crate) fn count_apart(&self, samples_read: u64, samples_peak: usize) {
        self.samples_read.set(self.samples_read.get() + samples_read);
        let peak = self.samples.get().saturating_add(samples_peak);
        self.samples_peak.set(self.samples_peak.get().max(peak));
    }

    /// Nothing yet; it grows by [`Held::add`].
    pub(crate) const fn hold(&self) -> Held<'_> {
        Held { budget: self, samples: 0, bytes: 0 }
    }
}

/// A part of a budget that is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    budget: &'a Budget,
    samples: usize,
    bytes: usize,
}

impl Held<'_> {
    /// Takes more of the budget, or refuses the query in Prometheus' words.
    pub(crate) fn add(&mut self, samples: usize, bytes: usize) -> Result<(), QueryError> {
        let budget = self.budget;
        let samples_now = budget.samples.get().saturating_add(samples);
        let bytes_now = budget.bytes.get().saturating_add(bytes);
        if samples_now > budget.samples_max {
            return Err(QueryError::TooManySamples);
        }
        if bytes_now > budget.bytes_max {
            return Err(QueryError::TooMuchMemory { bytes_max: budget.bytes_max });
        }
        if let (Some(room), true) = (&budget.room, bytes > 0) {
            room.take(bytes)?;
        }
        budget.samples.set(samples_now);
        budget.bytes.set(bytes_now);
        budget.samples_peak.set(budget.samples_peak.get().max(samples_now));
        budget.bytes_peak.set(budget.bytes_peak.get().max(bytes_now));
        self.samples += samples;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives so much back, of what it has.
    pub(crate) fn release(&mut self, samples: usize, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        if let (Some(room), true) = (&self.budget.room, bytes > 0) {
            room.give_back(bytes);
        }
        self.forget(samples.min(self.samples), bytes);
    }

    /// Gives all of it back.
    pub(crate) fn release_all(&mut self) {
        self.release(self.samples, self.bytes);
    }

    /// What it has, in samples and bytes.
    pub(crate) const fn taken(&self) -> (usize, usize) {
        (self.samples, self.bytes)
    }

    /// Leaves its bytes in the room, to whoever has what they are of. How many.
    pub(crate) fn leave(mut self) -> usize {
        let bytes = self.bytes;
        self.forget(self.samples, bytes);
        bytes
    }

    fn forget(&mut self, samples: usize, bytes: usize) {
        self.budget.samples.set(self.budget.samples.get() - samples);
        self.budget.bytes.set(self.budget.bytes.get() - bytes);
        self.samples -= samples;
        self.bytes -= bytes;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.release_all();
    }
}

/// Why a query stops before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// Its time is over.
    Timeout,
    /// Nobody waits for it any more.
    Canceled,
}

/// Gives the core to others. Every loop of an evaluation asks it.
pub trait Pace {
    /// Whether this task has had the core for long enough. Asked often: it must be cheap.
    fn is_due(&self) -> bool;

    /// Lets others run, and says whether the query goes on afterwards.
    fn yield_now(&self) -> Pin<Box<dyn Future<Output = Result<(), Interruption>> + '_>>;

    /// The answer is there, and is put in order now: the last that is done.
    fn sorts(&self) {}
}

/// A query that has a core for itself, as in tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPace;

impl Pace for NoPace {
    fn is_due(&self) -> bool {
        false
    }

    fn yield_now(&self) -> Pin<Box<dyn Future<Output = Result<(), Interruption>> + '_>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// So much work between two questions to a [`Pace`], in values.
const WORK_BETWEEN: usize = 2048;

/// The most values that one pass goes through, or copies, before the pace is looked at.
pub(crate) const PIECE: usize = 1 << 16;

/// A pace with the work since it was asked last.
pub(crate) struct Pacing<'a> {
    pace: &'a dyn Pace,
    work: Cell<usize>,
}

impl<'a> Pacing<'a> {
    pub(crate) const fn new(pace: &'a dyn Pace) -> Self {
        Self { pace, work: Cell::new(0) }
    }

    /// Counts work that was done, and gives way where it is time.
    #[inline]
    pub(crate) async fn spent(&self, work: usize) -> Result<(), QueryError> {
        let total = self.work.get().saturating_add(work);
        if total < WORK_BETWEEN {
            self.work.set(total);
            return Ok(());
        }
        self.work.set(0);
        self.check().await
    }

    /// What is done from now on puts the answer in order.
    pub(crate) fn sorts(&self) {
        self.pace.sorts();
    }

    async fn check(&self) -> Result<(), QueryError> {
        if !self.pace.is_due() {
            return Ok(());
        }
        self.pace.yield_now().await.map_err(|interruption| match interruption {
            Interruption::Timeout => QueryError::Timeout,
            Interruption::Canceled => QueryError::Canceled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_bounded_and_comes_back() {
        let budget = Budget::new(10, 100);
        let mut held = budget.hold();
        assert_eq!(held.add(6, 50), Ok(()));
        assert_eq!(held.add(5, 0), Err(QueryError::TooManySamples));
        assert_eq!(held.add(0, 51), Err(QueryError::TooMuchMemory { bytes_max: 100 }));
        drop(held);
        assert_eq!(budget.hold().add(10, 100), Ok(()));
        assert_eq!((budget.samples_peak(), budget.bytes_peak()), (10, 100));
    }
}
