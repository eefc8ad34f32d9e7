//! Where the shards run: what the machine and the container have, and a plan over it.
//!
//! - [`topology`]: NUMA nodes, cores, SMT siblings, quota, as the kernel's files have them below
//!   [`roots`] that tests make up; [`memory`]: how much the process may take;
//! - [`mod@plan`]: which shard runs on which CPU and takes its memory from which node: a pure function;
//! - [`picture`]: both of them as text and as JSON.
//!
//! Nothing here pins a thread or binds memory: that is the runtime's.
mod cgroup;
mod files;
pub mod memory;
pub mod numbers;
pub mod picture;
pub mod plan;
pub(crate) mod roots;
#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;
pub mod topology;

pub use plan::{PlacementPlan, Seat, plan};
pub use roots::Roots;
pub use topology::{CpuId, NodeId, Topology, TopologyError};
