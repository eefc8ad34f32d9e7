//! What a life starts: a shard and its log over the simulated disk.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

use silverback::shard::Shard;
use silverback::wal::Log;

use crate::disk::SimDisk;
use crate::executor::SimHost;

/// One way to keep a shard's samples.
pub trait Node: Sized + 'static {
    type Log: Log;

    /// Brings the shard back as the disk has it. An error is in words for an operator.
    fn start(disk: SimDisk, host: SimHost) -> impl Future<Output = Result<Self, String>>;

    fn shard(&self) -> &Rc<RefCell<Shard>>;

    fn log(&self) -> &Self::Log;

    /// Writes a checkpoint; an error is one of the disk.
    fn checkpoint(&self) -> impl Future<Output = Result<(), String>>;

    /// Ends what runs beside the shard.
    fn close(&self) -> impl Future<Output = ()>;
}
