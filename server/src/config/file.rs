//! The YAML file: one flat mapping of option names to values.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_yaml_ng::{Mapping, Value};
use silverback_host::read_named_text;

use super::error::{ConfigError, ValueError};
use super::layer::{self, GivenOption, NO_SELF_SCRAPE, Origin, find, nearest};
use super::options::OPTIONS;

/// A configuration file is small; anything larger isn't one.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What the file gives, key by key.
pub(super) fn read(path: &Path) -> Vec<Result<GivenOption, ConfigError>> {
    match read_text(path) {
        Ok(text) => parse(path, &text),
        Err(problem) => vec![Err(ConfigError { place: format!("config ({})", path.display()), problem })],
    }
}

fn read_text(path: &Path) -> Result<String, ValueError> {
    let readable = "allowed: a YAML file that this process may read";
    let refused = |error: std::io::Error| ValueError::new(format!("it can't be read: {error}"), readable);
    read_named_text(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => ValueError::new("it is larger than 1MiB", readable),
        _other => refused(error),
    })
}

fn parse(path: &Path, text: &str) -> Vec<Result<GivenOption, ConfigError>> {
    let whole_file = |wrong: String| {
        let problem = ValueError::new(wrong, "allowed: a YAML mapping of option names to values");
        vec![Err(ConfigError { place: format!("config ({})", path.display()), problem })]
    };
    match serde_yaml_ng::from_str(text) {
        // A file of comments alone sets nothing.
        Ok(Value::Null) => Vec::new(),
        Ok(Value::Mapping(mapping)) => read_keys(path, text, mapping),
        Ok(_) => whole_file("it is not a mapping".to_owned()),
        Err(error) => whole_file(format!("it is not YAML: {error}")),
    }
}

fn read_keys(path: &Path, text: &str, mapping: Mapping) -> Vec<Result<GivenOption, ConfigError>> {
    // A key without a value is one that isn't set.
    let set = mapping.into_iter().filter(|(_, value)| !value.is_null());
    let given = set.filter_map(|(key, value)| {
        let name = scalar_text(&key).unwrap_or_else(|| "a key that is not text".to_owned());
        let origin = Origin::File(PathBuf::from(path), line_of(&name, text));
        if name == NO_SELF_SCRAPE {
            let text = scalar_text(&value).unwrap_or_default();
            return layer::read_no_self_scrape(&text, origin).transpose();
        }
        let given = read_key(&name, value, origin.clone());
        Some(given.map_err(|problem| ConfigError { place: format!("{name} ({origin})"), problem }))
    });
    layer::refuse_twice(given.collect())
}

fn read_key(name: &str, value: Value, origin: Origin) -> Result<GivenOption, ValueError> {
    let option = find(name).ok_or_else(|| unknown(name))?;
    let values = match &value {
        Value::Sequence(values) => values.iter().map(scalar_text).collect(),
        value => scalar_text(value).map(|text| vec![text]),
    };
    let values = values.ok_or_else(|| ValueError::new("the value is nested", "allowed: a plain value"))?;
    Ok(GivenOption { option, values, origin })
}

/// A plain value as it was written, or nearly: `5e7` comes back as `50000000.0`.
pub(super) fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Sequence(_) | Value::Mapping(_) | Value::Tagged(_) => None,
    }
}

fn unknown(name: &str) -> ValueError {
    let allowed = match nearest(name) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => {
            format!("allowed: {}", OPTIONS.iter().map(|option| option.name).collect::<Vec<_>>().join(", "))
        }
    };
    ValueError::new("there is no such option", allowed)
}

/// The line that begins with the key. YAML's own position is lost in its values.
fn line_of(key: &str, text: &str) -> Option<usize> {
    let starts = |line: &str| {
        let line = line.trim_start_matches(['"', '\'']);
        let rest = line.strip_prefix(key).map(|rest| rest.trim_start_matches(['"', '\'']));
        rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    text.lines().position(starts).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_nearest(written: &str, expect: Option<&str>) {
        assert_eq!(nearest(written), expect, "{written:?}");
    }

    #[test]
    fn a_slip_of_the_keyboard_finds_its_option() {
        check_nearest("retension", Some("retention"));
        check_nearest("data_dir", Some("data-dir"));
        check_nearest("dataDir", Some("data-dir"));
        check_nearest("max-connection", Some("max-connections"));
        check_nearest("Listen", Some("listen"));
        check_nearest("zzz", None);
    }

    #[test]
    fn the_line_of_a_key_is_found_and_not_that_of_a_longer_one() {
        let text = "# listen: not this\nlisten-more: 1\n\"listen\" : :9009\n";
        assert_eq!(line_of("listen", text), Some(3));
        assert_eq!(line_of("shards", text), None);
    }
}
