//! The parameters of a question: `match[]`, `start`, `end`, `limit`, from queries and forms.

use std::num::NonZeroUsize;

use crate::api::read_fault::ReadFault;
use crate::api::selector::{Breadth, parse_selector};
use crate::api::time_text::parse_time_ms;
use crate::limits::{READ_MATCHERS_MAX, READ_QUERIES_MAX};
use crate::message::Selection;

/// Names and values, decoded, in their order.
#[derive(Debug, Clone, Default)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// Adds those of `name=value&…` in percent-encoding.
    pub fn add(&mut self, encoded: &[u8]) -> Result<(), ReadFault> {
        for (name, value) in form_urlencoded::parse(encoded) {
            if [&name, &value].iter().any(|text| text.contains(char::REPLACEMENT_CHARACTER)) {
                return Err(bad(format_args!("parameter {name:?} is not valid UTF-8")));
            }
            self.0.push((name.into_owned(), value.into_owned()));
        }
        Ok(())
    }

    /// The value of a parameter that is given, and isn't empty.
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| &**value).filter(|v| !v.is_empty())
    }

    /// What is selected: one selection for each `match[]`.
    pub fn selections(&self, breadth: Breadth) -> Result<Vec<Selection>, ReadFault> {
        let (min_ms, max_ms) = (self.time("start", i64::MIN)?, self.time("end", i64::MAX)?);
        let texts: Vec<_> = self.0.iter().filter(|(name, _)| name == "match[]").collect();
        if texts.len() > READ_QUERIES_MAX {
            return Err(bad(format_args!("at most {READ_QUERIES_MAX} match[] are allowed")));
        }
        let mut matchers_left = READ_MATCHERS_MAX;
        let mut selections = Vec::with_capacity(texts.len());
        for (_, text) in texts {
            let matchers = parse_selector(text, breadth, matchers_left)
                .map_err(|error| bad(format_args!("match[]={text}: {error}")))?;
            matchers_left -= matchers.len();
            selections.push(Selection { matchers: matchers.into(), min_ms, max_ms });
        }
        Ok(selections)
    }

    /// Like [`Self::selections`], where one at least must be given.
    pub fn required_selections(&self) -> Result<Vec<Selection>, ReadFault> {
        let selections = self.selections(Breadth::Narrowed)?;
        match selections.is_empty() {
            true => Err(bad("no match[] parameter provided")),
            false => Ok(selections),
        }
    }

    /// Like [`Self::selections`]; without a `match[]`, all series of the time.
    pub fn selections_or_all(&self) -> Result<Vec<Selection>, ReadFault> {
        let mut selections = self.selections(Breadth::Narrowed)?;
        if selections.is_empty() {
            let (min_ms, max_ms) = (self.time("start", i64::MIN)?, self.time("end", i64::MAX)?);
            selections.push(Selection { matchers: [].into(), min_ms, max_ms });
        }
        Ok(selections)
    }

    fn time(&self, name: &str, default_ms: i64) -> Result<i64, ReadFault> {
        let Some(text) = self.get(name) else { return Ok(default_ms) };
        parse_time_ms(text).ok_or_else(|| {
            bad(format_args!("{name}={text}: neither RFC 3339 nor seconds since 1970-01-01T00:00:00Z"))
        })
    }

    /// At most so many entries; `None`, for no parameter and for 0: all of them.
    pub fn limit(&self) -> Result<Option<NonZeroUsize>, ReadFault> {
        let Some(text) = self.get("limit") else { return Ok(None) };
        let limit: usize =
            text.parse().map_err(|_| bad(format_args!("limit={text}: a whole number is wanted")))?;
        Ok(NonZeroUsize::new(limit))
    }
}

/// A parameter that means nothing.
pub fn bad(words: impl std::fmt::Display) -> ReadFault {
    ReadFault::BadRequest(words.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(encoded: &str) -> Params {
        let mut params = Params::default();
        params.add(encoded.as_bytes()).unwrap();
        params
    }

    fn check_refused(encoded: &str, words: &str) {
        let mut params = Params::default();
        let refused = params.add(encoded.as_bytes()).and_then(|()| {
            params.limit()?;
            params.required_selections()
        });
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(words), "{encoded}: {error}");
    }

    #[test]
    fn selectors_times_and_limits_are_read() {
        let params = params("match[]=up%7Bjob%3D%22a+b%22%7D&match%5B%5D=x&start=1.5&end=&limit=7");
        let selections = params.required_selections().unwrap();
        assert_eq!(selections.len(), 2);
        assert_eq!(&*selections[0].matchers[1].value, "a b");
        assert_eq!((selections[0].min_ms, selections[0].max_ms), (1500, i64::MAX));
        assert_eq!(params.limit().unwrap().map(NonZeroUsize::get), Some(7));
    }

    #[test]
    fn no_limit_and_a_limit_of_zero_mean_all() {
        assert_eq!(params("").limit(), Ok(None));
        assert_eq!(params("limit=0").limit(), Ok(None));
    }

    #[test]
    fn without_a_selector_all_is_selected_where_that_is_allowed() {
        let all = params("").selections_or_all().unwrap();
        assert!(all.len() == 1 && all[0].is_everything());
        assert!(!params("start=0").selections_or_all().unwrap()[0].is_everything());
    }

    #[test]
    fn parameters_that_mean_nothing_are_refused_by_name() {
        check_refused("", "no match[]");
        check_refused("match[]=up{", "match[]=up{: invalid selector");
        check_refused("match[]=%ff", "\"match[]\" is not valid UTF-8");
        check_refused("match[]=up&start=now", "start=now");
        check_refused("match[]=up&end=x", "end=x");
        check_refused("match[]=up&limit=-1", "limit=-1");
        check_refused(&"match[]=up&".repeat(READ_QUERIES_MAX + 1), "at most 32 match[]");
        let wide = format!("match[]={{{}}}", "a!=\"\",".repeat(READ_MATCHERS_MAX + 1));
        check_refused(&wide, "more matchers than");
    }
}
