//! What the bare disk takes for a write and a sync, as a log does them: into a file that was written
//! before, past the page cache. It knows no server.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use silverback_load::figures::Quantiles;

/// How to probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Args)]
pub struct ProbeOptions {
    /// Writes, each with a sync
    #[arg(long, default_value_t = 1000)]
    pub writes: u32,
    /// Bytes of a write, a multiple of 4 KiB
    #[arg(long, default_value_t = 64 << 10)]
    pub bytes: usize,
    /// Writes a second; without it one comes right after another
    #[arg(long)]
    pub rate: Option<f64>,
}

/// What the disk took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProbeReport {
    /// What was written.
    pub options: ProbeOptions,
    /// From the write to the end of its sync.
    pub latency_ms: Quantiles,
}

/// Direct writes begin, in memory and in the file, at multiples of this.
const BLOCK_BYTES: usize = 4096;

/// As large as a log's segment by default.
const FILE_BYTES: usize = 64 << 20;

/// Probes the disk that `directory` lies on, with a file of its own.
pub fn probe(directory: &Path, options: &ProbeOptions) -> io::Result<ProbeReport> {
    let path = directory.join(format!("probe-{}", std::process::id()));
    let measured = measure(&path, options);
    std::fs::remove_file(&path)?;
    Ok(ProbeReport { options: options.clone(), latency_ms: Quantiles::of_micros(&measured?) })
}

fn measure(path: &Path, options: &ProbeOptions) -> io::Result<Histogram<u64>> {
    if options.bytes == 0 || options.bytes > FILE_BYTES || !options.bytes.is_multiple_of(BLOCK_BYTES) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "bytes: a multiple of 4 KiB up to 64 MiB"));
    }
    let file = open_direct(path)?;
    let mut room = vec![0x5a_u8; options.bytes + BLOCK_BYTES];
    let begin = room.as_ptr().align_offset(BLOCK_BYTES);
    let bytes = &mut room[begin..begin + options.bytes];
    let places = FILE_BYTES / options.bytes;
    for place in 0..places {
        file.write_all_at(bytes, (place * options.bytes) as u64)?;
    }
    file.sync_all()?;
    let period = options.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(1.0 / rate));
    let mut latency_us = Histogram::new(3).expect("three digits are allowed");
    for write in 0..options.writes {
        bytes[..4].copy_from_slice(&write.to_le_bytes());
        let began = Instant::now();
        file.write_all_at(bytes, ((write as usize % places) * options.bytes) as u64)?;
        file.sync_data()?;
        latency_us.record(began.elapsed().as_micros() as u64).expect("a histogram that grows by itself");
        thread::sleep(period.saturating_sub(began.elapsed()));
    }
    Ok(latency_us)
}

fn open_direct(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_takes_some_time_and_keeps_no_file() {
        // Not the temporary directory: a file system in memory may refuse direct writes.
        let program = std::env::current_exe().expect("this program");
        let directory = program.parent().expect("a directory");
        let options = ProbeOptions { writes: 5, bytes: 4096, rate: Some(1000.0) };
        let report = probe(directory, &options).expect("a disk");
        assert!(report.latency_ms.p50 > 0.0 && report.latency_ms.p50 <= report.latency_ms.max, "{report:?}");
        let left = std::fs::read_dir(directory).expect("the directory").filter_map(Result::ok);
        let own = format!("probe-{}", std::process::id());
        assert!(!left.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(&own)));
    }

    #[test]
    fn a_size_that_no_direct_write_can_have_is_refused() {
        let directory = std::env::temp_dir();
        for bytes in [0, 100, FILE_BYTES * 2] {
            let options = ProbeOptions { writes: 1, bytes, rate: None };
            assert!(measure(&directory.join("never"), &options).is_err(), "{bytes}");
        }
    }
}
