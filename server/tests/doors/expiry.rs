//! Certificates that expire: the node's own and its clients' CAs'. It says until when they hold, and whom that shuts out.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::ClientConfig;
use silverback_test_support::eventually;
use silverback_test_support::http::{request, try_read_answer};

use crate::certificates::{Authority, Holds, connect};
use crate::scene::{Scene, bearer, get_on, sum, write};

const WEB: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";
const KNOWN: &str = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";

/// When a certificate of that kind expires, in seconds since the Unix epoch; 0 where it isn't told.
fn not_after(metrics: &str, certificate: &str) -> f64 {
    let name = "silverback_tls_certificate_not_after_timestamp_seconds";
    sum(metrics, &format!("{name}{{certificate=\"{certificate}\"}}"))
}

fn in_seconds(seconds: u64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (now + Duration::from_secs(seconds)).as_secs_f64()
}

fn status(scene: &Scene, config: &Arc<ClientConfig>) -> Option<u16> {
    let mut stream = connect(scene.node.address, config);
    let asked = request("GET", "/metrics", &[("authorization", &bearer("metrics"))], b"");
    let sent = stream.get_mut().write_all(&asked);
    sent.and_then(|()| try_read_answer(&mut stream)).map(|answer| answer.status).ok()
}

#[test]
fn a_certificate_that_expires_is_taken_and_its_end_told_and_told_anew_with_the_next() {
    const JANUARY_2020: f64 = 1_577_836_800.0;
    let authority = Authority::new();
    let scene = Scene::start_with(WEB, |dir, _| {
        let issued = authority.issue_holding("localhost", Holds::For(Duration::from_secs(600)));
        // With the CA's own after it.
        write(dir, "server.crt", &format!("{}{}", issued.certificate, authority.pem()));
        write(dir, "server.key", &issued.key);
    });
    let client = Arc::new(authority.client(None));
    let mut connected = connect(scene.node.address, &client);
    let mut metrics = || get_on(&mut connected, "/metrics", &bearer("metrics")).text();
    let told = metrics();
    let own = not_after(&told, "server");
    assert!((in_seconds(500)..=in_seconds(600)).contains(&own), "{own}");
    assert!(not_after(&told, "chain") > in_seconds(600), "{told}");
    assert!(!told.contains("certificate=\"client_ca\""), "there is none: {told}");

    let expired = authority.issue_holding("localhost", Holds::NoMore);
    write(&scene.dir, "server.crt", &expired.certificate);
    write(&scene.dir, "server.key", &expired.key);
    eventually("the expired one is taken", || not_after(&metrics(), "server") == JANUARY_2020);
    assert!(!metrics().contains("certificate=\"chain\""), "nothing is sent with it");
    assert_eq!(status(&scene, &client), None, "a client that verifies it turns away");
    authority.write_server(&scene.dir);
    eventually("the next one is taken", || not_after(&metrics(), "server") > in_seconds(600));
    assert_eq!(status(&scene, &client), Some(200));
}

#[test]
fn a_client_ca_that_expires_while_the_node_runs_shuts_its_clients_out_with_their_tickets() {
    let (authority, lasting) = (Authority::new(), Authority::new());
    let ending = Authority::holding(Holds::For(Duration::from_secs(8)));
    let scene = Scene::start_with(&format!("{WEB}{KNOWN}"), |dir, _| {
        authority.write_server(dir);
        write(dir, "ca.pem", &format!("{}{}", lasting.pem(), ending.pem()));
    });
    let client = |ca: &Authority| Arc::new(authority.client(Some(&ca.issue("agent.test"))));
    let (lasts, ends) = (client(&lasting), client(&ending));
    let mut connected = connect(scene.node.address, &lasts);
    let told = get_on(&mut connected, "/metrics", &bearer("metrics")).text();
    let ca = not_after(&told, "client_ca");
    assert!(ca <= in_seconds(8), "the first that expires: {ca}");
    assert_eq!((status(&scene, &lasts), status(&scene, &ends)), (Some(200), Some(200)));
    eventually("its clients are shut out", || status(&scene, &ends).is_none());
    assert!(in_seconds(0) > ca.floor() + 1.0, "not before it has expired");
    assert_eq!(status(&scene, &lasts), Some(200), "others' go on");
    assert_eq!(get_on(&mut connected, "/metrics", &bearer("metrics")).status, 200);
}

#[test]
fn a_client_ca_that_does_not_hold_yet_or_any_more_lets_nobody_in() {
    let authority = Authority::new();
    for holds in [Holds::NoMore, Holds::NotYet] {
        let ca = Authority::holding(holds);
        let scene = Scene::start_with(&format!("{WEB}{KNOWN}"), |dir, _| {
            authority.write_server(dir);
            write(dir, "ca.pem", &ca.pem());
        });
        let client = Arc::new(authority.client(Some(&ca.issue("agent.test"))));
        assert_eq!(status(&scene, &client), None, "{holds:?}");
    }
}
