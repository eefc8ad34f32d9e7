//! A counter's samples as its increase a second. It knows no output.

use super::QueriedSeries;
use crate::formats::STALE_NAN;

/// What rules append to a metric's name for the rate of it.
const SUFFIX: &str = ":rate";

/// From each sample to the next: how much the counter grew in a second, at the later one's time. A value below the
/// one before is a counter that started again at 0. Where a sample is no number the next rate begins after it, and a
/// marker of staleness keeps the gap.
pub(super) fn of(series: QueriedSeries) -> QueriedSeries {
    let mut samples: Vec<(i64, f64)> = Vec::with_capacity(series.samples.len());
    for pair in series.samples.windows(2) {
        let [(from_ms, from), (to_ms, to)] = [pair[0], pair[1]];
        let span_s = (to_ms as f64 - from_ms as f64) / 1e3;
        if to.is_nan() {
            samples.push((to_ms, STALE_NAN));
        } else if !from.is_nan() && span_s > 0.0 {
            let grown = if to < from { to } else { to - from };
            samples.push((to_ms, grown / span_s));
        }
    }
    QueriedSeries { labels: series.labels.with_metric_suffix(SUFFIX), samples, histograms: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label_set::LabelSet;

    fn check(samples: &[(i64, f64)], expect: &[(i64, f64)]) {
        let labels = vec![("__name__".to_owned(), "a_total".to_owned()), ("job".to_owned(), "x".to_owned())];
        let series = QueriedSeries {
            labels: LabelSet::trusted(labels),
            samples: samples.to_vec(),
            histograms: Vec::new(),
        };
        let rate = of(series);
        assert_eq!(rate.labels.to_string(), r#"a_total:rate{job="x"}"#);
        let bits = |samples: &[(i64, f64)]| -> Vec<_> {
            samples.iter().map(|(at_ms, value)| (*at_ms, value.to_bits())).collect()
        };
        assert_eq!(bits(&rate.samples), bits(expect), "{samples:?}");
    }

    #[test]
    fn a_rate_is_what_a_counter_grew_by_in_a_second() {
        check(&[], &[]);
        check(&[(0, 5.0)], &[]);
        check(&[(0, 5.0), (10_000, 25.0), (10_500, 25.0)], &[(10_000, 2.0), (10_500, 0.0)]);
    }

    #[test]
    fn a_counter_that_began_anew_has_grown_from_zero() {
        check(&[(0, 100.0), (1000, 3.0), (2000, 4.0)], &[(1000, 3.0), (2000, 1.0)]);
    }

    #[test]
    fn a_gap_stays_one() {
        let samples = [(0, 1.0), (1000, STALE_NAN), (2000, 10.0), (3000, 11.0)];
        check(&samples, &[(1000, STALE_NAN), (3000, 1.0)]);
    }
}
