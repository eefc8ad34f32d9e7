//! The series that a writer has named: one index for each label set.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::columns::SeriesIndex;
use super::error::SeriesError;
use crate::labels::{self, Labels};

/// A series' labels, shared by all that speak of it.
pub(crate) type SharedLabels = Arc<[(String, String)]>;

/// Every series of one writer.
#[derive(Debug)]
pub(crate) struct Registry {
    named: Mutex<Named>,
    series_max: usize,
}

#[derive(Debug, Default)]
struct Named {
    indices: HashMap<SharedLabels, SeriesIndex>,
    labels: Vec<SharedLabels>,
}

impl Registry {
    pub(super) fn new(series_max: usize) -> Self {
        // An index has 32 bits, and the last of them stands for none.
        Self { named: Mutex::default(), series_max: series_max.min(u32::MAX as usize) }
    }

    /// The series of these labels, the same one each time.
    pub(super) fn series(&self, labels: Labels) -> Result<(SeriesIndex, SharedLabels), SeriesError> {
        let labels = labels::canonical(labels)?;
        let mut named = self.lock();
        if let Some((labels, index)) = named.indices.get_key_value(labels.as_slice()) {
            return Ok((*index, Arc::clone(labels)));
        }
        if named.labels.len() >= self.series_max {
            return Err(SeriesError::TooMany(self.series_max));
        }
        let (index, labels) = (SeriesIndex(named.labels.len() as u32), SharedLabels::from(labels));
        named.labels.push(Arc::clone(&labels));
        named.indices.insert(Arc::clone(&labels), index);
        Ok((index, labels))
    }

    /// The labels of a series that this registry gave out.
    pub(super) fn labels(&self, series: SeriesIndex) -> SharedLabels {
        Arc::clone(&self.lock().labels[series.0 as usize])
    }

    fn lock(&self) -> MutexGuard<'_, Named> {
        // Whole after each of its changes: a panic in between can only be for want of memory.
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(room: &str) -> Labels {
        vec![("room".to_owned(), room.to_owned()), ("__name__".to_owned(), "t".to_owned())]
    }

    #[test]
    fn a_label_set_is_one_series_in_whatever_order() {
        let registry = Registry::new(10);
        let (first, shared) = registry.series(labels("a")).unwrap();
        let (again, _) = registry.series(labels("a").into_iter().rev().collect()).unwrap();
        let (other, _) = registry.series(labels("b")).unwrap();
        assert_eq!((first, again, other), (SeriesIndex(0), SeriesIndex(0), SeriesIndex(1)));
        assert_eq!(registry.labels(first), shared);
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let registry = Registry::new(1);
        registry.series(labels("a")).unwrap();
        registry.series(labels("a")).unwrap();
        assert_eq!(registry.series(labels("b")), Err(SeriesError::TooMany(1)));
    }
}
