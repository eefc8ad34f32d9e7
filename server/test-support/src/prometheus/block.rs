//! Blocks that tests write, byte by byte as the format says, each file a plain vector.

use std::collections::BTreeSet;
use std::path::Path;

/// A series to be written.
#[derive(Debug, Clone)]
pub struct WrittenSeries {
    /// In their order: nothing sorts them.
    pub labels: Vec<(&'static str, &'static str)>,
    /// In theirs.
    pub chunks: Vec<WrittenChunk>,
}

/// A chunk to be written: its samples, as an XOR or an XOR2 chunk, or as an XOR chunk that is marked as another.
#[derive(Debug, Clone)]
pub struct WrittenChunk {
    /// The byte before its samples: 1 is XOR, 4 is XOR2.
    pub encoding: u8,
    /// Times in ms, and values; at least one.
    pub samples: Vec<(i64, f64)>,
}

/// The files of a block.
#[derive(Debug, Clone)]
pub struct Written {
    /// `index`
    pub index: Vec<u8>,
    /// `chunks/000001`
    pub chunks: Vec<u8>,
    /// `tombstones`
    pub tombstones: Vec<u8>,
    /// `meta.json`
    pub meta: Vec<u8>,
}

impl Written {
    /// Of series that come sorted; deleted ranges are `(number of the series, first, last)`, in ms.
    ///
    /// # Panics
    ///
    /// Where a chunk has no sample.
    pub fn new(series: &[WrittenSeries], deleted: &[(usize, i64, i64)]) -> Self {
        Self::with_bytes(series, deleted, |_| None)
    }

    /// The same, with these bytes for chunks that have some, in place of their samples.
    ///
    /// # Panics
    ///
    /// Where a chunk has no sample.
    pub fn with_bytes(
        series: &[WrittenSeries],
        deleted: &[(usize, i64, i64)],
        bytes_of: impl Fn(&WrittenChunk) -> Option<Vec<u8>>,
    ) -> Self {
        let (chunks, places) = write_chunks(series, bytes_of);
        let (index, references) = write_index(series, &places);
        let stones = deleted.iter().map(|(number, first, last)| (references[*number], *first, *last));
        let tombstones = write_tombstones(stones);
        Self { index, chunks, tombstones, meta: write_meta(series).into_bytes() }
    }

    /// Puts the files into a directory.
    ///
    /// # Panics
    ///
    /// Where it takes none.
    pub fn put(&self, dir: &Path) {
        std::fs::create_dir_all(dir.join("chunks")).unwrap();
        std::fs::write(dir.join("index"), &self.index).unwrap();
        std::fs::write(dir.join("chunks/000001"), &self.chunks).unwrap();
        std::fs::write(dir.join("tombstones"), &self.tombstones).unwrap();
        std::fs::write(dir.join("meta.json"), &self.meta).unwrap();
    }
}

/// First and last time and reference, of each chunk of each series.
type Places = Vec<Vec<(i64, i64, u64)>>;

fn write_chunks(
    series: &[WrittenSeries],
    bytes_of: impl Fn(&WrittenChunk) -> Option<Vec<u8>>,
) -> (Vec<u8>, Places) {
    let mut file = 0x85BD_40DD_u32.to_be_bytes().to_vec();
    file.extend([1, 0, 0, 0]);
    let mut write = |chunk: &WrittenChunk| {
        let reference = file.len() as u64;
        let bytes = bytes_of(chunk).unwrap_or_else(|| match chunk.encoding {
            XOR2 => float_chunk(&chunk.samples, &LONGEST_XOR2),
            _other => float_chunk(&chunk.samples, &LONGEST_XOR),
        });
        uvarint(&mut file, bytes.len() as u64);
        let begins = file.len();
        file.push(chunk.encoding);
        file.extend(bytes);
        let sum = crc32c::crc32c(&file[begins..]);
        file.extend(sum.to_be_bytes());
        (chunk.samples[0].0, chunk.samples[chunk.samples.len() - 1].0, reference)
    };
    let places = series.iter().map(|series| series.chunks.iter().map(&mut write).collect()).collect();
    (file, places)
}

/// The number of XOR2 chunks.
const XOR2: u8 = 4;

/// How an encoding has the longest form of everything: 64 bits for each step of time, a new window for each value.
struct Longest {
    /// After the count of samples: none has a start timestamp.
    header: &'static [u8],
    /// Before the 64 bits of a step of time.
    step: &'static str,
    /// Before a value's window.
    window: &'static str,
}

const LONGEST_XOR: Longest = Longest { header: &[], step: "1111", window: "11" };
const LONGEST_XOR2: Longest = Longest { header: &[0], step: "11110", window: "110" };

fn float_chunk(samples: &[(i64, f64)], longest: &Longest) -> Vec<u8> {
    let mut bytes = (samples.len() as u16).to_be_bytes().to_vec();
    bytes.extend(longest.header);
    varint(&mut bytes, samples[0].0);
    bytes.extend(samples[0].1.to_bits().to_be_bytes());
    let mut bits = String::new();
    let (mut delta, mut before) = (0, samples[0]);
    for (index, sample) in samples.iter().enumerate().skip(1) {
        let next = sample.0 - before.0;
        if index == 1 {
            let mut varint = Vec::new();
            uvarint(&mut varint, next as u64);
            bits.extend(varint.iter().map(|byte| format!("{byte:08b}")));
        } else {
            bits += &format!("{}{:064b}", longest.step, next - delta);
        }
        let changed = sample.1.to_bits() ^ before.1.to_bits();
        bits += &if changed == 0 {
            "0".to_owned()
        } else {
            format!("{}00000000000{changed:064b}", longest.window)
        };
        (delta, before) = (next, *sample);
    }
    for byte in bits.as_bytes().chunks(8) {
        let digits = byte.iter().enumerate();
        bytes.push(digits.fold(0, |byte, (place, digit)| byte | ((digit - b'0') << (7 - place))));
    }
    bytes
}

fn write_index(series: &[WrittenSeries], places: &Places) -> (Vec<u8>, Vec<u64>) {
    let mut file = 0xBAAA_D700_u32.to_be_bytes().to_vec();
    file.push(2);
    let symbols: BTreeSet<&str> =
        series.iter().flat_map(|series| &series.labels).flat_map(|(name, value)| [*name, *value]).collect();
    let symbols: Vec<&str> = symbols.into_iter().collect();
    let symbols_at = file.len();
    write_symbols(&mut file, &symbols);
    let series_at = file.len();
    let mut references = Vec::new();
    for (series, places) in series.iter().zip(places) {
        file.resize(file.len().next_multiple_of(16), 0);
        references.push(file.len() as u64 / 16);
        write_series(&mut file, &symbols, series, places);
    }
    let end = file.len();
    let begins = file.len();
    for offset in [symbols_at, series_at, end, end, end, end] {
        file.extend((offset as u64).to_be_bytes());
    }
    let sum = crc32c::crc32c(&file[begins..]);
    file.extend(sum.to_be_bytes());
    (file, references)
}

fn write_symbols(file: &mut Vec<u8>, symbols: &[&str]) {
    let mut content = (symbols.len() as u32).to_be_bytes().to_vec();
    for symbol in symbols {
        uvarint(&mut content, symbol.len() as u64);
        content.extend(symbol.as_bytes());
    }
    file.extend((content.len() as u32).to_be_bytes());
    file.extend(&content);
    file.extend(crc32c::crc32c(&content).to_be_bytes());
}

fn write_series(file: &mut Vec<u8>, symbols: &[&str], series: &WrittenSeries, places: &[(i64, i64, u64)]) {
    let number = |text: &str| symbols.iter().position(|symbol| *symbol == text).unwrap() as u64;
    let mut content = Vec::new();
    uvarint(&mut content, series.labels.len() as u64);
    for (name, value) in &series.labels {
        uvarint(&mut content, number(name));
        uvarint(&mut content, number(value));
    }
    uvarint(&mut content, places.len() as u64);
    for (index, (min_ms, max_ms, reference)) in places.iter().enumerate() {
        match index.checked_sub(1).map(|before| places[before]) {
            None => varint(&mut content, *min_ms),
            Some((_, before_ms, _)) => uvarint(&mut content, (min_ms - before_ms) as u64),
        }
        uvarint(&mut content, (max_ms - min_ms) as u64);
        match index.checked_sub(1).map(|before| places[before]) {
            None => uvarint(&mut content, *reference),
            Some((_, _, before)) => varint(&mut content, *reference as i64 - before as i64),
        }
    }
    uvarint(file, content.len() as u64);
    file.extend(&content);
    file.extend(crc32c::crc32c(&content).to_be_bytes());
}

fn write_tombstones(stones: impl Iterator<Item = (u64, i64, i64)>) -> Vec<u8> {
    let mut content = Vec::new();
    for (reference, min_ms, max_ms) in stones {
        uvarint(&mut content, reference);
        varint(&mut content, min_ms);
        varint(&mut content, max_ms);
    }
    let mut file = 0x0130_BA30_u32.to_be_bytes().to_vec();
    file.push(1);
    file.extend(&content);
    file.extend(crc32c::crc32c(&content).to_be_bytes());
    file
}

fn write_meta(series: &[WrittenSeries]) -> String {
    let times = || series.iter().flat_map(|series| &series.chunks).flat_map(|chunk| &chunk.samples);
    let (min_ms, max_ms) = (times().map(|sample| sample.0).min(), times().map(|sample| sample.0).max());
    serde_json::json!({
        "ulid": "01BX5ZZKBKACTAV9WEVGEMMVRZ",
        "minTime": min_ms.unwrap_or(0),
        "maxTime": max_ms.unwrap_or(0) + 1,
        "stats": { "numSamples": times().count(), "numSeries": series.len(), "numChunks": 1 },
        "compaction": { "level": 1 },
        "version": 1,
    })
    .to_string()
}

/// As Go's `binary.PutUvarint` writes it.
pub fn uvarint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// As Go's `binary.PutVarint` writes it.
pub fn varint(bytes: &mut Vec<u8>, value: i64) {
    uvarint(bytes, ((value << 1) ^ (value >> 63)) as u64);
}
