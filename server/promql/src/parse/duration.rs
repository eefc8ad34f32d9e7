//! Durations within brackets and after `offset`: literals, and arithmetic where that is allowed.

use super::{Parsed, Parser, SpanError};
use crate::ast::{Duration, Length, NumberLiteral};
use crate::span::TextSpan;
use crate::token::{Mark, Operator, TokenKind};

/// What Go's nanoseconds hold, in seconds.
const SECONDS_MAX: f64 = (i64::MAX as f64) / 1e9;

impl Parser<'_> {
    /// A duration above zero, or an expression that is one once it is computed.
    pub(super) fn positive_length(&mut self, context: &str, expected: &str) -> Parsed<Length> {
        if !self.begins_duration() {
            return Err(self.unexpected_in(context, expected));
        }
        let duration = self.duration(0)?;
        if let Duration::Number(number) = &duration
            && (number.value * 1000.0).round() <= 0.0
        {
            return Err(SpanError::new(number.span, "duration must be greater than 0"));
        }
        Ok(length(duration))
    }

    /// What `offset` takes: signs bind more than powers here.
    pub(super) fn offset_length(&mut self) -> Parsed<Length> {
        if !self.begins_duration() {
            return Err(self.unexpected_in("offset", "number, duration, step(), or range()"));
        }
        let sign = self.peek();
        let negative = match sign.kind {
            TokenKind::Operator(Operator::Sub) => true,
            TokenKind::Operator(Operator::Add) => false,
            _other => return Ok(length(self.duration_operand()?)),
        };
        self.next();
        let operand = self.duration_operand()?;
        self.signed(negative, operand, sign.span).map(length)
    }

    fn begins_duration(&self) -> bool {
        match self.peek().kind {
            TokenKind::Number
            | TokenKind::Duration
            | TokenKind::Operator(Operator::Add | Operator::Sub)
            | TokenKind::Mark(Mark::LeftParen) => true,
            TokenKind::Preprocessor => {
                let word = self.word(self.peek()).to_ascii_lowercase();
                matches!(word.as_str(), "step" | "range" | "min_of" | "max_of")
            }
            _other => false,
        }
    }

    fn duration(&mut self, precedence_min: u8) -> Parsed<Duration> {
        self.deeper(|parser| {
            let mut left = parser.duration_unary()?;
            while let TokenKind::Operator(operator) = parser.peek().kind {
                let precedence = operator.precedence();
                let is_arithmetic = matches!(
                    operator,
                    Operator::Add
                        | Operator::Sub
                        | Operator::Mul
                        | Operator::Div
                        | Operator::Mod
                        | Operator::Pow
                );
                if !is_arithmetic || precedence < precedence_min {
                    break;
                }
                left = parser.duration_binary(left, operator)?;
            }
            Ok(left)
        })
    }

    fn duration_binary(&mut self, left: Duration, operator: Operator) -> Parsed<Duration> {
        let token = self.next();
        let precedence = operator.precedence();
        let right = self.duration(if operator == Operator::Pow { precedence } else { precedence + 1 })?;
        self.experiment(left.span())?;
        self.nodes += 1;
        if self.nodes > super::NODES_MAX {
            return Err(SpanError::new(
                left.span(),
                format!("the expression has more than {} parts", super::NODES_MAX),
            ));
        }
        if matches!(&right, Duration::Number(number) if number.value == 0.0) {
            match operator {
                Operator::Div => return Err(SpanError::new(token.span, "division by zero")),
                Operator::Mod => return Err(SpanError::new(token.span, "modulo by zero")),
                _other => {}
            }
        }
        if depth(&left, &right) > super::DEPTH_MAX {
            return Err(SpanError::new(left.span(), super::too_deep()));
        }
        Ok(Duration::Binary { operator, left: Box::new(left), right: Box::new(right) })
    }

    fn duration_unary(&mut self) -> Parsed<Duration> {
        let sign = self.peek();
        let negative = match sign.kind {
            TokenKind::Operator(Operator::Sub) => true,
            TokenKind::Operator(Operator::Add) => false,
            _other => return self.duration_operand(),
        };
        self.next();
        let operand = self.duration(Operator::Pow.precedence())?;
        self.signed(negative, operand, sign.span)
    }

    fn signed(&self, negative: bool, operand: Duration, sign: TextSpan) -> Parsed<Duration> {
        match operand {
            Duration::Number(mut number) => {
                number.value = if negative { -number.value } else { number.value };
                number.span.start = sign.start;
                Ok(Duration::Number(number))
            }
            other if negative => {
                Ok(Duration::Unary { negative, operand: Box::new(other), start: sign.start })
            }
            other => Ok(other),
        }
    }

    fn duration_operand(&mut self) -> Parsed<Duration> {
        let token = self.peek();
        match token.kind {
            TokenKind::Number | TokenKind::Duration => {
                let number = self.number_literal()?;
                if number.value.is_nan() || number.value.abs() > SECONDS_MAX {
                    return Err(SpanError::new(number.span, "duration out of range"));
                }
                Ok(Duration::Number(number))
            }
            TokenKind::Mark(Mark::LeftParen) => {
                self.next();
                let inner = self.duration(0)?;
                let Some(close) = self.take(Mark::RightParen) else { return Err(self.unexpected()) };
                self.experiment(inner.span())?;
                Ok(Duration::Paren { inner: Box::new(inner), span: token.span.to(close.span) })
            }
            TokenKind::Preprocessor => self.duration_word(),
            _other => Err(self.unexpected()),
        }
    }

    fn duration_word(&mut self) -> Parsed<Duration> {
        let token = self.next();
        let word = self.word(token).to_ascii_lowercase();
        if self.take(Mark::LeftParen).is_none() {
            return Err(self.unexpected());
        }
        let choice = match word.as_str() {
            "min_of" | "max_of" => {
                let left = self.duration(0)?;
                if self.take(Mark::Comma).is_none() {
                    return Err(self.unexpected());
                }
                Some((left, self.duration(0)?))
            }
            _step_or_range => None,
        };
        let Some(close) = self.take(Mark::RightParen) else { return Err(self.unexpected()) };
        let span = token.span.to(close.span);
        self.experiment(span)?;
        match (word.as_str(), choice) {
            ("step", None) => Ok(Duration::Step(span)),
            ("range", None) => Ok(Duration::Range(span)),
            (word, Some((left, right))) => {
                let (left, right) = (Box::new(left), Box::new(right));
                Ok(Duration::Choice { takes_max: word == "max_of", left, right, span })
            }
            (_other, None) => Err(SpanError::new(span, "unexpected function in duration expression")),
        }
    }

    fn experiment(&self, span: TextSpan) -> Parsed<()> {
        match self.options.duration_expressions {
            true => Ok(()),
            false => Err(SpanError::new(span, "experimental duration expression is not enabled")),
        }
    }
}

/// How deep nodes are nested below a new one.
fn depth(left: &Duration, right: &Duration) -> usize {
    let mut deepest = 0;
    let mut pending = vec![(left, 1), (right, 1)];
    while let Some((duration, depth)) = pending.pop() {
        deepest = deepest.max(depth);
        match duration {
            Duration::Number(_) | Duration::Step(_) | Duration::Range(_) => {}
            Duration::Unary { operand, .. } => pending.push((operand, depth + 1)),
            Duration::Paren { inner, .. } => pending.push((inner, depth + 1)),
            Duration::Binary { left, right, .. } | Duration::Choice { left, right, .. } => {
                pending.push((left, depth + 1));
                pending.push((right, depth + 1));
            }
        }
        // Deeper is refused, so that a chain costs no more than this for each of its links.
        if deepest > super::DEPTH_MAX {
            break;
        }
    }
    deepest
}

fn length(duration: Duration) -> Length {
    match duration {
        Duration::Number(NumberLiteral { value, .. }) => Length::Ms((value * 1000.0).round() as i64),
        other => Length::Computed(Box::new(other)),
    }
}
