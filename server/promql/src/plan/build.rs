//! Builds a plan's nodes from an expression.

use std::sync::Arc;

use silverback_model::selector::MatchOp;
use silverback_model::{Labels, Matcher};

use super::apart::is_foldable_apart;
use super::duration::{Sign, StepRange};
use super::{
    Aggregating, Calling, Combining, Hinting, InstantSelector, Node, RangeFunction, RangeSource, Select,
    Shift, SourceKind, Times,
};
use crate::PlanOptions;
use crate::ast::{
    Aggregate, At, Binary, Edge, Expr, FunctionCall, Length, Operator, Subquery, Time, Type, VectorSelector,
};
use crate::error::QueryError;
use crate::functions::Function;
use crate::span::TextSpan;

/// Steps of a subquery: each series of it has a value for each at one go, also one without any series in storage.
const SUBQUERY_STEPS_MAX: usize = 500_000;

/// A plan's parts.
pub(crate) struct Built {
    pub(crate) root: Node,
    /// What the selectors read.
    pub(crate) selects: Vec<Select>,
    /// The aggregations whose series can be folded apart.
    pub(crate) shares: Vec<Arc<Aggregating>>,
}

/// Plans an expression.
pub(crate) fn build(
    expr: &Expr,
    times: Times,
    end_ms: i64,
    query_step_ms: i64,
    options: &PlanOptions,
) -> Result<Built, QueryError> {
    let start_ms = times.start_ms;
    let query = StepRange { step_ms: query_step_ms, range_ms: end_ms.saturating_sub(start_ms) };
    let (selects, shares) = Default::default();
    let mut builder =
        Builder { query, start_ms, end_ms, options, selects, shares, wants_counts: 0, wants_buckets: 0 };
    let root = builder.node(expr, times)?;
    Ok(Built { root, selects: builder.selects, shares: builder.shares })
}

struct Builder<'a> {
    query: StepRange,
    start_ms: i64,
    end_ms: i64,
    options: &'a PlanOptions,
    selects: Vec<Select>,
    shares: Vec<Arc<Aggregating>>,
    /// Functions around what is built that look at a histogram's count and sum alone.
    wants_counts: usize,
    /// Parts around it that need all buckets.
    wants_buckets: usize,
}

impl Builder<'_> {
    fn node(&mut self, expr: &Expr, times: Times) -> Result<Node, QueryError> {
        if times.go_on && is_invariant(expr) && is_worth_keeping(expr) {
            return Ok(Node::Invariant(Box::new(self.plain(expr, times.first())?)));
        }
        self.plain(expr, times)
    }

    fn plain(&mut self, expr: &Expr, times: Times) -> Result<Node, QueryError> {
        Ok(match expr {
            Expr::Number(number) => Node::Number(number.value),
            Expr::Text(text) => Node::Text(text.value.clone()),
            Expr::Vector(selector) => Node::Select(self.moment(selector, times)?),
            Expr::Matrix(_) | Expr::Subquery(_) => Node::Samples(self.source(expr, times)?),
            Expr::Paren(paren) => self.plain(&paren.expr, times)?,
            Expr::Unary(unary) if unary.negative => Node::Negate(Box::new(self.node(&unary.expr, times)?)),
            Expr::Unary(unary) => self.plain(&unary.expr, times)?,
            Expr::Binary(binary) => self.chain(binary, times)?,
            Expr::Call(call) => self.call(call, times)?,
            Expr::Aggregate(aggregate) => Node::Aggregate(self.aggregate(aggregate, times)?),
        })
    }

    fn aggregate(&mut self, aggregate: &Aggregate, times: Times) -> Result<Arc<Aggregating>, QueryError> {
        let (inner, parameter) = (aggregate.expr.bare(), aggregate.parameter.as_ref().map(Expr::bare));
        let mut grouping = aggregate.grouping.clone();
        grouping.labels.sort();
        grouping.labels.dedup();
        let parameter_span = parameter.map(Expr::span).unwrap_or_default();
        let parameter = parameter.map(|parameter| self.node(parameter, times)).transpose()?;
        let node = self.node(inner, times)?;
        let share = is_foldable_apart(aggregate, inner).then_some(self.shares.len());
        let aggregating = Arc::new(Aggregating {
            aggregator: aggregate.aggregator,
            parameter_span,
            parameter,
            node,
            grouping,
            expr_span: inner.span(),
            span: aggregate.span,
            share,
        });
        if share.is_some() {
            self.shares.push(Arc::clone(&aggregating));
        }
        Ok(aggregating)
    }

    fn shift(&self, time: &Time) -> Result<Shift, QueryError> {
        let at_ms = time.at.map(|at| match at {
            At::Ms(ms) => ms,
            At::Start => self.start_ms,
            At::End => self.end_ms,
        });
        let zero = Length::Ms(0);
        let offset_ms = self.query.length_ms(time.offset.as_ref().unwrap_or(&zero), Sign::Any)?;
        Ok(Shift { at_ms, offset_ms })
    }

    /// Notes what a selector reads, from each step back so many ms and ahead so many.
    fn select(
        &mut self,
        matchers: &[Matcher],
        times: Times,
        shift: Shift,
        back_ms: i64,
        ahead_ms: i64,
    ) -> usize {
        let after_ms = shift.of(times.start_ms).saturating_sub(back_ms);
        let until_ms = shift.of(times.end_ms()).saturating_add(ahead_ms);
        self.selects.push(Select { matchers: matchers.to_vec(), after_ms, until_ms });
        self.selects.len() - 1
    }

    fn moment(&mut self, selector: &VectorSelector, times: Times) -> Result<InstantSelector, QueryError> {
        let shift = self.shift(&selector.time)?;
        let lookback_ms = self.options.lookback_ms;
        let ahead_ms = if selector.edge == Edge::Smoothed { lookback_ms } else { 0 };
        let select = self.select(&selector.matchers, times, shift, lookback_ms, ahead_ms);
        Ok(InstantSelector { select, shift, edge: selector.edge, span: selector.span, hints: self.hints() })
    }

    fn source(&mut self, expr: &Expr, times: Times) -> Result<RangeSource, QueryError> {
        match expr {
            Expr::Matrix(range) => {
                let shift = self.shift(&range.selector.time)?;
                let range_ms = self.query.length_ms(&range.range, Sign::Positive)?;
                let lookback_ms = self.options.lookback_ms;
                let (back_ms, ahead_ms) = match range.selector.edge {
                    Edge::Plain => (range_ms, 0),
                    Edge::Anchored => (range_ms.saturating_add(lookback_ms), 0),
                    Edge::Smoothed => (range_ms.saturating_add(lookback_ms), lookback_ms),
                };
                let select = self.select(&range.selector.matchers, times, shift, back_ms, ahead_ms);
                let kind = SourceKind::Select(select);
                Ok(RangeSource {
                    kind,
                    range_ms,
                    shift,
                    edge: range.selector.edge,
                    span: expr.span(),
                    hints: self.hints(),
                })
            }
            Expr::Subquery(subquery) => self.subquery(subquery, expr.span(), times),
            other => Err(QueryError::execution(format!("{other} is no range of samples"))),
        }
    }

    fn subquery(
        &mut self,
        subquery: &Subquery,
        span: TextSpan,
        times: Times,
    ) -> Result<RangeSource, QueryError> {
        let shift = self.shift(&subquery.time)?;
        let range_ms = self.query.length_ms(&subquery.range, Sign::Positive)?;
        let step_ms = match &subquery.step {
            Some(step) => self.query.length_ms(step, Sign::Positive)?.max(1),
            None => self.options.subquery_step_ms.max(1),
        };
        let after_ms = shift.of(times.start_ms).saturating_sub(range_ms);
        // The first multiple of the step within the range, which doesn't hold its start.
        let mut start_ms = step_ms.saturating_mul(after_ms / step_ms);
        if start_ms <= after_ms {
            start_ms = start_ms.saturating_add(step_ms);
        }
        let inner = Times::between(start_ms, shift.of(times.end_ms()), step_ms);
        if inner.count > SUBQUERY_STEPS_MAX {
            return Err(QueryError::TooManySamples);
        }
        self.wants_buckets += 1;
        let node = self.node(&subquery.expr, inner).map(Box::new);
        self.wants_buckets -= 1;
        let node = node?;
        let kind = SourceKind::Subquery { node, times: inner };
        Ok(RangeSource { kind, range_ms, shift, edge: Edge::Plain, span, hints: Hinting::Given })
    }

    const fn hints(&self) -> Hinting {
        if self.wants_counts > 0 && self.wants_buckets == 0 { Hinting::Found } else { Hinting::Given }
    }

    /// A chain of operators, from its first operand on.
    fn chain(&mut self, binary: &Binary, times: Times) -> Result<Node, QueryError> {
        let (first, links) = binary.chain();
        let trims =
            |link: &Binary| usize::from(matches!(link.operator, Operator::TrimUpper | Operator::TrimLower));
        self.wants_buckets += links.iter().map(|link| trims(link)).sum::<usize>();
        // So many operators give the same at each step.
        let invariant = match times.go_on && is_invariant(first) {
            true => links.iter().take_while(|link| is_invariant(&link.right)).count(),
            false => 0,
        };
        let times_of = |at: usize| if at < invariant { times.first() } else { times };
        let mut node = self.node(first, times_of(0))?;
        for (at, link) in links.into_iter().enumerate() {
            let right = self.node(&link.right, times_of(at))?;
            self.wants_buckets -= trims(link);
            node = combined(link, node, right);
            if at + 1 == invariant {
                node = Node::Invariant(Box::new(node));
            }
        }
        Ok(node)
    }

    fn call(&mut self, call: &FunctionCall, times: Times) -> Result<Node, QueryError> {
        let (counts, buckets) = match call.signature.function {
            Function::HistogramCount | Function::HistogramSum | Function::HistogramAvg => (1, 0),
            Function::HistogramQuantile | Function::HistogramQuantiles | Function::HistogramFraction => {
                (0, 1)
            }
            _other => (0, 0),
        };
        self.wants_counts += counts;
        self.wants_buckets += buckets;
        let node = self.called(call, times)?;
        self.wants_counts -= counts;
        self.wants_buckets -= buckets;
        Ok(node)
    }

    fn called(&mut self, call: &FunctionCall, times: Times) -> Result<Node, QueryError> {
        let seconds = |ms: i64| ms as f64 / 1000.0;
        match call.signature.function {
            Function::Start => return Ok(Node::Number(seconds(self.start_ms))),
            Function::End => return Ok(Node::Number(seconds(self.end_ms))),
            Function::Range => return Ok(Node::Number(seconds(self.query.range_ms))),
            Function::Step => return Ok(Node::Number(seconds(self.query.step_ms))),
            Function::Time => return Ok(Node::Time),
            Function::Pi => return Ok(Node::Number(std::f64::consts::PI)),
            _other => {}
        }
        let function = call.signature.function;
        let arguments: Vec<_> = call.arguments.iter().map(Expr::bare).collect();
        let absent_labels = arguments.first().map(|argument| absent_labels(argument)).unwrap_or_default();
        let range = arguments.iter().position(|argument| argument.kind() == Type::Matrix);
        let Some(range) = range else {
            let nodes = arguments.iter().map(|argument| self.node(argument, times));
            return Ok(Node::Call(Box::new(Calling {
                function,
                arguments: nodes.collect::<Result<_, _>>()?,
                spans: arguments.iter().map(|argument| argument.span()).collect(),
                span: call.span,
                absent_labels,
                has_one_name: arguments.first().is_some_and(|argument| has_one_name(argument)),
            })));
        };
        let source = self.source(arguments[range], times)?;
        let others = arguments.iter().enumerate().filter(|(i, _)| *i != range);
        let parameters = others.map(|(_, argument)| self.node(argument, times)).collect::<Result<_, _>>()?;
        Ok(Node::Window(Box::new(RangeFunction {
            function,
            source,
            parameters,
            first_span: arguments[0].span(),
            absent_labels,
            has_one_name: has_one_name(arguments[range]),
        })))
    }
}

/// An operator with both of its sides.
fn combined(binary: &Binary, left: Node, right: Node) -> Node {
    let (left_type, right_type) = (binary.left.kind(), binary.right.kind());
    let matching = binary.matching.clone().unwrap_or_default();
    let vector_has_one_name = match (left_type, right_type) {
        (Type::Vector, Type::Scalar) => has_one_name(&binary.left),
        (Type::Scalar, Type::Vector) => has_one_name(&binary.right),
        (_, _) => false,
    };
    Node::Binary(Box::new(Combining {
        operator: binary.operator,
        left,
        right,
        left_type,
        right_type,
        returns_bool: binary.returns_bool,
        matching,
        span: binary.span(),
        has_one_name: vector_has_one_name,
    }))
}

/// Whether an expression is the same at each step: all that it reads is at a fixed time.
fn is_invariant(expr: &Expr) -> bool {
    match expr {
        Expr::Number(_) | Expr::Text(_) => true,
        Expr::Vector(selector) => selector.time.at.is_some(),
        Expr::Matrix(range) => range.selector.time.at.is_some(),
        Expr::Subquery(subquery) => subquery.time.at.is_some(),
        Expr::Paren(paren) => is_invariant(&paren.expr),
        Expr::Unary(unary) => is_invariant(&unary.expr),
        Expr::Binary(binary) => {
            let (first, links) = binary.chain();
            is_invariant(first) && links.iter().all(|link| is_invariant(&link.right))
        }
        // Whatever the parameter is: of one that changes from step to step Prometheus takes the first, too.
        Expr::Aggregate(aggregate) => is_invariant(&aggregate.expr),
        Expr::Call(call) => {
            let arguments = &call.arguments;
            match call.signature.function {
                // What it gives of a selector stays; of anything else it is the time of the step.
                Function::Timestamp => arguments
                    .iter()
                    .all(|argument| matches!(argument.bare(), Expr::Vector(_)) && is_invariant(argument)),
                Function::Time
                | Function::PredictLinear
                | Function::DaysInMonth
                | Function::DayOfMonth
                | Function::DayOfWeek
                | Function::DayOfYear
                | Function::Hour
                | Function::Minute
                | Function::Month
                | Function::Year => false,
                _other => arguments.iter().all(is_invariant),
            }
        }
    }
}

/// Whether it costs anything to evaluate it at each step.
fn is_worth_keeping(expr: &Expr) -> bool {
    match expr.bare() {
        Expr::Number(_) | Expr::Text(_) | Expr::Matrix(_) | Expr::Subquery(_) => false,
        Expr::Call(call) => !call.arguments.is_empty(),
        Expr::Vector(_) | Expr::Aggregate(_) | Expr::Binary(_) | Expr::Unary(_) | Expr::Paren(_) => true,
    }
}

/// Whether all series of a vector have the same name, so that they stay different without it.
pub(super) fn has_one_name(expr: &Expr) -> bool {
    let is_one = |matchers: &[Matcher]| {
        matchers.iter().any(|matcher| &*matcher.name == "__name__" && matcher.op == MatchOp::Equal)
    };
    match expr {
        Expr::Vector(selector) => is_one(&selector.matchers),
        Expr::Matrix(range) => is_one(&range.selector.matchers),
        Expr::Subquery(subquery) => has_one_name(&subquery.expr),
        Expr::Paren(paren) => has_one_name(&paren.expr),
        Expr::Unary(unary) => has_one_name(&unary.expr),
        Expr::Call(call) => match call.signature.function {
            Function::LabelReplace | Function::LabelJoin | Function::Info => false,
            _other => call
                .arguments
                .iter()
                .any(|argument| argument.kind() != Type::Scalar && has_one_name(argument)),
        },
        Expr::Number(_) | Expr::Text(_) | Expr::Aggregate(_) | Expr::Binary(_) => false,
    }
}

/// The labels that a selector's matchers name exactly: those of the series that isn't there.
fn absent_labels(expr: &Expr) -> Labels {
    let matchers = match expr {
        Expr::Vector(selector) => &selector.matchers,
        Expr::Matrix(range) => &range.selector.matchers,
        Expr::Number(_)
        | Expr::Text(_)
        | Expr::Subquery(_)
        | Expr::Aggregate(_)
        | Expr::Binary(_)
        | Expr::Call(_)
        | Expr::Paren(_)
        | Expr::Unary(_) => return Labels::default(),
    };
    let mut pairs: Vec<(Box<str>, Box<str>)> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for matcher in matchers.iter().filter(|matcher| &*matcher.name != "__name__") {
        if matcher.op == MatchOp::Equal && !seen.contains(&&*matcher.name) {
            pairs.push((matcher.name.clone(), matcher.value.clone()));
            seen.push(&matcher.name);
        } else {
            pairs.retain(|(name, _)| *name != matcher.name);
        }
    }
    pairs.retain(|(_, value)| !value.is_empty());
    Labels::from_pairs(pairs)
}
