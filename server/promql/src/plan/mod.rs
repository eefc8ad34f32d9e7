//! From an expression and a query's times to what is computed: selectors with the ranges of time that they read,
//! subqueries with their own steps, parts that are the same at each step.

mod apart;
mod build;
mod duration;

use std::sync::Arc;

use silverback_model::{Labels, Matcher};

use crate::ast::{Aggregator, Edge, Grouping, Matching, Operator, Type};
use crate::functions::Function;
use crate::span::TextSpan;

/// The times at which an expression is evaluated: so many, each so many ms after the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) start_ms: i64,
    pub(crate) step_ms: i64,
    pub(crate) count: usize,
    /// They go on after the first, if only by less than a step.
    pub(crate) go_on: bool,
}

impl Times {
    pub(crate) const fn at(at_ms: i64) -> Self {
        Self { start_ms: at_ms, step_ms: 1, count: 1, go_on: false }
    }

    /// From the first time to the last that is not after the end.
    pub(crate) fn between(start_ms: i64, end_ms: i64, step_ms: i64) -> Self {
        let step_ms = step_ms.max(1);
        let span = i128::from(end_ms) - i128::from(start_ms);
        let count = if span < 0 { 0 } else { span / i128::from(step_ms) + 1 };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Self { start_ms, step_ms, count, go_on: end_ms > start_ms }
    }

    /// The first of them alone.
    pub(crate) const fn first(self) -> Self {
        Self { count: 1, go_on: false, ..self }
    }

    pub(crate) const fn ms(self, step: usize) -> i64 {
        self.start_ms.wrapping_add(self.step_ms.wrapping_mul(step as i64))
    }

    pub(crate) const fn end_ms(self) -> i64 {
        self.ms(self.count.saturating_sub(1))
    }

    pub(crate) fn all(self) -> impl Iterator<Item = i64> {
        (0..self.count).map(move |step| self.ms(step))
    }
}

/// What one selector of a query reads.
#[derive(Debug, Clone)]
pub struct Select {
    /// All of them have to match.
    pub matchers: Vec<Matcher>,
    /// Samples after this time, in ms: not at it.
    pub after_ms: i64,
    /// Samples up to this time, in ms: at it too.
    pub until_ms: i64,
}

/// A part of a plan.
#[derive(Debug)]
pub(crate) enum Node {
    Number(f64),
    Text(String),
    /// `time()`
    Time,
    Select(InstantSelector),
    /// Samples as they are: the whole of an instant query alone.
    Samples(RangeSource),
    Window(Box<RangeFunction>),
    Call(Box<Calling>),
    /// Shared with [`Plan::shares`](crate::Plan), where its series can be folded apart.
    Aggregate(Arc<Aggregating>),
    Binary(Box<Combining>),
    Negate(Box<Self>),
    /// The same at each step: evaluated at the first alone.
    Invariant(Box<Self>),
}

/// An instant selector.
#[derive(Debug, Clone)]
pub(crate) struct InstantSelector {
    /// Which of the plan's selects.
    pub(crate) select: usize,
    pub(crate) shift: Shift,
    pub(crate) edge: Edge,
    pub(crate) span: TextSpan,
    pub(crate) hints: Hinting,
}

/// Whose hints of counter resets count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hinting {
    /// Those that the samples have.
    Given,
    /// Where a sample has none, what the one before it shows: for functions that look at counts and sums alone.
    Found,
}

/// Which time is looked at from a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shift {
    pub(crate) at_ms: Option<i64>,
    pub(crate) offset_ms: i64,
}

impl Shift {
    pub(crate) fn of(self, step_ms: i64) -> i64 {
        self.at_ms.unwrap_or(step_ms).saturating_sub(self.offset_ms)
    }
}

/// Where a function over ranges has its samples from.
#[derive(Debug)]
pub(crate) struct RangeSource {
    pub(crate) kind: SourceKind,
    pub(crate) range_ms: i64,
    pub(crate) shift: Shift,
    pub(crate) edge: Edge,
    pub(crate) span: TextSpan,
    pub(crate) hints: Hinting,
}

#[derive(Debug)]
pub(crate) enum SourceKind {
    /// Which of the plan's selects.
    Select(usize),
    Subquery {
        node: Box<Node>,
        times: Times,
    },
}

/// A function over ranges of samples.
#[derive(Debug)]
pub(crate) struct RangeFunction {
    pub(crate) function: Function,
    pub(crate) source: RangeSource,
    /// The arguments that are numbers.
    pub(crate) parameters: Vec<Node>,
    /// Where the first argument is.
    pub(crate) first_span: TextSpan,
    /// What `absent_over_time` gives.
    pub(crate) absent_labels: Labels,
    /// Series can't become the same when they lose their names.
    pub(crate) has_one_name: bool,
}

/// A function over values.
#[derive(Debug)]
pub(crate) struct Calling {
    pub(crate) function: Function,
    pub(crate) arguments: Vec<Node>,
    pub(crate) spans: Vec<TextSpan>,
    pub(crate) span: TextSpan,
    /// What `absent` gives.
    pub(crate) absent_labels: Labels,
    pub(crate) has_one_name: bool,
}

#[derive(Debug)]
pub(crate) struct Aggregating {
    pub(crate) aggregator: Aggregator,
    pub(crate) node: Node,
    pub(crate) parameter: Option<Node>,
    pub(crate) grouping: Grouping,
    /// Of the expression aggregated.
    pub(crate) expr_span: TextSpan,
    pub(crate) parameter_span: TextSpan,
    pub(crate) span: TextSpan,
    /// Its place among the plan's shares; `None`: its series can't be folded apart.
    pub(crate) share: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct Combining {
    pub(crate) operator: Operator,
    pub(crate) left: Node,
    pub(crate) right: Node,
    pub(crate) left_type: Type,
    pub(crate) right_type: Type,
    pub(crate) returns_bool: bool,
    pub(crate) matching: Matching,
    pub(crate) span: TextSpan,
    pub(crate) has_one_name: bool,
}

impl Combining {
    /// The first operand of a chain that leans to the left, and its operators in the order in which they apply.
    pub(crate) fn chain(&self) -> (&Node, Vec<&Self>) {
        let (mut first, mut links) = (&self.left, vec![self]);
        while let Node::Binary(inner) = first {
            links.push(inner);
            first = &inner.left;
        }
        links.reverse();
        (first, links)
    }
}

impl Drop for Combining {
    fn drop(&mut self) {
        let mut left = std::mem::replace(&mut self.left, Node::Time);
        while let Node::Binary(mut inner) = left {
            left = std::mem::replace(&mut inner.left, Node::Time);
        }
    }
}

pub(crate) use build::{Built, build};
