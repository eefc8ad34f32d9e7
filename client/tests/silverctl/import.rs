//! `silverctl import`: blocks, what is damaged in them, going on where it ended, files of text.

use std::path::Path;
use std::process::Command;

use silverback_model::histogram::{Buckets, Histogram, OpenHistogram, Span};
use silverback_test_support::prometheus::block::{Written, WrittenChunk, WrittenSeries};
use silverback_test_support::prometheus::log;

use super::*;

/// So many series of a sample each second, the last a minute ago.
fn block_of(series: usize, samples: i64) -> Written {
    let begins = now_ms() - 60_000 - samples * 1000;
    let chunk = WrittenChunk {
        encoding: 1,
        samples: (0..samples).map(|index| (begins + index * 1000, index as f64)).collect(),
    };
    let label = |number: usize| -> &'static str { format!("{number:06}").leak() };
    let series = (0..series).map(|number| WrittenSeries {
        labels: vec![("__name__", "imported"), ("number", label(number))],
        chunks: vec![chunk.clone()],
    });
    Written::new(&series.collect::<Vec<_>>(), &[])
}

fn import(node: &Node, path: &Path, more: &[&str]) -> Ended {
    run(node, &[&["import", path.to_str().unwrap()], more].concat(), "")
}

fn count_samples(node: &Node, selector: &str) -> usize {
    let read = run(node, &["query", selector, "--start", "-1d", "--output", "csv"], "");
    read.out.lines().count() - 1
}

#[test]
fn a_block_is_imported_once() {
    let (node, dir) = (Node::start(2), tempfile::tempdir().unwrap());
    let block = dir.path().join("block");
    block_of(50, 100).put(&block);
    let ended = import(&node, &block, &[]);
    check(&ended, 0, "1 block and 50 series read\n5,000 samples written, on disk and synced\n", "");
    assert_eq!(count_samples(&node, "imported"), 5000);
    let again = import(&node, &block, &[]);
    check(&again, 0, "0 blocks and 0 series read\n1 block of an earlier run is left out\n", "");
    check(&import(&node, &block, &["--match", "other"]), 2, "", "give another --state");
}

#[test]
fn xor2_chunks_are_imported_as_xor_chunks_are() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    let begins_ms = now_ms() - 60_000;
    let values = [1.5, 1.5, -0.0, f64::INFINITY, 1e-300, 7.0];
    let samples: Vec<_> =
        (0..).zip(values).map(|(nth, value)| (begins_ms + nth * nth * 1000, value)).collect();
    let series = [(1, "xor"), (4, "xor2")].map(|(encoding, name)| WrittenSeries {
        labels: vec![("__name__", name)],
        chunks: vec![WrittenChunk { encoding, samples: samples.clone() }],
    });
    Written::new(&series, &[]).put(dir.path());
    let ended = import(&node, dir.path(), &["--state", dir.path().join("state").to_str().unwrap()]);
    check(&ended, 0, "1 block and 2 series read\n12 samples written, on disk and synced\n", "");
    assert!(!ended.out.contains("left out"), "{ended:?}");
    let rows = |name: &str| {
        let read = run(&node, &["query", name, "--start", "-1d", "--output", "csv"], "").out;
        read.replace(&format!("{name},"), ",").replace(&format!(",{name}"), ",")
    };
    assert_eq!(rows("xor2").lines().count(), 1 + values.len());
    assert_eq!(rows("xor2"), rows("xor"));
}

#[test]
fn only_what_is_asked_for_is_imported() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    let block = dir.path().join("01ARZ3NDEKTSV4RRFFQ69G5FAV");
    block_of(10, 100).put(&block);
    let state = dir.path().join("state.json");
    let state = state.to_str().unwrap();
    let since = (now_ms() - 90_000).to_string();
    let more = ["--match", "{number=~\".*[12]\"}", "--min-time", &since, "--state", state];
    let ended = import(&node, dir.path(), &more);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(run(&node, &["labels", "number"], "").out, "000001\n000002\n");
    assert!((50..=62).contains(&count_samples(&node, "imported")), "{ended:?}");
}

#[test]
fn an_import_goes_on_behind_what_is_noted() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    let block = dir.path().join("block");
    block_of(10, 5).put(&block);
    let state = dir.path().join("state.json");
    let noted = format!(
        r#"{{"address":"{}","scope":"all series from any to any","blocks":{{"01BX5ZZKBKACTAV9WEVGEMMVRZ":{{"series_done":7,"is_whole":false}}}}}}"#,
        address(&node)
    );
    std::fs::write(&state, noted).unwrap();
    let ended = import(&node, &block, &["--state", state.to_str().unwrap()]);
    check(&ended, 0, "1 block and 3 series read\n15 samples written", "");
    assert_eq!(run(&node, &["labels", "number"], "").out, "000007\n000008\n000009\n");
    let noted = std::fs::read_to_string(&state).unwrap();
    assert!(noted.contains("\"series_done\": 10") && noted.contains("\"is_whole\": true"), "{noted}");
}

#[test]
fn a_damaged_chunk_costs_itself_alone() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    let mut block = block_of(3, 5);
    block.chunks[20] ^= 1;
    block.put(dir.path());
    let ended = import(&node, dir.path(), &["--state", dir.path().join("state").to_str().unwrap()]);
    check(&ended, 1, "10 samples written", "chunks/000001, byte 8: the checksum of a chunk is wrong");
    check(&ended, 1, "1 chunk is damaged and left out", "");
}

#[test]
fn a_damaged_index_ends_its_block() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    let mut block = block_of(3, 5);
    let last = block.index.len() - 60;
    block.index[last] ^= 1;
    block.put(dir.path());
    let ended = import(&node, dir.path(), &["--state", dir.path().join("state").to_str().unwrap()]);
    check(&ended, 1, "10 samples written", "the checksum of a series is wrong");
    check(&ended, 1, "1 block is damaged and not read to its end", "");
}

/// Labels of the block's first series, and of one that is in no block.
const IN_BLOCK: &[(&str, &str)] = &[("__name__", "imported"), ("number", "000000")];
const IN_HEAD: &[(&str, &str)] = &[("__name__", "young")];

#[test]
fn a_data_directory_is_imported_with_its_head() {
    let (node, dir) = (Node::start(2), tempfile::tempdir().unwrap());
    let block = block_of(2, 50);
    let meta: serde_json::Value = serde_json::from_slice(&block.meta).unwrap();
    let end_ms = meta["maxTime"].as_i64().unwrap();
    block.put(&dir.path().join("01BX5ZZKBKACTAV9WEVGEMMVRZ"));
    let mut wal = log::Written::default();
    wal.plain(&log::series(&[(1, IN_BLOCK), (2, IN_HEAD)]));
    // What the block has is in the log, too.
    wal.plain(&log::samples(&[(1, end_ms - 1001, 48.0), (1, end_ms - 1, 49.0)]));
    wal.plain(&log::samples(&[(1, end_ms + 999, 50.0), (2, end_ms, 0.5), (2, end_ms + 1, 1.5)]));
    wal.put(&dir.path().join("wal/00000000"));
    let state = dir.path().join("state.json");
    let more = ["--state", state.to_str().unwrap()];
    let ended = import(&node, dir.path(), &more);
    check(&ended, 0, "1 block and 2 series read\nthe head and 2 series of it read\n103 samples written", "");
    assert_eq!((count_samples(&node, "imported"), count_samples(&node, "young")), (101, 2));

    // What has come since is imported by a later run, and what is in the node is accepted once more.
    wal.plain(&log::samples(&[(2, end_ms + 2, 2.5)])).put(&dir.path().join("wal/00000000"));
    let ended = import(&node, dir.path(), &more);
    check(&ended, 0, "0 blocks and 0 series read\nthe head and 2 series of it read\n", "");
    check(&ended, 0, "1 block of an earlier run is left out\n4 samples written", "");
    assert_eq!((count_samples(&node, "imported"), count_samples(&node, "young")), (101, 3));
}

#[test]
fn a_young_prometheus_is_a_head_alone() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    let at = now_ms() - 60_000;
    log::Written::default()
        .plain(&log::series(&[(1, IN_BLOCK), (2, IN_HEAD)]))
        .plain(&log::samples(&[(1, at, 1.0), (2, at, 2.0)]))
        .put(&dir.path().join("wal/00000000"));
    let state = dir.path().join("state.json");
    let more = ["--match", "young", "--state", state.to_str().unwrap()];
    check(&import(&node, dir.path(), &more), 0, "the head and 1 series of it read\n1 sample written", "");
}

#[test]
fn what_of_a_head_is_left_out_is_told_with_what_helps() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    let state = dir.path().join("state.json");
    let more = ["--state", state.to_str().unwrap()];
    std::fs::create_dir_all(dir.path().join("chunks_head")).unwrap();
    std::fs::write(dir.path().join("chunks_head/000001"), "chunks").unwrap();
    let ended = import(&node, dir.path(), &more);
    check(&ended, 1, "chunks_head, the newest samples, is left out, since no wal names", "");
    check(&ended, 1, "POST /api/v1/admin/tsdb/snapshot", "");
    let mut wal = log::Written::default();
    wal.plain(&log::series(&[(1, IN_HEAD)])).plain(&log::samples(&[(1, now_ms(), 1.0)]));
    wal.put(&dir.path().join("wal/00000000"));
    check(&import(&node, dir.path(), &more), 0, "the head and 1 series of it read\n1 sample written", "");
    log::Written::default().plain(&[6]).put(&dir.path().join("wbl/00000000"));
    let ended = import(&node, dir.path(), &more);
    check(&ended, 1, "wbl (8 B), samples that came out of order", "");
    check(&ended, 1, "merges them into its blocks some hours later", "");
    std::fs::remove_dir_all(dir.path().join("wbl")).unwrap();
    let last = wal.bytes.len() - 1;
    wal.bytes[last] ^= 1;
    wal.put(&dir.path().join("wal/00000000"));
    let ended = import(&node, dir.path(), &more);
    check(&ended, 1, "1 head is damaged", "wal/00000000, byte ");
}

fn histogram(n: u64) -> Histogram {
    let positive = Buckets { spans: vec![Span { offset: -1, length: 2 }], words: vec![n, 1] };
    Histogram {
        schema: 3,
        count: 2 * n + 1,
        sum_bits: (n as f64 / 3.0).to_bits(),
        positive,
        ..Histogram::default()
    }
}

/// The begin of a minute that is over: no chunk ends within it, as one does every two hours.
fn a_full_minute_ago() -> i64 {
    (now_ms() / 60_000 - 1) * 60_000
}

/// A chunk of so many histograms, one each second from a time on.
fn histogram_chunk(begins: i64, histograms: u64) -> WrittenChunk {
    let samples = (0..histograms).map(|n| (begins + n as i64 * 1000, n as f64)).collect();
    WrittenChunk { encoding: 2, samples }
}

/// What is in such a chunk.
fn bytes_of(chunk: &WrittenChunk) -> Option<Vec<u8>> {
    let mut samples = chunk.samples.iter().filter(|_| chunk.encoding == 2);
    let first = samples.next()?;
    let mut open = OpenHistogram::start(first.0, &histogram(first.1 as u64), None);
    for (at_ms, n) in samples {
        assert!(open.append(*at_ms, &histogram(*n as u64)).is_none(), "one chunk is enough");
    }
    Some(open.seal().bytes().to_vec())
}

#[test]
fn a_block_s_histograms_are_imported_bit_for_bit_beside_floats() {
    let (node, dir) = (Node::start(2), tempfile::tempdir().unwrap());
    let begins = a_full_minute_ago();
    let floats = WrittenChunk { encoding: 1, samples: vec![(begins, 0.5), (begins + 1000, 1.5)] };
    let series = [
        WrittenSeries { labels: vec![("__name__", "f")], chunks: vec![floats] },
        WrittenSeries { labels: vec![("__name__", "h")], chunks: vec![histogram_chunk(begins, 20)] },
    ];
    // A deleted range of the histograms.
    let block = Written::with_bytes(&series, &[(1, begins + 5000, begins + 6999)], bytes_of);
    block.put(&dir.path().join("block"));
    let ended = import(&node, &dir.path().join("block"), &[]);
    check(&ended, 0, "1 block and 2 series read\n20 samples written, on disk and synced\n", "");
    let read = run(&node, &["query", "h", "--start", "-1d", "--output", "json"], "");
    let line: serde_json::Value = serde_json::from_str(read.out.trim()).unwrap();
    let pairs = line["histograms"].as_array().unwrap();
    assert_eq!(pairs.len(), 18);
    for (n, pair) in (0..20).filter(|n| !(5..7).contains(n)).zip(pairs) {
        let mut text = Vec::new();
        silverback_model::histogram::json::put_histogram(&mut text, &histogram(n));
        assert_eq!(pair[0].as_i64(), Some(begins + n as i64 * 1000));
        assert_eq!(pair[1], serde_json::from_slice::<serde_json::Value>(&text).unwrap(), "{n}");
    }
    assert_eq!(count_samples(&node, "f"), 2);
}

#[test]
fn a_damaged_chunk_of_histograms_and_one_of_an_unread_encoding_cost_themselves_alone() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    let begins = a_full_minute_ago();
    let chunks = vec![histogram_chunk(begins, 20), histogram_chunk(begins + 30_000, 10)];
    let unread = WrittenChunk { encoding: 6, samples: vec![(begins, 1.0)] };
    let series = [
        WrittenSeries { labels: vec![("__name__", "h")], chunks },
        WrittenSeries { labels: vec![("__name__", "unread")], chunks: vec![unread] },
    ];
    let cut_short = |chunk: &WrittenChunk| {
        let mut bytes = bytes_of(chunk)?;
        bytes.truncate(if chunk.samples.len() == 20 { 40 } else { bytes.len() });
        Some(bytes)
    };
    Written::with_bytes(&series, &[], cut_short).put(dir.path());
    let ended = import(&node, dir.path(), &["--state", dir.path().join("state").to_str().unwrap()]);
    check(&ended, 1, "1 chunk is in an encoding that isn't read here", "");
    check(&ended, 1, "1 chunk is damaged and left out", "chunks/000001, byte 8");
    check(&ended, 1, "10 samples written", "");
}

#[test]
fn samples_older_than_the_retention_come_with_a_hint() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    let chunks = vec![WrittenChunk { encoding: 1, samples: vec![(1_500_000_000_000, 1.0)] }];
    Written::new(&[WrittenSeries { labels: vec![("__name__", "old")], chunks }], &[]).put(dir.path());
    let ended = import(&node, dir.path(), &["--state", dir.path().join("state").to_str().unwrap()]);
    check(
        &ended,
        1,
        "longer --retention, and import again. The oldest sample is of 2017-07-14T02:40:00Z.",
        "",
    );
}

#[test]
fn a_file_of_text_is_imported_too() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    let file = dir.path().join("metrics.om");
    std::fs::write(&file, "a 1\nb 2\n# EOF\n").unwrap();
    check(&import(&node, &file, &["--match", "a"]), 0, "1 sample written", "");
}

#[test]
fn an_import_of_text_goes_on_behind_the_lines_that_are_done() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    let file = dir.path().join("rows.csv");
    let rows = |from: i64, to: i64| -> String {
        (from..to).map(|i| format!("{},{i},counted,a\n", now_ms() - 60_000 + i)).collect()
    };
    let text = format!("\ntimestamp,value,name,job\n{}", rows(0, 10));
    std::fs::write(&file, &text).unwrap();
    check(&import(&node, &file, &[]), 0, "10 samples written", "");
    check(&import(&node, &file, &[]), 0, "12 lines of an earlier run are left out\n0 samples written\n", "");

    // Rows that came since are read by the header of the first run.
    std::fs::write(&file, format!("{text}{}", rows(10, 13))).unwrap();
    check(&import(&node, &file, &[]), 0, "12 lines of an earlier run are left out\n3 samples written", "");
    assert_eq!(count_samples(&node, "counted"), 13);

    // As many lines of another text are not the same place.
    std::fs::write(&file, format!("{}{}", &text[1..], rows(20, 30))).unwrap();
    check(&import(&node, &file, &[]), 2, "", "15 lines are done; remove that to start over");
}

#[test]
fn a_pipe_is_imported_and_nothing_noted() {
    let node = Node::start(1);
    for _ in 0..2 {
        check(&run(&node, &["import", "/dev/stdin"], "piped 1\n"), 0, "1 sample written", "");
    }
    assert!(!Path::new("/dev/stdin.import.json").exists());
}

#[test]
fn a_path_without_blocks_is_told() {
    let (node, dir) = (Node::start(1), tempfile::tempdir().unwrap());
    check(&import(&node, dir.path(), &[]), 1, "", "isn't a block, and has no block or head in it");
    check(&import(&node, &dir.path().join("nothing"), &[]), 1, "", "can't open");
}

/// Blocks as Prometheus' own code writes them, over two hours and more than one series.
#[test]
#[ignore = "needs promtool (Debian: prometheus)"]
fn blocks_that_promtool_wrote_are_imported_whole() {
    let (node, dir) = (Node::start(2), tempfile::tempdir().unwrap());
    let begins_s = now_ms() / 1000 - 3 * 3600;
    let mut text = String::from("# TYPE room_temperature gauge\n");
    for room in 0..40 {
        for minute in 0..170 {
            let value = f64::from(room) + f64::from(minute) / 7.0;
            text += &format!(
                "room_temperature{{room=\"{room}\"}} {value} {}\n",
                begins_s + i64::from(minute) * 60
            );
        }
    }
    text += "# EOF\n";
    let (input, blocks) = (dir.path().join("in.om"), dir.path().join("blocks"));
    std::fs::write(&input, text).unwrap();
    let promtool = Command::new("promtool")
        .args(["tsdb", "create-blocks-from", "openmetrics"])
        .args([&input, &blocks])
        .output()
        .expect("promtool runs");
    assert!(promtool.status.success(), "{promtool:?}");
    check(&import(&node, &blocks, &[]), 0, "6,800 samples written, on disk and synced", "");
    let (from_text, from_blocks) = (Node::start(1), node);
    check(&run(&from_text, &["write", input.to_str().unwrap()], ""), 0, "6,800 samples written", "");
    let all = |node: &Node| run(node, &["query", "room_temperature", "--start", "-1d", "-o", "json"], "").out;
    assert_eq!(all(&from_blocks), all(&from_text));
}
