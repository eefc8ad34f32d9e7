//! The one report: every load beside the node's peers, round after round in turn, and the document that says
//! what came of it.
//!
//! In reading order: who is measured (`side`) and how a program runs (`process`, `server` with its `certificate`, `ask`); the loads
//! (`loads`) and what a run of one is (`writes` with `reconnects` beside it, `restart`, `reads`, with `failure` for what
//! goes wrong); all runs in
//! turn (`rounds`) and what they come to (`measurements`, `bounds`); where that is written (`commit`, `section`,
//! `document`); and the short form that compares with what was kept before (`kept`).

pub mod side;

pub mod failure;

pub mod process;

pub mod certificate;

pub mod ask;
pub mod backed_memory;

pub mod server;

pub mod loads;

pub mod reconnects;

pub mod writes;

pub mod restart;

pub mod reads;

pub mod measurements;

pub mod rounds;

pub mod bounds;

pub mod commit;

pub mod document;

pub mod section;

pub mod kept;
