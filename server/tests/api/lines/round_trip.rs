//! Any label set, value and time that a format can write is read back as it was.

use std::collections::BTreeMap;

use proptest::prelude::*;
use silverback::api::ingest::lines::{InfluxLines, LineFormat, Precision, PrometheusText};
use silverback_model::{Labels, Sample};

use crate::lines::collect::collect;
use crate::lines::encode;

/// Label sets with names and values of these forms.
fn labels(name: &'static str, metric: &'static str, value: &'static str) -> impl Strategy<Value = Labels> {
    let name = name.prop_filter("the metric's name is another's", |name: &String| name != "__name__");
    let others = prop::collection::btree_map(name, value, 0..6);
    (metric, others).prop_map(|(metric, mut labels): (String, BTreeMap<String, String>)| {
        labels.insert("__name__".to_owned(), metric);
        Labels::from_pairs(labels)
    })
}

fn check(format: &impl LineFormat, samples: &[(Labels, Sample)], lines: &str) -> Result<(), TestCaseError> {
    let collected = collect(format, lines.as_bytes(), 7).unwrap();
    prop_assert_eq!(&collected.samples, samples, "{}", lines);
    prop_assert_eq!(collected.decoded.refused.counts.total(), 0, "{:?}", collected.decoded.first);
    Ok(())
}

proptest! {
    #[test]
    fn prometheus_text(
        samples in prop::collection::vec(
            (labels("(?s).{1,9}", "(?s).{1,9}", "(?s).{1,9}"), any::<i64>(), any::<f64>()),
            1..9,
        )
    ) {
        let normal = |value: f64| if value.is_nan() { f64::from_bits(0x7ff8_0000_0000_0001) } else { value };
        let samples: Vec<_> =
            samples.into_iter().map(|(labels, time, value)| (labels, Sample::new(time, normal(value)))).collect();
        let lines: String = samples.iter().map(|(labels, sample)| encode::prometheus(labels, *sample)).collect();
        check(&PrometheusText::default(), &samples, &lines)?;
    }

    #[test]
    fn influx_lines(
        samples in prop::collection::vec(
            // No text ends in a backslash, which would escape what follows it; none has the end of a line.
            (
                labels(r"[^\r\n]{0,8}[^\r\n\\]", r"[^\r\n# \\][^\r\n]{0,4}[^\r\n\\]_[^\r\n]{0,4}[^\r\n\\]", r"[^\r\n]{0,8}[^\r\n\\]"),
                any::<i64>(),
                prop::num::f64::NORMAL | prop::num::f64::ZERO,
            ),
            1..9,
        )
    ) {
        let samples: Vec<_> =
            samples.into_iter().map(|(labels, time, value)| (labels, Sample::new(time, value))).collect();
        let lines: Option<String> = samples.iter().map(|(labels, sample)| encode::influx(labels, *sample)).collect();
        let format = InfluxLines { precision: Precision::Milliseconds, ..InfluxLines::default() };
        check(&format, &samples, &lines.expect("each name can be split"))?;
    }
}
