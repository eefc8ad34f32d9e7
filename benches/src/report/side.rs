//! Who is measured: our own node, the contender, and the peers that are found on this machine. It knows their
//! programs and how they are started, no process.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use super::certificate::web_file;
use super::commit::{Code, Figures};

/// A contestant, in the tables' order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Our node: an acknowledged sample is on disk.
    Node,
    /// Our node with `--ack=memory`.
    NodeMemory,
    /// Our node, its connections encrypted.
    NodeTls,
    /// Another build of our node.
    NodeFormer,
    /// The same service the usual way, with the same log.
    Contender,
    /// The contender with `--ack=memory`.
    ContenderMemory,
    /// Debian's, or whichever is in the path.
    VictoriaMetrics,
    /// The release that a path was given of.
    VictoriaMetricsCurrent,
    /// Debian's, or whichever is in the path.
    Prometheus,
    /// The release that a path was given of.
    PrometheusCurrent,
}

/// What a contestant is, whichever build or mode of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Silverback.
    Node,
    /// The contender.
    Contender,
    /// VictoriaMetrics, as a single node.
    VictoriaMetrics,
    /// Prometheus, as a receiver of remote write.
    Prometheus,
}

/// Not a contestant's name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: not one of {}", Side::ALL.map(Side::name).join(", "))]
pub struct UnknownSide {
    name: String,
}

impl Side {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Node,
        Self::NodeMemory,
        Self::NodeTls,
        Self::NodeFormer,
        Self::Contender,
        Self::ContenderMemory,
        Self::VictoriaMetrics,
        Self::VictoriaMetricsCurrent,
        Self::Prometheus,
        Self::PrometheusCurrent,
    ];

    /// As it is asked for, and as it stands in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "silverback",
            Self::NodeMemory => "silverback-memory",
            Self::NodeTls => "silverback-tls",
            Self::NodeFormer => "silverback-former",
            Self::Contender => "contender",
            Self::ContenderMemory => "contender-memory",
            Self::VictoriaMetrics => "victoria-metrics",
            Self::VictoriaMetricsCurrent => "victoria-metrics-current",
            Self::Prometheus => "prometheus",
            Self::PrometheusCurrent => "prometheus-current",
        }
    }

    /// What it is.
    pub fn kind(self) -> Kind {
        match self {
            Self::Node | Self::NodeMemory | Self::NodeTls | Self::NodeFormer => Kind::Node,
            Self::Contender | Self::ContenderMemory => Kind::Contender,
            Self::VictoriaMetrics | Self::VictoriaMetricsCurrent => Kind::VictoriaMetrics,
            Self::Prometheus | Self::PrometheusCurrent => Kind::Prometheus,
        }
    }

    /// Whether it is our node.
    pub fn is_own(self) -> bool {
        self.kind() == Kind::Node
    }

    /// Which side ours with the same promise is measured as: durable unless it says otherwise.
    pub const fn counterpart(self) -> Self {
        match self {
            Self::ContenderMemory | Self::NodeMemory => Self::NodeMemory,
            _durable_or_a_peer => Self::Node,
        }
    }

    /// The path that says by 200 that it takes writes.
    pub fn ready_path(self) -> &'static str {
        match self.kind() {
            Kind::Node | Kind::Contender | Kind::Prometheus => "/-/ready",
            Kind::VictoriaMetrics => "/health",
        }
    }

    /// The family of its metrics that counts the samples it stored.
    pub fn stored_family(self) -> &'static str {
        match self.kind() {
            Kind::Node | Kind::Contender => "silverback_samples_total",
            Kind::VictoriaMetrics => "vm_rows_added_to_storage_total",
            Kind::Prometheus => "prometheus_tsdb_head_samples_appended_total",
        }
    }

    /// Whether it speaks TLS.
    pub fn is_encrypted(self) -> bool {
        self == Self::NodeTls
    }

    /// What it is started with. An empty configuration lies at `empty`, what makes it speak TLS beside it.
    pub fn arguments(self, address: SocketAddr, data: &Path, empty: &Path) -> Vec<String> {
        let web_file = web_file(empty.parent().unwrap_or(empty));
        let (data, empty) = (data.display(), empty.display());
        let memory = matches!(self, Self::NodeMemory | Self::ContenderMemory);
        let mut words = match self.kind() {
            Kind::Node => {
                vec![format!("--listen={address}"), format!("--data-dir={data}"), "--no-self-scrape".into()]
            }
            Kind::Contender => {
                vec!["contender".into(), format!("--listen={address}"), format!("--data-dir={data}")]
            }
            Kind::VictoriaMetrics => vec![
                format!("-httpListenAddr={address}"),
                format!("-storageDataPath={data}"),
                "-retentionPeriod=10y".into(),
                // Its own limits are below what is read here.
                "-search.maxSeries=1000000".into(),
                "-search.maxUniqueTimeseries=1000000".into(),
            ],
            Kind::Prometheus => vec![
                format!("--web.listen-address={address}"),
                format!("--storage.tsdb.path={data}"),
                format!("--config.file={empty}"),
                "--web.enable-remote-write-receiver".into(),
                "--log.level=warn".into(),
            ],
        };
        if memory {
            words.push("--ack=memory".into());
        }
        if self.is_encrypted() {
            words.push(format!("--web-config-file={}", web_file.display()));
        }
        words
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Side {
    type Err = UnknownSide;

    fn from_str(name: &str) -> Result<Self, UnknownSide> {
        let found = Self::ALL.into_iter().find(|side| side.name() == name);
        found.ok_or_else(|| UnknownSide { name: name.to_owned() })
    }
}

/// A program that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Where.
    pub path: PathBuf,
    /// Its version, as far as it is known: for the document.
    pub version: String,
}

impl Program {
    /// Whether it speaks remote write 2.
    pub fn speaks_remote_write_2(&self, side: Side) -> bool {
        let major = self.version.split(['.', ' ']).next().and_then(|major| major.parse::<u32>().ok());
        match side.kind() {
            Kind::Node | Kind::Contender => true,
            Kind::VictoriaMetrics => false,
            Kind::Prometheus => major.is_some_and(|major| major >= 3),
        }
    }
}

/// Where programs are that nobody finds by themselves.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    /// Our node; beside this program where it isn't given.
    pub node: Option<PathBuf>,
    /// Another build of our node, below the checkout that it was built of, as that was then.
    pub former: Option<PathBuf>,
    /// A current VictoriaMetrics.
    pub victoria_metrics: Option<PathBuf>,
    /// A current Prometheus.
    pub prometheus: Option<PathBuf>,
}

/// A path that was given and leads nowhere.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: no such program; {hint}", path.display())]
pub struct NoProgram {
    path: PathBuf,
    hint: &'static str,
}

/// Who is here.
#[derive(Debug, Clone, Default)]
pub struct Programs(BTreeMap<Side, Program>);

impl Programs {
    /// Looks for all of them; `own` is this program. Peers that aren't installed are left out, what was asked
    /// for by its path must be there.
    pub fn find(paths: &Paths, own: &Path) -> Result<Self, NoProgram> {
        let node = paths.node.clone().unwrap_or_else(|| own.with_file_name("silverback"));
        let node = given(&node, "build it (cargo build --release --workspace) or give --silverback PATH")?;
        let mut found = BTreeMap::new();
        let mut add = |sides: &[Side], path: &Path, version: String| {
            let program = Program { path: path.to_owned(), version };
            found.extend(sides.iter().map(|side| (*side, program.clone())));
        };
        add(&[Side::Node, Side::NodeMemory, Side::NodeTls], &node, String::new());
        add(&[Side::Contender, Side::ContenderMemory], own, String::new());
        if let Some(path) = &paths.former {
            let path = given(path, "check the path that was given")?;
            add(&[Side::NodeFormer], &path, commit_at(&path));
        }
        for (side, name) in [(Side::VictoriaMetrics, "victoria-metrics"), (Side::Prometheus, "prometheus")] {
            if let Some(path) = in_path(name) {
                add(&[side], &path, packaged_version(name).unwrap_or_else(|| told_version(&path)));
            }
        }
        let current = [
            (Side::VictoriaMetricsCurrent, &paths.victoria_metrics),
            (Side::PrometheusCurrent, &paths.prometheus),
        ];
        for (side, path) in current {
            if let Some(path) = path {
                let path = given(path, "check the path that was given")?;
                add(&[side], &path, told_version(&path));
            }
        }
        Ok(Self(found))
    }

    /// Only these of them.
    pub fn only(mut self, sides: &[Side]) -> Self {
        self.0.retain(|side, _| sides.contains(side));
        self
    }

    /// One of them, where it is here.
    pub fn get(&self, side: Side) -> Option<&Program> {
        self.0.get(&side)
    }

    /// A side's name in the document: what it is, its version and its mode.
    pub fn label(&self, side: Side) -> String {
        let version = self.get(side).map_or("", |program| program.version.as_str());
        let name = match side {
            Side::Node => "silverback",
            Side::NodeMemory => "silverback `--ack=memory`",
            Side::NodeTls => "silverback over TLS",
            Side::NodeFormer => "silverback, a former build,",
            Side::Contender => "contender",
            Side::ContenderMemory => "contender `--ack=memory`",
            Side::VictoriaMetrics | Side::VictoriaMetricsCurrent => "VictoriaMetrics",
            Side::Prometheus | Side::PrometheusCurrent => "Prometheus",
        };
        format!("{name} {version}").trim_end().to_owned()
    }

    /// Peers that aren't here, for the document.
    pub fn missing(&self) -> Vec<Side> {
        Side::ALL.into_iter().filter(|side| self.get(*side).is_none()).collect()
    }
}

fn given(path: &Path, hint: &'static str) -> Result<PathBuf, NoProgram> {
    let is_there = path.is_file();
    is_there.then(|| path.to_owned()).ok_or_else(|| NoProgram { path: path.to_owned(), hint })
}

/// The commit of the checkout that a program is in; nothing where it is in none.
fn commit_at(path: &Path) -> String {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Code::look(directory, Figures::Report).map_or_else(|_no_checkout| String::new(), |code| code.to_string())
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}

fn words(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Some(String::from_utf8_lossy(&text).into_owned()).filter(|text| !text.trim().is_empty())
}

/// What Debian says of its package: `2.42.0 (Debian)`.
fn packaged_version(package: &str) -> Option<String> {
    let version = words(Command::new("dpkg-query").args(["-W", "-f=${Version}", package]))?;
    let upstream = version.split(['+', '-', '~']).next()?;
    Some(format!("{upstream} (Debian)"))
}

/// What the program says of itself.
fn told_version(path: &Path) -> String {
    words(Command::new(path).arg("--version")).map_or_else(String::new, |text| version_in(&text))
}

/// The first word that looks like a version: digits with points, a `v` before it left out.
fn version_in(text: &str) -> String {
    let is_version = |word: &&str| {
        let mut parts = word.split('.');
        parts.clone().count() >= 2
            && parts.all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let words = text.split([' ', ',', '-', '+', '\n', '\t']);
    words.map(|word| word.trim_start_matches('v')).find(is_version).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_found_by_its_name_and_no_other() {
        for side in Side::ALL {
            assert_eq!(side.name().parse(), Ok(side));
        }
        let unknown = "mimir".parse::<Side>().expect_err("no such side");
        assert!(unknown.to_string().starts_with("mimir: not one of silverback, "), "{unknown}");
    }

    #[test]
    fn a_version_is_found_in_what_programs_say() {
        assert_eq!(version_in("prometheus, version 3.14.0 (branch: HEAD)"), "3.14.0");
        assert_eq!(version_in("victoria-metrics-20240101-000000-tags-v1.97.1-0-gabc"), "1.97.1");
        assert_eq!(version_in("no version"), "");
    }

    #[test]
    fn remote_write_2_goes_to_who_speaks_it() {
        let program = |version: &str| Program { path: PathBuf::new(), version: version.to_owned() };
        assert!(program("").speaks_remote_write_2(Side::Contender));
        assert!(program("3.14.0").speaks_remote_write_2(Side::PrometheusCurrent));
        assert!(!program("2.42.0 (Debian)").speaks_remote_write_2(Side::Prometheus));
        assert!(!program("1.97.1").speaks_remote_write_2(Side::VictoriaMetricsCurrent));
    }

    #[test]
    fn a_path_that_leads_nowhere_is_an_error_that_names_it() {
        let paths = Paths { node: Some("/nowhere/silverback".into()), ..Paths::default() };
        let error = Programs::find(&paths, Path::new("/proc/self/exe")).expect_err("nothing there");
        assert!(error.to_string().starts_with("/nowhere/silverback: no such program; build it"), "{error}");
    }

    #[test]
    fn memory_is_compared_with_memory() {
        assert_eq!(Side::ContenderMemory.counterpart(), Side::NodeMemory);
        assert_eq!(Side::Prometheus.counterpart(), Side::Node);
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let words = |side: Side| side.arguments(address, Path::new("d"), Path::new("e"));
        assert!(words(Side::NodeMemory).contains(&"--ack=memory".to_owned()));
        assert!(!words(Side::Contender).contains(&"--ack=memory".to_owned()));
    }
}
