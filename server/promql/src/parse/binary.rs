//! Binary operators with what is between them and their right side: `bool`, `on`, `group_left`, `fill`.

use super::{Parsed, Parser, SpanError, Tree};
use crate::ast::{Binary, Card, Expr, Matching, Type};
use crate::token::{Keyword, Mark, Operator, TokenKind};

/// What an operator's modifiers say.
struct Modifiers {
    returns_bool: bool,
    matching: Matching,
}

impl Parser<'_> {
    /// The operator is the next token.
    pub(super) fn binary(&mut self, left: Tree, operator: Operator) -> Parsed<Tree> {
        self.next();
        let modifiers = self.modifiers()?;
        let precedence = operator.precedence();
        // All associate to the left but powers.
        let right_min = if operator == Operator::Pow { precedence } else { precedence + 1 };
        let right = self.expression(right_min)?;
        // A chain nests no deeper for being long.
        let height = match &left.expr {
            Expr::Binary(_) => left.height.max(right.height + 1),
            _other => left.height.max(right.height) + 1,
        };
        let Modifiers { returns_bool, mut matching } = modifiers;
        if !self.options.fill_modifiers && (matching.fill_left.is_some() || matching.fill_right.is_some()) {
            let words = "binop fill modifiers are experimental and not enabled";
            return Err(SpanError::new(left.expr.span(), words));
        }
        if operator.is_set() && matching.card == Card::OneToOne {
            matching.card = Card::ManyToMany;
        }
        let kind = match (left.expr.kind(), right.expr.kind()) {
            (Type::Scalar, Type::Scalar) => Type::Scalar,
            (_, _) => Type::Vector,
        };
        let (start, matching) = (left.expr.span().start, Some(matching));
        let (left, right) = (left.expr, right.expr);
        let binary = Binary { operator, left, right, returns_bool, matching, kind, start };
        self.node(Expr::Binary(Box::new(binary)), height)
    }

    fn modifiers(&mut self) -> Parsed<Modifiers> {
        let returns_bool = self.take_keyword(Keyword::Bool);
        let mut matching = Matching::default();
        let on = self.take_keyword(Keyword::On);
        if on || self.take_keyword(Keyword::Ignoring) {
            matching.on = on;
            matching.labels = self.label_names()?;
            self.grouping_side(&mut matching)?;
        }
        self.fills(&mut matching)?;
        Ok(Modifiers { returns_bool, matching })
    }

    fn grouping_side(&mut self, matching: &mut Matching) -> Parsed<()> {
        if self.take_keyword(Keyword::GroupLeft) {
            matching.card = Card::ManyToOne;
        } else if self.take_keyword(Keyword::GroupRight) {
            matching.card = Card::OneToMany;
        } else {
            return Ok(());
        }
        // A parenthesis here holds names, never the operator's right side.
        if self.peek().kind == TokenKind::Mark(Mark::LeftParen) {
            matching.include = self.label_names()?;
        }
        Ok(())
    }

    fn fills(&mut self, matching: &mut Matching) -> Parsed<()> {
        if self.take_keyword(Keyword::Fill) {
            let value = self.fill_value()?;
            (matching.fill_left, matching.fill_right) = (Some(value), Some(value));
            return Ok(());
        }
        for _side in 0..2 {
            if matching.fill_left.is_none() && self.take_keyword(Keyword::FillLeft) {
                matching.fill_left = Some(self.fill_value()?);
            } else if matching.fill_right.is_none() && self.take_keyword(Keyword::FillRight) {
                matching.fill_right = Some(self.fill_value()?);
            }
        }
        Ok(())
    }

    fn fill_value(&mut self) -> Parsed<f64> {
        if self.take(Mark::LeftParen).is_none() {
            return Err(self.unexpected());
        }
        let sign = match self.peek().kind {
            TokenKind::Operator(Operator::Sub) => {
                self.next();
                -1.0
            }
            TokenKind::Operator(Operator::Add) => {
                self.next();
                1.0
            }
            _other => 1.0,
        };
        let (TokenKind::Number | TokenKind::Duration) = self.peek().kind else {
            return Err(self.unexpected());
        };
        let value = sign * self.number_literal()?.value;
        match self.take(Mark::RightParen) {
            Some(_) => Ok(value),
            None => Err(self.unexpected()),
        }
    }

    pub(super) fn take_keyword(&mut self, keyword: Keyword) -> bool {
        let is_there = self.peek().kind == TokenKind::Keyword(keyword);
        if is_there {
            self.next();
        }
        is_there
    }
}
