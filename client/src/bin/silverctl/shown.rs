//! How a listing is shown: a table for people, JSON for programs.

use std::io::{IsTerminal, Write};

use clap::{Args, ValueEnum};
use serde_json::Value as Json;
use silverback_model::printable::printable_json;

use crate::error::{Done, output};
use crate::table::{Table, cut};

/// Chooses how.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ShownArgs {
    /// How it is shown.
    #[arg(long, short, visible_alias = "format", value_enum, default_value_t = Shown::Table)]
    output: Shown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shown {
    /// Columns.
    Table,
    /// JSON lines, one for each row; also called jsonl.
    #[value(alias = "jsonl")]
    Json,
}

impl ShownArgs {
    /// Prints all of `items`, by either of two ways to show one.
    pub(crate) fn print<T>(
        self,
        items: &[T],
        table: impl FnOnce(&[T]) -> Table,
        json: impl Fn(&T) -> Json,
    ) -> Done {
        match self.output {
            Shown::Table => print(table(items).lines()),
            Shown::Json => print(items.iter().map(|item| json_line(&json(item)))),
        }
    }

    /// Like [`print`](Self::print), where the last column of a table may be longer than its reader cares for: it is
    /// cut at the terminal's edge.
    pub(crate) fn print_cut<T>(
        self,
        items: &[T],
        table: impl FnOnce(&[T]) -> Table,
        json: impl Fn(&T) -> Json,
    ) -> Done {
        match (self.output, terminal_width()) {
            (Shown::Table, Some(width)) => print(table(items).lines().map(|line| cut(&line, width))),
            (Shown::Table, None) | (Shown::Json, _) => self.print(items, table, json),
        }
    }

    /// Prints all of `items`, a line each, by either of two ways to show one.
    pub(crate) fn print_lines<T>(
        self,
        items: &[T],
        line: impl Fn(&T) -> String,
        json: impl Fn(&T) -> Json,
    ) -> Done {
        match self.output {
            Shown::Table => print(items.iter().map(line)),
            Shown::Json => print(items.iter().map(|item| json_line(&json(item)))),
        }
    }
}

/// In characters; none where the output isn't a terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    std::io::stdout().is_terminal().then(|| usize::from(console::Term::stdout().size().1))
}

fn print(lines: impl Iterator<Item = String>) -> Done {
    let mut out = output();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

/// For programs, and safe for a terminal, too.
fn json_line(json: &Json) -> String {
    printable_json(&json.to_string()).into_owned()
}
