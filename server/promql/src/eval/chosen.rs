//! Aggregations that give some of their series as they are: `topk` and its likes. Each series is offered as it comes;
//! one that is among the chosen at no step any more is dropped. What was chosen among the series of each part, in the
//! order of all, is offered again where the parts come together: the same are chosen as of all series at once.

use std::cmp::Ordering;
use std::rc::Rc;

use silverback_model::Labels;

use super::Evaluator;
use super::aggregate::Groups;
use super::labels::{METRIC_NAME, bytes as labels_bytes, stable_hash};
use super::series::{AT_ONCE, Collected, EvalSeries, SeriesColumn, Sink, is_absent};
use crate::ast::Aggregator;
use crate::budget::Held;
use crate::error::QueryError;
use crate::histogram::FloatHistogram;
use crate::notes::Note;
use crate::plan::{Aggregating, Times};
use crate::queryable::QueryableSamples;
use crate::share::PartialRows;
use crate::sort::{placed, sorted_places};

/// What a series' labels are, in values' worth of work.
const LABELS_WORK: usize = 16;

/// Of those that are chosen at a step so many are noted between two looks at the slice.
const KEPT_AT_ONCE: usize = 1 << 10;

impl Evaluator<'_> {
    /// Of each group at each step the series that are chosen.
    pub(super) async fn chosen(
        &self,
        aggregate: &Aggregating,
        times: Times,
        parameters: &[f64],
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let mut choosing = Choosing::new(self, aggregate, parameters, Groups::of(aggregate))?;
        if !self.chosen_apart(aggregate, times, &mut choosing).await? {
            self.produce(&aggregate.node, times, &mut choosing).await?;
        }
        choosing.finish(sink).await
    }

    /// What is chosen among the series that the source has.
    pub(super) async fn chosen_rows(
        &self,
        aggregate: &Aggregating,
        times: Times,
        parameters: &[f64],
    ) -> Result<PartialRows, QueryError> {
        let groups = Groups::with_firsts(aggregate);
        let mut choosing = Choosing::new(self, aggregate, parameters, groups)?;
        self.produce(&aggregate.node, times, &mut choosing).await?;
        let firsts = choosing.groups.firsts.take().unwrap_or_default();
        let groups = std::mem::take(&mut choosing.groups.labels);
        let mut collected = Collected::new(self.budget);
        choosing.finish(&mut collected).await?;
        let mut rows = ChosenRows::default();
        let (mut samples, mut bytes) = (0, 0);
        for (first, group) in firsts.into_iter().zip(groups) {
            bytes += labels_bytes(&first) + labels_bytes(&group);
            rows.groups.push((Rc::unwrap_or_clone(first), Rc::unwrap_or_clone(group)));
            self.pacing.spent(LABELS_WORK).await?;
        }
        for series in std::mem::take(&mut collected.series) {
            let (series_samples, series_bytes) = series.size();
            (samples, bytes) = (samples + series_samples, bytes + series_bytes);
            collected.release(&series);
            rows.series.push(self.part_of(series).await?);
            self.pacing.spent(LABELS_WORK).await?;
        }
        let (notes, queryable) = (Vec::new(), QueryableSamples::default());
        let rows = Box::new(rows);
        Ok(PartialRows { rows, notes, samples, bytes, samples_read: 0, samples_peak: 0, queryable })
    }

    /// Offers what all who have series chose among theirs; `false`: one is to choose among all.
    async fn chosen_apart(
        &self,
        aggregate: &Aggregating,
        times: Times,
        choosing: &mut Choosing<'_>,
    ) -> Result<bool, QueryError> {
        let mut held = self.budget.hold();
        let Some(parts) = self.parts_of(aggregate, times, &mut held).await? else { return Ok(false) };
        let mut all = ChosenRows::default();
        for ChosenRows { groups, series } in parts {
            all.groups.extend(groups);
            all.series.extend(series);
        }
        let ChosenRows { groups, series } = all;
        let by_first = |left: &(Labels, Labels), right: &(Labels, Labels)| as_stored(&left.0, &right.0);
        let places = sorted_places(&groups, by_first, &self.pacing).await?;
        for (_first, group) in placed(groups, &places) {
            choosing.group(&Rc::new(group))?;
            self.pacing.spent(LABELS_WORK).await?;
        }
        let by_labels = |left: &PartialSeries, right: &PartialSeries| as_stored(&left.labels, &right.labels);
        let places = sorted_places(&series, by_labels, &self.pacing).await?;
        for series in placed(series, &places) {
            let series = self.of_part(series).await?;
            let (samples, bytes) = series.size();
            held.release(samples, bytes);
            choosing.push(series)?;
            self.settle(choosing).await?;
            self.pacing.spent(LABELS_WORK).await?;
        }
        Ok(true)
    }

    /// A series as it goes to another thread: with histograms of its own.
    async fn part_of(&self, series: EvalSeries) -> Result<PartialSeries, QueryError> {
        let EvalSeries { labels, drop_name, values: SeriesColumn { floats, histograms } } = series;
        let histograms = match histograms {
            None => None,
            Some(histograms) => {
                let mut own = Vec::with_capacity(histograms.len());
                for histogram in histograms {
                    self.pacing.spent(copy_work(histogram.as_deref())).await?;
                    own.push(histogram.map(Rc::unwrap_or_clone));
                }
                Some(own)
            }
        };
        Ok(PartialSeries { labels: Rc::unwrap_or_clone(labels), drop_name, floats, histograms })
    }

    /// A series that came from another thread.
    async fn of_part(&self, series: PartialSeries) -> Result<EvalSeries, QueryError> {
        let PartialSeries { labels, drop_name, floats, histograms } = series;
        let histograms = match histograms {
            None => None,
            Some(histograms) => {
                let mut shared = Vec::with_capacity(histograms.len());
                for histogram in histograms {
                    self.pacing.spent(copy_work(None)).await?;
                    shared.push(histogram.map(Rc::new));
                }
                Some(shared)
            }
        };
        Ok(EvalSeries { labels: Rc::new(labels), drop_name, values: SeriesColumn { floats, histograms } })
    }
}

/// What it takes to copy a histogram, if there is one, in values' worth of work.
fn copy_work(histogram: Option<&FloatHistogram>) -> usize {
    /// Room for it, and its lists.
    const ALLOCATIONS: usize = 16;

    ALLOCATIONS + histogram.map_or(0, |histogram| (histogram.positive.len() + histogram.negative.len()) / 4)
}

/// A part's groups and what is chosen of them.
#[derive(Default)]
struct ChosenRows {
    /// Of each group the labels of its first series in the order of all, and its own.
    groups: Vec<(Labels, Labels)>,
    series: Vec<PartialSeries>,
}

/// A series with its values at the steps at which it is chosen.
struct PartialSeries {
    labels: Labels,
    drop_name: bool,
    floats: Vec<f64>,
    histograms: Option<Vec<Option<FloatHistogram>>>,
}

/// The order in which stored series come, of which these are made: also where they have lost the name that all of them had.
pub(super) fn as_stored(left: &Labels, right: &Labels) -> Ordering {
    let mut pairs = (left.0.iter(), right.0.iter());
    loop {
        let (left, right) = match (pairs.0.next(), pairs.1.next()) {
            (None, None) => return Ordering::Equal,
            (Some(left), Some(right)) if left == right => continue,
            (left, right) => (left, right),
        };
        // Where one ends, the other goes on with what was before or after the name of both.
        let is_before_name = |name: &str| name < METRIC_NAME;
        return match (left, right) {
            (Some(left), Some(right)) => left.cmp(right),
            (Some((name, _)), None) if is_before_name(name) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (None, Some((name, _))) if is_before_name(name) => Ordering::Greater,
            (None, _) => Ordering::Less,
        };
    }
}

/// A series that is among the chosen at some step.
struct Candidate {
    series: EvalSeries,
    /// How many came before it.
    arrival: usize,
    /// The steps at which it is among the chosen; where there are none, its place is free.
    steps: usize,
}

/// Of one group the places of the chosen: at each step a heap, the first to give way in front.
type Picks = Vec<Vec<u32>>;

/// Makes room for one more at a step, and returns how many bytes more that takes. Each step grows by itself: no offer
/// moves what was chosen at all of them.
fn make_room(heap: &mut Vec<u32>, most: usize) -> usize {
    let before = heap.capacity();
    if heap.len() == before {
        heap.reserve_exact(before.clamp(1, (most - heap.len()).max(1)));
    }
    (heap.capacity() - before) * size_of::<u32>()
}

/// Chooses among series as they come.
struct Choosing<'a> {
    evaluator: &'a Evaluator<'a>,
    aggregate: &'a Aggregating,
    parameters: &'a [f64],
    /// How many may be chosen at most, of any step.
    most: usize,
    groups: Groups,
    picks: Vec<Picks>,
    candidates: Vec<Candidate>,
    free: Vec<u32>,
    arrivals: usize,
    /// The series that came last, while it isn't offered at all of its steps.
    offering: Option<Offering>,
    held: Held<'a>,
}

/// A series on its way into the heaps.
struct Offering {
    group: usize,
    place: u32,
    hashed: u64,
    /// The first at which it isn't offered yet.
    step: usize,
}

impl<'a> Choosing<'a> {
    fn new(
        evaluator: &'a Evaluator<'a>,
        aggregate: &'a Aggregating,
        parameters: &'a [f64],
        groups: Groups,
    ) -> Result<Self, QueryError> {
        let mut held = evaluator.budget.hold();
        held.add(0, size_of_val(parameters))?;
        let mut choosing = Self {
            evaluator,
            aggregate,
            parameters,
            most: 0,
            groups,
            picks: Vec::new(),
            candidates: Vec::new(),
            free: Vec::new(),
            arrivals: 0,
            offering: None,
            held,
        };
        choosing.most = (0..parameters.len()).map(|step| choosing.count(step)).max().unwrap_or_default();
        Ok(choosing)
    }

    /// How many of a group are chosen at a step: what is below one chooses nothing; whole numbers alone count.
    fn count(&self, step: usize) -> usize {
        match self.aggregate.aggregator {
            Aggregator::LimitRatio => usize::MAX,
            _counted => self.parameters[step].max(0.0) as usize,
        }
    }

    /// The place of a series' group.
    fn group(&mut self, labels: &Rc<Labels>) -> Result<usize, QueryError> {
        let (at, is_new) = self.groups.place(labels);
        if is_new {
            let (bytes, steps) = (self.groups.bytes(at), self.parameters.len());
            self.held.add(0, bytes + steps * size_of::<Vec<u32>>() + size_of::<Picks>())?;
            self.picks.push(vec![Vec::new(); steps]);
        }
        Ok(at)
    }

    /// Puts a candidate where it is to be found, which is not counted yet.
    fn admit(&mut self, series: EvalSeries) -> Result<u32, QueryError> {
        let candidate = Candidate { series, arrival: self.arrivals, steps: 0 };
        self.arrivals += 1;
        if let Some(place) = self.free.pop() {
            self.candidates[place as usize] = candidate;
            return Ok(place);
        }
        let place = u32::try_from(self.candidates.len()).map_err(|_many| QueryError::TooManySamples)?;
        self.held.add(0, size_of::<Candidate>() + size_of::<u32>())?;
        self.candidates.push(candidate);
        Ok(place)
    }

    fn take_series(&mut self, place: u32) -> EvalSeries {
        let gone = EvalSeries { labels: Rc::default(), drop_name: false, values: SeriesColumn::default() };
        self.free.push(place);
        std::mem::replace(&mut self.candidates[place as usize].series, gone)
    }

    /// Chooses a series at a step if there is room, or if it is better than one that is chosen.
    fn offer(&mut self, group: usize, step: usize, place: u32) -> Result<(), QueryError> {
        let count = self.count(step);
        if count == 0 {
            return Ok(());
        }
        let aggregator = self.aggregate.aggregator;
        let heap = &mut self.picks[group][step];
        if heap.len() < count {
            self.held.add(0, make_room(heap, self.most))?;
            heap.push(place);
            rise(heap, |place| key(&self.candidates, aggregator, place, step));
            self.candidates[place as usize].steps += 1;
            return Ok(());
        }
        let worst = heap[0];
        let key = |place: u32| key(&self.candidates, aggregator, place, step);
        if key(place) >= key(worst) {
            return Ok(());
        }
        heap[0] = place;
        sink_down(heap, key);
        self.candidates[place as usize].steps += 1;
        let worst_candidate = &mut self.candidates[worst as usize];
        worst_candidate.steps -= 1;
        if worst_candidate.steps == 0 {
            let (samples, bytes) = self.take_series(worst).size();
            self.held.release(samples, bytes);
        }
        Ok(())
    }

    /// Gives the chosen: those of the first step by groups, the best first, which are all of an instant query; then the
    /// others as they came.
    async fn finish(mut self, sink: &mut dyn Sink) -> Result<(), QueryError> {
        let evaluator = self.evaluator;
        evaluator.settle(&mut self).await?;
        let steps = self.parameters.len();
        let pacing = &self.evaluator.pacing;
        self.held.add(0, self.candidates.len() * (steps + size_of::<Vec<bool>>() + 2 * size_of::<u32>()))?;
        let mut keeps = Vec::with_capacity(self.candidates.len());
        for _ in &self.candidates {
            keeps.push(vec![false; steps]);
            pacing.spent(1 + steps / 8).await?;
        }
        let mut order: Vec<u32> = Vec::new();
        for picks in &self.picks {
            if let Some(first) = picks.first() {
                let key = |place: &u32| key(&self.candidates, self.aggregate.aggregator, *place, 0);
                let best_first = |left: &u32, right: &u32| key(left).cmp(&key(right));
                let places = sorted_places(first, best_first, pacing).await?;
                order.extend(placed(first.clone(), &places));
            }
            for step in 0..steps {
                for chosen in picks[step].chunks(KEPT_AT_ONCE) {
                    chosen.iter().for_each(|place| keeps[*place as usize][step] = true);
                    pacing.spent(chosen.len()).await?;
                }
                pacing.spent(1).await?;
            }
        }
        let mut later: Vec<u32> = Vec::new();
        for (place, candidate) in self.candidates.iter().enumerate() {
            if candidate.steps > 0 && !keeps[place][0] {
                later.push(place as u32);
            }
            pacing.spent(1).await?;
        }
        let arrival = |place: &u32| self.candidates[*place as usize].arrival;
        let places = sorted_places(&later, |left, right| arrival(left).cmp(&arrival(right)), pacing).await?;
        order.extend(placed(later, &places));
        for place in order {
            let mut series = self.take_series(place);
            let (samples, bytes) = series.size();
            self.held.release(samples, bytes);
            for (at, keeps) in keeps[place as usize].chunks(AT_ONCE).enumerate() {
                for (step, _) in keeps.iter().enumerate().filter(|(_, keeps)| !**keeps) {
                    series.values.clear(at * AT_ONCE + step);
                }
                pacing.spent(keeps.len()).await?;
            }
            sink.push(series)?;
            self.evaluator.settle(sink).await?;
        }
        Ok(())
    }
}

impl Sink for Choosing<'_> {
    fn push(&mut self, mut series: EvalSeries) -> Result<(), QueryError> {
        while self.go_on()? {}
        let labels = Rc::clone(&series.labels);
        let group = self.group(&labels)?;
        let aggregator = self.aggregate.aggregator;
        if matches!(aggregator, Aggregator::Topk | Aggregator::Bottomk) {
            let histograms = series.values.histograms.take();
            let mut found =
                histograms.iter().flatten().enumerate().filter(|(_, histogram)| histogram.is_some());
            if found.any(|(step, _)| self.count(step) > 0) {
                let note = Note::HistogramIgnoredInAggregation(aggregator.as_str());
                self.evaluator.notes.add(note, self.aggregate.span);
            }
        }
        let hashed = if aggregator == Aggregator::LimitRatio { stable_hash(&labels) } else { 0 };
        let place = self.admit(series)?;
        self.offering = Some(Offering { group, place, hashed, step: 0 });
        Ok(())
    }

    fn go_on(&mut self) -> Result<bool, QueryError> {
        let Some(Offering { group, place, hashed, step: first }) = self.offering else { return Ok(false) };
        let end = self.parameters.len().min(first + AT_ONCE);
        for step in first..end {
            let is_in = || {
                let ratio = self.parameters[step].clamp(-1.0, 1.0);
                self.aggregate.aggregator != Aggregator::LimitRatio || is_in_ratio(hashed, ratio)
            };
            if self.candidates[place as usize].series.values.is_present(step) && is_in() {
                self.offer(group, step, place)?;
            }
        }
        if end < self.parameters.len() {
            self.offering = Some(Offering { group, place, hashed, step: end });
            return Ok(true);
        }
        self.offering = None;
        let Candidate { series, steps, .. } = &self.candidates[place as usize];
        if *steps == 0 {
            self.take_series(place);
            return Ok(false);
        }
        let (samples, bytes) = series.size();
        self.held.add(samples, bytes)?;
        Ok(false)
    }
}

/// The better at a step is the lesser: by its value, NaN last, and where that is the same, by which came first.
fn key(candidates: &[Candidate], aggregator: Aggregator, place: u32, step: usize) -> (i64, usize) {
    let Candidate { series, arrival, .. } = &candidates[place as usize];
    let value = series.values.floats[step];
    let ascending = || {
        let bits = value.to_bits().cast_signed();
        bits ^ (((bits >> 63).cast_unsigned()) >> 1).cast_signed()
    };
    let rank = match aggregator {
        Aggregator::Topk | Aggregator::Bottomk if is_absent(value) || value.is_nan() => i64::MAX,
        Aggregator::Topk => !ascending(),
        Aggregator::Bottomk => ascending(),
        _as_they_come => 0,
    };
    (rank, *arrival)
}

/// Puts a heap's last where it belongs.
fn rise<K: Ord>(heap: &mut [u32], key: impl Fn(u32) -> K) {
    let mut at = heap.len().saturating_sub(1);
    while at > 0 {
        let parent = (at - 1) / 2;
        if key(heap[parent]) >= key(heap[at]) {
            return;
        }
        heap.swap(at, parent);
        at = parent;
    }
}

/// Puts a heap's first where it belongs.
fn sink_down<K: Ord>(heap: &mut [u32], key: impl Fn(u32) -> K) {
    let mut at = 0;
    loop {
        let children = (2 * at + 1..heap.len()).take(2);
        let Some(child) = children.max_by_key(|child| key(heap[*child])) else { return };
        if key(heap[at]) >= key(heap[child]) {
            return;
        }
        heap.swap(at, child);
        at = child;
    }
}

/// Whether a series' hash lies within a ratio; the negative ratio chooses the others.
fn is_in_ratio(hashed: u64, ratio: f64) -> bool {
    let offset = hashed as f64 / u64::MAX as f64;
    if ratio >= 0.0 { offset < ratio } else { offset >= 1.0 + ratio }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_without_their_name_keep_the_order_that_they_had_with_it() {
        let sets: [&[(&str, &str)]; 8] = [
            &[],
            &[("A", "1")],
            &[("A", "1"), ("B", "1")],
            &[("A", "1"), ("job", "x")],
            &[("A", "2")],
            &[("B", "1"), ("job", "x")],
            &[("job", "x")],
            &[("job", "x"), ("z", "1")],
        ];
        for left in sets {
            for right in sets {
                let plain = |set: &[(&str, &str)]| Labels::from_pairs(set.iter().copied());
                let named =
                    |set: &[(&str, &str)]| Labels::from_pairs(set.iter().copied().chain([("__name__", "a")]));
                let stored = named(left).cmp(&named(right));
                assert_eq!(as_stored(&plain(left), &plain(right)), stored, "{left:?} {right:?}");
                assert_eq!(as_stored(&named(left), &named(right)), stored, "{left:?} {right:?}");
            }
        }
    }
}
