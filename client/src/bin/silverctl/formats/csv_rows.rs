//! CSV below a header that names the columns: `timestamp`, `value`, and any labels.
//!
//! `name` is the metric's name, unless there is a column `__name__`. A row is on one line, so
//! that a quote too few costs that line alone. An empty label is left out, an empty timestamp is now.

use csv::StringRecord;

use super::{LineEntry, LineError, parse_value, text};
use crate::label_set::{LabelSet, METRIC_NAME};
use crate::time_text::parse_rfc3339_ms;

const TIMESTAMP: &str = "timestamp";
const VALUE: &str = "value";
const NAME: &str = "name";

/// What is in which column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CsvRows {
    columns: Vec<Column>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Column {
    Timestamp,
    Value,
    Label(String),
}

impl CsvRows {
    /// Whether a line could be a header.
    pub(crate) fn is_header(line: &[u8]) -> bool {
        fields(line).and_then(|fields| Self::of(&fields)).is_ok_and(|rows| rows.columns.len() > 1)
    }

    /// Reads the header.
    pub(crate) fn new(line: &[u8]) -> Result<Self, LineError> {
        Self::of(&fields(line)?)
    }

    fn of(header: &StringRecord) -> Result<Self, LineError> {
        let has = |wanted: &str| header.iter().any(|field| field.trim() == wanted);
        let has_metric_name = has(METRIC_NAME);
        if !has(VALUE) {
            return Err(LineError::Header(VALUE));
        }
        if !has_metric_name && !has(NAME) {
            return Err(LineError::Header(NAME));
        }
        let column = |field: &str| match field.trim() {
            TIMESTAMP => Column::Timestamp,
            VALUE => Column::Value,
            NAME if !has_metric_name => Column::Label(METRIC_NAME.to_owned()),
            label => Column::Label(label.to_owned()),
        };
        Ok(Self { columns: header.iter().map(column).collect() })
    }

    /// Reads a row.
    pub(crate) fn parse(&self, line: &[u8]) -> Result<LineEntry, LineError> {
        let row = fields(line)?;
        let (expected, found) = (self.columns.len(), row.len());
        if found != expected {
            return Err(LineError::FieldCount { expected, found });
        }
        let (mut labels, mut timestamp_ms, mut value) = (Vec::new(), None, None);
        for (column, field) in self.columns.iter().zip(&row) {
            match column {
                Column::Timestamp => timestamp_ms = parse_timestamp(field.trim())?,
                Column::Value => value = Some(parse_value(field.trim())?),
                Column::Label(_) if field.is_empty() => {}
                Column::Label(name) => labels.push((name.clone(), field.to_owned())),
            }
        }
        let value = value.ok_or(LineError::Header(VALUE))?;
        Ok(LineEntry { labels: LabelSet::new(labels)?, samples: vec![(timestamp_ms, value)] })
    }
}

fn fields(line: &[u8]) -> Result<StringRecord, LineError> {
    let line = text(line)?;
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .buffer_capacity(line.len().clamp(1, 64 << 10))
        .from_reader(line.as_bytes());
    let mut fields = StringRecord::new();
    reader.read_record(&mut fields)?;
    Ok(fields)
}

/// Milliseconds since the Unix epoch, or RFC 3339; `None` where it is left out.
fn parse_timestamp(field: &str) -> Result<Option<i64>, LineError> {
    if field.is_empty() {
        return Ok(None);
    }
    let timestamp_ms = field.parse().ok().or_else(|| parse_rfc3339_ms(field));
    timestamp_ms.map(Some).ok_or_else(|| LineError::unexpected("a timestamp", field))
}
