//! What people see of refused samples: for each job and reason how many, and the first in words.

use silverback_model::RefusedReason;

/// Refused samples of one job, all for the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Why.
    pub reason: RefusedReason,
    /// The value of the series' label `job`; empty where it has none.
    pub job: Box<str>,
    /// How many samples.
    pub samples: u64,
    /// How many series that had none.
    pub series: u64,
    /// The first of them: its series, the reason, and the numbers that it went by.
    pub words: String,
}

/// Some of the refused samples of a request, or of a part of it: the first jobs and reasons that were met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examples(Vec<Example>);

impl Examples {
    /// Jobs and reasons that are kept apart: a request is of one job, or of a few.
    const COUNT_MAX: usize = 8;
    /// How much of a series is shown, in bytes: enough to find it by.
    const SERIES_BYTES_MAX: usize = 512;
    /// A job's length in bytes.
    const JOB_BYTES_MAX: usize = 128;

    /// Adds refused samples; `words` is asked for the series, and for what its reason needs besides, where
    /// they are the first of their job and reason.
    pub fn add(
        &mut self,
        reason: RefusedReason,
        samples: u64,
        job: &str,
        words: impl FnOnce() -> (String, String),
    ) {
        let job = shortened(job, Self::JOB_BYTES_MAX);
        if let Some(known) = self.find(reason, &job) {
            known.samples += samples;
            known.series += u64::from(samples == 0);
        } else if self.0.len() < Self::COUNT_MAX {
            let (series, numbers) = words();
            let series = shortened(&series, Self::SERIES_BYTES_MAX);
            let words = format!("{series} {}{numbers}", reason.text());
            let series = u64::from(samples == 0);
            self.0.push(Example { reason, job: job.into(), samples, series, words });
        }
    }

    /// Adds those of another part.
    pub fn merge(&mut self, other: Self) {
        for example in other.0 {
            if let Some(known) = self.find(example.reason, &example.job) {
                known.samples += example.samples;
                known.series += example.series;
            } else if self.0.len() < Self::COUNT_MAX {
                self.0.push(example);
            }
        }
    }

    /// The first, for the sender.
    pub fn first(&self) -> Option<&Example> {
        self.0.first()
    }

    /// Each.
    pub fn iter(&self) -> impl Iterator<Item = &Example> {
        self.0.iter()
    }

    fn find(&mut self, reason: RefusedReason, job: &str) -> Option<&mut Example> {
        self.0.iter_mut().find(|known| known.reason == reason && *known.job == *job)
    }
}

/// The beginning of a text, of so many bytes at most, and a sign where more follows.
pub fn shortened(text: &str, bytes_max: usize) -> std::borrow::Cow<'_, str> {
    match text.len() > bytes_max {
        true => format!("{}…", &text[..text.floor_char_boundary(bytes_max)]).into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(examples: &mut Examples, reason: RefusedReason, job: &str, series: &str) {
        examples.add(reason, 2, job, || (series.to_owned(), ": 7".to_owned()));
    }

    #[test]
    fn series_without_samples_are_counted_as_such() {
        let mut examples = Examples::default();
        for samples in [0, 3, 0] {
            examples.add(RefusedReason::MissingName, samples, "a", Default::default);
        }
        let mut more = Examples::default();
        more.add(RefusedReason::MissingName, 0, "a", Default::default);
        examples.merge(more);
        let told: Vec<_> = examples.iter().map(|example| (example.samples, example.series)).collect();
        assert_eq!(told, [(3, 3)]);
    }

    #[test]
    fn samples_of_a_job_and_a_reason_are_counted_under_the_first() {
        use RefusedReason::{OutOfOrder, TooOld};
        let mut examples = Examples::default();
        add(&mut examples, OutOfOrder, "a", "{i=\"1\"}");
        add(&mut examples, OutOfOrder, "a", "{i=\"2\"}");
        add(&mut examples, TooOld, "a", "{i=\"3\"}");
        let mut more = Examples::default();
        add(&mut more, OutOfOrder, "b", "{i=\"4\"}");
        add(&mut more, TooOld, "a", "{i=\"5\"}");
        examples.merge(more);
        let told = examples.iter().map(|example| (&*example.job, example.samples, &*example.words));
        let expect = [
            ("a", 4, "{i=\"1\"} out of order sample: 7"),
            ("a", 4, "{i=\"3\"} sample is older than the retention: 7"),
            ("b", 2, "{i=\"4\"} out of order sample: 7"),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn neither_many_jobs_nor_long_ones_take_much() {
        let mut examples = Examples::default();
        for i in 0..1000 {
            add(&mut examples, RefusedReason::TooOld, &format!("{i:0>9000}"), &"é".repeat(9000));
        }
        assert_eq!(examples.iter().count(), 1, "they begin alike");
        for i in 0..1000 {
            add(&mut examples, RefusedReason::TooOld, &i.to_string(), &"é".repeat(9000));
        }
        assert_eq!(examples.iter().count(), Examples::COUNT_MAX);
        assert!(examples.iter().all(|example| example.words.len() < 600 && example.job.len() < 140));
    }
}
