//! The way of a part into the shard: find or make each series, take its samples in, count.

use std::ops::Range;

use crate::cell::series::{LabelRef, SeriesStore};
use crate::cell::{AppendError, Appended, SeriesRef};
use crate::message::{
    CachedRef, ExemplarOutcome, LabelSpan, PartSamples, PartSeries, RefUpdates, RejectedSamples, WriteBody,
};
use crate::shard::Shard;
use crate::shard::position::{PartPosition, begins_unsorted};
use crate::shard::refusal_words::{RefusalContext, job_of, labels_text, numbers};
use crate::shard::sorting::Sorting;
use crate::shard::start_timestamps::{NoStarts, PartStarts, Starts};
use crate::wal::Journal;
use silverback_model::{CellId, RefusedReason, Sample, SeriesId};

/// How many series ahead the table's slot is brought near, then the series' line, and then the end
/// of its open chunk: far enough that memory answers in time, near enough that it is still there
/// when it is used.
const SLOT_AHEAD: usize = 24;
const LINE_AHEAD: usize = 16;
const TAIL_AHEAD: usize = 8;

/// The series that the next entries probably mean, found when their lines were brought near.
#[derive(Debug, Default)]
struct Ahead([Option<SeriesRef>; AHEAD_MAX]);
const AHEAD_MAX: usize = 32;
const _: () = assert!(LINE_AHEAD < AHEAD_MAX);

/// What is done between two looks at the clock, in samples of some 10 ns: about 100 µs.
pub(super) const PIECE_WORK: usize = 8 * 1024;

/// What a known series takes besides its samples, likewise: its line comes from memory.
const SERIES_WORK: usize = 4;

/// What one takes more that isn't where it was looked for, or whose samples aren't just the next ones.
const SEARCH_WORK: usize = 16;

/// What a label of a new series takes besides its bytes, of which [`TEXT_WORK`] take what a sample takes: it is looked up,
/// indexed and logged.
const LABEL_WORK: usize = 4;
const TEXT_WORK: usize = 64;

/// What a refused sample takes, and what the first of several takes that are refused for one reason: its job's name is
/// looked for.
const REFUSED_WORK: usize = 8;
const REASON_WORK: usize = 64;

/// What the entries of a part have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfPart<'a> {
    pub(super) body: &'a WriteBody,
    pub(super) bounds: TimeBounds,
}

/// Which timestamps are accepted, in ms, both ends inclusive.
#[derive(Debug, Clone, Copy)]
pub struct TimeBounds {
    /// The oldest: what retention keeps.
    pub oldest_ms: i64,
    /// The newest: a bit ahead of the clock.
    pub newest_ms: i64,
    /// How much older than the newest of its series a late sample may be, in ms; 0: there are no late ones.
    pub late_window_ms: i64,
}

/// Samples of a series, one after the other, that are refused for the same reason.
#[derive(Debug, Clone, Copy)]
pub(super) struct RefusedRun {
    pub(super) reason: RefusedReason,
    pub(super) first: Sample,
    /// The series' newest sample then.
    pub(super) newest_ms: Option<i64>,
    /// Whether the series has native histograms.
    pub(super) has_histograms: bool,
    pub(super) samples: u64,
}

impl RefusedRun {
    /// Adds one to the run that goes on, or gives that back where another begins.
    fn extend(going_on: &mut Option<Self>, one: Self) -> Option<Self> {
        match going_on {
            Some(run) if run.reason == one.reason => {
                run.samples += 1;
                None
            }
            Some(_) | None => going_on.replace(one),
        }
    }
}

/// What became of a part's samples.
#[derive(Debug, Default)]
pub struct PartOutcome {
    /// Samples that are stored now, retries of stored ones among them.
    pub written: u64,
    /// Native histograms, likewise.
    pub histograms: u64,
    /// What became of its exemplars.
    pub exemplars: ExemplarOutcome,
    /// The others, by reason; `None` where there are none.
    pub refusals: Option<Box<RejectedSamples>>,
    /// Where series are that aren't where their sender had them.
    pub ref_updates: Option<Box<RefUpdates>>,
}

impl Shard {
    /// Takes a part's samples in. `samples` holds the series' samples one series after the other.
    pub fn append(
        &mut self,
        body: &WriteBody,
        series: &[PartSeries],
        samples: &[Sample],
        bounds: TimeBounds,
        journal: &mut impl Journal,
    ) -> PartOutcome {
        let (mut outcome, mut position) = (PartOutcome::default(), PartPosition::default());
        let part = PartSamples { series, samples, starts: &[] };
        while position.series < series.len() {
            outcome.add(self.append_piece(body, part, &mut position, bounds, journal));
        }
        outcome
    }

    /// Takes a part in from where it was left, as much as is done between two looks at the clock: at least a sample, or
    /// a series that has none.
    pub(crate) fn append_piece(
        &mut self,
        body: &WriteBody,
        part: PartSamples<'_>,
        position: &mut PartPosition,
        bounds: TimeBounds,
        journal: &mut impl Journal,
    ) -> PartOutcome {
        let of_part = OfPart { body, bounds };
        // Apart, so that samples without start timestamps pay nothing for those that have one.
        if part.starts.is_empty() {
            return self.append_piece_of(of_part, (part, &mut NoStarts), position, journal);
        }
        let mut starts = PartStarts::behind(part.starts, position.samples);
        let outcome = self.append_piece_of(of_part, (part, &mut starts), position, journal);
        self.count_starts(starts.counts());
        outcome
    }

    fn append_piece_of(
        &mut self,
        of_part: OfPart<'_>,
        (PartSamples { series, samples, .. }, starts): (PartSamples<'_>, &mut impl Starts),
        position: &mut PartPosition,
        journal: &mut impl Journal,
    ) -> PartOutcome {
        let mut outcome = PartOutcome::default();
        let (began, mut ahead) = (*position, Ahead::default());
        let series = &series[began.series..];
        let series = &series[..series.len().min(PIECE_WORK / SERIES_WORK)];
        let (mut rest, mut of_next) = (&samples[began.samples..], began.of_next);
        let enough = rest.len().saturating_sub(PIECE_WORK);
        let (mut whole, mut in_order) = (series.len(), 0);
        self.store.begin_piece();
        for step in 0..series.len() + SLOT_AHEAD {
            self.look_ahead(series, step, &mut ahead);
            let Some(at) = step.checked_sub(SLOT_AHEAD) else { continue };
            let (entry, candidate) = (&series[at], ahead.at(at));
            let (own, after) = rest.split_at(entry.samples as usize - of_next);
            starts.begin(samples.len() - rest.len());
            let taken = self.append_in_order(of_part.bounds, entry, candidate, (own, &mut *starts), journal);
            in_order += taken;
            if taken < own.len() {
                let work = at * SERIES_WORK + samples.len() - began.samples - rest.len();
                let sorted = (began.sorted + rest.len()).saturating_sub(samples.len());
                let rest_of_it = (own, taken, PIECE_WORK.saturating_sub(work), &mut *starts, sorted);
                let taken = self.append_rest(of_part, entry, candidate, rest_of_it, journal, &mut outcome);
                let is_whole = taken == own.len();
                if !is_whole || work + taken + self.store.extra_work() >= PIECE_WORK {
                    (whole, of_next) = if is_whole { (at + 1, 0) } else { (at, of_next + taken) };
                    rest = &rest[taken..];
                    break;
                }
            } else if let Some(series) = candidate
                && taken > 0
            {
                // It took all of them: its line has their id.
                outcome.tell_ref(entry, Some(series));
            }
            (rest, of_next) = (after, 0);
            if rest.len() < enough {
                whole = at + 1;
                break;
            }
        }
        let samples_taken = samples.len() - rest.len();
        *position = PartPosition { series: began.series + whole, of_next, samples: samples_taken, ..began };
        outcome.written += in_order as u64;
        let taken = &samples[began.samples..samples_taken];
        if self.note_range(taken, of_part.bounds) < self.late_marks.border_ms() {
            self.mark_late(series, began.of_next, taken, of_part.bounds);
        }
        self.counters.samples += outcome.written;
        if let Some(refusals) = &outcome.refusals {
            self.counters.refused.merge(&refusals.counts);
        }
        outcome
    }

    /// Widens the shard's range by what was sent inside the bounds, and returns the oldest of that.
    fn note_range(&mut self, samples: &[Sample], bounds: TimeBounds) -> i64 {
        let allowed = bounds.oldest_ms..=bounds.newest_ms;
        let widest = |(oldest, newest): (i64, i64), time: i64| (oldest.min(time), newest.max(time));
        let times = || samples.iter().map(|sample| sample.timestamp_ms);
        let none = (i64::MAX, i64::MIN);
        let mut range_ms = times().fold(none, widest);
        if !(allowed.contains(&range_ms.0) && allowed.contains(&range_ms.1)) {
            range_ms = times().filter(|time| allowed.contains(time)).fold(none, widest);
        }
        if range_ms != none {
            let was = self.range_ms.unwrap_or(range_ms);
            self.range_ms = Some(widest(widest(was, range_ms.0), range_ms.1));
        }
        range_ms.0
    }

    /// Brings near what the entries after the one of this step will touch, each in three steps. One whose sender has
    /// its ref needs no slot: its line says whether the ref is right, and one that is wrong pays for the search.
    #[inline(always)]
    fn look_ahead(&self, series: &[PartSeries], step: usize, ahead: &mut Ahead) {
        if let Some(next) = series.get(step)
            && next.cached.get().is_none()
        {
            self.cells[usize::from(next.id.cell().0)].table.prefetch(next.id);
        }
        if let Some(at) = step.checked_sub(SLOT_AHEAD - LINE_AHEAD)
            && let Some(next) = series.get(at)
        {
            let candidate = match next.cached.get() {
                Some(cached) => self.store.may_hold(cached).then_some(cached),
                None => self.cells[usize::from(next.id.cell().0)].table.candidate(next.id),
            };
            ahead.set(at, candidate);
            candidate.inspect(|found| self.store.prefetch(*found));
        }
        if let Some(at) = step.checked_sub(SLOT_AHEAD - TAIL_AHEAD)
            && let Some(found) = ahead.at(at)
        {
            self.store.prefetch_tail(found);
        }
    }

    /// Takes samples in of a known series that has floats alone, for as long as each is its newest and has room in its
    /// chunk, and returns how many: what nearly all samples are.
    #[inline(always)]
    fn append_in_order(
        &mut self,
        bounds: TimeBounds,
        entry: &PartSeries,
        candidate: Option<SeriesRef>,
        (samples, starts): (&[Sample], &mut impl Starts),
        journal: &mut impl Journal,
    ) -> usize {
        let Some(series) = candidate else { return 0 };
        if entry.labels.is_deltas() || self.store.has_histograms(series) {
            return 0;
        }
        let Some(mut open) = self.store.open_series(series, entry.id) else { return 0 };
        let mut taken = 0;
        for sample in samples {
            if bounds.check(*sample).is_err() || !open.append_in_chunk(*sample) {
                break;
            }
            journal.stored(series, *sample);
            starts.stored(taken, sample.timestamp_ms, journal);
            taken += 1;
        }
        self.note_taken(entry.id.cell(), Some(series), taken);
        taken
    }

    /// Takes the other samples of a series in, the `in_order`-th and those after it, whatever they are, until that took
    /// `work`, or until there are many that have to be sorted first, see [`PartPosition::unsorted`]: not among the first
    /// `sorted`, nor where the series has histograms. Returns how many of all are taken then.
    #[inline(never)]
    fn append_rest(
        &mut self,
        of_part: OfPart<'_>,
        entry: &PartSeries,
        candidate: Option<SeriesRef>,
        (samples, in_order, work, starts, sorted): (&[Sample], usize, usize, &mut impl Starts, usize),
        journal: &mut impl Journal,
        outcome: &mut PartOutcome,
    ) -> usize {
        self.store.add_work(SEARCH_WORK);
        let mut series = candidate.filter(|s| self.store.id(*s) == entry.id).or_else(|| self.find(entry.id));
        let mut taken = in_order;
        let OfPart { body, bounds } = of_part;
        let late_window_ms = if entry.labels.is_deltas() { 0 } else { bounds.late_window_ms };
        let mut refused = None;
        // Of one that is made here no histogram is known.
        let has_histograms = series.is_some_and(|series| self.store.has_histograms(series));
        let may_be_sorted = late_window_ms > 0 && !has_histograms;
        for (i, sample) in samples.iter().enumerate().skip(in_order) {
            if may_be_sorted && i >= sorted && begins_unsorted(samples, i) {
                break;
            }
            let summed = if entry.labels.is_deltas() { &self.summed(series, *sample) } else { sample };
            let result = match (bounds.check(*sample), series) {
                (Err(reason), _) => Err(reason),
                (Ok(()), Some(known)) => {
                    let appended = if has_histograms {
                        self.store.append_beside_histograms(known, *summed, late_window_ms)
                    } else {
                        self.store.append(known, *summed, late_window_ms)
                    };
                    self.note_append(known, *summed, appended, journal)
                }
                (Ok(()), None) => self.create_series(body, entry, *summed, journal).map(|made| {
                    series = Some(made);
                    Appended::Stored
                }),
            };
            taken = i + 1;
            match result {
                Ok(Appended::Stored | Appended::StoredLate) => {
                    outcome.written += 1;
                    starts.stored(i, sample.timestamp_ms, journal);
                }
                Ok(Appended::Already) => outcome.written += 1,
                Err(reason) => {
                    self.store.add_work(REFUSED_WORK);
                    let newest_ms = series.map(|series| self.store.newest_ms(series));
                    let run = RefusedRun { reason, first: *sample, newest_ms, has_histograms, samples: 1 };
                    if let Some(ended) = RefusedRun::extend(&mut refused, run) {
                        self.refuse(ended, of_part, entry.labels, outcome);
                    }
                }
            }
            if taken - in_order + self.store.extra_work() >= work {
                break;
            }
        }
        if let Some(run) = refused {
            self.refuse(run, of_part, entry.labels, outcome);
        }
        self.note_taken(entry.id.cell(), series, taken - in_order);
        outcome.tell_ref(entry, series);
        taken
    }

    /// Counts samples of a series as taken in, for the cell's load and where it leaves.
    #[inline(always)]
    fn note_taken(&mut self, cell: CellId, series: Option<SeriesRef>, samples: usize) {
        self.cells[usize::from(cell.0)].samples += samples as u64;
        if let (Some(outgoing), Some(series)) = (&mut self.outgoing, series) {
            outgoing.touch(cell, series);
        }
    }

    /// What a series has come to with what came since its newest sample: all that is to be known of it is
    /// stored already. What was stored before, for a sender that sends it again.
    #[cold]
    fn summed(&mut self, series: Option<SeriesRef>, delta: Sample) -> Sample {
        let Some(newest) = series.map(|series| self.store.newest(series)) else { return delta };
        match delta.timestamp_ms > newest.timestamp_ms {
            // A gap of either: the sum starts over, as a counter does that was reset.
            true if newest.value.is_nan() || delta.value.is_nan() => delta,
            true => Sample::new(delta.timestamp_ms, newest.value + delta.value),
            false => series.and_then(|at| self.store.sample_at(at, delta.timestamp_ms)).unwrap_or(delta),
        }
    }

    /// Counts samples of a series as refused, and says so in words where they are the first.
    #[cold]
    pub(super) fn refuse(
        &mut self,
        RefusedRun { reason, first, newest_ms, has_histograms, samples }: RefusedRun,
        OfPart { body, bounds }: OfPart<'_>,
        labels: LabelSpan,
        outcome: &mut PartOutcome,
    ) {
        self.store.add_work(REASON_WORK);
        let words = || {
            let seen = RefusalContext {
                sample: first,
                bounds,
                newest_ms,
                has_histograms,
                series_max: self.series_limit.of_node(),
                budget_bytes: self.memory.no_new_series_bytes(),
            };
            (labels_text(body, labels), numbers(reason, &seen))
        };
        let refusals = outcome.refusals.get_or_insert_default();
        refusals.refuse(reason, samples, &job_of(body, labels), words);
        if let Some(stream_ref) = labels.stream_ref() {
            refusals.note_ref(stream_ref, reason, samples);
        }
    }

    /// The series of an id. An append asks only where no candidate was right: the series is new, or
    /// was made since the candidates were looked up, or shares its tag with another.
    #[inline(never)]
    pub(super) fn find(&self, id: SeriesId) -> Option<SeriesRef> {
        self.cells[usize::from(id.cell().0)].table.find(id, |s| self.store.id(s) == id)
    }

    /// What sorts a series' samples, which have these places in a part. Nothing where the series has histograms: beside
    /// those what is late is a question of its own.
    pub(super) fn sorting(&self, id: SeriesId, places: Range<usize>, bounds: TimeBounds) -> Option<Sorting> {
        let Some(series) = self.find(id) else { return Some(Sorting::of(places, None, bounds)) };
        let newest_ms = Some(self.store.newest_ms(series));
        (!self.store.has_histograms(series)).then(|| Sorting::of(places, newest_ms, bounds))
    }

    /// Tells the log and the counters what became of a sample.
    #[inline]
    fn note_append(
        &mut self,
        series: SeriesRef,
        sample: Sample,
        appended: Result<Appended, AppendError>,
        journal: &mut impl Journal,
    ) -> Result<Appended, RefusedReason> {
        match appended {
            Ok(Appended::Stored) => journal.stored(series, sample),
            Ok(Appended::StoredLate) => self.stored_late(series, sample, journal),
            Ok(Appended::Already) => self.counters.already += 1,
            Err(AppendError::OutOfOrder | AppendError::Duplicate) => {}
        }
        appended.map_err(|error| match error {
            AppendError::OutOfOrder => RefusedReason::OutOfOrder,
            AppendError::Duplicate => RefusedReason::Duplicate,
        })
    }

    #[cold]
    fn stored_late(&mut self, series: SeriesRef, sample: Sample, journal: &mut impl Journal) {
        journal.stored_late(series, sample);
        self.counters.late += 1;
        if let Some(outgoing) = &mut self.outgoing {
            outgoing.touch_late(self.store.id(series).cell(), series);
        }
    }

    #[inline(never)]
    fn create_series(
        &mut self,
        body: &WriteBody,
        entry: &PartSeries,
        first: Sample,
        journal: &mut impl Journal,
    ) -> Result<SeriesRef, RefusedReason> {
        let create = |store: &mut SeriesStore, labels| store.create(entry.id, labels, first);
        let series = self.create_by(body, entry.id, entry.labels, create, journal)?;
        journal.stored(series, first);
        Ok(series)
    }

    /// Makes a series that `create` puts into the store.
    pub(super) fn create_by(
        &mut self,
        body: &WriteBody,
        id: SeriesId,
        labels: LabelSpan,
        create: impl FnOnce(&mut SeriesStore, Box<[LabelRef]>) -> Option<SeriesRef>,
        journal: &mut impl Journal,
    ) -> Result<SeriesRef, RefusedReason> {
        if self.series_limit.is_reached_by(self.store.count()) {
            return Err(RefusedReason::SeriesLimit);
        }
        if !self.has_room_for_next_series() {
            return Err(RefusedReason::MemoryLimit);
        }
        let labels = self.intern_labels(body, labels)?;
        let Some(series) = create(&mut self.store, labels.as_slice().into()) else {
            self.index.forget_unused(&labels);
            return Err(RefusedReason::SeriesLimit);
        };
        self.index.add(series, &labels);
        self.insert_in_cell(id, series);
        self.counters.series_created += 1;
        let text = labels.iter().map(|label| self.index.text(*label));
        journal.created(series, id, text.map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        Ok(series)
    }

    fn intern_labels(&mut self, body: &WriteBody, span: LabelSpan) -> Result<Vec<LabelRef>, RefusedReason> {
        let mut labels = Vec::with_capacity(16);
        let (mut full, mut text_bytes) = (false, 0);
        body.for_each_label(span, |name, value| {
            text_bytes += name.len() + value.len();
            // The decoder refused what isn't UTF-8.
            match self.index.intern(name, value) {
                Some(label) => labels.push(label),
                None => full = true,
            }
        });
        self.store.add_work(LABEL_WORK * labels.len() + text_bytes / TEXT_WORK);
        if full {
            self.index.forget_unused(&labels);
            return Err(RefusedReason::SeriesLimit);
        }
        Ok(labels)
    }

    pub(super) fn insert_in_cell(&mut self, id: SeriesId, series: SeriesRef) {
        let store = &self.store;
        let table = &mut self.cells[usize::from(id.cell().0)].table;
        self.table_bytes -= table.bytes();
        table.insert(id, series, |s| store.id(s));
        self.table_bytes += table.bytes();
    }
}

impl Ahead {
    #[inline]
    fn set(&mut self, at: usize, series: Option<SeriesRef>) {
        self.0[at % AHEAD_MAX] = series;
    }

    /// What was found for the entry at `at`, one of those that the last steps were about.
    #[inline]
    fn at(&self, at: usize) -> Option<SeriesRef> {
        self.0[at % AHEAD_MAX]
    }
}

impl TimeBounds {
    #[inline]
    pub(super) fn check(self, sample: Sample) -> Result<(), RefusedReason> {
        if sample.timestamp_ms > self.newest_ms {
            return Err(RefusedReason::TooFarInFuture);
        }
        if sample.timestamp_ms < self.oldest_ms {
            return Err(RefusedReason::TooOld);
        }
        Ok(())
    }
}

impl PartOutcome {
    /// Tells the sender of an entry where its series is, or that it is nowhere, if it caches that and has something else.
    #[inline(always)]
    fn tell_ref(&mut self, entry: &PartSeries, series: Option<SeriesRef>) {
        let now = series.map_or(CachedRef::NOT_YET, CachedRef::of);
        if entry.cached != now
            && entry.cached != CachedRef::NONE
            && let Some(stream_ref) = entry.labels.stream_ref()
        {
            self.ref_updates.get_or_insert_default().push(stream_ref, now);
        }
    }

    /// Adds what became of another piece of the same part.
    pub(crate) fn add(&mut self, other: Self) {
        self.written += other.written;
        self.histograms += other.histograms;
        self.exemplars.add(other.exemplars);
        match (&mut self.refusals, other.refusals) {
            (Some(refusals), Some(more)) => refusals.merge(*more),
            (None, more) => self.refusals = more,
            (Some(_), None) => {}
        }
        match (&mut self.ref_updates, other.ref_updates) {
            (Some(updates), Some(more)) => updates.append(*more),
            (None, more) => self.ref_updates = more,
            (Some(_), None) => {}
        }
    }
}
