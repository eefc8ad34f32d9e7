//! Values of the files as serde reads them: plain text that YAML may take for a number, secrets, lists and mappings. Errors
//! may repeat what is there: [`shown`](super::shown) leaves that out.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

use super::shown::{A_LIST, NAMES_WITH_VALUES, PLAIN_TEXT, TRUE_OR_FALSE};

/// Text, also where YAML sees a number or a truth value in it: `X-XSS-Protection: 1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct YamlText(pub(super) String);

/// Text that is never shown.
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
        f.write_str(TRUE_OR_FALSE)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(YamlBool(value))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
        match word {
            "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Ok(YamlBool(true)),
            "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Ok(YamlBool(false)),
            _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
        }
    }
}

/// A mapping in which no name occurs twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names<T>(pub(super) BTreeMap<String, T>);

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// Takes each kind of value as text.
macro_rules! scalars_as_text {
    ($($visit:ident($type:ty))+) => {
        $(fn $visit<E: Error>(self, value: $type) -> Result<Self::Value, E> {
            (self.read)(value.to_string())
                .ok_or_else(|| E::invalid_value(Unexpected::Other("another text"), &self.expected))
        })+
    };
}

struct TextVisitor<T> {
    expected: &'static str,
    read: fn(String) -> Option<T>,
}

impl<'de, T> Visitor<'de> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    scalars_as_text! { visit_str(&str) visit_bool(bool) visit_u64(u64) visit_i64(i64) visit_f64(f64) }
}

/// A text that means something; otherwise an error says that something else is expected, and its place is the text's.
pub(super) fn read_text<'de, D: Deserializer<'de>, T>(
    from: D,
    expected: &'static str,
    read: fn(String) -> Option<T>,
) -> Result<T, D::Error> {
    from.deserialize_any(TextVisitor { expected, read })
}

impl<'de> Deserialize<'de> for YamlText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read_text(from, PLAIN_TEXT, |text| Some(Self(text)))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read_text(from, PLAIN_TEXT, |text| Some(Self(text)))
    }
}

/// A list; nothing is an empty one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(A_LIST)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element()? {
            list.push(value);
        }
        Ok(list)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ListVisitor(PhantomData)).map(Self)
    }
}

struct NamesVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NamesVisitor<T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES_WITH_VALUES)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut names = BTreeMap::new();
        while let Some(YamlText(name)) = entries.next_key()? {
            let value = entries.next_value()?;
            if names.insert(name, value).is_some() {
                return Err(A::Error::custom("duplicate name"));
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
