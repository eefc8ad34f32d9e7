//! Looking into a node: its shards and cells.

use std::time::Duration;

pub use silverback_proto::v1::{Cell, Shard};

use crate::client::Client;
use crate::error::RequestError;

/// Looks into a node; [`Client::admin`] makes one.
#[derive(Debug, Clone)]
pub struct Admin {
    client: Client,
}

/// The shards of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Shards {
    /// By number.
    pub shards: Vec<Shard>,
    /// How long the node has been up: what counters are divided by.
    pub uptime: Duration,
    /// The node's version.
    pub version: String,
}

impl Admin {
    pub(crate) const fn new(client: Client) -> Self {
        Self { client }
    }

    /// Every shard, with its counters and sizes.
    pub async fn shards(&self) -> Result<Shards, RequestError> {
        let answer = self.client.shards().await?;
        let uptime = Duration::from_millis(answer.uptime_ms);
        Ok(Shards { shards: answer.shards, uptime, version: answer.version })
    }

    /// Every cell that holds a series, or only those of one shard, by number.
    pub async fn cells(&self, shard: Option<u32>) -> Result<Vec<Cell>, RequestError> {
        Ok(self.client.cells(shard).await?.cells)
    }
}
