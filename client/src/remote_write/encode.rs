//! A remote write 2 request: the symbol table, each series by references into it, snappy around it.

use std::collections::HashMap;

use prost::Message;
use silverback_proto::write_v2;

use crate::Series;
use crate::histogram::{self, Histogram};

/// The body of one request.
pub(super) fn body(series: &[Series]) -> Vec<u8> {
    let mut symbols = Symbols::default();
    let timeseries = series.iter().flat_map(|series| encode(series, &mut symbols)).collect();
    let request = write_v2::Request { symbols: symbols.table, timeseries };
    let compressed = snap::raw::Encoder::new().compress_vec(&request.encode_to_vec());
    compressed.expect("a request is far smaller than snappy's 4 GiB")
}

/// A series has samples or histograms, says the protocol: one that has both is written twice.
fn encode<'a>(
    series: &'a Series,
    symbols: &mut Symbols<'a>,
) -> impl Iterator<Item = write_v2::TimeSeries> + use<> {
    let Series { labels, samples, histograms } = series;
    let refs = labels.iter().flat_map(|(name, value)| [symbols.refer(name), symbols.refer(value)]);
    let labels_refs: Vec<u32> = refs.collect();
    let sample = |&(timestamp, value): &(i64, f64)| write_v2::Sample { value, timestamp, start_timestamp: 0 };
    let histogram = |(timestamp_ms, histogram): &(i64, Histogram)| encode_histogram(*timestamp_ms, histogram);
    let of_samples = write_v2::TimeSeries {
        labels_refs: labels_refs.clone(),
        samples: samples.iter().map(sample).collect(),
        ..Default::default()
    };
    let of_histograms = write_v2::TimeSeries {
        labels_refs,
        histograms: histograms.iter().map(histogram).collect(),
        ..Default::default()
    };
    let both = [of_samples, of_histograms].into_iter();
    both.filter(|one| one.samples.len() + one.histograms.len() > 0)
}

fn encode_histogram(timestamp_ms: i64, histogram: &Histogram) -> write_v2::Histogram {
    let message = histogram::message(timestamp_ms, histogram);
    write_v2::Histogram::decode(message.as_slice()).expect("the message is written as the protocol has it")
}

struct Symbols<'a> {
    table: Vec<String>,
    known: HashMap<&'a str, u32>,
}

impl Default for Symbols<'_> {
    fn default() -> Self {
        // The first symbol is the empty one, says the protocol.
        Self { table: vec![String::new()], known: HashMap::from([("", 0)]) }
    }
}

impl<'a> Symbols<'a> {
    fn refer(&mut self, symbol: &'a str) -> u32 {
        *self.known.entry(symbol).or_insert_with(|| {
            self.table.push(symbol.to_owned());
            self.table.len() as u32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_stands_once_and_series_refer_to_it() {
        let series = |room: &str| Series::new("t", [("room", room), ("site", "a")]).sample(1, 2.0);
        let compressed = body(&[series("x"), series("y")]);
        let bytes = snap::raw::Decoder::new().decompress_vec(&compressed).unwrap();
        let request = write_v2::Request::decode(bytes.as_slice()).unwrap();
        assert_eq!(request.symbols, ["", "__name__", "t", "room", "x", "site", "a", "y"]);
        assert_eq!(request.timeseries[1].labels_refs, [1, 2, 3, 7, 5, 6]);
        assert_eq!(request.timeseries[1].samples[0].value, 2.0);
    }

    #[test]
    fn a_series_with_samples_and_histograms_is_told_as_two_of_one_label_set() {
        let histogram = Histogram { count: 3, zero_count: 3, ..Histogram::default() };
        let both = Series::new("t", [("room", "x")]).sample(1, 2.0).histogram(7, histogram.clone());
        let alone = Series::new("u", [("room", "x")]).histogram(8, histogram);
        let compressed = body(&[both, alone]);
        let bytes = snap::raw::Decoder::new().decompress_vec(&compressed).unwrap();
        let request = write_v2::Request::decode(bytes.as_slice()).unwrap();
        let told = request.timeseries.iter();
        let told: Vec<_> = told
            .map(|one| {
                let times: Vec<i64> = one.histograms.iter().map(|histogram| histogram.timestamp).collect();
                (&one.labels_refs[..], one.samples.len(), times)
            })
            .collect();
        assert_eq!(told.len(), 3);
        assert_eq!((&told[0], told[1].0), (&(&[1, 2, 3, 4][..], 1, vec![]), told[0].0));
        assert_eq!((told[1].1, &told[1].2), (0, &vec![7]));
        assert_eq!((told[2].0, told[2].1, &told[2].2), (&[1, 5, 3, 4][..], 0, &vec![8]));
        let count = request.timeseries[1].histograms[0].count;
        assert_eq!(count, Some(write_v2::histogram::Count::CountInt(3)));
    }
}
