//! The steps of a cut: marks are taken and dropped, and samples of a range counted, in slices.

use super::OrEnds;
use crate::cell::SeriesRef;
use crate::message::{CutReply, CutStep, HeldSamples};
use crate::shard::read::job::ReadJob;
use crate::shard::{Host, Shard};
use silverback_model::Epoch;
use silverback_model::limits::CHUNK_RANGE_MS;

/// Series that are looked at between two looks at the slice: some µs.
const STEP: u32 = 32;

/// Does a step.
pub(super) async fn step<H: Host>(job: &ReadJob<H>, step: CutStep) -> OrEnds<CutReply> {
    match step {
        CutStep::Count { begin_ms } => count(job, begin_ms).await.map(CutReply::Counted),
        CutStep::Begin { begin_ms } => {
            Ok(CutReply::Begun(job.shard.borrow_mut().late_marks.begin_cut(begin_ms)))
        }
        CutStep::End { begin_ms } => {
            job.shard.borrow_mut().end_cut(begin_ms, job.epoch);
            Ok(CutReply::Ended)
        }
    }
}

async fn count<H: Host>(job: &ReadJob<H>, begin_ms: i64) -> OrEnds<HeldSamples> {
    let (mut held, mut from) = (HeldSamples::default(), 0);
    loop {
        let end = job.shard.borrow().store.end();
        if from >= end {
            return Ok(held);
        }
        let to = end.min(from + STEP);
        {
            let mut shard = job.shard.borrow_mut();
            (from..to)
                .map(SeriesRef)
                .for_each(|series| shard.count_held(series, job.epoch, begin_ms, &mut held));
        }
        from = to;
        job.yield_if_needed().await?;
    }
}

impl Shard {
    /// Adds the samples of a series, where it is one that the shard answers for.
    fn count_held(&mut self, series: SeriesRef, epoch: Epoch, begin_ms: i64, held: &mut HeldSamples) {
        let is_own = self.index.all().contains(series.0)
            && self.ownership.answers(self.store.id(series).cell(), epoch);
        let end_ms = begin_ms.saturating_add(CHUNK_RANGE_MS - 1);
        if !is_own {
            return;
        }
        let mut samples = 0;
        if self.store.overlaps(series, begin_ms, end_ms) {
            // What waits to be folded into chunks counts with them, as reads find it.
            self.store.fold_late(series);
            let sealed = self.store.sealed_between(series, begin_ms, end_ms);
            samples += sealed.iter().map(|chunk| chunk.count() as u64).sum::<u64>();
            if self.store.open_between(series, begin_ms, end_ms).is_some() {
                samples += self.store.open_count(series) as u64;
            }
        }
        let histograms = self.store.histogram_chunks(series, begin_ms, end_ms);
        samples += histograms.map(|chunk| chunk.count() as u64).sum::<u64>();
        held.add(self.store.id(series), samples);
    }

    fn end_cut(&mut self, begin_ms: i64, epoch: Epoch) {
        let Self { late_marks, store, ownership, .. } = self;
        late_marks.end_cut(begin_ms, |series| ownership.answers(store.id(series).cell(), epoch));
    }
}
