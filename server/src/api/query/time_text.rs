//! Times as clients write them: RFC 3339, or seconds since the Unix epoch with decimals.

use silverback_model::utc::parse_rfc3339_ms;

/// How Prometheus' own clients write the least and the greatest time.
const OLDEST_TEXT: &str = "-292273086-05-16T16:47:06Z";
const NEWEST_TEXT: &str = "292277025-08-18T07:12:54.999999999Z";

/// Milliseconds since the Unix epoch; `None` for what isn't a time. A time beyond what 64 bits hold is
/// the last one that they do.
pub(crate) fn parse_time_ms(text: &str) -> Option<i64> {
    if text.contains(['T', 't', ':']) {
        return match text {
            OLDEST_TEXT => Some(i64::MIN),
            NEWEST_TEXT => Some(i64::MAX),
            _ => parse_rfc3339_ms(text),
        };
    }
    let seconds: f64 = text.parse().ok()?;
    seconds.is_finite().then(|| (seconds * 1000.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<i64>) {
        assert_eq!(parse_time_ms(text), expect, "{text:?}");
    }

    #[test]
    fn seconds_are_read_with_their_decimals() {
        check("0", Some(0));
        check("1435781430.781", Some(1_435_781_430_781));
        check("-1.5", Some(-1500));
        check("1.7e9", Some(1_700_000_000_000));
        check("1e300", Some(i64::MAX));
        for text in ["", "x", "NaN", "Inf", "1 ", "0x10", "1_000"] {
            check(text, None);
        }
    }

    #[test]
    fn rfc_3339_is_read_with_offset_and_decimals() {
        check("1970-01-01T00:00:00Z", Some(0));
        check("2015-07-01T20:10:30.781Z", Some(1_435_781_430_781));
        check("2015-07-01T22:10:30.781+02:00", Some(1_435_781_430_781));
        check("2015-07-01T14:40:30.781999999-05:30", Some(1_435_781_430_781));
        check("2000-02-29T00:00:00.5Z", Some(951_782_400_500));
        check("1969-12-31T23:59:59Z", Some(-1000));
        check("0000-03-01T00:00:00Z", Some(-62_162_035_200_000));
        check(OLDEST_TEXT, Some(i64::MIN));
        check(NEWEST_TEXT, Some(i64::MAX));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "2015-07-01T20:10:30",
            "2015-02-29T00:00:00Z",
            "2015-13-01T00:00:00Z",
            "2015-00-01T00:00:00Z",
            "2015-07-01T24:00:00Z",
            "2015-07-01T20:10Z",
            "2015-07-01T20:10:30.Z",
            "2015-07-01T20:10:30.éZ",
            "2015-07-01T20:10:30+2:00",
            "2015-07-01T20:10:30+02:00:00",
            "15-07-01T20:10:30Z",
            "+015-07-01T20:10:30Z",
            "T",
            "T+",
            ":",
        ] {
            check(text, None);
        }
    }
}
