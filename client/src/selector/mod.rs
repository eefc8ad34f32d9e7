//! PromQL's series selectors: `up{job="x", le=~"a|b"}`, `{__name__=~"node_.+"}`,
//! `{"my.name", "a label"="b"}`.
//!
//! Knows nothing else of PromQL: no range, no offset, no expression.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use crate::matcher::{Matcher, MatcherKind};

/// The matchers of a series selector, read from its text.
///
/// ```
/// use silverback_client::{Matcher, Selector};
///
/// let selector: Selector = r#"up{job="a", instance!~"10[.].*"}"#.parse()?;
/// assert_eq!(
///     *selector,
///     [
///         Matcher::equal("__name__", "up"),
///         Matcher::equal("job", "a"),
///         Matcher::not_regex("instance", "10[.].*"),
///     ]
/// );
/// # Ok::<(), silverback_client::SelectorError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Vec<Matcher>);

/// Why a text is no selector, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at position {position}")]
pub struct SelectorError {
    /// In characters from 1.
    pub position: usize,
    /// In words.
    pub problem: String,
}

impl Selector {
    /// The matchers, in the order in which they stood.
    pub fn into_matchers(self) -> Vec<Matcher> {
        self.0
    }
}

impl Deref for Selector {
    type Target = [Matcher];

    fn deref(&self) -> &[Matcher] {
        &self.0
    }
}

impl From<Selector> for Vec<Matcher> {
    fn from(selector: Selector) -> Self {
        selector.0
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        Parser { text, at: 0 }.selector().map(Self)
    }
}

struct Parser<'a> {
    text: &'a str,
    /// The offset in bytes of what is read next.
    at: usize,
}

impl<'a> Parser<'a> {
    fn selector(&mut self) -> Result<Vec<Matcher>, SelectorError> {
        let mut matchers = Vec::new();
        self.skip_space();
        let name = self.identifier(|c| c == ':');
        matchers.extend(name.map(|name| Matcher::equal("__name__", name)));
        self.skip_space();
        if self.take('{') {
            self.braces(&mut matchers)?;
        } else if name.is_none() {
            return Err(self.unexpected("a metric name or {"));
        }
        self.skip_space();
        if self.rest().is_empty() { Ok(matchers) } else { Err(self.unexpected("the selector's end")) }
    }

    fn braces(&mut self, matchers: &mut Vec<Matcher>) -> Result<(), SelectorError> {
        let is_named_outside = !matchers.is_empty();
        loop {
            self.skip_space();
            if self.take('}') {
                return Ok(());
            }
            let begins = self.at;
            let matcher = self.matcher()?;
            if is_named_outside && matcher.name == "__name__" {
                return Err(self.fault_at(begins, "the metric name stands before the braces already"));
            }
            matchers.push(matcher);
            self.skip_space();
            if !self.take(',') && !self.rest().starts_with('}') {
                return Err(self.unexpected(", or }"));
            }
        }
    }

    /// `name op "value"`, or the metric's name alone in quotes.
    fn matcher(&mut self) -> Result<Matcher, SelectorError> {
        let plain_name = self.identifier(|_| false).map(str::to_owned);
        let is_quoted = plain_name.is_none();
        let name = plain_name.map_or_else(|| self.literal("a label name"), Ok)?;
        self.skip_space();
        if is_quoted && self.rest().starts_with([',', '}']) {
            return Ok(Matcher::equal("__name__", name));
        }
        let kind = self.operator()?;
        self.skip_space();
        Ok(Matcher { kind, name, value: self.literal("a quoted value")? })
    }

    fn operator(&mut self) -> Result<MatcherKind, SelectorError> {
        // `=` last: it begins another one.
        let kinds = [MatcherKind::Regex, MatcherKind::NotRegex, MatcherKind::NotEqual, MatcherKind::Equal];
        let found = kinds.into_iter().find(|kind| self.rest().starts_with(kind.operator()));
        let kind = found.ok_or_else(|| self.unexpected("=, !=, =~ or !~"))?;
        self.at += kind.operator().len();
        Ok(kind)
    }

    fn literal(&mut self, wanted: &str) -> Result<String, SelectorError> {
        match silverback_model::literal::read(self.rest()) {
            Ok(Some((text, length))) => {
                self.at += length;
                Ok(text)
            }
            Ok(None) => Err(self.unexpected(wanted)),
            Err((offset, problem)) => Err(self.fault_at(self.at + offset, problem)),
        }
    }

    /// A name of letters, digits and `_`, and of what `also` allows.
    fn identifier(&mut self, also: impl Fn(char) -> bool) -> Option<&'a str> {
        let rest = &self.text[self.at..];
        let belongs = |c: char| c.is_ascii_alphanumeric() || c == '_' || also(c);
        let name = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.at += name.len();
        Some(name)
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

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn unexpected(&self, wanted: &str) -> SelectorError {
        match self.rest().chars().next() {
            Some(found) => self.fault_at(self.at, format_args!("expected {wanted}, found {found:?}")),
            None => self.fault_at(self.at, format_args!("expected {wanted}, found the end")),
        }
    }

    fn fault_at(&self, at: usize, problem: impl fmt::Display) -> SelectorError {
        SelectorError { position: self.text[..at].chars().count() + 1, problem: problem.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[Matcher]) {
        let selector: Selector = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(&*selector, expect, "{text}");
    }

    fn check_fault(text: &str, position: usize, problem: &str) {
        let error = text.parse::<Selector>().expect_err(text);
        assert_eq!((error.position, error.problem.as_str()), (position, problem), "{text}");
    }

    fn named(name: &str) -> Matcher {
        Matcher::equal("__name__", name)
    }

    #[test]
    fn a_selector_is_read_as_promql_reads_it() {
        check("up", &[named("up")]);
        check(" node:up:sum ", &[named("node:up:sum")]);
        check("up{}", &[named("up")]);
        check("{}", &[]);
        check(r#"{job="a",x=~"b.*"}"#, &[Matcher::equal("job", "a"), Matcher::regex("x", "b.*")]);
        check(
            "up { a != 'b' , c !~ `d\\.` , }",
            &[named("up"), Matcher::not_equal("a", "b"), Matcher::not_regex("c", "d\\.")],
        );
        check(r#"{"my.name", "a label"="b"}"#, &[named("my.name"), Matcher::equal("a label", "b")]);
        check(r#"{__name__=~"node_.+"}"#, &[Matcher::regex("__name__", "node_.+")]);
    }

    #[test]
    fn escapes_in_values_are_gos() {
        let value = |text: &str, value: &str| check(&format!("{{a={text}}}"), &[Matcher::equal("a", value)]);
        value(r#""q\"\\\n\t""#, "q\"\\\n\t");
        value(r#"'it\'s'"#, "it's");
        value(r#""\x41\101\u00e4\U0001F98D""#, "AAä🦍");
        value(r#""\xc3\xa4""#, "ä");
        value("`\\n`", "\\n");
    }

    #[test]
    fn what_is_no_selector_is_told_with_its_place() {
        check_fault("", 1, "expected a metric name or {, found the end");
        check_fault("up{", 4, "expected a label name, found the end");
        check_fault("up{a}", 5, "expected =, !=, =~ or !~, found '}'");
        check_fault("up{a=b}", 6, "expected a quoted value, found 'b'");
        check_fault(r#"up{a="b"#, 6, "the string has no end");
        check_fault(r#"{ä="b"}"#, 2, "expected a label name, found 'ä'");
        check_fault(r#"{"ä"="\q"}"#, 7, "unknown escape");
        check_fault(r#"up{a="b" c="d"}"#, 10, "expected , or }, found 'c'");
        check_fault("up[5m]", 3, "expected the selector's end, found '['");
        check_fault(r#"up{__name__="x"}"#, 4, "the metric name stands before the braces already");
    }

    #[test]
    fn a_selector_is_the_text_of_its_matchers() {
        let text = r#"{__name__="up",a!="q\"\\\n",b=~"c",d!~"e"}"#;
        let selector: Selector = text.parse().unwrap();
        let matchers: Vec<_> = selector.iter().map(Matcher::to_string).collect();
        assert_eq!(format!("{{{}}}", matchers.join(",")), text);
    }
}
