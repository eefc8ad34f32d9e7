//! Executors for tests: all on one CPU and with little memory, so that tests run on any machine and
//! beside each other.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};

use silverback_runtime as runtime;
use silverback_runtime::{BoundAddress, Executor, Listener, Options, Shutdown};

/// Options for that many executors on one CPU that this process may use.
pub fn options(executors: usize) -> Options {
    let cpu = *runtime::cpus::affinity_mask().unwrap().first().unwrap();
    Options { io_memory_bytes: 64 << 10, ..Options::on_cpus(vec![cpu; executors]) }
}

/// Runs `start` on that many executors and gives what it comes to on each.
pub fn on_executors<T, R, F, Fut>(options: &Options, start: F) -> Vec<R>
where
    T: Send + 'static,
    R: Send + 'static,
    F: Fn(Executor<T>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + 'static,
{
    runtime::run(options, &Shutdown::new(), start).unwrap()
}

/// Has that many executors listen and `serve`, `client` talk to them meanwhile, and then ends them. Gives what `client`
/// came to, and each executor.
pub fn serving<R, T, F, Fut>(
    executors: usize,
    connections_max: usize,
    serve: F,
    client: impl FnOnce(SocketAddr, &Shutdown) -> R,
) -> (R, Vec<T>)
where
    T: Send + 'static,
    F: Fn(Executor<()>, Listener) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = T> + 'static,
{
    let shutdown = Shutdown::new();
    let bound = Arc::new(BoundAddress::bind("127.0.0.1:0".parse().unwrap()).unwrap());
    let address = bound.address();
    let (ready, is_ready) = mpsc::channel();
    let server = std::thread::spawn({
        let (shutdown, serve) = (shutdown.clone(), Arc::new(serve));
        move || {
            runtime::run(&options(executors), &shutdown, move |executor| {
                let (bound, ready, serve) = (bound.clone(), ready.clone(), serve.clone());
                async move {
                    let listener = bound.listen(connections_max).unwrap();
                    ready.send(()).unwrap();
                    serve(executor, listener).await
                }
            })
            .unwrap()
        }
    });
    (0..executors).for_each(|_| is_ready.recv().unwrap());
    let result = client(address, &shutdown);
    shutdown.request();
    (result, server.join().unwrap())
}
