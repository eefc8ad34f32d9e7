//! The page to ask on, at `/query`, and the files that it loads: text that is the same for everybody, made with the build.
//!
//! Knows files and their headers. Doesn't know what the page asks: it asks `/api/v1`, as any client does.

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};

use crate::api::response::{NodeResponse, method_not_allowed, with_type};

/// Its own files, its own node, nothing else.
const SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
    img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// One file.
struct File {
    /// As it is below `/query/`.
    name: &'static str,
    content_type: &'static str,
    text: &'static str,
    /// Tells its text from those of other builds.
    hash: u64,
}

const fn file(name: &'static str, content_type: &'static str, text: &'static str) -> File {
    File { name, content_type, text, hash: fnv1a(text.as_bytes()) }
}

static PAGE: File = file("", "text/html; charset=utf-8", include_str!("page.html"));

/// What the page loads.
static FILES: [File; 22] = [
    file("page.css", "text/css; charset=utf-8", include_str!("page.css")),
    file("address.js", SCRIPT, include_str!("address.js")),
    file("api.js", SCRIPT, include_str!("api.js")),
    file("candidates.js", SCRIPT, include_str!("candidates.js")),
    file("colours.js", SCRIPT, include_str!("colours.js")),
    file("completion.js", SCRIPT, include_str!("completion.js")),
    file("context.js", SCRIPT, include_str!("context.js")),
    file("controls.js", SCRIPT, include_str!("controls.js")),
    file("dom.js", SCRIPT, include_str!("dom.js")),
    file("editor.js", SCRIPT, include_str!("editor.js")),
    file("graph.js", SCRIPT, include_str!("graph.js")),
    file("labels.js", SCRIPT, include_str!("labels.js")),
    file("language.js", SCRIPT, include_str!("language.js")),
    file("legend.js", SCRIPT, include_str!("legend.js")),
    file("lexer.js", SCRIPT, include_str!("lexer.js")),
    file("main.js", SCRIPT, include_str!("main.js")),
    file("names.js", SCRIPT, include_str!("names.js")),
    file("numbers.js", SCRIPT, include_str!("numbers.js")),
    file("panel.js", SCRIPT, include_str!("panel.js")),
    file("result.js", SCRIPT, include_str!("result.js")),
    file("table.js", SCRIPT, include_str!("table.js")),
    file("time.js", SCRIPT, include_str!("time.js")),
];

/// Whether a request for `/query` is a browser's for the page, not a sender's in InfluxDB's words: a GET or HEAD that
/// takes HTML and has no `q`.
pub(crate) fn is_asked<B>(request: &Request<B>) -> bool {
    let mut accepted = request.headers().get_all(ACCEPT).iter();
    let takes_html = accepted.any(|accept| accept.to_str().is_ok_and(|text| text.contains("text/html")));
    let query = request.uri().query().unwrap_or_default();
    let has_q = query.split('&').any(|pair| pair == "q" || pair.starts_with("q="));
    request.uri().path() == "/query" && is_read(request.method()) && takes_html && !has_q
}

/// `/query`, where it [is asked](is_asked) for.
pub(crate) fn page(headers: &HeaderMap) -> NodeResponse {
    let mut page = PAGE.answer(headers);
    page.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SECURITY_POLICY));
    page.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    page
}

/// `/query/…`; `None`: there is no such file.
pub(crate) fn file_at<B>(request: &Request<B>) -> Option<NodeResponse> {
    let name = request.uri().path().strip_prefix("/query/")?;
    let file = FILES.iter().find(|file| file.name == name)?;
    Some(match is_read(request.method()) {
        true => file.answer(request.headers()),
        false => method_not_allowed("GET"),
    })
}

fn is_read(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

impl File {
    /// The text, or that the browser has it already: it asks each time, so that no page is of two builds.
    fn answer(&self, headers: &HeaderMap) -> NodeResponse {
        let tag = format!("\"{:016x}\"", self.hash);
        let known = headers.get_all(IF_NONE_MATCH).iter();
        let is_known = known.filter_map(|tags| tags.to_str().ok()).any(|tags| tags.contains(&tag));
        let mut response = match is_known {
            true => with_type(StatusCode::NOT_MODIFIED, self.content_type, ""),
            false => with_type(StatusCode::OK, self.content_type, self.text),
        };
        let tag = HeaderValue::from_str(&tag).expect("sixteen digits in quotes");
        response.headers_mut().insert(ETAG, tag);
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }
}

/// FNV-1a of 64 bits: it tells builds apart, and keeps nobody out.
const fn fnv1a(bytes: &[u8]) -> u64 {
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use regex::Regex;
    use silverback_promql::stable_functions;

    use super::*;

    fn text_of(name: &str) -> &'static str {
        FILES.iter().find(|file| file.name == name).unwrap().text
    }

    /// What a pattern's first group finds.
    fn found(pattern: &str, text: &str) -> BTreeSet<String> {
        Regex::new(pattern).unwrap().captures_iter(text).map(|found| found[1].to_owned()).collect()
    }

    #[test]
    fn a_browser_asks_for_the_page_and_a_sender_for_its_database() {
        let check = |method: Method, target: &str, accept: &str, expect| {
            let request = Request::builder().method(method.clone()).uri(target).header(ACCEPT, accept);
            assert_eq!(is_asked(&request.body(()).unwrap()), expect, "{method} {target} {accept}");
        };
        let html = "text/html,application/xhtml+xml,*/*;q=0.8";
        check(Method::GET, "/query", html, true);
        check(Method::HEAD, "/query", html, true);
        check(Method::GET, "/query?g0.expr=up&qq=1", html, true);
        check(Method::GET, "/query?db=x&q=SHOW+DATABASES", html, false);
        check(Method::GET, "/query?q", html, false);
        check(Method::GET, "/query", "*/*", false);
        check(Method::POST, "/query", html, false);
        check(Method::GET, "/query/", html, false);
    }

    #[test]
    fn what_the_files_load_is_there_and_nothing_else_is() {
        let mut loaded = found(r#"(?:src|href)="query/([^"]+)""#, PAGE.text);
        for file in &FILES {
            loaded.extend(found(r"from '\./([^']+)'", file.text));
        }
        let there: BTreeSet<_> = FILES.iter().map(|file| file.name.to_owned()).collect();
        assert_eq!(loaded, there);
    }

    #[test]
    fn no_script_stands_in_the_page_and_none_makes_markup_of_text() {
        assert!(
            !PAGE.text.contains("<script>") && !PAGE.text.contains("<style") && !PAGE.text.contains("style=")
        );
        let markup =
            Regex::new(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function")
                .unwrap();
        for file in &FILES {
            assert!(!markup.is_match(file.text), "{}", file.name);
        }
    }

    #[test]
    fn each_file_says_what_it_knows_and_is_short() {
        for file in &FILES {
            assert!(file.text.starts_with("// ") || file.text.starts_with("/* "), "{}", file.name);
            assert!(file.text.lines().count() <= 400, "{}", file.name);
        }
    }

    #[test]
    fn the_completion_knows_the_engine_s_functions() {
        let words = text_of("language.js").split_once("AGGREGATIONS").unwrap().0;
        let named = found(r"(?m)^  \['(\w+)', ", words);
        assert_eq!(named, stable_functions().map(str::to_owned).collect());
    }
}
