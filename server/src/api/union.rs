//! The series of several selectors as one ascending sequence, each once.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::api::core::Core;
use crate::api::fanout::{FanoutError, SeriesStream};
use crate::message::{SelectContent, SelectedSeries, Selection};

/// Streams that are merged; dropping this closes their selects.
pub struct SeriesUnion {
    members: Vec<Member>,
}

struct Member {
    stream: SeriesStream,
    front: Option<SelectedSeries>,
}

impl SeriesUnion {
    /// Opens every selection on every shard.
    pub async fn open(
        core: &Rc<Core>,
        selections: Vec<Selection>,
        content: SelectContent,
    ) -> Result<Self, FanoutError> {
        let mut members = Vec::with_capacity(selections.len());
        for selection in selections {
            let mut stream = SeriesStream::open(Rc::clone(core), selection, content).await?;
            let front = stream.next().await?;
            members.push(Member { stream, front });
        }
        Ok(Self { members })
    }

    /// The next series; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<SelectedSeries>, FanoutError> {
        self.members.retain(|member| member.front.is_some());
        let Some(least) = self.members.iter_mut().min_by(|a, b| a.compare(b)) else { return Ok(None) };
        let next = least.front.take();
        for member in &mut self.members {
            let front = member.front.as_ref().map(|series| &series.labels);
            if front.is_none() || front == next.as_ref().map(|series| &series.labels) {
                member.front = member.stream.next().await?;
            }
        }
        Ok(next)
    }
}

impl Member {
    fn compare(&self, other: &Self) -> Ordering {
        self.front.as_ref().map(|s| &s.labels).cmp(&other.front.as_ref().map(|s| &s.labels))
    }
}
