//! The words of the domain: samples, labels, ids, epochs, matchers, reasons. No I/O, no clock.
pub mod epoch;
pub mod label;
pub mod matcher;
pub mod refusal;
pub mod sample;
pub mod series_id;
pub mod series_ref;

pub use epoch::Epoch;
pub use label::{LabelBlock, Labels, encode_label};
pub use matcher::{MatchOp, Matcher, Searching, UncompiledMatcher};
pub use refusal::{RefusedCounts, RefusedReason};
pub use sample::{STALE_NAN_BITS, Sample};
pub use series_id::{CellId, SeriesId, SeriesIdHasher, ShardId};
pub use series_ref::SeriesRef;
