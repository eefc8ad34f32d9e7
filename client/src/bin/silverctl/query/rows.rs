//! Series as CSV: one header for all, a row for each sample.

use std::borrow::Cow;
use std::io::Write;

use silverback_model::printable::printable;

use super::{QueriedSeries, value_text};
use crate::error::Done;

/// Rows of series that have no labels but these.
#[derive(Debug)]
pub(super) struct QueryRows {
    names: Vec<String>,
    reader: RowsReader,
    is_headed: bool,
}

/// Who reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowsReader {
    /// A program: every text is exact.
    Program,
    /// A person at a terminal, which obeys what isn't printable. CSV has no escapes of its own.
    Person,
}

impl QueryRows {
    /// With columns for these labels.
    pub(super) const fn new(names: Vec<String>, reader: RowsReader) -> Self {
        Self { names, reader, is_headed: false }
    }

    fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.reader {
            RowsReader::Program => text.into(),
            RowsReader::Person => printable(text),
        }
    }

    /// Prints a series, and the header before the first.
    pub(super) fn print(&mut self, series: &QueriedSeries, out: &mut impl Write) -> Done {
        self.print_header(out)?;
        let mut rows = csv::Writer::from_writer(out);
        let labels: Vec<_> = self.names.iter().map(|name| self.shown(series.labels.get(name))).collect();
        for (at_ms, value) in &series.samples {
            rows.write_field(at_ms.to_string()).map_err(io_error)?;
            rows.write_field(value_text(*value)).map_err(io_error)?;
            rows.write_record(labels.iter().map(|label| label.as_bytes())).map_err(io_error)?;
        }
        Ok(rows.flush()?)
    }

    /// Prints the header, unless it is there already.
    pub(super) fn print_header(&mut self, out: &mut impl Write) -> Done {
        if std::mem::replace(&mut self.is_headed, true) {
            return Ok(());
        }
        let mut header = csv::Writer::from_writer(out);
        header.write_field("timestamp").map_err(io_error)?;
        header.write_field("value").map_err(io_error)?;
        header.write_record(self.names.iter().map(|name| self.shown(name).into_owned())).map_err(io_error)?;
        Ok(header.flush()?)
    }
}

/// So that a closed output is known as one.
fn io_error(error: csv::Error) -> std::io::Error {
    error.into()
}
