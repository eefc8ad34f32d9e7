//! Histograms without their observations above or below a value: `</` and `>/`.

use super::{FloatBucket, FloatHistogram};

/// Which observations stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Below,
    Above,
}

impl FloatHistogram {
    /// With the observations on one side of a value. The sum is that of the buckets' middles where anything went.
    pub(crate) fn trimmed(&self, value: f64, keep: Keep) -> Self {
        let mut result = self.clone();
        let is_custom = self.has_custom_buckets();
        let (mut count, mut sum, mut is_trimmed) = (0.0, 0.0, false);
        let mut trim = |bucket: FloatBucket, slot: &mut f64, is_positive: bool| {
            let (kept, middle) = trimmed_bucket(bucket, value, keep, is_positive, is_custom);
            is_trimmed |= kept != *slot;
            *slot = kept;
            count += kept;
            sum += if kept == 0.0 { 0.0 } else { middle * kept };
        };
        for (index, slot) in result.positive.iter_mut().filter(|(_, count)| *count != 0.0) {
            trim(self.bucket(*index, *slot), slot, true);
        }
        for (index, slot) in result.negative.iter_mut().filter(|(_, count)| *count != 0.0) {
            let above = self.bucket(*index, *slot);
            trim(FloatBucket { lower: -above.upper, upper: -above.lower, ..above }, slot, false);
        }
        if self.zero_count > 0.0 {
            let (kept, middle) = self.trimmed_zero(value, keep);
            is_trimmed |= kept != self.zero_count;
            result.zero_count = kept;
            sum += middle * kept;
            count += kept;
        }
        if is_trimmed {
            (result.count, result.sum) = (count, sum);
            result.positive.retain(|(_, count)| *count != 0.0);
            result.negative.retain(|(_, count)| *count != 0.0);
        }
        result
    }

    fn trimmed_zero(&self, value: f64, keep: Keep) -> (f64, f64) {
        let has = |buckets: &[(i32, f64)]| buckets.iter().any(|(_, count)| *count != 0.0);
        let (above, below) = (has(&self.positive), has(&self.negative));
        let lower = if above && !below { 0.0 } else { -self.zero_threshold };
        let upper = if below && !above { 0.0 } else { self.zero_threshold };
        let all = (self.zero_count, (lower + upper) / 2.0);
        match keep {
            Keep::Below if value <= lower => (0.0, 0.0),
            Keep::Below if value >= upper => all,
            Keep::Below => (self.zero_count * ((value - lower) / (upper - lower)), (lower + value) / 2.0),
            Keep::Above if value <= lower => all,
            Keep::Above if value >= upper => (0.0, 0.0),
            Keep::Above => (self.zero_count * ((upper - value) / (upper - lower)), (value + upper) / 2.0),
        }
    }
}

/// What stays of a bucket, and the middle of what stays.
fn trimmed_bucket(
    bucket: FloatBucket,
    value: f64,
    keep: Keep,
    is_positive: bool,
    is_custom: bool,
) -> (f64, f64) {
    let all = (bucket.count, middle(bucket.lower, bucket.upper, is_positive, is_custom));
    match keep {
        Keep::Below if bucket.upper <= value => return all,
        Keep::Below if bucket.lower >= value => return (0.0, 0.0),
        Keep::Above if bucket.lower >= value => return all,
        Keep::Above if bucket.upper <= value => return (0.0, 0.0),
        Keep::Below | Keep::Above => {}
    }
    if bucket.lower == f64::NEG_INFINITY || bucket.upper == f64::INFINITY {
        return trimmed_endless(bucket, value, keep);
    }
    let below = bucket.count * bucket.fraction_below(value, is_custom);
    match keep {
        Keep::Below => (below, middle(bucket.lower, value, is_positive, is_custom)),
        Keep::Above => (bucket.count - below, middle(value, bucket.upper, is_positive, is_custom)),
    }
}

/// A bucket without an end, in which the value lies: where its observations are isn't known.
fn trimmed_endless(bucket: FloatBucket, value: f64, keep: Keep) -> (f64, f64) {
    let finite = |bound: f64| if bound.is_infinite() { 0.0 } else { bound };
    let has_upper = bucket.upper.is_finite();
    match (keep, bucket.lower == f64::NEG_INFINITY) {
        // Taken to begin at zero where it ends above.
        (Keep::Below, true) if value > 0.0 && bucket.upper > 0.0 && has_upper => {
            (bucket.count * value / bucket.upper, value / 2.0)
        }
        (Keep::Below, true) if bucket.upper <= 0.0 => (bucket.count, value),
        (Keep::Above, true) if value >= 0.0 && has_upper => {
            (bucket.count * (1.0 - value / bucket.upper), (value + bucket.upper) / 2.0)
        }
        (Keep::Below | Keep::Above, true) => (0.0, finite(bucket.upper)),
        (Keep::Below, false) => (0.0, finite(bucket.lower)),
        (Keep::Above, false) => (bucket.count, value),
    }
}

fn middle(lower: f64, upper: f64, is_positive: bool, is_linear: bool) -> f64 {
    if lower.is_infinite() {
        return match (upper.is_infinite(), upper > 0.0) {
            (true, _) => 0.0,
            (false, true) => upper / 2.0,
            (false, false) => upper,
        };
    }
    if upper.is_infinite() {
        return lower;
    }
    if is_linear {
        return (lower + upper) / 2.0;
    }
    let middle = (lower * upper).abs().sqrt();
    if is_positive { middle } else { -middle }
}
