//! Writes protobuf by hand, for what prost can't be made to write. It knows the fields of remote write, no requests.

/// A varint, as short as can be.
pub fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A length-delimited field.
pub fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// A varint field.
pub fn number(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

/// A sample, in both versions.
pub fn sample(timestamp_ms: i64, value: f64) -> Vec<u8> {
    let value = [vec![0x09], value.to_le_bytes().to_vec()].concat();
    field(2, &[value, number(2, timestamp_ms as u64)].concat())
}

/// A label of remote write 1.
pub fn label(name: &[u8], value: &[u8]) -> Vec<u8> {
    field(1, &[field(1, name), field(2, value)].concat())
}

/// A remote write 1 series, of fields.
pub fn series_v1(fields: &[Vec<u8>]) -> Vec<u8> {
    field(1, &fields.concat())
}

/// A remote write 2 series, of fields.
pub fn series_v2(fields: &[Vec<u8>]) -> Vec<u8> {
    field(5, &fields.concat())
}

/// The symbol table of remote write 2.
pub fn symbols(symbols: &[&[u8]]) -> Vec<u8> {
    symbols.iter().flat_map(|symbol| field(4, symbol)).collect()
}

/// Packed references.
pub fn refs(refs: &[u64]) -> Vec<u8> {
    field(1, &refs.iter().flat_map(|&r| varint(r)).collect::<Vec<_>>())
}
