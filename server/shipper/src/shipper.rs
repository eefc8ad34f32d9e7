//! The shipper: a thread that looks into the directory of blocks, uploads what isn't in the bucket yet, and tries
//! without end what fails. A bucket that fails is left alone for a while, longer each time; a block that fails goes to
//! the end of the line, so that no other waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::io;
use std::num::NonZeroU64;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::select;
use silverback_block::Ulid;
use silverback_host::warn_limited;
use silverback_model::clock::Clock;
use tokio::runtime;
use tokio::sync::{Notify, watch};

use crate::backoff::Backoff;
use crate::blocks::{self, LocalBlockError};
use crate::bucket::Bucket;
use crate::counts::ShipperCounts;
use crate::objstore::BucketConfig;
use crate::pace::UploadPace;
use crate::shipped;
use crate::upload::{
    COMPARED_BYTES_PER_S, PART_BYTES, UploadError, UploadProgress, Uploaded, Uploader, on_disk,
};

/// Threads that read files and resolve names: the shipper waits for one at a time.
const BLOCKING_THREADS: usize = 2;
/// How often the time is doubled after which a block that is damaged is looked at again.
const DAMAGED_DOUBLED_MAX: u32 = 5;
/// What it waits at most after a failure once it is to retry soon.
const RETRY_SOON_WAIT_MAX: Duration = Duration::from_secs(1);
/// How often who stops it looks whether it has ended.
const STOP_LOOK_EVERY: Duration = Duration::from_millis(5);

/// What is shipped where.
#[derive(Debug)]
pub struct ShipperOptions {
    /// Where blocks are, each in a directory of its name. It need not be there yet.
    pub dir: PathBuf,
    /// Where they go.
    pub bucket: BucketConfig,
    /// What tells the series of these blocks from those of others: not empty.
    pub labels: BTreeMap<String, String>,
    /// Bytes in a second at most, on the mean.
    pub bytes_per_s: Option<NonZeroU64>,
    /// Its times.
    pub limits: Limits,
}

/// The times of a shipper, and what it holds.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How often the directory is looked into where nobody calls.
    pub look_every: Duration,
    /// What a bucket may take to answer, with all that is tried again below.
    pub request: Duration,
    /// After the first failure.
    pub backoff_min: Duration,
    /// After many in a row.
    pub backoff_max: Duration,
    /// When a block that is damaged, or can't be read, is looked at again.
    pub damaged_again: Duration,
    /// What a stop waits until the bucket has given up the parts of a file.
    pub give_up: Duration,
    /// Larger files go in parts of so many bytes.
    pub part_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            look_every: Duration::from_secs(60),
            request: Duration::from_secs(300),
            backoff_min: Duration::from_secs(1),
            backoff_max: Duration::from_secs(300),
            damaged_again: Duration::from_secs(600),
            give_up: Duration::from_secs(1),
            part_bytes: PART_BYTES,
        }
    }
}

/// A shipper that runs. Dropped, it ends on its own.
#[derive(Debug)]
pub struct Shipper {
    wake: Arc<Notify>,
    stop: watch::Sender<bool>,
    retry_soon: watch::Sender<bool>,
    shipped: watch::Receiver<BTreeSet<Ulid>>,
    set_aside: watch::Receiver<BTreeSet<Ulid>>,
    counts: Arc<ShipperCounts>,
    thread: JoinHandle<()>,
}

impl Shipper {
    /// Memory that it takes at most, in bytes: a part of a file, what is encrypted of it, and connections.
    pub const MEMORY_BYTES: usize = PART_BYTES + (4 << 20);

    /// Starts its thread, which may run on all CPUs that the caller's may. An error: the system gives no thread.
    pub fn start(options: ShipperOptions) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .thread_name("shipper-io")
            .build()?;
        let (wake, counts) = (Arc::new(Notify::new()), Arc::new(ShipperCounts::default()));
        let (stop, stopped) = watch::channel(false);
        let (retry_soon, retries_soon) = watch::channel(false);
        let (tell_shipped, shipped) = watch::channel(BTreeSet::new());
        let (tell_set_aside, set_aside) = watch::channel(BTreeSet::new());
        let told = Announcements { shipped: tell_shipped, set_aside: tell_set_aside };
        let shipping = Shipping::new(options, told, retries_soon, Arc::clone(&counts), Arc::clone(&wake));
        let run = move || {
            runtime.block_on(shipping.run(stopped));
            // A file system that hangs holds a thread of it: nobody waits for that.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("shipper".to_owned()).spawn(run)?;
        Ok(Self { wake, stop, retry_soon, shipped, set_aside, counts, thread })
    }

    /// Tells it that there may be a new block.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Whether a block is in the bucket, or isn't one to ship, as far as the shipper has looked. Never waits for a
    /// disk or a bucket.
    pub fn is_shipped(&self, ulid: Ulid) -> bool {
        self.shipped.borrow().contains(&ulid)
    }

    /// Whether a block isn't uploaded because it is damaged or can't be read, as far as the shipper has looked.
    pub fn is_set_aside(&self, ulid: Ulid) -> bool {
        self.set_aside.borrow().contains(&ulid)
    }

    /// Waits until other blocks than now are in the bucket or can't be uploaded, from the call on.
    pub fn next_change(&self) -> impl Future<Output = ()> + use<> {
        let [mut shipped, mut set_aside] = [&self.shipped, &self.set_aside].map(Clone::clone);
        shipped.mark_unchanged();
        set_aside.mark_unchanged();
        async move {
            // An error: it has ended, and nothing changes any more.
            let changed = async |blocks: &mut watch::Receiver<BTreeSet<Ulid>>| match blocks.changed().await {
                Ok(()) => {}
                Err(_ended) => pending().await,
            };
            select(pin!(changed(&mut shipped)), pin!(changed(&mut set_aside))).await;
        }
    }

    /// Tells it that the node is about to end: a bucket that fails is tried again soon, from now on.
    pub fn retry_soon(&self) {
        self.retry_soon.send_replace(true);
        self.wake();
    }

    /// What it has counted.
    pub fn counts(&self) -> &ShipperCounts {
        &self.counts
    }

    /// Tells it to end, and waits for that at most so long: for a caller without executors any more. An upload in
    /// flight is given up: it is begun again at the next start. `false`: it hasn't ended in time, and does on its own.
    pub fn stop(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        self.stop.send_replace(true);
        while !self.thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(STOP_LOOK_EVERY);
        }
        self.thread.is_finished()
    }
}

/// What the thread has.
struct Shipping {
    dir: PathBuf,
    bucket_name: String,
    limits: Limits,
    uploader: Uploader,
    /// In the bucket, by the file or by this process.
    uploaded: BTreeSet<Ulid>,
    tried: BTreeMap<Ulid, Tried>,
    told: Announcements,
    retries_soon: watch::Receiver<bool>,
    counts: Arc<ShipperCounts>,
    wake: Arc<Notify>,
    backoff: Backoff,
}

/// What others see.
struct Announcements {
    shipped: watch::Sender<BTreeSet<Ulid>>,
    set_aside: watch::Sender<BTreeSet<Ulid>>,
}

/// What came of a block that isn't in the bucket yet.
#[derive(Debug, Default)]
struct Tried {
    failures: u32,
    /// How often in a row it was found damaged, or couldn't be read.
    damages: u32,
    /// Damaged: not before this is it looked at again.
    damaged_until: Option<Instant>,
    progress: UploadProgress,
}

impl Shipping {
    fn new(
        options: ShipperOptions,
        told: Announcements,
        retries_soon: watch::Receiver<bool>,
        counts: Arc<ShipperCounts>,
        wake: Arc<Notify>,
    ) -> Self {
        let ShipperOptions { dir, bucket, labels, bytes_per_s, limits } = options;
        let uploader = Uploader {
            bucket: Bucket::new(bucket.store, bucket.name.as_str().into(), limits.request),
            pace: UploadPace::new(bytes_per_s),
            compared: UploadPace::new(NonZeroU64::new(COMPARED_BYTES_PER_S)),
            labels: Arc::new(labels),
            counts: Arc::clone(&counts),
            part_bytes: limits.part_bytes,
            open: None,
        };
        Self {
            dir,
            bucket_name: bucket.name,
            limits,
            uploader,
            uploaded: BTreeSet::new(),
            tried: BTreeMap::new(),
            told,
            retries_soon,
            counts,
            wake,
            backoff: Backoff::new(limits.backoff_min, limits.backoff_max),
        }
    }

    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        tracing::info!(bucket = self.bucket_name, dir = %self.dir.display(), "blocks are shipped");
        tokio::select! {
            // Whoever started it is gone, or tells it to end.
            _told = stopped.wait_for(|stop| *stop) => {}
            never = self.ship() => match never {},
        }
        let _late = tokio::time::timeout(self.limits.give_up, self.uploader.give_up()).await;
        tracing::debug!("the shipper has ended");
    }

    async fn ship(&mut self) -> std::convert::Infallible {
        self.read_uploaded().await;
        let wake = Arc::clone(&self.wake);
        loop {
            match self.pass().await {
                Ok(()) => {
                    self.succeeded();
                    let _either = tokio::time::timeout(self.limits.look_every, wake.notified()).await;
                }
                // Callers are not heard: a bucket that fails for all nodes isn't asked more often for it.
                Err(()) => {
                    let wait = self.failed();
                    self.wait_after_failure(wait).await;
                }
            }
        }
    }

    async fn wait_after_failure(&mut self, wait: Duration) {
        let is_soon = *self.retries_soon.borrow();
        let wait = if is_soon { wait.min(RETRY_SOON_WAIT_MAX) } else { wait };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _told = self.retries_soon.changed(), if !is_soon => {}
        }
    }

    async fn read_uploaded(&mut self) {
        let dir = self.dir.clone();
        match on_disk(move || shipped::read(&dir)).await {
            Ok(uploaded) => self.uploaded = uploaded,
            Err(error) => {
                tracing::warn!(%error, dir = %self.dir.display(), "thanos.shipper.json can't be used: the bucket is asked for each block, and the file started over");
            }
        }
    }

    /// Uploads block after block until none is left, or the bucket fails.
    async fn pass(&mut self) -> Result<(), ()> {
        while let Some(next) = self.next().await? {
            self.one(next).await?;
        }
        Ok(())
    }

    /// The oldest of those that failed least.
    async fn next(&mut self) -> Result<Option<Ulid>, ()> {
        let dir = self.dir.clone();
        let names = match on_disk(move || blocks::list(&dir)).await {
            Ok(names) => BTreeSet::from_iter(names),
            Err(error) => {
                warn_limited!(%error, dir = %self.dir.display(), "the directory of blocks can't be looked into");
                return Err(());
            }
        };
        self.forget_all_but(&names).await;
        let mut done = self.uploaded.clone();
        let mut waiting = Vec::new();
        let left: Vec<Ulid> = names.difference(&self.uploaded).copied().collect();
        for ulid in left {
            let dir = self.dir.clone();
            match on_disk(move || blocks::begin_ms(&dir, ulid)).await {
                Ok(Some(begin_ms)) => waiting.push((ulid, begin_ms)),
                Ok(None) => {
                    done.insert(ulid);
                }
                Err(fault) => self.unreadable(ulid, &fault),
            }
        }
        // What is damaged isn't pending: nobody waits for it, and no bucket is slow.
        let is_damaged = |ulid| self.tried.get(ulid).is_some_and(|tried| tried.damaged_until.is_some());
        let pending = waiting.iter().filter(|(ulid, _)| !is_damaged(ulid)).count();
        self.counts.pending.store(pending as u64, Ordering::Relaxed);
        announce(&self.told.shipped, done);
        let now = Instant::now();
        let order = |(ulid, begin_ms): (Ulid, i64)| {
            let tried = self.tried.get(&ulid);
            let is_due = tried.and_then(|tried| tried.damaged_until).is_none_or(|until| until <= now);
            is_due.then_some((tried.map_or(0, |tried| tried.failures), begin_ms, ulid))
        };
        let first = waiting.into_iter().filter_map(order).min();
        Ok(first.map(|(_, _, ulid)| ulid))
    }

    /// What was deleted here needs no place in the file, nor any other.
    async fn forget_all_but(&mut self, names: &BTreeSet<Ulid>) {
        self.tried.retain(|ulid, _| names.contains(ulid));
        self.count_damaged();
        if !self.uploaded.is_subset(names) {
            self.uploaded.retain(|ulid| names.contains(ulid));
            self.write_uploaded().await;
        }
    }

    async fn one(&mut self, ulid: Ulid) -> Result<(), ()> {
        // A bug that a block brings out isn't the end of all shipping.
        let tried = AssertUnwindSafe(self.upload(ulid)).catch_unwind().await;
        match tried.unwrap_or(Err(UploadError::Panicked)) {
            Ok(()) => {
                self.tried.remove(&ulid);
                self.uploaded.insert(ulid);
                self.succeeded();
                self.write_uploaded().await;
                self.told.shipped.send_if_modified(|shipped| shipped.insert(ulid));
                Ok(())
            }
            Err(UploadError::Local(fault)) => {
                self.unreadable(ulid, &fault);
                Ok(())
            }
            Err(fault @ (UploadError::Bucket(_) | UploadError::Panicked)) => {
                let tried = self.tried.entry(ulid).or_default();
                // It could be read.
                (tried.damages, tried.damaged_until) = (0, None);
                tried.failures += 1;
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
                warn_limited!(block = %ulid, bucket = self.bucket_name, %fault, "a block can't be uploaded; it is tried again");
                Err(())
            }
        }
    }

    async fn upload(&mut self, ulid: Ulid) -> Result<(), UploadError> {
        let (dir, began) = (self.dir.clone(), Instant::now());
        let block = on_disk(move || blocks::open(&dir, ulid)).await?;
        let bytes: u64 = block.files.iter().map(|file| file.bytes).sum();
        let progress = &mut self.tried.entry(ulid).or_default().progress;
        if self.uploader.upload(block, progress, now_ms()).await? == Uploaded::Now {
            self.counts.uploads.fetch_add(1, Ordering::Relaxed);
            let seconds = began.elapsed().as_secs_f64();
            tracing::info!(block = %ulid, bytes, seconds, bucket = self.bucket_name, "a block is in the bucket");
        }
        Ok(())
    }

    /// A block that can't be read isn't the bucket's fault: others go on.
    fn unreadable(&mut self, ulid: Ulid, fault: &LocalBlockError) {
        if let LocalBlockError::Gone = fault {
            tracing::debug!(block = %ulid, "a block was deleted before it was uploaded");
            self.tried.remove(&ulid);
            return;
        }
        let tried = self.tried.entry(ulid).or_default();
        let is_due = tried.damaged_until.is_none_or(|until| until <= Instant::now());
        if is_due {
            // Longer each time: all of it is read again.
            let again = self.limits.damaged_again.saturating_mul(1 << tried.damages.min(DAMAGED_DOUBLED_MAX));
            tried.damages += 1;
            tried.damaged_until = Some(Instant::now() + again);
            self.counts.failures.fetch_add(1, Ordering::Relaxed);
            warn_limited!(block = %ulid, %fault, "a block is damaged or can't be read, and isn't uploaded");
        }
        self.count_damaged();
    }

    fn count_damaged(&self) {
        let is_damaged = |(ulid, tried): (&Ulid, &Tried)| tried.damaged_until.map(|_until| *ulid);
        let damaged: BTreeSet<Ulid> = self.tried.iter().filter_map(is_damaged).collect();
        self.counts.damaged.store(damaged.len() as u64, Ordering::Relaxed);
        announce(&self.told.set_aside, damaged);
    }

    async fn write_uploaded(&self) {
        let (dir, uploaded) = (self.dir.clone(), self.uploaded.clone());
        if let Err(error) = on_disk(move || shipped::write(&dir, &uploaded)).await {
            self.counts.failures.fetch_add(1, Ordering::Relaxed);
            warn_limited!(%error, dir = %self.dir.display(), "thanos.shipper.json can't be written: after a restart the bucket is asked for each block");
        }
    }

    fn succeeded(&mut self) {
        self.backoff.reset();
        self.counts.last_success_ms.store(now_ms(), Ordering::Relaxed);
        self.counts.failing_since_ms.store(0, Ordering::Relaxed);
    }

    fn failed(&mut self) -> Duration {
        if self.counts.failing_since_ms.load(Ordering::Relaxed) == 0 {
            self.counts.failing_since_ms.store(now_ms(), Ordering::Relaxed);
        }
        self.backoff.after_failure()
    }
}

/// Whoever waits for a change is woken by one alone.
fn announce(blocks: &watch::Sender<BTreeSet<Ulid>>, now: BTreeSet<Ulid>) {
    blocks.send_if_modified(|announced| {
        let is_another = *announced != now;
        *announced = now;
        is_another
    });
}

fn now_ms() -> i64 {
    Clock::System.now_ms()
}
