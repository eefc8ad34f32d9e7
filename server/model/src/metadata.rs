//! Metadata: what is said of a metric by its name. Its types, why some isn't kept, and counts of that. Where it is kept
//! is not known here.

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{METADATA_NAME_BYTES_MAX, METADATA_TEXT_BYTES_MAX};
use crate::named;
use crate::named::counted;
use crate::series_id::ShardId;

named! {
    /// A metric's type, in the numbers of both versions of remote write.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
    #[repr(u8)]
    pub enum MetricType {
        /// It isn't said, or isn't one of these.
        #[default]
        Unknown = "unknown",
        /// It only rises.
        Counter = "counter",
        /// It rises and falls.
        Gauge = "gauge",
        /// It counts in buckets.
        Histogram = "histogram",
        /// Its buckets' counts rise and fall.
        GaugeHistogram = "gaugehistogram",
        /// It has quantiles.
        Summary = "summary",
        /// Its labels say something.
        Info = "info",
        /// It says which of some states hold.
        StateSet = "stateset",
    }
}

impl MetricType {
    /// The type of a number: unknown where none has it.
    pub fn of_number(number: u64) -> Self {
        let known = Self::ALL.into_iter().find(|known| *known as u64 == number);
        known.unwrap_or_default()
    }

    /// The type of a name, as the text formats have them (`untyped` is Prometheus' own): unknown where none has it.
    pub fn of_name(name: &[u8]) -> Self {
        let known = Self::ALL.into_iter().find(|known| known.as_str().as_bytes() == name);
        known.unwrap_or_default()
    }
}

/// What is said of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metadata<'a> {
    /// Of which: its family's name.
    pub name: &'a str,
    /// Its type.
    pub kind: MetricType,
    /// What it means, for people.
    pub help: &'a str,
    /// What it is measured in.
    pub unit: &'a str,
}

impl<'a> Metadata<'a> {
    /// From texts as they came.
    pub fn new(
        name: &'a [u8],
        kind: MetricType,
        help: &'a [u8],
        unit: &'a [u8],
    ) -> Result<Self, MetadataRejected> {
        if name.is_empty() {
            return Err(MetadataRejected::NoName);
        }
        if name.len() > METADATA_NAME_BYTES_MAX || help.len() + unit.len() > METADATA_TEXT_BYTES_MAX {
            return Err(MetadataRejected::TooLong);
        }
        let text = |bytes| str::from_utf8(bytes).map_err(|_| MetadataRejected::Malformed);
        Ok(Self { name: text(name)?, kind, help: text(help)?, unit: text(unit)? })
    }

    /// Where it is kept, of so many shards: by the name alone, wherever its series are.
    pub fn home(&self, shards: usize) -> ShardId {
        ShardId((xxh3_64(self.name.as_bytes()) % shards as u64) as u16)
    }

    /// Whether it says anything but that there is such a metric.
    pub fn says_something(&self) -> bool {
        self.kind != MetricType::Unknown || !self.help.is_empty() || !self.unit.is_empty()
    }
}

named! {
    /// Why metadata isn't kept. It never fails a request, as in Prometheus.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum MetadataRejected {
        /// It can't be read, or is no UTF-8.
        Malformed = "malformed",
        /// It doesn't say of which metric.
        NoName = "no_name",
        /// Its name, or its help and unit together, are longer than is kept.
        TooLong = "too_long",
        /// Its request has more of it than is accepted.
        TooMany = "too_many",
        /// As much is kept as may be.
        Full = "full",
    }
}

counted! {
    /// Metadata that was not kept, by reason.
    pub struct MetadataRejectedCounts by MetadataRejected;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_remote_write_s_numbers_and_prometheus_names() {
        for (number, kind) in MetricType::ALL.into_iter().enumerate() {
            assert_eq!(MetricType::of_number(number as u64), kind);
            assert_eq!(MetricType::of_name(kind.as_str().as_bytes()), kind);
        }
        assert_eq!((MetricType::of_number(99), MetricType::of_name(b"untyped")), Default::default());
    }

    #[test]
    fn what_is_no_metadata_is_refused_by_reason() {
        let check = |name: &[u8], help: &[u8], unit: &[u8], expect| {
            assert_eq!(Metadata::new(name, MetricType::Gauge, help, unit).err(), expect);
        };
        check(b"up", &vec![b'x'; METADATA_TEXT_BYTES_MAX - 1], b"s", None);
        check(b"up", &vec![b'x'; METADATA_TEXT_BYTES_MAX], b"s", Some(MetadataRejected::TooLong));
        check(&vec![b'x'; METADATA_NAME_BYTES_MAX + 1], b"", b"", Some(MetadataRejected::TooLong));
        check(b"", b"help", b"", Some(MetadataRejected::NoName));
        check(b"up", b"\xff", b"", Some(MetadataRejected::Malformed));
    }
}
