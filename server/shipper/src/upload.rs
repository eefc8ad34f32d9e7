//! Uploads one block, once its checksums are compared: its files of chunks, its index, and then, once the bucket says
//! that it has all of them as large as they are here, its `meta.json`, which is read back. Before that nobody takes what
//! is there for a block. What says that it has a block and has another one, or none, isn't believed.
//!
//! Holds one part of a file at a time. What was uploaded is remembered for the next try of the same process; another
//! process starts over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use object_store::path::Path;

use crate::blocks::{FileReader, LocalBlockError, LocalFile, ShippableBlock};
use crate::bucket::{Bucket, BucketError, Parts};
use crate::counts::ShipperCounts;
use crate::meta;
use crate::pace::UploadPace;

/// A part of a file, and all of a file that is no larger: what an upload holds. S3 takes parts from 5 MiB on and 10,000
/// of them: an index may have 64 GiB.
pub(crate) const PART_BYTES: usize = 8 << 20;
const _: () = assert!(PART_BYTES >= 5 << 20 && (PART_BYTES as u64) * 10_000 > 64 << 30);

/// Why a block isn't uploaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UploadError {
    /// The block can't be read.
    #[error(transparent)]
    Local(#[from] LocalBlockError),
    /// The bucket doesn't take it.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// A bug.
    #[error("the upload panicked; the log has more above")]
    Panicked,
}

/// How an upload ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uploaded {
    /// It is there now.
    Now,
    /// It was there before.
    Before,
}

/// How far a block has come.
#[derive(Debug, Default)]
pub(crate) struct UploadProgress {
    /// Its checksums were right.
    is_compared: bool,
    /// Files that the bucket took.
    files: BTreeSet<String>,
}

/// Of a block's files, so much is compared with its checksums at a time ...
const COMPARED_STEP_BYTES: u64 = 1 << 20;
/// ... and in a second, on the mean: the log writes to the same disk.
pub(crate) const COMPARED_BYTES_PER_S: u64 = 32 << 20;
/// `meta.json` of a block as it stands in a bucket: its files and labels are some KiB.
const META_BYTES_MAX: usize = 1 << 20;

/// What uploads blocks.
#[derive(Debug)]
pub(crate) struct Uploader {
    pub(crate) bucket: Bucket,
    pub(crate) pace: UploadPace,
    /// Of comparing checksums.
    pub(crate) compared: UploadPace,
    pub(crate) labels: Arc<BTreeMap<String, String>>,
    pub(crate) counts: Arc<ShipperCounts>,
    pub(crate) part_bytes: usize,
    /// A file of which the bucket has some parts.
    pub(crate) open: Option<Parts>,
}

impl Uploader {
    /// Uploads a block that isn't there yet.
    pub(crate) async fn upload(
        &mut self,
        block: ShippableBlock,
        progress: &mut UploadProgress,
        now_ms: i64,
    ) -> Result<Uploaded, UploadError> {
        let meta_path = object_path(&block, "meta.json");
        if self.is_there(&block, &meta_path).await? {
            return Ok(Uploaded::Before);
        }
        let Some(meta) = meta::with_thanos(&block.meta_json, &self.labels, &block.files, now_ms) else {
            return Err(LocalBlockError::Damaged("its meta.json is no JSON object".to_owned()).into());
        };
        let block = Arc::new(block);
        if !progress.is_compared {
            self.compare(&block).await?;
            progress.is_compared = true;
        }
        for file in &block.files {
            if !progress.files.contains(&file.name) {
                self.file(&block, file).await?;
                progress.files.insert(file.name.clone());
            }
        }
        for file in &block.files {
            let checked = self.bucket.check_size(&object_path(&block, &file.name), file.bytes).await;
            if matches!(checked, Err(BucketError::Wrong { .. })) {
                progress.files.remove(&file.name);
            }
            checked?;
        }
        let meta = Bytes::from(meta);
        self.put(&meta_path, meta.clone()).await?;
        self.check_meta(&meta_path, &meta).await?;
        Ok(Uploaded::Now)
    }

    /// Whether the bucket has a block, all of its files included. What it gives out in place of one is a fault.
    async fn is_there(&self, block: &ShippableBlock, meta_path: &Path) -> Result<bool, BucketError> {
        let Some(found) = self.bucket.read(meta_path, META_BYTES_MAX).await? else { return Ok(false) };
        if !meta::is_of(&found, block.ulid) {
            return Err(self.bucket.foreign(meta_path, "it is no meta.json of this block"));
        }
        for file in &block.files {
            self.bucket.check_size(&object_path(block, &file.name), file.bytes).await?;
        }
        Ok(true)
    }

    /// Whether the bucket gives out what it took.
    async fn check_meta(&self, path: &Path, uploaded: &Bytes) -> Result<(), BucketError> {
        match self.bucket.read(path, uploaded.len()).await? {
            Some(found) if found == *uploaded => Ok(()),
            Some(_other) => Err(self.bucket.foreign(path, "it isn't what was uploaded a moment ago")),
            None => self.bucket.check_size(path, uploaded.len() as u64).await,
        }
    }

    /// Compares the checksums of a block's files with what is read, at a pace that leaves the disk to others.
    async fn compare(&mut self, block: &Arc<ShippableBlock>) -> Result<(), LocalBlockError> {
        let of_block = Arc::clone(block);
        let mut checksums = on_disk(move || of_block.checksums()).await?;
        loop {
            let (read, rest) = on_disk(move || (checksums.step(COMPARED_STEP_BYTES), checksums)).await;
            let Some(bytes) = read? else { return Ok(()) };
            checksums = rest;
            self.compared.pass(usize::try_from(bytes).unwrap_or(usize::MAX)).await;
        }
    }

    async fn file(&mut self, block: &Arc<ShippableBlock>, file: &LocalFile) -> Result<(), UploadError> {
        let path = object_path(block, &file.name);
        let (of_block, of_file) = (Arc::clone(block), file.clone());
        let reader = on_disk(move || of_block.open_file(&of_file)).await?;
        if reader.left() <= self.part_bytes as u64 {
            let (bytes, _at_end) = self.read(reader).await?;
            return Ok(self.put(&path, bytes).await?);
        }
        self.open = Some(self.bucket.begin(&path).await?);
        let sent = self.parts(reader).await;
        if sent.is_err() {
            self.give_up().await;
        }
        self.open = None;
        sent
    }

    async fn parts(&mut self, mut reader: FileReader) -> Result<(), UploadError> {
        while reader.left() > 0 {
            let bytes;
            (bytes, reader) = self.read(reader).await?;
            let count = bytes.len();
            self.pace.pass(count).await;
            let Some(parts) = &mut self.open else { unreachable!("who calls has begun") };
            self.bucket.put_part(parts, bytes).await?;
            self.counts.bytes.fetch_add(count as u64, Ordering::Relaxed);
        }
        let Some(parts) = &mut self.open else { unreachable!("who calls has begun") };
        Ok(self.bucket.complete(parts).await?)
    }

    /// Gives up the parts of a file that isn't whole. What isn't given up is paid for until the bucket's own rule
    /// removes it.
    pub(crate) async fn give_up(&mut self) {
        if let Some(mut parts) = self.open.take()
            && let Err(fault) = self.bucket.abort(&mut parts).await
        {
            tracing::debug!(%fault, "the parts of an upload that failed can't be given up");
        }
    }

    async fn read(&self, mut reader: FileReader) -> Result<(Bytes, FileReader), LocalBlockError> {
        let part_bytes = self.part_bytes;
        on_disk(move || reader.read(part_bytes).map(|bytes| (bytes.into(), reader))).await
    }

    async fn put(&mut self, path: &Path, bytes: Bytes) -> Result<(), BucketError> {
        let count = bytes.len();
        self.pace.pass(count).await;
        self.bucket.put(path, bytes).await?;
        self.counts.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Under the block's name, below the bucket's prefix.
fn object_path(block: &ShippableBlock, name: &str) -> Path {
    Path::from(format!("{}/{name}", block.ulid))
}

/// Files are read on threads that may block: a disk that hangs doesn't keep the shipper from its end.
pub(crate) async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(ended) => std::panic::resume_unwind(ended.into_panic()),
    }
}
