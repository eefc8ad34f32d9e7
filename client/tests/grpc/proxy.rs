//! A cable to a node that can be cut: every connection through it breaks at once.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// The cable.
pub(crate) struct Proxy {
    pub address: SocketAddr,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Proxy {
    /// One to this address.
    pub(crate) async fn to(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), connections: Arc::default() };
        let connections = Arc::clone(&proxy.connections);
        tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let connection = tokio::spawn(async move {
                    let mut far = TcpStream::connect(node).await.unwrap();
                    // Whichever side ends it, or the cut.
                    drop(copy_bidirectional(&mut near, &mut far).await);
                });
                connections.lock().unwrap().push(connection.abort_handle());
            }
        });
        proxy
    }

    /// Breaks every connection; new ones can be made.
    pub(crate) fn cut(&self) {
        self.connections.lock().unwrap().drain(..).for_each(|connection| connection.abort());
    }
}
