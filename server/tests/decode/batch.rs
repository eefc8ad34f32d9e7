//! gRPC's batches against prost: what prost reads, we read alike or refuse for a reason of ours; what it can't read, we
//! don't. The fuzz target uses it, too.

use prost::Message;
use silverback::api::grpc::ingest::{BatchError, Columns};
use silverback::api::ingest::remote_write::wire::WireReader;
use silverback_proto::v1;

const SAMPLES_MAX: usize = 1000;

/// A float: its ref, its time, its value's bits.
type Bits = (u32, i64, u64);
/// What a batch has: floats, and native histograms by their refs.
type Rows = (Vec<Bits>, Vec<(u32, Vec<u8>)>);

/// Panics where the two disagree. Returns whether the batch is taken.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let expected = v1::Batch::decode(bytes);
    let (mut floats, mut histograms) = Rows::default();
    let outcome = Columns::read(WireReader::new(bytes, 0)).and_then(|columns| {
        columns.for_each(SAMPLES_MAX, |stream_ref, sample| {
            floats.push((stream_ref, sample.timestamp_ms, sample.value.to_bits()));
            Ok(())
        })?;
        columns.for_each_histogram(|stream_ref, place| {
            histograms.push((stream_ref, columns.histogram_bytes()[place].to_vec()));
            Ok(())
        })
    });
    let is_taken = outcome.is_ok();
    match (outcome, expected) {
        (Ok(()), Ok(batch)) => assert_eq!(Some((floats, histograms)), rows_of(&batch)),
        (Ok(()), Err(error)) => panic!("prost refuses it: {error}"),
        (Err(BatchError::UndefinedRef { .. }), _) => panic!("refs are not looked at here"),
        (Err(BatchError::Malformed(_)), _) => {}
        (Err(fault), Ok(batch)) => assert_eq!(rows_of(&batch), None, "{fault}"),
        // A column that ends within a number is of no length that could be told.
        (Err(_), Err(_)) => {}
    }
    is_taken
}

/// `None`: it isn't a batch by our rules.
fn rows_of(batch: &v1::Batch) -> Option<Rows> {
    let (samples, histograms) = (batch.values.len(), batch.histograms.len());
    let timed = [0, samples].contains(&batch.timestamp_deltas_ms.len());
    let is_bounded = (1..=SAMPLES_MAX).contains(&(samples + histograms));
    let has_refs = batch.ref_deltas.len() == samples && batch.histogram_ref_deltas.len() == histograms;
    if !is_bounded || !has_refs || !timed {
        return None;
    }
    let mut histogram_ref = 0i64;
    let of_histograms = batch.histogram_ref_deltas.iter().zip(&batch.histograms).map(|(delta, message)| {
        histogram_ref += i64::from(*delta);
        Some((u32::try_from(histogram_ref).ok()?, message.to_vec()))
    });
    let of_histograms = of_histograms.collect::<Option<Vec<_>>>()?;
    let (mut stream_ref, mut timestamp_ms) = (0i64, batch.base_timestamp_ms);
    let mut deltas = batch.timestamp_deltas_ms.iter();
    let mut sample = |(delta, value): (&i32, &f64)| {
        stream_ref += i64::from(*delta);
        timestamp_ms = timestamp_ms.wrapping_add(deltas.next().copied().unwrap_or(0));
        Some((u32::try_from(stream_ref).ok()?, timestamp_ms, value.to_bits()))
    };
    let floats = batch.ref_deltas.iter().zip(&batch.values).map(&mut sample).collect::<Option<Vec<_>>>()?;
    Some((floats, of_histograms))
}
