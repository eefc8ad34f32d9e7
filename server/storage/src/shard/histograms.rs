//! The way of a part's native histograms into the shard: each is read from the request's bytes, judged, and accepted
//! by its series. Knows nothing of the part's floats, which come before.

use crate::cell::series::SeriesStore;
use crate::cell::{AppendError, Appended, SeriesRef};
use crate::message::{PartHistogram, WriteBody};
use crate::shard::Shard;
use crate::shard::append::{OfPart, PIECE_WORK, PartOutcome, RefusedRun, TimeBounds};
use crate::wal::Journal;
use silverback_model::histogram::Histogram;
use silverback_model::histogram::wire::{HistogramWireError, ReadMessage, Untimed};
use silverback_model::limits::HISTOGRAM_SCRATCH_BYTES_KEPT;
use silverback_model::{RefusedReason, Sample};

/// How many histograms ahead the table's slot is brought near, then the series' lines, its histograms, and what is
/// written against: each is found through the one before.
const SLOT_AHEAD: usize = 7;
const LINES_AHEAD: usize = 5;
const HISTOGRAMS_AHEAD: usize = 3;
const LAST_AHEAD: usize = 1;

/// Histograms that are appended between two looks at the clock: so many, ...
const PIECE_HISTOGRAMS: usize = 8;
/// ... and of so many bytes, but one at least. One may take a thousand times as long as another.
const PIECE_HISTOGRAM_BYTES: usize = 1024;

/// How many of a part's next histograms are a piece, where none takes more than its bytes say.
fn piece_of(next: &[PartHistogram]) -> usize {
    let mut bytes = 0;
    let fits = |histogram: &&PartHistogram| {
        bytes += histogram.message.bytes();
        bytes <= PIECE_HISTOGRAM_BYTES
    };
    let fitting = next.iter().take(PIECE_HISTOGRAMS).take_while(fits).count();
    fitting.max(1).min(next.len())
}

impl Shard {
    /// Brings near what those of a part will touch that come next.
    fn look_ahead_at_histograms(&self, next: &[PartHistogram]) {
        let table = |next: &PartHistogram| &self.cells[usize::from(next.id.cell().0)].table;
        let candidate = |ahead: usize| next.get(ahead).and_then(|next| table(next).candidate(next.id));
        if let Some(next) = next.get(SLOT_AHEAD) {
            table(next).prefetch(next.id);
        }
        candidate(LINES_AHEAD).into_iter().for_each(|series| self.store.prefetch_history(series));
        candidate(HISTOGRAMS_AHEAD).into_iter().for_each(|series| self.store.prefetch_histograms(series));
        candidate(LAST_AHEAD).into_iter().for_each(|series| self.store.prefetch_last_histogram(series));
    }

    /// Takes some of a part's next histograms in, one at least: what is done between two looks at the clock. How many they
    /// are, and what became of them.
    pub fn append_histograms(
        &mut self,
        body: &WriteBody,
        next: &[PartHistogram],
        bounds: TimeBounds,
        journal: &mut impl Journal,
    ) -> (usize, PartOutcome) {
        let (mut outcome, piece) = (PartOutcome::default(), piece_of(next));
        // The shard's own, so that its lists grow once.
        let mut scratch = std::mem::take(&mut self.histogram);
        let mut taken = 0;
        self.store.begin_piece();
        while taken < piece && self.store.extra_work() < PIECE_WORK {
            self.look_ahead_at_histograms(&next[taken..]);
            let of_part = OfPart { body, bounds };
            self.append_one(of_part, &next[taken], &mut scratch, journal, &mut outcome);
            taken += 1;
        }
        self.keep_scratch(scratch);
        self.counters.samples += outcome.histograms;
        if let Some(refusals) = &outcome.refusals {
            self.counters.refused.merge(&refusals.counts);
        }
        (taken, outcome)
    }

    /// Keeps what histograms were read into for the next ones, unless a huge one was among them.
    fn keep_scratch(&mut self, scratch: Histogram) {
        if scratch.heap_bytes() <= HISTOGRAM_SCRATCH_BYTES_KEPT {
            self.histogram = scratch;
        }
    }

    fn append_one(
        &mut self,
        of_part: OfPart<'_>,
        entry: &PartHistogram,
        scratch: &mut Histogram,
        journal: &mut impl Journal,
        outcome: &mut PartOutcome,
    ) {
        let series = self.find(entry.id);
        let read = read(of_part, entry, scratch);
        let time_ms = read.as_ref().map_or_else(|(time_ms, _)| *time_ms, |read| read.times.timestamp_ms);
        let stored = read.map_err(|(_, reason)| reason);
        let stored =
            stored.and_then(|read| self.store_histogram(of_part, entry, series, (read, scratch), journal));
        match stored {
            Ok(()) => outcome.histograms += 1,
            Err(reason) => {
                let newest_ms = series.map(|series| self.store.newest_ms(series));
                let first = Sample::new(time_ms, 0.0);
                let run = RefusedRun { reason, first, newest_ms, has_histograms: true, samples: 1 };
                self.refuse(run, of_part, entry.labels, outcome);
            }
        }
        self.cells[usize::from(entry.id.cell().0)].samples += 1;
    }

    fn store_histogram(
        &mut self,
        OfPart { body, bounds }: OfPart<'_>,
        entry: &PartHistogram,
        series: Option<SeriesRef>,
        (read, histogram): (ReadMessage<'_>, &Histogram),
        journal: &mut impl Journal,
    ) -> Result<(), RefusedReason> {
        let time_ms = read.times.timestamp_ms;
        let (series, appended) = match series {
            Some(series) => (series, self.append_to(series, time_ms, histogram, bounds.late_window_ms)?),
            None => {
                let create = |store: &mut SeriesStore, labels| {
                    store.create_with_histogram(entry.id, labels, time_ms, histogram)
                };
                let series = self.create_by(body, entry.id, entry.labels, create, journal)?;
                self.memory.look_before_next();
                (series, Appended::Stored)
            }
        };
        let is_late = match appended {
            Appended::Stored => false,
            Appended::StoredLate => true,
            Appended::Already => {
                self.counters.already += 1;
                return Ok(());
            }
        };
        let times = self.logged_times(read.times);
        let as_it_came = read.around_timestamp.filter(|_| times == read.times);
        let untimed = as_it_came.map_or(Untimed::Unwritten(histogram), Untimed::AsItCame);
        if is_late {
            journal.stored_late_histogram(series, times, untimed);
            self.counters.late += 1;
        } else {
            journal.stored_histogram(series, times, untimed);
        }
        self.widen_range(time_ms, time_ms);
        if time_ms < self.late_marks.border_ms() {
            self.late_marks.mark(series, time_ms);
        }
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.touch(entry.id.cell(), series);
        }
        Ok(())
    }

    fn append_to(
        &mut self,
        series: SeriesRef,
        time_ms: i64,
        histogram: &Histogram,
        late_window_ms: i64,
    ) -> Result<Appended, RefusedReason> {
        // The first of a series takes as much memory as a new series does.
        if !self.store.has_histograms(series) && !self.has_room_for_series() {
            return Err(RefusedReason::MemoryLimit);
        }
        let appended = self.store.append_histogram_beside_floats(series, time_ms, histogram, late_window_ms);
        appended.map_err(|error| match error {
            AppendError::OutOfOrder => RefusedReason::OutOfOrder,
            AppendError::Duplicate => RefusedReason::Duplicate,
        })
    }
}

/// Reads and judges a histogram, and returns what its message says, or why it is refused.
fn read<'a>(
    OfPart { body, bounds }: OfPart<'a>,
    entry: &PartHistogram,
    scratch: &mut Histogram,
) -> Result<ReadMessage<'a>, (i64, RefusedReason)> {
    let mut read = scratch.read_untimed(body.message(entry.message)).map_err(|fault| match fault {
        HistogramWireError::Malformed => (0, RefusedReason::MalformedHistogram),
        HistogramWireError::Histogram(fault) => (0, fault.into()),
    })?;
    let (time_ms, schema) = (read.times.timestamp_ms, scratch.schema);
    bounds.check(Sample::new(time_ms, 0.0)).map_err(|reason| (time_ms, reason))?;
    scratch.accept().map_err(|fault| (time_ms, fault.into()))?;
    if scratch.schema != schema {
        // A replay doesn't reduce what was reduced here.
        read.around_timestamp = None;
    }
    Ok(read)
}

#[cfg(test)]
mod tests;
