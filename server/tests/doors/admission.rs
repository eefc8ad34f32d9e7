//! Every path and every gRPC method that the router declares: none answers who has no credentials, wrong ones, or a
//! scope that it doesn't take, and each answers who has one that it does.

use std::io::Write;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use prost_types::FileDescriptorSet;
use silverback::access::scope::{Scope, Scopes};
use silverback::api::endpoints::{Declared, declared};
use silverback_node_test_support::Node;
use silverback_test_support::http::read_answer;
use tokio::net::TcpStream;

use crate::scene::{Scene, basic, bearer};

const REFUSED: &str = "silverback_http_requests_refused_total";

fn users() -> String {
    format!("basic_auth_users:\n  alice: {}\n", bcrypt::hash("secret", 4).unwrap())
}

/// Credentials that nobody has.
fn wrong() -> [String; 4] {
    [
        basic("alice", "wrong"),
        basic("nobody", "secret"),
        "Bearer not-a-token-of-anybody".into(),
        "Digest x".into(),
    ]
}

/// A path with something in place of its `*`.
fn filled(path: &str) -> String {
    path.replace('*', "job")
}

fn paths(is_grpc: bool) -> Vec<Declared> {
    let found: Vec<_> = declared().filter(|declared| declared.is_grpc == is_grpc).collect();
    assert!(found.len() > 20);
    found
}

#[test]
fn every_path_refuses_whoever_has_no_right_to_it_and_no_other() {
    let scene = Scene::start(&users());
    for Declared { path, needs, .. } in paths(false) {
        let path = filled(&path);
        // Not all paths take a POST; whoever is let in hears so then.
        let status = |authorization: Option<&str>| scene.ask("POST", &path, authorization).status;
        assert_eq!(status(None), 401, "{path}");
        for wrong in wrong() {
            assert_eq!(status(Some(&wrong)), 401, "{path} {wrong}");
        }
        for scope in Scope::ALL {
            let (status, has_right) =
                (status(Some(&bearer(scope.as_str()))), Scopes::of(&[scope]).has_one_of(needs));
            assert_eq!(has_right, status != 403, "{path} with {scope:?}: {status}");
            assert_ne!(status, 401, "{path} with {scope:?}");
        }
        assert!(
            ![401, 403].contains(&status(Some(&basic("alice", "secret")))),
            "{path}: a user may do everything"
        );
    }
    let answer = scene.ask("GET", "/no/such/endpoint", None);
    assert_eq!(answer.status, 401, "what there isn't is told to nobody");
    assert!(answer.header("www-authenticate").starts_with("Basic realm="));
    assert_eq!(scene.ask("GET", "/no/such/endpoint", Some(&bearer("metrics"))).status, 404);
    for reason in ["no_credentials", "wrong_credentials", "scope"] {
        assert!(scene.metric(&format!("{REFUSED}{{reason=\"{reason}\"")) > 20.0, "{reason}");
    }
}

#[test]
fn a_refusal_comes_before_anything_of_the_body_is_read() {
    let scene = Scene::start(&users());
    let mut stream = scene.node.connect();
    stream
        .write_all(b"POST /api/v1/write HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n")
        .unwrap();
    let answer = read_answer(&mut std::io::BufReader::new(stream));
    assert_eq!((answer.status, answer.header("connection")), (401, "close"));
    for path in ["//api/v1/write", "/api/v1/write/../write", "/%61pi/v1/write", "/API/V1/WRITE", "*"] {
        assert_eq!(scene.ask("POST", path, None).status, 401, "{path}");
    }
}

#[test]
fn two_authorization_headers_are_none() {
    let scene = Scene::start(&users());
    let right = bearer("metrics");
    let headers = [("authorization", right.as_str()), ("authorization", right.as_str())];
    assert_eq!(scene.node.ask("GET", "/metrics", &headers, b"").status, 401);
}

/// The head of the answer to an empty message.
async fn call(node: &Node, path: &str, authorization: Option<&str>) -> HeaderMap {
    let stream = TcpStream::connect(node.address).await.unwrap();
    let (mut client, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::post(format!("http://{}{path}", node.address))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    let request = request.body(Full::new(Bytes::from_static(&[0; 5]))).unwrap();
    client.send_request(request).await.unwrap().headers().clone()
}

fn status(head: &HeaderMap) -> Option<&str> {
    head.get("grpc-status").map(|status| status.to_str().unwrap())
}

#[tokio::test]
async fn every_grpc_method_refuses_whoever_has_no_right_to_it_and_no_other() {
    const UNAUTHENTICATED: Option<&str> = Some("16");
    const PERMISSION_DENIED: Option<&str> = Some("7");
    let scene = Scene::start(&users());
    let node = &scene.node;
    for Declared { path, needs, .. } in paths(true) {
        assert_eq!(status(&call(node, &path, None).await), UNAUTHENTICATED, "{path}");
        for wrong in wrong() {
            assert_eq!(status(&call(node, &path, Some(&wrong)).await), UNAUTHENTICATED, "{path} {wrong}");
        }
        for scope in Scope::ALL {
            let head = call(node, &path, Some(&bearer(scope.as_str()))).await;
            let has_right = Scopes::of(&[scope]).has_one_of(needs);
            assert_eq!(has_right, status(&head) != PERMISSION_DENIED, "{path} with {scope:?}: {head:?}");
            assert_ne!(status(&head), UNAUTHENTICATED, "{path} with {scope:?}");
        }
    }
    assert_eq!(status(&call(node, "/no.such.Service/Method", None).await), UNAUTHENTICATED);
}

#[test]
fn every_method_of_our_own_services_is_declared() {
    let files = FileDescriptorSet::decode(silverback_proto::DESCRIPTORS).unwrap().file;
    let declared: Vec<_> = paths(true).into_iter().map(|declared| declared.path).collect();
    let mut methods = 0;
    let is_ours = |package: &str| ["silverback", "thanos"].contains(&package.split('.').next().unwrap());
    for file in files.iter().filter(|file| is_ours(file.package())) {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                assert!(declared.contains(&path), "{path} has no scope");
                methods += 1;
            }
        }
    }
    assert!(methods > 15, "{methods}");
}

#[test]
fn probes_have_an_address_of_their_own_that_answers_nothing_else() {
    let scene = Scene::start(&users());
    for probe in ["/-/healthy", "/-/ready", "/-/replayed"] {
        assert_eq!(scene.node.probe(probe).status, 200, "{probe}");
        assert_eq!(scene.ask("GET", probe, None).status, 401, "{probe}");
    }
    for other in ["/metrics", "/", "/api/v1/status/node", "/ping", "/no/such"] {
        assert_eq!(scene.node.probe(other).status, 404, "{other}");
    }
}

#[test]
fn who_comes_to_the_probes_address_ends_no_connection_of_another_one() {
    let scene = Scene::start(&users());
    let mut kept = scene.node.keep();
    let metrics = bearer("metrics");
    let mut ask = || kept.ask("GET", "/metrics", &[("authorization", &metrics)], b"").status;
    assert_eq!(ask(), 200);
    let probed = *scene.node.addresses.last().unwrap();
    // It is the one that has waited longest, and these come above the limit of their own address.
    let mut probes = Vec::new();
    for _ in 0..4 {
        std::thread::sleep(std::time::Duration::from_millis(800));
        probes.extend((0..30).map(|_| std::net::TcpStream::connect(probed).unwrap()));
    }
    // The last ones have waited for long enough by now, too.
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(scene.node.probe("/-/healthy").status, 200, "who waits there gives way");
    assert_eq!(ask(), 200);
    drop(probes);
}

#[test]
fn admin_endpoints_are_answered_at_their_own_address_alone_where_they_have_one() {
    let mut scene = Scene::start_with(&users(), |_, config| {
        config.admin_listen = vec!["127.0.0.1:0".parse().unwrap()];
    });
    let delete = "/api/v1/admin/tsdb/delete_series?match[]=up";
    let admin = bearer("admin");
    let answer = scene.ask("POST", delete, Some(&admin));
    assert_eq!((answer.status, answer.text().contains("--admin-listen")), (403, true), "{}", answer.text());
    scene.node.address = scene.node.addresses[1];
    assert_eq!(scene.ask("POST", delete, None).status, 401);
    assert_eq!(scene.ask("POST", delete, Some(&admin)).status, 204);
}

#[test]
fn a_node_without_such_files_asks_nobody() {
    let node = Node::start(1);
    assert_eq!(node.get("/metrics").status, 200);
    assert_eq!(node.ask("GET", "/metrics", &[("authorization", &basic("alice", "wrong"))], b"").status, 200);
}

#[test]
fn headers_of_the_file_stand_in_every_answer() {
    let web = format!("{}http_server_config:\n  headers:\n    X-Frame-Options: deny\n", users());
    let scene = Scene::start(&web);
    for authorization in [None, Some(bearer("read"))] {
        assert_eq!(scene.ask("GET", "/", authorization.as_deref()).header("x-frame-options"), "deny");
    }
}

#[test]
fn nothing_shows_a_secret() {
    let scene = Scene::start(&users());
    scene.ask("GET", "/metrics", Some(&basic("alice", "secret")));
    for path in
        ["/metrics", "/", "/api/v1/status/node", "/api/v1/status/refusals", "/api/v1/status/active_queries"]
    {
        let text = scene.ask("GET", path, Some(&basic("alice", "secret"))).text();
        assert!(!text.contains("the-token-that-may") && !text.contains("$2"), "{path}");
    }
}
