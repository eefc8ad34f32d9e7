//! The ids of traces and spans in JSON: OTLP writes them in hex, where protobuf's JSON has base64. Which of the two was
//! sent is known by their lengths alone.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use silverback_proto::otlp::collector::metrics::v1::ExportMetricsServiceRequest;
use silverback_proto::otlp::metrics::v1::metric::Data;
use silverback_proto::otlp::metrics::v1::{Exemplar, Gauge, Metric, Sum};

/// Bytes of a trace's id, and of a span's.
const TRACE_ID_BYTES: usize = 16;
const SPAN_ID_BYTES: usize = 8;

/// Reads the ids of all exemplars again that were hex and taken for base64.
pub(super) fn read_as_hex(request: &mut ExportMetricsServiceRequest) {
    let scopes = request.resource_metrics.iter_mut().flat_map(|resource| &mut resource.scope_metrics);
    for metric in scopes.flat_map(|scope| &mut scope.metrics) {
        for_each_exemplar(metric, |exemplar| {
            exemplar.trace_id =
                as_hex(&exemplar.trace_id, TRACE_ID_BYTES).unwrap_or(exemplar.trace_id.clone());
            exemplar.span_id = as_hex(&exemplar.span_id, SPAN_ID_BYTES).unwrap_or(exemplar.span_id.clone());
        });
    }
}

fn for_each_exemplar(metric: &mut Metric, mut each: impl FnMut(&mut Exemplar)) {
    match &mut metric.data {
        Some(Data::Gauge(Gauge { data_points }) | Data::Sum(Sum { data_points, .. })) => {
            data_points.iter_mut().flat_map(|point| &mut point.exemplars).for_each(&mut each);
        }
        Some(Data::Histogram(data)) => {
            data.data_points.iter_mut().flat_map(|point| &mut point.exemplars).for_each(&mut each);
        }
        Some(Data::ExponentialHistogram(data)) => {
            data.data_points.iter_mut().flat_map(|point| &mut point.exemplars).for_each(&mut each);
        }
        Some(Data::Summary(_)) | None => {}
    }
}

/// An id of so many bytes, whose digits in hex were read as base64: that makes three bytes of four digits.
fn as_hex(read: &[u8], bytes: usize) -> Option<bytes::Bytes> {
    let digits = BASE64.encode(read);
    if digits.len() != 2 * bytes {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = digits.as_bytes().chunks_exact(2);
    let id = pairs.map(|two| Some((digit(two[0])? * 16 + digit(two[1])?) as u8));
    id.collect::<Option<Vec<u8>>>().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_hex_are_read_as_they_were_meant_and_others_stay() {
        let check = |text: &str, bytes, expect: Option<&[u8]>| {
            let id = as_hex(&BASE64.decode(text).unwrap(), bytes);
            assert_eq!(id.as_deref(), expect, "{text}");
        };
        check("0102030405060708090a0B0c0d0e0f10", 16, Some(&(1..=16).collect::<Vec<u8>>()));
        check("ffffffffffffffff", 8, Some(&[0xff; 8]));
        check("AQIDBAUGBwgJCgsMDQ4PEA==", 16, None);
        check("zzzzzzzzzzzzzzzz", 8, None);
        check("", 8, None);
    }
}
