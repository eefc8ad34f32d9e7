//! What answering reads needs of its core: their places, their memory, what compiles their expressions.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::api::core::CoreContext;
use crate::api::query::external::External;
use crate::api::query::http_api::promql::ActiveQueries;
use crate::api::query::read_rejected::{ReadRejected, check_replayed};
use crate::routing::{Asker, ByteBudget, ReadGate, ReadInFlight};
use silverback_runtime::SideThread;

/// A core, as what answers reads has it.
pub struct Reader {
    core: Rc<CoreContext>,
    /// Reads in flight on this core, and those that wait.
    pub reads: Rc<ReadGate>,
    /// Queries that are evaluated on this core, and those that wait.
    pub(crate) queries: Rc<ReadGate>,
    /// Queries that were asked of this core, and parts of others' that it does.
    pub(crate) active: Rc<ActiveQueries>,
    /// Bytes for reads in flight: their requests, answers that are made whole, and what queries hold.
    pub read_bytes: ByteBudget,
    /// Compiles what would hold the core.
    pub(crate) compiler: Arc<SideThread>,
    /// What series have for those that read this node beside others.
    pub(crate) external: External,
}

impl Reader {
    /// With the bounds of the node's memory plan.
    pub(crate) fn new(core: Rc<CoreContext>, compiler: Arc<SideThread>) -> Self {
        let (plan, cores) = (core.node.memory, core.node.cpus.len());
        let reads = ReadGate::new(core.config.max_reads, cores, plan.reads_max());
        Self {
            // More would only wait for each other there.
            queries: ReadGate::new(core.config.max_queries, cores, reads.max()),
            active: Rc::new(ActiveQueries::new(core.router.core())),
            reads,
            read_bytes: ByteBudget::new(plan.read_answer_bytes()),
            compiler,
            external: External::of(&core.config),
            core,
        }
    }

    /// Begins a read: refused before all data is back, and where too many wait already.
    pub(crate) async fn begin_read(&self, asker: &Asker) -> Result<ReadInFlight, ReadRejected> {
        check_replayed(self)?;
        Ok(self.reads.enter(asker.clone()).await?)
    }
}

impl Deref for Reader {
    type Target = CoreContext;

    fn deref(&self) -> &CoreContext {
        &self.core
    }
}
