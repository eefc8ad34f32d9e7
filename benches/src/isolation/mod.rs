//! How well pieces of work leave each other alone, as figures: small requests beside long jobs on one
//! executor (`mixed`), finished reads (`reads`), and all of it as tables and beside the bounds
//! (`reports`, `verdict`, `tables`).
//!
//! Starting servers, loads and reads is the script's, `benches/isolation`.

pub mod mixed;

pub mod reads;

pub mod reports;

pub mod verdict;

pub mod tables;
