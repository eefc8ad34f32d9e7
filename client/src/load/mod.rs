//! A fleet's load: what its targets expose, when they are scraped, the way of remote write bodies to
//! a receiver, and what a process spends on it.
//!
//! In reading order: numbers by a seed (`random`, `values`), what a target exposes (`catalogue`,
//! `fleet`), when it is scraped (`scrapes`), how samples become bodies (`encode`, `body`), when they
//! are due (`pace`), how they are posted (`connection`), and what is measured (`usage`, `figures`).

pub mod random;

pub mod values;

pub mod catalogue;

pub mod fleet;

pub mod encode;

pub mod scrapes;

pub mod body;

pub mod pace;

pub mod connection;

pub mod usage;

pub mod figures;
