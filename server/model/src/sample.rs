//! One sample: a timestamp in milliseconds and a value.

/// The bit pattern of Prometheus' staleness marker. A NaN like others to arithmetic: compare bits.
pub const STALE_NAN_BITS: u64 = 0x7ff0_0000_0000_0002;

/// A timestamp (ms since the Unix epoch) and a value.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// Any bits, NaN payloads included.
    pub value: f64,
}

impl Sample {
    /// A sample from its two parts.
    pub const fn new(timestamp_ms: i64, value: f64) -> Self {
        Self { timestamp_ms, value }
    }

    /// Whether this is a staleness marker, bit for bit.
    pub fn is_stale(self) -> bool {
        self.value.to_bits() == STALE_NAN_BITS
    }
}

/// Equal in time and in every bit of the value, so that NaN payloads compare too.
impl PartialEq for Sample {
    fn eq(&self, other: &Self) -> bool {
        self.timestamp_ms == other.timestamp_ms && self.value.to_bits() == other.value.to_bits()
    }
}

impl Eq for Sample {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_payloads_are_compared_bit_for_bit() {
        let stale = Sample::new(1, f64::from_bits(STALE_NAN_BITS));
        assert!(stale.is_stale());
        assert_eq!(stale, stale);
        assert_ne!(stale, Sample::new(1, f64::NAN));
        assert!(!Sample::new(1, f64::NAN).is_stale());
    }
}
