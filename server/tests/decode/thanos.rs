//! Requests of Thanos' routers: read as prost reads them, whatever fields they have and wherever these are.

use proptest::{collection::vec, prelude::*, sample::select};
use prost::Message;
use silverback::api::ingest::remote_write::WriteRejected;
use silverback_proto::thanos::{TimeSeriesTenantTuple, WriteRequest};
use silverback_test_support::wire::{field, label, number, sample, series_v1};

use crate::oracle::{Outcome, outcome_thanos};
use crate::random_requests;
use crate::thanos_sink::{OWN, decode};

fn tenant() -> impl Strategy<Value = String> {
    select(&[OWN, OWN, OWN, OWN, "", "other"][..]).prop_map(str::to_owned)
}

fn request() -> impl Strategy<Value = WriteRequest> {
    let series = || vec(random_requests::series_v1(), 0..5);
    let part =
        (series(), tenant()).prop_map(|(timeseries, tenant)| TimeSeriesTenantTuple { timeseries, tenant });
    let parts = prop_oneof![Just(Vec::new()), vec(part, 1..4)];
    (series(), tenant(), 0..3_i64, parts).prop_map(|(timeseries, tenant, replica, parts)| WriteRequest {
        timeseries,
        tenant,
        replica,
        timeseries_tenant_data: parts,
    })
}

fn check(bytes: &[u8], request: &WriteRequest, has_unknown: bool) {
    let is_known = request.timeseries_tenant_data.iter().any(|part| !part.timeseries.is_empty())
        || request.timeseries_tenant_data.is_empty() && !request.timeseries.is_empty()
        || bytes.is_empty()
        || !(has_unknown || request.timeseries_tenant_data.is_empty() && request.tenant.is_empty());
    match (decode(bytes), outcome_thanos(request, OWN)) {
        (Ok((series, tally)), Some(expect)) => {
            assert!(is_known, "{request:?}");
            assert_eq!(Outcome::of_decoder(series, &tally), expect);
        }
        (Err(WriteRejected::OtherTenant { asked, own }), None) => {
            assert_eq!((&*asked, &*own), ("other", OWN));
        }
        (Err(WriteRejected::Malformed(error)), Some(_)) => {
            assert!(!is_known, "{error}: {request:?}");
        }
        (read, expect) => panic!("{read:?}, not {expect:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_request_is_read_as_prost_reads_it(request in request(), unknown in 0..4_usize) {
        check(&request.encode_to_vec(), &request, false);
        // Fields of tomorrow, before and after it.
        let unknown = [field(5, b"x"), number(9, 7)].concat().repeat(unknown);
        let around = [&unknown[..], &request.encode_to_vec(), &unknown].concat();
        check(&around, &request, !unknown.is_empty());
    }

    #[test]
    fn a_request_that_is_cut_or_garbled_is_refused_or_read_as_prost_reads_it(
        request in request(),
        at: prop::sample::Index,
        byte: u8,
        cuts: bool,
    ) {
        let mut bytes = request.encode_to_vec();
        if bytes.is_empty() {
            return Ok(());
        }
        let at = at.index(bytes.len());
        if cuts { bytes.truncate(at) } else { bytes[at] = byte }
        if let (Ok((series, tally)), Ok(read)) = (decode(&bytes), WriteRequest::decode(&bytes[..])) {
            assert_eq!(Some(Outcome::of_decoder(series, &tally)), outcome_thanos(&read, OWN));
        }
    }
}

#[test]
fn what_parts_have_besides_series_is_passed_over_and_series_beside_parts_too() {
    let one = |name: &[u8]| series_v1(&[label(b"__name__", name), sample(1, 1.0)]);
    // Field 3 is metadata in remote write 1, and nothing here.
    let part =
        |name: &[u8]| field(4, &[field(3, b"\xff"), one(name), field(2, OWN.as_bytes()), one(b"z")].concat());
    let request =
        [one(b"passed_over"), part(b"a"), number(3, 2), field(7, b"x"), part(b"b"), one(b"this")].concat();
    let (series, tally) = decode(&request).unwrap();
    let names: Vec<_> = series.iter().map(|(labels, _)| labels[0].1.as_str()).collect();
    assert_eq!((names, tally.metadata), (vec!["a", "z", "b", "z"], 0));
}
