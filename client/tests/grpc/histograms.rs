//! Native histograms through a writer: sent among floats, again after a failure, and never to a node that would pass
//! over them.

use std::time::Duration;

use silverback_client::histogram::{Buckets, Histogram, Span};
use silverback_client::{RetryPolicy, Series, WriterError, WriterOptions};
use silverback_proto::v1;
use tonic::Status;

use crate::fake::{Fake, Plan, WIDE_TERMS};

fn histogram(n: u64) -> Histogram {
    let positive = Buckets { spans: vec![Span { offset: 0, length: 1 }], words: vec![n] };
    Histogram { count: n, positive, ..Histogram::default() }
}

fn options() -> WriterOptions {
    let retry = RetryPolicy { backoff_min: Duration::from_millis(1), ..Default::default() };
    WriterOptions { batch_samples_max: 100, retry, ..Default::default() }
}

#[tokio::test]
async fn what_is_not_acknowledged_is_sent_again_and_stored_once() {
    let fake = Fake::start([Plan::silent_until(3, Status::unavailable("as planned")), Plan::default()]);
    let writer = fake.client().await.writer_with(options());
    let [floats, histograms] =
        ["floats", "histograms"].map(|name| writer.series(name, [("a", "b")]).unwrap());
    for n in 0..200 {
        writer.write(&floats, n, 0.5).await.unwrap();
        writer.write_histogram(&histograms, n, &histogram(n as u64)).await.unwrap();
    }
    let closed = writer.close().await.unwrap();
    assert_eq!((closed.samples_written, closed.refusals), (400, vec![]));
    let state = fake.state();
    assert_eq!(state.streams, 2);
    let stored = state.histograms.values().next().unwrap();
    assert_eq!(stored.len(), 200);
    assert!(stored.iter().all(|(at, stored)| *stored == histogram(*at as u64)));
    assert_eq!(state.stored.values().next().unwrap().len(), 200);
    let sent: usize = state.came.iter().map(|came| came.batch.histograms.len()).sum();
    assert!(sent > 200 && state.came.iter().all(|came| came.batch.histograms.len() < 50), "{sent}");
}

#[tokio::test]
async fn a_few_are_written_at_once() {
    let fake = Fake::start([]);
    let series =
        Series::new("t", [("a", "b")]).sample(1, 1.0).histogram(2, histogram(2)).histogram(3, histogram(3));
    assert_eq!(fake.client().await.write(&[series]).await.unwrap().samples_written, 3);
    assert_eq!(fake.state().histograms.values().next().unwrap()[&3], histogram(3));
}

#[tokio::test]
async fn a_node_that_would_pass_over_them_gets_none() {
    let terms = v1::Terms { native_histograms: false, ..WIDE_TERMS };
    let fake = Fake::start([Plan::with_terms(terms)]);
    let writer = fake.client().await.writer_with(options());
    let series = writer.series("t", [("a", "b")]).unwrap();
    writer.write(&series, 1, 1.0).await.unwrap();
    assert_eq!(writer.flush().await.unwrap().samples_written, 1, "floats go on");
    writer.write_histogram(&series, 2, &histogram(1)).await.unwrap();
    assert!(matches!(writer.close().await, Err(WriterError::NoHistograms)));
    assert!(fake.state().histograms.is_empty());
}

#[tokio::test]
async fn one_that_no_node_takes_is_told_and_the_writer_goes_on() {
    let fake = Fake::start([]);
    let writer = fake.client().await.writer_with(options());
    let series = writer.series("t", [("a", "b")]).unwrap();
    let mut huge = histogram(1);
    huge.positive.words = vec![0; 300 << 10];
    let refused = writer.write_histogram(&series, 1, &huge).await;
    assert!(matches!(refused, Err(WriterError::HistogramTooLong)), "{refused:?}");
    writer.write_histogram(&series, 1, &histogram(1)).await.unwrap();
    assert_eq!(writer.close().await.unwrap().samples_written, 1);
}
