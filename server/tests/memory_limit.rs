//! A node with little memory, flooded: it refuses new series first and then writes, says so, and
//! stays below its limit all along; reads go on. Reads of everything are refused, and writes go on.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use prost::Message;
use silverback::api::ingest::remote_write::Version;
use silverback_node_test_support::request::{PATH, Series, body, headers};
use silverback_proto::prometheus::label_matcher::Type;
use silverback_proto::prometheus::{LabelMatcher, Query, ReadRequest};
use silverback_test_support::http::{self, Answer, Kept};
use silverback_test_support::{Binary, Waiting, eventually, now_ms};

const LIMIT_MIB: usize = 128;
/// Series of one request.
const LOT: usize = 5000;
/// More can't fit: a series takes more than 128 bytes, and a sample of random bits more than 6.
const SERIES_MAX: usize = (LIMIT_MIB << 20) / 128;
const SAMPLES_MAX: i64 = (LIMIT_MIB << 20) as i64 / 6;

/// A node with its limit.
fn start() -> Binary {
    start_with(LIMIT_MIB, 1)
}

fn start_with(limit_mib: usize, shards: usize) -> Binary {
    Binary::start(
        env!("CARGO_BIN_EXE_silverback"),
        &["--shards", &shards.to_string(), "--memory-limit", &format!("{limit_mib}MiB")],
    )
}

/// What a write of series is answered with.
fn write(connection: &mut Kept, series: &[Series]) -> Answer {
    connection.ask("POST", PATH, &headers(Version::V1), &body(Version::V1, series))
}

/// The text of a page that there is.
fn page(node: &Binary, path: &str) -> String {
    let answer = node.get(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

/// Series of a lot, each with samples that hardly compress.
fn lot(number: usize, from_ms: i64, samples: i64) -> Vec<Series> {
    let value = |i: usize, t: i64| {
        f64::from_bits(
            0x3ff0_0000_0000_0000 | (i as u64 + t as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12,
        )
    };
    let series = |i: usize| {
        let pod = format!("pod-{i:09}");
        let series = Series::new([("__name__", "flood_total"), ("job", "flood"), ("pod", &*pod)]);
        (0..samples).fold(series, |series, t| series.sample(from_ms + t, value(i, t)))
    };
    (number * LOT..(number + 1) * LOT).map(series).collect()
}

/// A remote read of all samples as one message.
fn read_all() -> Vec<u8> {
    read_of(&[".+"])
}

/// The same of the metrics that each expression matches.
fn read_of(names: &[&str]) -> Vec<u8> {
    let query = |name: &&str| {
        let matchers =
            vec![LabelMatcher { r#type: Type::Re as i32, name: "__name__".into(), value: (*name).into() }];
        Query { matchers, start_timestamp_ms: 0, end_timestamp_ms: i64::MAX, ..Query::default() }
    };
    let queries = names.iter().map(query).collect();
    let request = ReadRequest { queries, accepted_response_types: Vec::new() };
    snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap()
}

#[test]
fn reads_of_everything_are_refused_with_words_and_leave_memory_to_writes() {
    let node = start();
    let mut connection = node.keep();
    let start_ms = now_ms() - 3_600_000;
    for round in 0..25 {
        let answer = write(&mut connection, &lot(0, start_ms + 20 * round, 20));
        assert_eq!(answer.status, 204, "{}", answer.text());
    }
    for _ in 0..10 {
        let refused = connection.ask("POST", "/api/v1/read", &[], &read_all());
        assert_eq!(refused.status, 400, "{} bytes were answered", refused.body.len());
        assert!(refused.text().contains(" bytes: ask for less"), "{}", refused.text());
    }
    let metrics = page(&node, "/metrics");
    for part in ["reads", "selects"] {
        let line = format!("silverback_memory_accounted_bytes{{part=\"{part}\",shard=\"0\"}} 0\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
    assert_eq!(write(&mut connection, &lot(0, start_ms + 1000, 1)).status, 204);
    let peak_mib = node.peak_bytes() >> 20;
    assert!(peak_mib < LIMIT_MIB, "{peak_mib} MiB resident at most");
}

#[test]
fn answers_that_take_most_of_what_reads_may_are_made_one_after_the_other_and_none_is_refused() {
    const CLIENTS: usize = 8;
    const READS: usize = 3;
    let node = start();
    let mut connection = node.keep();
    let from_ms = now_ms() - 60_000;
    for round in 0..3 {
        assert_eq!(write(&mut connection, &lot(0, from_ms + 20 * round, 20)).status, 204);
    }
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut connection = node.keep();
                for _ in 0..READS {
                    let answer = connection.ask("POST", "/api/v1/read", &[], &read_all());
                    assert_eq!(answer.status, 200, "{}", answer.text());
                    // Of two at a time neither would find room for more than half of it.
                    assert!(answer.body.len() > 1 << 20, "{} bytes", answer.body.len());
                }
            });
        }
    });
}

/// A node whose whole answer takes much of the memory for reads, and who wrote to it.
fn with_large_answers() -> (Binary, Kept) {
    let node = start_with(512, 1);
    let mut connection = node.keep();
    let from_ms = now_ms() - 60_000;
    for round in 0..11 {
        let answer = write(&mut connection, &lot(0, from_ms + 20 * round, 20));
        assert_eq!(answer.status, 204, "{}", answer.text());
    }
    (node, connection)
}

#[test]
fn a_client_that_takes_nothing_of_a_large_answer_loses_it_when_another_one_waits() {
    let (node, mut connection) = with_large_answers();
    let answer = connection.ask("POST", "/api/v1/read", &[], &read_all());
    assert_eq!(answer.status, 200, "{}", answer.text());
    // More than sockets hold, and than is left beside it of what whole answers may take.
    assert!(answer.body.len() > 5 << 20, "{} bytes", answer.body.len());
    let mut idle = node.connect();
    // Its last query finds nothing: what the first one found is no less large.
    http::send(&mut idle, "POST", "/api/v1/read", &[], &read_of(&[".+", "nothing"]));
    // Its answer is made: the head comes after that.
    let mut head = [0; 12];
    idle.read_exact(&mut head).unwrap();
    assert_eq!(head, *b"HTTP/1.1 200");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let answer = node.keep().ask("POST", "/api/v1/read", &[], &read_all());
                assert_eq!(answer.status, 200, "{}", answer.text());
            });
        }
    });
    let metrics = page(&node, "/metrics");
    assert_eq!(of_shards(&metrics, "silverback_reads_slow_total"), [1.0], "{metrics}");
}

#[test]
fn a_read_that_waits_for_its_turn_holds_nothing_that_another_may_wait_for() {
    let (node, _writer) = with_large_answers();
    // The first has its turn as long as its client takes nothing; one that is made after it waits.
    let readers = [(); 2].map(|()| {
        let mut reader = node.connect();
        http::send(&mut reader, "POST", "/api/v1/read", &[], &read_of(&[".+", "nothing"]));
        reader
    });
    let mut seen = Vec::new();
    eventually("no read waits for its turn with nothing on the shards", || {
        let metrics = page(&node, "/metrics");
        let [waiting, selects] =
            ["silverback_reads_waiting", "silverback_memory_accounted_bytes{part=\"selects\""]
                .map(|name| of_shards(&metrics, name)[0]);
        seen.push((waiting, selects));
        waiting == 1.0 && selects == 0.0
    });
    println!("{seen:?}");
    drop(readers);
}

/// A metric's value in each shard.
fn of_shards(metrics: &str, name: &str) -> Vec<f64> {
    let lines = metrics.lines().filter(|line| line.starts_with(name));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn known_series_go_on_after_a_burst_of_label_sets_and_budgets_stay_above_what_is_held() {
    const KNOWN: usize = 2;
    for (limit_mib, shards) in [(LIMIT_MIB, 1), (256, 2)] {
        let node = start_with(limit_mib, shards);
        let mut connection = node.keep();
        let start_ms = now_ms() - 3_600_000;
        (0..KNOWN).for_each(|known| {
            assert_eq!(write(&mut connection, &lot(known, start_ms, 1)).status, 204);
        });
        let mut refused = 0;
        for number in KNOWN..400 {
            refused += usize::from(write(&mut connection, &lot(number, start_ms, 1)).status != 204);
            if refused == 20 {
                break;
            }
        }
        assert_eq!(refused, 20, "the burst fills what new series may take");
        for round in 1..=150 {
            let answer = write(&mut connection, &lot(round % KNOWN, start_ms + round as i64 * 15_000, 1));
            assert_eq!(answer.status, 204, "round {round}: {}", answer.text());
        }
        let metrics = page(&node, "/metrics");
        let pressure = of_shards(&metrics, "silverback_memory_pressure{");
        assert!(pressure.len() == shards && pressure.iter().all(|pressure| *pressure < 2.0), "{pressure:?}");
        let budgets = of_shards(&metrics, "silverback_memory_budget_bytes{");
        let parts = ["series", "chunks", "index"]
            .map(|part| of_shards(&metrics, &format!("silverback_memory_accounted_bytes{{part=\"{part}\"")));
        for (shard, budget) in budgets.iter().enumerate() {
            let held: f64 = parts.iter().map(|part| part[shard]).sum();
            // Budgets follow a few times a second.
            assert!(*budget >= held * 0.95, "{budget} of shard {shard}, which holds {held}");
        }
        let peak_mib = node.peak_bytes() >> 20;
        println!("{limit_mib} MiB: {peak_mib} MiB at most, budgets {budgets:?}, held {parts:?}");
        assert!(peak_mib < limit_mib, "{peak_mib} MiB resident at most");
    }
}

/// Requests of series with labels of kilobytes that nobody has seen before, as fast as they are taken, until it is told to
/// stop.
fn flood(node: &Binary, sender: usize, stop: &AtomicBool) {
    const VALUE_BYTES: usize = 3000;
    let mut connection = node.keep();
    for request in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // Bodies of 60 kB to 2.7 MB.
        let count = [20, 100, 300, 900][request % 4];
        let series: Vec<Series> = (0..count)
            .map(|i| {
                let unique = format!("{sender}-{request}-{i}-");
                let value = format!("{unique}{}", "x".repeat(VALUE_BYTES - unique.len()));
                Series::new([("__name__", "flood"), ("value", &value)]).sample(now_ms(), 1.0)
            })
            .collect();
        let status = write(&mut connection, &series).status;
        assert!([204, 400, 429].contains(&status), "{status}");
    }
}

const WRITES: usize = 100;

/// Writes of known series beside the floods and readers: how many were stored, and what the others were told.
fn write_beside_floods() -> (usize, Vec<String>) {
    const FLOODS: usize = 4;
    let node = start();
    let stop = AtomicBool::new(false);
    let (mut stored, mut refused) = (0, Vec::new());
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        for sender in 0..FLOODS {
            let (node, stop) = (&node, &stop);
            scope.spawn(move || flood(node, sender, stop));
        }
        let everything = "match[]=%7B__name__!=%22%22%7D";
        for path in ["/api/v1/export", "/api/v1/series"] {
            let (node, stop) = (&node, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let answer = node.get(&format!("{path}?{everything}"));
                    assert!([200, 429, 503].contains(&answer.status), "{}", answer.text());
                }
            });
        }
        let mut connection = node.keep();
        for _ in 0..WRITES {
            let answer = write(&mut connection, &lot_of(200, now_ms()));
            match answer.status {
                204 => stored += 1,
                _ => refused.push(answer.text()),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(stopping);
    });
    println!("{stored} stored, {} refused, {} MiB at most", refused.len(), node.peak_bytes() >> 20);
    assert!(node.peak_bytes() >> 20 < LIMIT_MIB, "{} MiB resident at most", node.peak_bytes() >> 20);
    (stored, refused)
}

#[test]
fn known_series_go_on_beside_a_flood_of_long_labels_and_readers_of_everything() {
    // A machine that others hold keeps requests in flight, which is another refusal, and has no time to give back what is
    // freed: at the third try it must have had some.
    let mut tries = (0..3).map(|_| write_beside_floods());
    let is_kept = |(stored, refused): &(usize, Vec<String>)| {
        *stored > WRITES / 2 && !refused.iter().any(|text| text.contains("memory"))
    };
    assert!(tries.any(|tried| is_kept(&tried)), "known series were refused for memory three times");
}

/// Has the others stop when it goes, by a panic too.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One sample each of so many series, always the same.
fn lot_of(count: usize, timestamp_ms: i64) -> Vec<Series> {
    let series = |i: usize| Series::new([("__name__", "known"), ("i", &i.to_string())]);
    (0..count).map(|i| series(i).sample(timestamp_ms, i as f64)).collect()
}

#[test]
fn a_flooded_node_refuses_in_order_says_so_and_stays_below_its_limit() {
    let began = Instant::now();
    let node = start();
    let mut connection = node.keep();
    let start_ms = now_ms() - 3_600_000;
    let mut lots = 0;
    let short = loop {
        let answer = write(&mut connection, &lot(lots, start_ms, 1));
        if answer.status != 204 {
            break answer;
        }
        lots += 1;
        assert!(lots * LOT < SERIES_MAX, "{lots} lots of new series were accepted");
    };
    assert_eq!((short.status, short.header("retry-after")), (400, "30"), "{}", short.text());
    assert!(short.text().contains("memory_limit"), "{}", short.text());
    // The program's own pages count as well, and one that isn't optimised has a third more: fewer series fit beside them.
    assert!(lots * LOT > 20_000, "{lots} lots fit");
    let resident_mib = node.resident_bytes() >> 20;
    assert!(resident_mib > LIMIT_MIB * 5 / 8, "new series go on while there is room: {resident_mib} MiB");
    let waiting = Waiting::begin();
    while !page(&node, "/api/v1/status/node").contains(r#""refuses":"new_series""#) {
        // Room that a measure of the process has found since is filled first.
        if write(&mut connection, &lot(lots, start_ms, 1)).status == 204 {
            lots += 1;
        }
        waiting.check(|| "the page doesn't say that new series are refused".to_owned());
    }

    let mut round = 0;
    let full = loop {
        let answer =
            write(&mut connection, &lot(round as usize % lots, start_ms + 1 + round / lots as i64 * 20, 20));
        if answer.status != 204 {
            break answer;
        }
        round += 1;
        assert!(round * (LOT as i64) * 20 < SAMPLES_MAX, "{round} lots of samples were accepted");
    };
    assert!(round > 0, "known series go on");
    let resident_mib = node.resident_bytes() >> 20;
    assert!(resident_mib > LIMIT_MIB * 3 / 4, "known series go on to the end: {resident_mib} MiB");
    assert_eq!((full.status, full.header("retry-after")), (429, "30"), "{}", full.text());
    for words in ["memory is full", "128 MiB", "--memory-limit"] {
        assert!(full.text().contains(words), "{}", full.text());
    }

    let metrics = page(&node, "/metrics");
    assert!(metrics.contains("silverback_memory_pressure{shard=\"0\"} 2"), "{metrics}");
    assert!(metrics.contains("silverback_write_requests_memory_full_total{shard=\"0\"} 1"), "{metrics}");
    let read = page(&node, "/api/v1/export?match[]=flood_total%7Bpod=%22pod-000000007%22%7D");
    assert!(read.contains("pod-000000007"), "{read}");
    let peak_mib = node.peak_bytes() >> 20;
    println!("{} series, {peak_mib} MiB at most, {:?}", lots * LOT, began.elapsed());
    assert!(peak_mib < LIMIT_MIB, "{peak_mib} MiB resident at most");
}
