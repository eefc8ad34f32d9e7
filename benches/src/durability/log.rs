//! How many bytes the write-ahead log takes for a sample: by the node's own count, and by what lies
//! in its segments once it is gone.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use futures::executor::block_on;
use serde::{Deserialize, Serialize};
use silverback::node::identity::{self, IdentityError};
use silverback_host::disk::blocking::BlockingDisk;
use silverback_host::disk::{Disk, DiskError, File};
use silverback_model::ShardId;
use silverback_storage::wal::frame::FrameKey;
use silverback_storage::wal::layout;
use silverback_storage::wal::reader::{FoundFrame, FrameReader};
use silverback_storage::wal::record::{Record, RecordError, records};
use silverback_storage::wal::replay::LogPlace;
use silverback_storage::wal::segment::{FILE_HEADER_BYTES, HeaderError, SegmentHeader, segment_name};

/// What to count.
#[derive(Debug, Clone, clap::Args)]
pub struct LogOptions {
    /// The node's data directory; the node has ended, and wrote no checkpoint
    #[arg(long)]
    pub data_dir: PathBuf,
    /// What the node answered at /metrics before that
    #[arg(long)]
    pub metrics: PathBuf,
    /// The load's name, for the report
    #[arg(long)]
    pub load: String,
}

/// A log's bytes and samples.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogReport {
    /// What was sent.
    pub load: String,
    /// By the node's own count.
    pub counted: Volume,
    /// In groups of the segments that make series.
    pub making_series: Volume,
    /// In all other groups.
    pub known_series: Volume,
}

/// Bytes, padding included, for so many samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// Groups, each one write and one sync.
    pub groups: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Samples in them.
    pub samples: u64,
}

impl Volume {
    /// Bytes for each sample.
    pub fn bytes_per_sample(&self) -> f64 {
        self.bytes as f64 / self.samples.max(1) as f64
    }

    /// Samples of each group.
    pub fn samples_per_group(&self) -> f64 {
        self.samples as f64 / self.groups.max(1) as f64
    }
}

/// Why a log can't be counted.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The directory can't be read.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// It isn't a node's.
    #[error(transparent)]
    DataDir(#[from] IdentityError),
    /// A segment isn't one.
    #[error("{0}: {1}")]
    Segment(String, HeaderError),
    /// A record isn't one.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// There is no log.
    #[error("{0} holds no log")]
    NoLog(PathBuf),
    /// The metrics can't be read.
    #[error(transparent)]
    Metrics(#[from] io::Error),
}

/// Counts a log both ways.
pub fn count(options: &LogOptions) -> Result<LogReport, LogError> {
    let metrics = io::BufReader::new(std::fs::File::open(&options.metrics)?);
    let sums = sums(metrics)?;
    let sum = |name: &str| sums.get(name).copied().unwrap_or(0.0) as u64;
    let counted = Volume {
        groups: sum("silverback_wal_commits_total"),
        bytes: sum("silverback_wal_written_bytes_total"),
        samples: sum("silverback_wal_samples_total"),
    };
    let (making_series, known_series) = block_on(count_segments(&options.data_dir))?;
    Ok(LogReport { load: options.load.clone(), counted, making_series, known_series })
}

/// Each family's samples, added up over its label sets.
fn sums(metrics: impl BufRead) -> io::Result<BTreeMap<String, f64>> {
    let mut sums = BTreeMap::new();
    for line in metrics.lines() {
        let line = line?;
        let Some((series, value)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let name = series.split('{').next().unwrap_or_default();
        *sums.entry(name.to_owned()).or_insert(0.0) += value.parse().unwrap_or(0.0);
    }
    Ok(sums)
}

/// Nothing is written: any block will do.
const BLOCK_BYTES: usize = 512;

async fn count_segments(data_dir: &Path) -> Result<(Volume, Volume), LogError> {
    let disk = BlockingDisk::new(data_dir, BLOCK_BYTES);
    let no_log = || LogError::NoLog(data_dir.to_owned());
    let seed = identity::read(&disk).await?.ok_or_else(no_log)?.seed;
    let generation = layout::newest(&disk).await?.ok_or_else(no_log)?;
    let mut volumes = (Volume::default(), Volume::default());
    for shard in 0..generation.shards {
        let (dir, id) = (generation.log_dir(shard).into(), ShardId(shard as u16));
        let place = LogPlace { disk: disk.clone(), dir, seed, shard: id, is_marked: false };
        for seq in place.files().await?.segments {
            count_segment(&place, seq, &mut volumes).await?;
        }
    }
    Ok(volumes)
}

async fn count_segment(
    place: &LogPlace<BlockingDisk>,
    seq: u64,
    (making_series, known_series): &mut (Volume, Volume),
) -> Result<(), LogError> {
    let path = place.path(&segment_name(seq));
    let file = place.disk.open(&path).await?;
    let mut header = Vec::new();
    file.read_at(0, FILE_HEADER_BYTES, &mut header).await?;
    let header =
        SegmentHeader::decode(&header, place.seed).map_err(|error| LogError::Segment(path, error))?;
    let block_bytes = u64::from(header.block_bytes);
    let mut reader = FrameReader::open(file, FrameKey::new(place.seed), seq, block_bytes).await?;
    loop {
        let began = reader.at();
        let FoundFrame::Frame(_, payload) = reader.next().await? else { return Ok(reader.close().await?) };
        let (mut samples, mut makes_series) = (0, false);
        for record in records(payload) {
            match record? {
                Record::Series(_) => makes_series = true,
                Record::Samples(record) => samples += record.count() as u64,
                Record::StartTimestamps(_)
                | Record::Removed(_)
                | Record::Histograms(_)
                | Record::Replaced(_)
                | Record::Chunks(_)
                | Record::Exemplars(_)
                | Record::Metadata(_)
                | Record::Claims(_)
                | Record::CheckpointEnd { .. } => {}
            }
        }
        let volume = if makes_series { &mut *making_series } else { &mut *known_series };
        volume.groups += 1;
        volume.samples += samples;
        volume.bytes += reader.at() - began;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_added_up_over_its_shards() {
        let metrics = "# HELP a_total Bytes.\n# TYPE a_total counter\n\
                       a_total{shard=\"0\"} 5\na_total{shard=\"1\"} 7\nb 1.5\n";
        let sums = sums(metrics.as_bytes()).expect("text");
        assert_eq!(
            sums.into_iter().collect::<Vec<_>>(),
            [("a_total".to_owned(), 12.0), ("b".to_owned(), 1.5)]
        );
    }

    #[test]
    fn a_directory_without_a_log_is_told() {
        let directory = std::env::temp_dir().join(format!("silverback-no-log-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a temporary directory");
        let counted = block_on(count_segments(&directory));
        assert!(matches!(counted, Err(LogError::NoLog(_))), "{counted:?}");
        std::fs::remove_dir_all(&directory).expect("the directory that was made");
    }
}
