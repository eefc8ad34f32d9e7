//! Writes samples to a Silverback node, or to any other receiver of remote write 2.
//!
//! ```no_run
//! # async fn example() -> Result<(), silverback_client::WriteError> {
//! use silverback_client::{Client, Series};
//!
//! let client = Client::new("http://127.0.0.1:9009")?;
//! let series = Series::new("room_temperature", [("room", "kitchen")]).sample(1_700_000_000_000, 21.5);
//! let written = client.write(&[series]).await?;
//! assert_eq!(written.samples, 1);
//! # Ok(())
//! # }
//! ```
mod encode;
mod send;
mod series;

pub use send::{Client, WriteError, Written};
pub use series::{ParseError, Series};
