//! shard.
