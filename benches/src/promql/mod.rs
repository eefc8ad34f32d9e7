//! What PromQL costs beside its peers: the same data in each server, the same expressions asked of all of them in turn,
//! and their answers compared.
//!
//! In reading order: the data (`dataset`) and how they are sent (`load`); what is asked (`expressions`), what came
//! (`answer`) and what it cost (`ask`); several at once, and writes beside them (`together`); what all of it comes to
//! (`verdict`, `tables`).

pub mod answer;
pub mod ask;
pub mod dataset;
pub mod expressions;
pub mod load;
pub mod tables;
pub mod together;
pub mod verdict;
