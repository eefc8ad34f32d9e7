//! Encodes requests in ways that protobuf allows and no sender uses: fields in any order, lengths
//! and tags longer than needed, unknown fields in between, references unpacked.

use silverback_proto::{prometheus, write_v2};

/// Decides at each turn how odd the encoding gets; a small generator, so that cases shrink.
pub(crate) struct Whim(u64);

impl Whim {
    /// The seed zero is never odd.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn draw(&mut self, of: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(self.0 >> 33);
        (self.0 >> 40) % of
    }
}

type Fields = Vec<Vec<u8>>;

fn varint(whim: &mut Whim, mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    if whim.draw(16) == 1 {
        while out.len() < 1 + whim.draw(9) as usize {
            *out.last_mut().expect("never empty") |= 0x80;
            out.push(0);
        }
    }
    out
}

fn varint_field(whim: &mut Whim, number: u64, value: u64) -> Vec<u8> {
    [varint(whim, number << 3), varint(whim, value)].concat()
}

fn fixed64_field(whim: &mut Whim, number: u64, value: f64) -> Vec<u8> {
    [varint(whim, number << 3 | 1), value.to_bits().to_le_bytes().to_vec()].concat()
}

fn len_field(whim: &mut Whim, number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(whim, number << 3 | 2), varint(whim, bytes.len() as u64), bytes.to_vec()].concat()
}

fn unknown_field(whim: &mut Whim) -> Vec<u8> {
    match whim.draw(4) {
        0 => varint_field(whim, 100, 7),
        1 => fixed64_field(whim, 101, 1.0),
        2 => len_field(whim, 20_000, b"\x0a\x02??"),
        _ => [varint(whim, 300 << 3 | 5), vec![1, 2, 3, 4]].concat(),
    }
}

/// Puts a message together: sometimes in another order, sometimes with a field nobody knows.
fn message(whim: &mut Whim, mut fields: Fields) -> Vec<u8> {
    if whim.draw(8) == 1 && fields.len() > 1 {
        let turn = whim.draw(fields.len() as u64) as usize;
        fields.rotate_left(turn);
    }
    if whim.draw(8) == 1 {
        let at = whim.draw(fields.len() as u64 + 1) as usize;
        let unknown = unknown_field(whim);
        fields.insert(at, unknown);
    }
    fields.concat()
}

fn sample(whim: &mut Whim, value: f64, timestamp: i64) -> Vec<u8> {
    let mut fields = Fields::new();
    if value.to_bits() != 0 || whim.draw(4) == 1 {
        fields.push(fixed64_field(whim, 1, value));
    }
    if timestamp != 0 || whim.draw(4) == 1 {
        fields.push(varint_field(whim, 2, timestamp as u64));
    }
    message(whim, fields)
}

/// A remote write 1 request.
pub(crate) fn encode_v1(whim: &mut Whim, request: &prometheus::WriteRequest) -> Vec<u8> {
    let mut fields = Fields::new();
    for series in &request.timeseries {
        let series = series_v1(whim, series);
        fields.push(len_field(whim, 1, &series));
    }
    for _metadata in &request.metadata {
        fields.push(len_field(whim, 3, b""));
    }
    message(whim, fields)
}

fn series_v1(whim: &mut Whim, series: &prometheus::TimeSeries) -> Vec<u8> {
    let mut fields = Fields::new();
    for label in &series.labels {
        let name = len_field(whim, 1, label.name.as_bytes());
        let value = len_field(whim, 2, label.value.as_bytes());
        let label = message(whim, vec![name, value]);
        fields.push(len_field(whim, 1, &label));
    }
    for one in &series.samples {
        let one = sample(whim, one.value, one.timestamp);
        fields.push(len_field(whim, 2, &one));
    }
    fields.extend(series.exemplars.iter().map(|_| len_field(whim, 3, b"")));
    fields.extend(series.histograms.iter().map(|_| len_field(whim, 4, b"")));
    message(whim, fields)
}

/// A remote write 2 request.
pub(crate) fn encode_v2(whim: &mut Whim, request: &write_v2::Request) -> Vec<u8> {
    let mut fields = Fields::new();
    fields.extend(request.symbols.iter().map(|symbol| len_field(whim, 4, symbol.as_bytes())));
    for series in &request.timeseries {
        let series = series_v2(whim, series);
        fields.push(len_field(whim, 5, &series));
    }
    message(whim, fields)
}

fn series_v2(whim: &mut Whim, series: &write_v2::TimeSeries) -> Vec<u8> {
    let mut fields = Fields::new();
    if whim.draw(8) == 1 {
        fields.extend(series.labels_refs.iter().map(|&r| varint_field(whim, 1, r.into())));
    } else {
        let packed: Vec<u8> = series.labels_refs.iter().flat_map(|&r| varint(whim, r.into())).collect();
        fields.push(len_field(whim, 1, &packed));
    }
    for one in &series.samples {
        let mut bytes = sample(whim, one.value, one.timestamp);
        if one.start_timestamp != 0 || whim.draw(4) == 1 {
            // Of several the last counts.
            if whim.draw(8) == 1 {
                bytes.extend(varint_field(whim, 3, 12_345));
            }
            bytes.extend(varint_field(whim, 3, one.start_timestamp as u64));
        }
        fields.push(len_field(whim, 2, &bytes));
    }
    fields.extend(series.histograms.iter().map(|_| len_field(whim, 3, b"")));
    fields.extend(series.exemplars.iter().map(|_| len_field(whim, 4, b"")));
    fields.extend(series.metadata.iter().map(|_| len_field(whim, 5, b"")));
    if whim.draw(4) == 1 {
        fields.push(varint_field(whim, 6, 99));
    }
    message(whim, fields)
}
