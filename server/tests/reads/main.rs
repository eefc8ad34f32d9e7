//! What was written is read back, by every way of reading and on any number of shards; and what the node
//! tells of itself.

mod active_queries;
mod deletes;
mod histograms;
mod http_api;
mod late;
mod load;
mod page;
mod promql;
mod queries;
mod query_stats;
mod refusals;
mod remote_read;
mod slow_queries;
mod snapshot;
mod status;
