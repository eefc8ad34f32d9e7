//! Counters that are declared once: what each is called, by the code and by a scrape, and what it counts.
//!
//! Knows how a struct of numbers becomes families. Counts nothing.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use silverback_model::ShardId;

use super::{Durations, Family, MetricKind};

/// The metric that shows one field of `T`.
#[derive(Debug)]
pub struct Metric<T> {
    /// Its name.
    pub name: &'static str,
    /// What its numbers mean.
    pub kind: MetricKind,
    /// What it counts or measures, in a sentence.
    pub help: &'static str,
    /// What the field says.
    pub reading: fn(&T) -> MetricReading,
}

/// What one field says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricReading {
    /// Nothing.
    Absent,
    /// A counter or a gauge.
    Number(f64),
    /// A histogram.
    Durations(Durations),
}

impl MetricReading {
    /// A number in units so large.
    pub fn per(self, unit: f64) -> Self {
        match self {
            Self::Number(number) => Self::Number(number / unit),
            Self::Absent | Self::Durations(_) => self,
        }
    }
}

/// Makes readings of numbers of these types.
macro_rules! numbers {
    ($($number:ident: $type:ty => $read:expr;)+) => {
        $(impl From<&$type> for MetricReading {
            fn from($number: &$type) -> Self {
                Self::Number($read as f64)
            }
        })+
    };
}

numbers! {
    number: u64 => *number;
    number: usize => *number;
    number: AtomicU64 => number.load(Ordering::Relaxed);
    number: AtomicI64 => number.load(Ordering::Relaxed);
    is_so: AtomicBool => u8::from(is_so.load(Ordering::Relaxed));
}

impl From<&Option<usize>> for MetricReading {
    fn from(number: &Option<usize>) -> Self {
        number.as_ref().map_or(Self::Absent, Self::from)
    }
}

impl From<&Durations> for MetricReading {
    fn from(durations: &Durations) -> Self {
        Self::Durations(*durations)
    }
}

impl<T> Metric<T> {
    /// Its family, with what each shard's core counted.
    pub fn family<'a>(&self, counts: impl Iterator<Item = (ShardId, &'a T)>) -> Family
    where
        T: 'a,
    {
        self.labelled(counts.map(|(shard, counts)| ([("shard", shard.0.to_string())], counts)))
    }

    fn labelled<'a, const N: usize>(
        &self,
        counts: impl IntoIterator<Item = ([(&'static str, String); N], &'a T)>,
    ) -> Family
    where
        T: 'a,
    {
        let mut family = Family::new(self.name, self.kind, self.help);
        for (labels, counts) in counts {
            match (self.reading)(counts) {
                MetricReading::Absent => {}
                MetricReading::Number(number) => family.push(labels, number),
                MetricReading::Durations(durations) => family.push_durations(labels, &durations),
            }
        }
        family
    }
}

/// The families of what the node counts once, as `METRICS` lists them.
pub fn families<T>(metrics: &[Metric<T>], counts: &T) -> impl Iterator<Item = Family> {
    metrics.iter().map(move |metric| metric.labelled([([], counts)]))
}

/// Makes a struct of counters and sizes, and `METRICS` of it: a field's documentation is its metric's help, then come
/// its type and its metric, `/` how many of its units make one of the metric's. Fields in braces of their own have
/// none. What several threads count or read has atomics for fields.
#[macro_export]
macro_rules! counters {
    (
        $(#[$about:meta])*
        $vis:vis struct $name:ident {
            $($(#[doc = $help:literal])+ $field:ident: $type:ty => $kind:ident $metric:literal $(/ $unit:literal)?,)*
        }
        $({ $($(#[$without:meta])+ $other:ident: $other_type:ty,)* })?
    ) => {
        $(#[$about])*
        $vis struct $name {
            $($(#[doc = $help])+ pub $field: $type,)*
            $($($(#[$without])+ pub $other: $other_type,)*)?
        }

        impl $name {
            /// What shows them in a scrape.
            $vis const METRICS: &'static [$crate::metrics::Metric<Self>] = &[$($crate::metrics::Metric {
                name: $metric,
                kind: $crate::metrics::MetricKind::$kind,
                help: concat!($($help),+).trim_ascii_start(),
                reading: |counts| $crate::metrics::MetricReading::from(&counts.$field)$(.per($unit))?,
            },)*];
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::render;

    counters! {
        #[derive(Default)]
        pub(super) struct Counts {
            /// Time spent,
            /// on what takes time.
            busy_us: u64 => Counter "busy_seconds_total" / 1e6,
            /// Most of them.
            most: Option<usize> => Gauge "most",
        } {
            /// Shown by nothing.
            silent: u64,
        }
    }

    #[test]
    fn a_field_s_metric_has_its_help_and_a_number_of_each_shard() {
        let counts = [
            Counts { busy_us: 1_500_000, most: Some(7), silent: 1 },
            Counts { busy_us: 5, ..Counts::default() },
        ];
        let of_each = || (0..).map(ShardId).zip(&counts);
        let families: Vec<_> = Counts::METRICS.iter().map(|metric| metric.family(of_each())).collect();
        assert_eq!(
            render(&families),
            "# HELP busy_seconds_total Time spent, on what takes time.\n# TYPE busy_seconds_total counter\n\
             busy_seconds_total{shard=\"0\"} 1.5\nbusy_seconds_total{shard=\"1\"} 0.000005\n\
             # HELP most Most of them.\n# TYPE most gauge\nmost{shard=\"0\"} 7\n"
        );
        assert_eq!(counts[0].silent, 1);
    }

    counters! {
        struct Shared {
            /// Those that came.
            came: AtomicU64 => Counter "came_total",
            /// When the last one came.
            last_ms: AtomicI64 => Gauge "last_seconds" / 1e3,
            /// Whether all is well.
            is_well: AtomicBool => Gauge "well",
        }
    }

    #[test]
    fn what_the_node_counts_once_has_no_label() {
        let shared = Shared { came: 3.into(), last_ms: 1_500.into(), is_well: true.into() };
        shared.came.fetch_add(1, Ordering::Relaxed);
        assert_eq!(
            render(&families(Shared::METRICS, &shared).collect::<Vec<_>>()),
            "# HELP came_total Those that came.\n# TYPE came_total counter\ncame_total 4\n\
             # HELP last_seconds When the last one came.\n# TYPE last_seconds gauge\nlast_seconds 1.5\n\
             # HELP well Whether all is well.\n# TYPE well gauge\nwell 1\n"
        );
    }
}
