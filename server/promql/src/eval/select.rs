//! Instant selectors: at each step a series' last sample that isn't too old.
//!
//! What `smoothed` makes of samples is told in [`super::smoothed`].

use super::series::{Column, Series, Sink};
use super::{Evaluator, Samples};
use crate::ast::Edge;
use crate::budget::Pacing;
use crate::data::{Fetched, is_stale};
use crate::error::QueryError;
use crate::plan::{Hinting, Moment, Times};

/// The places of series in the order of their labels. Those that are in order already cost no more than a look.
pub(super) async fn order(series: &[Fetched], pacing: &Pacing<'_>) -> Result<Vec<u32>, QueryError> {
    const SERIES_BETWEEN: usize = 64;

    let mut order: Vec<_> = (0..series.len() as u32).collect();
    let mut is_sorted = true;
    // Each part begins with the last of the one before.
    for start in (0..series.len()).step_by(SERIES_BETWEEN) {
        let part = &series[start..series.len().min(start + SERIES_BETWEEN + 1)];
        is_sorted &= part.is_sorted_by(|left, right| left.labels <= right.labels);
        pacing.spent(16 * part.len()).await?;
    }
    if !is_sorted {
        order.sort_by(|left, right| series[*left as usize].labels.cmp(&series[*right as usize].labels));
    }
    Ok(order)
}

/// What a step of an instant selector shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Value,
    /// The sample's time in seconds.
    Time,
}

impl Evaluator<'_> {
    /// A select's series, by labels.
    pub(super) fn fetched(&self, select: usize) -> impl Iterator<Item = &Fetched> {
        let fetched = &self.fetched[select];
        self.orders[select].iter().map(|at| &fetched[*at as usize])
    }

    pub(super) async fn select(
        &self,
        moment: &Moment,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        self.select_shown(moment, times, Shown::Value, sink).await
    }

    pub(super) async fn select_shown(
        &self,
        moment: &Moment,
        times: Times,
        shown: Shown,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        self.room_for_steps(times)?;
        let lookback_ms = self.plan.options.lookback_ms;
        let ahead_ms = if moment.edge == Edge::Smoothed { lookback_ms } else { 0 };
        let after_ms = moment.shift.of(times.start_ms).saturating_sub(lookback_ms);
        let until_ms = moment.shift.of(times.end_ms()).saturating_add(ahead_ms);
        let mut samples = Samples::default();
        for fetched in self.fetched(moment.select) {
            samples.read(fetched, after_ms, until_ms, &self.pacing).await?;
            if moment.hints == Hinting::Found {
                samples.find_resets();
            }
            self.budget.count_read(samples.len());
            let reads = samples.len();
            let values = match moment.edge {
                Edge::Smoothed => {
                    samples.drop_stale();
                    self.smoothed(&samples, &fetched.labels, moment, times)
                }
                Edge::Plain | Edge::Anchored => latest(&samples, moment, times, lookback_ms, shown),
            };
            if !values.is_empty() {
                sink.push(Series { labels: fetched.labels.clone(), drop_name: false, values })?;
            }
            self.pacing.spent(reads + times.count).await?;
        }
        Ok(())
    }
}

/// At each step the last sample before or at its time.
fn latest(samples: &Samples, moment: &Moment, times: Times, lookback_ms: i64, shown: Shown) -> Column {
    let mut column = Column::absent(times.count);
    let (mut floats, mut histograms) = (0, 0);
    for (step, at_ms) in times.all().enumerate() {
        let at_ms = moment.shift.of(at_ms);
        floats += samples.float_times[floats..].iter().take_while(|time| **time <= at_ms).count();
        histograms += samples.histogram_times[histograms..].iter().take_while(|time| **time <= at_ms).count();
        let float = floats.checked_sub(1).map(|last| (samples.float_times[last], last));
        let histogram = histograms.checked_sub(1).map(|last| (samples.histogram_times[last], last));
        let is_float = match (float, histogram) {
            (Some(float), Some(histogram)) => float.0 > histogram.0,
            (float, None) => float.is_some(),
            (None, Some(_)) => false,
        };
        let Some((time, last)) = (if is_float { float } else { histogram }) else { continue };
        if time <= at_ms.saturating_sub(lookback_ms) {
            continue;
        }
        let stale = match is_float {
            true => is_stale(samples.floats[last]),
            false => samples.histograms[last].is_stale(),
        };
        match (shown, is_float) {
            _ if stale => {}
            (Shown::Time, _) => column.floats[step] = time as f64 / 1000.0,
            (Shown::Value, true) => column.floats[step] = samples.floats[last],
            (Shown::Value, false) => column.set_histogram(step, samples.histograms[last].clone()),
        }
    }
    column
}
