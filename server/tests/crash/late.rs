//! Kill -9 after native histograms that came late: they are there afterwards, by the log, by a checkpoint with the log
//! after it, and on another number of shards.

use prost::Message;
use silverback::api::ingest::remote_write::Version;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{Buckets, Histogram, Span};
use silverback_node_test_support::request::{PATH, Series, body, headers};
use silverback_node_test_support::written::{READ_HEADERS, query, read_body, start_ms};
use silverback_proto::prometheus::ReadResponse;
use silverback_test_support::home::NodeProcess;

use crate::deletes::write_checkpoints;
use crate::home;

const SERIES: usize = 20;
const STEPS: i64 = 90;

fn histogram(n: i64) -> Histogram {
    let positive = Buckets { spans: vec![Span { offset: 0, length: 2 }], words: vec![n as u64, 0] };
    Histogram { count: 2 * n as u64, sum_bits: (n as f64).to_bits(), positive, ..Histogram::default() }
}

/// Sends some steps of all series.
fn write(node: &mut NodeProcess, start_ms: i64, steps: &[i64]) {
    let series = (0..SERIES).map(|number| {
        let series = Series::new([("__name__", "took".to_owned()), ("i", number.to_string())]);
        steps.iter().fold(series, |series, step| {
            let mut message = Vec::new();
            let times = HistogramTimes { timestamp_ms: start_ms + step * 1000, ..HistogramTimes::default() };
            histogram(*step).put_message(times, &mut message);
            series.histogram(message)
        })
    });
    let sent = body(Version::V2, &series.collect::<Vec<_>>());
    let answer = node.post(PATH, &headers(Version::V2), &sent);
    assert_eq!(answer.status, 204, "{}", answer.text());
}

/// Each series has these steps, in the order of time.
fn check(node: &mut NodeProcess, start_ms: i64, steps: impl Iterator<Item = i64>) {
    let answer = node.post("/api/v1/read", &READ_HEADERS, &read_body(vec![query(&[], (0, i64::MAX))], &[]));
    assert_eq!(answer.status, 200);
    let read = snap::raw::Decoder::new().decompress_vec(&answer.body).unwrap();
    let response = ReadResponse::decode(&read[..]).unwrap();
    let found = &response.results[0].timeseries;
    let expect: Vec<(i64, f64)> = steps.map(|step| (start_ms + step * 1000, step as f64)).collect();
    assert_eq!(found.len(), SERIES);
    for series in found {
        let held: Vec<_> = series.histograms.iter().map(|one| (one.timestamp, one.sum)).collect();
        assert_eq!(held, expect);
    }
}

#[test]
fn late_histograms_are_there_after_a_kill() {
    let (home, start_ms) = (home("late"), start_ms());
    let two = ["--shards=2", "--admin-api=full"];
    let mut node = home.start_ready(&two);
    let (late, first): (Vec<i64>, Vec<i64>) = (0..STEPS).partition(|step| step % 3 == 1);
    write(&mut node, start_ms, &first);
    let (former, later) = late.split_at(late.len() / 2);
    former.chunks(4).rev().for_each(|steps| write(&mut node, start_ms, steps));
    let until_now = || (0..STEPS).filter(|step| step % 3 != 1 || former.contains(step));
    check(&mut node, start_ms, until_now());
    node.kill();
    let (code, told, complaint) = home.look_at_logs(&["verify"]);
    assert!(code == 0 && told.ends_with("no damage\n"), "{told}{complaint}");
    let mut node = home.start_ready(&two);
    check(&mut node, start_ms, until_now());
    write_checkpoints(&mut node, 2);
    later.chunks(4).rev().for_each(|steps| write(&mut node, start_ms, steps));
    node.kill();
    let mut node = home.start_ready(&two);
    check(&mut node, start_ms, 0..STEPS);
    node.kill();
    let mut node = home.start_ready(&["--shards=3"]);
    check(&mut node, start_ms, 0..STEPS);
    // What is sent again is stored already, late as it is.
    write(&mut node, start_ms, &late);
    check(&mut node, start_ms, 0..STEPS);
    node.kill();
}
