//! What answering reads needs of its core: their places, their memory, what compiles their expressions.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::api::core::Core;
use crate::api::query::read_fault::{ReadFault, check_replayed};
use crate::routing::{Asker, ByteBudget, ReadGate, ReadInFlight};
use silverback_runtime::SideThread;

/// A core, as what answers reads has it.
pub struct Reader {
    core: Rc<Core>,
    /// Reads in flight on this core, and those that wait.
    pub reads: Rc<ReadGate>,
    /// Bytes for reads in flight: their requests, and answers that are made whole.
    pub read_bytes: ByteBudget,
    /// Compiles what would hold the core.
    pub(crate) compiler: Arc<SideThread>,
}

impl Reader {
    /// With the bounds of the node's memory plan.
    pub(crate) fn new(core: Rc<Core>, compiler: Arc<SideThread>) -> Self {
        let (plan, cores) = (core.node.memory, core.node.cpus.len());
        Self {
            reads: ReadGate::new(core.config.max_reads, cores, plan.reads_max()),
            read_bytes: ByteBudget::new(plan.read_answer_bytes()),
            compiler,
            core,
        }
    }

    /// Begins a read: refused before all data is back, and where too many wait already.
    pub(crate) async fn begin_read(&self, asker: &Asker) -> Result<ReadInFlight, ReadFault> {
        check_replayed(self)?;
        Ok(self.reads.enter(asker.clone()).await?)
    }
}

impl Deref for Reader {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}
