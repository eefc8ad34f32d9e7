//! A client of TLS 1.2 that wants another handshake on a connection that it has: it gets the answer that there is no
//! such thing, goes on, and loses its connection where it insists. rustls makes no such client: its keys are taken from
//! it, and what comes after the handshake is sealed here.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::crypto::ring::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256;
use rustls::crypto::{CryptoProvider, ring::default_provider};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ConnectionTrafficSecrets};
use silverback_test_support::TEST_TIMEOUT;
use silverback_test_support::http::request;

use crate::certificates::{Authority, connect};
use crate::scene::{Scene, bearer, get_on, sum};

const WEB: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
const VERSION: [u8; 2] = [3, 3];

/// A warning, `no_renegotiation`.
const NO_RENEGOTIATION: [u8; 2] = [1, 100];

/// One direction's key, and how many records went.
struct Keyed {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Keyed {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Self {
        let ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } = secrets else { panic!("another suite") };
        let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key.as_ref()).unwrap());
        Self { key, iv: iv.as_ref().try_into().unwrap(), sequence }
    }

    /// The nonce of the next record of so many bytes, and what is authenticated with it.
    fn next(&mut self, kind: u8, bytes: usize) -> (Nonce, Aad<Vec<u8>>) {
        let sequence = self.sequence.to_be_bytes();
        self.sequence += 1;
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(sequence).for_each(|(byte, other)| *byte ^= other);
        let length = u16::try_from(bytes).unwrap().to_be_bytes();
        let with_it = [&sequence[..], &[kind], &VERSION, &length].concat();
        (Nonce::assume_unique_for_key(nonce), Aad::from(with_it))
    }
}

/// A connection after its handshake.
struct Renegotiating {
    stream: TcpStream,
    sends: Keyed,
    receives: Keyed,
}

impl Renegotiating {
    fn connect(stream: TcpStream, config: &Arc<ClientConfig>) -> Self {
        let mut stream = stream;
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let mut connection = client(config);
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).unwrap();
        }
        let secrets = connection.dangerous_extract_secrets().unwrap();
        Self { stream, sends: Keyed::new(secrets.tx), receives: Keyed::new(secrets.rx) }
    }

    fn send(&mut self, kind: u8, text: &[u8]) -> std::io::Result<()> {
        let (nonce, with_it) = self.sends.next(kind, text.len());
        let mut sealed = text.to_vec();
        self.sends.key.seal_in_place_append_tag(nonce, with_it, &mut sealed).unwrap();
        let length = u16::try_from(sealed.len()).unwrap().to_be_bytes();
        self.stream.write_all(&[&[kind][..], &VERSION, &length, &sealed].concat())
    }

    /// The next record; `None`: the connection is closed.
    fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).ok()?;
        let mut sealed = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
        self.stream.read_exact(&mut sealed).ok()?;
        let (nonce, with_it) = self.receives.next(head[0], sealed.len() - CHACHA20_POLY1305.tag_len());
        let text = self.receives.key.open_in_place(nonce, with_it, &mut sealed).unwrap();
        Some((head[0], text.to_vec()))
    }
}

fn client(config: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(Arc::clone(config), ServerName::try_from("localhost").unwrap()).unwrap()
}

/// A hello without the head of its record.
fn hello(config: &Arc<ClientConfig>) -> Vec<u8> {
    let mut record = Vec::new();
    client(config).write_tls(&mut record).unwrap();
    record.split_off(5)
}

#[test]
fn a_client_that_wants_another_handshake_is_told_no_and_loses_its_connection_where_it_insists() {
    let authority = Authority::new();
    let scene = Scene::start_with(WEB, |dir, _| authority.write_server(dir));
    let suites = vec![TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256];
    let provider = CryptoProvider { cipher_suites: suites, ..default_provider() };
    let mut config = authority.client_of(provider, None);
    config.enable_secret_extraction = true;
    let config = Arc::new(config);
    let mut watching = connect(scene.node.address, &Arc::new(authority.client(None)));
    let mut handshakes = || {
        let metrics = get_on(&mut watching, "/metrics", &bearer("metrics")).text();
        sum(&metrics, "silverback_tls_handshakes_total")
    };
    let before = handshakes();

    let mut connection = Renegotiating::connect(scene.node.connect(), &config);
    let hello = hello(&config);
    connection.send(HANDSHAKE, &hello).unwrap();
    assert_eq!(connection.receive(), Some((ALERT, NO_RENEGOTIATION.to_vec())));
    connection
        .send(DATA, &request("GET", "/metrics", &[("authorization", &bearer("metrics"))], b""))
        .unwrap();
    let (kind, answer) = connection.receive().expect("it is answered");
    assert_eq!((kind, answer.get(..12)), (DATA, Some(&b"HTTP/1.1 200"[..])));

    let mut insisting = Renegotiating::connect(scene.node.connect(), &config);
    // It fails where the node has closed before all are sent.
    let _sent = (0..50).try_for_each(|_| insisting.send(HANDSHAKE, &hello));
    let (mut told, asked) = (0, Instant::now());
    while insisting.receive().is_some() {
        told += 1;
    }
    assert!(asked.elapsed() < TEST_TIMEOUT / 2, "it is closed");
    assert!(told <= 3, "no more than a word and an alert: {told}");
    assert_eq!(handshakes() - before, 2.0, "those that connections begin with, and no other");
}
