//! Reflection, in both versions that clients speak.

use futures::stream;
use prost::Message;
use silverback_node_test_support::Node;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};
use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient as AlphaClient;
use tonic_reflection::pb::v1alpha::{self, server_reflection_request as alpha_request};

use crate::grpc::channel::{Channel, origin};

fn question(message: MessageRequest) -> ServerReflectionRequest {
    ServerReflectionRequest { host: "h".into(), message_request: Some(message) }
}

async fn ask(node: &Node, questions: Vec<MessageRequest>) -> Vec<ServerReflectionResponse> {
    let mut client =
        ServerReflectionClient::with_origin(Channel::open(node.address).await, origin(node.address));
    let questions: Vec<_> = questions.into_iter().map(question).collect();
    let mut answers = client.server_reflection_info(stream::iter(questions)).await.unwrap().into_inner();
    let mut read = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        read.push(answer);
    }
    read
}

#[tokio::test]
async fn services_are_listed_and_their_files_given_on_one_stream() {
    let node = Node::start(1);
    let answers = ask(
        &node,
        vec![
            MessageRequest::ListServices(String::new()),
            MessageRequest::FileContainingSymbol("silverback.v1.Ingest".into()),
            MessageRequest::FileByFilename("silverback/v1/labels.proto".into()),
            MessageRequest::FileContainingSymbol("no.such.Service".into()),
        ],
    );
    let [list, symbol, file, unknown] = <[_; 4]>::try_from(answers.await).unwrap();
    assert_eq!(list.original_request, Some(question(MessageRequest::ListServices(String::new()))));
    let Some(MessageResponse::ListServicesResponse(list)) = list.message_response else { panic!() };
    let services: Vec<_> = list.service.iter().map(|service| &*service.name).collect();
    for expect in ["silverback.v1.Ingest", "silverback.v1.Query", "grpc.health.v1.Health"] {
        assert!(services.contains(&expect), "{services:?}");
    }
    for (answer, name) in [(symbol, "silverback/v1/ingest.proto"), (file, "silverback/v1/labels.proto")] {
        let Some(MessageResponse::FileDescriptorResponse(files)) = answer.message_response else { panic!() };
        let file = prost_types::FileDescriptorProto::decode(&files.file_descriptor_proto[0][..]).unwrap();
        assert_eq!(file.name(), name);
    }
    let Some(MessageResponse::ErrorResponse(error)) = unknown.message_response else { panic!() };
    assert_eq!(error.error_code, tonic::Code::NotFound as i32);
}

#[tokio::test]
async fn older_clients_are_answered_alike() {
    let node = Node::start(1);
    let mut client = AlphaClient::with_origin(Channel::open(node.address).await, origin(node.address));
    let list = alpha_request::MessageRequest::ListServices(String::new());
    let request = v1alpha::ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let answers = client.server_reflection_info(stream::iter([request])).await.unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap();
    assert!(format!("{answer:?}").contains("silverback.v1.Admin"), "{answer:?}");
}
