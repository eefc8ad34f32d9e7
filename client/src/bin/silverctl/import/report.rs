//! What became of an import of blocks and a head.

use std::fmt;
use std::path::{Path, PathBuf};

use indicatif::BinaryBytes;
use silverback_client::RefusalReason;

use super::head::{HeadCounts, HeadFiles};
use crate::error::{CommandError, Done};
use crate::figures::counted;
use crate::sending::SendReport;
use crate::time_text::format_rfc3339;

/// What helps where most samples are refused for their age.
pub(super) const TOO_OLD_HINT: &str =
    "Most were older than the node keeps samples: start it with a longer --retention, and import again.";

/// What was read and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ImportReport {
    /// Blocks that were read to their end.
    pub blocks_read: u64,
    /// Blocks that an earlier run had read.
    pub blocks_before: u64,
    /// Blocks without a sample of the wanted times.
    pub blocks_out_of_range: u64,
    /// Blocks that could not be read to their end.
    pub blocks_damaged: u64,
    /// Series that were read.
    pub series: u64,
    /// Series whose labels make none.
    pub series_bad: u64,
    /// Samples that were read, native histograms among them.
    pub samples: u64,
    /// Chunks in an encoding that isn't read.
    pub other_chunks: u64,
    /// Chunks that can't be read.
    pub chunks_damaged: u64,
    /// What the head came to.
    pub head: HeadCounts,
    /// Heads that could not be read to their end: one or none.
    pub heads_damaged: u64,
    /// Why it ended.
    pub end: End,
    has_head: bool,
    out_of_order_bytes: u64,
    log_is_missing: bool,
    oldest_ms: Option<i64>,
    sent: SendReport,
    state: Option<PathBuf>,
}

/// Why an import ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum End {
    /// There was nothing more.
    #[default]
    Blocks,
    /// Ctrl-C came.
    Interrupt,
}

impl ImportReport {
    /// Counts samples; the first of them is the oldest.
    pub(super) fn took(&mut self, samples: u64, first_ms: Option<i64>) {
        self.samples += samples;
        self.oldest_ms = match (self.oldest_ms, first_ms) {
            (Some(oldest_ms), Some(first_ms)) => Some(oldest_ms.min(first_ms)),
            (oldest_ms, first_ms) => oldest_ms.or(first_ms),
        };
    }

    /// Notes that there is a head.
    pub(super) fn found_head(&mut self, files: &HeadFiles) {
        self.has_head = !files.segments.is_empty();
        (self.out_of_order_bytes, self.log_is_missing) = (files.out_of_order_bytes, files.log_is_missing);
    }

    /// Pieces that can't be read.
    pub(super) const fn faults(&self) -> u64 {
        self.blocks_damaged + self.chunks_damaged + self.heads_damaged
    }

    /// With what the node made of it.
    #[must_use]
    pub(super) fn with_sent(&self, sent: &SendReport) -> Self {
        Self { sent: sent.clone(), ..self.clone() }
    }

    /// With where it is noted how far it is.
    #[must_use]
    pub(super) fn with_state(self, path: &Path) -> Self {
        Self { state: Some(path.to_owned()), ..self }
    }

    /// A failure unless everything is written.
    pub(super) fn verdict(&self) -> Done {
        let is_sound = self.faults() == 0 && self.series_bad == 0;
        let is_unread = self.head.unknown_records > 0
            || self.head.histograms_too_large > 0
            || self.out_of_order_bytes > 0
            || self.log_is_missing;
        let is_whole = is_sound && !is_unread && !self.sent.has_refusals() && self.end == End::Blocks;
        if is_whole { Ok(()) } else { Err(CommandError::Told) }
    }
}

impl ImportReport {
    /// What isn't as it could be: how many, and what one or many of them are.
    const fn oddities(&self) -> [(u64, &'static str, &'static str); 11] {
        [
            (
                self.blocks_before,
                "block of an earlier run is left out",
                "blocks of an earlier run are left out",
            ),
            (
                self.blocks_out_of_range,
                "block has no sample of these times",
                "blocks have no sample of these times",
            ),
            (
                self.other_chunks,
                "chunk is in an encoding that isn't read here (start timestamps?) and is left out",
                "chunks are in encodings that aren't read here (start timestamps?) and are left out",
            ),
            (
                self.blocks_damaged,
                "block is damaged and not read to its end",
                "blocks are damaged and not read to their end",
            ),
            (self.chunks_damaged, "chunk is damaged and left out", "chunks are damaged and left out"),
            (
                self.head.samples_late,
                "sample of the head came after a later one and is left out",
                "samples of the head came after later ones and are left out",
            ),
            (
                self.head.samples_nameless,
                "sample of the head is of a series that its log doesn't name and is left out",
                "samples of the head are of series that its log doesn't name and are left out",
            ),
            (
                self.head.histograms_too_large,
                "native histogram of the head has more buckets than a node takes and is left out",
                "native histograms of the head have more buckets than a node takes and are left out",
            ),
            (
                self.head.unknown_records,
                "record of the head is of a kind that this silverctl doesn't know and is left out",
                "records of the head are of kinds that this silverctl doesn't know and are left out",
            ),
            (
                self.heads_damaged,
                "head is damaged, or its Prometheus shortened it meanwhile, and not read to its end: run it again",
                "heads are damaged, or were shortened meanwhile, and not read to their end: run it again",
            ),
            (self.series_bad, "series has labels that make none", "series have labels that make none"),
        ]
    }
}

/// What helps where samples came out of order: a node takes a series in the order of its times.
const OUT_OF_ORDER_HINT: &str = "Prometheus merges them into its blocks some hours later: import these then, into a \
                                 node without these series";
/// What helps where a directory was copied without its log.
const SNAPSHOT_HINT: &str = "copy it too, or take a snapshot (POST /api/v1/admin/tsdb/snapshot of that Prometheus, \
                             started with --web.enable-admin-api) and import snapshots/NAME in its data directory";

impl ImportReport {
    /// The files of a head that were not read, and what to do about it.
    fn left_out(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.out_of_order_bytes > 0 {
            let bytes = BinaryBytes(self.out_of_order_bytes);
            write!(
                f,
                "\nwbl ({bytes}), samples that came out of order and may be in no block yet, is left out; "
            )?;
            f.write_str(OUT_OF_ORDER_HINT)?;
        }
        if self.log_is_missing {
            f.write_str("\nchunks_head, the newest samples, is left out, since no wal names their series; ")?;
            f.write_str(SNAPSHOT_HINT)?;
        }
        Ok(())
    }
}

/// Lines of words, for a person.
impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = counted(self.blocks_read, "block", "blocks");
        write!(f, "{blocks} and {} read", counted(self.series, "series", "series"))?;
        if self.has_head {
            write!(f, "\nthe head and {} of it read", counted(self.head.series, "series", "series"))?;
        }
        self.left_out(f)?;
        for (count, one, many) in self.oddities() {
            if count > 0 {
                write!(f, "\n{}", counted(count, one, many))?;
            }
        }
        write!(f, "\n{}", self.sent)?;
        if self.sent.main_reason() == Some(RefusalReason::TooOld) {
            write!(f, "\n{TOO_OLD_HINT}")?;
            if let Some(oldest_ms) = self.oldest_ms {
                write!(f, " The oldest sample is of {}.", format_rfc3339(oldest_ms))?;
            }
        }
        match (self.end, &self.state) {
            (End::Interrupt, Some(state)) => {
                write!(f, "\ninterrupted: run it again to go on; how far it got is in {}", state.display())
            }
            (End::Interrupt, None) => f.write_str("\ninterrupted"),
            (End::Blocks, _) => Ok(()),
        }
    }
}
