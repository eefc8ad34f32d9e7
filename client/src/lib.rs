//! Writes samples to a Silverback node and reads them back, from any tokio program.
//!
//! ```text
//!            write(&series, t, v)                        ┌ definitions, refs
//! program ──▶ Writer: columns ── batch by size or time ──▶ Ingest.Stream ──▶ node
//!    ▲           │  room is given back ◀── acknowledged ◀── acknowledgements │
//!    │           └ kept until then; sent again, in order, after a reconnect  │
//!    │                                                                       │
//!    ├── Client::write: a few series ◀──────────── Ingest.Write ────────────▶│
//!    ├── Reader: whole series, chunks, labels ◀─── Query ◀───────────────────│
//!    └── Admin: shards, cells ◀─────────────────── Admin ◀───────────────────┘
//! ```
//!
//! One sample:
//!
//! ```no_run
//! use silverback_client::{Client, Series};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("http://127.0.0.1:9009").await?;
//! let series = Series::new("room_temperature", [("room", "kitchen")]).sample(1_700_000_000_000, 21.5);
//! let written = client.write(&[series]).await?;
//! assert_eq!(written.samples_written, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Many, through a [`Writer`]: a series is named once and sample after sample follows.
//!
//! ```no_run
//! use silverback_client::Client;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("http://127.0.0.1:9009").await?;
//! let writer = client.writer();
//! let series = writer.series("room_temperature", [("room", "kitchen")])?;
//! for n in 0..100_000 {
//!     writer.write(&series, 1_700_000_000_000 + n * 1000, 21.5).await?;
//! }
//! let flushed = writer.close().await?;
//! println!("{} stored, {:?}", flushed.samples_written, flushed.durability);
//! # Ok(())
//! # }
//! ```
//!
//! What is stored is read by a [`Reader`]; [`chunk`] decodes Prometheus' XOR chunks, and
//! [`remote_write`] speaks to receivers other than Silverback. Native histograms ([`histogram`]) are written by all of
//! them.
#![forbid(unsafe_code)]

pub mod chunk;
pub mod histogram;
pub mod remote_write;

mod admin;
mod client;
mod connect;
mod error;
mod get;
mod labels;
mod matcher;
mod reader;
mod refusal;
mod selector;
mod series;
mod unary;
mod writer;

pub use admin::{Admin, Cell, Draining, Motion, MovedCell, Rebalance, Shard, Shards};
pub use client::{Client, Health, Written};
pub use connect::{ClientBuilder, Compression, ConnectError};
pub use error::RequestError;
pub use labels::{LABEL_BYTES_MAX, LabelError, Labels};
pub use matcher::{Matcher, MatcherKind};
pub use reader::{
    ChunkStream, HistogramChunk, Joined, LabelSetStream, ReadError, Reader, SampleStream, SelectedChunks,
    SelectedSeries, SeriesPart, XorChunk,
};
pub use refusal::{Durability, RefusalReason, SeriesRejected};
pub use selector::{Selector, SelectorError};
pub use series::{Series, SeriesParseError};
pub use writer::{
    Flushed, RetryPolicy, SeriesError, SeriesHandle, TryWriteError, Writer, WriterError, WriterHook,
    WriterOptions,
};

/// The documents' example has to compile, too.
#[cfg(doctest)]
#[doc = include_str!("../../docs/client.md")]
struct Documents;
