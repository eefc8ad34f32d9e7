//! Random requests, encoded by prost and by an odder hand: the decoders read them as prost does.

use proptest::{collection::vec, option, prelude::*, sample::select};
use prost::Message;
use silverback::api::ingest::remote_write::Version;
use silverback_proto::{prometheus, write_v2};

use crate::{
    odd_encoding::{Whim, encode_v1, encode_v2},
    oracle::{Outcome, outcome_v1, outcome_v2, starts_v2},
    sink::{decode, decode_starts},
};

fn check(version: Version, bytes: &[u8]) {
    let (series, tally) = decode(version, bytes).expect("prost's and our encodings are well formed");
    let expected = match version {
        Version::V1 => outcome_v1(&prometheus::WriteRequest::decode(bytes).unwrap()),
        Version::V2 => outcome_v2(&write_v2::Request::decode(bytes).unwrap()),
    };
    assert_eq!(Outcome::of_decoder(series, &tally), expected);
}

fn name() -> impl Strategy<Value = String> {
    const NAMES: &[&str] = &["__name__", "job", "Zone", "instance", "instance_id", "a", "a\0", "é"];
    prop_oneof![40 => select(NAMES), 1 => Just("")].prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => select(&["x", "node-exporter", "ü", "127.0.0.1:9100"][..]).prop_map(str::to_owned),
        1 => Just(String::new()),
        2 => (100..200_usize).prop_map(|n| "v".repeat(n)),
        1 => (8190..8195_usize).prop_map(|n| "v".repeat(n)),
    ]
}

/// Mostly good: named, sorted, each name once.
fn labels() -> impl Strategy<Value = Vec<(String, String)>> {
    let good = vec((name(), value()), 0..8).prop_map(|mut labels| {
        labels.push(("__name__".to_owned(), "up".to_owned()));
        labels.sort();
        labels.dedup_by(|a, b| a.0 == b.0);
        labels
    });
    let many = (100..300_usize).prop_map(|n| {
        let labels = (0..n).map(|i| (format!("a{i:03}"), "v".to_owned()));
        [("__name__".to_owned(), "up".to_owned())].into_iter().chain(labels).collect()
    });
    prop_oneof![8 => good, 4 => vec((name(), value()), 0..8), 1 => many]
}

fn sample() -> impl Strategy<Value = (f64, i64)> {
    (any::<u64>().prop_map(f64::from_bits), prop_oneof![any::<i64>(), Just(0), 1.7e12 as i64..1.8e12 as i64])
}

pub(crate) fn series_v1() -> impl Strategy<Value = prometheus::TimeSeries> {
    (labels(), vec(sample(), 0..4), 0..2_usize, 0..2_usize).prop_map(
        |(labels, samples, exemplars, histograms)| prometheus::TimeSeries {
            labels: labels.into_iter().map(|(name, value)| prometheus::Label { name, value }).collect(),
            samples: samples
                .into_iter()
                .map(|(value, timestamp)| prometheus::Sample { value, timestamp })
                .collect(),
            exemplars: vec![prometheus::Exemplar::default(); exemplars],
            histograms: vec![prometheus::Histogram::default(); histograms],
        },
    )
}

fn request_v1() -> impl Strategy<Value = prometheus::WriteRequest> {
    (vec(series_v1(), 0..12), 0..3_usize).prop_map(|(timeseries, metadata)| prometheus::WriteRequest {
        timeseries,
        metadata: vec![prometheus::MetricMetadata::default(); metadata],
    })
}

type SeriesV2 = (Vec<(String, String)>, Vec<((f64, i64), i64)>, usize, usize, Option<()>, Option<u32>);

fn request_v2() -> impl Strategy<Value = write_v2::Request> {
    let no_histograms = prop_oneof![6 => Just(0_usize), 1 => Just(2_usize)];
    let stray_ref = prop_oneof![9 => Just(None), 1 => (0..500_u32).prop_map(Some)];
    let start_ms = prop_oneof![4 => Just(0), 2 => 1.6e12 as i64..1.7e12 as i64, 1 => any::<i64>()];
    let samples = vec((sample(), start_ms), 0..4);
    let series = (labels(), samples, no_histograms, 0..2_usize, option::of(Just(())), stray_ref);
    vec(series, 0..12).prop_map(|series| {
        let mut request = write_v2::Request { symbols: vec![String::new()], timeseries: Vec::new() };
        for one in series {
            let one = series_v2(&mut request.symbols, one);
            request.timeseries.push(one);
        }
        request
    })
}

fn series_v2(symbols: &mut Vec<String>, series: SeriesV2) -> write_v2::TimeSeries {
    let (labels, samples, histograms, exemplars, metadata, stray_ref) = series;
    let mut symbol = |text: String| {
        let known = symbols.iter().position(|s| *s == text);
        known.unwrap_or_else(|| {
            symbols.push(text);
            symbols.len() - 1
        }) as u32
    };
    let refs = labels.into_iter().flat_map(|(n, v)| [symbol(n), symbol(v)]).collect::<Vec<_>>();
    write_v2::TimeSeries {
        labels_refs: refs.into_iter().chain(stray_ref).collect(),
        samples: samples
            .into_iter()
            .map(|((value, timestamp), start_timestamp)| write_v2::Sample {
                value,
                timestamp,
                start_timestamp,
            })
            .collect(),
        histograms: vec![write_v2::Histogram::default(); histograms],
        exemplars: vec![write_v2::Exemplar::default(); exemplars],
        metadata: metadata.map(|()| write_v2::Metadata { r#type: 1, help_ref: 0, unit_ref: 0 }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn version_1_is_read_as_prost_reads_it(request in request_v1(), whim: u64) {
        check(Version::V1, &request.encode_to_vec());
        check(Version::V1, &encode_v1(&mut Whim::new(whim), &request));
    }

    #[test]
    fn version_2_is_read_as_prost_reads_it(request in request_v2(), whim: u64) {
        check(Version::V2, &request.encode_to_vec());
        check(Version::V2, &encode_v2(&mut Whim::new(whim), &request));
    }

    #[test]
    fn start_timestamps_are_read_as_prost_reads_them(request in request_v2(), whim: u64) {
        for bytes in [request.encode_to_vec(), encode_v2(&mut Whim::new(whim), &request)] {
            let read = write_v2::Request::decode(&bytes[..]).unwrap();
            assert_eq!(decode_starts(Version::V2, &bytes).unwrap(), starts_v2(&read));
        }
    }
}
