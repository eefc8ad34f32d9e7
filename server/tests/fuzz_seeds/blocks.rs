//! Blocks: index, chunks and tombstones, the lengths of the first two in front.

use std::fs;

use silverback_model::histogram::{Buckets, Histogram, Span};
use silverback_node_test_support::laid_blocks::{BlockSeries, put};
use silverback_test_support::Scratch;

use crate::{START_MS, Seeds};

/// Small ones, and one that is cut.
pub(crate) fn files() -> Seeds {
    let one = packed(&[series("a", 3, 0)]);
    let cut = [&one[..2], &[20, 0], &one[4..one.len() - 30]].concat();
    let several = packed(&[series("a", 130, 0), series("b", 2, 0), series("c", 0, 3)]);
    vec![("cut", cut), ("one", one), ("several", several)]
}

fn series(job: &str, floats: i64, histograms: i64) -> BlockSeries {
    let labels = [("__name__", "up"), ("job", job)];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let floats = (0..floats).map(|nth| (START_MS + nth * 15_000, (nth as f64).to_bits())).collect();
    let positive = Buckets { spans: vec![Span { offset: 0, length: 1 }], words: vec![3] };
    let histogram = Histogram { count: 3, sum_bits: 1.5_f64.to_bits(), positive, ..Histogram::default() };
    let histograms = (0..histograms).map(|nth| (START_MS + nth * 15_000, histogram.clone())).collect();
    BlockSeries { labels, floats, histograms }
}

fn packed(series: &[BlockSeries]) -> Vec<u8> {
    let scratch = Scratch::new();
    let dir = put(scratch.path(), 1, series, false).remove(0);
    let [index, chunks, tombstones] =
        ["index", "chunks/000001", "tombstones"].map(|name| fs::read(dir.join(name)).unwrap());
    let len = |file: &[u8]| u16::try_from(file.len()).expect("a small block").to_le_bytes();
    [&len(&index)[..], &len(&chunks), &index, &chunks, &tombstones].concat()
}
