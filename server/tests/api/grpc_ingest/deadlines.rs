//! `grpc-timeout`: a call that takes longer ends with its own status.

use std::time::Duration;

use silverback_node_test_support::Node;
use silverback_proto::v1;
use silverback_proto::v1::ingest_client::IngestClient;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::grpc_ingest::client::connect;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_past_its_deadline_ends() {
    let node = Node::start(1);
    let mut client = IngestClient::new(connect(node.address).await);
    let (_open, requests) = tokio::sync::mpsc::channel::<v1::StreamRequest>(1);
    let mut request = tonic::Request::new(ReceiverStream::new(requests));
    // Written by hand: the client's own timer is not what is tested.
    request.metadata_mut().insert("grpc-timeout", "300m".parse().unwrap());
    let mut responses = client.stream(request).await.unwrap().into_inner();
    assert!(responses.message().await.unwrap().unwrap().terms.is_some());
    let ended = tokio::time::timeout(Duration::from_secs(5), responses.message()).await;
    let status = ended.expect("it ends by itself").unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_is_no_time_is_told() {
    let node = Node::start(1);
    let mut client = IngestClient::new(connect(node.address).await);
    let mut request = tonic::Request::new(v1::WriteRequest::default());
    request.metadata_mut().insert("grpc-timeout", "soon".parse().unwrap());
    let status = client.write(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
}
