//! Clients that flood an encrypted HTTP/2 connection: with requests that they take back at once, with heads that never
//! end, with heads that are small on the wire alone. Each loses its connection or its request, and others are served on.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use silverback_test_support::http2::{END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, frame, head};

use crate::certificates::{Authority, Encrypted, connect};
use crate::scene::{Scene, bearer, get_on, sum};

const WEB: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";

const CONTINUATION: u8 = 9;

struct Flooded {
    authority: Authority,
    scene: Scene,
}

impl Flooded {
    fn start() -> Self {
        let authority = Authority::new();
        let scene = Scene::start_with(WEB, |dir, _| authority.write_server(dir));
        Self { authority, scene }
    }

    /// A connection whose client speaks HTTP/2.
    fn http2(&self) -> Encrypted {
        let mut config = self.authority.client(None);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let mut stream = connect(self.scene.node.address, &Arc::new(config));
        stream.get_mut().write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.get_mut().write_all(&frame(SETTINGS, 0, 0, b"")).unwrap();
        stream
    }

    /// Sends what `next` makes until the node takes no more, and asks beside that on another connection.
    fn check_ends(&self, mut next: impl FnMut(u32) -> Vec<u8>) {
        let mut served = connect(self.scene.node.address, &Arc::new(self.authority.client(None)));
        let mut flooding = self.http2();
        let began = Instant::now();
        for count in 0.. {
            assert!(began.elapsed() < Duration::from_secs(30), "it takes all {count} of it");
            if flooding.get_mut().write_all(&next(count)).is_err() {
                break;
            }
            if count % 100 == 0 {
                let asked = Instant::now();
                assert_eq!(get_on(&mut served, "/metrics", &bearer("metrics")).status, 200);
                assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
            }
        }
    }
}

#[test]
fn requests_that_are_taken_back_at_once_end_their_connection() {
    let (flooded, head) = (Flooded::start(), head("GET", "/", &[]));
    flooded.check_ends(|count| {
        let request = |stream: u32| {
            let reset = frame(RST_STREAM, 0, stream, &8u32.to_be_bytes());
            [frame(HEADERS, END_HEADERS | END_STREAM, stream, &head), reset].concat()
        };
        (0..50).flat_map(|n| request(2 * (50 * count + n) + 1)).collect()
    });
}

#[test]
fn a_head_that_never_ends_ends_its_connection() {
    let flooded = Flooded::start();
    flooded.check_ends(|count| match count {
        0 => frame(HEADERS, END_STREAM, 1, &head("GET", "/", &[])),
        // A field of its own in each.
        _ => frame(CONTINUATION, 0, 1, &[&b"\0\x01x\x7f\x81\x1f"[..], &[b'a'; 4096]].concat()),
    });
}

#[test]
fn empty_parts_of_a_head_end_their_connection() {
    let flooded = Flooded::start();
    flooded.check_ends(|count| match count {
        0 => frame(HEADERS, END_STREAM, 1, &head("GET", "/", &[])),
        _ => frame(CONTINUATION, 0, 1, b"").repeat(100),
    });
}

#[test]
fn a_head_that_is_small_on_the_wire_alone_is_refused_and_holds_nothing() {
    let flooded = Flooded::start();
    let mut served = connect(flooded.scene.node.address, &Arc::new(flooded.authority.client(None)));
    let resident = |served: &mut Encrypted| {
        sum(&get_on(served, "/metrics", &bearer("metrics")).text(), "process_resident_memory_bytes")
    };
    let before = resident(&mut served);
    // A field of 4,000 bytes goes into the table, and 10,000 more references to it follow, a byte each.
    let field = [&b"\x40\x01x\x7f\xa1\x1e"[..], &[b'a'; 4000]].concat();
    let head = [&head("GET", "/", &[])[..], &field, &[0xbe; 10_000]].concat();
    let mut streams: Vec<_> = (0..20).map(|_| flooded.http2()).collect();
    for stream in &mut streams {
        let _sent = stream.get_mut().write_all(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head));
        let mut answer = [0; 64];
        let count = stream.read(&mut answer).unwrap_or(0);
        // Its settings; what else it says of the request is no answer of the page.
        assert!(count == 0 || answer[3] == SETTINGS, "{answer:?}");
    }
    assert_eq!(get_on(&mut served, "/metrics", &bearer("metrics")).status, 200);
    let grown = resident(&mut served) - before;
    assert!(grown < f64::from(32 << 20), "{grown} bytes for heads of 14 KB");
}
