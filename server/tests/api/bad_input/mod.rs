//! A whole node against bad input and bad clients: each is answered as the protocols say and
//! counted, what others wrote stays as it was, and the node and its connections go on.

mod bystander;
mod clients;
mod connections;
mod histograms;
mod http;
mod labels;
mod malformed;
mod metrics;
mod origins;
mod refusals;
mod samples;
mod series_limit;
mod shutdown;
mod specification;
mod steady;
mod symbols;
mod unstored;
