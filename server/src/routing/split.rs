//! Splits a request's series over the shards that own them.

use std::rc::Rc;

use crate::routing::{Overloaded, RoutingTable};
use silverback_model::{Metadata, Sample, SeriesId, ShardId};
use silverback_storage::message::{
    LabelSpan, Part, PartExemplar, PartHistogram, PartMetadata, PartPool, PartSeries,
};

/// The parts of a request as they fill: one for each shard that owns any of its series.
#[derive(Debug)]
pub struct Split<'a> {
    table: Rc<RoutingTable>,
    pool: &'a PartPool,
    parts: Vec<Option<Part>>,
    current: usize,
    overloaded: bool,
}

impl<'a> Split<'a> {
    /// An empty split by the table as it is now.
    pub fn new(table: Rc<RoutingTable>, pool: &'a PartPool) -> Self {
        let parts = std::iter::repeat_with(|| None).take(table.shards()).collect();
        Self { table, pool, parts, current: 0, overloaded: false }
    }

    /// Begins a series, or goes on with it where it is the last one; its `samples` follow.
    #[inline(always)]
    pub fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
        self.part_series(PartSeries::new(id, labels, samples));
    }

    /// The same, as a part has it.
    #[inline(always)]
    pub fn part_series(&mut self, series: PartSeries) {
        let Some(part) = self.part_of(series.id) else { return };
        match part.series.last_mut() {
            Some(last) if last.goes_on_as(&series) => last.samples += series.samples,
            Some(_) | None => part.series.push(series),
        }
    }

    /// Begins a series with its first sample, which is counted in it; [others](Self::another_sample) may follow.
    #[inline(always)]
    pub(crate) fn series_with(&mut self, series: PartSeries, sample: Sample) {
        if let Some(part) = self.part_of(series.id) {
            let part = &mut **part;
            part.series.push(series);
            part.samples.push(sample);
        }
    }

    /// The part of a series' owner, which becomes the current one.
    #[inline(always)]
    fn part_of(&mut self, id: SeriesId) -> Option<&mut Part> {
        self.current = usize::from(self.table.shard_of(id).0);
        if self.parts[self.current].is_none() {
            self.begin_part();
        }
        self.parts[self.current].as_mut()
    }

    #[inline(never)]
    fn begin_part(&mut self) {
        match self.pool.take() {
            Some(mut part) => {
                part.epoch = self.table.epoch();
                self.parts[self.current] = Some(part);
            }
            None => self.overloaded = true,
        }
    }

    /// One sample of the series that was begun last.
    #[inline]
    pub fn sample(&mut self, sample: Sample) {
        if let Some(part) = &mut self.parts[self.current] {
            part.samples.push(sample);
        }
    }

    /// The start timestamp of the sample that came last, in ms, not 0.
    pub fn start_timestamp(&mut self, start_ms: i64) {
        if let Some(part) = &mut self.parts[self.current] {
            part.push_start(start_ms);
        }
    }

    /// One sample more than was said of the series that was begun last.
    #[inline]
    pub(crate) fn another_sample(&mut self, sample: Sample) {
        if let Some(part) = &mut self.parts[self.current] {
            if let Some(series) = part.series.last_mut() {
                series.samples += 1;
            }
            part.samples.push(sample);
        }
    }

    /// A native histogram, of whatever series.
    pub fn histogram(&mut self, histogram: PartHistogram) {
        if let Some(part) = self.part(self.table.shard_of(histogram.id)) {
            part.histograms.push(histogram);
        }
    }

    /// An exemplar of a series, wherever its samples are.
    pub(crate) fn exemplar(&mut self, exemplar: PartExemplar) {
        if let Some(part) = self.part(self.table.shard_of(exemplar.series)) {
            part.exemplars.push(exemplar);
        }
    }

    /// What is said of a metric: it is kept where its name's hash says, whatever cells move.
    pub(crate) fn metadata(&mut self, said: &Metadata<'_>, metadata: PartMetadata) {
        if let Some(part) = self.part(said.home(self.table.shards())) {
            part.metadata.push(metadata);
        }
    }

    /// The part of a shard, beside the current one: what follows of the series that was begun last goes where that is.
    fn part(&mut self, shard: ShardId) -> Option<&mut Part> {
        let (current, at) = (self.current, usize::from(shard.0));
        if self.parts[at].is_none() {
            self.current = at;
            self.begin_part();
            self.current = current;
        }
        self.parts[at].as_mut()
    }

    /// The memory of the parts' buffers, beyond what they had in their pool.
    pub(crate) fn grown_bytes(&self) -> usize {
        self.parts.iter().flatten().map(|part| part.grown_bytes()).sum()
    }

    /// The parts and their owners; an error when the pool had none left for one of them.
    pub fn finish(self) -> Result<impl Iterator<Item = (ShardId, Part)>, Overloaded> {
        if self.overloaded {
            return Err(Overloaded);
        }
        let owned = |(shard, part): (usize, Option<Part>)| part.map(|part| (ShardId(shard as u16), part));
        Ok(self.parts.into_iter().enumerate().filter_map(owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_storage::message::LabelSource;

    fn id(cell: u128) -> SeriesId {
        SeriesId(cell << 118)
    }

    #[test]
    fn each_series_goes_to_its_owner_with_its_samples() {
        let pool = PartPool::default();
        let mut split = Split::new(Rc::new(RoutingTable::even(4)), &pool);
        let span = LabelSpan::new(LabelSource::Wire, 0, 0);
        for (cell, count) in [(0, 2), (1023, 1), (1, 1)] {
            split.series(id(cell), span, count);
            (0..count).for_each(|t| split.sample(Sample::new(i64::from(t), cell as f64)));
        }
        let parts: Vec<_> = split.finish().unwrap().collect();
        assert_eq!(parts.iter().map(|(shard, _)| shard.0).collect::<Vec<_>>(), [0, 3]);
        let first = &parts[0].1;
        assert_eq!(
            first.series.iter().map(|s| (s.id, s.samples)).collect::<Vec<_>>(),
            [(id(0), 2), (id(1), 1)]
        );
        assert_eq!(first.samples.iter().map(|s| s.value).collect::<Vec<_>>(), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn a_series_that_comes_several_times_in_a_row_is_one() {
        let pool = PartPool::default();
        let mut split = Split::new(Rc::new(RoutingTable::even(1)), &pool);
        let spans = [0, 8, 16].map(|begin| LabelSpan::new(LabelSource::Wire, begin, 8));
        for (cell, span, count) in [(0, spans[0], 2), (0, spans[1], 1), (1, spans[2], 1), (0, spans[0], 1)] {
            split.series(id(cell), span, count);
            (0..count).for_each(|t| split.sample(Sample::new(i64::from(t), cell as f64)));
        }
        let (_, part) = split.finish().unwrap().next().unwrap();
        let series: Vec<_> = part.series.iter().map(|s| (s.id, s.labels, s.samples)).collect();
        assert_eq!(series, [(id(0), spans[0], 3), (id(1), spans[2], 1), (id(0), spans[0], 1)]);
        assert_eq!(part.samples.len(), 5);
    }

    #[test]
    fn an_empty_pool_refuses_the_request() {
        let pool = PartPool::default();
        let _taken: Vec<Part> = std::iter::from_fn(|| pool.take()).collect();
        let mut split = Split::new(Rc::new(RoutingTable::even(1)), &pool);
        split.series(id(0), LabelSpan::new(LabelSource::Wire, 0, 0), 1);
        split.sample(Sample::new(0, 0.0));
        assert!(split.finish().is_err());
    }
}
