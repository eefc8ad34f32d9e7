//! InfluxDB's `/query`, as far as senders of lines ask it before they begin: that their database is there.

use http::{Method, Request, StatusCode};

use crate::api::http::request_body::HttpBody;
use crate::api::query::Reader;
use crate::api::query::http_api::params_of;
use crate::api::response::cause::Cause;
use crate::api::response::{NodeResponse, method_not_allowed, with_type};

const JSON: &str = "application/json";

/// Answers `/query`. There are no databases to create: every name is one.
pub async fn answer<B: HttpBody>(reader: &Reader, request: Request<B>) -> NodeResponse {
    let (head, body) = request.into_parts();
    if head.method != Method::POST && head.method != Method::GET {
        return method_not_allowed("GET, POST");
    }
    match params_of(reader, &head, body).await {
        Ok((params, ..)) if creates_database(params.get("q").unwrap_or_default()) => {
            with_type(StatusCode::OK, JSON, "{\"results\":[{\"statement_id\":0}]}\n")
        }
        Ok(_) => {
            let error = "only CREATE DATABASE is answered here, and needs nothing to be done; read by \
                         /api/v1/export, or by remote read";
            with_type(Cause::Invalid.http(), JSON, error_json(error) + "\n")
        }
        Err(fault) => {
            reader.count(|counts| counts.reads_failed += 1);
            let mut response = with_type(fault.cause().http(), JSON, error_json(&fault.to_string()) + "\n");
            fault.tell(response.headers_mut());
            response
        }
    }
}

fn creates_database(query: &str) -> bool {
    let mut words = query.split_whitespace();
    let is_next = |words: &mut std::str::SplitWhitespace<'_>, word| {
        words.next().is_some_and(|given| given.eq_ignore_ascii_case(word))
    };
    is_next(&mut words, "CREATE") && is_next(&mut words, "DATABASE") && words.next().is_some()
}

fn error_json(error: &str) -> String {
    serde_json::json!({ "error": error }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_queries_the_creation_of_a_database_is_one() {
        for query in
            ["CREATE DATABASE \"telegraf\"", " create  database x", "CREATE DATABASE x WITH DURATION 3d"]
        {
            assert!(creates_database(query), "{query}");
        }
        for query in ["", "CREATE DATABASE", "SHOW DATABASES", "DROP DATABASE x", "CREATE USER x"] {
            assert!(!creates_database(query), "{query}");
        }
    }
}
