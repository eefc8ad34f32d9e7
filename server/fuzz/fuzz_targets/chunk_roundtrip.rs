//! Any samples: written to as many chunks as they need, and read back the same.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use silverback_model::Sample;
use silverback_model::gorilla::{OpenXor, SealedChunk};
use silverback_model::limits::{CHUNK_BYTES_MAX, CHUNK_SAMPLES};

/// How a sample follows from the one before.
#[derive(Debug, Arbitrary)]
struct Next {
    time: Time,
    value: Value,
}

#[derive(Debug, Arbitrary)]
enum Time {
    SameDelta,
    DeltaOfDelta(i32),
    Delta(u32),
}

#[derive(Debug, Arbitrary)]
enum Value {
    Same,
    Bits(u64),
    Changed { mask: u8, shift: u8 },
    Added(i16),
}

fuzz_target!(|input: (i64, u64, Vec<Next>)| {
    let samples = samples(input);
    let mut sealed = Vec::new();
    let mut words = Vec::new();
    let mut open = OpenXor::start(samples[0], &mut words);
    for &sample in &samples[1..] {
        if open.is_full_for(sample.timestamp_ms) {
            sealed.push(open.seal(words.drain(..)));
            open = OpenXor::start(sample, &mut words);
        } else {
            open.append(sample, &mut words);
        }
    }
    sealed.push(open.seal(words.drain(..)));

    let read: Result<Vec<_>, _> = sealed.iter().flat_map(SealedChunk::samples).collect();
    assert_eq!(read, Ok(samples));
    assert!(sealed.iter().all(|chunk| chunk.count() <= CHUNK_SAMPLES));
    assert!(sealed.iter().all(|chunk| chunk.bytes().len() <= CHUNK_BYTES_MAX));
});

fn samples((start_ms, first_bits, steps): (i64, u64, Vec<Next>)) -> Vec<Sample> {
    let mut samples = vec![Sample::new(start_ms, f64::from_bits(first_bits))];
    let mut delta_ms = 1_i64;
    for next in steps {
        let last = samples[samples.len() - 1];
        delta_ms = match next.time {
            Time::SameDelta => delta_ms,
            Time::DeltaOfDelta(dod_ms) => delta_ms + i64::from(dod_ms),
            Time::Delta(delta_ms) => i64::from(delta_ms),
        }
        .max(1);
        let Some(timestamp_ms) = last.timestamp_ms.checked_add(delta_ms) else { break };
        let value = match next.value {
            Value::Same => last.value,
            Value::Bits(bits) => f64::from_bits(bits),
            Value::Changed { mask, shift } => {
                f64::from_bits(last.value.to_bits() ^ u64::from(mask) << (shift % 64))
            }
            Value::Added(added) => last.value + f64::from(added),
        };
        samples.push(Sample::new(timestamp_ms, value));
    }
    samples
}
