//! rebalance.
