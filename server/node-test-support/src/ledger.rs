//! What a sender sent and what of it was acknowledged, held against what the node gives back.

use std::collections::BTreeMap;

use crate::written::Series;

/// One sample that was sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// Its time.
    pub time_ms: i64,
    /// Its value, bit for bit; of a native histogram what [`crate::written::histogram_bits`] returns.
    pub bits: u64,
    /// Whether it is a native histogram.
    pub is_histogram: bool,
    /// Whether the node has said that it is stored.
    pub is_acknowledged: bool,
}

/// One exemplar that was sent.
#[derive(Debug, Clone, Copy)]
pub struct SentExemplar {
    /// Its time.
    pub time_ms: i64,
    /// Its value, bit for bit.
    pub bits: u64,
    /// Whether the node has said that it is stored.
    pub is_acknowledged: bool,
}

/// What a comparison came to.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Acknowledged samples.
    pub acknowledged: usize,
    /// Native histograms among them.
    pub histograms: usize,
    /// Acknowledged exemplars.
    pub exemplars: usize,
    /// Samples that are there without an acknowledgement, as they may.
    pub unasked: usize,
    /// Acknowledged samples and exemplars that aren't there.
    pub lost: usize,
    /// Samples and exemplars that nobody sent, or not so, and samples that are out of order.
    pub strange: usize,
    /// The first fault, in words.
    pub first: Option<String>,
}

impl Verdict {
    /// Takes another one in.
    pub fn add(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.histograms += other.histograms;
        self.exemplars += other.exemplars;
        self.unasked += other.unasked;
        self.lost += other.lost;
        self.strange += other.strange;
        self.first = self.first.take().or(other.first);
    }

    /// Fails where anything acknowledged is lost, or anything is there that nobody sent.
    pub fn check(&self) {
        assert!(self.lost == 0 && self.strange == 0, "{self:?}");
    }

    /// Holds exemplars, by the ids of their traces, against what was sent.
    pub fn exemplars(&mut self, sent: &BTreeMap<String, SentExemplar>, found: &BTreeMap<String, (i64, u64)>) {
        for (trace, exemplar) in sent.iter().filter(|(_, exemplar)| exemplar.is_acknowledged) {
            self.exemplars += 1;
            if !found.contains_key(trace) {
                self.lost += 1;
                self.first.get_or_insert_with(|| format!("lost the exemplar of trace {trace}: {exemplar:?}"));
            }
        }
        for (trace, found) in found {
            let sent = sent.get(trace).map(|exemplar| (exemplar.time_ms, exemplar.bits));
            if sent != Some(*found) {
                self.strange += 1;
                self.first.get_or_insert_with(|| {
                    format!("nobody sent this exemplar of trace {trace}: {found:?}, but {sent:?}")
                });
            }
        }
    }

    fn fault(&mut self, series: usize, what: &str, sample: (i64, u64)) {
        let words = || format!("series {series}: {what} {} = {:#018x}", sample.0, sample.1);
        self.first.get_or_insert_with(words);
    }

    /// Walks one series: what is there must be a part of what was sent, in the same order.
    fn series(&mut self, number: usize, sent: &[Sent], found: &[(i64, u64)]) {
        let mut found = found.iter().copied().peekable();
        for sample in sent {
            self.acknowledged += usize::from(sample.is_acknowledged);
            self.histograms += usize::from(sample.is_acknowledged && sample.is_histogram);
            let wanted = (sample.time_ms, sample.bits);
            if found.next_if_eq(&wanted).is_some() {
                self.unasked += usize::from(!sample.is_acknowledged);
            } else if sample.is_acknowledged {
                self.lost += 1;
                self.fault(number, "lost", wanted);
            }
        }
        for sample in found {
            self.strange += 1;
            self.fault(number, "nobody sent, or not in this place:", sample);
        }
    }
}

/// Holds series, in any order and each under its number in the label `i`, against what was sent.
pub fn compare(sent: &[Vec<Sent>], found: &[Series]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut by_number: Vec<&[(i64, u64)]> = vec![&[]; sent.len()];
    for (labels, samples) in found {
        let number = labels.iter().find(|(name, _)| name == "i").unwrap().1.parse::<usize>().unwrap();
        let first = samples[0];
        match by_number.get_mut(number) {
            Some(place) if place.is_empty() => *place = samples,
            Some(_) | None => {
                verdict.strange += samples.len();
                verdict.fault(number, "a series that is there twice, or that nobody sent:", first);
            }
        }
    }
    for (number, (sent, found)) in sent.iter().zip(by_number).enumerate() {
        verdict.series(number, sent, found);
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Series 0, of samples with time and whether they were acknowledged, held against times.
    fn check(sent: &[(i64, bool)], found: &[i64], expect: (usize, usize)) {
        let sent = sent.iter().map(|&(time_ms, is_acknowledged)| Sent {
            time_ms,
            bits: 7,
            is_histogram: false,
            is_acknowledged,
        });
        let labels = vec![("i".to_owned(), "0".to_owned())];
        let found = found.iter().map(|time_ms| (*time_ms, 7)).collect();
        let verdict = compare(&[sent.collect()], &[(labels, found)]);
        assert_eq!((verdict.lost, verdict.strange), expect, "{verdict:?}");
    }

    #[test]
    fn a_comparison_finds_what_is_lost_and_what_is_strange() {
        let sent = [(1, true), (2, false), (3, true)];
        check(&sent, &[1, 2, 3], (0, 0));
        check(&sent, &[1, 3], (0, 0));
        check(&sent, &[1, 2], (1, 0));
        check(&sent, &[1, 2, 3, 4], (0, 1));
        check(&sent, &[1, 1, 2, 3], (1, 3));
        check(&sent, &[2, 1, 3], (2, 2));
    }
    #[test]
    fn an_exemplar_that_is_lost_or_isn_t_what_was_sent_is_found() {
        let sent = |is_acknowledged| SentExemplar { time_ms: 1, bits: 7, is_acknowledged };
        let sent = BTreeMap::from([("a".to_owned(), sent(true)), ("b".to_owned(), sent(false))]);
        let check = |found: &[(&str, (i64, u64))], expect: (usize, usize)| {
            let found = found.iter().map(|(trace, found)| ((*trace).to_owned(), *found)).collect();
            let mut verdict = Verdict::default();
            verdict.exemplars(&sent, &found);
            assert_eq!((verdict.lost, verdict.strange), expect, "{verdict:?}");
        };
        check(&[("a", (1, 7))], (0, 0));
        check(&[("a", (1, 7)), ("b", (1, 7))], (0, 0));
        check(&[("b", (1, 7))], (1, 0));
        check(&[("a", (1, 8))], (0, 1));
        check(&[("a", (1, 7)), ("c", (1, 7))], (0, 1));
    }
}
