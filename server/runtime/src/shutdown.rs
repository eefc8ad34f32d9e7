//! The notice that the node is to end: given once, from any thread, awaited on every executor.
use super::arrivals::{Arrivals, Reached};

/// A handle to the notice; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Shutdown(Arrivals);

impl Shutdown {
    /// A notice that nobody has given yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the notice. Doing so again changes nothing.
    pub fn request(&self) {
        self.0.arrive();
    }

    /// Whether the notice was given.
    pub fn is_requested(&self) -> bool {
        self.0.count() > 0
    }

    /// Waits for the notice.
    pub fn requested(&self) -> Reached {
        self.0.reached(1)
    }
}
