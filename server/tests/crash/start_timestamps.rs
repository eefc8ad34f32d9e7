//! Kill -9 after samples and histograms with start timestamps: the samples are there as they were sent, and the log
//! tells since when they count until a checkpoint takes its place.

use prost::Message;
use silverback::api::ingest::remote_write::Version;
use silverback_model::histogram::Histogram;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_node_test_support::request::{PATH, Series, body, headers};
use silverback_node_test_support::written::{READ_HEADERS, query, read_body, start_ms};
use silverback_proto::prometheus::ReadResponse;
use silverback_test_support::home::NodeProcess;

use crate::deletes::write_checkpoints;
use crate::home;
use crate::written_log::check_holds;

const ARGUMENTS: [&str; 2] = ["--shards=1", "--admin-api=full"];

/// Of stored samples: start timestamps that the node took, and that it ignored.
fn counts(node: &mut NodeProcess) -> (u64, u64) {
    let metrics = node.get("/metrics").text();
    let sum = |name: &str| -> u64 {
        let lines = metrics.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    let names = ["silverback_start_timestamps_appended_total", "silverback_start_timestamps_ignored_total"];
    let [appended, ignored] = names.map(|name| {
        assert!(metrics.contains(name), "{metrics}");
        sum(name)
    });
    (appended, ignored)
}

fn series(name: &str) -> Series {
    Series::new([("__name__", name)])
}

fn histogram(timestamp_ms: i64, start_timestamp_ms: i64) -> Vec<u8> {
    let mut message = Vec::new();
    Histogram::default().put_message(HistogramTimes { timestamp_ms, start_timestamp_ms }, &mut message);
    message
}

fn write(node: &mut NodeProcess, series: &[Series]) {
    let answer = node.post(PATH, &headers(Version::V2), &body(Version::V2, series));
    assert_eq!(answer.status, 204, "{}", answer.text());
}

/// All samples by their series' names: times, and values in bits; of histograms the times.
type Read = Vec<(String, Vec<(i64, u64)>, Vec<i64>)>;

fn read(node: &mut NodeProcess) -> Read {
    let answer = node.post("/api/v1/read", &READ_HEADERS, &read_body(vec![query(&[], (0, i64::MAX))], &[]));
    assert_eq!(answer.status, 200);
    let read = snap::raw::Decoder::new().decompress_vec(&answer.body).unwrap();
    let response = ReadResponse::decode(&read[..]).unwrap();
    let found = response.results[0].timeseries.iter().map(|series| {
        let samples = series.samples.iter().map(|sample| (sample.timestamp, sample.value.to_bits()));
        let histograms = series.histograms.iter().map(|one| one.timestamp);
        (series.labels[0].value.clone(), samples.collect(), histograms.collect())
    });
    found.collect()
}

#[test]
fn start_timestamps_are_in_the_log_after_a_kill_and_samples_as_they_were_sent() {
    let (home, ms) = (home("start-timestamps"), start_ms());
    let mut node = home.start_ready(&ARGUMENTS);
    let nan = f64::from_bits(0x7ff8_0000_dead_beef);
    let sent = [
        series("a").started_sample(ms, 1.5, ms - 1000).started_sample(ms + 10, nan, ms - 1000),
        series("b").sample(ms, 2.5),
        // Not before their samples: these are taken without.
        series("c").started_sample(ms, -0.0, ms).started_sample(ms + 1, 0.0, ms + 2),
        series("d").started_sample(ms, 7.0, ms - 999),
        series("h").histogram(histogram(ms, ms - 5)).histogram(histogram(ms + 1, 0)),
    ];
    write(&mut node, &sent);
    assert_eq!(counts(&mut node), (4, 2));
    write(&mut node, &sent);
    assert_eq!(counts(&mut node), (4, 2), "what is sent again is stored already");
    let bits = |value: f64| value.to_bits();
    let named = |name: &str, samples: &[(i64, u64)], histograms: &[i64]| {
        (name.to_owned(), samples.to_vec(), histograms.to_vec())
    };
    let expect = [
        named("a", &[(ms, bits(1.5)), (ms + 10, bits(nan))], &[]),
        named("b", &[(ms, bits(2.5))], &[]),
        named("c", &[(ms, bits(-0.0)), (ms + 1, 0)], &[]),
        named("d", &[(ms, bits(7.0))], &[]),
        named("h", &[], &[ms, ms + 1]),
    ];
    assert_eq!(read(&mut node), expect);
    node.kill();

    let told = |command: &[&str]| {
        let (code, told, complaint) = home.look_at_logs(command);
        assert_eq!((code, complaint.as_str()), (0, ""), "{told}");
        told
    };
    let numbers = "5 series, 8 samples, 2 histograms, 4 start timestamps, 0 exemplars, 0 removed";
    check_holds(&told(&["verify"]), &[numbers, "no damage"]);
    let listed = told(&["inspect", "--records"]);
    let is_listed =
        |line: &str| line.split_whitespace().collect::<Vec<_>>().starts_with(&["start", "timestamps", "3"]);
    assert!(listed.lines().any(is_listed), "{listed}");
    let of_file: Vec<_> = listed.lines().filter(|line| line.contains(".wal  ")).collect();
    assert!(of_file.len() == 1 && has_numbers(of_file[0], numbers), "{listed}");

    let mut node = home.start_ready(&ARGUMENTS);
    assert_eq!(read(&mut node), expect);
    // Chunks don't have them: they leave with the log that a checkpoint takes the place of.
    write_checkpoints(&mut node, 1);
    write(&mut node, &[series("a").sample(ms + 20, 3.0)]);
    node.kill();
    check_holds(&told(&["verify"]), &["no damage"]);
    let mut node = home.start_ready(&ARGUMENTS);
    assert_eq!(read(&mut node).len(), expect.len());
    node.kill();
}

/// Whether a file's line has the same numbers as `wal verify` tells, and bytes of a sample after them.
fn has_numbers(line: &str, told: &str) -> bool {
    let numbers: Vec<_> = told.split(", ").filter_map(|part| part.split(' ').next()).collect();
    let listed: Vec<_> = line.split_whitespace().collect();
    listed.iter().rev().skip(1).take(numbers.len()).eq(numbers.iter().rev())
}
