//! What is pure: the words of the domain (samples, labels, ids, epochs, matchers, reasons), Prometheus' chunks
//! ([`gorilla`]), its native histograms and their chunks ([`histogram`]), its regular expressions ([`re2`]), how text and time are printed, and every bound ([`limits`]).
//! The server and its clients share it. No I/O; [`clock`] alone asks the machine, for the time.
// What blocks an executor's thread (clippy.toml).
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]
pub mod backoff;
pub mod clock;
pub mod duration;
pub mod epoch;
pub mod exemplar;
pub mod gorilla;
pub mod histogram;
pub mod label;
pub mod limits;
pub mod literal;
#[cfg(feature = "re2")]
pub mod matcher;
pub mod merge;
pub mod metadata;
mod named;
pub mod printable;
#[cfg(feature = "re2")]
pub mod re2;
pub mod refusal;
pub mod sample;
pub mod sealed;
pub mod selector;
pub mod series_id;
pub mod series_ref;
pub mod utc;
pub mod varint;

pub use epoch::Epoch;
pub use exemplar::{Exemplar, ExemplarLabels, ExemplarRejected, ExemplarRejectedCounts};
pub use label::{LabelBlock, Labels, encode_label};
#[cfg(feature = "re2")]
pub use matcher::{Matcher, Searching};
pub use metadata::{Metadata, MetadataRejected, MetadataRejectedCounts, MetricType};
pub use refusal::{RefusedCounts, RefusedReason};
pub use sample::{STALE_NAN_BITS, Sample};
pub use selector::{MatchOp, UncompiledMatcher};
pub use series_id::{CellId, SeriesId, SeriesIdHasher, ShardId};
pub use series_ref::SeriesRef;
