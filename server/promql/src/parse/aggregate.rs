//! Aggregations and lists of label names.

use super::{Parsed, Parser, SpanError, Tree};
use crate::ast::{Aggregate, Aggregator, Expr, Grouping};
use crate::number::quote;
use crate::span::TextSpan;
use crate::token::{Keyword, Mark, Operator, TokenKind};

impl Parser<'_> {
    pub(super) fn aggregate(&mut self, aggregator: Aggregator) -> Parsed<Tree> {
        let start = self.next().span.start;
        self.aggregations += 1;
        let mut grouping = self.grouping()?;
        let (arguments, height) = self.arguments()?;
        self.aggregations -= 1;
        if grouping.is_none() {
            grouping = self.grouping()?;
        }
        let span = TextSpan { start, end: self.end() };
        let (parameter, expr) = self.aggregated(aggregator, arguments, span)?;
        let grouping = grouping.unwrap_or_default();
        let aggregate = Aggregate { aggregator, expr, parameter, grouping, span };
        self.node(Expr::Aggregate(Box::new(aggregate)), height + 1)
    }

    fn aggregated(
        &self,
        aggregator: Aggregator,
        arguments: Vec<Expr>,
        span: TextSpan,
    ) -> Parsed<(Option<Expr>, Expr)> {
        let count = arguments.len();
        let wanted = if aggregator.takes_parameter() { 2 } else { 1 };
        if count == 0 {
            return Err(SpanError::new(span, "no arguments for aggregate expression provided"));
        }
        if aggregator.is_experimental() && !self.options.experimental_functions {
            let words = format!(
                "{}() is experimental and must be enabled with --enable-feature=promql-experimental-functions",
                aggregator.as_str()
            );
            return Err(SpanError::new(span, words));
        }
        let mut arguments = arguments.into_iter();
        match (count == wanted, wanted, arguments.next(), arguments.next()) {
            (true, 1, Some(expr), None) => Ok((None, expr)),
            (true, 2, parameter @ Some(_), Some(expr)) => Ok((parameter, expr)),
            _other => {
                let words = format!(
                    "wrong number of arguments for aggregate expression provided, expected {wanted}, got {count}"
                );
                Err(SpanError::new(span, words))
            }
        }
    }

    fn grouping(&mut self) -> Parsed<Option<Grouping>> {
        let without = match self.peek().kind {
            TokenKind::Keyword(Keyword::By) => false,
            TokenKind::Keyword(Keyword::Without) => true,
            _other => return Ok(None),
        };
        self.next();
        Ok(Some(Grouping { without, labels: self.label_names()? }))
    }

    /// Names in parentheses.
    pub(super) fn label_names(&mut self) -> Parsed<Vec<Box<str>>> {
        const CONTEXT: &str = "grouping opts";
        if self.take(Mark::LeftParen).is_none() {
            return Err(self.unexpected_in(CONTEXT, "\"(\""));
        }
        let mut names = Vec::new();
        loop {
            if self.take(Mark::RightParen).is_some() {
                return Ok(names);
            }
            names.push(self.label_name(CONTEXT)?);
            if self.take(Mark::Comma).is_none() && self.peek().kind != TokenKind::Mark(Mark::RightParen) {
                return Err(self.unexpected_in(CONTEXT, "\",\" or \")\""));
            }
        }
    }

    fn label_name(&mut self, context: &str) -> Parsed<Box<str>> {
        let token = self.peek();
        let name = match token.kind {
            TokenKind::Text => self.unquoted(token)?,
            TokenKind::Identifier
            | TokenKind::MetricIdentifier
            | TokenKind::Aggregator(_)
            | TokenKind::Keyword(_)
            | TokenKind::Preprocessor
            | TokenKind::Operator(Operator::And | Operator::Or | Operator::Unless | Operator::Atan2) => {
                self.word(token).to_owned()
            }
            _other => return Err(self.unexpected_in(context, "label")),
        };
        self.next();
        if name.is_empty() {
            return Err(SpanError::new(
                token.span,
                format!("invalid label name for grouping: {}", quote(&name)),
            ));
        }
        Ok(name.into())
    }
}
