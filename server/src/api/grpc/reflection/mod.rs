//! Server reflection: what a client without our `.proto` files may ask for, answered from the
//! descriptors that the build left.
//!
//! The messages of v1alpha are those of v1, byte for byte; so one service answers both.
mod index;

use std::pin::Pin;

use futures::{Stream, StreamExt};
use http::{Request, Uri};
use tonic::{Status, Streaming};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::server_reflection_server::{ServerReflection, ServerReflectionServer};
use tonic_reflection::pb::v1::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse,
    ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
};

use self::index::Index;
use super::status::Replied;
use crate::api::response::cause::Cause;

/// A question in bytes: a symbol's or a file's name. What has come of one counts nowhere.
const QUESTION_BYTES_MAX: usize = 4 << 10;

/// The reflection service.
pub(crate) fn service() -> ServerReflectionServer<Reflection> {
    ServerReflectionServer::new(Reflection).max_decoding_message_size(QUESTION_BYTES_MAX)
}

/// A call of v1alpha as one of v1.
pub(crate) fn as_v1<B>(mut request: Request<B>) -> Request<B> {
    *request.uri_mut() = Uri::from_static("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
    request
}

/// Answers for the node: every core knows the same.
pub(crate) struct Reflection;

#[tonic::async_trait]
impl ServerReflection for Reflection {
    type ServerReflectionInfoStream =
        Pin<Box<dyn Stream<Item = Result<ServerReflectionResponse, Status>> + Send>>;

    async fn server_reflection_info(
        &self,
        request: tonic::Request<Streaming<ServerReflectionRequest>>,
    ) -> Replied<Self::ServerReflectionInfoStream> {
        let answers = request.into_inner().map(|question| question.map(|asked| answer(Index::get(), asked)));
        Ok(tonic::Response::new(Box::pin(answers)))
    }
}

fn answer(index: &Index, request: ServerReflectionRequest) -> ServerReflectionResponse {
    let response = match &request.message_request {
        None => error(Cause::Invalid, "nothing is asked".to_owned()),
        Some(MessageRequest::ListServices(_)) => services(index),
        Some(MessageRequest::FileByFilename(name)) => file(index.file(name), "file", name),
        Some(MessageRequest::FileContainingSymbol(symbol)) => {
            file(index.file_of_symbol(symbol), "symbol", symbol)
        }
        // No file here extends a message.
        Some(MessageRequest::FileContainingExtension(asked)) => {
            file(None, "extension of", &asked.containing_type)
        }
        Some(MessageRequest::AllExtensionNumbersOfType(name)) => extension_numbers(index, name),
    };
    ServerReflectionResponse {
        valid_host: request.host.clone(),
        original_request: Some(request),
        message_response: Some(response),
    }
}

fn services(index: &Index) -> MessageResponse {
    let service = index.services().iter().map(|name| ServiceResponse { name: name.clone() }).collect();
    MessageResponse::ListServicesResponse(ListServiceResponse { service })
}

fn file(found: Option<&[u8]>, kind: &str, name: &str) -> MessageResponse {
    match found {
        Some(descriptor) => MessageResponse::FileDescriptorResponse(FileDescriptorResponse {
            file_descriptor_proto: vec![descriptor.to_vec()],
        }),
        None => error(Cause::NotFound, format!("there is no {kind} {name:?} here")),
    }
}

fn extension_numbers(index: &Index, name: &str) -> MessageResponse {
    match index.file_of_symbol(name) {
        Some(_) => MessageResponse::AllExtensionNumbersResponse(ExtensionNumberResponse {
            base_type_name: name.to_owned(),
            extension_number: Vec::new(),
        }),
        None => error(Cause::NotFound, format!("there is no type {name:?} here")),
    }
}

fn error(cause: Cause, error_message: String) -> MessageResponse {
    MessageResponse::ErrorResponse(ErrorResponse { error_code: cause.grpc() as i32, error_message })
}
