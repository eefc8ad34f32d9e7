//! What an operator may set: one plain struct, filled from defaults, a YAML file, the environment
//! and flags, in that order, all under the same names.
//!
//! Knows where each value came from and reports all faults at once. Doesn't know what a value is
//! used for, and doesn't start anything.
mod effective;
mod environment;
mod error;
mod external_labels;
mod file;
mod flags;
mod hosts;
mod layer;
mod options;
mod validate;
mod value;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroUsize;

pub use error::{ConfigError, ConfigErrors};
pub use external_labels::ExternalLabels;
pub use flags::with_options;
pub use hosts::{AllowedHosts, HostPattern};
pub use layer::Origin;
pub use options::Config;

use layer::Layers;

/// How many shards a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardCount {
    /// One for each physical core that the process may use, as far as its CPU quota goes.
    PerCore,
    /// As many as this.
    Fixed(NonZeroUsize),
}

/// Whether cells move by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebalanceMode {
    /// From hot shards to idle ones.
    On,
    /// Only on request.
    Off,
}

/// Whether the memory is cut into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlocksMode {
    /// Each range of two hours, once it is over.
    On,
    /// No.
    Off,
}

/// Whether a node that is stopped leaves nothing behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShipOnShutdown {
    /// What is in memory is cut to blocks, and these are uploaded.
    On,
    /// What is in memory is for the next start.
    Off,
}

/// What the admin API takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdminAccess {
    /// Questions.
    ReadOnly,
    /// Changes, too.
    Full,
}

/// What becomes of OTLP's data points that count what came since the last ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpDelta {
    /// They are added up, series by series.
    Cumulative,
    /// They are refused.
    Refuse,
}

/// What becomes of OTLP's histograms with explicit bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpHistograms {
    /// A series for each bucket, for the sum and for the count.
    Classic,
    /// Native histograms whose buckets have these bounds.
    Custom,
}

/// Whether the node says to Thanos Query that it evaluates expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThanosQueryApi {
    /// It is, and in distributed mode has them evaluated here.
    Announced,
    /// It isn't: in local mode it reads series, and in distributed mode it leaves the node out.
    Hidden,
}

/// How much memory a node may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLimit {
    /// Most of what the cgroup or the machine has.
    Auto,
    /// As many bytes as this.
    Fixed(usize),
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// A configuration that was checked, and where each of its values came from.
#[derive(Debug, Clone)]
pub struct Effective {
    /// The values.
    pub config: Config,
    /// The origin of each option that isn't at its default, by name.
    origins: BTreeMap<&'static str, Origin>,
}

/// Reads the configuration: the file that `--config` or `SILVERBACK_CONFIG` names, then the
/// environment, then the flags of `matches` (outermost command first), each over the former.
pub fn load<'a>(
    matches: impl IntoIterator<Item = &'a clap::ArgMatches>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Effective, ConfigErrors> {
    let (flag_values, config_flag) = flags::read(matches);
    let (environment_values, config_variable) = environment::read(variables);
    let mut layers = Layers::default();
    if let Some(path) = config_flag.or(config_variable) {
        layers.apply_all(file::read(&path));
    }
    layers.apply_all(environment_values);
    layers.apply_all(flag_values);
    layers.finish()
}

#[cfg(test)]
mod tests;
