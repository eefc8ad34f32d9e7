//! Thanos' `WriteRequest`: series of remote write 1, those of one tenant (fields 1 and 2) or of several (field 4).
//!
//! Which of them count, and whose they are, is known at a request's end alone: so it is surveyed first, by the frames of
//! its fields, and decoded then. What a survey has seen is framed well.

use super::{
    decoder::{DecodeProgress, Decoder, Decoding, SeriesSink},
    malformed::{MalformedError, MalformedErrorKind},
    v1::{self, Others, Stretch, TIMESERIES},
    wire::{Tag, WireReader, WireType, malformed},
    write_rejected::WriteRejected,
};
use silverback_model::SeriesIdHasher;
use silverback_storage::message::WriteBody;

/// Of a request, and of its parts by tenant.
const TENANT: Tag = Tag::new(2, WireType::Len);
/// How often it was replicated, which is a router's to know.
const REPLICA: Tag = Tag::new(3, WireType::Varint);
const BY_TENANT: Tag = Tag::new(4, WireType::Len);
const REQUEST_KNOWN_MAX: u32 = 4;
const PART_KNOWN_MAX: u32 = 2;
/// How much of a foreign tenant's name its sender is shown, in bytes.
const EXCERPT_BYTES: usize = 64;

/// Where a request has the series that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesIn {
    /// In field 1.
    Request,
    /// In field 4: others are passed over, as its senders fill them for older receivers.
    Parts,
}

/// What is known of a request, as far as it was looked at.
#[derive(Debug)]
pub struct Survey<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The part that is looked at; its end is the request's where there is none.
    part_end: Option<usize>,
    of_request: SeenFields<'a>,
    of_part: SeenFields<'a>,
    has_parts: bool,
    /// Of all parts.
    parts_have_series: bool,
    /// A field beyond those that are known, in the request or in a part.
    has_unknown: bool,
    own_tenant: &'a str,
}

/// Of one message.
#[derive(Debug, Clone, Copy, Default)]
struct SeenFields<'a> {
    has_series: bool,
    /// Of several the last counts.
    tenant: Option<&'a [u8]>,
}

impl<'a> Survey<'a> {
    /// Begins with a request's bytes. Samples of `own_tenant` are taken alone: a request, or a part, that names none is
    /// of it, too.
    pub fn new(bytes: &'a [u8], own_tenant: &'a str) -> Self {
        let seen = SeenFields::default();
        Self {
            bytes,
            at: 0,
            part_end: None,
            of_request: seen,
            of_part: seen,
            has_parts: false,
            parts_have_series: false,
            has_unknown: false,
            own_tenant,
        }
    }

    /// Looks at so many fields more; where the series are, once that is known.
    pub fn look(&mut self, fields_max: usize) -> Result<Option<SeriesIn>, WriteRejected> {
        for _field in 0..fields_max.max(1) {
            match self.part_end {
                Some(end) if self.at >= end => self.end_part()?,
                Some(end) => self.part_field(end)?,
                None if self.at >= self.bytes.len() => return self.end().map(Some),
                None => self.request_field()?,
            }
        }
        Ok(None)
    }

    fn request_field(&mut self) -> Result<(), MalformedError> {
        let mut request = WireReader::new(self.bytes, self.at);
        let tag = request.tag()?;
        if tag == BY_TENANT {
            let part = request.message()?;
            (self.has_parts, self.of_part) = (true, SeenFields::default());
            (self.at, self.part_end) = (part.at(), Some(part.bytes().len()));
            return Ok(());
        }
        if tag == REPLICA {
            request.skip(tag)?;
        } else if !self.of_request.take(&mut request, tag)? {
            request.skip_unknown(tag, REQUEST_KNOWN_MAX)?;
            self.has_unknown = true;
        }
        self.at = request.at();
        Ok(())
    }

    fn part_field(&mut self, end: usize) -> Result<(), MalformedError> {
        let mut part = WireReader::new(&self.bytes[..end], self.at);
        let tag = part.tag()?;
        if !self.of_part.take(&mut part, tag)? {
            part.skip_unknown(tag, PART_KNOWN_MAX)?;
            self.has_unknown = true;
        }
        self.at = part.at();
        Ok(())
    }

    fn end_part(&mut self) -> Result<(), WriteRejected> {
        self.check_tenant(self.of_part)?;
        self.parts_have_series |= self.of_part.has_series;
        self.part_end = None;
        Ok(())
    }

    fn end(&self) -> Result<SeriesIn, WriteRejected> {
        let (series_in, has_series) = if self.has_parts {
            (SeriesIn::Parts, self.parts_have_series)
        } else {
            self.check_tenant(self.of_request)?;
            (SeriesIn::Request, self.of_request.has_series)
        };
        // Series in a field of tomorrow must not be acknowledged as none.
        let is_understood = self.has_parts || self.of_request.tenant.is_some();
        let is_empty = self.bytes.is_empty() || is_understood && !self.has_unknown;
        if has_series || is_empty {
            Ok(series_in)
        } else {
            Err(malformed(0, MalformedErrorKind::NoKnownField).into())
        }
    }

    fn check_tenant(&self, seen: SeenFields) -> Result<(), WriteRejected> {
        match seen.tenant {
            None | Some([]) => Ok(()),
            Some(tenant) if tenant == self.own_tenant.as_bytes() => Ok(()),
            Some(tenant) => {
                let excerpt = &tenant[..tenant.len().min(EXCERPT_BYTES)];
                let asked = String::from_utf8_lossy(excerpt).into_owned();
                Err(WriteRejected::OtherTenant { asked, own: self.own_tenant.to_owned() })
            }
        }
    }
}

impl<'a> SeenFields<'a> {
    /// Takes a field that the request and its parts number alike; `false`: it isn't one of these.
    fn take(&mut self, message: &mut WireReader<'a>, tag: Tag) -> Result<bool, MalformedError> {
        if tag == TIMESERIES {
            message.span()?;
            self.has_series = true;
        } else if tag == TENANT {
            let tenant = message.message()?;
            self.tenant = Some(&tenant.bytes()[tenant.at()..]);
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// The whole request, for about `series_max` series.
pub(super) fn stretch(body: &WriteBody, series_max: usize) -> Stretch {
    Stretch { end: body.bytes.len(), fields_left: series_max.max(1), others: Others::Known }
}

/// Decodes on in a request that was surveyed. `stretch` is all of it.
pub(super) fn decode(
    decoder: &mut Decoder,
    body: &mut WriteBody,
    decoding: &mut Decoding,
    hasher: &SeriesIdHasher,
    sink: &mut impl SeriesSink,
    (series_in, stretch): (SeriesIn, &mut Stretch),
) -> Result<DecodeProgress, MalformedError> {
    if series_in == SeriesIn::Request {
        return v1::decode_stretch(decoder, body, decoding, hasher, sink, stretch);
    }
    let end = stretch.end;
    loop {
        stretch.end = decoding.tenant_end;
        if decoding.at < stretch.end
            && v1::decode_stretch(decoder, body, decoding, hasher, sink, stretch)? == DecodeProgress::More
        {
            return Ok(DecodeProgress::More);
        }
        if decoding.at >= end {
            return Ok(DecodeProgress::Done);
        }
        if stretch.fields_left == 0 {
            return Ok(DecodeProgress::More);
        }
        stretch.fields_left -= 1;
        enter_next(&body.bytes, decoding)?;
    }
}

/// Reads the request's next field: goes into it where it is a tenant's, and passes it over otherwise.
fn enter_next(bytes: &[u8], decoding: &mut Decoding) -> Result<(), MalformedError> {
    let mut request = WireReader::new(bytes, decoding.at);
    let tag = request.tag()?;
    if tag == BY_TENANT {
        let part = request.message()?;
        (decoding.at, decoding.tenant_end) = (part.at(), part.bytes().len());
        return Ok(());
    }
    request.skip(tag)?;
    decoding.at = request.at();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use silverback_test_support::wire::{field, number};

    fn check(request: &[&[u8]], expect: Result<SeriesIn, &str>) {
        let request = request.concat();
        for fields_max in [1, 2, usize::MAX] {
            let mut survey = Survey::new(&request, "us");
            let found = loop {
                match survey.look(fields_max) {
                    Ok(None) => {}
                    Ok(Some(series_in)) => break Ok(series_in),
                    Err(rejection) => break Err(rejection.to_string()),
                }
            };
            match (&found, expect) {
                (Ok(found), Ok(expect)) => assert_eq!(*found, expect, "{request:?}"),
                (Err(words), Err(part)) => assert!(words.contains(part), "{words}"),
                (found, expect) => panic!("{request:?}: {found:?}, not {expect:?}"),
            }
        }
    }

    #[test]
    fn field_4_goes_over_the_others_wherever_it_stands() {
        let (series, part) = (&*field(1, b""), &*field(4, &field(1, b"")));
        check(&[series], Ok(SeriesIn::Request));
        check(&[series, part], Ok(SeriesIn::Parts));
        check(&[part, series], Ok(SeriesIn::Parts));
        check(&[&field(2, b"them"), series, part], Ok(SeriesIn::Parts));
    }

    #[test]
    fn a_foreign_tenant_is_refused_wherever_it_stands_and_an_empty_one_is_ours() {
        let series = &*field(1, b"");
        check(&[series, &field(2, b"us")], Ok(SeriesIn::Request));
        check(&[series, &field(2, b"")], Ok(SeriesIn::Request));
        check(
            &[series, &field(2, b"them")],
            Err("the tenant \"them\", and this node keeps samples of \"us\""),
        );
        check(&[series, &field(2, b"them"), &field(2, b"us")], Ok(SeriesIn::Request));
        let of = |tenant: &[u8]| field(4, &[field(1, b""), field(2, tenant)].concat());
        check(&[&of(b"us"), &of(b"")], Ok(SeriesIn::Parts));
        check(&[&of(b"us"), &of(b"them")], Err("\"them\""));
        check(&[&of(&[b'x'; 5000])], Err(&format!("\"{}\"", "x".repeat(64))));
    }

    #[test]
    fn fields_of_tomorrow_alone_are_not_acknowledged() {
        const UNKNOWN: Result<SeriesIn, &str> = Err("nothing of it is known here");
        let tomorrow = &*field(5, b"series");
        check(&[], Ok(SeriesIn::Request));
        check(&[tomorrow], UNKNOWN);
        check(&[&number(3, 1)], UNKNOWN);
        check(&[&field(2, b"us"), tomorrow], UNKNOWN);
        check(&[&field(4, tomorrow)], UNKNOWN);
        check(&[&field(4, b""), tomorrow], UNKNOWN);
        check(&[&field(2, b"us"), &number(3, 1)], Ok(SeriesIn::Request));
        check(&[&field(1, b""), tomorrow], Ok(SeriesIn::Request));
        check(&[&field(4, b"")], Ok(SeriesIn::Parts));
    }

    #[test]
    fn what_is_framed_wrongly_is_malformed() {
        check(&[&[0x0a, 5, 1]], Err("malformed request at byte 1"));
        check(&[&number(1, 1)], Err("wrong wire type"));
        check(&[&field(3, b"")], Err("wrong wire type"));
        check(&[&field(4, &[0x0a, 2, 0]), &[0x0a, 0]], Err("malformed request at byte 3"));
        check(&[&field(4, &number(2, 1))], Err("wrong wire type"));
    }
}
