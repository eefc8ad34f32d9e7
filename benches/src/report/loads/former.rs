//! The README's loads, and streams, beside another build of the node.

use super::Side::{Node, NodeFormer};
use super::{Load, Size, others, writes};

/// Some of them beside another build of the node.
pub(super) fn all(size: Size) -> Vec<Load> {
    let of = [writes::all(size), others::all(size)].concat();
    let same = |(name, of_name)| {
        let load = of.iter().find(|load| load.name == of_name).expect("a load of the report");
        Load { name, section: "former", sides: vec![Node, NodeFormer], ..load.clone() }
    };
    let names = [
        ("former-steady-1", "steady-1"),
        ("former-steady-2", "steady-2"),
        ("former-new-series", "new-series"),
        ("former-churn", "churn"),
        ("former-batch-10", "batch-10"),
        ("former-batch-100", "batch-100"),
        ("former-connections-1", "connections-1"),
        ("former-connections-64", "connections-64"),
        ("former-connections-1000", "connections-1000"),
        ("former-sorted", "sorted"),
        ("former-unsorted", "unsorted"),
        ("former-shuffled", "shuffled"),
        ("former-long-labels", "long-labels"),
        ("former-long-value", "long-value"),
        ("former-many-labels", "many-labels"),
        ("former-streams", "streams"),
    ];
    names.map(same).to_vec()
}
