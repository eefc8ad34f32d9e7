//! A replaying load: a fleet's remote write requests, prepared ahead and sent with next to no CPU.
//!
//! In reading order: what a target exposes (`catalogue`, `values`, `fleet`), how it becomes request
//! bodies (`encode`, `generate`, `dataset`), how they are sent and counted (`connection`, `usage`,
//! `mark`, `replay`), what is written about it (`report`, `spread`,
//! `table`), and what any receiver must spend at
//! least (`walk`, `floor`).

pub mod random;

pub mod values;

pub mod catalogue;

pub mod fleet;

pub mod encode;

pub mod generate;

pub mod dataset;

pub mod connection;

pub mod usage;

pub mod report;

pub mod mark;

pub mod replay;

pub mod spread;

pub mod table;

pub mod walk;

pub mod floor;
