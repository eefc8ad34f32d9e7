//! `meta.json`: what a block says of itself.

use std::path::Path;

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::error::{BlockError, BlockErrorKind, BlockSectionError};

/// The file in bytes. A compacted block of many sources lists them all.
const FILE_BYTES_MAX: u64 = 16 << 20;
const VERSION: u32 = 1;
const FROM_OUT_OF_ORDER: &str = "from-out-of-order";

/// What is read of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// The block's name.
    pub ulid: String,
    /// The time of its first sample.
    #[serde(rename = "minTime")]
    pub min_ms: i64,
    /// After the time of its last sample.
    #[serde(rename = "maxTime")]
    pub end_ms: i64,
    /// How much is in it.
    #[serde(default)]
    pub stats: Stats,
    #[serde(default)]
    compaction: Compaction,
    version: u32,
    /// What Silverback knows besides of a block that it cut from its memory; others pass it over.
    #[serde(rename = "silverback", default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// What a block was cut from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cut {
    /// The begin of its range, in ms.
    #[serde(rename = "rangeBegin")]
    pub begin_ms: i64,
    /// What the memory had of the range then, in the block or in one before it: numbers that are the same as long as nothing
    /// came or went. Empty: it isn't known.
    pub held: Vec<u64>,
    /// Whether it was cut before its range was over: there is to be another one with all of it.
    #[serde(rename = "soFar", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_so_far: bool,
}

/// How a block came to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
struct Compaction {
    level: u32,
    sources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parents: Vec<Parent>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
}

/// Where a block's samples are from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockOrigin {
    /// They came after the block of their range was written.
    pub is_late: bool,
    /// What they were cut from, if anybody is to know.
    pub cut: Option<Cut>,
    /// What block it is in place of, if it was written again.
    pub rewritten: Option<Rewritten>,
}

/// A block that was written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    parent: Parent,
    level: u32,
}

impl Rewritten {
    /// The one that says this of itself.
    pub fn of(meta: &Meta) -> Self {
        let parent = Parent { ulid: meta.ulid.clone(), min_ms: meta.min_ms, end_ms: meta.end_ms };
        Self { parent, level: meta.compaction.level.max(1) }
    }
}

/// A block that another one is made of.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
struct Parent {
    ulid: String,
    #[serde(rename = "minTime")]
    min_ms: i64,
    #[serde(rename = "maxTime")]
    end_ms: i64,
}

/// How much is in a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stats {
    /// Samples, histograms too.
    pub num_samples: u64,
    /// Of them, floats.
    pub num_float_samples: u64,
    /// And native histograms.
    pub num_histogram_samples: u64,
    /// Series.
    pub num_series: u64,
    /// Chunks.
    pub num_chunks: u64,
}

impl Meta {
    /// Of a block that was made of nothing but what a head held. `max_ms` is its last sample's time.
    pub(crate) fn of_head(ulid: Ulid, (min_ms, max_ms): (i64, i64), stats: Stats, of: BlockOrigin) -> Self {
        let ulid = ulid.to_string();
        let hints = if of.is_late { vec![FROM_OUT_OF_ORDER.to_owned()] } else { Vec::new() };
        let (level, parents) =
            of.rewritten.map_or((1, Vec::new()), |rewritten| (rewritten.level, vec![rewritten.parent]));
        let compaction = Compaction { level, sources: vec![ulid.clone()], parents, hints };
        let end_ms = max_ms.saturating_add(1);
        Self { ulid, min_ms, end_ms, stats, compaction, version: VERSION, cut: of.cut }
    }

    /// The file's text.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("texts and numbers are JSON");
        text.push(b'\n');
        text
    }

    /// Whether it is of samples that came out of order alone: it says nothing of how far the head's samples are in
    /// blocks.
    pub fn is_of_out_of_order(&self) -> bool {
        self.compaction.hints.iter().any(|hint| hint == FROM_OUT_OF_ORDER)
    }

    /// Whether a head may have more of its range than is in it, as far as it says.
    pub fn is_of_part(&self) -> bool {
        self.is_of_out_of_order() || self.cut.as_ref().is_some_and(|cut| cut.is_so_far)
    }

    /// The blocks that it is made of, as far as it says.
    pub fn parents(&self) -> impl Iterator<Item = Ulid> {
        self.compaction.parents.iter().filter_map(|parent| Ulid::from_string(&parent.ulid).ok())
    }

    /// How often what is in it was compacted: 1 as a head wrote it; 0 where it doesn't say.
    pub const fn level(&self) -> u32 {
        self.compaction.level
    }

    /// Reads the one of the block in `dir`.
    pub fn read(dir: &Path) -> Result<Self, BlockError> {
        let path = dir.join("meta.json");
        let read = || {
            let bytes = std::fs::metadata(&path)?.len();
            if bytes > FILE_BYTES_MAX {
                return Err(BlockErrorKind::TooLarge { what: "the file", bytes, bytes_max: FILE_BYTES_MAX });
            }
            let meta: Self = serde_json::from_slice(&std::fs::read(&path)?)?;
            let known = meta.version == VERSION;
            if known {
                Ok(meta)
            } else {
                Err(BlockErrorKind::NotA { what: "a block's meta.json of version 1" })
            }
        };
        read().map_err(|problem| BlockSectionError::new(0, problem).of(&path))
    }
}
