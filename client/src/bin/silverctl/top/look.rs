//! A node at one time, as its admin service reports: shards and cells with their counters.

use silverback_client::{Admin, Cell, RequestError, Shards};

/// One look.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Look {
    /// The shards, and how long the node has been up.
    pub shards: Shards,
    /// The cells that hold a series.
    pub cells: Vec<Cell>,
}

impl Look {
    /// Looks. The shards come first: their time is what rates are divided by.
    pub(crate) async fn take(admin: &Admin) -> Result<Self, RequestError> {
        Ok(Self { shards: admin.shards().await?, cells: admin.cells(None).await? })
    }
}
