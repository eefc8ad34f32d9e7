//! The effective configuration as text: as YAML with each value's origin, which `check-config` prints, and without,
//! and as flags. No value is a secret: those are in files that options name.

use std::fmt;

use super::file::scalar_text;
use super::options::{OPTIONS, ShownValue};
use super::{Config, Effective, Origin};

impl Config {
    /// The values as `--config` takes them.
    pub(crate) fn yaml(&self) -> String {
        OPTIONS.iter().map(|option| format!("{}: {}\n", option.name, yaml((option.show)(self)))).collect()
    }

    /// Each option's name and its value as a flag takes it.
    pub(crate) fn flags(&self) -> impl Iterator<Item = (&'static str, String)> {
        OPTIONS.iter().map(|option| (option.name, flag((option.show)(self))))
    }
}

impl Effective {
    /// Where the value of an option came from.
    pub(crate) fn origin(&self, name: &str) -> &Origin {
        self.origins.get(name).unwrap_or(&Origin::Default)
    }
}

/// A file that can be read as `--config` again.
impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = OPTIONS
            .iter()
            .map(|option| (format!("{}: {}", option.name, yaml((option.show)(&self.config))), option.name))
            .collect();
        let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
        for (line, name) in lines {
            writeln!(f, "{line:width$}  # {}", self.origin(name))?;
        }
        Ok(())
    }
}

fn yaml(shown: ShownValue) -> String {
    match shown {
        ShownValue::One(value) => scalar(&value),
        ShownValue::Many(values) => format!("[{}]", values.iter().map(quoted).collect::<Vec<_>>().join(", ")),
    }
}

fn flag(shown: ShownValue) -> String {
    match shown {
        ShownValue::One(value) => value,
        ShownValue::Many(values) => values.join(","),
    }
}

/// Bare where YAML reads back the very same text, in which nothing is to be escaped.
fn scalar(value: &str) -> String {
    let quoted = quoted(value);
    let read_back = serde_yaml_ng::from_str(value).ok().and_then(|read| scalar_text(&read));
    let is_bare = read_back.as_deref() == Some(value) && quoted[1..quoted.len() - 1] == *value;
    if is_bare { value.to_owned() } else { quoted }
}

/// JSON's strings are YAML's double-quoted ones, but for the control characters that JSON lets stand.
fn quoted(value: impl AsRef<str>) -> String {
    let json = serde_json::Value::from(value.as_ref()).to_string();
    let escaped = |c: char| match c {
        '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => format!("\\u{:04x}", u32::from(c)),
        other => other.to_string(),
    };
    json.chars().map(escaped).collect()
}
