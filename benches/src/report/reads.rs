//! What reads cost: a server is filled and asked one question after the other. Each answer must hold all that was
//! asked for.

use std::path::Path;
use std::slice;
use std::time::Instant;

use prost::Message;
use silverback_load::replay::generate::GenerateOptions;
use silverback_proto::prometheus::{LabelMatcher, Query, ReadRequest, label_matcher, read_request};

use super::ask;
use super::failure::RunError;
use super::rounds::{Ground, Subject};
use super::server::Server;
use super::side::Kind;
use super::writes::{check_stored, figure, send};
use crate::founding::meter::Figures;

/// From the question to the end of its answer.
pub const ANSWER_MS: &str = "answer_ms";
/// The server's CPU time for it.
pub const CPU_MS: &str = "cpu_ms";

/// As often as each question is asked; the median counts.
const TIMES: usize = 3;
/// Targets that the questions about some of the series are about.
const SOME_TARGETS: usize = 20;
/// Their `instance`: the targets of numbers 0 to 19.
const SOME: &str = "10[.]16[.]0[.](1?[0-9]):9100";

/// What is asked.
#[derive(Debug)]
struct Question {
    name: &'static str,
    path: String,
    /// Of remote read.
    body: Option<Vec<u8>>,
    /// What its answer holds so often, where it is text.
    holds: Option<(&'static str, usize)>,
}

/// Where remote reads go.
pub const READ_PATH: &str = "/api/v1/read";

/// The questions' names, in the tables' order.
pub const QUESTIONS: [&str; 6] = [
    "label names",
    "values of `instance`",
    "series, a tenth of them",
    "series, all",
    "remote read, chunks of a tenth",
    "remote read, samples of a tenth",
];

/// Fills a server and asks it everything.
pub fn reads(
    ground: &Ground,
    subject: &Subject<'_>,
    file: &Path,
) -> Result<Vec<(String, Figures)>, RunError> {
    let (server, _) = ground.start(subject, &ground.server_cpus(), &[], &[])?;
    // Asked once it has put in order what came in.
    let report = send(ground, &server, file, &["--settle=3".to_owned()], &ground.loader_cpus(), &[])?;
    check_stored(&server, slice::from_ref(&report))?;
    let kind = subject.side.kind();
    let asked = questions(&report.dataset).into_iter();
    // VictoriaMetrics has no remote read.
    let asked = asked.filter(|question| kind != Kind::VictoriaMetrics || question.body.is_none());
    let mut all = Vec::new();
    for question in asked {
        all.push((question.name.to_owned(), measured(&server, &question)?));
    }
    server.stop()?;
    Ok(all)
}

fn questions(sent: &GenerateOptions) -> Vec<Question> {
    let (start_ms, end_ms) = range_ms(sent);
    let range = format!("start={}&end={}", start_ms / 1000, end_ms / 1000 + 1);
    let some_targets = SOME_TARGETS.min(sent.targets);
    let series = |selector: &str| format!("/api/v1/series?{range}&match[]={}", ask::escaped(selector));
    let some = format!("{{instance=~\"{SOME}\"}}");
    let read = |kind| Some(remote_read(sent, SOME, kind));
    let [names, values, some_series, all_series, chunks, samples] = QUESTIONS;
    let question = |name, path, body, holds| Question { name, path, body, holds };
    vec![
        question(names, format!("/api/v1/labels?{range}"), None, Some(("\"instance\"", 1))),
        question(
            values,
            format!("/api/v1/label/instance/values?{range}"),
            None,
            Some((":9100\"", sent.targets)),
        ),
        question(some_series, series(&some), None, Some(("\"__name__\"", some_targets * sent.series))),
        question(all_series, series("{__name__!=\"\"}"), None, Some(("\"__name__\"", sent.total_series()))),
        question(chunks, READ_PATH.into(), read(read_request::ResponseType::StreamedXorChunks), None),
        question(samples, READ_PATH.into(), read(read_request::ResponseType::Samples), None),
    ]
}

/// The compressed body of a remote read of all samples that were sent of some instances, by a regular expression.
pub fn remote_read(sent: &GenerateOptions, instances: &str, kind: read_request::ResponseType) -> Vec<u8> {
    let (start_timestamp_ms, end_timestamp_ms) = range_ms(sent);
    let matcher = LabelMatcher {
        r#type: label_matcher::Type::Re as i32,
        name: "instance".to_owned(),
        value: instances.to_owned(),
    };
    let query = Query { start_timestamp_ms, end_timestamp_ms, matchers: vec![matcher], ..Query::default() };
    let request = ReadRequest { queries: vec![query], accepted_response_types: vec![kind as i32] };
    snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).expect("a small body")
}

/// From the first to after the last timestamp that was sent.
fn range_ms(sent: &GenerateOptions) -> (i64, i64) {
    let start_ms = sent.start_ms.unwrap_or_default();
    (start_ms, start_ms + i64::from(sent.rounds) * i64::from(sent.interval_ms))
}

/// The median of some askings.
fn measured(server: &Server, question: &Question) -> Result<Figures, RunError> {
    let mut all = (0..TIMES).map(|_| asked(server, question)).collect::<Result<Vec<_>, _>>()?;
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (cpu_ms, answer_ms) = all[TIMES / 2];
    let resident = server.process()?.usage()?.resident_bytes as f64;
    Ok([(CPU_MS, cpu_ms), (ANSWER_MS, answer_ms), (figure::RESIDENT, resident)]
        .map(|(name, value)| (name.to_owned(), value))
        .into())
}

/// CPU time of the server and time of the wall's clock, in milliseconds.
fn asked(server: &Server, question: &Question) -> Result<(f64, f64), RunError> {
    let process = server.process()?;
    let (before, began) = (process.usage()?.cpu_s, Instant::now());
    let answer = match &question.body {
        None => ask::get(server.address(), None, &question.path)?,
        Some(body) => ask::post_snappy(server.address(), &question.path, body)?,
    };
    let (answer_ms, after) = (began.elapsed().as_secs_f64() * 1e3, process.usage()?.cpu_s);
    let found = |needle: &str| String::from_utf8_lossy(&answer.body).matches(needle).count();
    let is_whole = match question.holds {
        Some((needle, times)) => found(needle) == times,
        None => !answer.body.is_empty(),
    };
    if answer.status != 200 || !is_whole {
        let text: String = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
        let wanted = question.holds.map_or_else(String::new, |(needle, times)| {
            format!("{} of {times} × {needle} in ", found(needle))
        });
        let answer = format!("{}, {wanted}{} bytes: {text}", answer.status, answer.body.len());
        return Err(RunError::Answer { question: question.name.to_owned(), answer });
    }
    Ok(((after - before) * 1e3, answer_ms))
}

#[cfg(test)]
mod tests {
    use super::super::loads::{Size, Work, all};
    use super::*;

    fn options() -> GenerateOptions {
        let load = all(Size::Full).into_iter().find(|load| load.name == "reads").expect("a load");
        let Work::Reads(options) = load.work else { panic!("reads don't read") };
        options
    }

    #[test]
    fn the_questions_are_those_of_the_table_and_know_how_much_is_in_their_answers() {
        let options = options().with_fixed_start();
        let questions = questions(&options);
        assert_eq!(questions.iter().map(|question| question.name).collect::<Vec<_>>(), QUESTIONS);
        assert_eq!(questions[2].holds, Some(("\"__name__\"", 10_000)));
        assert_eq!(questions[3].holds, Some(("\"__name__\"", 100_000)));
    }

    #[test]
    fn a_remote_read_says_what_it_wants() {
        let body = remote_read(&options(), SOME, read_request::ResponseType::StreamedXorChunks);
        let raw = snap::raw::Decoder::new().decompress_vec(&body).expect("snappy's");
        let request = ReadRequest::decode(raw.as_slice()).expect("a request");
        assert_eq!(request.accepted_response_types, [1]);
        assert_eq!(request.queries[0].matchers[0].value, SOME);
    }
}
