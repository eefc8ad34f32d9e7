//! A replaying load: a fleet's remote write requests, prepared ahead and sent with next to no CPU.
//!
//! What targets expose, how it becomes bodies and how a body is posted is the rest of this crate.
//! In reading order: the requests of all connections (`generate`, `arrival`, `dataset`), how they are sent and
//! counted (`mark`, `closed_loop`, `send`, `tally`), what is written about it (`report`, `spread`, `table`), and what any
//! receiver must spend at least (`walk`, `floor`).

pub mod arrival;

pub mod generate;

pub mod dataset;

pub mod report;

pub mod mark;

pub mod pin;

mod closed_loop;

pub mod send;

mod tally;

pub mod spread;

pub mod table;

pub mod walk;

pub mod floor;
