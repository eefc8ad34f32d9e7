//! Where an evaluation has the series of a plan's selectors from: one after the other, so that none is held that has
//! been folded. Whether they are in memory, or asked of others meanwhile, is not known here.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;

use crate::budget::{Pace, Pacing};
use crate::data::Fetched;
use crate::error::QueryError;
use crate::share::{PartialRows, Share};
use crate::sort::sorted_places;

/// The next series of a select, or that there is none.
pub type NextSeries<'a> = Pin<Box<dyn Future<Output = Result<Option<Fetched>, QueryError>> + 'a>>;

/// The rows of one of a plan's shares, of all who have series of it; `None`: nobody folds apart.
pub type Folded<'a> = Pin<Box<dyn Future<Output = Result<Option<Vec<PartialRows>>, QueryError>> + 'a>>;

/// Gives the series of each of a plan's selects.
pub trait Source {
    /// The next series of [`Plan::selects`](crate::Plan::selects)`[select]`, labels ascending; `None` after the last,
    /// and from the first again when it is asked then.
    ///
    /// What a series takes is the source's to count until the next one is asked for. What an evaluation keeps of it
    /// longer, it counts itself.
    fn next(&self, select: usize) -> NextSeries<'_>;

    /// Has an aggregation folded apart, each series in one of the parts: by [`Plan::fold`](crate::Plan::fold), where the
    /// series lie.
    fn folded(&self, _share: Share) -> Folded<'_> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// Series that are all in memory, in any order.
pub(crate) struct ListedSeries<'a> {
    fetched: &'a [Vec<Fetched>],
    pacing: Pacing<'a>,
    /// By select: the reading of it.
    read: RefCell<Vec<Option<Reading>>>,
}

struct Reading {
    /// By labels.
    places: Vec<u32>,
    /// How many of them were given.
    given: usize,
}

impl<'a> ListedSeries<'a> {
    pub(crate) fn new(fetched: &'a [Vec<Fetched>], pace: &'a dyn Pace) -> Self {
        let read = RefCell::new(fetched.iter().map(|_| None).collect());
        Self { fetched, pacing: Pacing::new(pace), read }
    }

    async fn advance(&self, select: usize) -> Result<Option<Fetched>, QueryError> {
        let series = &self.fetched[select];
        let begun = self.read.borrow_mut()[select].take();
        let Reading { places, given } = match begun {
            Some(reading) => reading,
            None => {
                let by_labels = |left: &Fetched, right: &Fetched| left.labels.cmp(&right.labels);
                Reading { places: sorted_places(series, by_labels, &self.pacing).await?, given: 0 }
            }
        };
        let Some(at) = places.get(given) else { return Ok(None) };
        let next = series[*at as usize].clone();
        self.read.borrow_mut()[select] = Some(Reading { places, given: given + 1 });
        Ok(Some(next))
    }
}

impl Source for ListedSeries<'_> {
    fn next(&self, select: usize) -> NextSeries<'_> {
        Box::pin(self.advance(select))
    }
}
