//! How options must relate to each other. Each alone was checked when it was set.

use std::time::Duration;

use super::error::ValueError;
use super::value::{show_duration, show_size};
use super::{BlocksMode, Config, ShipOnShutdown};

/// A relation that doesn't hold.
pub(super) struct RelationError {
    /// The options that it relates.
    pub options: [&'static str; 2],
    /// What is wrong.
    pub problem: ValueError,
}

/// A range of two hours, the minutes that nodes' cuts are spread over, and some to cut it.
const CUT_TIME: Duration = Duration::from_secs(150 * 60);
/// The same in words.
const CUT_WORDS: &str = " + 2h30m for a range and its cut";

pub(super) fn broken_relations(config: &Config) -> Vec<RelationError> {
    let at_most = [
        (
            ["out-of-order-window", "retention"],
            config.out_of_order_window <= config.retention,
            [show_duration(&config.out_of_order_window), show_duration(&config.retention)],
            "",
        ),
        (
            // Else the begin of each range is gone before the range may be cut.
            ["blocks-delay", "retention"],
            config.blocks == BlocksMode::Off || config.blocks_delay + CUT_TIME <= config.retention,
            [show_duration(&config.blocks_delay), show_duration(&config.retention)],
            CUT_WORDS,
        ),
        (
            ["retention", "blocks-retention"],
            config.blocks == BlocksMode::Off || config.retention <= config.blocks_retention,
            [show_duration(&config.retention), show_duration(&config.blocks_retention)],
            "",
        ),
        (
            ["header-timeout", "request-timeout"],
            config.header_timeout <= config.request_timeout,
            [show_duration(&config.header_timeout), show_duration(&config.request_timeout)],
            "",
        ),
        (
            ["max-body-bytes", "max-decoded-bytes"],
            config.max_body_bytes <= config.max_decoded_bytes,
            [show_size(&config.max_body_bytes), show_size(&config.max_decoded_bytes)],
            "",
        ),
    ];
    let broken = at_most.into_iter().filter(|(_, holds, ..)| !holds);
    broken
        .map(|(options, _, values, further)| at_most_broken(options, values, further))
        .chain(shared_addresses(config))
        .chain(shared_names(config))
        .chain(unlabelled_blocks(config))
        .chain(nothing_to_ship(config))
        .collect()
}

/// Of two listeners on one address the system would deal connections out to either.
fn shared_addresses(config: &Config) -> impl Iterator<Item = RelationError> {
    let Config { listen, admin_listen, probe_listen, .. } = config;
    let pairs = [
        (["listen", "admin-listen"], listen, admin_listen),
        (["listen", "probe-listen"], listen, probe_listen),
        (["admin-listen", "probe-listen"], admin_listen, probe_listen),
    ];
    pairs.into_iter().filter_map(|(options, one, other)| {
        let shared = one.iter().find(|address| address.port() != 0 && other.contains(address))?;
        let problem = ValueError::new(format!("both have {shared}"), "allowed: each address for one of them");
        Some(RelationError { options, problem })
    })
}

/// No series has two labels of one name.
fn shared_names(config: &Config) -> impl Iterator<Item = RelationError> {
    let Config { external_labels, replica_label, tenant_label_name, .. } = config;
    let (replica, tenant) = (replica_label.as_deref(), &**tenant_label_name);
    let shared = [
        (["external-labels", "replica-label"], replica.filter(|name| external_labels.has(name))),
        (["external-labels", "tenant-label-name"], Some(tenant).filter(|name| external_labels.has(name))),
        (["replica-label", "tenant-label-name"], replica.filter(|name| *name == tenant)),
    ];
    shared.into_iter().filter_map(|(options, name)| {
        let problem = ValueError::new(format!("both have {}", name?), "allowed: each name for one of them");
        Some(RelationError { options, problem })
    })
}

/// In a bucket nothing but their labels tells blocks of several nodes apart: Thanos' compactor would take those for one
/// node's.
fn unlabelled_blocks(config: &Config) -> Option<RelationError> {
    let has_labels = !config.external_labels.labels().0.is_empty() || config.replica_label.is_some();
    let is_broken = config.objstore_config_file.is_some() && !has_labels;
    is_broken.then(|| RelationError {
        options: ["objstore-config-file", "external-labels"],
        problem: ValueError::new(
            "blocks are to be shipped, and no external labels are set",
            "set what tells this node's series from all others in the bucket, such as \
             --external-labels=cluster=eu-1 and --replica-label=replica",
        ),
    })
}

/// Nothing would be cut, or nobody take it.
fn nothing_to_ship(config: &Config) -> impl Iterator<Item = RelationError> {
    let is_on = config.ship_on_shutdown == ShipOnShutdown::On;
    let wanted = [
        ("blocks", config.blocks == BlocksMode::On, "no blocks are cut", "set --blocks=on"),
        (
            "objstore-config-file",
            config.objstore_config_file.is_some(),
            "no bucket is given",
            "set --objstore-config-file=FILE",
        ),
    ];
    wanted.into_iter().filter(move |(_, is_set, ..)| is_on && !is_set).map(|(option, _, wrong, allowed)| {
        let wrong = format!("what is in memory is to be shipped at the end, and {wrong}");
        RelationError { options: ["ship-on-shutdown", option], problem: ValueError::new(wrong, allowed) }
    })
}

/// `further` is what comes to the lesser.
fn at_most_broken(options: [&'static str; 2], values: [String; 2], further: &str) -> RelationError {
    let ([lesser, greater], [lesser_value, greater_value]) = (options, values);
    let wrong = format!("{lesser_value}{further} is more than {greater_value}");
    let allowed = format!("allowed: {lesser}{further} at most {greater}; lower the one or raise the other");
    RelationError { options, problem: ValueError::new(wrong, allowed) }
}
