//! `thanos.Store` over the border between blocks and memory: in the order of what is seen of labels, whatever of a series
//! lies where.

use std::collections::BTreeMap;
use std::time::Duration;

use silverback_model::gorilla::FloatEncoding;
use silverback_node_test_support::Node;
use silverback_node_test_support::laid_blocks::{BlockSeries, put_as};
use silverback_node_test_support::written::{Series, start_ms, write};
use silverback_proto::thanos::info::InfoRequest;
use silverback_proto::thanos::info::info_client::InfoClient;
use silverback_proto::thanos::label_matcher::Type;
use silverback_proto::thanos::{LabelNamesRequest, LabelValuesRequest, SeriesRequest, ShardInfo};
use silverback_proto::v1::SampleEncoding;

use crate::grpc::channel::{Channel, origin};
use crate::grpc::query::select_all;
use crate::grpc::store::{
    EXTERNAL, Pairs, client, external, fleet, found, label_sets, matcher, named, pairs, samples, seen,
};

const HOUR_MS: i64 = 3_600_000;

/// A third of the fleet has old samples alone, a third young ones, the rest both: they are a day apart.
fn parts() -> (Vec<Series>, Vec<Series>) {
    let of = |start: i64, without: usize| {
        let all = fleet(start).into_iter().enumerate();
        let mut part: Vec<Series> = all.filter(|(at, _)| at % 3 != without).map(|(_, one)| one).collect();
        part.sort();
        part
    };
    (of(start_ms() - 24 * HOUR_MS, 0), of(start_ms(), 1))
}

fn node(old: &[Series], young: &[Series], floats: FloatEncoding) -> Node {
    let in_block = |(labels, samples): &Series| BlockSeries {
        labels: labels.clone(),
        floats: samples.clone(),
        ..BlockSeries::default()
    };
    let old: Vec<_> = old.iter().map(in_block).collect();
    let with_labels = external(&EXTERNAL[..2]);
    let node = Node::start_with(3, |config| {
        config.retention = Duration::from_secs(6 * 3600);
        put_as(floats, &config.data_dir, 1, &old, false);
        with_labels(config);
    });
    write(&node, young);
    node
}

/// All samples of each label set: several series may be seen as the same.
fn by_labels(all: impl Iterator<Item = (Pairs, Vec<(i64, u64)>)>) -> BTreeMap<Pairs, Vec<(i64, u64)>> {
    let mut by_labels = BTreeMap::<_, Vec<_>>::new();
    all.for_each(|(labels, samples)| by_labels.entry(labels).or_default().extend(samples));
    by_labels.values_mut().for_each(|samples| samples.sort_unstable());
    by_labels
}

#[tokio::test]
async fn series_of_blocks_and_memory_come_in_the_order_of_what_is_seen_of_their_labels() {
    let (old, young) = parts();
    let node = node(&old, &young, FloatEncoding::Xor2);
    for without in
        [&[][..], &["replica"], &["replica", "p"], &["z", "cluster", "q"], &["g", "__name__"], &["tenant_id"]]
    {
        let expect =
            old.iter().chain(&young).map(|(own, samples)| (seen(own, &EXTERNAL, without), samples.clone()));
        let expect = by_labels(expect);
        let without_replica_labels = without.iter().map(|name| name.to_string()).collect();
        let asked = SeriesRequest { without_replica_labels, ..named("load") };
        let all = found(&node, asked.clone()).await;
        assert!(all.is_sorted_by(|a, b| pairs(&a.labels) <= pairs(&b.labels)), "without {without:?}");
        let read = by_labels(all.iter().map(|one| (pairs(&one.labels), samples(one))));
        assert!(read == expect, "without {without:?}");
        let count = |part: &[Series]| {
            let mut counts = BTreeMap::<_, usize>::new();
            part.iter().for_each(|(own, _)| *counts.entry(seen(own, &EXTERNAL, without)).or_default() += 1);
            counts
        };
        let (of_old, of_young) = (count(&old), count(&young));
        let most = |labels: &Pairs| of_old.get(labels).max(of_young.get(labels)).copied().unwrap_or_default();
        let rows: usize = expect.keys().map(most).sum();
        assert_eq!(all.len(), rows, "a series that both have is one, without {without:?}");
        let labels_alone = found(&node, SeriesRequest { skip_chunks: true, ..asked }).await;
        assert!(label_sets(&labels_alone) == label_sets(&all), "without {without:?}");
    }
}

#[tokio::test]
async fn shards_of_a_query_have_every_series_of_blocks_and_memory_once() {
    let (old, young) = parts();
    let node = node(&old, &young, FloatEncoding::Xor2);
    let mut all = Vec::new();
    for shard_index in 0..4 {
        let shard_info = ShardInfo { shard_index, total_shards: 4, by: true, labels: vec!["g".to_owned()] };
        let asked = SeriesRequest { shard_info: Some(shard_info), ..named("load") };
        all.extend(label_sets(&found(&node, asked).await));
    }
    all.sort();
    assert!(all == label_sets(&found(&node, named("load")).await));
}

#[tokio::test]
async fn names_and_values_are_those_of_blocks_too_and_info_tells_how_far_they_go_back() {
    let (old, young) = parts();
    let node = node(&old, &young, FloatEncoding::Xor2);
    let mut client = client(&node).await;
    let (start, end) = (i64::MIN, i64::MAX);
    let matchers = vec![matcher("__name__", Type::Eq, "load")];
    let names = LabelNamesRequest { start, end, matchers: matchers.clone(), ..LabelNamesRequest::default() };
    let names = client.label_names(names).await.unwrap().into_inner().names;
    assert_eq!(names, ["__name__", "a", "cluster", "g", "p", "q", "replica", "tenant_id", "z"]);
    let values =
        LabelValuesRequest { label: "g".to_owned(), start, end, matchers, ..LabelValuesRequest::default() };
    let values = client.label_values(values).await.unwrap().into_inner().values;
    assert_eq!(values, (0..60).map(|g| format!("{g:02}")).collect::<Vec<_>>());
    let mut info = InfoClient::with_origin(Channel::open(node.address).await, origin(node.address));
    let info = info.info(InfoRequest {}).await.unwrap().into_inner();
    let oldest_ms = old.iter().map(|(_, samples)| samples[0].0).min().unwrap();
    assert_eq!(info.store.unwrap().min_time, oldest_ms - oldest_ms.rem_euclid(2 * HOUR_MS));
    assert!(info.exemplars.unwrap().min_time > oldest_ms);
}

#[tokio::test]
async fn whatever_blocks_are_encoded_as_chunks_and_columns_are_the_same() {
    let (old, young) = parts();
    let nodes = [FloatEncoding::Xor, FloatEncoding::Xor2].map(|floats| node(&old, &young, floats));
    for encoding in [SampleEncoding::Columns, SampleEncoding::XorChunks] {
        let [of_xor, of_xor2] =
            [select_all(&nodes[0], encoding).await, select_all(&nodes[1], encoding).await];
        assert!(!of_xor.is_empty() && of_xor == of_xor2, "{encoding:?}");
    }
    let [of_xor, of_xor2] = [found(&nodes[0], named("load")).await, found(&nodes[1], named("load")).await]
        .map(|all| by_labels(all.iter().map(|one| (pairs(&one.labels), samples(one)))));
    assert!(of_xor == of_xor2);
}
