//! The cache on tokio's multi-thread runtime, its parts behind read-write locks.

use std::error::Error;
use std::sync::Arc;

use tokio::runtime::Builder;

use super::items::{Items, Kind, Operation, owner};
use super::{Meter, Work};

/// Locks: far more than workers, so that they are hardly ever waited for.
const LOCKS: usize = 128;

/// One part behind the standard library's lock.
pub(super) type Standard = std::sync::RwLock<Items>;
/// One part behind tokio's lock.
pub(super) type Asynchronous = tokio::sync::RwLock<Items>;

/// All parts.
pub(super) fn standard() -> Vec<Standard> {
    (0..LOCKS).map(|part| Standard::new(Items::part(part, LOCKS))).collect()
}

/// All parts.
pub(super) fn asynchronous() -> Vec<Asynchronous> {
    (0..LOCKS).map(|part| Asynchronous::new(Items::part(part, LOCKS))).collect()
}

/// A part that any worker may use.
pub(super) trait Part: Send + Sync + 'static {
    /// Does one operation under the lock.
    fn apply(&self, operation: &mut Operation) -> impl Future<Output = ()> + Send;
}

impl Part for Standard {
    async fn apply(&self, operation: &mut Operation) {
        match operation.kind() {
            Kind::Write => operation.write(&mut self.write().expect("no operation panics")),
            Kind::Read => operation.read(&self.read().expect("no operation panics")),
        }
    }
}

impl Part for Asynchronous {
    async fn apply(&self, operation: &mut Operation) {
        match operation.kind() {
            Kind::Write => operation.write(&mut *self.write().await),
            Kind::Read => operation.read(&*self.read().await),
        }
    }
}

/// Does the work.
pub(super) fn run(work: &Work, meter: &Arc<Meter>, parts: Vec<impl Part>) -> Result<(), Box<dyn Error>> {
    let (parts, runtime) = (Arc::new(parts), Builder::new_multi_thread().worker_threads(work.cores).build()?);
    runtime.block_on(async {
        let askers: Vec<_> = (0..work.askers)
            .map(|asker| tokio::spawn(ask(work.operations(asker), Arc::clone(meter), Arc::clone(&parts))))
            .collect();
        for asker in askers {
            asker.await?;
        }
        Ok(())
    })
}

async fn ask(
    operations: impl Iterator<Item = Operation> + Send,
    meter: Arc<Meter>,
    parts: Arc<Vec<impl Part>>,
) {
    meter.begin();
    for mut operation in operations {
        let parts = Arc::clone(&parts);
        let done = tokio::spawn(async move {
            parts[owner(operation.id, LOCKS)].apply(&mut operation).await;
            operation.end();
        });
        done.await.expect("no operation panics");
    }
    meter.end();
}
