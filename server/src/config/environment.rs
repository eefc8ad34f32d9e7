//! The environment: `SILVERBACK_RETENTION` for `retention`. Knows whose variables of that prefix aren't the
//! node's.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::error::{ConfigError, ValueError};
use super::layer::{self, GivenOption, Origin, nearest, place, split_list};
use super::options::{ConfigOption, OPTIONS};

const PREFIX: &str = "SILVERBACK_";

/// `silverctl`'s own, which may be beside a node's.
const OF_SILVERCTL: [&str; 8] =
    ["ADDRESS", "BEARER_TOKEN", "CA_FILE", "CERT_FILE", "KEY_FILE", "PASSWORD_FILE", "TOKEN_FILE", "USER"];

/// `data-dir` is `SILVERBACK_DATA_DIR`.
pub(super) fn variable_name(option_name: &str) -> String {
    format!("{PREFIX}{}", option_name.to_uppercase().replace('-', "_"))
}

/// What the environment gives, and the configuration file that it names. An empty variable is one that isn't
/// set, as templates leave them.
pub(super) fn read(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> (Vec<Result<GivenOption, ConfigError>>, Option<PathBuf>) {
    let is_set = |(name, value): &(OsString, OsString)| {
        name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) && !value.is_empty()
    };
    // In the order of their names, so that faults always come alike.
    let mut variables: BTreeMap<OsString, OsString> = environment.into_iter().filter(is_set).collect();
    let config_file = variables.remove(OsStr::new(&variable_name("config"))).map(PathBuf::from);
    let mut given = Vec::new();
    for option in OPTIONS {
        let name = variable_name(option.name);
        if let Some(value) = variables.remove(OsStr::new(&name)) {
            given.push(read_variable(option, name, value));
        }
    }
    let name = variable_name(layer::NO_SELF_SCRAPE);
    if let Some(value) = variables.remove(OsStr::new(&name)) {
        given.extend(
            layer::read_no_self_scrape(&value.to_string_lossy(), Origin::Environment(name)).transpose(),
        );
    }
    let unknown = variables.keys().map(|name| name.to_string_lossy());
    given.extend(unknown.filter(|name| !is_foreign(name)).map(|name| Err(unknown_variable(&name))));
    (layer::refuse_twice(given), config_file)
}

fn read_variable(
    option: &'static ConfigOption,
    name: String,
    value: OsString,
) -> Result<GivenOption, ConfigError> {
    let origin = Origin::Environment(name);
    match value.into_string() {
        Ok(text) => Ok(GivenOption { option, values: split_list(option, &text), origin }),
        Err(_) => Err(ConfigError {
            place: place(option.name, &origin),
            problem: ValueError::new("the value is not UTF-8", "allowed: UTF-8 text"),
        }),
    }
}

/// Whether a variable of the node's prefix is somebody else's: `silverctl`'s, or one that Kubernetes sets in
/// every pod for a Service whose name begins so.
fn is_foreign(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or(name);
    OF_SILVERCTL.contains(&rest) || is_of_service(rest)
}

/// `SERVICE_HOST`, `SERVICE_PORT`, `SERVICE_PORT_HTTP`, `PORT`, `PORT_9009_TCP`, `PORT_9009_TCP_ADDR`, with what
/// the Service's name has beyond the prefix before them.
fn is_of_service(rest: &str) -> bool {
    let ends = |end: &str| rest == end || rest.strip_suffix(end).is_some_and(|before| before.ends_with('_'));
    let has = |part: &str| rest.starts_with(part) || rest.contains(&format!("_{part}"));
    let is_port = |protocol: &str| {
        ["", "_PROTO", "_PORT", "_ADDR"].iter().any(|end| {
            let numbered = rest.strip_suffix(end).and_then(|rest| rest.strip_suffix(protocol));
            numbered
                .and_then(|rest| rest.rsplit_once("PORT_"))
                .is_some_and(|(_, number)| number.parse::<u16>().is_ok())
        })
    };
    ends("SERVICE_HOST")
        || ends("SERVICE_PORT")
        || ends("PORT")
        || has("SERVICE_PORT_")
        || ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| is_port(protocol))
}

fn unknown_variable(name: &str) -> ConfigError {
    let option = name.strip_prefix(PREFIX).unwrap_or(name);
    let allowed = match nearest(option) {
        Some(option) => format!("did you mean {}?", variable_name(option)),
        None => {
            "allowed: the options that `silverback --help` lists, in capitals and with _ for -".to_owned()
        }
    };
    let problem = ValueError::new("there is no such option", allowed);
    ConfigError { place: format!("env {name}"), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_services_and_of_silverctl_are_others() {
        for other in [
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_HTTP",
            "PORT",
            "PORT_9009_TCP",
            "PORT_9009_TCP_ADDR",
            "PORT_9009_TCP_PORT",
            "PORT_9009_UDP_PROTO",
            "TWO_SERVICE_HOST",
            "TWO_SERVICE_PORT_HTTP",
            "TWO_PORT",
            "TWO_PORT_80_TCP",
            "ADDRESS",
            "BEARER_TOKEN",
            "PASSWORD_FILE",
        ] {
            assert!(is_foreign(&format!("{PREFIX}{other}")), "{other}");
        }
        for own in ["RETENSION", "PORTS", "SERVICE", "REPORT", "PORT_X_TCP", "ADDRESSES", "SELF_SCRAPE"] {
            assert!(!is_foreign(&format!("{PREFIX}{own}")), "{own}");
        }
    }
}
