//! Whole runs against receivers that behave in known ways.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use clap::Parser;

use super::options::LoadOptions;
use super::report::{Ending, LoadReport};
use super::run;
use crate::connection::ConnectionArgs;
use crate::interrupt::Interrupt;

/// The answer to the n-th request of all: when, and what.
type Answer = fn(usize) -> (Duration, &'static str);

const STORED: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// A receiver of remote write; its address.
fn receiver(answer: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("a bound socket"));
    let requests = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let requests = Arc::clone(&requests);
            thread::spawn(move || answer_all(BufReader::new(stream), &requests, answer));
        }
    });
    url
}

fn answer_all(mut stream: BufReader<TcpStream>, requests: &AtomicUsize, answer: Answer) {
    while let Some(length) = body_length(&mut stream) {
        stream.read_exact(&mut vec![0; length]).expect("a whole body");
        let (after, text) = answer(requests.fetch_add(1, Ordering::Relaxed));
        thread::sleep(after);
        stream.get_mut().write_all(text.as_bytes()).expect("a client that waits");
    }
}

/// Of the next request; none at the connection's end.
fn body_length(stream: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(digits) = line.strip_prefix("Content-Length: ") {
            length = digits.trim().parse().expect("a length");
        }
        if line == "\r\n" {
            return Some(length);
        }
    }
}

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    options: LoadOptions,
}

/// Runs 6 targets of 50 series.
fn load(address: &str, words: &[&str]) -> LoadReport {
    let small = ["load", "--targets", "6", "--series-per-target", "50", "--address", address];
    let line = Line::parse_from(small.iter().chain(words));
    let plan = line.options.plan(&line.connection).expect("a plan");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let ran = runtime.expect("a runtime").block_on(async {
        run::run(plan, &line.connection, line.options.pid, Interrupt::watch()).await.expect("a run")
    });
    assert!(ran.failure.is_none(), "{:?}", ran.failure);
    ran.report
}

#[test]
fn every_sample_is_acknowledged_whatever_the_version() {
    for protocol in ["rw1", "rw2"] {
        let address = receiver(|_| (Duration::ZERO, STORED));
        let report = load(&address, &["--closed", "--rounds", "20", "--protocol", protocol]);
        assert_eq!((report.totals.samples_sent, report.totals.samples_written), (6000, 6000));
        assert_eq!(report.ending, Ending::Done);
        assert!(report.latency_ms.p50 > 0.0 && report.latency_ms.p50 <= report.latency_ms.max);
        assert_eq!(report.histogram_us.iter().map(|(_, count)| count).sum::<u64>(), report.totals.requests);
    }
}

#[test]
fn an_open_loop_counts_from_when_requests_were_due() {
    // The tenth answer takes half a second: the requests that are due meanwhile are late as well.
    let address = receiver(|n| (Duration::from_millis(if n == 9 { 500 } else { 0 }), STORED));
    let words = ["--rate", "10000", "--batch", "100", "--connections", "1", "--duration", "1s"];
    let report = load(&address, &words);
    let late = report.histogram_us.iter().filter(|(us, _)| *us > 200_000);
    let late: u64 = late.map(|(_, count)| count).sum();
    // A hundred requests a second: 50 are due while it is stalled, 30 of them for more than 200 ms.
    assert!((15..=60).contains(&late), "{late} requests were late");
    assert!((450.0..1500.0).contains(&report.latency_ms.max), "{:?}", report.latency_ms);
}

#[test]
fn a_closed_loop_sends_again_what_was_refused_for_now() {
    const BUSY: &str = "HTTP/1.1 429 Busy\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nbusy";
    let address = receiver(|n| (Duration::ZERO, if n < 3 { BUSY } else { STORED }));
    let report = load(&address, &["--closed", "--rounds", "4", "--connections", "1"]);
    assert_eq!(report.totals.sent_again, [("429".to_owned(), 3)].into());
    assert_eq!((report.totals.samples_written, report.totals.said), (1200, vec!["429: busy".to_owned()]));
}

#[test]
fn an_open_loop_counts_refusals_and_goes_on() {
    const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy";
    const PART: &str = "HTTP/1.1 400 Bad\r\nX-Prometheus-Remote-Write-Samples-Written: 90\r\n\
                        Content-Length: 49\r\n\r\n10 of 100 samples refused: duplicate 10; first: x";
    let address = receiver(|n| (Duration::ZERO, [BUSY, PART, STORED][n.min(2)]));
    let words = ["--rate", "10000", "--batch", "100", "--connections", "1", "--rounds", "10"];
    let totals = load(&address, &words).totals;
    assert_eq!((totals.samples_sent, totals.samples_written), (3000, 3000 - 100 - 10));
    assert_eq!(totals.samples_failed, [("503".to_owned(), 100)].into());
    assert_eq!(totals.samples_refused, [("duplicate".to_owned(), 10)].into());
    assert!(totals.sent_again.is_empty());
}

#[test]
fn a_run_ends_in_time_and_tells_what_was_due_and_not_sent() {
    let address = receiver(|_| (Duration::from_millis(400), STORED));
    let words = ["--rate", "10000", "--batch", "100", "--connections", "1", "--duration", "1s"];
    let report = load(&address, &words);
    let totals = &report.totals;
    assert!(report.wall_s < 2.0, "{} s", report.wall_s);
    assert!(totals.samples_sent <= 400 && totals.samples_overdue > 9000, "{totals:?}");
    assert_eq!(totals.samples_written, totals.samples_sent);
}

#[test]
fn timestamps_that_come_up_to_the_clock_end_a_run_and_are_told() {
    let address = receiver(|_| (Duration::ZERO, STORED));
    let ending = |words: &[&str]| load(&address, words).ending;
    assert_eq!(ending(&["--closed", "--start", "now", "--duration", "20s"]), Ending::ClockReached);
    // It is encoded ahead up to the clock, but the time is over before.
    assert_eq!(ending(&["--rate", "300", "--start", "now", "--duration", "1s"]), Ending::Done);
}
