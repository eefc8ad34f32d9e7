//! PromQL's series selectors, as `match[]` and the command line take them: `up{job="x", le=~"a|b"}`,
//! `{__name__=~"node_.+"}`, `{"my.name", "a label"="b"}`.
//!
//! Knows nothing else of PromQL: no range, no offset, no expression. Regular expressions are read and not
//! compiled.

use std::fmt;

use crate::literal;

/// How a matcher compares a label's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`
    Regex,
    /// `!~`
    NotRegex,
}

impl MatchOp {
    /// As PromQL writes it.
    pub const fn operator(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Regex => "=~",
            Self::NotRegex => "!~",
        }
    }
}

/// A matcher before its expression is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncompiledMatcher {
    /// The label's name.
    pub name: Box<str>,
    /// How the value is compared.
    pub op: MatchOp,
    /// The value or the expression.
    pub value: Box<str>,
}

/// Why a text isn't a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at position {position}")]
pub struct SelectorError {
    /// In characters from 1.
    pub position: usize,
    /// In words.
    pub problem: String,
}

/// A matcher as it was read, and the offset in bytes of what would be wrong with its expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedMatcher {
    /// The matcher.
    pub matcher: UncompiledMatcher,
    /// Its value's place in the selector.
    pub at: usize,
}

impl SelectorError {
    /// A problem at an offset in bytes.
    pub fn at(text: &str, at: usize, problem: impl fmt::Display) -> Self {
        Self { position: text[..at].chars().count() + 1, problem: problem.to_string() }
    }
}

/// The matchers of a selector, at most so many.
pub fn parse_selector(text: &str, matchers_max: usize) -> Result<Vec<ParsedMatcher>, SelectorError> {
    Parser { text, at: 0, matchers_left: matchers_max }.selector()
}

struct Parser<'a> {
    text: &'a str,
    /// The offset in bytes of what is read next.
    at: usize,
    matchers_left: usize,
}

impl<'a> Parser<'a> {
    fn selector(&mut self) -> Result<Vec<ParsedMatcher>, SelectorError> {
        let mut matchers = Vec::new();
        self.skip_space();
        let name = self.identifier(|c| c == ':');
        if let Some(name) = name {
            matchers.push(self.matcher_at(self.at, "__name__", MatchOp::Equal, name)?);
        }
        self.skip_space();
        if self.take('{') {
            self.braces(&mut matchers)?;
        } else if name.is_none() {
            return Err(self.unexpected("a metric name or {"));
        }
        self.skip_space();
        if self.rest().is_empty() { Ok(matchers) } else { Err(self.unexpected("the selector's end")) }
    }

    fn braces(&mut self, matchers: &mut Vec<ParsedMatcher>) -> Result<(), SelectorError> {
        let named_outside = !matchers.is_empty();
        loop {
            self.skip_space();
            if self.take('}') {
                return Ok(());
            }
            let begins = self.at;
            let matcher = self.matcher()?;
            if named_outside && &*matcher.matcher.name == "__name__" {
                return Err(self.fault_at(begins, "the metric name is before the braces already"));
            }
            matchers.push(matcher);
            self.skip_space();
            if !self.take(',') && !self.rest().starts_with('}') {
                return Err(self.unexpected(", or }"));
            }
        }
    }

    /// `name op "value"`, or the metric's name alone in quotes.
    fn matcher(&mut self) -> Result<ParsedMatcher, SelectorError> {
        let begins = self.at;
        let (name, quoted) = match self.identifier(|_| false) {
            Some(name) => (name.to_owned(), false),
            None => (self.literal("a label name")?, true),
        };
        self.skip_space();
        if quoted && self.rest().starts_with([',', '}']) {
            return self.matcher_at(begins, "__name__", MatchOp::Equal, &name);
        }
        let op = self.operator()?;
        self.skip_space();
        let value_begins = self.at;
        let value = self.literal("a quoted value")?;
        self.matcher_at(value_begins, &name, op, &value)
    }

    fn operator(&mut self) -> Result<MatchOp, SelectorError> {
        // `=` last: it begins another one.
        let operators = [MatchOp::Regex, MatchOp::NotRegex, MatchOp::NotEqual, MatchOp::Equal];
        let found = operators.into_iter().find(|op| self.rest().starts_with(op.operator()));
        let op = found.ok_or_else(|| self.unexpected("=, !=, =~ or !~"))?;
        self.at += op.operator().len();
        Ok(op)
    }

    fn literal(&mut self, wanted: &str) -> Result<String, SelectorError> {
        match literal::read(self.rest()) {
            Ok(Some((text, len))) => {
                self.at += len;
                Ok(text)
            }
            Ok(None) => Err(self.unexpected(wanted)),
            Err((offset, problem)) => Err(self.fault_at(self.at + offset, problem)),
        }
    }

    /// A name of letters, digits and `_`, and of what `also` allows.
    fn identifier(&mut self, also: impl Fn(char) -> bool) -> Option<&'a str> {
        let rest = self.rest();
        let belongs = |c: char| c.is_ascii_alphanumeric() || c == '_' || also(c);
        let len = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        let name = &rest[..len];
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.at += len;
        Some(name)
    }

    fn matcher_at(
        &mut self,
        at: usize,
        name: &str,
        op: MatchOp,
        value: &str,
    ) -> Result<ParsedMatcher, SelectorError> {
        let left = self.matchers_left.checked_sub(1);
        self.matchers_left = left.ok_or_else(|| self.fault_at(at, "more matchers than a read may have"))?;
        Ok(ParsedMatcher { matcher: UncompiledMatcher { name: name.into(), op, value: value.into() }, at })
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.rest().starts_with(wanted);
        if is_there {
            self.at += wanted.len_utf8();
        }
        is_there
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn unexpected(&self, wanted: &str) -> SelectorError {
        match self.rest().chars().next() {
            Some(found) => self.fault_at(self.at, format_args!("expected {wanted}, found {found:?}")),
            None => self.fault_at(self.at, format_args!("expected {wanted}, found the end")),
        }
    }

    fn fault_at(&self, at: usize, problem: impl fmt::Display) -> SelectorError {
        SelectorError::at(self.text, at, problem)
    }
}
