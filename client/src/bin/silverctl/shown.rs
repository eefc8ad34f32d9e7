//! How a listing is shown: a table for people, JSON for programs.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::Value as Json;

use crate::failure::{Failure, output};
use crate::table::Table;

/// Chooses how.
#[derive(Debug, Clone, Copy, Args)]
pub struct ShownArgs {
    /// How it is shown.
    #[arg(long, short, visible_alias = "format", value_enum, default_value_t = Shown::Table)]
    output: Shown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shown {
    /// Columns.
    Table,
    /// JSON lines, one for each row.
    Json,
}

impl ShownArgs {
    /// Prints all of `items`, by either of two ways to show one.
    pub fn print<T>(
        self,
        items: &[T],
        table: impl FnOnce(&[T]) -> Table,
        json: impl Fn(&T) -> Json,
    ) -> Result<(), Failure> {
        let mut out = output();
        match self.output {
            Shown::Table => table(items).lines().try_for_each(|line| writeln!(out, "{line}"))?,
            Shown::Json => items.iter().try_for_each(|item| writeln!(out, "{}", json(item)))?,
        }
        Ok(out.flush()?)
    }
}
