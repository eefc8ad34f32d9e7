//! The node's terms: whatever they are, the stream keeps to them.

use std::time::Duration;

use silverback_client::{Writer, WriterError, WriterOptions};
use silverback_proto::v1::Terms;

use crate::fake::{Fake, Plan, WIDE_TERMS};

async fn writer(fake: &Fake) -> Writer {
    let options = WriterOptions {
        batch_samples_max: 100,
        batch_delay_max: Duration::from_millis(10),
        ..Default::default()
    };
    fake.client().await.writer_with(options)
}

/// Writes so many samples of as many series, all of one time.
async fn write(writer: &Writer, series: usize) {
    for n in 0..series {
        let series = writer.series("t", [("n", format!("{n:04}"))]).unwrap();
        writer.write(&series, 1, n as f64).await.unwrap();
    }
}

async fn check(terms: Terms, series: usize) -> Fake {
    let fake = Fake::start([Plan::with_terms(terms)]);
    let writer = writer(&fake).await;
    for _ in 0..2 {
        write(&writer, series).await;
    }
    assert_eq!(writer.close().await.unwrap().samples_written, 2 * series as u64);
    assert_eq!(fake.state().stored.len(), series);
    fake
}

#[tokio::test]
async fn no_batch_has_more_samples() {
    let fake = check(Terms { batch_samples_max: 30, ..WIDE_TERMS }, 100).await;
    let lengths: Vec<_> = fake.batch_lengths().iter().map(|(_, samples)| *samples).collect();
    assert_eq!(lengths, [30, 30, 30, 10, 30, 30, 30, 10]);
}

#[tokio::test]
async fn no_message_has_more_bytes() {
    let fake = check(Terms { message_bytes_max: 1000, ..WIDE_TERMS }, 100).await;
    assert!(fake.batch_lengths().len() > 10);
    assert_eq!(fake.state().streams, 1);
}

#[tokio::test]
async fn no_stream_defines_more_refs() {
    let fake = check(Terms { refs_max: 40, ..WIDE_TERMS }, 100).await;
    let state = fake.state();
    assert!(state.streams >= 5, "{} streams", state.streams);
    for stream in 1..=state.streams {
        let defined: usize =
            state.came.iter().filter(|came| came.stream == stream).map(|came| came.definitions).sum();
        assert!((1..=40).contains(&defined), "stream {stream}: {defined}");
    }
}

#[tokio::test]
async fn no_stream_defines_more_bytes() {
    // __name__ t n 0000: 14 bytes.
    let fake = check(Terms { definition_bytes_max: 14 * 50, ..WIDE_TERMS }, 100).await;
    let state = fake.state();
    assert!(state.streams >= 4, "{} streams", state.streams);
    assert!(state.came.iter().all(|came| came.definitions <= 50));
}

#[tokio::test]
async fn no_more_batches_are_under_way() {
    let (plan, permits) = Plan::held();
    let fake = Fake::start([Plan { terms: Terms { batches_in_flight_max: 3, ..WIDE_TERMS }, ..plan }]);
    let writer = writer(&fake).await;
    write(&writer, 1000).await;
    for acknowledged in 0..7 {
        let expect = 3 + acknowledged;
        fake.until("the window is used", |state| state.came.len() == expect).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(fake.state().came.len(), expect, "and kept");
        permits.add_permits(1);
    }
    permits.add_permits(100);
    assert_eq!(writer.close().await.unwrap().samples_written, 1000);
}

#[tokio::test]
async fn a_series_that_no_stream_can_define_ends_the_writer() {
    let fake = Fake::start([Plan::with_terms(Terms { definition_bytes_max: 13, ..WIDE_TERMS })]);
    let writer = writer(&fake).await;
    write(&writer, 1).await;
    assert!(matches!(writer.flush().await, Err(WriterError::SeriesTooLong)));
}

#[tokio::test]
async fn terms_that_are_left_out_are_no_limits() {
    let fake = check(Terms::default(), 100).await;
    assert_eq!(fake.batch_lengths(), [(1, 100), (1, 100)]);
}
