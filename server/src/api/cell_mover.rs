//! What moves cells between shards: an operator's requests and the rebalance have it alike.

use std::ops::Deref;
use std::rc::Rc;

use futures::future::LocalBoxFuture;

use crate::api::core::CoreContext;
use crate::migration::{Migrated, MigrationError, Trigger};
use silverback_model::{CellId, ShardId};

/// Moves a cell to a shard.
pub(crate) type Migrate =
    Box<dyn Fn(CellId, ShardId, Trigger) -> LocalBoxFuture<'static, Result<Migrated, MigrationError>>>;

/// A core, as what moves cells has it.
pub struct CellMover {
    core: Rc<CoreContext>,
    /// Moves a cell from its shard to another, and counts it.
    pub(crate) migrate: Migrate,
}

impl CellMover {
    /// By these means.
    pub(crate) fn new(core: Rc<CoreContext>, migrate: Migrate) -> Self {
        Self { core, migrate }
    }
}

impl Deref for CellMover {
    type Target = CoreContext;

    fn deref(&self) -> &CoreContext {
        &self.core
    }
}
