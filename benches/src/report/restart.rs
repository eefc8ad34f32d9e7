//! One restart: a server is filled, killed and started again on its data; afterwards all samples must be there.

use std::path::Path;

use silverback_load::replay::generate::GenerateOptions;
use silverback_proto::prometheus::read_request::ResponseType;

use super::ask;
use super::failure::RunError;
use super::reads::{READ_PATH, remote_read, samples_of};
use super::rounds::{Ground, Subject};
use super::server::Server;
use super::writes::{check_stored, figure, send};
use crate::founding::meter::Figures;

/// From the process' start until it takes writes.
pub const READY_S: &str = "ready_s";

/// Fills a server with what lies in `file`, kills it and measures its next start.
pub fn restart(ground: &Ground, subject: &Subject<'_>, file: &Path) -> Result<Figures, RunError> {
    let (server, _) = ground.start(subject, &ground.cpus, &[], &[])?;
    let report = send(ground, &server, file, &[], &ground.cpus, &[])?;
    check_stored(&server, [&report])?;
    server.kill();
    let (server, started) = ground.start(subject, &ground.cpus, &[], &[])?;
    let (sent, stored) = (report.main.samples_sent, count(&server, &report.dataset)?);
    if stored != sent {
        return Err(RunError::NotStored { sent, acknowledged: report.main.samples_acked, stored });
    }
    server.kill();
    Ok([
        (READY_S, started.ready_s),
        (figure::CPU_S, started.cpu_s),
        (figure::RESIDENT, started.ready_resident_bytes as f64),
        (figure::RESIDENT_PEAK, started.ready_peak_bytes as f64),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into())
}

/// Samples that it has, a tenth of the targets at a time: all at once would take too much.
fn count(server: &Server, sent: &GenerateOptions) -> Result<u64, RunError> {
    let mut samples = 0;
    for digit in 0..10 {
        let instances = format!(".*{digit}:9100");
        let body = remote_read(sent, &instances, ResponseType::Samples);
        let answer = ask::post_snappy(server.address(), READ_PATH, &body)?;
        let wrong = || RunError::Answer {
            question: format!("the samples of {instances}"),
            answer: format!("{}, {} bytes", answer.status, answer.body.len()),
        };
        samples += samples_of(&answer.body)
            .map(|samples| samples as u64)
            .filter(|_| answer.status == 200)
            .ok_or_else(wrong)?;
    }
    Ok(samples)
}
