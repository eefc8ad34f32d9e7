//! Who may do what: the files that say it (Prometheus' web configuration file, and the access file beside it), and
//! whether a request's credentials will do.
//!
//! ```text
//! web_file, access_file → doors ← reload (a thread looks at the files)
//!                           ↓ to each core
//!   request's head → gate (known credentials) → passwords' thread (bcrypt)
//! ```
//!
//! Knows no endpoint: which scope one needs is declared with it. Passwords and tokens are never logged nor shown.
mod access_file;
mod check_slots;
mod credentials;
mod doors;
mod error;
mod files;
pub(crate) mod gate;
mod known;
mod password_hash;
pub(crate) mod reload;
mod rules;
pub mod scope;
mod shown;
mod text;
mod tls_section;
mod web_file;

pub(crate) use doors::{Doors, Sources};
pub use error::AccessError;
pub(crate) use reload::Access;

use crate::config::Config;

impl Sources {
    /// The files that a configuration names, if it names any.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        let sources = Self { web: config.web_config_file.clone(), access: config.access_file.clone() };
        (sources.web.is_some() || sources.access.is_some()).then_some(sources)
    }
}

/// Reads the files that a configuration names, and logs what an operator should know of them.
pub fn check(config: &Config) -> Result<Vec<String>, AccessError> {
    match Sources::of(config) {
        Some(sources) => Access::check(&sources).map(|doors| doors.cautions),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests;
