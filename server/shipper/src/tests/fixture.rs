//! Blocks to ship, and a shipper that waits for nothing long.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use silverback_block::{
    BlockWriteError, BlockWriter, Contents, CutChunk, SeriesChunksWriter, Ulid, WriterMemory,
};
use silverback_model::Sample;
use silverback_model::gorilla::{FloatEncoding, OpenXor};
use silverback_test_support::{Scratch, TEST_TIMEOUT};

use crate::objstore::BucketConfig;
use crate::{Limits, Shipper, ShipperOptions};

/// A directory of blocks.
pub(super) struct Blocks(Scratch);

impl Blocks {
    pub(super) fn new() -> Self {
        Self(Scratch::new())
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn block(&self, ulid: Ulid) -> PathBuf {
        self.0.join(&ulid.to_string())
    }

    /// Writes a block with one series of two samples, which is there whole or not at all.
    pub(super) fn write(&self, number: u64) -> Ulid {
        let (ulid, making) = (Ulid::from_parts(number, 0), Scratch::new());
        let mut writer =
            BlockWriter::create(making.path().join(ulid.to_string()), ulid, WriterMemory::MAX).unwrap();
        let begin_ms = number as i64 * 7_200_000;
        let mut words = Vec::new();
        let mut open = OpenXor::start(Sample::new(begin_ms, 1.0), &mut words);
        open.append(Sample::new(begin_ms + 1000, 2.0), &mut words);
        let sealed = open.seal(words.into_iter());
        let put = |chunks: &mut SeriesChunksWriter<'_>| {
            chunks.put(CutChunk {
                contents: Contents::Floats(FloatEncoding::Xor),
                min_ms: begin_ms,
                max_ms: begin_ms + 1000,
                samples: 2,
                bytes: sealed.bytes(),
            })
        };
        writer.add_series::<BlockWriteError>([("__name__", "up")].into_iter(), put).unwrap();
        writer.finish(&|_| true).unwrap().unwrap();
        std::fs::rename(making.join(&ulid.to_string()), self.block(ulid)).unwrap();
        ulid
    }

    /// The block's files that are uploaded, by their names in a bucket.
    pub(super) fn objects_of(ulid: Ulid) -> Vec<String> {
        ["chunks/000001", "index", "meta.json"].map(|file| format!("{ulid}/{file}")).to_vec()
    }
}

pub(super) fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("cluster".to_owned(), "eu-1".to_owned())])
}

/// Files of more than a hundred bytes in parts, and times that tests can wait for.
pub(super) fn limits() -> Limits {
    Limits {
        look_every: Duration::from_millis(20),
        request: TEST_TIMEOUT,
        backoff_min: Duration::from_millis(2),
        backoff_max: Duration::from_millis(20),
        damaged_again: Duration::from_millis(50),
        give_up: Duration::from_millis(200),
        part_bytes: 100,
    }
}

/// The same with a bucket that must answer soon.
pub(super) fn impatient() -> Limits {
    Limits { request: Duration::from_millis(200), ..limits() }
}

pub(super) fn options(dir: &Path, store: impl ObjectStore) -> ShipperOptions {
    let bucket = BucketConfig { store: Arc::new(store), name: "a test's".to_owned(), ignored: Vec::new() };
    ShipperOptions { dir: dir.to_owned(), bucket, labels: labels(), bytes_per_s: None, limits: limits() }
}

pub(super) fn start(dir: &Path, store: impl ObjectStore) -> Shipper {
    Shipper::start(options(dir, store)).unwrap()
}
