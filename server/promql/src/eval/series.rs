//! One series' values at all steps, and what takes series one by one.

use std::rc::Rc;

use hashbrown::HashTable;
use silverback_model::{Labels, STALE_NAN_BITS};

use super::labels::{bytes as labels_bytes, hash, lose_name};
use crate::budget::{Budget, Held};
use crate::error::{QueryError, same_labelset};
use crate::histogram::FloatHistogram;

/// No value at a step. A marker that no computation gives: the bits of a signalling NaN.
pub(crate) const ABSENT: f64 = f64::from_bits(STALE_NAN_BITS);

/// Whether there is no float at a step.
#[inline]
pub(crate) const fn is_absent(value: f64) -> bool {
    value.to_bits() == STALE_NAN_BITS
}

/// A series with its values at all steps of an evaluation.
#[derive(Debug, Clone)]
pub(crate) struct EvalSeries {
    pub(crate) labels: Rc<Labels>,
    /// It loses its name at the end.
    pub(crate) drop_name: bool,
    pub(crate) values: SeriesColumn,
}

/// Values at all steps. At a step there is a float, or a histogram, or nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeriesColumn {
    pub(crate) floats: Vec<f64>,
    /// As long as the floats, where there are any.
    pub(crate) histograms: Option<Vec<Option<Rc<FloatHistogram>>>>,
}

impl SeriesColumn {
    pub(crate) fn absent(steps: usize) -> Self {
        Self { floats: vec![ABSENT; steps], histograms: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.floats.len()
    }

    pub(crate) fn histogram(&self, step: usize) -> Option<&Rc<FloatHistogram>> {
        self.histograms.as_ref()?[step].as_ref()
    }

    pub(crate) fn is_present(&self, step: usize) -> bool {
        !is_absent(self.floats[step]) || self.histogram(step).is_some()
    }

    pub(crate) fn set_histogram(&mut self, step: usize, histogram: Rc<FloatHistogram>) {
        let steps = self.floats.len();
        self.histograms.get_or_insert_with(|| vec![None; steps])[step] = Some(histogram);
        self.floats[step] = ABSENT;
    }

    pub(crate) fn clear(&mut self, step: usize) {
        self.floats[step] = ABSENT;
        if let Some(histograms) = &mut self.histograms {
            histograms[step] = None;
        }
    }

    /// Of each step, as how many samples it counts.
    pub(crate) fn weights(&self) -> impl Iterator<Item = u64> {
        // Several steps may show the same.
        let mut last: Option<(&Rc<FloatHistogram>, u64)> = None;
        (0..self.floats.len()).map(move |step| match (self.histogram(step), last) {
            (Some(histogram), Some((same, weight))) if Rc::ptr_eq(histogram, same) => weight,
            (Some(histogram), _) => {
                let weight = histogram.weight();
                last = Some((histogram, weight));
                weight
            }
            (None, _) => u64::from(!is_absent(self.floats[step])),
        })
    }

    /// Values at any step.
    pub(crate) fn count(&self) -> usize {
        let floats = self.floats.iter().filter(|value| !is_absent(**value)).count();
        floats + self.histograms.iter().flatten().filter(|histogram| histogram.is_some()).count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.floats.iter().all(|value| is_absent(*value))
            && self.histograms.iter().flatten().all(Option::is_none)
    }

    /// Takes another's values at the steps where this has none. `false`: both have one at a step.
    pub(crate) fn merge(&mut self, other: Self) -> bool {
        for step in 0..self.len() {
            if !other.is_present(step) {
                continue;
            }
            if self.is_present(step) {
                return false;
            }
            match other.histogram(step) {
                Some(histogram) => self.set_histogram(step, Rc::clone(histogram)),
                None => self.floats[step] = other.floats[step],
            }
        }
        true
    }

    /// The same value at so many steps.
    pub(crate) fn repeated(&self, steps: usize) -> Self {
        let histograms = self.histograms.as_ref().map(|histograms| vec![histograms[0].clone(); steps]);
        Self { floats: vec![self.floats[0]; steps], histograms }
    }

    /// What it takes, in samples and bytes.
    fn size(&self) -> (usize, usize) {
        let histograms = self.histograms.iter().flatten().flatten();
        let histogram_bytes: usize = histograms.map(|histogram| histogram.bytes()).sum();
        let slots = self.histograms.as_ref().map_or(0, Vec::len) * size_of::<Option<Rc<FloatHistogram>>>();
        (self.count() + histogram_bytes / 16, self.floats.len() * size_of::<f64>() + slots + histogram_bytes)
    }
}

/// Takes a vector's series one by one.
pub(crate) trait Sink {
    /// Takes one. All of them are of as many steps.
    fn push(&mut self, series: EvalSeries) -> Result<(), QueryError>;

    /// Goes on with the one that was taken, where there is more to do for it than is done at one go: [`AT_ONCE`] steps'
    /// worth of work. Returns whether there is still more. Whoever doesn't ask has it done by the next push.
    fn go_on(&mut self) -> Result<bool, QueryError> {
        Ok(false)
    }
}

/// Steps of a series that are looked into between two looks at the slice.
pub(crate) const AT_ONCE: usize = 1 << 10;

/// Changes each series, or leaves it out, on its way to a sink.
pub(crate) struct Through<'s, F> {
    sink: &'s mut dyn Sink,
    change: F,
}

impl<'s, F: FnMut(EvalSeries) -> Option<EvalSeries>> Through<'s, F> {
    pub(crate) fn new(sink: &'s mut dyn Sink, change: F) -> Self {
        Self { sink, change }
    }
}

impl<F: FnMut(EvalSeries) -> Option<EvalSeries>> Sink for Through<'_, F> {
    fn push(&mut self, series: EvalSeries) -> Result<(), QueryError> {
        (self.change)(series).map_or(Ok(()), |series| self.sink.push(series))
    }

    fn go_on(&mut self) -> Result<bool, QueryError> {
        self.sink.go_on()
    }
}

/// A function takes each.
impl<F: FnMut(EvalSeries) -> Result<(), QueryError>> Sink for F {
    fn push(&mut self, series: EvalSeries) -> Result<(), QueryError> {
        self(series)
    }
}

/// A whole vector, its memory taken from the budget.
#[derive(Debug)]
pub(crate) struct Collected<'a> {
    pub(crate) series: Vec<EvalSeries>,
    held: Held<'a>,
}

impl<'a> Collected<'a> {
    pub(crate) const fn new(budget: &'a Budget) -> Self {
        Self { series: Vec::new(), held: budget.hold() }
    }

    /// What its series take.
    pub(crate) const fn held(&self) -> &Held<'a> {
        &self.held
    }

    /// Gives back what a series takes that is no longer in it.
    pub(crate) fn release(&mut self, series: &EvalSeries) {
        let (samples, bytes) = series.size();
        self.held.release(samples, bytes);
    }
}

impl Sink for Collected<'_> {
    fn push(&mut self, series: EvalSeries) -> Result<(), QueryError> {
        let (samples, bytes) = series.size();
        self.held.add(samples, bytes)?;
        self.series.push(series);
        Ok(())
    }
}

/// Series by their labels, of which each is there once: what has the same labels is merged, step by step.
#[derive(Debug)]
pub(crate) struct Merged<'a> {
    collected: Collected<'a>,
    places: HashTable<usize>,
}

impl<'a> Merged<'a> {
    pub(crate) fn new(budget: &'a Budget) -> Self {
        Self { collected: Collected::new(budget), places: HashTable::new() }
    }

    /// How many series.
    pub(crate) fn len(&self) -> usize {
        self.collected.series.len()
    }

    /// In the order of their first.
    pub(crate) fn into_series(self) -> Collected<'a> {
        self.collected
    }

    /// The series of these labels, a new one of so many steps where there is none yet.
    pub(crate) fn entry(
        &mut self,
        labels: &Rc<Labels>,
        drop_name: bool,
        steps: usize,
    ) -> Result<&mut EvalSeries, QueryError> {
        let at = match self.find(labels) {
            Some(at) => at,
            None => self.insert(EvalSeries {
                labels: Rc::clone(labels),
                drop_name,
                values: SeriesColumn::absent(steps),
            })?,
        };
        Ok(&mut self.collected.series[at])
    }

    fn find(&self, labels: &Labels) -> Option<usize> {
        let series = &self.collected.series;
        self.places.find(hash(labels), |at| *series[*at].labels == *labels).copied()
    }

    fn insert(&mut self, series: EvalSeries) -> Result<usize, QueryError> {
        let at = self.collected.series.len();
        let hashed = hash(&series.labels);
        self.collected.push(series)?;
        let series = &self.collected.series;
        self.places.insert_unique(hashed, at, |at| hash(&series[*at].labels));
        Ok(at)
    }
}

impl Sink for Merged<'_> {
    fn push(&mut self, series: EvalSeries) -> Result<(), QueryError> {
        match self.find(&series.labels) {
            None => self.insert(series).map(|_| ()),
            Some(at) => {
                let merged = &mut self.collected.series[at].values;
                let (samples_before, bytes_before) = merged.size();
                if !merged.merge(series.values) {
                    return Err(same_labelset());
                }
                let (samples, bytes) = merged.size();
                self.collected.held.add(samples - samples_before, bytes.saturating_sub(bytes_before))
            }
        }
    }
}

impl EvalSeries {
    /// What it takes, in samples and bytes. Its labels may be shared: then they count for each that has them.
    pub(crate) fn size(&self) -> (usize, usize) {
        let (samples, bytes) = self.values.size();
        (samples, bytes + labels_bytes(&self.labels) + size_of::<Self>())
    }

    /// Without its name: at once, or marked to lose it at the end.
    pub(crate) fn lose_name(&mut self, is_delayed: bool) {
        if !is_delayed {
            lose_name(&mut self.labels);
        }
        self.drop_name = true;
    }
}
