//! Who is let in: the one place in front of all of HTTP and gRPC, before anything of a request's body is read. It asks
//! the gate, and words and counts what that refuses; which scope a request takes is with its route.

use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Request, Version};
use http_body::Body;
use silverback_model::printable::{Printable, Quoted};
use silverback_runtime::shown_address;

use crate::access::gate::{CredentialsLook, CredentialsRejected, Gate};
use crate::access::scope::Scopes;
use crate::api::core::CoreContext;
use crate::api::grpc;
use crate::api::grpc::methods::Method;
use crate::api::handlers::RequestPeer;
use crate::api::response::cause::Cause;
use crate::api::response::{NodeResponse, close, text};
use crate::api::routes::{ANY, RequestKind, Route};

/// What an address of the node is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// Everything; but for what takes the admin's scope, where that has an address of its own.
    Main { has_admin: bool },
    /// Everything.
    Admin,
    /// Probes alone, from whoever sends them.
    Probes,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestTarget {
    Http(Option<&'static Route>),
    Grpc(Option<&'static Method>),
}

impl RequestTarget {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        match grpc::is_grpc(request) {
            true => Self::Grpc(Method::of(request.uri())),
            false => Self::Http(Route::of(request.uri().path())),
        }
    }

    /// That a path doesn't exist is said to whoever has any credentials.
    fn needs(self) -> Scopes {
        match self {
            Self::Http(route) => route.map_or(ANY, |route| route.needs),
            Self::Grpc(method) => method.map_or(ANY, |method| method.needs),
        }
    }

    fn kind(self) -> RequestKind {
        match self {
            Self::Http(route) => route.map_or(RequestKind::Usual, |route| route.kind),
            Self::Grpc(method) => method.map_or(RequestKind::Usual, |method| method.kind),
        }
    }

    fn is_probe(self) -> bool {
        match self {
            Self::Http(route) => route.is_some_and(Route::is_probe),
            Self::Grpc(method) => method.is_some_and(Method::is_probe),
        }
    }

    /// Whether nothing but the admin's scope lets it in.
    fn is_admin(self) -> bool {
        self.needs() == crate::api::routes::ADMIN
    }
}

/// What became of a request's credentials.
pub(crate) enum Admission {
    Decided(Result<(), AdmissionRejected>),
    /// A password is to be checked first: [`verify`].
    Unknown(crate::access::gate::PasswordCheck),
}

/// Why a request isn't let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AdmissionRejected {
    /// For its credentials.
    #[error(transparent)]
    Credentials(#[from] CredentialsRejected),
    /// It is asked for at another address.
    #[error("this is asked for at the address of --admin-listen alone")]
    ElsewhereAdmin,
    /// The address is for probes.
    #[error("this address answers /-/healthy, /-/ready, /-/replayed and gRPC's health service alone")]
    ProbesAlone,
}

/// Looks at a request's head: at once, and without a word about who it is where nobody is asked.
pub(crate) fn look<B>(peer: &RequestPeer, asked: RequestTarget, request: &Request<B>) -> Admission {
    let decided = match peer.door {
        Door::Probes if asked.is_probe() => return Admission::Decided(Ok(())),
        Door::Probes => Err(AdmissionRejected::ProbesAlone),
        Door::Main { has_admin: true } if asked.is_admin() => Err(AdmissionRejected::ElsewhereAdmin),
        Door::Main { .. } | Door::Admin => match &peer.handlers.gate {
            None => Ok(()),
            Some(gate) => match gate.look(request.headers(), asked.needs()) {
                CredentialsLook::Decided(decided) => decided.map_err(AdmissionRejected::Credentials),
                CredentialsLook::Unknown(check) => return Admission::Unknown(check),
            },
        },
    };
    Admission::Decided(decided)
}

/// Has a password checked.
pub(crate) async fn verify(
    peer: &RequestPeer,
    check: crate::access::gate::PasswordCheck,
) -> Result<(), AdmissionRejected> {
    match &peer.handlers.gate {
        None => Ok(()),
        Some(gate) => {
            let from = silverback_runtime::Peer::of(peer.address);
            gate.verify(check, from).await.map_err(AdmissionRejected::Credentials)
        }
    }
}

/// Logs what an operator answers for, before it is done.
pub(crate) fn note_action<B>(peer: &RequestPeer, asked: RequestTarget, request: &Request<B>) {
    if asked.kind() == RequestKind::Usual {
        return;
    }
    let user = peer.handlers.gate.as_deref().and_then(|gate| gate.name_of(request.headers()));
    let target = request.uri().path_and_query().map_or("", |target| target.as_str());
    let shown: String = target.chars().take(TARGET_CHARS_MAX).collect();
    tracing::info!(
        peer = shown_address(peer.address),
        user = user.as_deref().map_or_else(|| "-".to_owned(), |user| Printable(user).to_string()),
        method = %request.method(),
        target = %Printable(&shown),
        "audit: an administrative action was asked for"
    );
}

/// Of a target that a log line shows: the matchers of a deletion are in it.
const TARGET_CHARS_MAX: usize = 500;

/// The answer to a request that isn't let in. The rest of its body isn't waited for.
pub(crate) fn refuse<B: Body>(
    peer: &RequestPeer,
    request: &Request<B>,
    rejected: &AdmissionRejected,
) -> NodeResponse {
    count(&peer.handlers.core, rejected);
    silverback_host::warn_limited!(
        peer = shown_address(peer.address),
        method = %request.method(),
        path = %Quoted(request.uri().path()),
        %rejected,
        "audit: a request was not let in"
    );
    let cause = rejected.cause();
    if grpc::is_grpc(request) {
        return grpc::refuse(&cause.status(rejected.to_string()));
    }
    let mut response = text(cause.http(), format!("{rejected}\n"));
    let headers = response.headers_mut();
    if cause == Cause::Unauthenticated
        && let Some(gate) = &peer.handlers.gate
    {
        challenge(gate, headers);
    }
    if cause == Cause::NotReady {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    // HTTP/2 ends the stream alone.
    if !request.body().is_end_stream() && request.version() <= Version::HTTP_11 {
        close(&mut response);
    }
    response
}

fn challenge(gate: &Gate, headers: &mut http::HeaderMap) {
    for challenge in gate.challenges() {
        headers.append(WWW_AUTHENTICATE, challenge);
    }
}

impl AdmissionRejected {
    fn cause(&self) -> Cause {
        match self {
            Self::Credentials(CredentialsRejected::Missing | CredentialsRejected::Wrong) => {
                Cause::Unauthenticated
            }
            Self::Credentials(CredentialsRejected::Scope { .. }) => Cause::NotAllowed,
            // Every sender takes this for what passes.
            Self::Credentials(CredentialsRejected::Busy) => Cause::NotReady,
            Self::Credentials(CredentialsRejected::Failed) => Cause::Internal,
            Self::ElsewhereAdmin => Cause::NotAllowed,
            Self::ProbesAlone => Cause::NotFound,
        }
    }
}

fn count(core: &CoreContext, rejected: &AdmissionRejected) {
    core.count(|counts| match rejected {
        AdmissionRejected::Credentials(CredentialsRejected::Missing) => {
            counts.refused_without_credentials += 1
        }
        AdmissionRejected::Credentials(CredentialsRejected::Wrong) => counts.refused_by_credentials += 1,
        AdmissionRejected::Credentials(CredentialsRejected::Scope { .. }) => counts.refused_by_scope += 1,
        AdmissionRejected::Credentials(CredentialsRejected::Busy | CredentialsRejected::Failed) => {
            counts.refused_unchecked += 1
        }
        AdmissionRejected::ElsewhereAdmin | AdmissionRejected::ProbesAlone => counts.refused_by_address += 1,
    });
}
