//! wal.
