//! Whether a request may come from where it comes from. Browsers let any web page send requests to
//! whatever its user's machine reaches, loopback too, so what a page of another site sends is refused
//! before anything of it is read.
//!
//! Two things show it. The host that the request names: a page whose name was made to point here names
//! itself (DNS rebinding). And `Origin` and `Sec-Fetch-Site`, which a browser sets and no page can forge.
//! Programs send neither. A browser leaves both out of a plain GET to an address that isn't loopback over
//! plain HTTP: such a page can start a read, as any program in its network can, and gets nothing of its answer.
//! This knows heads alone, and nothing of endpoints but the pages'.

use http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use http::{Method, Request, Version};
use http_body::Body;
use silverback_model::printable::Quoted;

use crate::api::core::CoreContext;
use crate::api::grpc;
use crate::api::http::authority::Authority;
use crate::api::query_page;
use crate::api::response::cause::Cause;
use crate::api::response::{NodeResponse, close, text};
use crate::config::AllowedHosts;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Bytes of a foreign header that are shown.
const SHOWN_BYTES_MAX: usize = 80;

/// Why a request was refused for where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginRejected {
    /// It doesn't say which host it is for, or says it twice.
    #[error("the request needs one Host header")]
    NoHost,
    /// It is for a host that the node doesn't know as its own.
    #[error(
        "the host {0} isn't one of this node's: use its address or localhost or, if the name is the node's, list \
         it in --allowed-hosts"
    )]
    Host(String),
    /// It comes from a page of another site.
    #[error(
        "requests from the web pages of {0} are refused: if that is this node behind a proxy, let the proxy pass \
         the Host header on, and list its name in --allowed-hosts"
    )]
    Origin(String),
    /// A browser says that another site's page sends it.
    #[error(
        "requests that web pages of other sites make are refused (Sec-Fetch-Site: {0}): open the node's own page"
    )]
    Site(String),
}

/// Checks a request's head.
pub(crate) fn check<B>(allowed: &AllowedHosts, request: &Request<B>) -> Result<(), OriginRejected> {
    let host = check_host(allowed, request)?;
    let headers = request.headers();
    for origin in headers.get_all(ORIGIN) {
        let is_own = host.zip(origin.to_str().ok()).is_some_and(|(host, origin)| host.is_origin(origin));
        if !is_own {
            return Err(OriginRejected::Origin(shown(origin.as_bytes())));
        }
    }
    for site in headers.get_all(SEC_FETCH_SITE) {
        // `none`: a person typed the address. Another port of the same host is the same site, too, and foreign.
        if !matches!(site.as_bytes(), b"same-origin" | b"none") && !opens_page(request) {
            return Err(OriginRejected::Site(shown(site.as_bytes())));
        }
    }
    Ok(())
}

/// The host that the request is for; `None` where it need not say it.
fn check_host<'a, B>(
    allowed: &AllowedHosts,
    request: &'a Request<B>,
) -> Result<Option<Authority<'a>>, OriginRejected> {
    let target = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let mut headers = request.headers().get_all(HOST).iter().map(HeaderValue::as_bytes);
    let (header, second) = (headers.next(), headers.next());
    if second.is_some() {
        return Err(OriginRejected::NoHost);
    }
    let mut host = None;
    // Where both are there each has to be allowed: nobody has to know which of them counts.
    for text in [header, target].into_iter().flatten() {
        host = Some(allowed_authority(allowed, text)?);
    }
    // Before HTTP/1.1 there was none. Simple health checks still do without; no browser does.
    if host.is_none() && request.version() > Version::HTTP_10 {
        Err(OriginRejected::NoHost)
    } else {
        Ok(host)
    }
}

fn allowed_authority<'a>(allowed: &AllowedHosts, text: &'a [u8]) -> Result<Authority<'a>, OriginRejected> {
    if text.is_empty() {
        return Err(OriginRejected::NoHost);
    }
    let authority = std::str::from_utf8(text).ok().and_then(Authority::parse);
    authority
        .filter(|authority| authority.is_address() || allowed.allows(authority.host()))
        .ok_or_else(|| OriginRejected::Host(shown(text)))
}

/// Whether a link of another site leads to the status page or to the page to ask on: that is text which is the same for
/// everybody, and what it asks for it asks for itself. Not in a frame.
fn opens_page<B>(request: &Request<B>) -> bool {
    let is =
        |name: HeaderName, value: &[u8]| request.headers().get(name).is_some_and(|h| h.as_bytes() == value);
    matches!(*request.method(), Method::GET | Method::HEAD)
        && (request.uri().path() == "/" || query_page::is_asked(request))
        && is(SEC_FETCH_MODE, b"navigate")
        && is(SEC_FETCH_DEST, b"document")
}

/// A header's beginning, for words and logs; without the name and the password that may be before a host.
fn shown(text: &[u8]) -> String {
    let (before, host) = match text.iter().rposition(|byte| *byte == b'@') {
        Some(at) => ("…@", &text[at + 1..]),
        None => ("", text),
    };
    let (host, rest) = host.split_at(host.len().min(SHOWN_BYTES_MAX));
    let more = if rest.is_empty() { "" } else { "…" };
    Quoted(&format!("{before}{}{more}", String::from_utf8_lossy(host))).to_string()
}

/// Counts, logs and answers a request that was refused.
pub(crate) fn refuse<B: Body>(
    core: &CoreContext,
    request: &Request<B>,
    rejected: &OriginRejected,
) -> NodeResponse {
    core.count(|counts| match rejected {
        OriginRejected::NoHost | OriginRejected::Host(_) => counts.refused_by_host += 1,
        OriginRejected::Origin(_) | OriginRejected::Site(_) => counts.refused_by_origin += 1,
    });
    silverback_host::warn_limited!(%rejected, "a request was refused for where it comes from");
    if grpc::is_grpc(request) {
        return grpc::refuse(&rejected.cause().status(rejected.to_string()));
    }
    let mut response = text(rejected.cause().http(), format!("{rejected}\n"));
    // HTTP/2 ends the stream alone.
    if !request.body().is_end_stream() && request.version() <= Version::HTTP_11 {
        close(&mut response);
    }
    response
}

impl OriginRejected {
    fn cause(&self) -> Cause {
        match self {
            Self::NoHost => Cause::Invalid,
            Self::Host(_) | Self::Origin(_) | Self::Site(_) => Cause::NotAllowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request by its request target, version and headers.
    fn request(target: &str, version: Version, headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::get(target).version(version);
        for (name, value) in headers {
            request = request.header(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        request.body(()).unwrap()
    }

    fn check_head(
        target: &str,
        version: Version,
        headers: &[(&str, &str)],
        expect: Result<(), OriginRejected>,
    ) {
        let request = request(target, version, headers);
        assert_eq!(check(&AllowedHosts::default(), &request), expect, "{target} {headers:?}");
    }

    fn foreign_host(text: &str) -> Result<(), OriginRejected> {
        Err(OriginRejected::Host(format!("{text:?}")))
    }

    #[test]
    fn a_request_that_says_no_host_is_http_1_0_s() {
        check_head("/metrics", Version::HTTP_10, &[], Ok(()));
        check_head("/metrics", Version::HTTP_11, &[], Err(OriginRejected::NoHost));
        check_head("/metrics", Version::HTTP_2, &[], Err(OriginRejected::NoHost));
        check_head("/metrics", Version::HTTP_11, &[("host", "")], Err(OriginRejected::NoHost));
        let origin = Err(OriginRejected::Origin("\"http://127.0.0.1\"".to_owned()));
        check_head("/metrics", Version::HTTP_10, &[("origin", "http://127.0.0.1")], origin);
    }

    #[test]
    fn a_host_that_is_said_twice_counts_by_the_one_that_isn_t_allowed() {
        let (own, evil) = (("host", "127.0.0.1"), ("host", "evil.example"));
        check_head("/", Version::HTTP_11, &[own, own], Err(OriginRejected::NoHost));
        for version in [Version::HTTP_11, Version::HTTP_2] {
            check_head("http://localhost:9009/", version, &[], Ok(()));
            check_head("http://localhost:9009/", version, &[own], Ok(()));
            check_head("http://localhost:9009/", version, &[evil], foreign_host("evil.example"));
            check_head("http://evil.example/", version, &[own], foreign_host("evil.example"));
        }
        let origins = [own, ("origin", "http://127.0.0.1"), ("origin", "null")];
        check_head("/", Version::HTTP_11, &origins, Err(OriginRejected::Origin("\"null\"".to_owned())));
    }

    #[test]
    fn an_origin_is_set_against_the_target_where_there_is_one() {
        let headers = [("host", "127.0.0.1:9009"), ("origin", "http://localhost:9009")];
        check_head("http://localhost:9009/", Version::HTTP_11, &headers, Ok(()));
    }

    #[test]
    fn a_link_of_another_site_may_lead_to_a_page_alone() {
        let link = |dest, mode| {
            [
                ("host", "127.0.0.1"),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ]
        };
        let refused = || Err(OriginRejected::Site("\"cross-site\"".to_owned()));
        check_head("/", Version::HTTP_11, &link("document", "navigate"), Ok(()));
        check_head("/api/v1/labels", Version::HTTP_11, &link("document", "navigate"), refused());
        let html = |mode| [&link("document", mode)[..], &[("accept", "text/html")]].concat();
        check_head("/query?g0.expr=up", Version::HTTP_11, &html("navigate"), Ok(()));
        check_head("/query?g0.expr=up", Version::HTTP_11, &html("no-cors"), refused());
        check_head("/query?q=CREATE+DATABASE+a", Version::HTTP_11, &html("navigate"), refused());
        check_head("/query/main.js", Version::HTTP_11, &html("navigate"), refused());
        check_head("/", Version::HTTP_11, &link("iframe", "navigate"), refused());
        check_head("/", Version::HTTP_11, &link("empty", "no-cors"), refused());
        let mut post = request("/", Version::HTTP_11, &link("document", "navigate"));
        *post.method_mut() = Method::POST;
        assert_eq!(check(&AllowedHosts::default(), &post), refused());
    }

    #[test]
    fn a_password_before_a_host_is_not_shown() {
        let host = || foreign_host("…@127.0.0.1");
        check_head("/", Version::HTTP_11, &[("host", "admin:secret@127.0.0.1")], host());
        check_head("http://admin:secret@127.0.0.1/", Version::HTTP_2, &[], host());
        check_head("/", Version::HTTP_11, &[("host", "a:se@cret@127.0.0.1")], host());
        let headers = [("host", "127.0.0.1"), ("origin", "http://admin:secret@127.0.0.1")];
        let origin = Err(OriginRejected::Origin("\"…@127.0.0.1\"".to_owned()));
        check_head("/", Version::HTTP_11, &headers, origin);
    }

    #[test]
    fn what_is_shown_of_a_foreign_header_is_short_and_printable() {
        let long = "x".repeat(1000);
        let expect = Err(OriginRejected::Host(format!("\"{}…\"", "x".repeat(SHOWN_BYTES_MAX))));
        check_head("/", Version::HTTP_11, &[("host", &long)], expect);
        let escaped = Err(OriginRejected::Host(r#""a\u202e\u009bb""#.to_owned()));
        check_head("/", Version::HTTP_11, &[("host", "a\u{202e}\u{9b}b")], escaped);
    }
}
