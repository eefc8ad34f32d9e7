//! One expression asked of one server: its answer, and what it cost the server.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::answer::Matrix;
use super::dataset::Extent;
use crate::report::ask::{self, escaped};
use crate::report::failure::RunError;
use crate::report::server::Server;

/// Between two steps.
pub const STEP_S: i64 = 60;
/// What a server does right after an answer, as a garbage collector does, is its own.
const AFTER: Duration = Duration::from_millis(20);

/// What one question cost.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Of the server's CPU time.
    pub cpu_s: f64,
    /// From the question to the end of its answer.
    pub wall_s: f64,
    /// The most resident memory, beyond what the server has right before.
    pub grown_bytes: f64,
}

/// The path of a question.
pub fn path(text: &str, extent: &Extent) -> String {
    let (start_s, end_s) = (extent.start_ms / 1000, extent.end_ms() / 1000);
    // VictoriaMetrics keeps answers unless asked not to.
    format!("/api/v1/query_range?query={}&start={start_s}&end={end_s}&step={STEP_S}&nocache=1", escaped(text))
}

/// Asks once.
pub fn asked(server: &Server, text: &str, extent: &Extent) -> Result<(Cost, Vec<u8>), RunError> {
    let process = server.process()?;
    forget_peak(server.pid())?;
    let (before, began) = (process.usage()?, Instant::now());
    let body = answered(server, text, extent)?;
    let wall_s = began.elapsed().as_secs_f64();
    thread::sleep(AFTER);
    let after = process.usage()?;
    let grown_bytes = after.resident_peak_bytes.saturating_sub(before.resident_bytes) as f64;
    Ok((Cost { cpu_s: after.cpu_s - before.cpu_s, wall_s, grown_bytes }, body))
}

/// An answer that is one.
pub fn answered(server: &Server, text: &str, extent: &Extent) -> Result<Vec<u8>, RunError> {
    let answer = ask::get(server.address(), None, &path(text, extent))?;
    if answer.status == 200 {
        return Ok(answer.body);
    }
    let words: String = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
    Err(RunError::Answer { question: text.to_owned(), answer: format!("{}, {words}", answer.status) })
}

/// An answer, read.
pub fn matrix(text: &str, body: &[u8]) -> Result<Matrix, RunError> {
    Matrix::parse(body).map_err(|error| RunError::Answer {
        question: text.to_owned(),
        answer: format!("can't be read: {error}"),
    })
}

/// The most resident memory is counted from now on.
fn forget_peak(pid: i32) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5")
}
