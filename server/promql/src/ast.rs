//! An expression as a tree, each node with its place in the text. Types are checked by the parser; times that
//! depend on a query's range are resolved by the plan.

use silverback_model::Matcher;

use crate::functions::Signature;
use crate::span::TextSpan;
pub(crate) use crate::token::{Aggregator, Operator};

/// What an expression gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// A number at each step.
    Scalar,
    /// Series with a value at each step.
    Vector,
    /// Series with a range of samples.
    Matrix,
    /// A text.
    Text,
}

impl Type {
    /// As Prometheus' documents call it.
    pub const fn documented(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Vector => "instant vector",
            Self::Matrix => "range vector",
            Self::Text => "string",
        }
    }

    /// As answers call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Vector => "vector",
            Self::Matrix => "matrix",
            Self::Text => "string",
        }
    }
}

/// An expression that was parsed and checked.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Number(NumberLiteral),
    Text(StringLiteral),
    Vector(Box<VectorSelector>),
    Matrix(Box<MatrixSelector>),
    Subquery(Box<Subquery>),
    Aggregate(Box<Aggregate>),
    Binary(Box<Binary>),
    Call(Box<FunctionCall>),
    Paren(Box<Paren>),
    Unary(Box<Unary>),
}

#[derive(Debug, Clone)]
pub(crate) struct NumberLiteral {
    pub(crate) value: f64,
    /// It was written as a duration.
    pub(crate) is_duration: bool,
    pub(crate) span: TextSpan,
}

#[derive(Debug, Clone)]
pub(crate) struct StringLiteral {
    pub(crate) value: String,
    pub(crate) span: TextSpan,
}

#[derive(Debug, Clone)]
pub(crate) struct VectorSelector {
    /// The name before the braces; empty where it has none.
    pub(crate) name: Box<str>,
    /// Of the name too, which comes last.
    pub(crate) matchers: Vec<Matcher>,
    pub(crate) time: Time,
    pub(crate) edge: Edge,
    pub(crate) span: TextSpan,
}

/// How a range treats the samples around its edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Plain,
    Anchored,
    Smoothed,
}

/// `offset` and `@`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Time {
    pub(crate) offset: Option<Length>,
    pub(crate) at: Option<At>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Ms(i64),
    Start,
    End,
}

/// A duration, or an expression that gives one.
#[derive(Debug, Clone)]
pub(crate) enum Length {
    Ms(i64),
    Computed(Box<Duration>),
}

/// An expression over durations.
#[derive(Debug, Clone)]
pub(crate) enum Duration {
    Number(NumberLiteral),
    Step(TextSpan),
    Range(TextSpan),
    Unary { negative: bool, operand: Box<Self>, start: u32 },
    Binary { operator: Operator, left: Box<Self>, right: Box<Self> },
    Choice { takes_max: bool, left: Box<Self>, right: Box<Self>, span: TextSpan },
    Paren { inner: Box<Self>, span: TextSpan },
}

#[derive(Debug, Clone)]
pub(crate) struct MatrixSelector {
    pub(crate) selector: VectorSelector,
    pub(crate) range: Length,
    pub(crate) end: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Subquery {
    pub(crate) expr: Expr,
    pub(crate) range: Length,
    pub(crate) step: Option<Length>,
    pub(crate) time: Time,
    pub(crate) end: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Aggregate {
    pub(crate) aggregator: Aggregator,
    pub(crate) expr: Expr,
    pub(crate) parameter: Option<Expr>,
    pub(crate) grouping: Grouping,
    pub(crate) span: TextSpan,
}

/// The labels that make the groups.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grouping {
    pub(crate) without: bool,
    pub(crate) labels: Vec<Box<str>>,
}

#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) operator: Operator,
    /// What leans to the left is as deep as it has operators: [`Binary::chain`].
    pub(crate) left: Expr,
    pub(crate) right: Expr,
    /// Comparisons give 0 or 1.
    pub(crate) returns_bool: bool,
    /// `None` unless both sides are vectors.
    pub(crate) matching: Option<Matching>,
    /// What it gives: kept, so that a long chain isn't walked for each of its operators.
    pub(crate) kind: Type,
    /// Where its left side begins in the text.
    pub(crate) start: u32,
}

impl Binary {
    /// The first operand of `a + b - c`, and its operators with their right sides in the order in which they apply. So it
    /// is walked without a call inside a call for each.
    pub(crate) fn chain(&self) -> (&Expr, Vec<&Self>) {
        let (mut first, mut links) = (&self.left, vec![self]);
        while let Expr::Binary(inner) = first {
            links.push(inner);
            first = &inner.left;
        }
        links.reverse();
        (first, links)
    }

    /// Where it is.
    pub(crate) fn span(&self) -> TextSpan {
        TextSpan { start: self.start, end: self.right.span().end }
    }

    fn on(&self, left: Expr) -> Self {
        Self {
            operator: self.operator,
            left,
            right: self.right.clone(),
            returns_bool: self.returns_bool,
            matching: self.matching.clone(),
            kind: self.kind,
            start: self.start,
        }
    }
}

impl Clone for Binary {
    fn clone(&self) -> Self {
        let (first, links) = self.chain();
        let inner = &links[..links.len() - 1];
        let left = inner.iter().fold(first.clone(), |left, link| Expr::Binary(Box::new(link.on(left))));
        self.on(left)
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        let nothing =
            || Expr::Number(NumberLiteral { value: 0.0, is_duration: false, span: TextSpan::default() });
        let mut left = std::mem::replace(&mut self.left, nothing());
        while let Expr::Binary(mut inner) = left {
            left = std::mem::replace(&mut inner.left, nothing());
        }
    }
}

/// By default one series of each side, where all labels are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matching {
    pub(crate) card: Card,
    pub(crate) labels: Vec<Box<str>>,
    /// `on` these labels; otherwise all but these.
    pub(crate) on: bool,
    pub(crate) include: Vec<Box<str>>,
    pub(crate) fill_left: Option<f64>,
    pub(crate) fill_right: Option<f64>,
}

/// How many series of each side match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Card {
    #[default]
    OneToOne,
    ManyToOne,
    OneToMany,
    ManyToMany,
}

#[derive(Debug, Clone)]
pub(crate) struct FunctionCall {
    pub(crate) signature: &'static Signature,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) span: TextSpan,
}

#[derive(Debug, Clone)]
pub(crate) struct Paren {
    pub(crate) expr: Expr,
    pub(crate) span: TextSpan,
}

#[derive(Debug, Clone)]
pub(crate) struct Unary {
    pub(crate) negative: bool,
    pub(crate) expr: Expr,
    pub(crate) start: u32,
}

impl Expr {
    /// What it gives.
    pub(crate) fn kind(&self) -> Type {
        match self {
            Self::Number(_) => Type::Scalar,
            Self::Text(_) => Type::Text,
            Self::Vector(_) | Self::Aggregate(_) => Type::Vector,
            Self::Matrix(_) | Self::Subquery(_) => Type::Matrix,
            Self::Binary(binary) => binary.kind,
            Self::Call(call) => call.signature.returns,
            Self::Paren(paren) => paren.expr.kind(),
            Self::Unary(unary) => unary.expr.kind(),
        }
    }

    /// Where it is.
    pub(crate) fn span(&self) -> TextSpan {
        match self {
            Self::Number(number) => number.span,
            Self::Text(text) => text.span,
            Self::Vector(selector) => selector.span,
            Self::Matrix(range) => TextSpan { start: range.selector.span.start, end: range.end },
            Self::Subquery(subquery) => TextSpan { start: subquery.expr.span().start, end: subquery.end },
            Self::Aggregate(aggregate) => aggregate.span,
            Self::Binary(binary) => binary.span(),
            Self::Call(call) => call.span,
            Self::Paren(paren) => paren.span,
            Self::Unary(unary) => TextSpan { start: unary.start, end: unary.expr.span().end },
        }
    }

    /// Without the parentheses around it.
    pub(crate) fn bare(&self) -> &Self {
        let mut expr = self;
        while let Self::Paren(paren) = expr {
            expr = &paren.expr;
        }
        expr
    }
}

impl Duration {
    /// Where it is.
    pub(crate) fn span(&self) -> TextSpan {
        match self {
            Self::Number(number) => number.span,
            Self::Step(span) | Self::Range(span) => *span,
            Self::Unary { operand, start, .. } => TextSpan { start: *start, end: operand.span().end },
            Self::Binary { left, right, .. } => left.span().to(right.span()),
            Self::Choice { span, .. } | Self::Paren { span, .. } => *span,
        }
    }
}
