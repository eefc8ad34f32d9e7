//! OTLP's translation on any bytes: what prost reads is translated, every data point of it is counted
//! once, and each series that comes out has a canonical label set and one sample or histogram.
#![no_main]

use futures::executor::block_on;
use libfuzzer_sys::fuzz_target;
use prost::Message;
use silverback::api::ingest::otlp::{Modes, NO_POINT, Translation, translate};
use silverback::api::ingest::remote_write::{MalformedErrorKind, WriteRejected, SeriesSink};
use silverback::config::{OtlpDelta, OtlpHistograms};
use silverback_model::{Sample, SeriesId, SeriesIdHasher};
use silverback_proto::otlp::collector::metrics::v1::ExportMetricsServiceRequest;
use silverback_proto::otlp::metrics::v1::Metric;
use silverback_proto::otlp::metrics::v1::metric::Data;
use silverback_storage::message::{Definitions, LabelSpan, PartHistogram};

#[derive(Default)]
struct Series {
    found: Vec<(SeriesId, LabelSpan)>,
    samples: usize,
}

impl SeriesSink for Series {
    fn series(&mut self, id: SeriesId, labels: LabelSpan, samples: u32) {
        assert_eq!(samples, 1);
        self.found.push((id, labels));
    }

    fn sample(&mut self, _sample: Sample) {
        self.samples += 1;
    }

    fn histogram(&mut self, histogram: PartHistogram) {
        self.found.push((histogram.id, histogram.labels));
        self.samples += 1;
    }
}

fuzz_target!(|bytes: &[u8]| {
    for histograms in [OtlpHistograms::Classic, OtlpHistograms::Custom] {
        check(bytes, Modes { delta: OtlpDelta::Cumulative, histograms });
    }
});

fn check(bytes: &[u8], modes: Modes) {
    let (hasher, mut series) = (SeriesIdHasher::new(1, ""), Series::default());
    let translated = block_on(translate(
        bytes,
        modes,
        &hasher,
        &mut series,
        &Default::default(),
        async |_: &Series, _| Ok(()),
    ));
    let expected = ExportMetricsServiceRequest::decode(bytes);
    match (translated, expected) {
        (Ok(translation), Ok(request)) => {
            // A metric whose data comes in pieces is read as one of its kinds by both, which may differ
            // in the pieces that they leave out.
            let is_plain = request.encoded_len() == bytes.len();
            if is_plain {
                assert_eq!(translation.points, points(&request));
            }
            check_series(&hasher, &series, translation);
        }
        (Ok(translation), Err(_)) => check_series(&hasher, &series, translation),
        (Err(WriteRejected::Malformed(error)), expected) => {
            assert!(error.offset <= bytes.len());
            let is_ours = matches!(error.cause, MalformedErrorKind::Group | MalformedErrorKind::LabelsTooLarge);
            assert!(is_ours || expected.is_err(), "{error}");
        }
        (Err(other), _) => panic!("{other}"),
    }
}

fn check_series(hasher: &SeriesIdHasher, series: &Series, translation: Translation) {
    let label_sets = translation.labels.len();
    let mut definitions = Definitions::default();
    definitions.push(translation.labels);
    assert_eq!((series.found.len(), series.samples), (label_sets, label_sets));
    for (number, (id, labels)) in series.found.iter().enumerate() {
        assert_eq!(hasher.hash_canonical(definitions.labels(number as u32).0), *id);
        let point = labels.stream_ref().expect("a series is named by its data point");
        assert!(point == NO_POINT || u64::from(point) < translation.points);
    }
}

fn points(request: &ExportMetricsServiceRequest) -> u64 {
    let scopes = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
    scopes.flat_map(|scope| &scope.metrics).map(points_of).sum()
}

fn points_of(metric: &Metric) -> u64 {
    let points = match &metric.data {
        None => 0,
        Some(Data::Gauge(gauge)) => gauge.data_points.len(),
        Some(Data::Sum(sum)) => sum.data_points.len(),
        Some(Data::Histogram(histogram)) => histogram.data_points.len(),
        Some(Data::ExponentialHistogram(histogram)) => histogram.data_points.len(),
        Some(Data::Summary(summary)) => summary.data_points.len(),
    };
    points as u64
}
