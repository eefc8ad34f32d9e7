//! What any receiver of these bodies spends at least, each part alone, on one thread in CPU seconds:
//! copying, snappy, walking the message, finding the series.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use super::dataset::{Dataset, Prepared};
use super::walk::{Malformed, Tally, walk};
use crate::encode::RemoteWrite;
use crate::usage::thread_cpu_s;

/// Far more than the caches hold.
const COMPRESSED_BYTES_MAX: u64 = 64 << 20;
/// Bodies between two looks at the clock.
const CLOCK_PERIOD: usize = 16;

/// All that any receiver has to do.
pub const WHOLE: &str = "snappy decode + walk + hash + lookup";

/// One part's floor.
#[derive(Debug, Clone, Serialize)]
pub struct Floor {
    /// What is done with each body.
    pub part: &'static str,
    /// Samples for each CPU second.
    pub samples_per_cpu_s: f64,
    /// Uncompressed bytes for each CPU second.
    pub raw_bytes_per_cpu_s: f64,
}

/// Why a floor can't be measured.
#[derive(Debug, thiserror::Error)]
pub enum FloorError {
    /// A body isn't snappy's.
    #[error(transparent)]
    Decompress(#[from] snap::Error),
    /// A body isn't remote write's.
    #[error(transparent)]
    Walk(#[from] Malformed),
}

/// Measures every part for `seconds` of CPU time.
pub fn floors(dataset: &Dataset, seconds: f64) -> Result<Vec<Floor>, FloorError> {
    let bodies = Bodies::of(dataset)?;
    let version = dataset.options.remote_write;
    let mut buffer = vec![0; bodies.raw.iter().map(Vec::len).max().unwrap_or(0)];
    let mut snappy = snap::raw::Decoder::new();
    let mut series = SeriesTable::default();
    Ok(vec![
        bodies.measure("memcpy of the raw bytes", seconds, |_, raw| {
            buffer[..raw.len()].copy_from_slice(raw);
            black_box(&mut buffer);
            Ok(())
        })?,
        bodies.measure("snappy decode", seconds, |compressed, _| {
            black_box(snappy.decompress(compressed, &mut buffer)?);
            Ok(())
        })?,
        bodies.measure("walk", seconds, |_, raw| walk_only(version, raw, |_| {}))?,
        bodies.measure("snappy decode + walk", seconds, |compressed, _| {
            let length = snappy.decompress(compressed, &mut buffer)?;
            walk_only(version, &buffer[..length], |_| {})
        })?,
        bodies.measure(WHOLE, seconds, |compressed, _| {
            let length = snappy.decompress(compressed, &mut buffer)?;
            walk_only(version, &buffer[..length], |labels| series.find(labels))
        })?,
    ])
}

fn walk_only(version: RemoteWrite, raw: &[u8], on_series: impl FnMut(&[u8])) -> Result<(), FloorError> {
    let mut tally = Tally::default();
    walk(version, raw, &mut tally, &mut Vec::new(), on_series)?;
    black_box(tally);
    Ok(())
}

/// A working set of bodies, compressed and not.
struct Bodies<'a> {
    dataset: &'a Dataset,
    requests: Vec<&'a Prepared>,
    raw: Vec<Vec<u8>>,
}

impl<'a> Bodies<'a> {
    fn of(dataset: &'a Dataset) -> Result<Self, FloorError> {
        let mut left = COMPRESSED_BYTES_MAX;
        let fits = |request: &&Prepared| {
            let fits = left > 0;
            left = left.saturating_sub(dataset.body(request).len() as u64);
            fits
        };
        let requests: Vec<_> = dataset.requests().take_while(fits).collect();
        let decompress =
            |request: &&Prepared| snap::raw::Decoder::new().decompress_vec(dataset.body(request));
        let raw = requests.iter().map(decompress).collect::<Result<_, _>>()?;
        Ok(Self { dataset, requests, raw })
    }

    fn measure<F>(&self, part: &'static str, seconds: f64, mut work: F) -> Result<Floor, FloorError>
    where
        F: FnMut(&[u8], &[u8]) -> Result<(), FloorError>,
    {
        let (mut samples, mut raw_bytes) = (0, 0);
        let start = thread_cpu_s();
        for (i, (request, raw)) in self.requests.iter().zip(&self.raw).cycle().enumerate() {
            if i % CLOCK_PERIOD == 0 && i > 0 && thread_cpu_s() - start > seconds {
                break;
            }
            work(self.dataset.body(request), raw)?;
            samples += u64::from(request.samples);
            raw_bytes += raw.len();
        }
        let cpu_s = (thread_cpu_s() - start).max(f64::MIN_POSITIVE);
        Ok(Floor {
            part,
            samples_per_cpu_s: samples as f64 / cpu_s,
            raw_bytes_per_cpu_s: raw_bytes as f64 / cpu_s,
        })
    }
}

/// The plainest table from labels to series: a hash of the bytes, and no second hash of it.
#[derive(Default)]
struct SeriesTable {
    refs: HashMap<u64, u32, BuildHasherDefault<HashedAlready>>,
}

impl SeriesTable {
    fn find(&mut self, labels: &[u8]) {
        let next = self.refs.len() as u32;
        black_box(*self.refs.entry(xxh3_64(labels)).or_insert(next));
    }
}

#[derive(Default)]
struct HashedAlready(u64);

impl Hasher for HashedAlready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the keys are u64")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::dataset::tests::in_memory;
    use crate::replay::generate::tests::small;

    #[test]
    fn every_part_is_measured_on_both_versions() {
        for version in [RemoteWrite::V1, RemoteWrite::V2] {
            let floors = floors(&in_memory(&small(version)), 0.005).expect("bodies that can be read");
            assert_eq!(floors.len(), 5);
            assert!(floors.iter().all(|floor| floor.samples_per_cpu_s > 0.0));
        }
    }
}
