//! Sends the data to a server by remote write, oldest first, and waits until the server is at rest.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use prost::Message;
use silverback_proto::prometheus::WriteRequest;

use super::dataset::{Extent, Instance};
use crate::report::ask;
use crate::report::failure::RunError;
use crate::report::server::Server;

/// Samples of each series in a request: a quarter of an hour's, so that no series is far behind another.
const ROUNDS_AT_ONCE: usize = 60;
/// Connections.
const SENDERS: usize = 2;
/// A server is at rest when it takes no more than this part of a CPU.
const AT_REST: f64 = 0.05;
/// It is looked at so often.
const PERIOD: Duration = Duration::from_secs(1);
/// No server is waited for any longer.
const REST_MAX: Duration = Duration::from_secs(300);

/// Sends all data, and waits until the server is at rest.
pub fn fill(server: &Server, extent: &Extent) -> Result<(), RunError> {
    let mut instances: Vec<Instance> =
        (0..extent.instances).map(|number| Instance::new(number, extent)).collect();
    let mut left = extent.rounds;
    while left > 0 {
        let count = left.min(ROUNDS_AT_ONCE);
        let part = instances.len().div_ceil(SENDERS).max(1);
        thread::scope(|scope| {
            let senders: Vec<_> = instances
                .chunks_mut(part)
                .map(|instances| scope.spawn(move || send(server.address(), instances, count)))
                .collect();
            senders.into_iter().try_for_each(|sender| sender.join().expect("a sender doesn't panic"))
        })?;
        left -= count;
    }
    let (sent, stored) = (extent.samples(), server.stored()?);
    if sent > stored {
        return Err(RunError::NotStored { sent, acknowledged: sent, stored });
    }
    rest(server)
}

fn send(address: SocketAddr, instances: &mut [Instance], count: usize) -> Result<(), RunError> {
    instances.iter_mut().try_for_each(|instance| {
        write(address, WriteRequest { timeseries: instance.scrapes(count), ..WriteRequest::default() })
    })
}

/// One request, which must be acknowledged.
pub fn write(address: SocketAddr, request: WriteRequest) -> Result<(), RunError> {
    let body = snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).map_err(io::Error::other)?;
    let answer = ask::post_snappy(address, "/api/v1/write", &body)?;
    if answer.status / 100 == 2 {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&answer.body).chars().take(200).collect::<String>();
    Err(RunError::Answer { question: "a write".to_owned(), answer: format!("{}, {text}", answer.status) })
}

/// Waits for a server to have done what it put off.
pub fn rest(server: &Server) -> Result<(), RunError> {
    let (process, began) = (server.process()?, Instant::now());
    let mut before = process.usage()?.cpu_s;
    loop {
        thread::sleep(PERIOD);
        let usage = process.usage()?;
        if usage.cpu_s - before <= AT_REST * PERIOD.as_secs_f64() || began.elapsed() > REST_MAX {
            return Ok(());
        }
        before = usage.cpu_s;
    }
}
