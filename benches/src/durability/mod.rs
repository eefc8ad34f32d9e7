//! What the durable log costs, as figures: the bare disk (`probe`), a log's bytes (`log`), a restart
//! (`restart`), what was kept over it (`kept`), and all of it as tables and beside the bounds (`reports`,
//! `verdict`, `tables`).
//!
//! Starting and killing servers is the script's, `benches/durability`.

pub mod kept;

pub mod log;

pub mod probe;

pub mod restart;

pub mod reports;

pub mod verdict;

pub mod tables;
