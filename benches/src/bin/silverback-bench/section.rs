//! `silverback-bench section`: what another program printed, as a section of a document that says which code it is
//! about. It reads no figure.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use silverback_benches::report::commit::Code;
use silverback_benches::report::document::{self, DocumentError, Section};

use crate::Ended;

/// What is read of it at most.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Write what another program measured into a document, as figures of the commit that is checked out
///
///   benches/reads | silverback-bench section reads-alone --out docs/performance.md
///
/// The program's figures are read from standard input: Markdown. `report --check` knows when they are older than
/// the code.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct SectionArgs {
    /// The section's name in the document
    name: String,
    /// The document
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Reads and writes it.
pub fn run(arguments: &SectionArgs) -> Ended {
    let before = Code::look(Path::new("."))?;
    if let Some(path) = before.changed.first() {
        return Err(format!("{path} isn't committed: figures belong to a commit").into());
    }
    let mut body = String::new();
    io::stdin().take(BODY_BYTES_MAX).read_to_string(&mut body)?;
    if body.trim().is_empty() {
        return Err("nothing came on standard input, and so nothing is written".into());
    }
    before.check_same(&Code::look(Path::new("."))?)?;
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", arguments.out.display());
    let text = fs::read_to_string(&arguments.out).map_err(|error| failed(&error))?;
    if !document::names(&text).map_err(|error| failed(&error))?.contains(&arguments.name) {
        return Err(Box::new(DocumentError::NoPlace(arguments.name.clone())));
    }
    let section = Section { name: arguments.name.clone(), body };
    let text = document::spliced(&text, &[section], &before).map_err(|error| failed(&error))?;
    fs::write(&arguments.out, text).map_err(|error| failed(&error))?;
    Ok(ExitCode::SUCCESS)
}
