//! From a text to an expression: a parser by precedence, one token ahead, and the errors that Prometheus gives, with
//! their places.
//!
//! Bounded: the text's length, the number of nodes, how deep they nest, and what its regular expressions take when
//! compiled. Operators of one precedence in a row nest no deeper than one. Time is linear in the text.

mod aggregate;
mod binary;
mod check;
mod duration;
mod selector;

use crate::ast::{Expr, FunctionCall, NumberLiteral, Paren, StringLiteral, Unary};
use crate::functions::Function;
use crate::lex::tokens;
use crate::number::{parse_duration_ms, parse_number, quote};
use crate::span::{TextSpan, line_and_column};
use crate::token::{Keyword, Mark, Operator, Token, TokenKind, describe};

/// A longer text is refused.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 18;
/// An expression of more nodes is refused.
pub(crate) const NODES_MAX: usize = 1 << 14;
/// Nested nodes, at most so many.
pub(crate) const DEPTH_MAX: usize = 200;

/// What is allowed beyond the language that is stable.
#[derive(Debug, Clone, Copy, Default)]
pub struct ParseOptions {
    /// Functions and aggregations that Prometheus has behind `promql-experimental-functions`.
    pub experimental_functions: bool,
    /// Arithmetic in durations.
    pub duration_expressions: bool,
    /// `anchored` and `smoothed`.
    pub extended_ranges: bool,
    /// `fill`, `fill_left` and `fill_right`.
    pub fill_modifiers: bool,
    /// What all regular expressions of a query may take when compiled, in bytes; 0: 4 MiB.
    pub regex_bytes_max: usize,
}

impl ParseOptions {
    /// With everything that is experimental.
    pub const fn with_experiments() -> Self {
        Self {
            experimental_functions: true,
            duration_expressions: true,
            extended_ranges: true,
            fill_modifiers: true,
            regex_bytes_max: 0,
        }
    }
}

/// Why a text isn't an expression. Shown as Prometheus shows it: `1:5: parse error: unexpected end of input`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: parse error: {words}")]
pub struct ParseError {
    /// The place in the text.
    pub span: TextSpan,
    /// Line and column, or that there is none.
    pub place: String,
    /// In words.
    pub words: String,
}

/// What is wrong, before it is known in which text.
#[derive(Debug)]
pub(crate) struct SpanError {
    pub(crate) span: TextSpan,
    pub(crate) words: String,
}

impl SpanError {
    pub(crate) fn new(span: TextSpan, words: impl Into<String>) -> Self {
        Self { span, words: words.into() }
    }

    pub(crate) fn in_text(self, text: &str) -> ParseError {
        let place = match text.is_empty() {
            true => "unknown position".to_owned(),
            false => line_and_column(text, self.span.start),
        };
        ParseError { span: self.span, place, words: self.words }
    }
}

/// Parses and checks a text.
pub(crate) fn parse(text: &str, options: ParseOptions) -> Result<Expr, ParseError> {
    if text.len() > TEXT_BYTES_MAX {
        let words = format!("the expression is longer than {TEXT_BYTES_MAX} bytes");
        return Err(SpanError::new(TextSpan::default(), words).in_text("x"));
    }
    let (tokens, lexer_error) = tokens(text);
    let regex_bytes_left = if options.regex_bytes_max == 0 { 4 << 20 } else { options.regex_bytes_max };
    let mut parser = Parser {
        text,
        tokens,
        lexer_error,
        at: 0,
        options,
        nodes: 0,
        depth: 0,
        aggregations: 0,
        regex_bytes_left,
    };
    let expr = parser.whole().map_err(|fault| fault.in_text(text))?;
    check::check(&expr, text).map_err(|fault| fault.in_text(text)).map(|()| expr)
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    lexer_error: Option<String>,
    at: usize,
    options: ParseOptions,
    nodes: usize,
    /// Nested calls of the parser.
    depth: usize,
    /// Aggregations around what is read: an error in them is reported as theirs.
    aggregations: usize,
    regex_bytes_left: usize,
}

/// An expression and how deep its nodes are nested.
struct Tree {
    expr: Expr,
    height: usize,
}

type Parsed<T> = Result<T, SpanError>;

impl Parser<'_> {
    fn whole(&mut self) -> Parsed<Expr> {
        if self.peek().kind == TokenKind::End {
            return Err(SpanError::new(TextSpan::default(), "no expression found in input"));
        }
        let tree = self.expression(0)?;
        match self.peek().kind {
            TokenKind::End => Ok(tree.expr),
            _other => Err(self.unexpected()),
        }
    }

    fn peek(&self) -> Token {
        self.tokens[self.at]
    }

    fn peek_behind(&self) -> Token {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)]
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        // The last token stays: nothing follows it.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn take(&mut self, mark: Mark) -> Option<Token> {
        (self.peek().kind == TokenKind::Mark(mark)).then(|| self.next())
    }

    fn word(&self, token: Token) -> &str {
        &self.text[token.span.start as usize..token.span.end as usize]
    }

    /// The place after what was read last.
    fn end(&self) -> u32 {
        self.at.checked_sub(1).map_or(0, |last| self.tokens[last].span.end)
    }

    fn unexpected(&self) -> SpanError {
        let context = if self.aggregations > 0 { "aggregation" } else { "" };
        self.unexpected_in(context, "")
    }

    /// That a token can't be here; or the lexer's error, where it got no further.
    fn unexpected_in(&self, context: &str, expected: &str) -> SpanError {
        let token = self.peek();
        if let (TokenKind::Error, Some(words)) = (token.kind, &self.lexer_error) {
            return SpanError::new(token.span, words.clone());
        }
        let mut words = format!("unexpected {}", describe(token, self.text));
        if !context.is_empty() {
            words += &format!(" in {context}");
        }
        if !expected.is_empty() {
            words += &format!(", expected {expected}");
        }
        SpanError::new(token.span, words)
    }

    fn node(&mut self, expr: Expr, height: usize) -> Parsed<Tree> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let words = format!("the expression has more than {NODES_MAX} parts");
            return Err(SpanError::new(expr.span(), words));
        }
        if height > DEPTH_MAX {
            return Err(SpanError::new(expr.span(), too_deep()));
        }
        Ok(Tree { expr, height })
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_MAX {
            return Err(SpanError::new(self.peek().span, too_deep()));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Operators of this precedence and higher, between unary expressions.
    fn expression(&mut self, precedence_min: u8) -> Parsed<Tree> {
        self.deeper(|parser| {
            let mut left = parser.unary()?;
            while let TokenKind::Operator(operator) = parser.peek().kind {
                let precedence = operator.precedence();
                if precedence < precedence_min {
                    break;
                }
                left = parser.binary(left, operator)?;
            }
            Ok(left)
        })
    }

    fn unary(&mut self) -> Parsed<Tree> {
        let token = self.peek();
        let negative = match token.kind {
            TokenKind::Operator(Operator::Add) => false,
            TokenKind::Operator(Operator::Sub) => true,
            _other => return self.postfix(),
        };
        self.next();
        let operand = self.expression(Operator::Pow.precedence())?;
        if let Expr::Number(mut number) = operand.expr {
            number.value = if negative { -number.value } else { number.value };
            number.span.start = token.span.start;
            return Ok(Tree { expr: Expr::Number(number), height: operand.height });
        }
        let unary = Unary { negative, expr: operand.expr, start: token.span.start };
        self.node(Expr::Unary(Box::new(unary)), operand.height + 1)
    }

    fn primary(&mut self) -> Parsed<Tree> {
        let token = self.peek();
        let next = self.peek_behind().kind;
        let is_called = next == TokenKind::Mark(Mark::LeftParen);
        match token.kind {
            TokenKind::Number | TokenKind::Duration => {
                let number = self.number_literal()?;
                self.node(Expr::Number(number), 1)
            }
            TokenKind::Text => {
                self.next();
                let value = self.unquoted(token)?;
                self.node(Expr::Text(StringLiteral { value, span: token.span }), 1)
            }
            TokenKind::Mark(Mark::LeftParen) => self.paren(),
            TokenKind::Mark(Mark::LeftBrace) => self.selector(None),
            TokenKind::Aggregator(aggregator) if !is_name_before(next) => self.aggregate(aggregator),
            TokenKind::Identifier | TokenKind::Preprocessor if is_called => self.call(),
            TokenKind::Identifier
            | TokenKind::MetricIdentifier
            | TokenKind::Preprocessor
            | TokenKind::Aggregator(_)
            | TokenKind::Keyword(
                Keyword::By
                | Keyword::Without
                | Keyword::Offset
                | Keyword::Anchored
                | Keyword::Smoothed
                | Keyword::Fill
                | Keyword::FillLeft
                | Keyword::FillRight,
            ) => self.selector(Some(token)),
            TokenKind::Operator(Operator::And | Operator::Or | Operator::Unless) => {
                self.selector(Some(token))
            }
            TokenKind::Operator(_)
            | TokenKind::Mark(_)
            | TokenKind::Keyword(
                Keyword::On | Keyword::Ignoring | Keyword::GroupLeft | Keyword::GroupRight | Keyword::Bool,
            )
            | TokenKind::End
            | TokenKind::Error => Err(self.unexpected()),
        }
    }

    fn paren(&mut self) -> Parsed<Tree> {
        let open = self.next();
        let inner = self.expression(0)?;
        let Some(close) = self.take(Mark::RightParen) else { return Err(self.unexpected()) };
        let paren = Paren { expr: inner.expr, span: open.span.to(close.span) };
        self.node(Expr::Paren(Box::new(paren)), inner.height + 1)
    }

    fn number_literal(&mut self) -> Parsed<NumberLiteral> {
        let token = self.next();
        let word = self.word(token);
        if token.kind == TokenKind::Duration {
            let ms = parse_duration_ms(word).map_err(|words| SpanError::new(token.span, words))?;
            return Ok(NumberLiteral { value: ms as f64 / 1000.0, is_duration: true, span: token.span });
        }
        let value = parse_number(word).ok_or_else(|| {
            let words =
                format!("error parsing number: strconv.ParseFloat: parsing {}: invalid syntax", quote(word));
            SpanError::new(token.span, words)
        })?;
        Ok(NumberLiteral { value, is_duration: false, span: token.span })
    }

    fn unquoted(&self, token: Token) -> Parsed<String> {
        let word = self.word(token);
        match silverback_model::literal::read(word) {
            Ok(Some((text, _))) => Ok(text),
            Ok(None) => Err(SpanError::new(
                token.span,
                format!("error unquoting string {}: invalid syntax", quote(word)),
            )),
            Err((_, problem)) => {
                Err(SpanError::new(token.span, format!("error unquoting string {}: {problem}", quote(word))))
            }
        }
    }

    fn call(&mut self) -> Parsed<Tree> {
        let name = self.next();
        let (arguments, height) = self.arguments()?;
        let word = self.word(name);
        let signature = Function::named(word).ok_or_else(|| {
            SpanError::new(name.span, format!("unknown function with name {}", quote(word)))
        })?;
        if signature.is_experimental && !self.options.experimental_functions {
            return Err(SpanError::new(name.span, format!("function {} is not enabled", quote(word))));
        }
        let span = TextSpan { start: name.span.start, end: self.end() };
        self.node(Expr::Call(Box::new(FunctionCall { signature, arguments, span })), height + 1)
    }

    /// Expressions in parentheses, and the greatest of their heights.
    fn arguments(&mut self) -> Parsed<(Vec<Expr>, usize)> {
        if self.take(Mark::LeftParen).is_none() {
            return Err(self.unexpected());
        }
        let (mut arguments, mut height) = (Vec::new(), 0);
        if self.take(Mark::RightParen).is_some() {
            return Ok((arguments, height));
        }
        loop {
            let argument = self.expression(0)?;
            height = height.max(argument.height);
            arguments.push(argument.expr);
            if self.take(Mark::RightParen).is_some() {
                return Ok((arguments, height));
            }
            let Some(comma) = self.take(Mark::Comma) else { return Err(self.unexpected()) };
            if self.peek().kind == TokenKind::Mark(Mark::RightParen) {
                return Err(SpanError::new(comma.span, "trailing commas not allowed in function call args"));
            }
        }
    }
}

/// Whether an aggregator's word is a metric's name, as what follows shows.
fn is_name_before(next: TokenKind) -> bool {
    match next {
        TokenKind::Mark(mark) => mark != Mark::LeftParen,
        TokenKind::Keyword(keyword) => {
            matches!(keyword, Keyword::Offset | Keyword::Anchored | Keyword::Smoothed)
        }
        other => matches!(other, TokenKind::Operator(_) | TokenKind::End),
    }
}

fn too_deep() -> String {
    format!("the expression nests more than {DEPTH_MAX} levels deep")
}

#[cfg(test)]
mod tests;
