//! The layers of a configuration: values as text, each with its origin, laid over each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use super::error::{ConfigError, ConfigErrors, ValueError};
use super::options::{ConfigOption, OPTIONS, SELF_SCRAPE_INTERVAL, Set};
use super::{Config, Effective, validate};

/// Another name for an interval of zero.
pub(super) const NO_SELF_SCRAPE: &str = "no-self-scrape";

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
pub(super) struct GivenOption {
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
    faults: Vec<ConfigError>,
}

impl Layers {
    /// Lays one layer on top. A faulty value is a fault even where a later layer covers it.
    pub(super) fn apply_all(&mut self, layer: impl IntoIterator<Item = Result<GivenOption, ConfigError>>) {
        for given in layer {
            match given {
                Ok(given) => self.apply(given),
                Err(fault) => self.faults.push(fault),
            }
        }
    }

    fn apply(&mut self, given: GivenOption) {
        let GivenOption { option, values, origin } = given;
        match set(&mut self.config, option, &values) {
            Ok(()) => {
                self.origins.insert(option.name, origin);
            }
            Err(problem) => {
                self.faulty.insert(option.name);
                self.faults.push(ConfigError { place: place(option.name, &origin), problem });
            }
        }
    }

    /// The whole configuration if nothing is wrong with it.
    pub(super) fn finish(mut self) -> Result<Effective, ConfigErrors> {
        for relation in validate::broken_relations(&self.config) {
            // A value that couldn't be read says nothing about how it relates to others.
            if relation.options.iter().any(|name| self.faulty.contains(name)) {
                continue;
            }
            let origin = |name: &&str| place(name, self.origins.get(name).unwrap_or(&Origin::Default));
            let places: Vec<_> = relation.options.iter().map(origin).collect();
            self.faults.push(ConfigError { place: places.join(" and "), problem: relation.problem });
        }
        if self.faults.is_empty() {
            Ok(Effective { config: self.config, origins: self.origins })
        } else {
            Err(ConfigErrors(self.faults))
        }
    }
}

fn set(config: &mut Config, option: &ConfigOption, values: &[String]) -> Result<(), ValueError> {
    match (&option.set, values) {
        (Set::Many(set), values) => set(config, values),
        (Set::One(set), [value]) => set(config, value),
        (Set::One(_), values) => {
            Err(ValueError::new(format!("{} values were given", values.len()), "allowed: one value"))
        }
    }
}

pub(super) fn place(name: &str, origin: &Origin) -> String {
    format!("{name} ({origin})")
}

/// The option of that name.
pub(super) fn find(name: &str) -> Option<&'static ConfigOption> {
    OPTIONS.iter().find(|option| option.name == name)
}

/// The known name that is most like it, if any is.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let written = name.to_lowercase().replace('_', "-");
    let likeness = |option: &str| strsim::jaro_winkler(&written, option);
    let names = OPTIONS.iter().map(|option| option.name).chain([NO_SELF_SCRAPE]);
    let best = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) > 0.8).then_some(best)
}

/// `no-self-scrape` in a file or a variable: an interval of zero, unless it says `false`.
pub(super) fn read_no_self_scrape(text: &str, origin: Origin) -> Result<Option<GivenOption>, ConfigError> {
    match text {
        "true" => Ok(no_self_scrape(origin)),
        "false" => Ok(None),
        _ => Err(ConfigError {
            place: place(NO_SELF_SCRAPE, &origin),
            problem: ValueError::new(format!("{text:?} is neither true nor false"), "allowed: true, false"),
        }),
    }
}

pub(super) fn no_self_scrape(origin: Origin) -> Option<GivenOption> {
    find(SELF_SCRAPE_INTERVAL).map(|option| GivenOption { option, values: vec!["0".to_owned()], origin })
}

/// Within one layer an option has one value: one that has two names may not be given by both.
pub(super) fn refuse_twice(
    layer: Vec<Result<GivenOption, ConfigError>>,
) -> Vec<Result<GivenOption, ConfigError>> {
    let mut origins: BTreeMap<&'static str, Origin> = BTreeMap::new();
    let check = |given: GivenOption| match origins.insert(given.option.name, given.origin.clone()) {
        None => Ok(given),
        Some(other) => Err(ConfigError {
            place: format!(
                "{} and {}",
                place(given.option.name, &other),
                place(given.option.name, &given.origin)
            ),
            problem: ValueError::new("the option is given twice", "allowed: either of the two names"),
        }),
    };
    let mut check = check;
    layer.into_iter().map(|given| given.and_then(&mut check)).collect()
}

/// A list in one text is separated by commas.
pub(super) fn split_list(option: &ConfigOption, text: &str) -> Vec<String> {
    match option.set {
        Set::One(_) => vec![text.to_owned()],
        Set::Many(_) => text.split(',').map(|part| part.trim().to_owned()).collect(),
    }
}
