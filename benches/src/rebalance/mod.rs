//! What the rebalance is worth, as figures: a load of which four fifths lie on one of two shards, with
//! cells at rest and with cells that move (`stages`); and what the move of one large cell costs the
//! requests beside it (`big_cell`).
//!
//! Series are made for the cells that they are to lie in (`population`), sent over connections that
//! never rest (`feed`), looked at second by second (`seconds`), and judged (`verdict`).

pub mod population;

pub mod feed;

pub mod seconds;

pub mod node;

pub mod verdict;

pub mod stages;

pub mod big_cell;
