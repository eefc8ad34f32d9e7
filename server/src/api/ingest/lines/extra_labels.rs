//! Labels that a request has all its series have: `extra_label=name=value` in its query, and the pairs in a path
//! like the Pushgateway's. They go over labels of the lines.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use percent_encoding::percent_decode;
use silverback_model::printable::Quoted;

use crate::api::ingest::label_sets::LabelSets;
use crate::api::ingest::remote_write::WriteRejected;
use silverback_model::limits::LABELS_MAX;

/// What marks a value in a path that is in base64.
const IN_BASE64: &str = "@base64";

/// Names and values, each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtraLabels(Vec<(String, String)>);

impl ExtraLabels {
    /// Adds a parameter of the query, `name=value`.
    pub(crate) fn add_parameter(&mut self, parameter: &str) -> Result<(), WriteRejected> {
        match parameter.split_once('=') {
            Some((name, value)) if !name.is_empty() => self.set(name.to_owned(), value.to_owned()),
            Some(_) | None => Err(bad(format!("extra_label={}: name=value is wanted", Quoted(parameter)))),
        }
    }

    /// Adds the labels of a path, `job/<job>/<name>/<value>…`, in percent-encoding.
    pub(crate) fn add_path(&mut self, path: &str) -> Result<(), WriteRejected> {
        let mut words = path.trim_end_matches('/').split('/').map(decode);
        let mut is_first = true;
        while let Some(name) = words.next() {
            let (name, value) = (name?, words.next().unwrap_or_else(|| Ok(String::new()))?);
            let (name, value) = match name.strip_suffix(IN_BASE64) {
                None => (name, value),
                Some(bare) => (bare.to_owned(), from_base64(&value)?),
            };
            if name.is_empty() || (is_first && name != "job") {
                return Err(bad(
                    "the path is to be …/metrics/job/<job>, then pairs of a label and its value",
                ));
            }
            is_first = false;
            self.set(name, value)?;
        }
        Ok(())
    }

    /// Of one name the last counts.
    fn set(&mut self, name: String, value: String) -> Result<(), WriteRejected> {
        if let Some((_, given)) = self.0.iter_mut().find(|(given, _)| *given == name) {
            *given = value;
            return Ok(());
        }
        if self.0.len() == LABELS_MAX {
            return Err(bad(format!("at most {LABELS_MAX} labels may be added")));
        }
        self.0.push((name, value));
        Ok(())
    }

    /// Whether a label of this name is added.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|(own, _)| own.as_bytes() == name)
    }

    /// Lets a line's series have them.
    pub(crate) fn share(&self, sets: &mut LabelSets) {
        self.0.iter().for_each(|(name, value)| sets.share(name.as_bytes(), value.as_bytes()));
    }
}

fn decode(word: &str) -> Result<String, WriteRejected> {
    let decoded = percent_decode(word.as_bytes()).decode_utf8();
    decoded.map(Into::into).map_err(|_| bad("a label in the path is not valid UTF-8"))
}

/// Padded or not; a lone `=` stands for nothing at all.
fn from_base64(value: &str) -> Result<String, WriteRejected> {
    let bytes = BASE64.decode(value.trim_end_matches('='));
    let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| bad(format!("{} in the path is not text in URL-safe base64", Quoted(value))))
}

fn bad(words: impl Into<String>) -> WriteRejected {
    WriteRejected::Parameter(words.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(made: Result<ExtraLabels, WriteRejected>) -> Result<Vec<(String, String)>, String> {
        made.map(|labels| labels.0).map_err(|rejection| rejection.to_string())
    }

    fn of_path(path: &str) -> Result<Vec<(String, String)>, String> {
        let mut labels = ExtraLabels::default();
        self::labels(labels.add_path(path).map(|()| labels))
    }

    fn check(made: Result<Vec<(String, String)>, String>, expect: &[(&str, &str)]) {
        let expect: Vec<_> = expect.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        assert_eq!(made, Ok(expect));
    }

    fn check_refused(made: Result<Vec<(String, String)>, String>, words: &str) {
        let error = made.unwrap_err();
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn parameters_are_labels_and_the_last_of_a_name_counts() {
        let of = |parameters: &[&str]| {
            let mut labels = ExtraLabels::default();
            let added = parameters.iter().try_for_each(|parameter| labels.add_parameter(parameter));
            self::labels(added.map(|()| labels))
        };
        check(of(&["a=b", "c=d=e", "empty="]), &[("a", "b"), ("c", "d=e"), ("empty", "")]);
        check(of(&["a=b", "a=c"]), &[("a", "c")]);
        check_refused(of(&["a"]), "extra_label=\"a\": name=value is wanted");
        check_refused(of(&["=a"]), "name=value is wanted");
        let many: Vec<String> = (0..=LABELS_MAX).map(|i| format!("l{i}=x")).collect();
        check_refused(of(&many.iter().map(|one| &**one).collect::<Vec<_>>()), "at most 128 labels");
    }

    #[test]
    fn a_path_s_pairs_are_labels() {
        check(of_path("job/backup"), &[("job", "backup")]);
        check(of_path("job/a%2Fb/instance/h%C3%B6he/"), &[("job", "a/b"), ("instance", "höhe")]);
        check(of_path("job@base64/YS9i/path@base64/="), &[("job", "a/b"), ("path", "")]);
        check(of_path("job@base64/YQ=="), &[("job", "a")]);
        check(of_path("job/a/b"), &[("job", "a"), ("b", "")]);
        check_refused(of_path("instance/a"), "/metrics/job/<job>");
        check_refused(of_path(""), "/metrics/job/<job>");
        check_refused(of_path("job/a//b"), "/metrics/job/<job>");
        check_refused(of_path("job/%ff"), "not valid UTF-8");
        check_refused(of_path("job@base64/!"), "\"!\" in the path is not text");
    }
}
