//! The load generator: what a fleet's targets expose, when they are scraped, the way of remote write
//! bodies to a receiver, and what a process spends on it. `silverctl load` and the benches send it.
//!
//! In reading order: numbers by a seed (`random`, `values`), what a target exposes (`catalogue`,
//! `fleet`; in which order its labels come, `label_order`), when it is scraped (`scrapes`), how samples become bodies (`encode`, `histograms`, `body`), when they
//! are due (`pace`), the one HTTP client that posts them (`connection`), what is measured (`usage`,
//! `figures`, `machine`), and the same load prepared ahead and replayed from memory ([`replay`]).
//!
//! It knows no node: any receiver of remote write is as good, and streams over gRPC are the caller's.
#![forbid(unsafe_code)]

pub mod random;

pub mod values;

pub mod catalogue;

pub mod fleet;

pub mod label_order;

pub mod encode;

mod histograms;

pub mod scrapes;

pub mod body;

pub mod pace;

pub mod wire;

pub mod connection;

pub mod usage;

pub mod figures;

pub mod machine;

pub mod replay;
