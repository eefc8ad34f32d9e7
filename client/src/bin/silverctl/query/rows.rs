//! Series as CSV: one header for all, a row for each sample.

use std::io::Write;

use super::{Series, value_text};
use crate::failure::Failure;

/// Rows of series that have no labels but these.
#[derive(Debug)]
pub struct Rows {
    names: Vec<String>,
    is_headed: bool,
}

impl Rows {
    /// With columns for these labels.
    pub const fn new(names: Vec<String>) -> Self {
        Self { names, is_headed: false }
    }

    /// Prints a series, and the header before the first.
    pub fn print(&mut self, series: &Series, out: &mut impl Write) -> Result<(), Failure> {
        self.print_header(out)?;
        let mut rows = csv::Writer::from_writer(out);
        let labels: Vec<&str> = self.names.iter().map(|name| series.labels.get(name)).collect();
        for (at_ms, value) in &series.samples {
            rows.write_field(at_ms.to_string()).map_err(io_error)?;
            rows.write_field(value_text(*value)).map_err(io_error)?;
            rows.write_record(&labels).map_err(io_error)?;
        }
        Ok(rows.flush()?)
    }

    /// Prints the header, unless it stands there already.
    pub fn print_header(&mut self, out: &mut impl Write) -> Result<(), Failure> {
        if std::mem::replace(&mut self.is_headed, true) {
            return Ok(());
        }
        let mut header = csv::Writer::from_writer(out);
        header.write_field("timestamp").map_err(io_error)?;
        header.write_field("value").map_err(io_error)?;
        header.write_record(&self.names).map_err(io_error)?;
        Ok(header.flush()?)
    }
}

/// So that a closed output is known as one.
fn io_error(error: csv::Error) -> std::io::Error {
    error.into()
}
