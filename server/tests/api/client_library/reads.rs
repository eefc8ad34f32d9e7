//! What the client reads of a node: samples, chunks, labels, health, shards and cells.

use futures::TryStreamExt;
use silverback::api::ingest::remote_write::Version;
use silverback::config::RebalanceMode;
use silverback_client::remote_write::{RemoteWriter, RemoteWritten, WriteError};
use silverback_client::{
    Client, Compression, Health, Labels, Matcher, ReadError, Reader, RequestError, SelectedSeries, Selector,
    Series, chunk,
};
use silverback_model::STALE_NAN_BITS;
use silverback_model::histogram::wire::HistogramTimes;
use silverback_model::histogram::{
    Buckets, CUSTOM_BUCKETS_SCHEMA, Histogram, HistogramKind, ResetHint, SealedHistogram, Span,
};
use silverback_node_test_support::written::start_ms;
use silverback_node_test_support::{Node, request};

const HOSTS: usize = 50;
const SAMPLES_OF_EACH: usize = 500;

/// The bits of each value by time, by labels; ordered as a read is.
type Bits = Vec<(Labels, Vec<(i64, u64)>)>;

async fn client(node: &Node, compression: Compression) -> Client {
    let builder = Client::builder(format!("http://{}", node.address)).compression(compression);
    builder.connect().await.unwrap()
}

/// Series of several chunks each, by a writer; gives back what it wrote.
async fn write(client: &Client, start_ms: i64) -> Bits {
    let writer = client.writer();
    let mut written = Bits::new();
    for host in 0..HOSTS {
        let series = writer.series("load", [("host", format!("h{host:02}"))]).unwrap();
        let samples: Vec<_> =
            (0..SAMPLES_OF_EACH).map(|n| (start_ms + 1000 * n as i64, bits(host, n))).collect();
        for (timestamp_ms, bits) in &samples {
            writer.write(&series, *timestamp_ms, f64::from_bits(*bits)).await.unwrap();
        }
        written.push((series.labels().to_vec(), samples));
    }
    let closed = writer.close().await.unwrap();
    assert_eq!((closed.samples_written, closed.refusals), ((HOSTS * SAMPLES_OF_EACH) as u64, vec![]));
    written
}

fn bits(host: usize, n: usize) -> u64 {
    if n == SAMPLES_OF_EACH - 1 { STALE_NAN_BITS } else { ((host * n) as f64).sqrt().to_bits() }
}

async fn select(reader: &Reader, selector: &str, range_ms: std::ops::RangeInclusive<i64>) -> Bits {
    let selector: Selector = selector.parse().unwrap();
    let found: Vec<SelectedSeries> =
        reader.select(&selector, range_ms).await.unwrap().try_collect().await.unwrap();
    let bits = |(timestamp_ms, value): (i64, f64)| (timestamp_ms, value.to_bits());
    found.into_iter().map(|series| (series.labels, series.samples.into_iter().map(bits).collect())).collect()
}

async fn check_reads_back(compression: Compression) {
    let node = Node::start(2);
    let client = client(&node, compression).await;
    let start_ms = start_ms();
    let written = write(&client, start_ms).await;
    let reader = client.reader();
    assert!(select(&reader, "load", i64::MIN..=i64::MAX).await == written, "samples");

    let found = reader.select_chunks(&[Matcher::equal("__name__", "load")], i64::MIN..=i64::MAX).await;
    let found: Vec<_> = found.unwrap().try_collect().await.unwrap();
    let decoded = found.into_iter().map(|series| {
        let samples = series.chunks.iter().flat_map(|chunk| chunk::decode(&chunk.bytes).unwrap());
        (series.labels, samples.map(|(timestamp_ms, value)| (timestamp_ms, value.to_bits())).collect())
    });
    assert!(decoded.collect::<Bits>() == written, "chunks");
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_and_chunks_come_back_bit_for_bit() {
    check_reads_back(Compression::None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_messages_say_the_same() {
    check_reads_back(Compression::Zstd).await;
    check_reads_back(Compression::Gzip).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn matchers_and_the_range_narrow_a_read() {
    let node = Node::start(2);
    let client = client(&node, Compression::None).await;
    let start_ms = start_ms();
    let written = write(&client, start_ms).await;
    let reader = client.reader();
    let found =
        select(&reader, r#"load{host=~"h0[1-3]",host!="h02"}"#, start_ms + 1000..=start_ms + 3000).await;
    let expect: Bits = [1, 3].map(|host| (written[host].0.clone(), written[host].1[1..=3].to_vec())).into();
    assert_eq!(found, expect);
    assert_eq!(select(&reader, "load", start_ms - 2..=start_ms - 1).await, []);

    let sets: Vec<_> =
        reader.series(&[Matcher::regex("host", "h4.")], None).await.unwrap().try_collect().await.unwrap();
    assert_eq!(sets, (40..50).map(|host| written[host].0.clone()).collect::<Vec<_>>());
    assert_eq!(reader.label_names(&[], None).await.unwrap(), ["__name__", "host"]);
    let hosts = reader.label_values("host", &[Matcher::not_regex("host", "h[1-4].")], None).await.unwrap();
    assert_eq!((hosts.len(), hosts[9].as_str()), (10, "h09"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_cannot_be_is_told() {
    let node = Node::start(1);
    let reader = client(&node, Compression::None).await.reader();
    for matchers in [vec![Matcher::regex("a", "(")], vec![], vec![Matcher::equal("a", "")]] {
        let result = reader.select(&matchers, 0..=1).await;
        assert!(matches!(result, Err(ReadError::Request(RequestError::Invalid(_)))), "{matchers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_tells_of_itself() {
    // No cell moves between two questions.
    let node = Node::start_with(2, |config| config.rebalance = RebalanceMode::Off);
    let client = client(&node, Compression::None).await;
    let series: Vec<_> =
        (0..10).map(|n| Series::new("up", [("n", n.to_string())]).sample(start_ms(), 1.0)).collect();
    assert_eq!(client.write(&series).await.unwrap().samples_written, 10);
    assert_eq!(client.health().await.unwrap(), Health::Serving);
    let admin = client.admin();
    let shards = admin.shards().await.unwrap();
    assert_eq!(shards.shards.iter().map(|shard| shard.samples).sum::<u64>(), 10);
    assert_eq!((shards.shards.len(), shards.version.as_str()), (2, env!("CARGO_PKG_VERSION")));
    let cells = admin.cells(None).await.unwrap();
    assert_eq!(cells.iter().map(|cell| cell.series).sum::<u64>(), 10);
    let of_one = admin.cells(Some(1)).await.unwrap();
    let expect = cells.iter().filter(|cell| cell.shard == 1).map(|cell| cell.number);
    assert!(of_one.iter().map(|cell| cell.number).eq(expect), "{of_one:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn native_histograms_are_read_one_by_one_and_in_chunks_beside_floats() {
    let (node, start) = (Node::start(2), start_ms());
    let mut written = Vec::new();
    let mut series = request::Series::new([("__name__", "took")]).sample(start - 1, 1.0);
    for n in 0..20 {
        let words = vec![n, 1];
        let positive = Buckets { spans: vec![Span { offset: 1, length: 2 }], words };
        let histogram = Histogram { count: 2 * n + 1, positive, ..Histogram::default() };
        let times = HistogramTimes { timestamp_ms: start + n as i64, ..HistogramTimes::default() };
        let mut message = Vec::new();
        histogram.put_message(times, &mut message);
        series = series.histogram(message);
        written.push((times.timestamp_ms, histogram));
    }
    let body = request::body(Version::V1, &[series]);
    assert_eq!(node.post(request::PATH, &request::headers(Version::V1), &body).status, 204);
    let reader = client(&node, Compression::None).await.reader();
    let selector: Selector = "took".parse().unwrap();
    let found: Vec<_> = reader.select(&selector, 0..=i64::MAX).await.unwrap().try_collect().await.unwrap();
    assert_eq!(found[0].samples, [(start - 1, 1.0)]);
    let same = |((at, found), (expect_at, expect)): (&(i64, Histogram), &(i64, Histogram))| {
        at == expect_at && found.is_same(expect)
    };
    assert_eq!(found[0].histograms.len(), written.len());
    assert!(found[0].histograms.iter().zip(&written).all(same), "{:?}", found[0].histograms);
    let later = start + 15..=i64::MAX;
    let found: Vec<_> = reader.select(&selector, later).await.unwrap().try_collect().await.unwrap();
    assert_eq!((found[0].samples.len(), found[0].histograms.len()), (0, 5));
    let found: Vec<_> =
        reader.select_chunks(&selector, 0..=i64::MAX).await.unwrap().try_collect().await.unwrap();
    let [chunk] = &found[0].histogram_chunks[..] else { panic!("{found:?}") };
    assert_eq!((found[0].chunks.len(), chunk.encoding), (1, 2));
    let chunk = SealedHistogram::from_bytes(HistogramKind::Integer, chunk.bytes[..].into()).unwrap();
    assert_eq!(chunk.count(), 20);
}

/// One of each kind: of integers, of floats, of custom buckets, and a staleness marker.
fn of_each_kind(n: u64) -> [Histogram; 4] {
    let side = |words: Vec<u64>| Buckets { spans: vec![Span { offset: -1, length: 2 }], words };
    let integer = Histogram {
        schema: 3,
        zero_threshold: 0.001,
        zero_count: 2,
        count: 5 + 2 * n,
        sum_bits: (n as f64 / 3.0).to_bits(),
        positive: side(vec![n, 1]),
        negative: side(vec![1, 0]),
        ..Histogram::default()
    };
    let bits = |count: f64| count.to_bits();
    let float = Histogram {
        kind: HistogramKind::Float,
        hint: ResetHint::Gauge,
        count: bits(n as f64 + 0.5),
        sum_bits: 0x7ff8_0000_0000_1234,
        positive: side(vec![bits(n as f64), bits(0.5)]),
        ..Histogram::default()
    };
    let custom = Histogram {
        schema: CUSTOM_BUCKETS_SCHEMA,
        count: 2 * n + 1,
        positive: Buckets { spans: vec![Span { offset: 0, length: 2 }], words: vec![n, 1] },
        bounds: vec![0.25],
        ..Histogram::default()
    };
    [integer, float, custom, Histogram::stale(HistogramKind::Integer)]
}

#[tokio::test(flavor = "multi_thread")]
async fn native_histograms_of_every_kind_are_written_by_remote_write_and_come_back_as_they_were() {
    let (node, start) = (Node::start(2), start_ms());
    let all: Vec<(i64, Histogram)> =
        (0..40).map(|n| start + 1000 * n).zip((0..10).flat_map(of_each_kind)).collect();
    let took = || Series::new("took", [("job", "shop")]);
    let series = all.iter().fold(took(), |series, (at, histogram)| series.histogram(*at, histogram.clone()));
    let series = series.sample(start + 1, 0.5);
    let writer = RemoteWriter::new(&format!("http://{}", node.address)).unwrap();
    // Sent again, they are stored still.
    for _ in 0..2 {
        let written = writer.write(std::slice::from_ref(&series)).await.unwrap();
        assert_eq!(written, RemoteWritten { samples: 1, histograms: 40 });
    }
    let client = client(&node, Compression::None).await;
    let selector: Selector = "took".parse().unwrap();
    let found: Vec<_> =
        client.reader().select(&selector, 0..=i64::MAX).await.unwrap().try_collect().await.unwrap();
    let [found] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&found.samples[..], found.histograms.len()), (&[(start + 1, 0.5)][..], 40));
    for ((at, found), (expect_at, expect)) in found.histograms.iter().zip(&all) {
        assert!(at == expect_at && found.is_same(expect), "{found:?}\n{expect:?}");
    }
    // One that contradicts itself is refused alone, and the writer learns what is stored.
    let later = start + 50_000;
    let bad = Histogram { count: 1, ..of_each_kind(5)[0].clone() };
    let bad = took().histogram(later, of_each_kind(50)[0].clone()).histogram(later + 1, bad);
    let refused = writer.write(&[bad]).await.unwrap_err();
    let WriteError::Refused { text, written, .. } = refused else { panic!("{refused:?}") };
    assert!(text.contains("histogram_counts 1"), "{text}");
    assert_eq!(written, RemoteWritten { samples: 0, histograms: 1 });
    // By gRPC they go with their floats.
    let both = [took().sample(later + 2, 1.0).histogram(later + 3, of_each_kind(53)[0].clone())];
    let written = client.write(&both).await.unwrap();
    assert_eq!((written.samples_written, written.refusals), (2, vec![]));
}
