//! The fields of a mapping, taken one by one by their names: what is left at the end is unknown. A fault names the
//! field and never repeats what is there, which may be a secret.

use std::fmt;
use std::time::Duration;

use serde_yaml_ng::{Mapping, Value};

use super::ObjstoreConfigError;
use silverback_model::duration::{self, UnitOrder};

/// Text that nothing shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretField(String);

impl SecretField {
    /// The text, for signing.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for SecretField {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for SecretField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// A mapping whose fields are being taken.
#[derive(Debug)]
pub(super) struct Fields {
    /// Where it is: `config.http_config`; nothing at the top.
    path: String,
    left: Mapping,
    /// Names of those that were asked for.
    known: Vec<&'static str>,
}

impl Fields {
    /// The mapping at the top.
    pub(super) fn of(value: Value) -> Result<Self, ObjstoreConfigError> {
        Self::at(String::new(), value)
    }

    fn at(path: String, value: Value) -> Result<Self, ObjstoreConfigError> {
        let left = match value {
            Value::Mapping(left) => left,
            Value::Null => Mapping::new(),
            _unshown if path.is_empty() => {
                return Err(ObjstoreConfigError::new("it is not a mapping of fields"));
            }
            _unshown => {
                return Err(ObjstoreConfigError::new(format!("{path}: fields with values are wanted")));
            }
        };
        Ok(Self { path, left, known: Vec::new() })
    }

    /// A field's name with those of the mappings that it is in.
    pub(super) fn name_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.left.remove(name).filter(|value| !value.is_null())
    }

    pub(super) fn wrong(&self, name: &str, what: &str) -> ObjstoreConfigError {
        ObjstoreConfigError::new(format!("{}: {what}", self.name_of(name)))
    }

    /// Text; what is empty isn't there, as in Thanos.
    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>, ObjstoreConfigError> {
        let text = match self.take(name) {
            None => return Ok(None),
            Some(Value::String(text)) => text,
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Bool(flag)) => flag.to_string(),
            Some(_unshown) => return Err(self.wrong(name, "plain text is wanted")),
        };
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// Text that must be there.
    pub(super) fn required(&mut self, name: &'static str) -> Result<String, ObjstoreConfigError> {
        self.text(name)?.ok_or_else(|| self.wrong(name, "it is missing"))
    }

    /// Text that nothing shows.
    pub(super) fn secret(&mut self, name: &'static str) -> Result<Option<SecretField>, ObjstoreConfigError> {
        Ok(self.text(name)?.map(SecretField))
    }

    /// Yes or no, in all of the words that YAML 1.1 has for it, by which Thanos reads the file.
    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, ObjstoreConfigError> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(Value::String(word)) => match &*word.to_ascii_lowercase() {
                "y" | "yes" | "on" => Ok(true),
                "n" | "no" | "off" => Ok(false),
                _unshown => Err(self.wrong(name, "true or false is wanted")),
            },
            Some(_unshown) => Err(self.wrong(name, "true or false is wanted")),
        }
    }

    /// A duration as Prometheus writes it; zero isn't there.
    pub(super) fn duration(&mut self, name: &'static str) -> Result<Option<Duration>, ObjstoreConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let wanted = || self.wrong(name, "a duration such as 2m or 1m30s is wanted");
        let duration = parse_duration(&text).ok_or_else(wanted)?;
        Ok(Some(duration).filter(|duration| !duration.is_zero()))
    }

    /// Fields below this one; none where it isn't there.
    pub(super) fn fields(&mut self, name: &'static str) -> Result<Self, ObjstoreConfigError> {
        let path = self.name_of(name);
        Self::at(path, self.take(name).unwrap_or(Value::Null))
    }

    /// Takes fields of Thanos that make no difference here, and names those that are set.
    pub(super) fn ignore(&mut self, names: &[&'static str], ignored: &mut Vec<String>) {
        for name in names {
            if self.take(name).is_some_and(|value| !is_unset(&value)) {
                ignored.push(self.name_of(name));
            }
        }
    }

    /// Takes a field of Thanos that would make a difference: it must not be set.
    pub(super) fn refuse(&mut self, name: &'static str, why: &str) -> Result<(), ObjstoreConfigError> {
        match self.take(name) {
            Some(value) if !is_unset(&value) => Err(self.wrong(name, why)),
            _unset => Ok(()),
        }
    }

    /// Nothing may be left.
    pub(super) fn end(mut self) -> Result<(), ObjstoreConfigError> {
        let Some((name, _unshown)) = self.left.iter().next() else { return Ok(()) };
        let name = name.as_str().unwrap_or("a field whose name is no text");
        let unknown = self.name_of(&name.escape_debug().to_string());
        self.known.sort_unstable();
        Err(ObjstoreConfigError::new(format!(
            "{unknown}: there is no such field; known are {}",
            self.known.join(", ")
        )))
    }
}

/// As a field is that nobody set: Thanos' documents list all with what these say.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty() || parse_duration(text).is_some_and(|d| d.is_zero()),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Sequence(values) => values.is_empty(),
        Value::Mapping(fields) => fields.values().all(is_unset),
        Value::Bool(true) | Value::Tagged(_) => false,
    }
}

/// `1m30s`: numbers, each with its unit, larger ones first in no need.
fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" { Some(Duration::ZERO) } else { duration::parse_duration(text, UnitOrder::Any) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::of(serde_yaml_ng::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn what_is_taken_is_read_and_what_is_left_is_unknown() {
        let mut taken = fields("a: 7\nb: yes\nc: 1m30s\nd: ''\ne: {f: hunter2}\ng: 1\n");
        assert_eq!(taken.text("a").unwrap().as_deref(), Some("7"));
        assert!(taken.flag("b").unwrap() && !taken.flag("missing").unwrap());
        assert_eq!(taken.duration("c").unwrap(), Some(Duration::from_secs(90)));
        assert_eq!(taken.text("d").unwrap(), None);
        let fault = taken.fields("e").unwrap().end().unwrap_err().to_string();
        assert!(fault.contains("e.f: there is no such field") && !fault.contains("hunter2"), "{fault}");
        let fault = taken.end().unwrap_err().to_string();
        assert!(fault.contains("g: there is no such field; known are a, b, c"), "{fault}");
    }

    #[test]
    fn a_fault_names_its_field_and_repeats_no_value() {
        type Take = fn(&mut Fields) -> Option<ObjstoreConfigError>;
        let takes: [(&str, Take); 5] = [
            ("a: [hunter2]", |fields| fields.text("a").err()),
            ("a: hunter2", |fields| fields.flag("a").err()),
            ("a: 5hunter2", |fields| fields.duration("a").err()),
            ("a: hunter2", |fields| fields.fields("a").err()),
            ("a: hunter2", |fields| fields.refuse("a", "it is not known here").err()),
        ];
        for (text, take) in takes {
            let fault = take(&mut fields(text)).unwrap().to_string();
            assert!(fault.contains("a: ") && !fault.contains("hunter2"), "{text}: {fault}");
        }
        let secret = fields("a: hunter2").secret("a").unwrap().unwrap();
        assert_eq!(format!("{secret:?} {}", secret.reveal()), "<secret> hunter2");
    }

    #[test]
    fn what_nobody_set_is_neither_refused_nor_told() {
        let text = "a: ''\nb: 0\nc: false\nd: {e: 0s, f: []}\ng: 0s\nh: ~\n";
        let (mut unset, mut ignored) = (fields(text), Vec::new());
        unset.ignore(&["a", "b", "c", "d", "g", "h"], &mut ignored);
        assert_eq!(ignored, [""; 0]);
        unset.end().unwrap();
        let mut set = fields("a: 1\nb: {c: {d: x}}\n");
        set.ignore(&["a", "b"], &mut ignored);
        assert_eq!(ignored, ["a", "b"]);
    }

    #[test]
    fn durations_are_those_of_prometheus() {
        let check =
            |text, ms: Option<u64>| assert_eq!(parse_duration(text), ms.map(Duration::from_millis), "{text}");
        check("0", Some(0));
        check("1m30s", Some(90_000));
        check("250ms", Some(250));
        check("2h", Some(7_200_000));
        for bad in ["", "s", "1", "1x", "-1s", "1.5s", "99999999999999999999s", "9999999999999999y"] {
            check(bad, None);
        }
    }
}
