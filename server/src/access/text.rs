//! Values of the files as serde reads them: plain text that YAML may take for a number, and secrets, which no error
//! repeats.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Text, also where YAML sees a number or a truth value in it: `X-XSS-Protection: 1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text(pub(super) String);

/// Text that is never shown, not in an error either.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// Yes or no, in all of the words that YAML 1.1 has for it, by which Prometheus reads the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct YamlBool(pub(super) bool);

impl<'de> Deserialize<'de> for YamlBool {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(YamlBoolVisitor)
    }
}

struct YamlBoolVisitor;

impl Visitor<'_> for YamlBoolVisitor {
    type Value = YamlBool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(YamlBool(value))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
        match word {
            "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Ok(YamlBool(true)),
            "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Ok(YamlBool(false)),
            _ => Err(E::custom(format!("{word:?} is neither true nor false"))),
        }
    }
}

/// A mapping in which no name stands twice. Where it is none, its error doesn't repeat what is there instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names<T>(pub(super) BTreeMap<String, T>);

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// What each kind of value becomes: none is shown.
macro_rules! scalars {
    ($($visit:ident($type:ty) $(=> $take:expr)?;)+) => {
        $(fn $visit<E: Error>(self, value: $type) -> Result<Self::Value, E> {
            scalars!(@take value $($take)?)
        })+
    };
    (@take $value:ident $take:expr) => { Ok($take($value)) };
    (@take $value:ident) => {{ let _unshown = $value; Err(E::custom("plain text is wanted")) }};
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain text")
    }

    scalars! {
        visit_str(&str) => |text: &str| text.to_owned();
        visit_string(String) => |text: String| text;
        visit_bool(bool) => |value: bool| value.to_string();
        visit_u64(u64) => |value: u64| value.to_string();
        visit_i64(i64) => |value: i64| value.to_string();
        visit_f64(f64) => |value: f64| value.to_string();
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextVisitor).map(Self)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TextVisitor).map(Self)
    }
}

struct NamesVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NamesVisitor<T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping of names to values")
    }

    scalars! {
        visit_str(&str);
        visit_string(String);
        visit_bool(bool);
        visit_u64(u64);
        visit_i64(i64);
        visit_f64(f64);
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut names = BTreeMap::new();
        while let Some(Text(name)) = entries.next_key()? {
            let value = entries.next_value()?;
            if names.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!("{name:?} stands twice")));
            }
        }
        Ok(names)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Names<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NamesVisitor(PhantomData)).map(Self)
    }
}
