//! The two servers: the same service on the node's runtime and on tokio.
use std::{convert::Infallible, fmt::Debug, io::Write, net::SocketAddr};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Body, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use silverback_runtime::{
    BoundAddress, Encryption, Executor, HttpLimits, HttpServer, Options, Shutdown, run,
};

const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
const CONNECTIONS_MAX: usize = 1024;

async fn answer<B: Body<Error: Debug>>(request: Request<B>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.expect("the client sends whole bodies");
    std::hint::black_box(body.to_bytes());
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

fn tell(address: SocketAddr) {
    println!("{address}");
    std::io::stdout().flush().expect("the benchmark reads");
}

pub(super) fn on_silverback(cpu: usize) {
    let bound = BoundAddress::bind(ADDRESS.into()).expect("a loopback port can be taken");
    run(&Options::on_cpus(vec![cpu]), &Shutdown::new(), move |executor: Executor<()>| {
        let listener = bound.listen(CONNECTIONS_MAX).expect("the port is ours");
        tell(bound.address());
        async move {
            let server = HttpServer::new(&HttpLimits::default(), executor.shutdown);
            server
                .serve(&listener, &Encryption::default(), |_| service_fn(answer))
                .await
                .expect("the listener lives");
        }
    })
    .expect("the executor runs");
}

pub(super) fn on_tokio(cpu: usize) {
    pin(cpu);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio runs");
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(ADDRESS)).await.expect("a port");
        tell(listener.local_addr().expect("a bound address"));
        loop {
            let (stream, _) = listener.accept().await.expect("the listener lives");
            stream.set_nodelay(true).expect("the client lives");
            tokio::task::spawn_local(async {
                // The clients just hang up.
                let _ =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            });
        }
    });
}

/// Keeps this thread, and those that it starts, on one CPU.
pub(super) fn pin(cpu: usize) {
    let pid = std::process::id().to_string();
    let pinned = std::process::Command::new("taskset")
        .args(["-pc", &cpu.to_string(), &pid])
        .stdout(std::process::Stdio::null())
        .status()
        .expect("taskset is installed");
    assert!(pinned.success(), "CPU {cpu} may be used");
}
