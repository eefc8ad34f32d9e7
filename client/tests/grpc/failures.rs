//! Streams that break: what is sent again, in which order, how often, and what ends a writer.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use silverback_client::{
    Client, RefusalReason, RequestError, RetryPolicy, SeriesRejected, Writer, WriterError, WriterHook,
    WriterOptions,
};
use silverback_proto::v1;
use tonic::{Code, Status};

use crate::fake::{Fake, Plan};
use crate::proxy::Proxy;

const HASTY: RetryPolicy = RetryPolicy {
    backoff_min: Duration::from_millis(10),
    backoff_max: Duration::from_millis(50),
    give_up_after: None,
};

fn options() -> WriterOptions {
    WriterOptions {
        batch_samples_max: 10,
        batch_delay_max: Duration::from_millis(20),
        retry: HASTY,
        ..Default::default()
    }
}

/// Writes so many samples of each of three series.
async fn write(writer: &Writer, samples: i64) -> Result<(), WriterError> {
    let rooms = ["a", "b", "c"].map(|room| writer.series("t", [("room", room)]).unwrap());
    for n in 0..samples {
        for series in &rooms {
            writer.write(series, n, n as f64).await?;
        }
    }
    Ok(())
}

/// Every sample is stored, and none was refused: so they came in their order.
async fn check_all_stored(fake: &Fake, writer: Writer, samples: i64) {
    let flushed = writer.close().await.unwrap();
    assert_eq!((flushed.samples_written, flushed.refusals.as_slice()), (3 * samples as u64, [].as_slice()));
    let stored = &fake.state().stored;
    assert_eq!(stored.len(), 3);
    for samples_of_one in stored.values() {
        let expect: Vec<_> = (0..samples).map(|n| (n, (n as f64).to_bits())).collect();
        assert_eq!(samples_of_one.iter().map(|(t, v)| (*t, *v)).collect::<Vec<_>>(), expect);
    }
}

#[tokio::test]
async fn what_was_stored_without_acknowledgement_is_sent_again_in_order() {
    let fake = Fake::start([
        Plan::silent_until(3, Status::unavailable("stopping")),
        Plan::silent_until(5, Status::aborted("again")),
        Plan::default(),
    ]);
    let writer = fake.client().await.writer_with(options());
    write(&writer, 100).await.unwrap();
    check_all_stored(&fake, writer, 100).await;
    let state = fake.state();
    assert_eq!(state.streams, 3);
    let first_of = |stream| state.came.iter().find(|came| came.stream == stream).unwrap();
    for stream in 2..=3 {
        assert_eq!(first_of(stream).batch, first_of(1).batch, "from the first one on");
        assert_eq!(first_of(stream).definitions, 3, "with definitions of its own");
    }
}

#[tokio::test]
async fn streams_that_break_again_and_again_lose_and_double_nothing() {
    let breaks = (1..=15)
        .map(|batches| Plan { ends: Some((batches, Status::unavailable("again"))), ..Plan::default() });
    let fake = Fake::start(breaks.chain([Plan::default()]));
    let writer = fake.client().await.writer_with(options());
    write(&writer, 400).await.unwrap();
    check_all_stored(&fake, writer, 400).await;
}

#[tokio::test]
async fn a_connection_that_is_cut_is_made_again() {
    let fake = Fake::start([]);
    let proxy = Proxy::to(fake.address).await;
    let client = Client::connect(format!("http://{}", proxy.address)).await.unwrap();
    let writer = client.writer_with(options());
    for round in 1..=5 {
        let rooms = ["a", "b", "c"].map(|room| writer.series("t", [("room", room)]).unwrap());
        for n in 20 * (round - 1)..20 * round {
            for series in &rooms {
                writer.write(series, n, n as f64).await.unwrap();
            }
        }
        let came = fake.state().came.len();
        fake.until("batches come", |state| state.came.len() > came).await;
        proxy.cut();
    }
    check_all_stored(&fake, writer, 100).await;
    assert!(fake.state().streams > 1);
}

#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    fn notes(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl WriterHook for Recorder {
    fn batch_sent(&self, samples: usize) {
        self.note(format!("sent {samples}"));
    }

    fn batch_retried(&self, samples: usize) {
        self.note(format!("retried {samples}"));
    }

    fn batch_acknowledged(&self, samples: usize, latency: Duration) {
        assert!(latency < Duration::from_secs(10));
        self.note(format!("acknowledged {samples}"));
    }

    fn refused(&self, refusal: &SeriesRejected) {
        self.note(format!("refused {} of {:?}: {}", refusal.samples, refusal.labels[1].1, refusal.reason));
    }

    fn disconnected(&self, error: &RequestError, backoff: Duration) {
        assert!(backoff <= HASTY.backoff_max);
        self.note(format!("disconnected: {error}"));
    }

    fn reconnected(&self) {
        self.note("reconnected".to_owned());
    }
}

#[tokio::test]
async fn a_hook_is_told_of_each_step() {
    let fake = Fake::start([Plan::silent_until(1, Status::unavailable("x")), Plan::default()]);
    fake.state().refused_value = Some(("b".to_owned(), v1::RefusalReason::TooOld));
    let recorder = Arc::new(Recorder::default());
    let hook: Arc<dyn WriterHook> = recorder.clone();
    let writer = fake.client().await.writer_with(WriterOptions { hook: Some(hook), ..options() });
    write(&writer, 2).await.unwrap();
    writer.close().await.unwrap();
    let expect = [
        "sent 6",
        "disconnected: the node is not available: x",
        "reconnected",
        "retried 6",
        "acknowledged 6",
        "refused 2 of \"b\": too_old",
    ];
    assert_eq!(recorder.notes(), expect);
}

#[tokio::test]
async fn refusals_are_told_by_series_and_reason() {
    let fake = Fake::start([]);
    fake.state().refused_value = Some(("b".to_owned(), v1::RefusalReason::SeriesLimit));
    let writer = fake.client().await.writer_with(options());
    write(&writer, 50).await.unwrap();
    let late = writer.series("t", [("room", "a")]).unwrap();
    writer.write(&late, 49, 0.5).await.unwrap();
    writer.write(&late, -1, 0.5).await.unwrap();
    let flushed = writer.flush().await.unwrap();
    let refusal = |room: &str, reason, samples| {
        let labels = [("__name__", "t"), ("room", room)];
        SeriesRejected { labels: labels.map(|(n, v)| (n.to_owned(), v.to_owned())).into(), reason, samples }
    };
    let expect = [
        refusal("a", RefusalReason::OutOfOrder, 1),
        refusal("a", RefusalReason::Duplicate, 1),
        refusal("b", RefusalReason::SeriesLimit, 50),
    ];
    assert_eq!((flushed.samples_written, flushed.refusals.as_slice()), (100, expect.as_slice()));
    assert_eq!(writer.close().await.unwrap().refusals, [], "each is reported once");
}

#[tokio::test]
async fn a_full_node_is_left_alone_for_as_long_as_it_says() {
    let mut full = Status::resource_exhausted("memory is full");
    full.metadata_mut().insert("retry-after-ms", "300".parse().unwrap());
    let refused = Plan { refused: Some(full), ..Plan::default() };
    let fake = Fake::start([refused, Plan::default()]);
    let writer = fake.client().await.writer_with(options());
    let began = Instant::now();
    write(&writer, 10).await.unwrap();
    check_all_stored(&fake, writer, 10).await;
    assert!(began.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn what_stays_wrong_ends_the_writer_and_is_told_to_each_call() {
    for code in [Code::InvalidArgument, Code::Unauthenticated, Code::ResourceExhausted, Code::Unimplemented] {
        let fake = Fake::start([Plan::refused(code)]);
        let writer = fake.client().await.writer_with(options());
        write(&writer, 1).await.unwrap();
        let flushed = writer.flush().await;
        assert!(matches!(flushed, Err(WriterError::Refused(_))), "{code}: {flushed:?}");
        assert!(matches!(write(&writer, 1).await, Err(WriterError::Refused(_))), "{code}");
        assert!(matches!(writer.close().await, Err(WriterError::Refused(_))), "{code}");
        assert_eq!(fake.state().streams, 1, "{code}: tried once");
    }
}

#[tokio::test]
async fn patience_ends() {
    let fake = Fake::start([Plan::refused(Code::Unavailable)]);
    let limit = Duration::from_millis(200);
    let writer = fake.client().await.writer_with(WriterOptions {
        retry: RetryPolicy { give_up_after: Some(limit), ..HASTY },
        ..options()
    });
    write(&writer, 1).await.unwrap();
    let closed = writer.close().await;
    assert!(matches!(&closed, Err(WriterError::GaveUp { after, .. }) if *after >= limit), "{closed:?}");
    assert!(fake.state().streams > 3);
}

#[tokio::test]
async fn a_stream_that_ends_in_silence_is_opened_again_for_the_next_sample() {
    let ends = Plan { ends: Some((2, Status::deadline_exceeded("silent for too long"))), ..Plan::default() };
    let fake = Fake::start([ends, Plan::default()]);
    let writer = fake.client().await.writer_with(options());
    write(&writer, 10).await.unwrap();
    check_all_stored(&fake, writer, 10).await;
}

#[tokio::test]
async fn a_runtime_that_ends_leaves_nobody_waiting() {
    let (plan, _held) = Plan::held();
    let fake = Fake::start([plan]);
    let address = format!("http://{}", fake.address);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let connecting =
        runtime.spawn(async move { Client::connect(address).await.unwrap().writer_with(options()) });
    let writer = connecting.await.unwrap();
    write(&writer, 1).await.unwrap();
    fake.until("the batch comes", |state| !state.came.is_empty()).await;
    runtime.shutdown_background();
    assert!(matches!(writer.flush().await, Err(WriterError::Stopped)));
}
