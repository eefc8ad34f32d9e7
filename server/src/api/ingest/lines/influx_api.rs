//! InfluxDB's endpoints, as far as its senders need them: writes of both versions, `/ping`, and of queries
//! `CREATE DATABASE`, which Telegraf begins with.

use crate::api::response::cause::{for_influx_1, influx_2_word};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request};
use serde_json::json;
use silverback_model::printable::Quoted;

use super::extra_labels::ExtraLabels;
use super::influx_lines::{InfluxLines, Precision};
use super::intake::{check_head, params, store};
use super::report::LineReport;
use crate::api::http::request_body::HttpBody;
use crate::api::ingest::Ingest;
use crate::api::ingest::caller::Caller;
use crate::api::ingest::remote_write::WriteRejected;
use crate::api::ingest::remote_write::answer::WriteResponse;
use crate::api::ingest::write_endpoint::{refuse, respond};
use crate::api::query::http_api::params::Params;
use crate::api::response::{NodeResponse, method_not_allowed, no_content};

const JSON: &str = "application/json";

/// The last release whose API this is; clients look for it in the answer to a ping.
const VERSION: &str = "1.8.10";

/// Strings that a request which was stored whole had: no samples.
const STRINGS_SKIPPED: HeaderName = HeaderName::from_static("x-silverback-string-fields-skipped");

/// The two versions of the API: they differ in their parameters, and in how errors look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `/write`
    V1,
    /// `/api/v2/write`
    V2,
}

/// Answers a write.
pub async fn write<B: HttpBody>(caller: &Caller, dialect: Dialect, request: Request<B>) -> NodeResponse {
    match take_in(caller, dialect, request).await {
        Ok(report) => {
            caller.note_refused(&report.samples.examples);
            let mut response =
                respond(dialect.says(WriteResponse::in_words(&report.samples, || partial(&report))));
            if report.strings > 0 {
                response.headers_mut().insert(STRINGS_SKIPPED, report.strings.into());
            }
            response
        }
        Err(rejection) => {
            refuse(caller, dialect.says(WriteResponse::to_rejection(None, &rejection)), &rejection)
        }
    }
}

async fn take_in<B: HttpBody>(
    ingest: &Ingest,
    dialect: Dialect,
    request: Request<B>,
) -> Result<LineReport, WriteRejected> {
    let arrived_ms = ingest.clock.now_ms();
    check_head(ingest, &[Method::POST], request.method(), request.headers())?;
    let params = params(&request).await?;
    let mut extra = ExtraLabels::default();
    params.all("extra_label").try_for_each(|parameter| extra.add_parameter(parameter))?;
    let precision = dialect.precision(&params)?;
    let format = InfluxLines { extra, db: params.get("db").map(str::to_owned), precision };
    store(ingest, request, &format, arrived_ms, |counts| counts.writes_influx += 1).await
}

/// As InfluxDB says it: what looks for `partial write` goes on with other points.
fn partial(report: &LineReport) -> String {
    format!("partial write: {} dropped={}", report.words(), report.refused())
}

impl Dialect {
    fn precision(self, params: &Params) -> Result<Precision, WriteRejected> {
        let text = params.get("precision").unwrap_or("ns");
        Ok(match (text, self) {
            ("ns", _) | ("n", Self::V1) => Precision::Nanoseconds,
            ("us", _) | ("u" | "µ" | "µs", Self::V1) => Precision::Microseconds,
            ("ms", _) => Precision::Milliseconds,
            ("s", _) => Precision::Seconds,
            ("m", Self::V1) => Precision::Minutes,
            ("h", Self::V1) => Precision::Hours,
            (_unknown, _) => {
                let units = self.units();
                let words = format!("invalid precision {}; valid are {units}", Quoted(text));
                return Err(WriteRejected::Parameter(words));
            }
        })
    }

    fn units(self) -> &'static str {
        match self {
            Self::V1 => "n, ns, u, us, ms, s, m and h",
            Self::V2 => "ns, us, ms and s",
        }
    }

    /// An answer in JSON.
    fn says(self, answer: WriteResponse) -> WriteResponse {
        let WriteResponse { mut status, mut headers, text } = answer;
        if self == Self::V1 {
            status = for_influx_1(status);
        }
        if text.is_empty() {
            return WriteResponse { status, headers, text };
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let error = match self {
            Self::V1 => json!({ "error": text }),
            Self::V2 => json!({ "code": influx_2_word(status), "message": text }),
        };
        WriteResponse { status, headers, text: error.to_string() }
    }
}

/// Answers `/ping`: that somebody is here who speaks this.
pub fn ping(method: &Method) -> NodeResponse {
    if method != Method::GET && method != Method::HEAD {
        return method_not_allowed("GET, HEAD");
    }
    let mut response = no_content();
    let version = HeaderName::from_static("x-influxdb-version");
    response.headers_mut().insert(version, HeaderValue::from_static(VERSION));
    response
}

#[cfg(test)]
mod tests {
    use http::header::RETRY_AFTER;

    use super::*;

    fn says(dialect: Dialect, rejection: &WriteRejected) -> (u16, String, Option<String>) {
        let answer = dialect.says(WriteResponse::to_rejection(None, rejection));
        let retry = answer.headers.get(RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(answer.headers[CONTENT_TYPE], JSON);
        (answer.status.as_u16(), answer.text, retry)
    }

    #[test]
    fn refusals_have_the_shape_of_their_version() {
        let rejection = WriteRejected::Parameter("a \"b\"".into());
        assert_eq!(says(Dialect::V1, &rejection), (400, r#"{"error":"a \"b\""}"#.into(), None));
        let expect = r#"{"code":"invalid","message":"a \"b\""}"#;
        assert_eq!(says(Dialect::V2, &rejection), (400, expect.into(), None));
        let (status, text, retry) = says(Dialect::V2, &WriteRejected::Overloaded);
        assert_eq!((status, retry.as_deref()), (429, Some("1")));
        assert!(text.starts_with(r#"{"code":"too many requests","#), "{text}");
        let (_, text, _) = says(Dialect::V2, &WriteRejected::BodyTooLarge { limit_bytes: 9 });
        assert!(text.starts_with(r#"{"code":"request too large","#), "{text}");
    }

    #[test]
    fn what_passes_is_no_4xx_for_version_1() {
        for rejection in [WriteRejected::Overloaded, WriteRejected::MemoryFull { limit_bytes: 1 }] {
            let (status, _, retry) = says(Dialect::V1, &rejection);
            assert_eq!((status, retry.is_some()), (503, true));
        }
    }

    #[test]
    fn units_of_time_are_those_of_their_version() {
        let precision = |dialect: Dialect, text: &str| {
            let mut params = Params::default();
            let encoded = format!("precision={text}");
            futures::executor::block_on(params.add(encoded.as_bytes(), &mut async || {})).unwrap();
            dialect.precision(&params).map_err(|rejection| rejection.to_string())
        };
        use Precision::{Hours, Microseconds, Milliseconds, Minutes, Nanoseconds, Seconds};
        let of_both = [
            ("", Nanoseconds),
            ("ns", Nanoseconds),
            ("us", Microseconds),
            ("ms", Milliseconds),
            ("s", Seconds),
        ];
        for (text, expect) in of_both {
            assert_eq!(
                [Dialect::V1, Dialect::V2].map(|dialect| precision(dialect, text)),
                [Ok(expect), Ok(expect)]
            );
        }
        for (text, expect) in
            [("n", Nanoseconds), ("u", Microseconds), ("%C2%B5", Microseconds), ("m", Minutes), ("h", Hours)]
        {
            assert_eq!(precision(Dialect::V1, text), Ok(expect));
            assert!(precision(Dialect::V2, text).unwrap_err().contains("valid are ns, us, ms and s"));
        }
        assert!(precision(Dialect::V1, "d").unwrap_err().contains("invalid precision \"d\""));
    }
}
