//! Remote write 2 over HTTP/1.1, one request for each write: for receivers that speak nothing else.
//!
//! ```no_run
//! # async fn example() -> Result<(), silverback_client::remote_write::WriteError> {
//! use silverback_client::Series;
//! use silverback_client::remote_write::RemoteWriter;
//!
//! let writer = RemoteWriter::new("http://127.0.0.1:9009")?;
//! let series = Series::new("room_temperature", [("room", "kitchen")]).sample(1_700_000_000_000, 21.5);
//! let written = writer.write(&[series]).await?;
//! assert_eq!(written.samples, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Native histograms are written alike: [`Series::histogram`](crate::Series::histogram).

mod encode;
mod send;

pub use send::{RemoteWriter, RemoteWritten, WriteError};
