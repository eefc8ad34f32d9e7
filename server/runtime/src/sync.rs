//! What threads share, under one name: std's here, as below. The models in `tests/loom` include the files that use
//! it and put loom's in its place.
pub use silverback_host::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
