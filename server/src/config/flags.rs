//! The flags: the table of options as `clap` arguments, and back.

use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::Config;
use super::error::ConfigError;
use super::layer::{self, GivenOption, NO_SELF_SCRAPE, Origin, split_list};
use super::options::{ConfigOption, OPTIONS, SELF_SCRAPE_INTERVAL, Set, ShownValue};

const CONFIG: &str = "config";

/// Gives a command every option as a flag.
///
/// Values are taken as plain text: `clap` would stop at the first that is wrong, and
/// [`super::load`] reports all.
pub fn with_options(command: Command) -> Command {
    let config = Arg::new(CONFIG)
        .long(CONFIG)
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("A YAML file with any of the options below, under the same names");
    let no_self_scrape = Arg::new(NO_SELF_SCRAPE)
        .long(NO_SELF_SCRAPE)
        .action(ArgAction::SetTrue)
        .conflicts_with(SELF_SCRAPE_INTERVAL)
        .help_heading("Log and metrics")
        .help("The same as --self-scrape-interval=0");
    let defaults = Config::default();
    command.arg(config).args(OPTIONS.iter().map(|option| argument(option, &defaults))).arg(no_self_scrape)
}

fn argument(option: &'static ConfigOption, defaults: &Config) -> Arg {
    let default = match (option.show)(defaults) {
        ShownValue::One(value) => value,
        ShownValue::Many(values) if values.is_empty() => "none".to_owned(),
        ShownValue::Many(values) => values.join(","),
    };
    Arg::new(option.name)
        .long(option.name)
        .value_name(option.value_name)
        .help_heading(option.heading)
        .help(format!("{} [default: {default}]", option.help))
        .allow_negative_numbers(true)
        .action(match option.set {
            Set::One(_) => ArgAction::Set,
            Set::Many(_) => ArgAction::Append,
        })
}

/// What the flags give, and the configuration file that they name.
pub(super) fn read<'a>(
    matches: impl IntoIterator<Item = &'a ArgMatches>,
) -> (Vec<Result<GivenOption, ConfigError>>, Option<PathBuf>) {
    let (mut given, mut config_file) = (Vec::new(), None);
    for matches in matches {
        given.extend(OPTIONS.iter().filter_map(|option| read_flag(matches, option)).map(Ok));
        given.extend(read_no_self_scrape(matches).map(Ok));
        config_file = matches.get_one(CONFIG).cloned().or(config_file);
    }
    (given, config_file)
}

fn read_flag(matches: &ArgMatches, option: &'static ConfigOption) -> Option<GivenOption> {
    let texts = matches.get_many::<String>(option.name)?;
    let values = texts.flat_map(|text| split_list(option, text)).collect();
    Some(GivenOption { option, values, origin: Origin::Flag(format!("--{}", option.name)) })
}

fn read_no_self_scrape(matches: &ArgMatches) -> Option<GivenOption> {
    // A flag that isn't given reads as false, with the default as its source.
    let given = matches.value_source(NO_SELF_SCRAPE) == Some(ValueSource::CommandLine);
    given.then(|| layer::no_self_scrape(Origin::Flag(format!("--{NO_SELF_SCRAPE}")))).flatten()
}
