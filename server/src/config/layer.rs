//! The layers of a configuration: values as text, each with its origin, laid over each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::fault::{Fault, FaultList, Problem};
use super::options::{ConfigOption, OPTIONS, Set};
use super::{Config, Effective, validate};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The YAML file, and the line where that is known.
    File(PathBuf, Option<usize>),
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, None) => write!(f, "file {}", path.display()),
            Self::File(path, Some(line)) => write!(f, "file {}:{line}", path.display()),
            Self::Environment(name) => write!(f, "env {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One option's value in one layer.
pub(super) struct Given {
    pub option: &'static ConfigOption,
    pub values: Vec<String>,
    pub origin: Origin,
}

/// A configuration while layers are laid on it.
#[derive(Default)]
pub(super) struct Layers {
    config: Config,
    origins: BTreeMap<&'static str, Origin>,
    faulty: BTreeSet<&'static str>,
    faults: Vec<Fault>,
}

impl Layers {
    /// Lays one layer on top. A faulty value is a fault even where a later layer covers it.
    pub(super) fn apply_all(&mut self, layer: impl IntoIterator<Item = Result<Given, Fault>>) {
        for given in layer {
            match given {
                Ok(given) => self.apply(given),
                Err(fault) => self.faults.push(fault),
            }
        }
    }

    fn apply(&mut self, given: Given) {
        let Given { option, values, origin } = given;
        match set(&mut self.config, option, &values) {
            Ok(()) => {
                self.origins.insert(option.name, origin);
            }
            Err(problem) => {
                self.faulty.insert(option.name);
                self.faults.push(Fault { place: place(option.name, &origin), problem });
            }
        }
    }

    /// The whole configuration if nothing is wrong with it.
    pub(super) fn finish(mut self) -> Result<Effective, FaultList> {
        for relation in validate::broken_relations(&self.config) {
            // A value that couldn't be read says nothing about how it relates to others.
            if relation.options.iter().any(|name| self.faulty.contains(name)) {
                continue;
            }
            let origin = |name: &&str| place(name, self.origins.get(name).unwrap_or(&Origin::Default));
            let places: Vec<_> = relation.options.iter().map(origin).collect();
            self.faults.push(Fault { place: places.join(" and "), problem: relation.problem });
        }
        if self.faults.is_empty() {
            Ok(Effective { config: self.config, origins: self.origins })
        } else {
            Err(FaultList(self.faults))
        }
    }
}

fn set(config: &mut Config, option: &ConfigOption, values: &[String]) -> Result<(), Problem> {
    match (&option.set, values) {
        (Set::Many(set), values) => set(config, values),
        (Set::One(set), [value]) => set(config, value),
        (Set::One(_), values) => {
            Err(Problem::new(format!("{} values were given", values.len()), "allowed: one value"))
        }
    }
}

fn place(name: &str, origin: &Origin) -> String {
    format!("{name} ({origin})")
}

/// The option of that name.
pub(super) fn find(name: &str) -> Option<&'static ConfigOption> {
    OPTIONS.iter().find(|option| option.name == name)
}

/// `data-dir` is `SILVERBACK_DATA_DIR`.
pub(super) fn variable_name(option_name: &str) -> String {
    format!("SILVERBACK_{}", option_name.to_uppercase().replace('-', "_"))
}

/// What the environment gives, and the configuration file that it names.
///
/// Unknown `SILVERBACK_…` variables pass: Kubernetes itself sets some for a service of that name.
/// An empty variable is one that isn't set, as templates leave them.
pub(super) fn read_environment(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> (Vec<Result<Given, Fault>>, Option<PathBuf>) {
    let mut variables: HashMap<OsString, OsString> =
        environment.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let config_file = variables.remove(&OsString::from(variable_name("config"))).map(PathBuf::from);
    let given = OPTIONS.iter().filter_map(|option| {
        let name = variable_name(option.name);
        let value = variables.remove(&OsString::from(&name))?;
        Some(read_variable(option, name, value))
    });
    (given.collect(), config_file)
}

fn read_variable(option: &'static ConfigOption, name: String, value: OsString) -> Result<Given, Fault> {
    let origin = Origin::Environment(name);
    match value.into_string() {
        Ok(text) => Ok(Given { option, values: split_list(option, &text), origin }),
        Err(_) => Err(Fault {
            place: place(option.name, &origin),
            problem: Problem::new("the value is not UTF-8", "allowed: UTF-8 text"),
        }),
    }
}

/// A list in one text is separated by commas.
pub(super) fn split_list(option: &ConfigOption, text: &str) -> Vec<String> {
    match option.set {
        Set::One(_) => vec![text.to_owned()],
        Set::Many(_) => text.split(',').map(|part| part.trim().to_owned()).collect(),
    }
}
