//! Durations that are computed from a query's step and range.

use crate::ast::{Duration, Length, Operator};
use crate::error::QueryError;
use crate::span::TextSpan;

/// What `step()` and `range()` are.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepRange {
    pub(super) step_ms: i64,
    pub(super) range_ms: i64,
}

/// Whether a duration may be zero or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Any,
    Positive,
}

impl StepRange {
    /// A length in ms.
    pub(super) fn length_ms(self, length: &Length, sign: Sign) -> Result<i64, QueryError> {
        const SECONDS_MAX: f64 = i64::MAX as f64 / 1e9;
        let duration = match length {
            Length::Ms(ms) => return Ok(*ms),
            Length::Computed(duration) => duration,
        };
        let seconds = self.seconds(duration)?;
        let fault = |words| Err(fault(duration.span(), words));
        if !seconds.is_finite() {
            return fault("duration is NaN or infinite");
        }
        if seconds <= 0.0 && sign == Sign::Positive {
            return fault("duration must be greater than 0");
        }
        if seconds.abs() > SECONDS_MAX {
            return fault("duration is out of range");
        }
        Ok((seconds * 1000.0) as i64)
    }

    fn seconds(self, duration: &Duration) -> Result<f64, QueryError> {
        Ok(match duration {
            Duration::Number(number) => number.value,
            Duration::Step(_) => self.step_ms as f64 / 1000.0,
            Duration::Range(_) => self.range_ms as f64 / 1000.0,
            Duration::Paren { inner, .. } => self.seconds(inner)?,
            Duration::Unary { negative, operand, .. } => {
                let value = self.seconds(operand)?;
                if *negative { -value } else { value }
            }
            Duration::Choice { takes_max, left, right, .. } => {
                let (left, right) = (self.seconds(left)?, self.seconds(right)?);
                if *takes_max { left.max(right) } else { left.min(right) }
            }
            Duration::Binary { operator, left, right } => {
                let (left, right) = (self.seconds(left)?, self.seconds(right)?);
                match operator {
                    Operator::Add => left + right,
                    Operator::Sub => left - right,
                    Operator::Mul => left * right,
                    Operator::Div if right == 0.0 => return Err(fault(duration.span(), "division by zero")),
                    Operator::Div => left / right,
                    Operator::Mod if right == 0.0 => return Err(fault(duration.span(), "modulo by zero")),
                    Operator::Mod => left % right,
                    _power => left.powf(right),
                }
            }
        })
    }
}

fn fault(span: TextSpan, words: &str) -> QueryError {
    QueryError::execution(format!("{}:{}: {words}", span.start, span.end))
}
