//! A writer whose node is killed under it, again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use prost::Message;
use silverback_client::{
    Client, Durability, Labels, Matcher, RetryPolicy, SelectedSeries, Writer, WriterHook, WriterOptions,
};
use silverback_model::STALE_NAN_BITS;
use silverback_node_test_support::written::{READ_HEADERS, query, read_body, start_ms};
use silverback_proto::prometheus::{ReadResponse, label_matcher::Type};
use silverback_test_support::home::{Home, NodeProcess};
use silverback_test_support::{TEST_TIMEOUT, Waiting};

use crate::client_library::cable::Cable;
use crate::client_library::home;

const SERIES: usize = 1000;
const SAMPLES_OF_EACH: usize = 100;
const KILLS: usize = 3;

/// What was written: the bits of each value by time and labels.
type Written = BTreeMap<Labels, Vec<(i64, u64)>>;

#[derive(Default)]
struct Acknowledged {
    samples: AtomicUsize,
    retried: AtomicUsize,
}

impl WriterHook for Acknowledged {
    fn batch_acknowledged(&self, samples: usize, _latency: Duration) {
        self.samples.fetch_add(samples, Ordering::Relaxed);
    }

    fn batch_retried(&self, samples: usize) {
        self.retried.fetch_add(samples, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_brings_every_sample_through_kills_of_its_node() {
    let home = home("client-library");
    let mut node = start(&home);
    let cable = Cable::to(node.address()).await;
    let client = Client::connect(format!("http://{}", cable.address)).await.unwrap();
    let acknowledged = Arc::new(Acknowledged::default());
    let writer = client.writer_with(options(Arc::clone(&acknowledged)));
    let writing = tokio::spawn(write(writer.clone()));
    for kill in 1..=KILLS {
        let samples = kill * SERIES * SAMPLES_OF_EACH / (KILLS + 2);
        until("acknowledgements", || acknowledged.samples.load(Ordering::Relaxed) >= samples).await;
        node.kill();
        node = start(&home);
        cable.plug_into(node.address());
    }
    let written = writing.await.unwrap();
    let closed = writer.close().await.unwrap();
    assert_eq!(closed.samples_written, (SERIES * SAMPLES_OF_EACH) as u64);
    assert_eq!((closed.refusals, closed.durability), (vec![], Durability::Disk));
    assert!(acknowledged.retried.load(Ordering::Relaxed) > 0, "no kill hit a batch in flight");
    assert!(read(&client).await == written, "what was read isn't what was written");
    assert!(read_without_client(&mut node) == written, "nor is it by remote read");
}

fn start(home: &Home) -> NodeProcess {
    home.start_ready(&["--shards", "2"])
}

fn options(hook: Arc<Acknowledged>) -> WriterOptions {
    let retry = RetryPolicy {
        backoff_min: Duration::from_millis(10),
        backoff_max: Duration::from_millis(100),
        give_up_after: Some(TEST_TIMEOUT),
    };
    WriterOptions {
        batch_samples_max: 300,
        batch_delay_max: Duration::from_millis(5),
        retry,
        hook: Some(hook),
        ..WriterOptions::default()
    }
}

/// Writes round after round, each of one sample of every series, as fast as it goes: batches are under
/// way all the time.
async fn write(writer: Writer) -> Written {
    let series: Vec<_> =
        (0..SERIES).map(|n| writer.series("written", [("n", format!("{n:04}"))]).unwrap()).collect();
    let (start_ms, mut written) = (start_ms(), Written::new());
    for round in 0..SAMPLES_OF_EACH {
        let timestamp_ms = start_ms + 1000 * round as i64;
        for (n, series) in series.iter().enumerate() {
            let bits = value_bits(n, round);
            writer.write(series, timestamp_ms, f64::from_bits(bits)).await.unwrap();
            written.entry(series.labels().to_vec()).or_default().push((timestamp_ms, bits));
        }
    }
    written
}

fn value_bits(series: usize, round: usize) -> u64 {
    match round % 10 {
        9 => STALE_NAN_BITS,
        // Every bit changes from one sample to the next.
        _ => (series as u64 + 1).wrapping_mul(round as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = Waiting::begin();
    while !is_so() {
        waiting.check(|| format!("no {what}"));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// All that the node has of it, read by the client.
async fn read(client: &Client) -> Written {
    let all = [Matcher::equal("__name__", "written")];
    let found = client.reader().select(&all, i64::MIN..=i64::MAX).await.unwrap();
    let bits = |(timestamp_ms, value): (i64, f64)| (timestamp_ms, value.to_bits());
    let series = |series: SelectedSeries| (series.labels, series.samples.into_iter().map(bits).collect());
    found.map_ok(series).try_collect().await.unwrap()
}

/// The same by remote read, which the client has no part in.
fn read_without_client(node: &mut NodeProcess) -> Written {
    let all = query(&[("__name__", Type::Eq, "written")], (i64::MIN, i64::MAX));
    let answer = node.post("/api/v1/read", &READ_HEADERS, &read_body(vec![all], &[]));
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    let body = snap::raw::Decoder::new().decompress_vec(&answer.body).unwrap();
    let response = ReadResponse::decode(body.as_slice()).unwrap();
    let series = response.results.into_iter().flat_map(|result| result.timeseries).map(|series| {
        let labels = series.labels.into_iter().map(|label| (label.name, label.value)).collect();
        let samples = series.samples.iter().map(|sample| (sample.timestamp, sample.value.to_bits()));
        (labels, samples.collect())
    });
    series.collect()
}
