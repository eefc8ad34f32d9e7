//! An address that stays the same while nodes behind it come and go.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// The address, and who is behind it.
pub(super) struct Cable {
    pub address: SocketAddr,
    node: Arc<Mutex<SocketAddr>>,
}

impl Cable {
    /// One to this node.
    pub(super) async fn to(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cable = Self { address: listener.local_addr().unwrap(), node: Arc::new(Mutex::new(node)) };
        tokio::spawn(accept(listener, Arc::clone(&cable.node)));
        cable
    }

    /// New connections go to this node.
    pub(super) fn plug_into(&self, node: SocketAddr) {
        *self.node.lock().unwrap() = node;
    }
}

async fn accept(listener: TcpListener, node: Arc<Mutex<SocketAddr>>) {
    loop {
        let (mut near, _) = listener.accept().await.unwrap();
        let node = *node.lock().unwrap();
        tokio::spawn(async move {
            // Where the node is dead, the near end is closed as the node's own would be.
            if let Ok(mut far) = TcpStream::connect(node).await {
                far.set_nodelay(true).unwrap();
                near.set_nodelay(true).unwrap();
                drop(copy_bidirectional(&mut near, &mut far).await);
            }
        });
    }
}
