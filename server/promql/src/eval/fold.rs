//! How the floats of a group become one: value by value, and what was made of some with what was made of others.

use super::math::{Mean, Sum};

/// How floats become one.
pub(super) trait Fold: Sized + 'static {
    /// What is kept at each step.
    type Cell: Clone + Send + 'static;

    fn first(value: f64) -> Self::Cell;
    fn add(cell: &mut Self::Cell, value: f64);
    /// Takes what was made of other values.
    fn merge(cell: &mut Self::Cell, other: Self::Cell);
    fn finish(cell: &Self::Cell) -> f64;
}

/// Calls a method for the fold of an aggregator, where it has one.
macro_rules! by_fold {
    ($aggregator:expr, $self:ident.$method:ident($($argument:expr),*), else $other:expr) => {{
        use $crate::ast::Aggregator as Of;
        use $crate::eval::fold;
        match $aggregator {
            Of::Sum => $self.$method::<fold::SumFold>($($argument),*).await,
            Of::Avg => $self.$method::<fold::AvgFold>($($argument),*).await,
            Of::Count => $self.$method::<fold::CountFold>($($argument),*).await,
            Of::Group => $self.$method::<fold::GroupFold>($($argument),*).await,
            Of::Min => $self.$method::<fold::MinFold>($($argument),*).await,
            Of::Max => $self.$method::<fold::MaxFold>($($argument),*).await,
            Of::Stdvar => $self.$method::<fold::VarianceFold>($($argument),*).await,
            Of::Stddev => $self.$method::<fold::DeviationFold>($($argument),*).await,
            Of::Topk | Of::Bottomk | Of::Quantile | Of::Limitk | Of::LimitRatio | Of::CountValues => $other,
        }
    }};
}
pub(super) use by_fold;

macro_rules! fold {
    ($name:ident, $cell:ty, $first:expr, $add:expr, $merge:expr, $finish:expr) => {
        pub(super) struct $name;

        impl Fold for $name {
            type Cell = $cell;

            fn first(value: f64) -> $cell {
                let first: fn(f64) -> $cell = $first;
                first(value)
            }

            #[inline]
            fn add(cell: &mut $cell, value: f64) {
                let add: fn(&mut $cell, f64) = $add;
                add(cell, value);
            }

            fn merge(cell: &mut $cell, other: $cell) {
                let merge: fn(&mut $cell, $cell) = $merge;
                merge(cell, other);
            }

            fn finish(cell: &$cell) -> f64 {
                let finish: fn(&$cell) -> f64 = $finish;
                finish(cell)
            }
        }
    };
}

fold!(
    SumFold,
    Sum,
    |value| Sum { value, lost: 0.0 },
    |sum, value| sum.add(value),
    |sum, other| sum.merge(other),
    |sum| sum.total()
);
fold!(AvgFold, Mean, Mean::first, |mean, value| mean.add(value), |mean, other| mean.merge(other), |mean| {
    mean.total()
});
fold!(CountFold, f64, |_| 1.0, |count, _| *count += 1.0, |count, other| *count += other, |count| *count);
fold!(GroupFold, (), |_| (), |(), _| (), |(), ()| (), |()| 1.0);
fold!(MinFold, f64, |value| value, lower, lower, |least| *least);
fold!(MaxFold, f64, |value| value, raise, raise, |most| *most);
fold!(VarianceFold, Variance, Variance::first, Variance::add, Variance::merge, |variance| {
    variance.squares / variance.count
});
fold!(DeviationFold, Variance, Variance::first, Variance::add, Variance::merge, |variance| {
    (variance.squares / variance.count).sqrt()
});

#[inline]
fn lower(least: &mut f64, value: f64) {
    if *least > value || least.is_nan() {
        *least = value;
    }
}

#[inline]
fn raise(most: &mut f64, value: f64) {
    if *most < value || most.is_nan() {
        *most = value;
    }
}

/// Welford's.
#[derive(Clone)]
pub(super) struct Variance {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Variance {
    fn first(value: f64) -> Self {
        Self { count: 1.0, mean: value, squares: if value.is_finite() { 0.0 } else { f64::NAN } }
    }

    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
    }

    /// Chan's.
    fn merge(&mut self, other: Self) {
        let count = self.count + other.count;
        let delta = other.mean - self.mean;
        self.mean += delta * other.count / count;
        self.squares += other.squares + delta * delta * self.count * other.count / count;
        self.count = count;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each value in one of two parts that are folded apart and then merged, and all values in one.
    fn both<F: Fold>(values: &[(f64, bool)]) -> (f64, f64) {
        let folded = |values: &mut dyn Iterator<Item = f64>| {
            let mut cell = F::first(values.next()?);
            values.for_each(|value| F::add(&mut cell, value));
            Some(cell)
        };
        let part = |wanted: bool| {
            folded(&mut values.iter().filter(|(_, part)| *part == wanted).map(|(value, _)| *value))
        };
        let merged = match (part(false), part(true)) {
            (Some(mut cell), Some(other)) => {
                F::merge(&mut cell, other);
                cell
            }
            (one, other) => one.or(other).expect("there is a value"),
        };
        let whole = folded(&mut values.iter().map(|(value, _)| *value)).expect("there is a value");
        (F::finish(&merged), F::finish(&whole))
    }

    fn is_near((merged, whole): (f64, f64), scale: f64) -> bool {
        merged.to_bits() == whole.to_bits()
            || (merged.is_nan() && whole.is_nan())
            || (merged - whole).abs() <= 1e-13 * scale.max(whole.abs())
    }

    proptest! {
        #[test]
        fn what_is_folded_apart_is_what_is_folded_together(
            values in prop::collection::vec((-1e9..1e9_f64, any::<bool>()), 1..60),
        ) {
            for exact in [both::<CountFold>, both::<GroupFold>, both::<MinFold>, both::<MaxFold>] {
                let (merged, whole) = exact(&values);
                prop_assert_eq!(merged.to_bits(), whole.to_bits());
            }
            for near in [both::<SumFold>, both::<AvgFold>] {
                prop_assert!(is_near(near(&values), 1e-3), "{:?}", near(&values));
            }
            for near in [both::<VarianceFold>, both::<DeviationFold>] {
                prop_assert!(is_near(near(&values), 1e18), "{:?}", near(&values));
            }
        }
    }

    #[test]
    fn what_is_no_finite_number_is_so_by_either_way() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let cases: [&[(f64, bool)]; 7] = [
            &[(nan, false), (1.0, true)],
            &[(1.0, false), (nan, true)],
            &[(nan, false), (nan, true)],
            &[(inf, false), (1.0, true), (2.0, false)],
            &[(inf, false), (-inf, true)],
            &[(f64::MAX, false), (f64::MAX, true), (f64::MAX, false)],
            &[(f64::MAX, false), (f64::MAX, false), (-f64::MAX, true), (1.0, true)],
        ];
        for case in cases {
            for fold in [
                both::<SumFold>,
                both::<AvgFold>,
                both::<MinFold>,
                both::<MaxFold>,
                both::<CountFold>,
                both::<VarianceFold>,
            ] {
                let (merged, whole) = fold(case);
                let is_same = is_near((merged, whole), 0.0) || !(merged.is_finite() || whole.is_finite());
                assert!(is_same, "{case:?}: {merged} {whole}");
            }
        }
    }
}
