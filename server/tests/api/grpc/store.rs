//! `thanos.Store`: series as Thanos Query wants them of a store beside others, on shards that each have a part of them.

use std::collections::{BTreeMap, BTreeSet};

use silverback::config::Config;
use silverback_model::gorilla::XorIter;
use silverback_model::limits::{CHUNK_RANGE_MS, STREAM_BUFFER_BYTES};
use silverback_node_test_support::Node;
use silverback_node_test_support::written::{Series, series, start_ms, write};
use silverback_proto::thanos::chunk::Encoding;
use silverback_proto::thanos::label_matcher::Type;
use silverback_proto::thanos::series_response::Result as Answer;
use silverback_proto::thanos::store_client::StoreClient;
use silverback_proto::thanos::{
    self, LabelMatcher, LabelNamesRequest, LabelValuesRequest, SeriesRequest, ShardInfo,
};
use tonic::Code;

use crate::grpc::channel::{Channel, origin};

const ALWAYS: (i64, i64) = (i64::MIN, i64::MAX);

pub(super) async fn client(node: &Node) -> StoreClient<Channel> {
    StoreClient::with_origin(Channel::open(node.address).await, origin(node.address))
}

pub(super) fn matcher(name: &str, kind: Type, value: &str) -> LabelMatcher {
    LabelMatcher { r#type: kind.into(), name: name.into(), value: value.into() }
}

/// All series that have a name like this.
pub(super) fn named(pattern: &str) -> SeriesRequest {
    let matchers = vec![matcher("__name__", Type::Re, pattern)];
    SeriesRequest { min_time: ALWAYS.0, max_time: ALWAYS.1, matchers, ..SeriesRequest::default() }
}

/// All responses: how many series each has, and the series.
async fn responses(node: &Node, request: SeriesRequest) -> (Vec<usize>, Vec<thanos::Series>) {
    let mut stream = client(node).await.series(request).await.unwrap().into_inner();
    let (mut counts, mut found) = (Vec::new(), Vec::new());
    while let Some(response) = stream.message().await.unwrap() {
        let bytes = prost::Message::encoded_len(&response);
        assert!(bytes < (1 << 20) + STREAM_BUFFER_BYTES, "{bytes} bytes in one response");
        let of_response = match response.result.expect("a response has a result") {
            Answer::Series(one) => vec![one],
            Answer::Batch(batch) => batch.series,
            Answer::Warning(words) => panic!("{words}"),
        };
        counts.push(of_response.len());
        found.extend(of_response);
    }
    (counts, found)
}

pub(super) async fn found(node: &Node, request: SeriesRequest) -> Vec<thanos::Series> {
    responses(node, request).await.1
}

async fn refused(node: &Node, request: SeriesRequest) -> (Code, String) {
    let status = client(node).await.series(request).await.unwrap_err();
    (status.code(), status.message().to_owned())
}

pub(super) type Pairs = Vec<(String, String)>;

pub(super) fn pairs(labels: &[thanos::Label]) -> Pairs {
    labels.iter().map(|label| (label.name.clone(), label.value.clone())).collect()
}

pub(super) fn label_sets(found: &[thanos::Series]) -> Vec<Pairs> {
    found.iter().map(|one| pairs(&one.labels)).collect()
}

/// The samples of chunks, whose times are what they say.
pub(super) fn samples(series: &thanos::Series) -> Vec<(i64, u64)> {
    let mut samples = Vec::new();
    for chunk in &series.chunks {
        let raw = chunk.raw.as_ref().unwrap();
        assert_eq!(raw.r#type(), Encoding::Xor);
        let read = XorIter::new(&raw.data).map(|sample| sample.unwrap());
        let of_chunk: Vec<_> = read.map(|sample| (sample.timestamp_ms, sample.value.to_bits())).collect();
        assert_eq!((of_chunk[0].0, of_chunk[of_chunk.len() - 1].0), (chunk.min_time, chunk.max_time));
        samples.extend(of_chunk);
    }
    samples
}

/// A label set as it is seen from outside.
pub(super) fn seen(own: &[(String, String)], external: &[(&str, &str)], without: &[&str]) -> Pairs {
    let external = external.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let merged: BTreeMap<_, _> = own.iter().cloned().chain(external).collect();
    merged.into_iter().filter(|(name, _)| !without.contains(&&**name)).collect()
}

pub(super) fn external(labels: &[(&str, &str)]) -> impl FnOnce(&mut Config) {
    let file: String =
        labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",");
    move |config| {
        let command = silverback::config::with_options(clap::Command::new("node"));
        let matches = command.try_get_matches_from(["node", &format!("--external-labels={file}")]).unwrap();
        config.external_labels = silverback::config::load([&matches], []).unwrap().config.external_labels;
    }
}

pub(super) const EXTERNAL: [(&str, &str); 3] =
    [("cluster", "eu-1"), ("p", "external"), ("tenant_id", "default-tenant")];

/// Series on all shards, whose labels lie before, between and after the external ones, and are those of others and more.
pub(super) fn fleet(start: i64) -> Vec<Series> {
    let some = |at: usize, name: &'static str| (at.is_multiple_of(3)).then_some((name, "x"));
    (0..240)
        .map(|at| {
            let i = format!("{:02}", at % 60);
            let mut labels = vec![("__name__", "load"), ("g", &*i)];
            labels.extend((at / 60 == 1).then_some(("p", "own")));
            labels.extend((at / 60 == 2).then_some(("z", "own")));
            labels.extend((at / 60 == 3).then_some(("replica", "r")));
            labels.extend(some(at, "a").into_iter().chain(some(at / 2, "q")));
            series(&labels, start, (0..5).map(|s| f64::from(s) + at as f64))
        })
        .collect()
}

#[tokio::test]
async fn series_of_three_shards_come_in_the_order_of_what_is_seen_of_their_labels() {
    let node = Node::start_with(3, external(&EXTERNAL[..2]));
    let fleet = fleet(start_ms());
    write(&node, &fleet);
    for without in [&[][..], &["replica"], &["replica", "p"], &["z", "cluster", "q"], &["g", "__name__"]] {
        let mut expect: Vec<_> =
            fleet.iter().map(|(own, samples)| (seen(own, &EXTERNAL, without), samples.clone())).collect();
        expect.sort();
        let without_replica_labels = without.iter().map(|name| name.to_string()).collect();
        let asked = SeriesRequest { without_replica_labels, ..named("load") };
        let all = found(&node, asked.clone()).await;
        let mut read: Vec<_> = all.iter().map(|one| (pairs(&one.labels), samples(one))).collect();
        let is_sorted = read.is_sorted_by(|a, b| a.0 <= b.0);
        assert!(is_sorted, "without {without:?}");
        // Sets that have become the same follow each other in any order.
        read.sort();
        assert!(read == expect, "without {without:?}");
        let labels_alone = found(&node, SeriesRequest { skip_chunks: true, ..asked }).await;
        assert!(labels_alone.iter().all(|one| one.chunks.is_empty()));
        assert!(label_sets(&labels_alone) == label_sets(&all), "without {without:?}");
    }
}

#[tokio::test]
async fn an_external_label_wins_over_a_series_own() {
    let node = Node::start_with(2, external(&[("p", "external")]));
    write(&node, &[series(&[("__name__", "up"), ("p", "own")], start_ms(), [1.0])]);
    let expect = [("__name__", "up"), ("p", "external"), ("tenant_id", "default-tenant")];
    let expect: Pairs = expect.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(label_sets(&found(&node, named("up")).await), [expect]);
}

#[tokio::test]
async fn external_labels_decide_about_matchers_of_their_names() {
    let node = Node::start_with(2, external(&EXTERNAL[..2]));
    write(&node, &fleet(start_ms()));
    let with = |one: LabelMatcher| {
        let mut request = SeriesRequest { limit: 1, ..named("load") };
        request.matchers.push(one);
        request
    };
    for (name, kind, value, is_match) in [
        ("cluster", Type::Eq, "eu-1", true),
        ("cluster", Type::Eq, "eu-2", false),
        ("cluster", Type::Eq, "", false),
        ("cluster", Type::Neq, "eu-2", true),
        ("cluster", Type::Re, "eu-.+", true),
        ("cluster", Type::Nre, "eu-.+", false),
        ("tenant_id", Type::Eq, "default-tenant", true),
        // What a series has of that name itself isn't seen.
        ("p", Type::Eq, "own", false),
        ("no_such", Type::Eq, "", true),
    ] {
        let count = found(&node, with(matcher(name, kind, value))).await.len();
        assert_eq!(count == 1, is_match, "{name} {kind:?} {value:?}");
    }
    let of_external = SeriesRequest { matchers: vec![matcher("cluster", Type::Eq, "eu-1")], ..named("") };
    for nothing in [of_external, SeriesRequest { matchers: vec![], ..named("") }] {
        let (code, words) = refused(&node, nothing).await;
        assert_eq!(
            (code, &*words),
            (Code::InvalidArgument, "no matchers specified (excluding external labels)")
        );
    }
}

#[tokio::test]
async fn shards_of_a_query_have_every_series_once_and_those_that_are_hashed_alike_together() {
    let node = Node::start_with(3, external(&EXTERNAL[..2]));
    let fleet = fleet(start_ms());
    write(&node, &fleet);
    for (by, labels, total) in [
        (true, &["g"][..], 4),
        (false, &["g"], 4),
        (false, &[], 1),
        (true, &["cluster", "z"], 3),
        (true, &[], 2),
    ] {
        let (mut all, mut shards) = (Vec::new(), BTreeMap::new());
        for shard_index in 0..total {
            let names = labels.iter().map(|name| name.to_string()).collect();
            let shard_info = Some(ShardInfo { shard_index, total_shards: total, by, labels: names });
            let without_replica_labels = vec!["replica".to_owned()];
            let request = SeriesRequest { shard_info, without_replica_labels, ..named("load") };
            let of_shard = label_sets(&found(&node, request).await);
            assert!(of_shard.is_sorted(), "{by} {labels:?}");
            for set in &of_shard {
                let hashed = set.iter().filter(|(name, _)| labels.contains(&&**name) == by);
                let hashed: Pairs = hashed.cloned().collect();
                assert_eq!(*shards.entry(hashed).or_insert(shard_index), shard_index, "{set:?}");
            }
            all.extend(of_shard);
        }
        let mut expect: Vec<_> = fleet.iter().map(|(own, _)| seen(own, &EXTERNAL, &["replica"])).collect();
        expect.sort();
        all.sort();
        assert!(all == expect, "{by} {labels:?} of {total}");
        let used: BTreeSet<_> = shards.values().collect();
        assert!(used.len() > 1 || total == 1 || shards.len() < 10, "{by} {labels:?}: {used:?}");
    }
    let beyond = ShardInfo { shard_index: 3, total_shards: 3, ..ShardInfo::default() };
    let (code, words) = refused(&node, SeriesRequest { shard_info: Some(beyond), ..named("load") }).await;
    assert_eq!((code, &*words), (Code::InvalidArgument, "shard_info: there is no shard 3 of 3"));
}

#[tokio::test]
async fn a_limit_takes_the_first_series_and_batches_have_as_many_as_are_asked_for() {
    let node = Node::start_with(3, external(&[]));
    write(&node, &fleet(start_ms()));
    let all = found(&node, named("load")).await;
    for (limit, expect) in [(0, 240), (1, 1), (17, 17), (1000, 240)] {
        let some = found(&node, SeriesRequest { limit, ..named("load") }).await;
        assert!(some == all[..expect], "limit {limit}: {}", some.len());
    }
    for (size, expect) in
        [(0, vec![1; 240]), (1, vec![1; 240]), (64, vec![64, 64, 64, 48]), (1000, vec![240])]
    {
        let batched = SeriesRequest { response_batch_size: size, skip_chunks: true, ..named("load") };
        let (counts, found) = responses(&node, batched).await;
        assert_eq!(counts, expect, "batches of {size}");
        assert!(label_sets(&found) == label_sets(&all));
    }
    // Series that are the same without labels count once.
    let merged = |limit| SeriesRequest {
        limit,
        without_replica_labels: ["g", "a", "q", "p", "z"].map(str::to_owned).to_vec(),
        ..named("load")
    };
    let sets: BTreeSet<_> = label_sets(&found(&node, merged(0)).await).into_iter().collect();
    assert_eq!(
        (sets.len(), found(&node, merged(1)).await.len()),
        (2, 60),
        "those with a replica, and others after them"
    );
}

#[tokio::test]
async fn ranges_hold_both_ends_and_chunks_may_exceed_them() {
    // Chunks end with their range: no border of two lies among these.
    let (node, start) = (Node::start(1), start_ms().div_euclid(CHUNK_RANGE_MS) * CHUNK_RANGE_MS);
    let written = series(&[("__name__", "up")], start, (0..300).map(f64::from));
    write(&node, std::slice::from_ref(&written));
    let check = async |from: i64, to: i64, expect: usize| {
        let request = SeriesRequest { min_time: start + from, max_time: start + to, ..named("up") };
        let found = found(&node, request).await;
        assert_eq!(found.iter().map(|one| one.chunks.len()).sum::<usize>(), expect, "{from} to {to}");
        for chunk in found.iter().flat_map(|one| &one.chunks) {
            assert!(chunk.min_time <= start + to && chunk.max_time >= start + from);
        }
    };
    check(0, 0, 1).await;
    check(299_000, 400_000, 1).await;
    check(0, 299_000, 3).await;
    check(-5, -1, 0).await;
    check(299_001, 400_000, 0).await;
    check(5, 4, 0).await;
}

#[tokio::test]
async fn a_long_series_goes_on_in_the_next_frame_under_its_labels() {
    let (node, start) = (Node::start(2), start_ms() - 10 * 3_600_000);
    // Values that don't compress: more than a frame may hold.
    let noise: Vec<f64> = (0..180_000).map(|s| f64::from(s * 7919 % 1_000_003).sin()).collect();
    let before = series(&[("__name__", "long"), ("i", "0")], start, [1.0]);
    let mut long = series(&[("__name__", "long"), ("i", "1")], start, noise);
    // Ten a second.
    long.1.iter_mut().for_each(|(time, _)| *time = start + (*time - start) / 10);
    let after = series(&[("__name__", "long"), ("i", "2")], start, [2.0]);
    write(&node, &[before.clone(), after.clone()]);
    for part in long.1.chunks(30_000) {
        write(&node, &[(long.0.clone(), part.to_vec())]);
    }
    for response_batch_size in [1, 64] {
        let (_, frames) = responses(&node, SeriesRequest { response_batch_size, ..named("long") }).await;
        assert!(frames.len() >= 4, "{} frames", frames.len());
        let mut read: Vec<Series> = Vec::new();
        for frame in &frames {
            let labels: Pairs =
                pairs(&frame.labels).into_iter().filter(|(name, _)| name != "tenant_id").collect();
            match read.last_mut() {
                Some(last) if last.0 == labels => last.1.extend(samples(frame)),
                Some(_) | None => read.push((labels, samples(frame))),
            }
        }
        assert!(read == [before.clone(), long.clone(), after.clone()], "batches of {response_batch_size}");
    }
}

#[tokio::test]
async fn names_and_values_are_listed_with_external_labels() {
    let (node, start) = (Node::start_with(3, external(&EXTERNAL[..2])), start_ms());
    write(&node, &fleet(start));
    let mut client = client(&node).await;
    let mut names = async |request: LabelNamesRequest| {
        let answer = client.label_names(request).await.unwrap().into_inner();
        assert!(answer.warnings.is_empty());
        answer.names
    };
    let all = LabelNamesRequest { start: ALWAYS.0, end: ALWAYS.1, ..LabelNamesRequest::default() };
    let expect = ["__name__", "a", "cluster", "g", "p", "q", "replica", "tenant_id", "z"];
    assert_eq!(names(all.clone()).await, expect);
    assert_eq!(names(LabelNamesRequest { limit: 3, ..all.clone() }).await, expect[..3]);
    let without = vec!["replica".to_owned(), "a".to_owned(), "cluster".to_owned()];
    let without = LabelNamesRequest { without_replica_labels: without, limit: 2, ..all.clone() };
    assert_eq!(names(without).await, ["__name__", "g"]);
    let of = |matchers: Vec<LabelMatcher>| LabelNamesRequest { matchers, ..all.clone() };
    let of_z = vec![matcher("z", Type::Eq, "own"), matcher("a", Type::Eq, ""), matcher("q", Type::Eq, "")];
    assert_eq!(names(of(of_z)).await, ["__name__", "cluster", "g", "p", "tenant_id", "z"]);
    assert!(names(of(vec![matcher("cluster", Type::Neq, "eu-1")])).await.is_empty());
    assert!(names(of(vec![matcher("g", Type::Eq, "none")])).await.is_empty(), "no series, no labels");
    assert!(names(LabelNamesRequest { end: start - 1, ..all.clone() }).await.is_empty());

    let mut values = async |label: &str, change: fn(&mut LabelValuesRequest)| {
        let mut request =
            LabelValuesRequest { label: label.into(), start: ALWAYS.0, end: ALWAYS.1, ..Default::default() };
        change(&mut request);
        client.label_values(request).await.map(|answer| answer.into_inner().values)
    };
    assert_eq!(values("g", |_| {}).await.unwrap().len(), 60);
    assert_eq!(values("g", |request| request.limit = 2).await.unwrap(), ["00", "01"]);
    let narrow = |request: &mut LabelValuesRequest| request.matchers = vec![matcher("g", Type::Re, "1[23]")];
    assert_eq!(values("g", narrow).await.unwrap(), ["12", "13"]);
    assert_eq!(values("p", |_| {}).await.unwrap(), ["external"]);
    assert_eq!(values("p", narrow).await.unwrap(), ["external"]);
    let nothing = |request: &mut LabelValuesRequest| request.matchers = vec![matcher("g", Type::Eq, "none")];
    assert!(values("p", nothing).await.unwrap().is_empty());
    let elsewhere = |request: &mut LabelValuesRequest| request.matchers = vec![matcher("p", Type::Eq, "own")];
    assert!(values("g", elsewhere).await.unwrap().is_empty());
    let left_out = |request: &mut LabelValuesRequest| request.without_replica_labels = vec!["g".to_owned()];
    assert!(values("g", left_out).await.unwrap().is_empty());
    let nameless = values("", |_| {}).await.unwrap_err();
    assert_eq!(nameless.code(), Code::InvalidArgument, "{nameless}");
}

#[tokio::test]
async fn what_means_nothing_is_refused_with_words_and_counted() {
    let node = Node::start(1);
    let check = async |request: SeriesRequest, expect: &str| {
        let (code, words) = refused(&node, request).await;
        assert_eq!(code, Code::InvalidArgument, "{words}");
        assert!(words.contains(expect), "{words}");
    };
    check(named("("), "\"(\"").await;
    let unknown = LabelMatcher { r#type: 9, ..LabelMatcher::default() };
    check(SeriesRequest { matchers: vec![unknown], ..named("") }, "no type 9").await;
    check(SeriesRequest { matchers: vec![matcher("a", Type::Eq, "b"); 300], ..named("") }, "300 matchers")
        .await;
    let names: Vec<_> = (0..300).map(|i| i.to_string()).collect();
    let without_replica_labels = names.clone();
    check(SeriesRequest { without_replica_labels, ..named("up") }, "300 labels").await;
    let shard = ShardInfo { total_shards: 1, labels: names, ..ShardInfo::default() };
    check(SeriesRequest { shard_info: Some(shard), ..named("up") }, "shard_info has 300 labels").await;
    // A message of more than a read's request may have.
    let (code, _) = refused(&node, named(&"x".repeat(600 << 10))).await;
    assert_eq!(code, Code::ResourceExhausted);
    let metrics = node.get("/metrics").text();
    assert!(metrics.contains("silverback_reads_total{shard=\"0\"} 5\n"), "{metrics}");
    assert!(metrics.contains("silverback_reads_failed_total{shard=\"0\"} 5\n"), "{metrics}");
}
