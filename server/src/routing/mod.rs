//! Routing: from a series id to the core that owns it, and back with the answer.
//!
//! Knows which shard owns which cell, and how requests and replies cross cores. Knows nothing of
//! what a shard does with them, nor of sockets.
pub mod active;
pub mod bodies;
pub mod budget;
pub mod deletion;
pub(crate) mod fanout;
pub mod fold;
pub mod follow;
pub mod lane_message;
mod large_answers;
mod line;
pub mod pending;
pub(crate) mod read_gate;
pub mod router;
pub mod split;
pub mod table;

pub use active::{ActiveQuery, QueriesCall, QueriesReply, QueryId};
pub use bodies::BodyPool;
pub use budget::{BudgetExceeded, ByteBudget, Reservation, ReservationError, SharedReservation};
pub use deletion::DeletionFanoutError;
pub use fanout::FanoutError;
pub(crate) use fold::FoldPromise;
pub use fold::{EvaluationError, FoldReply, FoldRequest, Outside};
pub use follow::{follow, take_moved};
pub use lane_message::{CoreCall, CoreReply, LaneMessage};
pub(crate) use large_answers::LargeAnswer;
pub use pending::ReplyFuture;
pub(crate) use read_gate::ReadTurn;
pub use read_gate::{Asker, ReadGate, ReadGateRejected, ReadInFlight, ReadLease};
pub use router::{Lanes, Overloaded, Router};
pub use split::Split;
pub use table::RoutingTable;

pub use silverback_model::Epoch;
