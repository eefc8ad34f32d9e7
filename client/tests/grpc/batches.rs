//! How samples become batches, and what flush and close promise.

use std::time::{Duration, Instant};

use silverback_client::{Durability, Flushed, TryWriteError, WriterError, WriterOptions};

use crate::fake::{Fake, Plan, TEST_TIMEOUT, samples};

const NEVER: Duration = Duration::from_secs(3600);

fn options(batch_samples_max: usize, batch_delay_max: Duration) -> WriterOptions {
    WriterOptions { batch_samples_max, batch_delay_max, ..Default::default() }
}

#[tokio::test]
async fn batches_are_cut_by_size_and_what_is_left_by_close() {
    let fake = Fake::start([]);
    let writer = fake.client().await.writer_with(options(100, NEVER));
    let series = writer.series("t", [("room", "a")]).unwrap();
    for n in 0..250 {
        writer.write(&series, n, n as f64).await.unwrap();
    }
    let flushed = writer.close().await.unwrap();
    let expect = Flushed { samples_written: 250, refusals: vec![], durability: Durability::Disk };
    assert_eq!(flushed, expect);
    assert_eq!(fake.batch_lengths(), [(1, 100), (1, 100), (1, 50)]);
    let state = fake.state();
    assert_eq!(state.stored.values().next().unwrap().len(), 250);
    let numbers: Vec<_> = state.came.iter().map(|came| came.batch.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[tokio::test]
async fn a_batch_that_does_not_fill_goes_after_its_time() {
    let fake = Fake::start([]);
    let delay = Duration::from_millis(150);
    let writer = fake.client().await.writer_with(options(100, delay));
    let series = writer.series("t", [("room", "a")]).unwrap();
    let began = Instant::now();
    writer.write(&series, 1, 1.0).await.unwrap();
    tokio::time::sleep(delay / 3).await;
    writer.write(&series, 2, 2.0).await.unwrap();
    fake.until("the batch comes", |state| !state.came.is_empty()).await;
    assert_eq!(fake.batch_lengths(), [(1, 2)]);
    assert!(fake.state().came[0].at - began >= delay);
}

#[tokio::test]
async fn a_flush_hurries_and_tells_of_what_came_since_the_last_one() {
    let fake = Fake::start([]);
    let writer = fake.client().await.writer_with(options(100, NEVER));
    let series = writer.series("t", [("room", "a")]).unwrap();
    assert_eq!(writer.flush().await.unwrap(), Flushed::default());
    assert_eq!(fake.state().streams, 0, "a stream is opened for the first sample");
    for round in 1..=3 {
        for n in 0..round {
            writer.write(&series, 10 * round + n, 0.0).await.unwrap();
        }
        assert_eq!(writer.flush().await.unwrap().samples_written, round as u64);
    }
    assert_eq!(fake.batch_lengths(), [(1, 1), (1, 2), (1, 3)]);
}

#[tokio::test]
async fn series_are_defined_once_and_samples_refer_to_them() {
    let fake = Fake::start([]);
    let writer = fake.client().await.writer_with(options(100, NEVER));
    let rooms = ["a", "b"].map(|room| writer.series("t", [("room", room)]).unwrap());
    assert_eq!(rooms[0], writer.series("t", [("room", "a")]).unwrap());
    for n in 0..2 {
        for series in &rooms {
            writer.write(series, n, 1.0).await.unwrap();
        }
        writer.flush().await.unwrap();
    }
    let state = fake.state();
    let definitions: Vec<_> = state.came.iter().map(|came| came.definitions).collect();
    assert_eq!(definitions, [2, 0]);
    assert_eq!(samples(&state.came[1].batch), [(0, 1, 1.0), (1, 1, 1.0)]);
    assert!(state.came[1].batch.timestamp_deltas_ms.is_empty(), "one time is sent once");
}

#[tokio::test]
async fn values_come_bit_for_bit() {
    let fake = Fake::start([]);
    let writer = fake.client().await.writer();
    let series = writer.series("t", [("room", "a")]).unwrap();
    let values = [0x7ff0_0000_0000_0002, 0x7ff8_0000_0000_0001, (-0.0_f64).to_bits(), 1, u64::MAX];
    for (n, bits) in (0..).zip(values) {
        writer.write(&series, n, f64::from_bits(bits)).await.unwrap();
    }
    writer.close().await.unwrap();
    let stored: Vec<_> = fake.state().stored.values().next().unwrap().values().copied().collect();
    assert_eq!(stored, values);
}

#[tokio::test]
async fn a_node_that_stands_still_holds_a_bounded_number_of_samples() {
    let (plan, permits) = Plan::held();
    let fake = Fake::start([plan]);
    let options = WriterOptions { pending_samples_max: 250, ..options(100, Duration::from_millis(10)) };
    let writer = fake.client().await.writer_with(options);
    let series = writer.series("t", [("room", "a")]).unwrap();
    for n in 0..250 {
        writer.write(&series, n, 1.0).await.unwrap();
    }
    let waits = writer.write(&series, 250, 1.0);
    assert!(tokio::time::timeout(Duration::from_millis(100), waits).await.is_err());
    assert!(matches!(writer.try_write(&series, 250, 1.0), Err(TryWriteError::Full)));

    permits.add_permits(1);
    let write = writer.write(&series, 250, 1.0);
    tokio::time::timeout(TEST_TIMEOUT, write).await.expect("an acknowledgement makes room").unwrap();
    permits.add_permits(100);
    assert_eq!(writer.close().await.unwrap().samples_written, 251);
}

#[tokio::test]
async fn tasks_share_a_writer() {
    let fake = Fake::start([]);
    let writer = fake.client().await.writer_with(options(64, Duration::from_millis(10)));
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let writer = writer.clone();
            tokio::spawn(async move {
                let series = writer.series("t", [("task", task.to_string())]).unwrap();
                for n in 0..1000 {
                    writer.write(&series, n, 1.0).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(writer.close().await.unwrap().samples_written, 4000);
    assert!(fake.state().stored.values().all(|samples| samples.len() == 1000));
}

#[tokio::test]
async fn a_closed_writer_takes_nothing() {
    let fake = Fake::start([]);
    let writer = fake.client().await.writer();
    let series = writer.series("t", [("room", "a")]).unwrap();
    writer.write(&series, 1, 1.0).await.unwrap();
    let clone = writer.clone();
    assert_eq!(writer.close().await.unwrap().samples_written, 1);
    assert!(matches!(clone.write(&series, 2, 1.0).await, Err(WriterError::Closed)));
    assert_eq!(clone.flush().await.unwrap().samples_written, 0);
    assert_eq!(clone.close().await.unwrap().samples_written, 0);
}

#[tokio::test]
async fn another_writers_series_is_refused() {
    let client = Fake::start([]).client().await;
    let (one, other) = (client.writer(), client.writer());
    let series = one.series("t", [("room", "a")]).unwrap();
    assert!(matches!(other.write(&series, 1, 1.0).await, Err(WriterError::ForeignSeries)));
}

#[tokio::test]
async fn a_dropped_writer_tries_nothing() {
    let fake = Fake::start([]);
    let writer = fake.client().await.writer_with(options(100, Duration::from_millis(20)));
    let series = writer.series("t", [("room", "a")]).unwrap();
    writer.try_write(&series, 1, 1.0).unwrap();
    drop(writer);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(fake.batch_lengths(), []);
}
