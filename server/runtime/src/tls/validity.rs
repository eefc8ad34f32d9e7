//! From when to when a certificate holds, found in its DER; and of several, when that changes.

use silverback_model::utc::parse_rfc3339_ms;

use super::der::{Elements, GENERALIZED_TIME, INTEGER, SEQUENCE, UTC_TIME, fields, of_kind};

/// From when to when a certificate holds, both ends among it, in ms since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Its first second.
    pub not_before_ms: i64,
    /// Its last one.
    pub not_after_ms: i64,
}

/// What a certificate is at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateStatus {
    /// Its time hasn't come.
    NotYetValid,
    /// It holds.
    Valid,
    /// Its time is over.
    Expired,
}

/// Its last second ends there.
const SECOND_MS: i64 = 1_000;

impl Validity {
    /// That of a certificate; `None`: what can be read of it has no such thing.
    pub(super) fn of(certificate: &[u8]) -> Option<Self> {
        // The version, which needn't be there, and the serial number; the signature's kind; the issuer.
        let mut fields = fields(certificate)?.skip_while(|(kind, _)| *kind != INTEGER).skip(3);
        let mut times = Elements(of_kind(fields.next()?, SEQUENCE)?);
        Some(Self { not_before_ms: time_ms(times.next()?)?, not_after_ms: time_ms(times.next()?)? })
    }

    /// What it is at that time.
    pub fn status_at(&self, now_ms: i64) -> CertificateStatus {
        if now_ms < self.not_before_ms {
            CertificateStatus::NotYetValid
        } else if now_ms < self.ends_ms() {
            CertificateStatus::Valid
        } else {
            CertificateStatus::Expired
        }
    }

    /// When it becomes another after `now_ms`; `None`: never.
    pub fn changes_after(&self, now_ms: i64) -> Option<i64> {
        [self.not_before_ms, self.ends_ms()].into_iter().find(|change| *change > now_ms)
    }

    fn ends_ms(&self) -> i64 {
        self.not_after_ms.saturating_add(SECOND_MS)
    }
}

/// A time as certificates have it: `YYMMDDHHMMSSZ`, or with four digits of the year.
fn time_ms((kind, text): (u8, &[u8])) -> Option<i64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
    let (year, rest) = match kind {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let century = if year.parse::<u8>().ok()? < 50 { "20" } else { "19" };
            (format!("{century}{year}"), rest)
        }
        GENERALIZED_TIME => text.split_at_checked(4).map(|(year, rest)| (year.to_owned(), rest))?,
        _other => return None,
    };
    let (digits, zone) = rest.split_at_checked(10)?;
    if zone != "Z" {
        return None;
    }
    let of = |at: usize| &digits[at..at + 2];
    parse_rfc3339_ms(&format!("{year}-{}-{}T{}:{}:{}Z", of(0), of(2), of(4), of(6), of(8)))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(from: i32, to: i32) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["agent.example".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 2, 28), date_time_ymd(to, 3, 1));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_s_dates_are_found_in_either_form() {
        let check = |from, to| {
            let expect = [format!("{from}-02-28T00:00:00Z"), format!("{to}-03-01T00:00:00Z")];
            let [not_before_ms, not_after_ms] = expect.map(|text| parse_rfc3339_ms(&text).unwrap());
            let expect = Validity { not_before_ms, not_after_ms };
            assert_eq!(Validity::of(&certificate(from, to)), Some(expect), "{from} to {to}");
        };
        check(1975, 2020);
        check(1999, 2049);
        check(2050, 2051);
        check(2020, 9999);
    }

    #[test]
    fn times_that_are_none_are_not_found() {
        assert_eq!(time_ms((UTC_TIME, b"700101000000Z")), Some(0));
        assert_eq!(time_ms((GENERALIZED_TIME, b"19700101000001Z")), Some(1_000));
        let none: [&[u8]; 7] =
            [b"", b"7", b"700101000000", b"700101000000+0100", b"701301000000Z", b"70010100000Z", b"\xff70"];
        for text in none {
            assert_eq!(
                (time_ms((UTC_TIME, text)), time_ms((GENERALIZED_TIME, text))),
                (None, None),
                "{text:?}"
            );
        }
        assert_eq!(time_ms((SEQUENCE, b"700101000000Z")), None);
    }

    #[test]
    fn a_certificate_holds_from_its_first_second_to_the_end_of_its_last() {
        let validity = Validity { not_before_ms: 1_000, not_after_ms: 5_000 };
        let check = |now_ms, status, change| {
            assert_eq!(
                (validity.status_at(now_ms), validity.changes_after(now_ms)),
                (status, change),
                "{now_ms}"
            );
        };
        check(999, CertificateStatus::NotYetValid, Some(1_000));
        check(1_000, CertificateStatus::Valid, Some(6_000));
        check(5_999, CertificateStatus::Valid, Some(6_000));
        check(6_000, CertificateStatus::Expired, None);
    }

    #[test]
    fn a_certificate_that_is_cut_or_changed_anywhere_has_dates_or_none_and_no_panic() {
        let whole = certificate(2020, 2050);
        for len in 0..whole.len() {
            assert_eq!(Validity::of(&whole[..len]), None, "{len}");
        }
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _any = Validity::of(&changed);
            }
        }
    }
}
