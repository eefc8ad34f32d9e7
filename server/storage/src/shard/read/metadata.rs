//! What is said of metrics, copied out in slices and pages.

use super::OrEnds;
use crate::message::{MetadataPage, MetadataWanted, OwnedMetadata};
use crate::shard::Host;
use crate::shard::read::job::ReadJob;
use silverback_model::Metadata;

/// A page of what is said, names ascending.
pub(super) async fn read<H: Host>(job: &ReadJob<H>, wanted: &MetadataWanted) -> OrEnds<MetadataPage> {
    let mut taking =
        Taking { wanted, page: MetadataPage::default(), of_metric: 0, metrics: 0, bytes: 0, is_done: false };
    if let Some(name) = &wanted.name {
        job.shard.borrow().metadata.visit_one(name, |said| taking.take(&said));
        return Ok(taking.page);
    }
    let (mut reserved, mut passed) = (job.memory.nothing(), wanted.after.clone());
    loop {
        passed = job.shard.borrow().metadata.visit(passed.as_deref(), |said, _| taking.take(&said));
        if passed.is_none() || taking.is_done {
            return Ok(taking.page);
        }
        job.pay(&mut reserved, taking.bytes).await?;
        job.yield_if_needed().await?;
    }
}

struct Taking<'a> {
    wanted: &'a MetadataWanted,
    page: MetadataPage,
    metrics: usize,
    /// Taken of the last metric.
    of_metric: usize,
    bytes: usize,
    /// Whether nothing more is taken.
    is_done: bool,
}

impl Taking<'_> {
    fn take(&mut self, said: &Metadata<'_>) {
        if self.is_done {
            return;
        }
        let last = self.page.said.last().map(|last| &last.name);
        if last.is_none_or(|last| **last != *said.name) {
            if self.metrics == self.wanted.metrics_max {
                self.is_done = true;
                return;
            }
            if self.bytes >= self.wanted.bytes {
                self.page.next = last.cloned();
                self.is_done = true;
                return;
            }
            self.metrics += 1;
            self.of_metric = 0;
        }
        if self.of_metric == self.wanted.per_metric_max {
            return;
        }
        self.of_metric += 1;
        let Metadata { name, kind, help, unit } = *said;
        self.bytes += size_of::<OwnedMetadata>() + name.len() + help.len() + unit.len();
        self.page.said.push(OwnedMetadata { name: name.into(), kind, help: help.into(), unit: unit.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::read::job::tests::job;
    use futures::executor::block_on;
    use silverback_model::MetricType;

    #[test]
    fn pages_have_each_metric_whole_and_once() {
        let job = job();
        let names: Vec<_> = (0..100).map(|number| format!("metric_{number:03}")).collect();
        for name in &names {
            for help in ["first", "second"] {
                let said = Metadata { name, kind: MetricType::Gauge, help, unit: "" };
                job.shard.borrow_mut().metadata.hear(&said, 0).unwrap();
            }
        }
        let mut wanted = MetadataWanted {
            name: None,
            after: None,
            metrics_max: usize::MAX,
            per_metric_max: usize::MAX,
            bytes: 1000,
        };
        let (mut all, mut pages) = (Vec::new(), 0);
        loop {
            let page = block_on(read(&job, &wanted)).unwrap();
            pages += 1;
            let bytes: usize = page.said.iter().map(|said| said.name.len() + said.help.len()).sum();
            assert!(bytes <= 1000 + 100, "{bytes}");
            all.extend(page.said.into_iter().map(|said| (said.name.to_string(), said.help.to_string())));
            match page.next {
                Some(next) => wanted.after = Some(next),
                None => break,
            }
        }
        let expect =
            names.iter().flat_map(|name| ["first", "second"].map(|help| (name.clone(), help.to_owned())));
        assert_eq!(all, expect.collect::<Vec<_>>());
        assert!(pages > 10, "{pages}");
        // As many metrics as are asked for are all: no page follows.
        let first = block_on(read(&job, &MetadataWanted { after: None, metrics_max: 3, ..wanted })).unwrap();
        assert_eq!((first.said.len(), first.next), (6, None));
    }
}
