//! What a life starts: a shard and its log over the simulated disk.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use silverback_storage::shard::Shard;
use silverback_storage::wal::{Log, Lsn};

use crate::disk::SimDisk;
use crate::executor::SimHost;

/// What a damaged log does to a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    Strict,
    Salvage,
}

/// What damage costs, as the node reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// These groups, both ends inclusive.
    Groups(Lsn, Lsn),
    /// More than groups can say.
    Unknown,
}

/// One way to keep a shard's samples.
pub(crate) trait Node: Sized + 'static {
    type Log: Log;

    /// Whether somebody deletes from it. Those with a defect are found out without.
    const IS_DELETED_FROM: bool = false;

    /// Brings the shard back as the disk has it. An error is in words for an operator.
    fn start(disk: SimDisk, host: SimHost, recovery: Recovery) -> impl Future<Output = Result<Self, String>>;

    fn shard(&self) -> &Rc<RefCell<Shard>>;

    fn log(&self) -> &Self::Log;

    /// The last group that is on disk.
    fn durable(&self) -> Lsn;

    /// What the start couldn't read.
    fn lost(&self) -> &[Lost];

    /// Writes a checkpoint; an error is one of the disk.
    fn checkpoint(&self) -> impl Future<Output = Result<(), String>>;

    /// Ends what runs beside the shard.
    fn close(&self) -> impl Future<Output = ()>;
}
