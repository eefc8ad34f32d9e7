//! The parameters of a question: `match[]`, `start`, `end`, `limit`, from queries and forms.

use std::num::NonZeroUsize;

use percent_encoding::percent_decode;
use silverback_model::printable::{Printable, Quoted};

use crate::api::query::Reader;
use crate::api::query::matchers::{MatcherCompiler, MatcherError};
use crate::api::query::read_rejected::ReadRejected;
use crate::api::query::selector::{Breadth, ParsedMatcher, SelectorError, parse_selector};
use crate::api::query::time_text::parse_time_ms;
use silverback_model::Matcher;
use silverback_model::limits::{READ_MATCHERS_MAX, READ_PARAMS_MAX, READ_QUERIES_MAX, SELECTOR_BYTES_MAX};
use silverback_storage::message::Selection;

/// The parameter whose values are selectors.
const MATCH: &str = "match[]";

/// Bytes that are decoded between two looks at the slice.
const DECODE_STEP: usize = 16 << 10;

/// Names and values, decoded, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params(Vec<(String, String)>);

/// A selector that was read and isn't compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Selector<'a> {
    text: &'a str,
    matchers: Vec<ParsedMatcher>,
}

impl Params {
    /// Adds those of `name=value&…` in percent-encoding, and calls `yield_if_needed` at each step.
    pub(crate) async fn add(
        &mut self,
        encoded: &[u8],
        yield_if_needed: &mut impl AsyncFnMut(),
    ) -> Result<(), ReadRejected> {
        for pair in encoded.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            if self.0.len() == READ_PARAMS_MAX {
                return Err(bad(format_args!("at most {READ_PARAMS_MAX} parameters are allowed")));
            }
            let mut halves = pair.splitn(2, |byte| *byte == b'=');
            let (name, value) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
            let name = decode(name, yield_if_needed).await;
            let value = decode(value, yield_if_needed).await;
            match (name, value) {
                (Some(name), Some(value)) => self.0.push((name, value)),
                (Some(name), None) => {
                    return Err(bad(format_args!("parameter {} is not valid UTF-8", Quoted(&name))));
                }
                (None, _) => return Err(bad("a parameter's name is not valid UTF-8")),
            }
        }
        Ok(())
    }

    /// All values of a parameter, in their order.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| &**value)
    }

    /// The value of a parameter that is given, and isn't empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next().filter(|value| !value.is_empty())
    }

    /// Refuses what is no `match[]`, and no `start` or `end` with a time, once each: for what can't be undone, when a
    /// parameter that is misspelt or has lost its value would say "of all times".
    pub(crate) fn check_plain(&self) -> Result<(), ReadRejected> {
        for (name, text) in &self.0 {
            match &**name {
                "match[]" => {}
                "start" | "end" if text.is_empty() => {
                    return Err(bad(format_args!("{name} is empty: leave it out, or give a time")));
                }
                "start" | "end" if self.all(name).count() > 1 => {
                    return Err(bad(format_args!("{name} is given more than once")));
                }
                "start" | "end" => {}
                _ => {
                    let name = shortened(name);
                    return Err(bad(format_args!("{name} is unknown: match[], start and end are taken")));
                }
            }
        }
        Ok(())
    }

    /// What is selected: one selection for each `match[]`, of which there must be one.
    pub(crate) async fn required_selections(&self, reader: &Reader) -> Result<Vec<Selection>, ReadRejected> {
        let selectors = self.selectors()?;
        if selectors.is_empty() {
            return Err(bad("no match[] parameter provided"));
        }
        self.selections(reader, selectors).await
    }

    /// What is selected; without a `match[]`, all series of the time.
    pub(crate) async fn selections_or_all(&self, reader: &Reader) -> Result<Vec<Selection>, ReadRejected> {
        let selectors = self.selectors()?;
        if selectors.is_empty() {
            return Ok(vec![self.selection(Vec::new())?]);
        }
        self.selections(reader, selectors).await
    }

    async fn selections(
        &self,
        reader: &Reader,
        selectors: Vec<Selector<'_>>,
    ) -> Result<Vec<Selection>, ReadRejected> {
        let mut compiler = MatcherCompiler::new(reader);
        let mut selections = Vec::with_capacity(selectors.len());
        for Selector { text, matchers } in selectors {
            let mut compiled = Vec::with_capacity(matchers.len());
            for ParsedMatcher { matcher, at } in matchers {
                compiled.push(match compiler.compile(matcher).await {
                    Err(MatcherError::Invalid(problem)) => {
                        return Err(bad_selector(text, &SelectorError::at(text, at, problem)));
                    }
                    compiled => compiled?,
                });
            }
            let narrowed = Breadth::Narrowed.check(&compiled);
            narrowed.map_err(|problem| bad_selector(text, &SelectorError::at(text, 0, problem)))?;
            selections.push(self.selection(compiled)?);
        }
        Ok(selections)
    }

    /// What matchers select within the time that is asked for.
    pub(super) fn selection(&self, matchers: Vec<Matcher>) -> Result<Selection, ReadRejected> {
        let (min_ms, max_ms) = (self.time("start", i64::MIN)?, self.time("end", i64::MAX)?);
        Ok(Selection { matchers: matchers.into(), min_ms, max_ms })
    }

    /// Each `match[]`, read as a selector.
    fn selectors(&self) -> Result<Vec<Selector<'_>>, ReadRejected> {
        let texts: Vec<&str> = self.all(MATCH).collect();
        if texts.len() > READ_QUERIES_MAX {
            return Err(bad(format_args!("at most {READ_QUERIES_MAX} {MATCH} are allowed")));
        }
        if texts.iter().map(|text| text.len()).sum::<usize>() > SELECTOR_BYTES_MAX {
            return Err(bad(format_args!("{MATCH}: at most {SELECTOR_BYTES_MAX} bytes are allowed in all")));
        }
        let mut matchers_left = READ_MATCHERS_MAX;
        let parse = |text| {
            let matchers = parse_selector(text, matchers_left).map_err(|error| bad_selector(text, &error))?;
            matchers_left -= matchers.len();
            Ok(Selector { text, matchers })
        };
        texts.into_iter().map(parse).collect()
    }

    /// Each `match[]` for the log, up to a length.
    pub(crate) fn shown_matchers(&self) -> String {
        let texts = self.0.iter().filter(|(name, _)| name == "match[]").map(|(_, text)| shortened(text));
        texts.map(|text| text.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// A parameter for the log; empty for one that isn't given.
    pub(crate) fn shown(&self, name: &str) -> String {
        self.get(name).map(|text| shortened(text).to_string()).unwrap_or_default()
    }

    fn time(&self, name: &str, default_ms: i64) -> Result<i64, ReadRejected> {
        let Some(text) = self.get(name) else { return Ok(default_ms) };
        parse_time_ms(text).ok_or_else(|| {
            let text = shortened(text);
            bad(format_args!("{name}={text}: neither RFC 3339 nor seconds since 1970-01-01T00:00:00Z"))
        })
    }

    /// At most so many entries; `None`, for no parameter and for 0: all of them.
    pub(crate) fn limit(&self) -> Result<Option<NonZeroUsize>, ReadRejected> {
        Ok(self.number("limit")?.and_then(NonZeroUsize::new))
    }

    /// A whole number; `None` where it isn't given.
    pub(crate) fn number(&self, name: &str) -> Result<Option<usize>, ReadRejected> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let wrong = |_| bad(format_args!("{name}={}: a whole number is wanted", shortened(text)));
        text.parse().map(Some).map_err(wrong)
    }
}

/// A parameter that means nothing.
pub(crate) fn bad(words: impl std::fmt::Display) -> ReadRejected {
    ReadRejected::BadRequest(words.to_string())
}

fn bad_selector(text: &str, error: &SelectorError) -> ReadRejected {
    bad(format_args!("{MATCH}={}: invalid selector: {error}", shortened(text)))
}

/// Enough of what was sent to know it again.
fn shortened(text: &str) -> Printable<'_> {
    const SHOWN_BYTES_MAX: usize = 256;

    Printable(&text[..text.floor_char_boundary(SHOWN_BYTES_MAX)])
}

/// What stands for a text in a form, in slices; `None` where it isn't UTF-8.
async fn decode(encoded: &[u8], yield_if_needed: &mut impl AsyncFnMut()) -> Option<String> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while !rest.is_empty() {
        let (step, after) = rest.split_at(step_len(rest));
        let plain: Vec<u8> = step.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
        decoded.extend(percent_decode(&plain));
        rest = after;
        yield_if_needed().await;
    }
    String::from_utf8(decoded).ok()
}

/// A step doesn't end within a `%41`.
fn step_len(encoded: &[u8]) -> usize {
    if encoded.len() <= DECODE_STEP {
        return encoded.len();
    }
    let escape = encoded[DECODE_STEP - 2..DECODE_STEP].iter().position(|byte| *byte == b'%');
    escape.map_or(DECODE_STEP, |at| DECODE_STEP - 2 + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(encoded: &[u8]) -> Result<Params, ReadRejected> {
        let mut params = Params::default();
        futures::executor::block_on(params.add(encoded, &mut async || {}))?;
        Ok(params)
    }

    fn params(encoded: &str) -> Params {
        add(encoded.as_bytes()).unwrap()
    }

    fn check_refused(encoded: &str, words: &str) {
        let refused = add(encoded.as_bytes()).and_then(|params| {
            params.limit()?;
            params.selection(Vec::new())?;
            params.selectors().map(|selectors| selectors.len())
        });
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(words), "{encoded}: {error}");
        assert!(error.len() < 1000, "{error}");
    }

    #[test]
    fn selectors_times_and_limits_are_read() {
        let params = params("match[]=up%7Bjob%3D%22a+b%22%7D&match%5B%5D=x&start=1.5&end=&limit=7&&empty");
        let selectors = params.selectors().unwrap();
        assert_eq!(selectors.len(), 2);
        assert_eq!(&*selectors[0].matchers[1].matcher.value, "a b");
        let selection = params.selection(Vec::new()).unwrap();
        assert_eq!((selection.min_ms, selection.max_ms), (1500, i64::MAX));
        assert_eq!(params.limit().unwrap().map(NonZeroUsize::get), Some(7));
    }

    #[test]
    fn long_values_are_decoded_in_steps_as_short_ones_at_once() {
        for shift in 0..4 {
            let encoded = format!("a={}{}", "x".repeat(shift), "%41%c3%A9+".repeat(8000));
            let params = params(&encoded);
            assert_eq!(params.get("a"), Some(&*format!("{}{}", "x".repeat(shift), "Aé ".repeat(8000))));
        }
    }

    #[test]
    fn no_limit_and_a_limit_of_zero_mean_all() {
        assert_eq!(params("").limit(), Ok(None));
        assert_eq!(params("limit=0").limit(), Ok(None));
    }

    #[test]
    fn without_a_selector_all_series_of_the_time_are_meant() {
        assert!(params("").selection(Vec::new()).unwrap().is_everything());
        assert!(!params("start=0").selection(Vec::new()).unwrap().is_everything());
    }

    #[test]
    fn parameters_that_mean_nothing_are_refused_by_name() {
        check_refused("match[]=up{", "match[]=up{: invalid selector");
        check_refused("match[]=%ff", "\"match[]\" is not valid UTF-8");
        check_refused("%ff=1", "name is not valid UTF-8");
        check_refused("match[]=up&start=now", "start=now");
        check_refused("match[]=up&end=x", "end=x");
        check_refused("match[]=up&limit=-1", "limit=-1");
        check_refused(&format!("limit={}", "x".repeat(5000)), "limit=xxx");
        check_refused("match[]=up&limit=%1b%E2%80%AE1", r"limit=\u001b\u202e1: a whole");
        check_refused(&"match[]=up&".repeat(READ_QUERIES_MAX + 1), "at most 32 match[]");
        check_refused(&"a&".repeat(READ_PARAMS_MAX + 1), "at most 256 parameters");
        let wide = format!("match[]={{{}}}", "a!=\"\",".repeat(READ_MATCHERS_MAX + 1));
        check_refused(&wide, "more matchers than");
        let long = format!("match[]={{a=\"{}\"}}", "x".repeat(SELECTOR_BYTES_MAX));
        check_refused(&long, "bytes are allowed in all");
    }
}
