//! What reads cost: a server is filled and asked one question after the other. Each answer must hold all that was
//! asked for.

use std::path::Path;
use std::time::Instant;

use prost::Message;
use silverback_load::replay::generate::GenerateOptions;
use silverback_proto::prometheus::{
    ChunkedReadResponse, LabelMatcher, Query, ReadRequest, ReadResponse, label_matcher, read_request,
};

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

/// Before the message of a frame.
const CHECKSUM_BYTES: usize = 4;

/// What is asked.
#[derive(Debug)]
struct Question {
    name: &'static str,
    path: String,
    /// Of remote read.
    body: Option<Vec<u8>>,
    holds: Holds,
}

/// What an answer has to hold, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// This text.
    Text(&'static str, usize),
    /// Samples of a remote read.
    Samples(usize),
    /// Samples of a remote read in chunks.
    ChunkedSamples(usize),
}

impl Holds {
    fn times(self) -> usize {
        match self {
            Self::Text(_, times) | Self::Samples(times) | Self::ChunkedSamples(times) => times,
        }
    }

    /// How often an answer holds it; never, where it is none.
    fn found(self, body: &[u8]) -> usize {
        match self {
            Self::Text(text, _) => String::from_utf8_lossy(body).matches(text).count(),
            Self::Samples(_) => samples_of(body).unwrap_or(0),
            Self::ChunkedSamples(_) => samples_of_chunks(body).unwrap_or(0),
        }
    }
}

/// Samples in a remote read's answer; nothing where it isn't one.
pub fn samples_of(body: &[u8]) -> Option<usize> {
    let raw = snap::raw::Decoder::new().decompress_vec(body).ok()?;
    let response = ReadResponse::decode(raw.as_slice()).ok()?;
    let series = response.results.iter().flat_map(|result| &result.timeseries);
    Some(series.map(|series| series.samples.len()).sum())
}

/// Samples in the frames of a remote read in chunks, by what each chunk begins with: their number. A frame is the length
/// of its message as a varint, four bytes of a checksum, and the message.
fn samples_of_chunks(mut body: &[u8]) -> Option<usize> {
    let mut samples = 0;
    while !body.is_empty() {
        let length = prost::decode_length_delimiter(&mut body).ok()?;
        let (message, rest) = body.get(CHECKSUM_BYTES..)?.split_at_checked(length)?;
        let response = ChunkedReadResponse::decode(message).ok()?;
        let chunks = response.chunked_series.iter().flat_map(|series| &series.chunks);
        let counts = chunks.map(|chunk| chunk.data.first_chunk().map(|count| u16::from_be_bytes(*count)));
        samples += counts.map(|count| count.map(usize::from)).sum::<Option<usize>>()?;
        body = rest;
    }
    Some(samples)
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
    let report = send(ground, &server, file, &["--settle=2".to_owned()], &ground.loader_cpus(), &[])?;
    check_stored(&server, [&report])?;
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
    let some_samples = some_targets * sent.series * sent.rounds as usize;
    let series = |selector: &str| format!("/api/v1/series?{range}&match[]={}", ask::escaped(selector));
    let some = format!("{{instance=~\"{SOME}\"}}");
    let read = |kind| Some(remote_read(sent, SOME, kind));
    let [names, values, some_series, all_series, chunks, samples] = QUESTIONS;
    let question = |name, path, body, holds| Question { name, path, body, holds };
    vec![
        question(names, format!("/api/v1/labels?{range}"), None, Holds::Text("\"instance\"", 1)),
        question(
            values,
            format!("/api/v1/label/instance/values?{range}"),
            None,
            Holds::Text(":9100\"", sent.targets),
        ),
        question(some_series, series(&some), None, Holds::Text("\"__name__\"", some_targets * sent.series)),
        question(
            all_series,
            series("{__name__!=\"\"}"),
            None,
            Holds::Text("\"__name__\"", sent.total_series()),
        ),
        question(
            chunks,
            READ_PATH.into(),
            read(read_request::ResponseType::StreamedXorChunks),
            Holds::ChunkedSamples(some_samples),
        ),
        question(
            samples,
            READ_PATH.into(),
            read(read_request::ResponseType::Samples),
            Holds::Samples(some_samples),
        ),
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
    let found = question.holds.found(&answer.body);
    if answer.status != 200 || found != question.holds.times() {
        let text: String = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
        let (status, bytes, wanted) = (answer.status, answer.body.len(), question.holds);
        let answer = format!("{status}, {found} found of {wanted:?} in {bytes} bytes: {text}");
        return Err(RunError::Answer { question: question.name.to_owned(), answer });
    }
    Ok(((after - before) * 1e3, answer_ms))
}

#[cfg(test)]
mod tests {
    use silverback_proto::prometheus::{Chunk, ChunkedSeries, QueryResult, Sample, TimeSeries};

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
        assert_eq!(questions[2].holds, Holds::Text("\"__name__\"", 10_000));
        assert_eq!(questions[3].holds, Holds::Text("\"__name__\"", 100_000));
        assert_eq!(questions[4].holds, Holds::ChunkedSamples(300_000));
        assert_eq!(questions[5].holds, Holds::Samples(300_000));
    }

    #[test]
    fn a_remote_read_says_what_it_wants() {
        let body = remote_read(&options(), SOME, read_request::ResponseType::StreamedXorChunks);
        let raw = snap::raw::Decoder::new().decompress_vec(&body).expect("snappy's");
        let request = ReadRequest::decode(raw.as_slice()).expect("a request");
        assert_eq!(request.accepted_response_types, [1]);
        assert_eq!(request.queries[0].matchers[0].value, SOME);
    }

    #[test]
    fn an_answer_s_samples_are_counted_and_what_is_none_is_told() {
        let series = |count| TimeSeries { samples: vec![Sample::default(); count], ..TimeSeries::default() };
        let results = vec![QueryResult { timeseries: vec![series(3), series(0), series(4)] }];
        let response = ReadResponse { results }.encode_to_vec();
        let body = snap::raw::Encoder::new().compress_vec(&response).expect("a small body");
        assert_eq!(samples_of(&body), Some(7));
        assert_eq!(samples_of(b"alas"), None);
    }

    #[test]
    fn samples_in_chunks_are_counted_frame_by_frame_and_a_cut_answer_is_none() {
        let chunk = |count: u16| Chunk {
            data: [&count.to_be_bytes()[..], b"bits"].concat().into(),
            ..Chunk::default()
        };
        let series = |counts: &[u16]| ChunkedSeries {
            chunks: counts.iter().map(|count| chunk(*count)).collect(),
            ..ChunkedSeries::default()
        };
        let frame = |chunked_series: Vec<ChunkedSeries>| {
            let message =
                ChunkedReadResponse { chunked_series, ..ChunkedReadResponse::default() }.encode_to_vec();
            let mut frame = Vec::new();
            prost::encode_length_delimiter(message.len(), &mut frame).expect("room");
            [frame, vec![0; CHECKSUM_BYTES], message].concat()
        };
        let body = [frame(vec![series(&[120, 300]), series(&[])]), frame(vec![series(&[7])])].concat();
        assert_eq!(samples_of_chunks(&body), Some(427));
        assert_eq!(samples_of_chunks(&body[..body.len() - 1]), None);
        assert_eq!(Holds::ChunkedSamples(427).found(b"alas"), 0);
    }
}
