//! Clients that send the next request when they have the last one's answer.
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;

/// Runs `connections` clients for `limit` and gives the latencies of all requests in µs.
pub fn load(address: SocketAddr, connections: usize, body_bytes: usize, limit: Duration) -> Histogram<u64> {
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
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nodelay(true).expect("the server lives");
    let mut request =
        format!("POST /api/v1/write HTTP/1.1\r\nhost: localhost\r\ncontent-length: {body_bytes}\r\n\r\n")
            .into_bytes();
    request.resize(request.len() + body_bytes, b'x');
    let mut answer = [0; 1024];
    let mut latencies = Histogram::new(3).expect("3 digits are allowed");
    while Instant::now() < deadline {
        let begun = Instant::now();
        stream.write_all(&request).expect("the server lives");
        let mut length = 0;
        while !answer[..length].ends_with(b"\r\n\r\n") {
            let count = stream.read(&mut answer[length..]).expect("the server lives");
            assert!(count > 0, "the server keeps the connection");
            length += count;
        }
        assert!(answer.starts_with(b"HTTP/1.1 204"));
        latencies.record(begun.elapsed().as_micros() as u64).expect("an auto-resizing histogram");
    }
    latencies
}
