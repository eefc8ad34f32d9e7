//! Instant selectors: at each step a series' last sample that isn't too old.
//!
//! What `smoothed` makes of samples is described in [`super::smoothed`].

use super::series::{EvalSeries, SeriesColumn, Sink};
use super::strides::Border;
use super::{Evaluator, Samples};
use crate::ast::Edge;
use crate::data::is_stale;
use crate::error::QueryError;
use crate::plan::{Hinting, InstantSelector, Times};

/// What a step of an instant selector shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SelectorShows {
    Value,
    /// The sample's time in seconds.
    Time,
}

impl Evaluator<'_> {
    pub(super) async fn select(
        &self,
        moment: &InstantSelector,
        times: Times,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        self.select_shown(moment, times, SelectorShows::Value, sink).await
    }

    pub(super) async fn select_shown(
        &self,
        moment: &InstantSelector,
        times: Times,
        shown: SelectorShows,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        self.room_for_steps(times)?;
        let lookback_ms = self.plan.options.lookback_ms;
        let ahead_ms = if moment.edge == Edge::Smoothed { lookback_ms } else { 0 };
        let after_ms = moment.shift.of(times.start_ms).saturating_sub(lookback_ms);
        let until_ms = moment.shift.of(times.end_ms()).saturating_add(ahead_ms);
        let (mut samples, mut held) = (Samples::default(), self.budget.hold());
        while let Some(fetched) = self.source.next(moment.select).await? {
            samples.read(&fetched, after_ms, until_ms, &mut held, &self.pacing).await?;
            if moment.hints == Hinting::Found {
                samples.find_resets();
            }
            self.budget.count_read(samples.len());
            let reads = samples.len();
            let values = match moment.edge {
                Edge::Smoothed => {
                    samples.drop_stale(&self.pacing).await?;
                    self.smoothed(&samples, &fetched.labels, moment, times)
                }
                Edge::Plain | Edge::Anchored => latest(&samples, moment, times, lookback_ms, shown),
            };
            if self.queryable.counts() {
                self.queryable.add_steps(values.weights());
            }
            if !values.is_empty() {
                sink.push(EvalSeries { labels: fetched.labels, drop_name: false, values })?;
                self.settle(sink).await?;
            }
            samples.clear();
            self.pacing.spent(reads + times.count).await?;
        }
        Ok(())
    }
}

/// At each step the last sample before or at its time.
fn latest(
    samples: &Samples,
    moment: &InstantSelector,
    times: Times,
    lookback_ms: i64,
    shown: SelectorShows,
) -> SeriesColumn {
    let mut column = SeriesColumn::absent(times.count);
    if samples.histograms.is_empty() {
        latest_floats(samples, moment, times, lookback_ms, shown, &mut column.floats);
        return column;
    }
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
            (SelectorShows::Time, _) => column.floats[step] = time as f64 / 1000.0,
            (SelectorShows::Value, true) => column.floats[step] = samples.floats[last],
            (SelectorShows::Value, false) => column.set_histogram(step, samples.histograms[last].clone()),
        }
    }
    column
}

/// The same where there are floats alone.
fn latest_floats(
    samples: &Samples,
    moment: &InstantSelector,
    times: Times,
    lookback_ms: i64,
    shown: SelectorShows,
    values: &mut [f64],
) {
    let mut border = Border::default();
    for (at_ms, value) in times.all().zip(values) {
        let at_ms = moment.shift.of(at_ms);
        let Some(last) = border.after(&samples.float_times, at_ms).checked_sub(1) else { continue };
        let time = samples.float_times[last];
        if time > at_ms.saturating_sub(lookback_ms) && !is_stale(samples.floats[last]) {
            *value = match shown {
                SelectorShows::Time => time as f64 / 1000.0,
                SelectorShows::Value => samples.floats[last],
            };
        }
    }
}
