//! `silverback-bench section`: what another program printed, as a section of a document that says which code it is
//! about. It reads no figure.

use std::error::Error;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use silverback_benches::founding::document::measured_here;
use silverback_benches::report::commit::{Code, Figures};
use silverback_benches::report::document::{self, DocumentError, Section};

use crate::Ended;

/// What a program may print.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Run a command that measures, and write what it prints into a document, as figures of the commit that is checked out
///
///   silverback-bench section isolation --out docs/performance.md -- benches/isolation
///
/// What the command prints is Markdown. Nothing is written where it fails. `report --check` knows when its figures are
/// older than the code.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SectionArgs {
    /// The section's name in the document
    name: String,
    /// The document
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Its exit code 1 says that a bound is missed, which its tables say, too: no failure
    #[arg(long)]
    judged: bool,
    /// What measures, built of this commit
    #[arg(required = true, last = true)]
    command: Vec<String>,
}

/// Measures and writes.
pub(crate) fn run(arguments: &SectionArgs) -> Ended {
    let SectionArgs { name, out, .. } = arguments;
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", out.display());
    let read = || fs::read_to_string(out).map_err(|error| failed(&error));
    if !document::names(&read()?).map_err(|error| failed(&error))?.contains(name) {
        return Err(Box::new(DocumentError::NoPlace(name.clone())));
    }
    let figures = Figures::of(out, name);
    let before = Code::committed(Path::new("."), figures)?;
    let body = printed(&arguments.command, arguments.judged)?;
    // Once more: someone may have worked on the code meanwhile.
    before.check_same(&Code::look(Path::new("."), figures)?)?;
    let body = format!("{}\n\n{}", measured_here(&shown(&arguments.command)), body.trim());
    let section = Section { name: name.clone(), body };
    let text = document::spliced(&read()?, &[section], &before).map_err(|error| failed(&error))?;
    fs::write(out, text).map_err(|error| failed(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// A command as a document has it: where a program lies on this machine is nobody else's.
fn shown(command: &[String]) -> String {
    let shown = |word: &String| match Path::new(word).file_name() {
        Some(name) if word.starts_with('/') => format!("path/to/{}", name.display()),
        _ => word.clone(),
    };
    command.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// What a command prints, once it has ended well.
fn printed(command: &[String], judged: bool) -> Result<String, Box<dyn Error>> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let failed = |why: &dyn std::fmt::Display| format!("{program}: {why}");
    let running = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn();
    let mut running = running.map_err(|error| failed(&error))?;
    let (mut body, mut stdout) = (String::new(), running.stdout.take().ok_or("no standard output")?);
    let read = stdout.by_ref().take(BODY_BYTES_MAX).read_to_string(&mut body);
    // One that prints more finds nobody to read it, and fails.
    drop(stdout);
    let status = running.wait().map_err(|error| failed(&error))?;
    read.map_err(|error| failed(&error))?;
    let has_ended_well = status.success() || judged && status.code() == Some(1);
    if !has_ended_well {
        return Err(failed(&format!("{status}, so nothing is written")).into());
    }
    if body.trim().is_empty() {
        return Err(failed(&"nothing was printed, so nothing is written").into());
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str, judged: bool) -> Result<String, String> {
        let command = ["sh", "-c", script].map(str::to_owned);
        printed(&command, judged).map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_is_shown_without_where_programs_lie_on_this_machine() {
        let command = ["target/release/bench", "--prometheus", "/opt/p/prometheus", "--rounds", "3"];
        let expect = "target/release/bench --prometheus path/to/prometheus --rounds 3";
        assert_eq!(shown(&command.map(str::to_owned)), expect);
    }

    #[test]
    fn only_what_a_command_that_ended_well_has_printed_is_taken() {
        assert_eq!(of("echo figures", false), Ok("figures\n".to_owned()));
        assert_eq!(of("echo figures; exit 1", true), Ok("figures\n".to_owned()));
        for (script, judged) in
            [("echo figures; exit 1", false), ("echo figures; exit 2", true), ("true", false)]
        {
            let error = of(script, judged).expect_err("no figures");
            assert!(error.contains("nothing is written"), "{error}");
        }
        let error = of("yes figures", false).expect_err("too many");
        assert!(error.contains("nothing is written"), "{error}");
        assert!(printed(&["/nowhere/bench".to_owned()], false).is_err());
    }
}
