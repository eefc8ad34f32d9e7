//! Native histograms as Prometheus has them: what one is, when one is valid, and the forms that it comes and goes in.
//!
//! ```text
//! remote write, OTLP ─ wire, exponential → Histogram ─ validate → chunk::OpenHistogram ─ seal → bytes
//!                                                                  bytes ─ chunk::HistogramIter → Histogram → wire, json
//! ```
//!
//! Pure: knows neither series nor files. A [`Histogram`] is made to be used again, so that reading one allocates
//! nothing once its lists have grown.
pub mod bounds;
pub mod chunk;
pub mod explicit;
pub mod exponential;
pub mod json;
mod reduce;
mod spans;
pub mod validate;
mod value;
pub mod wire;

pub use chunk::{EndPlan, HistogramChunkError, HistogramIter, OpenHistogram, SealedHistogram};
pub use validate::HistogramError;
pub use value::{
    Buckets, CUSTOM_BUCKETS_SCHEMA, Histogram, HistogramKind, ResetHint, SCHEMA_MAX, SCHEMA_MIN,
    SCHEMA_REDUCED_MAX, Span,
};
