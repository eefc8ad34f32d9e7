//! Types: what each operator and function takes. Reports the first fault, in Prometheus' order and words.

use super::{Parsed, SpanError};
use crate::ast::{
    Aggregate, Aggregator, Binary, Card, Expr, FunctionCall, Subquery, Type, Unary, VectorSelector,
};
use crate::functions::{Function, Variadic};
use crate::number::quote;
use crate::span::TextSpan;

const METRIC_NAME: &str = "__name__";

/// Whether each part of an expression takes what its parts give.
pub(super) fn check(expr: &Expr, text: &str) -> Parsed<()> {
    Checker { text }.expr(expr)
}

struct Checker<'a> {
    text: &'a str,
}

impl Checker<'_> {
    fn expr(&self, expr: &Expr) -> Parsed<()> {
        match expr {
            Expr::Number(_) | Expr::Text(_) => Ok(()),
            Expr::Vector(selector) => check_selector(selector, true),
            Expr::Matrix(range) => check_selector(&range.selector, true),
            Expr::Subquery(subquery) => self.subquery(subquery, expr.span()),
            Expr::Aggregate(aggregate) => self.aggregate(aggregate),
            Expr::Binary(binary) => {
                let (first, links) = binary.chain();
                self.expr(first)?;
                links.into_iter().try_for_each(|link| self.binary(link))
            }
            Expr::Call(call) => self.call(call),
            Expr::Paren(paren) => self.expr(&paren.expr),
            Expr::Unary(unary) => self.unary(unary, expr.span()),
        }
    }

    fn subquery(&self, subquery: &Subquery, span: TextSpan) -> Parsed<()> {
        self.expr(&subquery.expr)?;
        match subquery.expr.kind() {
            Type::Vector => Ok(()),
            other => {
                let words =
                    format!("subquery is only allowed on instant vector, got {} instead", other.name());
                Err(SpanError::new(span, words))
            }
        }
    }

    fn aggregate(&self, aggregate: &Aggregate) -> Parsed<()> {
        self.expect(&aggregate.expr, Type::Vector, "aggregation expression")?;
        let Some(parameter) = &aggregate.parameter else { return Ok(()) };
        let wanted = match aggregate.aggregator {
            Aggregator::CountValues => Type::Text,
            _number => Type::Scalar,
        };
        self.expect(parameter, wanted, "aggregation parameter")
    }

    fn expect(&self, expr: &Expr, wanted: Type, context: &str) -> Parsed<()> {
        self.expr(expr)?;
        let found = expr.kind();
        if found == wanted {
            return Ok(());
        }
        let words = format!("expected type {} in {context}, got {}", wanted.documented(), found.documented());
        Err(SpanError::new(expr.span(), words))
    }

    /// An operator whose left side is checked already.
    fn binary(&self, binary: &Binary) -> Parsed<()> {
        self.expr(&binary.right)?;
        let span = binary.span();
        let operator = binary.operator;
        let (left, right) = (binary.left.kind(), binary.right.kind());
        let fault = |span, words: String| Err(SpanError::new(span, words));
        if binary.returns_bool && !operator.is_comparison() {
            return fault(
                self.operator_span(binary),
                "bool modifier can only be used on comparison operators".into(),
            );
        }
        let are_scalars = left == Type::Scalar && right == Type::Scalar;
        if operator.is_comparison() && !binary.returns_bool && are_scalars {
            return fault(
                self.operator_span(binary),
                "comparisons between scalars must use BOOL modifier".into(),
            );
        }
        let Some(matching) = &binary.matching else { return Ok(()) };
        if let Some(label) =
            matching.labels.iter().find(|label| matching.on && matching.include.contains(label))
        {
            let words = format!("label {} must not occur in ON and GROUP clause at once", quote(label));
            return fault(self.operator_span(binary), words);
        }
        for (side, kind) in [(&binary.left, left), (&binary.right, right)] {
            if !matches!(kind, Type::Scalar | Type::Vector) {
                let words = "binary expression must contain only scalar and instant vector types";
                return fault(side.span(), words.into());
            }
        }
        let fills = matching.fill_left.is_some() || matching.fill_right.is_some();
        let are_vectors = left == Type::Vector && right == Type::Vector;
        if !are_vectors && !matching.labels.is_empty() {
            return fault(span, "vector matching only allowed between instant vectors".into());
        }
        if !are_vectors && fills {
            return fault(span, "filling in missing series only allowed between instant vectors".into());
        }
        if are_vectors && operator.is_set() {
            if matches!(matching.card, Card::OneToMany | Card::ManyToOne) {
                return fault(
                    span,
                    format!("no grouping allowed for {} operation", quote(operator.as_str())),
                );
            }
            if fills {
                return fault(span, "filling in missing series not allowed for set operators".into());
            }
        }
        if (left == Type::Scalar || right == Type::Scalar) && operator.is_set() {
            let operator = quote(operator.as_str());
            return fault(span, format!("set operator {operator} not allowed in binary scalar expression"));
        }
        Ok(())
    }

    /// Where the operator and its modifiers are.
    fn operator_span(&self, binary: &Binary) -> TextSpan {
        let from = binary.left.span().end as usize;
        let rest = &self.text[from.min(self.text.len())..];
        let start = from + rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        TextSpan { start: start as u32, end: binary.right.span().start }
    }

    fn call(&self, call: &FunctionCall) -> Parsed<()> {
        let signature = call.signature;
        let (name, given, listed) = (quote(signature.name), call.arguments.len(), signature.arguments.len());
        let fault = |span, words: String| Err(SpanError::new(span, words));
        match signature.variadic {
            Variadic::No if given != listed => {
                return fault(
                    call.span,
                    format!("expected {listed} argument(s) in call to {name}, got {given}"),
                );
            }
            Variadic::UpTo(_) | Variadic::Any if given + 1 < listed => {
                let least = listed - 1;
                return fault(
                    call.span,
                    format!("expected at least {least} argument(s) in call to {name}, got {given}"),
                );
            }
            Variadic::UpTo(more) if given > listed - 1 + more => {
                let most = listed - 1 + more;
                return fault(
                    call.span,
                    format!("expected at most {most} argument(s) in call to {name}, got {given}"),
                );
            }
            Variadic::No | Variadic::UpTo(_) | Variadic::Any => {}
        }
        if signature.function == Function::Info
            && let Some(labels) = call.arguments.get(1)
        {
            check_info_labels(labels, call)?;
        }
        for (i, argument) in call.arguments.iter().enumerate() {
            let wanted = signature.arguments[i.min(listed - 1)];
            match argument {
                Expr::Vector(selector) if signature.function == Function::Info && i == 1 => {
                    check_selector(selector, false)?;
                }
                other => self.expr(other)?,
            }
            let found = argument.kind();
            if found != wanted {
                let (wanted, found) = (wanted.documented(), found.documented());
                let words = format!("expected type {wanted} in call to function {name}, got {found}");
                return fault(argument.span(), words);
            }
        }
        Ok(())
    }

    fn unary(&self, unary: &Unary, span: TextSpan) -> Parsed<()> {
        self.expr(&unary.expr)?;
        match unary.expr.kind() {
            Type::Scalar | Type::Vector => Ok(()),
            other => {
                let found = quote(other.documented());
                let words = format!(
                    "unary expression only allowed on expressions of type scalar or instant vector, got {found}"
                );
                Err(SpanError::new(span, words))
            }
        }
    }
}

fn check_info_labels(labels: &Expr, call: &FunctionCall) -> Parsed<()> {
    if labels.kind() != Type::Vector {
        let found = labels.kind().documented();
        let words = format!("expected type instant vector in call to function \"info\", got {found}");
        return Err(SpanError::new(call.span, words));
    }
    match labels {
        Expr::Vector(selector) if selector.name.is_empty() => Ok(()),
        Expr::Vector(_) => {
            Err(SpanError::new(labels.span(), "expected label selectors only, got vector selector instead"))
        }
        _other => Err(SpanError::new(labels.span(), "expected label selectors only")),
    }
}

fn check_selector(selector: &VectorSelector, wants_non_empty: bool) -> Parsed<()> {
    if !selector.name.is_empty() {
        let within = &selector.matchers[..selector.matchers.len() - 1];
        return match within.iter().find(|matcher| &*matcher.name == METRIC_NAME) {
            None => Ok(()),
            Some(twice) => {
                let (name, value) = (quote(&selector.name), quote(&twice.value));
                let words = format!("metric name must not be set twice: {name} or {value}");
                Err(SpanError::new(selector.span, words))
            }
        };
    }
    // Not by mistake all series.
    if wants_non_empty && selector.matchers.iter().all(silverback_model::Matcher::matches_empty) {
        return Err(SpanError::new(
            selector.span,
            "vector selector must contain at least one non-empty matcher",
        ));
    }
    Ok(())
}
