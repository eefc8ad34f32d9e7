//! Reads: whole series out of responses, however these are cut.

use futures::{StreamExt, TryStreamExt};
use silverback_client::{Labels, Matcher, ReadError, RequestError, SelectedSeries, Selector, chunk};
use silverback_proto::v1;
use tonic::Status;

use crate::fake::{Fake, messages};

fn labels(room: &str) -> Labels {
    vec![("__name__".to_owned(), "t".to_owned()), ("room".to_owned(), room.to_owned())]
}

/// A part of a series: its samples in columns.
fn part(room: &str, samples: &[(i64, f64)]) -> v1::SelectedSeries {
    let mut last_ms = 0;
    let mut columns = v1::Columns::default();
    for (timestamp_ms, value) in samples {
        columns.timestamp_deltas_ms.push(timestamp_ms - last_ms);
        columns.values.push(*value);
        last_ms = *timestamp_ms;
    }
    v1::SelectedSeries { labels: messages(&labels(room)), columns: Some(columns), ..Default::default() }
}

fn response(series: &[v1::SelectedSeries]) -> v1::SelectResponse {
    v1::SelectResponse { series: series.to_vec() }
}

#[tokio::test]
async fn series_come_whole_and_in_order() {
    let fake = Fake::start([]);
    fake.state().select = vec![
        response(&[part("a", &[(1, 1.0)]), part("b", &[(1, 2.0), (5, 3.0)])]),
        response(&[part("b", &[(7, 4.0)])]),
        response(&[]),
        response(&[part("b", &[(9, 5.0)]), part("c", &[(-3, 6.0)])]),
    ];
    let selector: Selector = "t{room=~\"a|b|c\"}".parse().unwrap();
    let found = fake.client().await.reader().select(&selector, 0..=10).await.unwrap();
    let found: Vec<SelectedSeries> = found.try_collect().await.unwrap();
    let series = |room: &str, samples: &[(i64, f64)]| SelectedSeries {
        labels: labels(room),
        samples: samples.to_vec(),
        histograms: vec![],
    };
    let expect = [
        series("a", &[(1, 1.0)]),
        series("b", &[(1, 2.0), (5, 3.0), (7, 4.0), (9, 5.0)]),
        series("c", &[(-3, 6.0)]),
    ];
    assert_eq!(found, expect);
    let asked = fake.state().asked[0].clone();
    for expect in ["max_ms: 10", "kind: Regex, name: \"room\", value: \"a|b|c\"", "encoding: Columns"] {
        assert!(asked.contains(expect), "{asked}");
    }
}

#[tokio::test]
async fn a_read_that_breaks_gives_no_half_series() {
    let fake = Fake::start([]);
    fake.state().select = vec![response(&[part("a", &[(1, 1.0)]), part("b", &[(1, 2.0)])])];
    fake.state().select_ends = Some(Status::unavailable("stopping"));
    let mut found =
        fake.client().await.reader().select(&[Matcher::equal("room", "a")], 0..=10).await.unwrap();
    assert_eq!(found.next().await.unwrap().unwrap().labels, labels("a"));
    let error = found.next().await.unwrap().unwrap_err();
    assert!(matches!(error, ReadError::Request(RequestError::Unavailable(_))), "{error}");
    assert!(found.next().await.is_none());
}

#[tokio::test]
async fn broken_columns_are_told() {
    let fake = Fake::start([]);
    let mut broken = part("a", &[(1, 1.0), (2, 1.0)]);
    broken.columns.as_mut().unwrap().values.pop();
    fake.state().select = vec![response(&[broken])];
    let mut found = fake.client().await.reader().select(&[], 0..=10).await.unwrap();
    let error = found.next().await.unwrap().unwrap_err();
    assert!(matches!(error, ReadError::UnevenColumns { timestamps: 2, values: 1 }), "{error}");
}

#[tokio::test]
async fn chunks_come_as_they_are_stored() {
    let fake = Fake::start([]);
    // One sample 5 at 1,700,000,000 s.
    let bytes = [0x00, 0x01, 0x80, 0xa0, 0xab, 0xfe, 0xf9, 0x62, 0x40, 0x14, 0, 0, 0, 0, 0, 0];
    let time_ms = 1_700_000_000_000;
    let chunk = v1::XorChunk { min_ms: time_ms, max_ms: time_ms, bytes: bytes.to_vec().into() };
    let series =
        v1::SelectedSeries { labels: messages(&labels("a")), chunks: vec![chunk], ..Default::default() };
    fake.state().select = vec![response(std::slice::from_ref(&series)), response(&[series])];
    let found = fake.client().await.reader().select_chunks(&[], 0..=i64::MAX).await.unwrap();
    let found: Vec<_> = found.try_collect().await.unwrap();
    let [series] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((series.labels.clone(), series.chunks.len()), (labels("a"), 2));
    assert_eq!(chunk::decode(&series.chunks[1].bytes), Ok(vec![(time_ms, 5.0)]));
}

#[tokio::test]
async fn label_sets_names_and_values_are_read() {
    let fake = Fake::start([]);
    let rooms = ["a", "b", "c"];
    for room in rooms {
        fake.state().stored.insert(labels(room), Default::default());
    }
    let reader = fake.client().await.reader();
    let sets: Vec<_> = reader.series(&[], None).await.unwrap().try_collect().await.unwrap();
    assert_eq!(sets, rooms.map(labels));
    assert_eq!(reader.label_names(&[], Some(1..=2)).await.unwrap(), ["a", "b"]);
    assert_eq!(reader.label_values("room", &[Matcher::not_equal("a", "b")], None).await.unwrap(), ["1"]);
    let asked = fake.state().asked.join("\n");
    assert!(asked.contains("min_ms: 1, max_ms: 2") && asked.contains("kind: NotEqual"), "{asked}");
}
