//! Values of the files as serde reads them: plain text that YAML may take for a number, and secrets, which no error
//! repeats.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

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

/// Refuses each kind of value with what is wanted instead, and shows none.
macro_rules! no_scalars {
    ($wanted:literal) => {
        no_scalars! { $wanted; visit_str(&str) visit_string(String) visit_bool(bool) visit_u64(u64) visit_i64(i64) visit_f64(f64) }
    };
    ($wanted:literal; $($visit:ident($type:ty))+) => {
        $(fn $visit<E: Error>(self, _unshown: $type) -> Result<Self::Value, E> {
            Err(E::custom($wanted))
        })+
    };
}

/// Takes each kind of value as text.
macro_rules! scalars_as_text {
    ($($visit:ident($type:ty))+) => {
        $(fn $visit<E: Error>(self, value: $type) -> Result<Self::Value, E> {
            Ok(value.to_string())
        })+
    };
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain text")
    }

    scalars_as_text! { visit_str(&str) visit_bool(bool) visit_u64(u64) visit_i64(i64) visit_f64(f64) }
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

/// A list. Where it is none, its error doesn't repeat what is there instead.
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
        f.write_str("a list")
    }

    no_scalars!("a list is wanted");

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

/// Fields with values. Where there are none, its error doesn't repeat what is there instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields<T>(pub(super) T);

struct FieldsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FieldsVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fields with values")
    }

    no_scalars!("fields with values are wanted");

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(entries))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Fields<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(FieldsVisitor(PhantomData)).map(Self)
    }
}

struct NamesVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NamesVisitor<T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping of names to values")
    }

    no_scalars!("plain text is wanted");

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
