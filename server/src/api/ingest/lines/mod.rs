//! Writes that are lines of text, of scripts and devices: Prometheus' text format and InfluxDB's line protocol
//! become series and samples, and go the way of every write. A line that can't be read costs no other.
//!
//! ```text
//! prometheus_api ┐                                  ┌ prometheus_text ┐
//!                ├→ intake → gzip → decode (lines) →┤                 ├→ label sets → split → the shards … → report
//! influx_api     ┘                                  └ influx_lines    ┘
//! ```
mod beside;
mod decode;
mod extra_labels;
mod influx_api;
mod influx_lines;
mod intake;
mod number;
mod prometheus_api;
mod prometheus_text;
mod report;
mod scanner;

pub use decode::{Decoded, LineFormat, LineRejected, decode};
pub use extra_labels::ExtraLabels;
pub use influx_api::{Dialect, ping, write};
pub use influx_lines::{InfluxLines, Precision};
pub use prometheus_api::{Import, import};
pub use prometheus_text::PrometheusText;
