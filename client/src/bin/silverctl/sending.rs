//! The way from series and samples to a node, and what became of them.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use silverback_client::histogram::Histogram;
use silverback_client::{
    Client, Durability, Flushed, RefusalReason, RequestError, RetryPolicy, SeriesHandle, Writer, WriterHook,
    WriterOptions,
};

use crate::error::Done;
use crate::figures::{counted, grouped};
use crate::label_set::LabelSet;
use crate::progress::{ProgressLine, Voice};

/// Series that one stream defines. Beyond it a new stream is begun, so that neither side remembers
/// every series that ever came by.
const SERIES_MAX: usize = 500_000;
/// Series that are named for one reason, and characters of each.
const NAMED_MAX: usize = 3;
const NAME_CHARACTERS_MAX: usize = 512;

/// A stream of samples to a node, and the line that shows how far it is.
#[derive(Debug)]
pub(crate) struct Sending {
    client: Client,
    progress: ProgressLine,
    options: WriterOptions,
    writer: Writer,
    series: HashMap<LabelSet, SeriesHandle>,
    /// Samples that were given to a writer, and those of them that the node has answered for, in their order.
    samples: u64,
    watch: Arc<Watch>,
    report: SendReport,
}

impl Sending {
    /// Begins one.
    pub(crate) fn begin(client: Client, retry: RetryPolicy, progress: ProgressLine) -> Self {
        let watch = Arc::new(Watch {
            voice: progress.voice(),
            is_out: AtomicBool::new(false),
            samples_answered: AtomicU64::new(0),
        });
        let hook: Arc<dyn WriterHook> = Arc::clone(&watch) as _;
        let options = WriterOptions { retry, series_max: SERIES_MAX, hook: Some(hook), ..Default::default() };
        let writer = client.writer_with(options.clone());
        let (series, report) = (HashMap::new(), SendReport::default());
        Self { client, progress, options, writer, series, samples: 0, watch, report }
    }

    /// Samples that were sent, or wait for it.
    pub(crate) const fn samples(&self) -> u64 {
        self.samples
    }

    /// How many of them, from the first on, the node has stored or refused. The others are in flight, many batches
    /// at a time.
    pub(crate) fn samples_answered(&self) -> u64 {
        self.watch.samples_answered.load(Ordering::Relaxed)
    }

    /// The line that shows how far it is.
    pub(crate) const fn progress(&self) -> &ProgressLine {
        &self.progress
    }

    /// Sends samples of one series. Waits while too many are in flight.
    pub(crate) async fn send(
        &mut self,
        labels: &LabelSet,
        samples: impl IntoIterator<Item = (i64, f64)>,
    ) -> Done {
        let handle = self.handle(labels).await?;
        for (timestamp_ms, value) in samples {
            self.writer.write(&handle, timestamp_ms, value).await?;
            self.samples += 1;
        }
        Ok(())
    }

    /// The same of native histograms.
    pub(crate) async fn send_histograms(
        &mut self,
        labels: &LabelSet,
        histograms: &[(i64, Histogram)],
    ) -> Done {
        let handle = self.handle(labels).await?;
        for (timestamp_ms, histogram) in histograms {
            self.writer.write_histogram(&handle, *timestamp_ms, histogram).await?;
            self.samples += 1;
        }
        Ok(())
    }

    async fn handle(&mut self, labels: &LabelSet) -> Done<SeriesHandle> {
        match self.series.get(labels) {
            Some(handle) => Ok(handle.clone()),
            None => self.define(labels).await,
        }
    }

    async fn define(&mut self, labels: &LabelSet) -> Done<SeriesHandle> {
        if self.series.len() == SERIES_MAX {
            self.begin_anew().await?;
        }
        let handle = self.writer.series_of(labels.as_slice().to_vec())?;
        self.series.insert(labels.clone(), handle.clone());
        Ok(handle)
    }

    async fn begin_anew(&mut self) -> Done {
        let writer = self.client.writer_with(self.options.clone());
        let full = std::mem::replace(&mut self.writer, writer);
        self.series.clear();
        self.report.add(full.close().await?);
        Ok(())
    }

    /// Waits until all that was sent is acknowledged or refused.
    pub(crate) async fn flush(&mut self) -> Done {
        let flushed = self.writer.flush().await?;
        self.report.add(flushed);
        Ok(())
    }

    /// What became of all that was flushed.
    pub(crate) const fn report(&self) -> &SendReport {
        &self.report
    }

    /// Ends the stream: flushes what is in flight.
    pub(crate) async fn close(mut self) -> Done<SendReport> {
        self.report.add(self.writer.close().await?);
        Ok(self.report)
    }
}

/// Says when a node goes away, once, and when it is back; counts what it has answered for.
#[derive(Debug)]
struct Watch {
    voice: Voice,
    is_out: AtomicBool,
    samples_answered: AtomicU64,
}

impl WriterHook for Watch {
    fn batch_acknowledged(&self, samples: usize, _latency: Duration) {
        self.samples_answered.fetch_add(samples as u64, Ordering::Relaxed);
    }

    fn disconnected(&self, error: &RequestError, _backoff: Duration) {
        if !self.is_out.swap(true, Ordering::Relaxed) {
            self.voice.tell(&format!("{error}; trying again"));
        }
    }

    fn reconnected(&self) {
        self.is_out.store(false, Ordering::Relaxed);
        self.voice.tell("connected again");
    }
}

/// What became of samples that were sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SendReport {
    /// Stored, those that had been stored before among them.
    pub samples_written: u64,
    /// What an acknowledgement meant.
    pub durability: Durability,
    refused: BTreeMap<RefusalReason, RefusedForReason>,
}

/// What was refused for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RefusedForReason {
    samples: u64,
    named: Vec<LabelSet>,
    has_more_series: bool,
}

impl SendReport {
    fn add(&mut self, flushed: Flushed) {
        self.samples_written += flushed.samples_written;
        if flushed.durability != Durability::Unknown {
            self.durability = flushed.durability;
        }
        for refusal in flushed.refusals {
            let refused = self.refused.entry(refusal.reason).or_default();
            refused.samples += refusal.samples;
            let labels = LabelSet::trusted(refusal.labels);
            match refused.named.contains(&labels) {
                true => {}
                false if refused.named.len() == NAMED_MAX => refused.has_more_series = true,
                false => refused.named.push(labels),
            }
        }
    }

    /// Samples that were not stored.
    pub(crate) fn samples_refused(&self) -> u64 {
        self.refused.values().map(|refused| refused.samples).sum()
    }

    /// Whether anything was not stored, a series without samples too.
    pub(crate) fn has_refusals(&self) -> bool {
        !self.refused.is_empty()
    }

    /// The reason for which the most were refused.
    pub(crate) fn main_reason(&self) -> Option<RefusalReason> {
        let most = self.refused.iter().max_by_key(|(_, refused)| refused.samples);
        most.map(|(reason, _)| *reason)
    }
}

/// Lines of words, for a person.
impl fmt::Display for SendReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = match self.durability {
            Durability::Disk => ", on disk and synced",
            Durability::Memory => ", in memory and soon on disk",
            Durability::Unknown => "",
        };
        let kept = if self.samples_written == 0 { "" } else { kept };
        write!(f, "{} written{kept}", counted(self.samples_written, "sample", "samples"))?;
        if !self.has_refusals() {
            return Ok(());
        }
        write!(f, "\n{} refused:", grouped(self.samples_refused()))?;
        for (reason, refused) in &self.refused {
            let named: Vec<_> = refused.named.iter().map(shortened).collect();
            let more = if refused.has_more_series { ", …" } else { "" };
            let samples = grouped(refused.samples);
            write!(f, "\n  {:<20} {samples:>12}  {}{more}", reason.as_str(), named.join(", "))?;
        }
        Ok(())
    }
}

/// As much of a series as is enough to find it by.
fn shortened(labels: &LabelSet) -> String {
    let text = labels.to_string();
    match text.char_indices().nth(NAME_CHARACTERS_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use silverback_client::SeriesRejected;

    use super::*;

    fn refusal(name: &str, reason: RefusalReason, samples: u64) -> SeriesRejected {
        SeriesRejected { labels: vec![("__name__".to_owned(), name.to_owned())], reason, samples }
    }

    fn check(refusals: Vec<SeriesRejected>, expect: &str) {
        let mut report = SendReport::default();
        report.add(Flushed { samples_written: 1200, refusals, durability: Durability::Disk });
        assert_eq!(report.to_string(), expect);
    }

    #[test]
    fn what_was_refused_is_told_by_reason_with_the_first_series() {
        check(vec![], "1,200 samples written, on disk and synced");
        let refusals = vec![
            refusal("a", RefusalReason::TooOld, 1000),
            refusal("a", RefusalReason::TooOld, 1000),
            refusal("b", RefusalReason::TooOld, 1),
            refusal("b", RefusalReason::OutOfOrder, 1),
            refusal("c", RefusalReason::TooOld, 1),
            refusal("d", RefusalReason::TooOld, 1),
        ];
        let expect = "1,200 samples written, on disk and synced\n\
                      2,004 refused:\n  \
                        out_of_order                    1  b\n  \
                        too_old                     2,003  a, b, c, …";
        check(refusals, expect);
    }
}
