//! A part of an evaluation that one who has some of the series does for another: what it is of, and what comes back.
//! How it gets from one to the other is not known here.

use std::any::Any;

use crate::notes::Note;
use crate::plan::Times;
use crate::queryable::QueryableSamples;
use crate::span::TextSpan;

/// An aggregation of a plan, at the times at which its rows are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Among the plan's.
    pub(crate) number: usize,
    pub(crate) times: Times,
}

/// An aggregation's rows of some of its series, and what was noticed on the way.
#[derive(Debug)]
pub struct PartialRows {
    /// Of the aggregation's own kind, by which alone they are read.
    pub(crate) rows: Box<dyn Any + Send>,
    pub(crate) notes: Vec<(Note, TextSpan)>,
    /// What the rows take. Nobody holds it on their way: the core that folded has given it back, and the one that asked
    /// takes it as they come.
    pub(crate) samples: usize,
    pub(crate) bytes: usize,
    /// Samples that were read for them.
    pub(crate) samples_read: u64,
    /// The most samples that were held at a time on their way here.
    pub(crate) samples_peak: usize,
    /// Samples that were looked at, at the share's times.
    pub(crate) queryable: QueryableSamples,
}
