//! How well pieces of work leave each other alone, as figures: small requests beside long jobs on one
//! executor (`work`, `mixed`) and on tokio (`on_tokio`), finished reads (`reads`), and all of it as tables and beside the bounds
//! (`reports`, `verdict`, `tables`).
//!
//! Starting servers, loads and reads is the script's, `benches/isolation`.

mod work;

pub mod mixed;

pub mod on_tokio;

pub mod reads;

pub mod reports;

pub mod verdict;

pub mod tables;
