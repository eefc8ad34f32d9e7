//! The way of a write request on whichever worker has it: decompress, decode, split, append, commit.

use std::cell::RefCell;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use silverback::api::ingest::remote_write::answer::WriteReport;
use silverback::api::ingest::remote_write::{
    DecodeProgress, Decoder, Decoding, MalformedError, RequestTally, Version, WriteRejected, snappy,
};
use silverback_model::clock::Clock;
use silverback_model::limits::{FUTURE_MS_MAX, IN_FLIGHT_BYTES_MAX};
use silverback_runtime::slices::SLICE;
use silverback_storage::message::RejectedSamples;
use silverback_storage::shard::append::{PartOutcome, TimeBounds};

use super::Contender;
use super::scratch::{Scratch, Split};

thread_local!(static DECODER: RefCell<Decoder> = RefCell::default());

impl Contender {
    /// Writes one request.
    pub(super) async fn write(
        &self,
        version: Version,
        compressed: &[u8],
    ) -> Result<WriteReport, WriteRejected> {
        self.log.is_open()?;
        let decoded_bytes = snappy::claimed_bytes(compressed, self.config.max_decoded_bytes)?;
        let _reserved = Reservation::take(&self.in_flight_bytes, decoded_bytes)?;
        let mut scratch = Scratch::take(self.stripes.count());
        let appended = self.write_scratch(version, compressed, &mut scratch).await;
        scratch.give_back();
        let report = appended?;
        self.log.committed().await?;
        Ok(report)
    }

    async fn write_scratch(
        &self,
        version: Version,
        compressed: &[u8],
        scratch: &mut Scratch,
    ) -> Result<WriteReport, WriteRejected> {
        snappy::decompress(compressed, self.config.max_decoded_bytes, &mut scratch.body.bytes)?;
        let tally = self.decode(version, scratch).await?;
        self.count_refused(&tally);
        let mut report = WriteReport::from(tally);
        let Scratch { body, parts } = scratch;
        self.stripes.append(body, parts, self.bounds(), |outcome| add(&mut report, outcome));
        Ok(report)
    }

    /// Decodes the whole request before any of it is stored.
    async fn decode(&self, version: Version, scratch: &mut Scratch) -> Result<RequestTally, MalformedError> {
        let Scratch { body, parts } = scratch;
        let mut split = Split::new(&self.stripes, parts);
        let mut decoding = Decoding::start(version);
        loop {
            // After a yield the request may be on another worker, and goes on with that one's decoder.
            let began = Instant::now();
            let slice = DECODER.with_borrow_mut(|decoder| {
                decoder
                    .decode_while(body, &mut decoding, &self.hasher, &mut split, || began.elapsed() < SLICE)
            })?;
            match slice {
                DecodeProgress::Done => return Ok(decoding.tally),
                DecodeProgress::More => tokio::task::yield_now().await,
            }
        }
    }

    fn count_refused(&self, tally: &RequestTally) {
        if tally.refused.total() > 0 {
            let counts = &self.counts.refused;
            // Plain numbers: a panic elsewhere leaves them whole.
            counts.lock().unwrap_or_else(PoisonError::into_inner).merge(&tally.refused);
        }
    }

    pub(super) fn bounds(&self) -> TimeBounds {
        let now_ms = Clock::System.now_ms();
        TimeBounds {
            oldest_ms: now_ms.saturating_sub(self.config.retention.as_millis() as i64),
            newest_ms: now_ms.saturating_add(FUTURE_MS_MAX),
            late_window_ms: self.config.out_of_order_window.as_millis() as i64,
        }
    }
}

/// Adds what became of a part.
pub(super) fn add(report: &mut WriteReport, outcome: PartOutcome) {
    report.written += outcome.written;
    if let Some(refusals) = outcome.refusals {
        let RejectedSamples { counts, examples, by_ref: _streams_alone } = *refusals;
        report.refused.merge(&counts);
        report.examples.merge(examples);
    }
}

/// Bytes of the bound on requests in flight, held until this is dropped.
struct Reservation<'a> {
    in_flight_bytes: &'a AtomicUsize,
    bytes: usize,
}

impl<'a> Reservation<'a> {
    fn take(in_flight_bytes: &'a AtomicUsize, bytes: usize) -> Result<Self, WriteRejected> {
        let before = in_flight_bytes.fetch_add(bytes, Ordering::Relaxed);
        let reserved = Self { in_flight_bytes, bytes };
        // One request always fits, so that none is refused forever.
        if before > 0 && before + bytes > IN_FLIGHT_BYTES_MAX {
            return Err(WriteRejected::Overloaded);
        }
        Ok(reserved)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.in_flight_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_bound_are_refused_but_never_a_lone_one() {
        let in_flight_bytes = AtomicUsize::new(0);
        let lone = Reservation::take(&in_flight_bytes, 2 * IN_FLIGHT_BYTES_MAX).unwrap();
        assert!(Reservation::take(&in_flight_bytes, 1).is_err());
        drop(lone);
        assert_eq!(in_flight_bytes.load(Ordering::Relaxed), 0);
        let _small = Reservation::take(&in_flight_bytes, 60).unwrap();
        assert!(Reservation::take(&in_flight_bytes, IN_FLIGHT_BYTES_MAX).is_err());
        assert!(Reservation::take(&in_flight_bytes, IN_FLIGHT_BYTES_MAX - 60).is_ok());
    }
}
