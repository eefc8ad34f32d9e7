//! Which aggregations can be folded apart: by each who has some of the series, its own alone, and then the rows together.

use super::build::has_one_name;
use crate::ast::{Aggregate, Aggregator, Binary, Expr, FunctionCall, Type};
use crate::functions::Function;

/// Whether rows of some series and rows of the others give what one pass over all series gives.
pub(super) fn is_foldable_apart(aggregate: &Aggregate, inner: &Expr) -> bool {
    match aggregate.aggregator {
        Aggregator::Sum
        | Aggregator::Avg
        | Aggregator::Count
        | Aggregator::Group
        | Aggregator::Min
        | Aggregator::Max
        | Aggregator::Stddev
        | Aggregator::Stdvar
        | Aggregator::Quantile
        | Aggregator::CountValues => is_of_each_series(inner),
        Aggregator::Topk | Aggregator::Bottomk | Aggregator::Limitk => {
            aggregate.parameter.as_ref().is_some_and(chooses_few) && is_of_each_series(inner)
        }
        // Of any number of series, each of which would be sent with its labels.
        Aggregator::LimitRatio => false,
    }
}

/// A part's rows hold as many series of each group and step; more would be the series themselves.
const CHOSEN_APART_MAX: f64 = 1000.0;

/// Whether so few are chosen at any step, by a number that is written there.
fn chooses_few(parameter: &Expr) -> bool {
    matches!(parameter.bare(), Expr::Number(number) if number.value <= CHOSEN_APART_MAX)
}

/// Whether each series of a vector is made of one that is stored and of no other, and stays different from all others:
/// two of different names may be the same without them, which only one who sees both notices.
fn is_of_each_series(expr: &Expr) -> bool {
    match expr {
        Expr::Vector(_) => true,
        Expr::Paren(paren) => is_of_each_series(&paren.expr),
        Expr::Unary(unary) => is_of_one_name(&unary.expr),
        Expr::Binary(binary) => is_with_number(binary),
        Expr::Call(call) => is_function_of_each(call),
        Expr::Number(_) | Expr::Text(_) | Expr::Matrix(_) | Expr::Subquery(_) | Expr::Aggregate(_) => false,
    }
}

fn is_of_one_name(expr: &Expr) -> bool {
    // In this order: a chain of operators has no name, and isn't walked.
    has_one_name(expr) && is_of_each_series(expr)
}

/// A vector and a number, as in `rate(x[5m]) * 8`.
fn is_with_number(binary: &Binary) -> bool {
    match (is_number(&binary.left), is_number(&binary.right)) {
        (true, false) => is_of_one_name(&binary.right),
        (false, true) => is_of_one_name(&binary.left),
        (true, true) | (false, false) => false,
    }
}

/// Written as one. What a scalar is made of may be any series.
fn is_number(expr: &Expr) -> bool {
    matches!(expr.bare(), Expr::Number(_))
}

/// Functions that look at one series at a time, with numbers beside it.
fn is_function_of_each(call: &FunctionCall) -> bool {
    let looks_at_all = matches!(
        call.signature.function,
        Function::Absent
            | Function::AbsentOverTime
            | Function::HistogramFraction
            | Function::HistogramQuantile
            | Function::HistogramQuantiles
            | Function::Info
            | Function::LabelJoin
            | Function::LabelReplace
            | Function::Sort
            | Function::SortByLabel
            | Function::SortByLabelDesc
            | Function::SortDesc
            | Function::Timestamp
            | Function::StartTimestamp
    );
    let mut vectors = 0;
    let are_plain = call.arguments.iter().all(|argument| match argument.bare() {
        range @ Expr::Matrix(_) => {
            vectors += 1;
            has_one_name(range)
        }
        argument if argument.kind() == Type::Vector => {
            vectors += 1;
            is_of_one_name(argument)
        }
        argument => is_number(argument),
    });
    !looks_at_all && are_plain && vectors == 1
}
