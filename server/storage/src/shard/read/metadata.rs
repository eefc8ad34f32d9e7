//! What is said of metrics, copied out in slices.

use crate::message::{MetadataWanted, OwnedMetadata, ReadError};
use crate::shard::Host;
use crate::shard::read::job::Job;
use silverback_model::Metadata;

/// What is wanted of what is said, names ascending.
pub(super) async fn read<H: Host>(
    job: &Job<H>,
    wanted: &MetadataWanted,
) -> Result<Vec<OwnedMetadata>, ReadError> {
    let mut taking = Taking { wanted, taken: Vec::new(), metrics: 0, of_metric: 0, bytes: 0 };
    if let Some(name) = &wanted.name {
        job.shard.borrow().metadata.visit_one(name, |said| taking.take(&said));
        return Ok(taking.taken);
    }
    let (mut reserved, mut passed) = (job.memory.nothing(), None::<Box<str>>);
    loop {
        passed = job.shard.borrow().metadata.visit(passed.as_deref(), |said, _| taking.take(&said));
        if passed.is_none() || taking.metrics > wanted.metrics_max {
            return Ok(taking.taken);
        }
        job.pay(&mut reserved, taking.bytes).await?;
        job.yield_if_needed().await?;
    }
}

struct Taking<'a> {
    wanted: &'a MetadataWanted,
    taken: Vec<OwnedMetadata>,
    /// Those that were seen: more than are taken, where there are more.
    metrics: usize,
    of_metric: usize,
    bytes: usize,
}

impl Taking<'_> {
    fn take(&mut self, said: &Metadata<'_>) {
        let is_another = self.metrics == 0 || self.taken.last().is_none_or(|last| &*last.name != said.name);
        if is_another {
            self.metrics += 1;
            self.of_metric = 0;
        }
        if self.metrics > self.wanted.metrics_max || self.of_metric == self.wanted.per_metric_max {
            return;
        }
        self.of_metric += 1;
        let Metadata { name, kind, help, unit } = *said;
        self.bytes += size_of::<OwnedMetadata>() + name.len() + help.len() + unit.len();
        self.taken.push(OwnedMetadata { name: name.into(), kind, help: help.into(), unit: unit.into() });
    }
}
