//! Shards in memory alone: what the simulation must find out, and what it must not blame.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

use silverback_model::ShardId;
use silverback_storage::shard::Shard;
use silverback_storage::wal::{Lsn, MemoryLog};

use crate::disk::SimDisk;
use crate::executor::SimHost;
use crate::node::{Lost, Node, Recovery};

/// A shard in memory, and how much a restart leaves of it.
pub(crate) struct Volatile<Memory> {
    held: InMemory,
    memory: PhantomData<Memory>,
}

#[derive(Clone)]
pub(crate) struct InMemory {
    shard: Rc<RefCell<Shard>>,
    log: MemoryLog,
}

/// What a restart leaves of a shard.
pub(crate) trait Memory: 'static {
    fn held(disk: &SimDisk) -> InMemory;
}

/// Nothing, and it acknowledges all the same.
pub(crate) struct Forgets;

/// Everything.
pub(crate) struct Remembers;

thread_local! {
    /// The shard of the disk that was used last.
    static REMEMBERED: RefCell<Option<(SimDisk, InMemory)>> = const { RefCell::new(None) };
}

impl InMemory {
    fn new() -> Self {
        let shard = Rc::new(RefCell::new(Shard::new(ShardId(0), usize::MAX)));
        Self { shard, log: MemoryLog::default() }
    }
}

impl Memory for Forgets {
    fn held(_disk: &SimDisk) -> InMemory {
        InMemory::new()
    }
}

impl Memory for Remembers {
    fn held(disk: &SimDisk) -> InMemory {
        REMEMBERED.with_borrow_mut(|remembered| match remembered {
            Some((of, held)) if of.is(disk) => held.clone(),
            Some(_) | None => remembered.insert((disk.clone(), InMemory::new())).1.clone(),
        })
    }
}

impl<M: Memory> Node for Volatile<M> {
    type Log = MemoryLog;

    async fn start(disk: SimDisk, _host: SimHost, _recovery: Recovery) -> Result<Self, String> {
        Ok(Self { held: M::held(&disk), memory: PhantomData })
    }

    fn shard(&self) -> &Rc<RefCell<Shard>> {
        &self.held.shard
    }

    fn log(&self) -> &MemoryLog {
        &self.held.log
    }

    fn durable(&self) -> Lsn {
        Lsn(0)
    }

    fn lost(&self) -> &[Lost] {
        &[]
    }

    async fn checkpoint(&self) -> Result<(), String> {
        Ok(())
    }

    async fn close(&self) {}
}
