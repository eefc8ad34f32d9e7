//! A remote write 2 request: the symbol table, each series by references into it, snappy around it.

use std::collections::HashMap;

use prost::Message;
use silverback_proto::write_v2;

use crate::Series;

/// The body of one request.
pub fn body(series: &[Series]) -> Vec<u8> {
    let mut symbols = Symbols::default();
    let timeseries = series.iter().map(|series| encode(series, &mut symbols)).collect();
    let request = write_v2::Request { symbols: symbols.table, timeseries };
    let compressed = snap::raw::Encoder::new().compress_vec(&request.encode_to_vec());
    compressed.expect("a request is far smaller than snappy's 4 GiB")
}

fn encode<'a>(series: &'a Series, symbols: &mut Symbols<'a>) -> write_v2::TimeSeries {
    let refs = series.labels.iter().flat_map(|(name, value)| [symbols.refer(name), symbols.refer(value)]);
    let sample = |&(timestamp, value): &(i64, f64)| write_v2::Sample { value, timestamp, start_timestamp: 0 };
    write_v2::TimeSeries {
        labels_refs: refs.collect(),
        samples: series.samples.iter().map(sample).collect(),
        ..Default::default()
    }
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
}
