//! What threads share, under one name: std's here. The models in `tests/loom` include the files that use
//! it and put loom's in its place.
pub use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};
