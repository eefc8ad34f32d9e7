//! Reads that go back beyond what memory keeps find the same as those of a node that keeps it all in memory.

mod scene;

use serde_json::{Value, json};
use silverback::config::MemoryLimit;
use silverback_block::Meta;
use silverback_node_test_support::Node;
use silverback_node_test_support::laid_blocks::{BlockSeries, put};
use silverback_node_test_support::written::{Series, query, read_frames, read_samples, series_of};
use silverback_proto::prometheus::label_matcher::Type;
use silverback_test_support::eventually;
use silverback_test_support::random::Random;

use scene::{HOUR_MS, Scene, metric, now_ms, without_series_in};

/// The series of an answer that have samples in the range, and these.
fn in_range(series: Vec<Series>, (min_ms, max_ms): (i64, i64)) -> Vec<Series> {
    let cut = |(labels, samples): Series| {
        let kept = samples.into_iter().filter(|(at_ms, _)| (min_ms..=max_ms).contains(at_ms));
        (labels, kept.collect::<Vec<_>>())
    };
    series.into_iter().map(cut).filter(|(_, samples)| !samples.is_empty()).collect()
}

/// Ranges that lie before the border, after it, and over it.
fn ranges(random: &mut Random, scene: &Scene) -> Vec<(i64, i64)> {
    let time =
        |random: &mut Random| scene.begin_ms + random.below((scene.end_ms - scene.begin_ms) as u64) as i64;
    let mut ranges =
        vec![(i64::MIN, i64::MAX), (scene.begin_ms, scene.end_ms), (scene.end_ms - HOUR_MS, i64::MAX)];
    for _ in 0..6 {
        let (one, other) = (time(random), time(random));
        ranges.push((one.min(other), one.max(other)));
    }
    ranges
}

const MATCHERS: [&[(&str, Type, &str)]; 8] = [
    &[],
    &[("__name__", Type::Eq, "load")],
    &[("__name__", Type::Eq, "load"), ("job", Type::Eq, "b")],
    &[("host", Type::Re, "h1.*|h02")],
    &[("host", Type::Nre, "h1.*"), ("__name__", Type::Neq, "load")],
    &[("job", Type::Neq, "a"), ("nothing", Type::Eq, "")],
    &[("zone", Type::Eq, "")],
    &[("zone", Type::Re, ".+"), ("nothing", Type::Re, "x|")],
];

#[test]
fn samples_and_chunks_over_the_border_are_those_of_one_memory() {
    for (shards, seed) in [(1, 1), (3, 2)] {
        let scene = Scene::start(shards, seed);
        let mut random = Random::new(seed);
        for range_ms in ranges(&mut random, &scene) {
            for matchers in MATCHERS {
                let asked = || vec![query(matchers, range_ms)];
                let told = format!("{matchers:?} {range_ms:?}, seed {seed}");
                let expect = read_samples(&scene.of_memory, asked());
                assert!(read_samples(&scene.over_border, asked()) == expect, "samples of {told}");
                let chunks = |node: &Node| in_range(series_of(&read_frames(node, asked())), range_ms);
                let expect = chunks(&scene.of_memory);
                assert!(chunks(&scene.over_border) == expect, "chunks of {told}");
            }
        }
        assert!(metric(&scene.over_border, "silverback_block_reads_total") > 10.0);
        assert!(metric(&scene.over_border, "silverback_block_cache_hits_total") > 10.0);
        assert_eq!(metric(&scene.over_border, "silverback_blocks_set_aside_total"), 0.0);
        assert_eq!(metric(&scene.of_memory, "silverback_block_reads_total"), 0.0);
    }
}

#[test]
fn chunks_over_the_border_come_by_their_times_each_time_once() {
    let scene = Scene::start(2, 3);
    let frames = read_frames(&scene.over_border, vec![query(&[], (i64::MIN, i64::MAX))]);
    let mut last: Option<(Vec<_>, i64)> = None;
    for series in frames.iter().flat_map(|frame| &frame.chunked_series) {
        let labels: Vec<_> =
            series.labels.iter().map(|label| (label.name.clone(), label.value.clone())).collect();
        assert!(last.as_ref().is_none_or(|(before, _)| *before <= labels), "series ascend");
        let mut after_ms = last.filter(|(before, _)| *before == labels).map_or(i64::MIN, |(_, at_ms)| at_ms);
        for chunk in &series.chunks {
            assert!(chunk.min_time_ms > after_ms && chunk.max_time_ms >= chunk.min_time_ms, "{labels:?}");
            after_ms = chunk.max_time_ms;
        }
        last = Some((labels, after_ms));
    }
    assert!(last.is_some());
}

fn get(node: &Node, path: &str, pairs: &[(&str, &str)]) -> Value {
    let pairs: Vec<_> =
        pairs.iter().map(|(name, value)| format!("{name}={}", scene::encoded(value))).collect();
    let answer = node.get(&format!("/api/v1/{path}?{}", pairs.join("&")));
    assert_eq!(answer.status, 200, "{path} {pairs:?}: {}", answer.text());
    answer.json()
}

fn seconds(at_ms: i64) -> String {
    format!("{}.{:03}", at_ms / 1000, at_ms % 1000)
}

#[test]
fn labels_over_the_border_are_those_of_one_memory() {
    let scene = Scene::start(3, 4);
    let mut random = Random::new(4);
    let selectors =
        ["{job=\"a\"}", "load{host=~\"h.*\"}", "{zone!=\"\"}", "{__name__=~\".+\",host!~\"h0.*\"}"];
    // Of an hour or so all chunks have a sample, or none has.
    let ranges = ranges(&mut random, &scene)
        .into_iter()
        .filter(|(min_ms, max_ms)| max_ms.saturating_sub(*min_ms) > 3 * HOUR_MS);
    for (min_ms, max_ms) in ranges.map(|(min_ms, max_ms)| (min_ms.max(0), max_ms.min(scene.end_ms))) {
        let (start, end) = (seconds(min_ms), seconds(max_ms));
        let check = |path: &str, selector: Option<&str>| {
            let mut pairs = vec![("start", &*start), ("end", &*end)];
            pairs.extend(selector.map(|selector| ("match[]", selector)));
            let [expect, found] = [&scene.of_memory, &scene.over_border].map(|node| get(node, path, &pairs));
            assert_eq!(found, expect, "{path} {pairs:?}");
            assert!(found["data"].as_array().unwrap().len() < 1000);
        };
        for selector in selectors {
            check("series", Some(selector));
            check("labels", Some(selector));
            check("label/host/values", Some(selector));
        }
        check("labels", None);
        check("label/host/values", None);
        check("label/__name__/values", None);
        check("label/nothing/values", None);
    }
}

const QUERIES: [&str; 10] = [
    "load",
    "sum by (job) (rate(load[10m]))",
    "topk(2, load)",
    "count_over_time(load{job=\"a\"}[3h])",
    "load - load offset 50m",
    "quantile(0.5, load)",
    "histogram_quantile(0.9, sum(rate(latency{host!=\"h11\"}[10m])))",
    "histogram_count(latency)",
    "count by (host) ({__name__=~\"load|latency\"})",
    "max_over_time(sum(load)[2h:5m])",
];

#[test]
fn expressions_over_the_border_have_the_values_of_one_memory() {
    let scene = Scene::start(3, 5);
    let ask = |node: &Node, query: &str, (min_ms, max_ms): (i64, i64)| {
        let (start, end) = (seconds(min_ms), seconds(max_ms));
        get(node, "query_range", &[("query", query), ("start", &start), ("end", &end), ("step", "173")])
    };
    for query in QUERIES {
        for range_ms in
            [(scene.begin_ms, scene.end_ms), (scene.begin_ms + HOUR_MS, scene.begin_ms + 4 * HOUR_MS)]
        {
            let [expect, found] =
                [&scene.of_memory, &scene.over_border].map(|node| ask(node, query, range_ms));
            assert_ne!(expect["data"]["result"], json!([]), "{query}");
            assert_eq!(found["data"], expect["data"], "{query} {range_ms:?}");
        }
    }
    let node = &scene.over_border;
    assert_eq!(metric(node, "silverback_query_parts_total"), 0.0, "a shard has its own memory alone");
    let reads = metric(node, "silverback_block_reads_total");
    ask(node, "sum(load)", (scene.end_ms - HOUR_MS / 2, scene.end_ms));
    assert_eq!(metric(node, "silverback_query_parts_total"), 2.0);
    assert_eq!(
        metric(node, "silverback_block_reads_total"),
        reads,
        "nothing is read from blocks where memory has all"
    );
}

#[test]
fn a_damaged_block_is_set_aside_and_the_rest_is_read() {
    let scene = Scene::start_damaging(2, 6, |blocks, _| {
        // One whose index is cut is found out at the start, one with a chunk turned over when that is read.
        let [first, second] = [&blocks[0], &blocks[1]];
        let index = std::fs::read(first.join("index")).unwrap();
        std::fs::write(first.join("index"), &index[..index.len() - 1]).unwrap();
        let mut chunks = std::fs::read(second.join("chunks/000001")).unwrap();
        let middle = chunks.len() / 2;
        chunks[middle] ^= 1;
        std::fs::write(second.join("chunks/000001"), chunks).unwrap();
    });
    let node = &scene.over_border;
    assert_eq!(metric(node, "silverback_blocks_set_aside_total"), 1.0);
    let open = metric(node, "silverback_blocks_open");
    let path = format!(
        "/api/v1/query_range?query=sum(load)&start={}&end={}&step=60",
        seconds(scene.begin_ms),
        seconds(scene.end_ms)
    );
    let refused = node.get(&path);
    assert!(
        refused.status == 500 && refused.text().contains("set aside"),
        "{} {}",
        refused.status,
        refused.text()
    );
    assert_eq!(metric(node, "silverback_blocks_set_aside_total"), 2.0);
    assert_eq!(metric(node, "silverback_blocks_open"), open - 1.0);
    assert_eq!(node.get(&path).status, 200);
    // What both had is missing, and nothing else.
    let asked = || vec![query(&[], (i64::MIN, i64::MAX))];
    let missing = &scene.first_ranges_ms[..2];
    let expect = without_series_in(read_samples(&scene.of_memory, asked()).remove(0), missing);
    let found = without_series_in(read_samples(node, asked()).remove(0), missing);
    assert!(found == expect);
}

#[test]
fn what_was_deleted_of_a_block_is_not_read() {
    let mut deleted = None;
    let scene = Scene::start_damaging(2, 7, |blocks, of_late| {
        let begin_ms = Meta::read(&blocks[0]).unwrap().min_ms;
        let [own, late] =
            [blocks, of_late].map(|blocks| scene::delete_half_an_hour(&blocks[0], "load", begin_ms));
        assert_eq!(own, late);
        deleted = Some(own);
    });
    let (labels, gone_ms) = deleted.unwrap();
    let asked = || vec![query(&[], (i64::MIN, i64::MAX))];
    let mut expect = read_samples(&scene.of_memory, asked()).remove(0);
    let cut = expect.iter_mut().find(|(own, _)| *own == labels).unwrap();
    let before = cut.1.len();
    cut.1.retain(|(at_ms, _)| !gone_ms.contains(at_ms));
    assert!(cut.1.len() < before, "the series has samples there");
    assert!(read_samples(&scene.over_border, asked()).remove(0) == expect);
    let chunks = in_range(series_of(&read_frames(&scene.over_border, asked())), (i64::MIN, i64::MAX));
    let found = chunks.iter().find(|(own, _)| *own == labels).unwrap();
    assert!(found.1.iter().all(|(at_ms, _)| !gone_ms.contains(at_ms)));
}

#[test]
fn what_is_deleted_over_the_border_is_gone_of_blocks_and_of_memory() {
    let scene = Scene::start(2, 10);
    let (start, end) = (seconds(scene.begin_ms + HOUR_MS), seconds(scene.end_ms - HOUR_MS));
    let asked = || vec![query(&[], (i64::MIN, i64::MAX))];
    let before = read_samples(&scene.over_border, asked());
    for selection in [
        format!("match[]=load%7Bjob=%22a%22%7D&start={start}&end={end}"),
        "match[]=latency%7Bhost=%22h05%22%7D".to_owned(),
    ] {
        for node in [&scene.of_memory, &scene.over_border] {
            let answer = node.post(&format!("/api/v1/admin/tsdb/delete_series?{selection}"), &[], b"");
            assert_eq!(answer.status, 204, "{}", answer.text());
        }
        let expect = read_samples(&scene.of_memory, asked());
        assert!(expect != before && read_samples(&scene.over_border, asked()) == expect, "{selection}");
    }
    let names = |node: &Node| get(node, "label/host/values", &[("match[]", "latency"), ("start", "0")]);
    assert_eq!(names(&scene.over_border), names(&scene.of_memory));
    assert_eq!(metric(&scene.over_border, "silverback_blocks_set_aside_total"), 0.0);
}

#[test]
fn what_a_read_of_blocks_holds_is_given_back_when_its_client_goes_away() {
    let scene = Scene::start(2, 8);
    let node = &scene.over_border;
    let body = silverback_node_test_support::written::read_body(vec![query(&[], (i64::MIN, i64::MAX))], &[1]);
    for _ in 0..20 {
        let mut stream = node.connect();
        let headers = silverback_node_test_support::written::READ_HEADERS;
        silverback_test_support::http::send(&mut stream, "POST", "/api/v1/read", &headers, &body);
        drop(stream);
    }
    eventually("reads of blocks end", || metric(node, "silverback_block_read_bytes") == 0.0);
    eventually("and all their turns", || metric(node, "silverback_reads_in_flight") == 0.0);
}

#[test]
fn as_many_matchers_as_a_read_may_have_are_applied_to_blocks() {
    let scene = Scene::start(2, 9);
    let names: Vec<String> = (0..255).map(|number| format!("x{number}")).collect();
    let mut matchers: Vec<_> = names.iter().map(|name| (&**name, Type::Nre, "a.*b|c+")).collect();
    matchers.push(("__name__", Type::Re, "l.*"));
    let asked = || vec![query(&matchers, (i64::MIN, scene.begin_ms + HOUR_MS))];
    let expect = read_samples(&scene.of_memory, asked());
    assert!(!expect[0].is_empty() && read_samples(&scene.over_border, asked()) == expect);
}

#[test]
fn more_than_reads_of_blocks_may_hold_is_refused_in_words_and_less_is_read() {
    let begin_ms = now_ms() - 48 * HOUR_MS;
    let one = |number: usize| BlockSeries {
        labels: [("__name__", "wide".to_owned()), ("pod", format!("pod-{number:05}"))]
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec(),
        floats: vec![(begin_ms, 1.0_f64.to_bits())],
        ..BlockSeries::default()
    };
    let all: Vec<_> = (0..20_000).map(one).collect();
    let node = Node::start_with(1, |config| {
        // A 64th of it is for blocks, of which a half is for reads.
        config.memory_limit = MemoryLimit::Fixed(128 << 20);
        put(&config.data_dir, 1, &all, false);
    });
    let refused = node.get("/api/v1/label/pod/values?start=0");
    assert!(
        refused.status == 400 && refused.text().contains("ask for less"),
        "{} {}",
        refused.status,
        refused.text()
    );
    let found = get(&node, "label/pod/values", &[("start", "0"), ("match[]", "wide{pod=~\"pod-0000.\"}")]);
    assert_eq!(found["data"].as_array().unwrap().len(), 10);
    // Series are given out in batches.
    let read = read_samples(&node, vec![query(&[("__name__", Type::Eq, "wide")], (0, i64::MAX))]).remove(0);
    assert_eq!(read.len(), 20_000);
    assert_eq!(metric(&node, "silverback_block_read_bytes"), 0.0);
    assert!(metric(&node, "silverback_block_cache_bytes") <= f64::from(1 << 20));
}

#[test]
fn a_node_without_blocks_reads_none() {
    let node = Node::start(1);
    assert!(now_ms() > 0 && read_samples(&node, vec![query(&[], (i64::MIN, i64::MAX))]) == [vec![]]);
    for name in ["silverback_blocks_open", "silverback_block_reads_total", "silverback_block_cache_bytes"] {
        assert_eq!(metric(&node, name), 0.0, "{name}");
    }
}
