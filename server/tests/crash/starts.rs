//! Starts that are not to be, and starts that take long.

use silverback_node_test_support::request::{PATH, Series, VERSIONS, body, headers};
use silverback_test_support::home::{Home, get, names};
use silverback_test_support::random::Random;

use crate::counted::Counted;
use crate::home;

#[test]
fn a_second_node_on_a_data_directory_says_who_has_it_and_leaves() {
    let home = home("second");
    let mut node = home.start_ready(&["--shards=1"]);
    let (code, told) = home.run(&["--shards=1"]);
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("another silverback (pid "), "{told}");
    assert!(told.contains(home.data_dir().to_str().unwrap()), "{told}");
    let mut counted = Counted::new();
    counted.write(&mut node, 3);
    assert_eq!(counted.read(&mut node), [1, 2, 3]);
}

/// Whichever core is the first to lack one: no node goes on with a part of its cores.
#[test]
fn a_node_without_enough_descriptors_ends_and_one_with_just_enough_can_be_stopped() {
    let home = home("descriptors");
    let arguments = ["--shards=2"];
    let node = home.start_ready(&arguments);
    // The last socket is the second core's listening one; what else it opens comes next.
    let last = node.socket_max();
    node.stop();
    for descriptors_max in last - 4..=last + 6 {
        home.start_with_descriptors(descriptors_max, &arguments).see_it_end();
    }
}

#[test]
fn a_start_goes_on_in_the_last_segment() {
    let home = home("many-starts");
    let arguments = ["--shards=1", "--wal-segment-bytes=1MiB"];
    let mut counted = Counted::new();
    for start in 0..12 {
        let mut node = home.start_ready(&arguments);
        counted.write(&mut node, 1);
        if start % 2 == 0 { node.kill() } else { node.stop() }
    }
    let dir = home.log_dir("g1-s1", 0);
    assert_eq!(names(&dir, ""), ["00000000000000000001.wal", "closed", "newest-1"]);
    let mut node = home.start_ready(&arguments);
    assert_eq!(counted.read(&mut node), (1..=12).collect::<Vec<_>>());
}

/// A log without a checkpoint, of some megabytes.
fn write_much(home: &Home, arguments: &[&str]) {
    const SERIES: usize = 1000;
    const REQUESTS: i64 = 60;
    const SAMPLES: i64 = 30;

    let mut node = home.start_ready(arguments);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let (start_ms, mut random) = (now.as_millis() as i64 - 20_000_000, Random::new(1));
    for request in 0..REQUESTS {
        let times = (0..SAMPLES).map(|sample| start_ms + (request * SAMPLES + sample) * 1000);
        let series: Vec<Series> = (0..SERIES)
            .map(|i| {
                let one = Series::new([("__name__", "much".to_owned()), ("i", i.to_string())]);
                times.clone().fold(one, |one, time_ms| one.sample(time_ms, random.next() as f64))
            })
            .collect();
        let answer = node.post(PATH, &headers(VERSIONS[0]), &body(VERSIONS[0], &series));
        assert_eq!(answer.status, 204, "{}", answer.text());
    }
    node.kill();
}

#[test]
fn a_node_that_replays_says_how_far_it_is_and_takes_no_writes() {
    let home = home("replays");
    let arguments = ["--shards=1", "--checkpoint-bytes=1GiB"];
    write_much(&home, &arguments);
    let mut node = home.start(&arguments);
    let address = node.wait_until_listening();
    let mut counted = Counted::new();
    let metrics = node.get("/metrics").text();
    // It is still at it: the metrics were of the replay.
    let refused = counted.try_write(&mut node);
    let replayed = node.get("/-/replayed");
    let mut told = Vec::new();
    node.wait_until("readiness", |_| {
        let answer = get(address, "/-/ready").ok()?;
        let is_ready = answer.status == 200;
        told.push((answer.status, answer.text()));
        is_ready.then_some(())
    });
    assert!(told.len() > 1, "the replay was over at once: {told:?}");
    let (_ready, waiting) = told.split_last().unwrap();
    let begins = "not ready: replaying the write-ahead log: ";
    assert!(waiting.iter().all(|(status, text)| *status == 503 && text.starts_with(begins)), "{told:?}");
    assert!(waiting.iter().any(|(_, text)| text.contains(" %, about ")), "{told:?}");
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(!refused.header("retry-after").is_empty());
    assert!(refused.text().contains("replaying the write-ahead log"), "{}", refused.text());
    assert_eq!(replayed.status, 503, "{}", replayed.text());
    assert!(replayed.text().starts_with("replaying the write-ahead log: "), "{}", replayed.text());
    assert_eq!(node.get("/-/replayed").status, 200);
    for expected in ["silverback_ready 0", "silverback_wal_unavailable{shard=\"0\"} 0"] {
        assert!(metrics.lines().any(|line| line == expected), "{expected}:\n{metrics}");
    }
    counted.write(&mut node, 1);
    assert_eq!(counted.read(&mut node), [2]);
}

#[test]
fn a_node_that_replays_ends_when_it_is_told_to() {
    let home = home("replay-stopped");
    let arguments = ["--shards=1", "--checkpoint-bytes=1GiB"];
    write_much(&home, &arguments);
    let mut node = home.start(&arguments);
    let address = node.wait_until_listening();
    let was_replaying = get(address, "/-/replayed").unwrap().status == 503;
    node.stop();
    assert!(was_replaying, "the replay was over at once");
    home.start_ready(&arguments).stop();
}
