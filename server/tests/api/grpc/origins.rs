//! Calls that name another host than the node's, or come from a web page: every method of every service
//! refuses them, with a status of gRPC.

use http::{Request, Response};
use hyper::body::Incoming;
use prost::Message;
use prost_types::FileDescriptorSet;
use silverback_node_test_support::Node;
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::Service;

use crate::grpc::channel::Channel;

/// `/package.Service/Method` of all of the node's own services, and of those that it has from elsewhere.
fn methods() -> Vec<String> {
    let files = FileDescriptorSet::decode(silverback_proto::DESCRIPTORS).unwrap().file;
    let mut methods = vec![
        "/grpc.health.v1.Health/Check".to_owned(),
        "/grpc.health.v1.Health/Watch".to_owned(),
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo".to_owned(),
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo".to_owned(),
        "/no.such.Service/Method".to_owned(),
    ];
    for file in &files {
        for service in &file.service {
            let path = |method: &str| format!("/{}.{}/{method}", file.package(), service.name());
            methods.extend(service.method.iter().map(|method| path(method.name())));
        }
    }
    assert!(methods.len() > 20, "{methods:?}");
    methods
}

/// Calls a method with headers of one's own; its message never comes.
async fn call(channel: &mut Channel, uri: String, headers: &[(&str, &str)]) -> Response<Incoming> {
    let mut request = Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let never = http_body_util::StreamBody::new(futures::stream::pending::<Result<_, tonic::Status>>());
    let never = http_body_util::combinators::UnsyncBoxBody::<bytes::Bytes, _>::new(never);
    channel.call(request.body(Body::new(never)).unwrap()).await.unwrap()
}

#[tokio::test]
async fn foreign_hosts_and_pages_are_refused_by_every_method() {
    let node = Node::start(1);
    let own = format!("http://{}", node.address);
    let own = own.as_str();
    let cases = [
        ("http://evil.example", None, "--allowed-hosts"),
        (own, Some(("host", "evil.example")), "--allowed-hosts"),
        (own, Some(("origin", "http://evil.example")), "\"http://evil.example\""),
        (own, Some(("sec-fetch-site", "cross-site")), "Sec-Fetch-Site"),
    ];
    for (host, header, words) in cases {
        let mut channel = Channel::open(node.address).await;
        for method in methods() {
            let answer = call(&mut channel, format!("{host}{method}"), header.as_slice()).await;
            let status =
                tonic::Status::from_header_map(answer.headers()).expect("a status before any message");
            assert_eq!(
                (answer.status().as_u16(), status.code()),
                (200, Code::PermissionDenied),
                "{method}: {status}"
            );
            assert!(status.message().contains(words), "{method}: {status}");
        }
    }
    let refused = node.get("/metrics").text();
    let of = |reason: &str| {
        let line = refused
            .lines()
            .find(|line| line.starts_with("silverback_http_requests_refused_total") && line.contains(reason));
        line.unwrap().rsplit(' ').next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!((of("host"), of("origin")), (2 * methods().len(), 2 * methods().len()));
}

#[tokio::test]
async fn a_name_that_is_listed_is_served() {
    use silverback::config::{AllowedHosts, HostPattern};
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;

    let listed = AllowedHosts::Listed(vec![HostPattern::Exact("silverback.ingest.svc".into())]);
    let node = Node::start_with(1, |config| config.allowed_hosts = listed);
    let origin = "http://silverback.ingest.svc:9009".parse().unwrap();
    let mut client = HealthClient::with_origin(Channel::open(node.address).await, origin);
    assert!(client.check(HealthCheckRequest::default()).await.is_ok());
}
