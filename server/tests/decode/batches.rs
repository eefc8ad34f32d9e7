//! gRPC's batches, random and damaged ones, beside prost.

use prost::Message;
use silverback_proto::v1;
use silverback_test_support::random::Random;

use crate::batch;

fn random_batch(random: &mut Random) -> v1::Batch {
    let floats = random.below(5) as usize;
    let histograms = random.below(4) as usize;
    let refs = |random: &mut Random, count: usize| (0..count).map(|_| random.below(9) as i32 - 1).collect();
    // Now and then a column is too long or too short.
    let odd = |random: &mut Random, count: usize| count + usize::from(random.once_in(15));
    let timed = if random.once_in(2) { floats } else { 0 };
    let (of_floats, of_histograms) = (odd(random, floats), odd(random, histograms));
    v1::Batch {
        number: random.below(300),
        ref_deltas: refs(random, of_floats),
        base_timestamp_ms: random.next() as i64,
        timestamp_deltas_ms: (0..timed).map(|_| random.next() as i64 >> random.below(64)).collect(),
        values: (0..floats).map(|_| f64::from_bits(random.next())).collect(),
        histogram_ref_deltas: refs(random, of_histograms),
        histograms: (0..histograms).map(|_| vec![7; random.below(200) as usize].into()).collect(),
    }
}

/// The batch's fields in any order, columns cut in two, some unpacked: all that protocol buffers allow.
fn encode(batch: &v1::Batch, random: &mut Random) -> Vec<u8> {
    let mut histograms = batch.clone();
    let floats = v1::Batch { histogram_ref_deltas: vec![], histograms: vec![], ..batch.clone() };
    (histograms.ref_deltas, histograms.timestamp_deltas_ms, histograms.values) = (vec![], vec![], vec![]);
    let [floats, histograms] = [floats, histograms].map(|batch| batch.encode_to_vec());
    match random.below(4) {
        0 => batch.encode_to_vec(),
        1 => [histograms, floats].concat(),
        // One ref more, unpacked, and its histogram apart from the others.
        2 => [&[0x30, 2, 0x3a, 1, 7][..], &floats, &[0x7d, 1, 2, 3, 4], &histograms].concat(),
        _ => [&floats[..], &[0x10, 2, 0x29, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f], &histograms].concat(),
    }
}

#[test]
fn every_random_or_damaged_batch_is_read_as_prost_reads_it_or_refused() {
    let (mut taken, mut with_histograms) = (0, 0);
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let made = random_batch(&mut random);
        let mut bytes = encode(&made, &mut random);
        let is_whole = batch::check(&bytes);
        taken += usize::from(is_whole);
        with_histograms += usize::from(is_whole && !made.histograms.is_empty());
        for _damage in 0..random.below(4) {
            if !bytes.is_empty() {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next() as u8;
            }
        }
        batch::check(&bytes);
        bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
        batch::check(&bytes);
    }
    assert!(taken > 2_000 && with_histograms > 1_000, "{taken} taken, {with_histograms} with histograms");
}
