//! A shard's exemplars: a part's are accepted after its samples, and go with their series.
//!
//! They are kept in a [ring](ring) beside the series, so that what has none takes nothing for them. Who asks for them
//! is not known here.

pub(in crate::shard) mod ring;

use crate::message::{ExemplarOutcome, PartExemplar, WriteBody};
use crate::shard::Shard;
use crate::shard::append::TimeBounds;
use crate::shard::exemplars::ring::{ExemplarNumber, Put};
use crate::wal::Journal;
use silverback_model::limits::EXEMPLAR_SHARE;
use silverback_model::{CellId, Exemplar, ExemplarRejected, SeriesRef};

/// Exemplars that are looked at between two looks at the slice.
pub(in crate::shard) const STEP: usize = 64;

impl Shard {
    /// Keeps at most so many exemplars from now on; 0: none, and each one is refused.
    pub fn set_exemplars_max(&mut self, count_max: usize) {
        self.exemplars.set_count_max(count_max);
        self.counters.exemplars_max = count_max;
    }

    /// Gives the exemplars their share of a changed budget.
    pub(super) fn share_budget_with_exemplars(&mut self, budget_bytes: usize) {
        self.exemplars.set_bytes_max(budget_bytes / EXEMPLAR_SHARE);
    }

    /// Takes exemplars of a part in, once its samples are. What isn't kept is counted by reason.
    pub fn append_exemplars(
        &mut self,
        body: &WriteBody,
        exemplars: &[PartExemplar],
        bounds: TimeBounds,
        journal: &mut impl Journal,
    ) -> ExemplarOutcome {
        let mut outcome = ExemplarOutcome::default();
        for one in exemplars {
            match self.append_exemplar(one, &body.exemplar(one), bounds, journal) {
                Ok(Put::Stored) => outcome.kept += 1,
                Ok(Put::Already) => {
                    outcome.kept += 1;
                    self.counters.exemplars_already += 1;
                }
                Err(reason) => {
                    outcome.refuse(reason, 1);
                    self.counters.exemplars_refused.add(reason, 1);
                }
            }
        }
        self.counters.exemplars += u64::from(outcome.kept);
        outcome
    }

    fn append_exemplar(
        &mut self,
        one: &PartExemplar,
        exemplar: &Exemplar<'_>,
        bounds: TimeBounds,
        journal: &mut impl Journal,
    ) -> Result<Put, ExemplarRejected> {
        if exemplar.timestamp_ms > bounds.newest_ms {
            return Err(ExemplarRejected::TooFarInFuture);
        }
        if exemplar.timestamp_ms < bounds.oldest_ms {
            return Err(ExemplarRejected::TooOld);
        }
        let series = self.find(one.series).ok_or(ExemplarRejected::UnknownSeries)?;
        let put = self.exemplars.put(series, exemplar, bounds.late_window_ms)?;
        if put == Put::Stored {
            journal.exemplar(series, exemplar);
        }
        Ok(put)
    }

    /// Lets some exemplars go that are older than `horizon_ms`, of those that came from `from` on. Where to go on.
    pub(super) fn drop_exemplars_before(
        &mut self,
        horizon_ms: i64,
        from: ExemplarNumber,
    ) -> Option<ExemplarNumber> {
        let some: Vec<_> = self.exemplars.arrived(from, self.exemplars.end()).take(STEP).collect();
        let next = some.last().map(|(arrival, _)| arrival.next());
        let old = some.into_iter().map(|(_, kept)| kept);
        let old: Vec<_> = old.filter(|kept| kept.exemplar().timestamp_ms < horizon_ms).cloned().collect();
        old.iter().for_each(|kept| self.exemplars.remove(kept));
        next
    }

    /// Passes on some exemplars, of those that came from `from` on and before `end`. Where to go on.
    pub(super) fn visit_exemplars(
        &self,
        (from, end): (ExemplarNumber, ExemplarNumber),
        mut visit: impl FnMut(SeriesRef, &Exemplar<'_>),
    ) -> Option<ExemplarNumber> {
        let mut next = None;
        for (arrival, kept) in self.exemplars.arrived(from, end).take(STEP) {
            visit(kept.series, &kept.exemplar());
            next = Some(arrival.next());
        }
        next
    }

    /// Whether a series is in a cell.
    pub(super) fn is_in(&self, series: SeriesRef, cell: CellId) -> bool {
        self.store.id(series).cell() == cell
    }
}
