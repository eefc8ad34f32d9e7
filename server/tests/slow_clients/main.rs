//! Clients that send slowly, or no more, and what becomes of their connections and of those of others.

mod bodies;
mod ends;
