//! The client against a node made up for it, over real sockets: what it sends, and what it makes of
//! each answer, refusal and failure.

mod batches;
mod failures;
mod fake;
mod fake_admin;
mod histograms;
mod proxy;
mod reads;
#[cfg(feature = "cli")]
mod silverctl;
mod terms;
mod tls;
mod unary;
