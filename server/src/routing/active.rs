//! What one core asks another about its queries: which are active, and that one of them be cancelled. How queries are
//! evaluated is not known here.

use std::fmt;

use serde::Serialize;

use crate::routing::lane_message::{CoreCall, CoreReply};

/// Names a query while it is active: the core that was asked, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryId {
    /// The core that evaluates it.
    pub core: u16,
    /// Counted from the node's start.
    pub number: u64,
}

impl QueryId {
    /// Reads what was displayed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (core, number) = text.split_once('-')?;
        let id = Self { core: core.parse().ok()?, number: number.parse().ok()? };
        // No other text is its name, such as one with a sign.
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for QueryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.core, self.number)
    }
}

impl Serialize for QueryId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// How far a query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryState {
    /// It waits for its turn.
    Queued,
    /// It is evaluated.
    Running,
}

/// A query as it is listed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActiveQuery {
    /// What it is cancelled by.
    pub id: QueryId,
    /// How far it is.
    pub state: QueryState,
    /// Its expression, or the beginning of a long one.
    pub query: String,
    /// Whether there is more of the expression.
    pub is_cut: bool,
    /// The endpoint: `query` or `query_range`.
    pub kind: &'static str,
    /// The first time that it is evaluated at, in seconds since the Unix epoch.
    pub start: f64,
    /// No step is after it.
    pub end: f64,
    /// Between two steps, in seconds; 0 where there is one time alone.
    pub step: f64,
    /// When it was asked, by the node's clock.
    pub began: String,
    /// For how long it has been active, in seconds.
    pub active_seconds: f64,
    /// How long it may be so.
    pub timeout_seconds: f64,
    /// Samples that were read for it so far.
    pub samples_read: u64,
    /// What it holds of the memory for reads now, in bytes.
    pub memory_bytes: u64,
    /// Who asks; empty where nobody knows.
    pub peer: String,
    /// The name of the user or token; empty where nobody is asked for one.
    pub user: String,
    /// The read's number on all cores, once it has its turn.
    #[serde(skip)]
    pub read: Option<u64>,
}

#[cfg(test)]
impl ActiveQuery {
    /// One for tests.
    pub(crate) fn example() -> Self {
        Self {
            id: QueryId { core: 0, number: 1 },
            state: QueryState::Running,
            query: "up".to_owned(),
            is_cut: false,
            kind: "query",
            start: 0.0,
            end: 0.0,
            step: 0.0,
            began: String::new(),
            active_seconds: 1.0,
            timeout_seconds: 1.0,
            samples_read: 10,
            memory_bytes: 100,
            peer: String::new(),
            user: String::new(),
            read: None,
        }
    }
}

/// What a core does of a read: all of it, or a part for another core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartProgress {
    /// The read's number on all cores.
    pub read: u64,
    /// Samples that were read so far.
    pub samples_read: u64,
    /// Memory that is held now, in bytes.
    pub memory_bytes: u64,
}

/// A core's queries.
#[derive(Debug, Default)]
pub struct CoreQueries {
    /// Those that run first, and of these the oldest.
    pub queries: Vec<ActiveQuery>,
    /// How many more there are.
    pub omitted: usize,
    /// What is done here of queries, also of others'.
    pub parts: Vec<PartProgress>,
}

/// A question to a core about its queries.
#[derive(Debug, Clone, Copy)]
pub enum QueriesCall {
    /// Which are active.
    List {
        /// So many at most.
        max: usize,
        /// Of each expression no more than so many bytes.
        text_bytes: usize,
    },
    /// Cancel the one of this number.
    Cancel(u64),
}

/// How it is answered.
#[derive(Debug)]
pub enum QueriesReply {
    /// They are these.
    Listed(CoreQueries),
    /// It was this one; `None`: there is none of that number.
    Cancelled(Option<ActiveQuery>),
}

impl CoreCall for QueriesCall {
    type Reply = QueriesReply;

    fn reply_of(reply: CoreReply) -> Option<QueriesReply> {
        if let CoreReply::Queries(reply) = reply { Some(*reply) } else { None }
    }
}

impl QueriesCall {
    /// The answer of a core that has no queries.
    pub(crate) fn of_none(self) -> QueriesReply {
        match self {
            Self::List { .. } => QueriesReply::Listed(CoreQueries::default()),
            Self::Cancel(_) => QueriesReply::Cancelled(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_displayed_and_no_other_text_is_one() {
        let id = QueryId { core: 3, number: 41 };
        assert_eq!(QueryId::parse(&id.to_string()), Some(id));
        for text in
            ["", "-", "3", "3-", "-41", "3-41-1", "+3-41", "03-41", "3-+41", " 3-41", "70000-1", "3-x"]
        {
            assert_eq!(QueryId::parse(text), None, "{text:?}");
        }
    }
}
