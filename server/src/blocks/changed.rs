//! Wakes whoever waits for it, on any core or thread, that a block came or went. Which one is for them to look at: many
//! changes before a look are one.
#![expect(clippy::disallowed_types, reason = "held for as long as a few senders are gone through")]

use std::sync::{Mutex, PoisonError};

use futures::channel::mpsc;

/// Says that the set of blocks has changed.
#[derive(Debug, Default)]
pub struct Changed {
    listeners: Mutex<Vec<mpsc::Sender<()>>>,
}

impl Changed {
    /// What has an item after each change from now on. Dropped, it hears no more. An executor awaits it, a thread
    /// blocks on it.
    pub fn subscribe(&self) -> mpsc::Receiver<()> {
        // Its sender has a place of its own: one that isn't taken yet says it all.
        let (sender, receiver) = mpsc::channel(0);
        self.with(|listeners| listeners.push(sender));
        receiver
    }

    /// The set has changed.
    pub(crate) fn tell(&self) {
        self.with(|listeners| {
            listeners
                .retain_mut(|listener| !listener.try_send(()).is_err_and(|error| error.is_disconnected()));
        });
    }

    fn with(&self, act: impl FnOnce(&mut Vec<mpsc::Sender<()>>)) {
        // Nothing under this lock can leave the list half changed.
        act(&mut self.listeners.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;

    #[test]
    fn each_hears_once_of_what_changed_since_it_looked() {
        let changed = Changed::default();
        let (mut one, other) = (changed.subscribe(), changed.subscribe());
        assert!(one.next().now_or_never().is_none());
        changed.tell();
        changed.tell();
        assert_eq!(one.next().now_or_never(), Some(Some(())));
        assert!(one.next().now_or_never().is_none(), "both are one");
        drop(other);
        changed.tell();
        assert_eq!(one.next().now_or_never(), Some(Some(())));
        changed.with(|listeners| assert_eq!(listeners.len(), 1, "who is gone is forgotten"));
    }
}
