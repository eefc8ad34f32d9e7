//! Where a server's CPU time goes: its symbols as `perf` samples them while a load of the report is sent, put into few
//! groups, beside another side's for the same work.
//!
//! In reading order: what is compared (`cases`); how a process is watched (`perf`) and what that says (`symbols`); which
//! symbol belongs where (`groups`, with `server_groups` and `cache_groups` as the tables); one measurement of a load
//! (`loads`) or of a founding comparison (`founding`); and what is printed (`table`).

pub mod cases;

pub mod perf;

pub mod symbols;

pub mod groups;

pub mod server_groups;

pub mod cache_groups;

pub mod loads;

pub mod founding;

pub mod table;
