//! Where the node is and how it is reached: the options that every command takes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use http::Uri;
use silverback_client::{Client, Compression, ConnectError, RetryPolicy};

use crate::error::{CommandError, Context, Done};
use crate::time_text::parse_duration;

const HEADING: &str = "Connection";

/// The node, and the way to it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct ConnectionArgs {
    /// The node's address.
    #[arg(
        long,
        short,
        global = true,
        value_name = "URL",
        env = "SILVERBACK_ADDRESS",
        default_value = "http://127.0.0.1:9009"
    )]
    pub address: String,
    /// Sent as `authorization: Bearer …` with each request.
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "SILVERBACK_BEARER_TOKEN",
        hide_env_values = true
    )]
    pub bearer_token: Option<String>,
    /// A file with the token instead: what a command line holds, others on the machine can read.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "SILVERBACK_TOKEN_FILE",
        conflicts_with = "bearer_token"
    )]
    pub token_file: Option<PathBuf>,
    /// A user's name, sent with the password of --password-file.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "SILVERBACK_USER",
        requires = "password_file",
        conflicts_with_all = ["bearer_token", "token_file"]
    )]
    pub user: Option<String>,
    /// A file with the password of --user: its first line.
    #[arg(long, global = true, value_name = "FILE", env = "SILVERBACK_PASSWORD_FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// A header that is sent with each request; may be given more than once.
    #[arg(long = "header", global = true, value_name = "NAME=VALUE", value_parser = parse_header)]
    pub headers: Vec<(String, String)>,
    /// Certificates (PEM) that are trusted instead of the system's.
    #[arg(long, global = true, value_name = "FILE", env = "SILVERBACK_CA_FILE")]
    pub ca_file: Option<PathBuf>,
    /// This side's certificate (PEM), for a node that asks for one.
    #[arg(long, global = true, value_name = "FILE", env = "SILVERBACK_CERT_FILE", requires = "key_file")]
    pub cert_file: Option<PathBuf>,
    /// The key (PEM) of --cert-file.
    #[arg(long, global = true, value_name = "FILE", env = "SILVERBACK_KEY_FILE", requires = "cert_file")]
    pub key_file: Option<PathBuf>,
    /// How long an answer may take, and how long a node that went away is waited for.
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// How requests and answers are compressed on the wire.
    #[arg(long, global = true, value_enum, default_value_t = Compression::None)]
    pub compression: Compression,
}

impl ConnectionArgs {
    /// Connects to the node.
    pub(crate) async fn connect(&self) -> Done<Client> {
        check_address("--address", &self.address)?;
        let mut builder = Client::builder(&self.address)
            .connect_timeout(self.timeout)
            .request_timeout(self.timeout)
            .compression(self.compression);
        match self.credentials()? {
            Credentials::None => {}
            Credentials::Token(token) => builder = builder.bearer_token(token),
            Credentials::Password { user, password } => builder = builder.basic_auth(user, password),
        }
        for (name, value) in &self.headers {
            builder = builder.header(name, value);
        }
        if let Some(path) = &self.ca_file {
            builder = builder.ca_certificate(read(path)?);
        }
        // clap takes both of them or none.
        if let (Some(certificate), Some(key)) = (&self.cert_file, &self.key_file) {
            builder = builder.client_identity(read(certificate)?, read(key)?);
        }
        builder.connect().await.map_err(|error| match error {
            ConnectError::Address(address) => CommandError::Usage(wrong_address("--address", &address)),
            ConnectError::Header(_) => CommandError::Usage(error.to_string()),
            ConnectError::Certificates(_)
            | ConnectError::Connection { .. }
            | ConnectError::TimedOut { .. } => error.into(),
        })
    }

    /// Who asks.
    pub(crate) fn credentials(&self) -> Done<Credentials> {
        // clap takes no two of them.
        Ok(match (&self.bearer_token, &self.token_file, &self.user, &self.password_file) {
            (Some(token), ..) => Credentials::Token(token.clone()),
            (None, Some(file), ..) => Credentials::Token(first_line(file)?),
            (None, None, Some(user), Some(file)) => {
                Credentials::Password { user: user.clone(), password: first_line(file)? }
            }
            (None, None, _, _) => Credentials::None,
        })
    }

    /// How a writer meets failures that may pass.
    pub(crate) fn retry(&self) -> RetryPolicy {
        RetryPolicy { give_up_after: Some(self.timeout), ..RetryPolicy::default() }
    }
}

/// Whether `address`, which `option` gives, can be one: nobody is asked. What can't be is wrong usage, and not
/// a node that is away.
pub(crate) fn check_address(option: &str, address: &str) -> Done {
    let uri: Option<Uri> = address.parse().ok();
    let is_address = uri.is_some_and(|uri| {
        let has_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
        // After the host's colon is nothing but a port.
        let host = uri.host().unwrap_or_default();
        let behind = uri.authority().and_then(|authority| authority.as_str().rsplit_once(host));
        let has_port_if_any = behind.is_some_and(|(_, port)| port.is_empty() || uri.port_u16().is_some());
        has_scheme && !host.is_empty() && has_port_if_any
    });
    if is_address { Ok(()) } else { Err(CommandError::Usage(wrong_address(option, address))) }
}

/// With the address that was probably meant, where that is one.
fn wrong_address(option: &str, address: &str) -> String {
    let words = format!("{address:?} isn't an address; {option} is http://HOST:PORT or https://HOST:PORT");
    let meant = format!("http://{address}");
    let is_meant = !address.is_empty() && !address.contains("//") && check_address(option, &meant).is_ok();
    if is_meant { format!("{words}: perhaps {meant}") } else { words }
}

/// What a request says of who sends it.
pub(crate) enum Credentials {
    /// Nothing.
    None,
    /// A bearer token.
    Token(String),
    /// A user and a password.
    Password {
        /// The user's name.
        user: String,
        /// The password.
        password: String,
    },
}

impl Credentials {
    /// As HTTP's header has them.
    pub(crate) fn authorization(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Token(token) => Some(format!("Bearer {token}")),
            Self::Password { user, password } => {
                Some(format!("Basic {}", BASE64.encode(format!("{user}:{password}"))))
            }
        }
    }
}

/// A secret's file, without the end of its line.
fn first_line(path: &Path) -> Done<String> {
    let text = std::fs::read_to_string(path).context(|| format!("can't read {}", path.display()))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        Some(_) | None => Err(CommandError::Usage(format!("there is nothing in {}", path.display()))),
    }
}

fn read(path: &Path) -> Done<Vec<u8>> {
    std::fs::read(path).context(|| format!("can't read {}", path.display()))
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a header is written NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, expect: Result<(), &str>) {
        match (check_address("--address", address), expect) {
            (Ok(()), Ok(())) => {}
            (Err(CommandError::Usage(words)), Err(expect)) => {
                assert!(words.ends_with(expect), "{address}: {words}")
            }
            (checked, _) => panic!("{address}: {checked:?}"),
        }
    }

    #[derive(Debug, clap::Parser)]
    struct Options {
        #[command(flatten)]
        connection: ConnectionArgs,
    }

    #[test]
    fn secrets_come_from_files_and_go_into_a_header() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        let path = file.to_str().unwrap();
        let of = |options: &[&str]| {
            let options = ["silverctl"].iter().chain(options);
            let connection =
                <Options as clap::Parser>::try_parse_from(options).map_err(|error| error.to_string())?;
            connection
                .connection
                .credentials()
                .map_err(|error| format!("{error:?}"))
                .map(|who| who.authorization())
        };
        std::fs::write(&file, "pass:word\n").unwrap();
        assert_eq!(of(&["--token-file", path]).unwrap().as_deref(), Some("Bearer pass:word"));
        let basic = of(&["--user", "alice", "--password-file", path]).unwrap();
        assert_eq!(basic.as_deref(), Some("Basic YWxpY2U6cGFzczp3b3Jk"));
        assert_eq!(of(&[]).unwrap(), None);
        assert!(of(&["--user", "alice"]).is_err() && of(&["--password-file", path]).is_err());
        assert!(of(&["--token-file", path, "--bearer-token", "x"]).is_err());
        std::fs::write(&file, "").unwrap();
        assert!(of(&["--token-file", path]).unwrap_err().contains("nothing in"));
        std::fs::remove_file(&file).unwrap();
        assert!(of(&["--token-file", path]).unwrap_err().contains("can't read"));
    }

    #[test]
    fn an_address_has_a_scheme_a_host_and_perhaps_a_port() {
        for address in ["http://node", "https://node:9009", "http://[::1]:9009/", "http://10.0.0.1:1/write"] {
            check(address, Ok(()));
        }
    }

    #[test]
    fn what_is_no_address_is_told_with_what_was_probably_meant() {
        check("node:9009", Err("perhaps http://node:9009"));
        check("127.0.0.1:9009", Err("perhaps http://127.0.0.1:9009"));
        check("[::1]:9009", Err("perhaps http://[::1]:9009"));
        for wrong in ["", "ftp://node", "http://", "/path", "a b", "http://node:99999", "http://node:x"] {
            check(wrong, Err("is http://HOST:PORT or https://HOST:PORT"));
        }
    }
}
