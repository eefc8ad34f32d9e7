//! Selectors, and what follows an expression: ranges, subqueries, `offset`, `@`, `anchored`, `smoothed`.

use silverback_model::Matcher;
use silverback_model::selector::{MatchOp, UncompiledMatcher};

use super::{Parsed, Parser, SpanError, Tree};
use crate::ast::{At, Edge, Expr, Length, MatrixSelector, Subquery, Time, VectorSelector};
use crate::span::TextSpan;
use crate::token::{Keyword, Mark, Operator, Token, TokenKind};

const METRIC_NAME: &str = "__name__";

impl Parser<'_> {
    /// A selector, of a metric's name that is the next token or of matchers alone.
    pub(super) fn selector(&mut self, name: Option<Token>) -> Parsed<Tree> {
        let start = self.peek().span.start;
        let name: Box<str> = match name {
            Some(token) => {
                self.next();
                self.word(token).into()
            }
            None => Box::default(),
        };
        let mut matchers = Vec::new();
        if name.is_empty() || self.peek().kind == TokenKind::Mark(Mark::LeftBrace) {
            matchers = self.matchers()?;
        }
        let span = TextSpan { start, end: self.end() };
        if !name.is_empty() {
            matchers.push(self.matcher(METRIC_NAME, MatchOp::Equal, &name, span)?);
        }
        let selector = VectorSelector { name, matchers, time: Time::default(), edge: Edge::Plain, span };
        self.node(Expr::Vector(Box::new(selector)), 1)
    }

    fn matchers(&mut self) -> Parsed<Vec<Matcher>> {
        const CONTEXT: &str = "label matching";
        if self.take(Mark::LeftBrace).is_none() {
            return Err(self.unexpected());
        }
        let mut matchers = Vec::new();
        loop {
            if self.take(Mark::RightBrace).is_some() {
                return Ok(matchers);
            }
            matchers.push(self.label_matcher(CONTEXT)?);
            if self.take(Mark::Comma).is_none() && self.peek().kind != TokenKind::Mark(Mark::RightBrace) {
                return Err(self.unexpected_in(CONTEXT, "\",\" or \"}\""));
            }
        }
    }

    fn label_matcher(&mut self, context: &str) -> Parsed<Matcher> {
        let token = self.peek();
        let name = match token.kind {
            TokenKind::Identifier => self.word(token).to_owned(),
            TokenKind::Text => self.unquoted(token)?,
            _other => return Err(self.unexpected_in(context, "identifier or \"}\"")),
        };
        self.next();
        let op = match self.peek().kind {
            TokenKind::Mark(Mark::Equal) => MatchOp::Equal,
            TokenKind::Operator(Operator::NotEqual) => MatchOp::NotEqual,
            TokenKind::Mark(Mark::RegexEqual) => MatchOp::Regex,
            TokenKind::Mark(Mark::RegexNotEqual) => MatchOp::NotRegex,
            // A text alone is the metric's name.
            _other if token.kind == TokenKind::Text => {
                return self.matcher(METRIC_NAME, MatchOp::Equal, &name, token.span);
            }
            _other => return Err(self.unexpected_in(context, "label matching operator")),
        };
        self.next();
        let value = self.peek();
        if value.kind != TokenKind::Text {
            return Err(self.unexpected_in(context, "string"));
        }
        self.next();
        let text = self.unquoted(value)?;
        self.matcher(&name, op, &text, token.span.to(value.span))
    }

    fn matcher(&mut self, name: &str, op: MatchOp, value: &str, span: TextSpan) -> Parsed<Matcher> {
        self.nodes += 1;
        if self.nodes > super::NODES_MAX {
            return Err(SpanError::new(
                span,
                format!("the expression has more than {} parts", super::NODES_MAX),
            ));
        }
        let uncompiled = UncompiledMatcher { name: name.into(), op, value: value.into() };
        let compiled = uncompiled.compile_within(self.regex_bytes_left);
        let matcher = compiled.map_err(|words| SpanError::new(span, words))?;
        self.regex_bytes_left = self.regex_bytes_left.saturating_sub(matcher.compiled_bytes());
        Ok(matcher)
    }

    /// What binds most, and all that follows it.
    pub(super) fn postfix(&mut self) -> Parsed<Tree> {
        let mut tree = self.primary()?;
        loop {
            tree = match self.peek().kind {
                TokenKind::Mark(Mark::LeftBracket) => self.range(tree)?,
                TokenKind::Mark(Mark::At) => self.at_modifier(tree)?,
                TokenKind::Keyword(Keyword::Offset) => self.offset(tree)?,
                TokenKind::Keyword(Keyword::Anchored) => self.edge(tree, Edge::Anchored)?,
                TokenKind::Keyword(Keyword::Smoothed) => self.edge(tree, Edge::Smoothed)?,
                _other => return Ok(tree),
            };
        }
    }

    /// `[5m]`, or a subquery's `[5m:1m]`.
    fn range(&mut self, tree: Tree) -> Parsed<Tree> {
        let open = self.next().span;
        let range =
            self.positive_length("subquery or range selector", "number, duration, step(), or range()")?;
        if self.take(Mark::Colon).is_some() {
            return self.subquery(tree, range);
        }
        let Some(close) = self.take(Mark::RightBracket) else {
            return Err(self.unexpected_in("subquery or range", "\":\" or \"]\""));
        };
        let words = match &tree.expr {
            Expr::Vector(selector) if has_offset(&selector.time) => {
                "no offset modifiers allowed before range"
            }
            Expr::Vector(selector) if selector.time.at.is_some() => "no @ modifiers allowed before range",
            Expr::Vector(_) => "",
            _other => "ranges only allowed for vector selectors",
        };
        let Expr::Vector(selector) = tree.expr else {
            return Err(SpanError::new(open.to(close.span), words));
        };
        if !words.is_empty() {
            return Err(SpanError::new(open.to(close.span), words));
        }
        let range = MatrixSelector { selector: *selector, range, end: self.end() };
        self.node(Expr::Matrix(Box::new(range)), tree.height + 1)
    }

    fn subquery(&mut self, tree: Tree, range: Length) -> Parsed<Tree> {
        let mut step = None;
        if self.take(Mark::RightBracket).is_none() {
            let expected = "number, duration, step(), range(), or \"]\"";
            step = Some(self.positive_length("subquery selector", expected)?);
            if self.take(Mark::RightBracket).is_none() {
                return Err(self.unexpected_in("subquery selector", "\"]\""));
            }
        }
        let time = Time::default();
        let subquery = Subquery { expr: tree.expr, range, step, time, end: self.end() };
        self.node(Expr::Subquery(Box::new(subquery)), tree.height + 1)
    }

    fn offset(&mut self, mut tree: Tree) -> Parsed<Tree> {
        self.next();
        let offset = self.offset_length()?;
        let span = tree.expr.span();
        let end = self.end();
        let Some(time) = time_of(&mut tree.expr, end) else {
            let words = "offset modifier must be preceded by an instant vector selector or range vector selector or \
                         a subquery";
            return Err(SpanError::new(span, words));
        };
        if has_offset(time) {
            return Err(SpanError::new(span, "offset may not be set multiple times"));
        }
        time.offset = Some(offset);
        Ok(tree)
    }

    fn at_modifier(&mut self, mut tree: Tree) -> Parsed<Tree> {
        self.next();
        let token = self.peek();
        let mut seconds = None;
        let at = match token.kind {
            TokenKind::Preprocessor
                if matches!(self.word(token).to_ascii_lowercase().as_str(), "start" | "end") =>
            {
                self.next();
                let is_start = self.word(token).eq_ignore_ascii_case("start");
                if self.take(Mark::LeftParen).is_none() || self.take(Mark::RightParen).is_none() {
                    return Err(self.unexpected());
                }
                if is_start { At::Start } else { At::End }
            }
            TokenKind::Operator(Operator::Add | Operator::Sub) | TokenKind::Number | TokenKind::Duration => {
                let value = self.signed_number()?;
                seconds = Some(value);
                At::Ms((value * 1000.0).round() as i64)
            }
            _other => return Err(self.unexpected_in("@", "timestamp")),
        };
        let span = tree.expr.span();
        if let Some(value) = seconds.filter(|value| !value.is_finite() || value.abs() >= i64::MAX as f64) {
            let words =
                format!("timestamp out of bounds for @ modifier: {}", crate::number::format_fixed(value));
            return Err(SpanError::new(span, words));
        }
        let end = self.end();
        let Some(time) = time_of(&mut tree.expr, end) else {
            let words = "@ modifier must be preceded by an instant vector selector or range vector selector or a subquery";
            return Err(SpanError::new(span, words));
        };
        if time.at.is_some() {
            return Err(SpanError::new(span, "@ <timestamp> may not be set multiple times"));
        }
        time.at = Some(at);
        Ok(tree)
    }

    fn signed_number(&mut self) -> Parsed<f64> {
        let negative = match self.peek().kind {
            TokenKind::Operator(Operator::Sub) => Some(true),
            TokenKind::Operator(Operator::Add) => Some(false),
            _other => None,
        };
        if negative.is_some() {
            self.next();
        }
        let (TokenKind::Number | TokenKind::Duration) = self.peek().kind else {
            return Err(self.unexpected_in("@", "timestamp"));
        };
        let value = self.number_literal()?.value;
        Ok(if negative == Some(true) { -value } else { value })
    }

    fn edge(&mut self, mut tree: Tree, edge: Edge) -> Parsed<Tree> {
        self.next();
        let name = match edge {
            Edge::Anchored => "anchored",
            Edge::Smoothed | Edge::Plain => "smoothed",
        };
        let span = tree.expr.span();
        let fault = |words: String| Err(SpanError::new(span, words));
        if !self.options.extended_ranges {
            return fault(format!("{name} modifier is experimental and not enabled"));
        }
        let selector = match &mut tree.expr {
            Expr::Vector(selector) => &mut **selector,
            Expr::Matrix(range) => &mut range.selector,
            Expr::Subquery(_) => return fault(format!("{name} modifier is not supported for subqueries")),
            _other => return fault(format!("{name} modifier not implemented")),
        };
        if selector.edge != Edge::Plain && selector.edge != edge {
            return fault("anchored and smoothed modifiers cannot be used together".to_owned());
        }
        selector.edge = edge;
        Ok(tree)
    }
}

fn has_offset(time: &Time) -> bool {
    match time.offset {
        None | Some(Length::Ms(0)) => false,
        Some(Length::Ms(_) | Length::Computed(_)) => true,
    }
}

/// What `offset` and `@` are set on, where they can be.
fn time_of(expr: &mut Expr, end: u32) -> Option<&mut Time> {
    match expr {
        Expr::Vector(selector) => {
            selector.span.end = end;
            Some(&mut selector.time)
        }
        Expr::Matrix(range) => {
            range.end = end;
            Some(&mut range.selector.time)
        }
        Expr::Subquery(subquery) => {
            subquery.end = end;
            Some(&mut subquery.time)
        }
        Expr::Number(_)
        | Expr::Text(_)
        | Expr::Aggregate(_)
        | Expr::Binary(_)
        | Expr::Call(_)
        | Expr::Paren(_)
        | Expr::Unary(_) => None,
    }
}
