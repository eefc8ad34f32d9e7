//! Looks now and then how much room the data directory's file system has, for metrics and the status page.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::api::core::CoreContext;
use silverback_host::disk::room::FileSystemRoom;
use silverback_runtime::{SideThread, sleep, spawn_background};

/// How often it looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Starts looking. `watcher` asks the file system: where that hangs the thread waits, and what was seen
/// last is reported meanwhile.
pub(crate) fn start(core: Rc<CoreContext>, watcher: Arc<SideThread>) {
    spawn_background(async move {
        while !core.shutdown.is_requested() {
            sleep(LOOK_INTERVAL).await;
            let config = Arc::clone(&core.config);
            let looked = watcher.run(move || FileSystemRoom::of(&config.data_dir)).await;
            let seen = match looked {
                Ok(Ok(room)) => Some(room),
                Ok(Err(error)) => {
                    silverback_host::warn_limited!(%error, "the room of the data directory's file system can't be read");
                    None
                }
                Err(error) => {
                    silverback_host::warn_limited!(%error, "nobody looks at the data directory's file system");
                    None
                }
            };
            core.node.room.set(seen);
        }
    });
}
