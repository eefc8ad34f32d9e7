//! What is profiled: loads of the report with the sides that are compared, and two founding comparisons. It runs none.

use crate::report::side::Side;

/// Columns of one table, all of the same work or nearly so.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// As it is asked for.
    pub name: &'static str,
    /// What is run.
    pub work: Work,
}

/// What a case runs.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// Loads of the report, each by one side.
    Loads(&'static [(&'static str, Side)]),
    /// The founding comparison of connections.
    Connections,
    /// The founding comparison of caches.
    Cache,
}

use Side::{Contender, Node, NodeMemory};

/// All cases, in the tables' order.
pub const CASES: [Case; 15] = [
    loads("steady-1", &[("steady-1", Node), ("steady-1", Contender)]),
    loads("steady-2", &[("steady-2", Node), ("steady-2", Contender)]),
    loads("new-series", &[("new-series", Node), ("new-series", Contender)]),
    loads("late", &[("backlog", Node), ("again", Node), ("backlog", Contender)]),
    loads("batch-100", &[("batch-100", Node), ("batch-100", NodeMemory), ("batch-100", Contender)]),
    loads("connections-1000", &[("connections-1000", Node), ("connections-1000", Contender)]),
    loads("long-value", &[("long-value", Node), ("long-value", Contender)]),
    loads("histograms", &[("histograms-1", Node), ("histograms-2", Node)]),
    loads("shards", &[("one-shard", Node), ("two-shards", Node), ("two-shards", Contender)]),
    loads("two-steady-2", &[("two-steady-2", Node), ("two-steady-2", Contender)]),
    loads("two-batch-100", &[("two-batch-100", Node), ("two-batch-100", Contender)]),
    loads("two-connections-1000", &[("two-connections-1000", Node), ("two-connections-1000", Contender)]),
    loads("skewed", &[("skewed", Node), ("skewed", Contender)]),
    Case { name: "founding-connections", work: Work::Connections },
    Case { name: "founding-cache", work: Work::Cache },
];

const fn loads(name: &'static str, columns: &'static [(&'static str, Side)]) -> Case {
    Case { name, work: Work::Loads(columns) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::loads::{self, Size};

    #[test]
    fn each_column_is_a_replayed_load_of_the_report_for_a_side_that_gets_it() {
        let all = loads::all(Size::Full);
        for case in CASES {
            let Work::Loads(columns) = case.work else { continue };
            for (name, side) in columns {
                let load = all.iter().find(|load| load.name == *name).expect(name);
                assert!(load.sides.contains(side), "{name} isn't for {side}");
                assert!(matches!(load.work, loads::Work::Replay(_)), "{name} isn't replayed");
            }
        }
    }

    #[test]
    fn each_case_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = CASES.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len());
    }
}
