//! The names that clients may reach the node by: what `--allowed-hosts` lists.
//!
//! Knows names and patterns. What a request says of its host, and that addresses are always allowed, is
//! the API's.

use super::error::ValueError;

/// The names that a request's host may have, besides `localhost`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedHosts {
    /// Any: `*`.
    Any,
    /// Those that one of these matches.
    Listed(Vec<HostPattern>),
}

/// One entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// One name.
    Exact(Box<str>),
    /// `*.example.com`: every name below it, and not itself. Holds `.example.com`.
    Below(Box<str>),
}

/// A DNS name's length, and that of each of its labels.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

const ALLOWED: &str = "allowed: host names without a port, such as tsdb.example.com, *.example.com for all \
                       names below it, or * for every name; addresses and localhost need no entry";

impl Default for AllowedHosts {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl AllowedHosts {
    /// Whether a request may have this name, without a port, for its host.
    pub(crate) fn allows(&self, name: &str) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name);
        match self {
            Self::Any => true,
            Self::Listed(patterns) => {
                is_localhost(name) || patterns.iter().any(|pattern| pattern.matches(name))
            }
        }
    }

    pub(super) fn parse(texts: &[String]) -> Result<Self, ValueError> {
        // A list that is set to nothing, as templates do it.
        let texts = if texts.iter().all(|text| text.trim().is_empty()) { &[] } else { texts };
        let mut patterns = Vec::with_capacity(texts.len());
        for text in texts.iter().map(|text| text.trim()).filter(|text| *text != "*") {
            let pattern = HostPattern::parse(text)
                .ok_or_else(|| ValueError::new(format!("{text:?} is not a host name"), ALLOWED))?;
            patterns.push(pattern);
        }
        let has_any = texts.iter().any(|text| text.trim() == "*");
        Ok(if has_any { Self::Any } else { Self::Listed(patterns) })
    }

    pub(super) fn show(&self) -> Vec<String> {
        match self {
            Self::Any => vec!["*".to_owned()],
            Self::Listed(patterns) => patterns.iter().map(HostPattern::show).collect(),
        }
    }
}

impl HostPattern {
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(exact) => name.eq_ignore_ascii_case(exact),
            Self::Below(suffix) => is_name(name) && is_below(name, suffix),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        match text.strip_prefix("*.") {
            Some(domain) => is_name(domain).then(|| Self::Below(format!(".{domain}").into())),
            None => is_name(text).then(|| Self::Exact(text.into())),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Exact(name) => name.to_string(),
            Self::Below(suffix) => format!("*{suffix}"),
        }
    }
}

/// Not the names below it: browsers find those on this machine, too (RFC 6761), and hold each for a site of its own,
/// so that a page of another program's may be at one of them.
fn is_localhost(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
}

fn is_below(name: &str, suffix: &str) -> bool {
    let begins = name.len().checked_sub(suffix.len()).filter(|begins| *begins > 0);
    begins.is_some_and(|begins| name.as_bytes()[begins..].eq_ignore_ascii_case(suffix.as_bytes()))
}

/// Underscores belong to no host's name, and are in some all the same.
fn is_name(text: &str) -> bool {
    let belongs = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_label = |label: &str| (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.chars().all(belongs);
    text.len() <= NAME_BYTES_MAX && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(list: &[&str]) -> Result<AllowedHosts, ValueError> {
        AllowedHosts::parse(&list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    fn check(list: &[&str], allowed: &[&str], refused: &[&str]) {
        let hosts = hosts(list).unwrap();
        for name in allowed {
            assert!(hosts.allows(name), "{name:?} by {list:?}");
        }
        for name in refused {
            assert!(!hosts.allows(name), "{name:?} by {list:?}");
        }
    }

    #[test]
    fn localhost_is_always_allowed_and_nothing_else_is_unlisted() {
        let local = ["localhost", "LocalHost", "localhost."];
        check(&[], &local, &["", ".", "node", "localhost.example.com", "mylocalhost", ".localhost"]);
        check(&["a.example"], &local, &["b.example"]);
    }

    #[test]
    fn names_below_localhost_are_allowed_where_they_are_listed_alone() {
        let below = ["evil.localhost", "a.b.localhost", "Evil.LocalHost."];
        check(&[], &[], &below);
        check(&["tsdb.localhost"], &["tsdb.localhost", "localhost"], &below);
        check(&["*.localhost"], &below, &[]);
    }

    #[test]
    fn a_name_is_matched_whole_and_in_either_case() {
        let refused =
            ["tsdb.example.co", "tsdb.example.com.evil.example", "a.tsdb.example.com", "example.com"];
        check(
            &["tsdb.Example.com"],
            &["tsdb.example.com", "TSDB.example.COM", "tsdb.example.com."],
            &refused,
        );
    }

    #[test]
    fn a_pattern_is_of_all_names_below_and_not_of_itself() {
        let names = ["example.com", ".example.com", "example.com.evil.example", "evil-example.com"];
        let no_names =
            ["evil/.example.com", "evil?.example.com", "a b.example.com", "a..example.com", "*.example.com"];
        let refused = [names.as_slice(), &no_names].concat();
        check(&["*.example.com", "other"], &["a.example.com", "a.b.EXAMPLE.com", "other"], &refused);
    }

    #[test]
    fn a_star_allows_every_name_beside_others_too() {
        check(&["*"], &["evil.example", ""], &[]);
        check(&["a.example", "*"], &["evil.example"], &[]);
    }

    #[test]
    fn what_is_no_host_s_name_is_refused_and_told() {
        let long = "a".repeat(64);
        for bad in
            ["a b", "a..b", "*.", "*a", "a.*", "**", "http://a", "a:9009", "[::1]", "::1", "höhe", &long]
        {
            let problem = hosts(&["good.example", bad]).unwrap_err();
            assert!(problem.wrong.contains("is not a host name"), "{bad}: {}", problem.wrong);
            assert!(problem.allowed.contains("*.example.com"), "{}", problem.allowed);
        }
        assert!(hosts(&["a", ""]).is_err(), "a comma too many");
    }

    #[test]
    fn a_list_is_shown_so_that_it_can_be_read_again() {
        for list in [&["a.example", "*.b.example"][..], &["*"], &[]] {
            assert_eq!(hosts(list).unwrap().show(), list);
        }
        assert_eq!(hosts(&[""]).unwrap(), AllowedHosts::default());
    }
}
