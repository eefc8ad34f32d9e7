//! What an answer says of its making, in Prometheus' shape: how long each part of it took, and which samples it looked
//! at.

use std::time::Duration;

use serde_json::json;

use super::super::json;
use silverback_promql::{QueryTimes, QueryableSamples};

/// How long a query took: in all, and what of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Timings {
    /// It waited for its turn.
    pub(super) queue: Duration,
    /// It was parsed and planned. Series are fetched as they are evaluated.
    pub(super) preparation: Duration,
    /// It was evaluated, the order of its answer included.
    pub(super) evaluation: Duration,
    /// Its answer was put in order.
    pub(super) sort: Duration,
}

/// A query's statistics, but for the samples, which are its answer's.
#[derive(Debug)]
pub(crate) struct QueryStatistics {
    pub(super) timings: Timings,
    pub(super) times: QueryTimes,
    /// The most samples that were held at a time.
    pub(crate) samples_peak: usize,
}

/// So many steps are written between two looks at the clock.
const STEPS_AT_ONCE: usize = 512;

impl QueryStatistics {
    /// Appends `,"stats":{…}`, of the steps' samples the first part alone: more by [`Self::put_steps`], then
    /// [`Self::put_end`].
    pub(super) fn put_begin(&self, out: &mut Vec<u8>) {
        let Timings { queue, preparation, evaluation, sort } = self.timings;
        // In seconds, under Prometheus' names.
        let seconds = json!({
            "evalTotalTime": (preparation + evaluation).as_secs_f64(),
            "resultSortTime": sort.as_secs_f64(),
            "queryPreparationTime": preparation.as_secs_f64(),
            "innerEvalTime": evaluation.saturating_sub(sort).as_secs_f64(),
            "execQueueTime": queue.as_secs_f64(),
            "execTotalTime": (queue + preparation + evaluation).as_secs_f64(),
        });
        out.extend_from_slice(b",\"stats\":{\"timings\":");
        json::put(out, &seconds);
        out.extend_from_slice(b",\"samples\":{");
    }

    /// Appends some of the steps' samples, those after so many steps. How many were written then; `None`: there are no
    /// more.
    pub(super) fn put_steps(
        &self,
        out: &mut Vec<u8>,
        samples: &QueryableSamples,
        written: usize,
    ) -> Option<usize> {
        let (start_ms, step_ms) = match self.times {
            QueryTimes::Instant { at_ms } => (at_ms, 1),
            QueryTimes::Range { start_ms, step_ms, .. } => (start_ms, step_ms),
        };
        let steps = samples.per_step.iter().enumerate().skip(written);
        let mut count = written;
        for (step, of_step) in steps.take(STEPS_AT_ONCE) {
            let begin: &[u8] = if step == 0 { b"\"totalQueryableSamplesPerStep\":[[" } else { b",[" };
            let at_ms = start_ms.saturating_add(step_ms.saturating_mul(step as i64));
            out.extend_from_slice(begin);
            out.extend_from_slice(format!("{},{of_step}]", at_ms as f64 / 1000.0).as_bytes());
            count += 1;
        }
        if count > written && count == samples.per_step.len() {
            out.extend_from_slice(b"],");
        }
        (count > written).then_some(count)
    }

    /// Appends what is after the steps.
    pub(super) fn put_end(&self, out: &mut Vec<u8>, samples: &QueryableSamples) {
        let (total, peak) = (samples.total, self.samples_peak);
        out.extend_from_slice(
            format!("\"totalQueryableSamples\":{total},\"peakSamples\":{peak}}}}}").as_bytes(),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(per_step: Vec<u64>) -> Value {
        let times = QueryTimes::Range { start_ms: 1500, end_ms: 1_000_000, step_ms: 250 };
        let samples = QueryableSamples { total: 7, per_step };
        let timings = Timings {
            queue: Duration::from_millis(1),
            preparation: Duration::from_millis(2),
            evaluation: Duration::from_millis(8),
            sort: Duration::from_millis(4),
        };
        let stats = QueryStatistics { timings, times, samples_peak: 5 };
        let (mut out, mut steps) = (b"{\"x\":0".to_vec(), 0);
        stats.put_begin(&mut out);
        while let Some(more) = stats.put_steps(&mut out, &samples, steps) {
            steps = more;
        }
        stats.put_end(&mut out, &samples);
        out.push(b'}');
        serde_json::from_slice::<Value>(&out).unwrap()["stats"].take()
    }

    #[test]
    fn times_and_samples_stand_under_prometheus_names() {
        let timings = json!({
            "evalTotalTime": 0.01, "resultSortTime": 0.004, "queryPreparationTime": 0.002, "innerEvalTime": 0.004,
            "execQueueTime": 0.001, "execTotalTime": 0.011,
        });
        let samples = json!({"totalQueryableSamples": 7, "peakSamples": 5});
        assert_eq!(written(Vec::new()), json!({"timings": timings, "samples": samples}));
    }

    #[test]
    fn each_step_s_samples_stand_at_its_time_however_many_steps_there_are() {
        let steps = |count: usize| {
            written((0..count as u64).collect())["samples"]["totalQueryableSamplesPerStep"].take()
        };
        assert_eq!(steps(3), json!([[1.5, 0], [1.75, 1], [2, 2]]));
        for count in [STEPS_AT_ONCE - 1, STEPS_AT_ONCE, STEPS_AT_ONCE + 1, 3 * STEPS_AT_ONCE] {
            let steps = steps(count);
            assert_eq!(steps.as_array().unwrap().len(), count);
            assert_eq!(steps[count - 1][1], count - 1);
        }
    }
}
