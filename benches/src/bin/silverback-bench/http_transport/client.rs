//! Clients that send the next request when they have the last one's answer.
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use silverback_load::connection::{Connection, Endpoint, Method};

/// Far beyond what an answer takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs `connections` clients for `limit` and gives the latencies of all requests in µs.
pub(super) fn load(
    address: SocketAddr,
    connections: usize,
    body_bytes: usize,
    limit: Duration,
) -> Histogram<u64> {
    let deadline = Instant::now() + limit;
    let clients: Vec<_> = (0..connections)
        .map(|_| std::thread::spawn(move || post_until(address, body_bytes, deadline)))
        .collect();
    let mut all = Histogram::new(3).expect("3 digits are allowed");
    for client in clients {
        all.add(client.join().expect("a client doesn't panic")).expect("the same kind of histogram");
    }
    all
}

fn post_until(address: SocketAddr, body_bytes: usize, deadline: Instant) -> Histogram<u64> {
    let endpoint = Endpoint::resolve(&format!("http://{address}/api/v1/write"), None).expect("a URL");
    let mut connection =
        Connection::open_plain(Method::Post, &endpoint, TIMEOUT).expect("the server listens");
    let body = vec![b'x'; body_bytes];
    let mut latencies = Histogram::new(3).expect("3 digits are allowed");
    while Instant::now() < deadline {
        let begun = Instant::now();
        let answer = connection.send(&body).expect("the server lives");
        assert_eq!(answer.status, 204);
        latencies.record(begun.elapsed().as_micros() as u64).expect("an auto-resizing histogram");
    }
    latencies
}
