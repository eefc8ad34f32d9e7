//! Several questions at once, and writes beside questions that are always in flight.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use silverback_proto::prometheus::{Label, Sample, TimeSeries, WriteRequest};

use super::ask::answered;
use super::dataset::Extent;
use super::load::write;
use crate::report::failure::RunError;
use crate::report::process::run_ahead_of_daemons;
use crate::report::server::Server;

/// Samples of each paced write.
const BATCH: usize = 500;
/// Between two paced writes.
const PACE: Duration = Duration::from_millis(10);

/// Asks all questions at once, and tells when the last was answered.
pub fn at_once(server: &Server, texts: &[String], extent: &Extent) -> Result<f64, RunError> {
    let began = Instant::now();
    thread::scope(|scope| {
        let asked: Vec<_> =
            texts.iter().map(|text| scope.spawn(move || answered(server, text, extent).map(drop))).collect();
        asked.into_iter().try_for_each(|asked| asked.join().expect("a question doesn't panic"))
    })?;
    Ok(began.elapsed().as_secs_f64())
}

/// The p99 of writes at a pace, in seconds: alone, and beside questions of which each is asked again once it is answered.
pub fn writes_beside(
    server: &Server,
    text: &str,
    in_flight: usize,
    extent: &Extent,
    lasts: Duration,
) -> Result<(f64, f64), RunError> {
    // As where latency is measured elsewhere: a sender that waits for its own CPU would count that as the server's time.
    let paced = || run_ahead_of_daemons(|| paced(server, lasts));
    let alone = paced()?;
    let is_over = AtomicBool::new(false);
    let beside = thread::scope(|scope| {
        let askers: Vec<_> = (0..in_flight)
            .map(|_| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        answered(server, text, extent)?;
                    }
                    Ok::<(), RunError>(())
                })
            })
            .collect();
        let beside = paced();
        is_over.store(true, Ordering::Relaxed);
        askers.into_iter().try_for_each(|asker| asker.join().expect("an asker doesn't panic"))?;
        beside
    })?;
    Ok((alone, beside))
}

fn paced(server: &Server, lasts: Duration) -> Result<f64, RunError> {
    let (began, mut times, mut due) = (Instant::now(), Vec::new(), Instant::now());
    while began.elapsed() < lasts {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        write(server.address(), request())?;
        // From when it was due: who waits for the one before waits, too.
        times.push(due.elapsed().as_secs_f64());
        due += PACE;
    }
    times.sort_by(f64::total_cmp);
    Ok(times[(times.len() - 1) * 99 / 100])
}

/// A scrape of now, of series that no question is about.
fn request() -> WriteRequest {
    let timestamp = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64);
    let label = |name: &str, value: String| Label { name: name.to_owned(), value };
    let series = |number: usize| TimeSeries {
        labels: vec![label("__name__", "beside".to_owned()), label("number", number.to_string())],
        samples: vec![Sample { value: number as f64, timestamp }],
        ..TimeSeries::default()
    };
    WriteRequest { timeseries: (0..BATCH).map(series).collect(), ..WriteRequest::default() }
}
