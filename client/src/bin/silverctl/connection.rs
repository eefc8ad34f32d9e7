//! Where the node is and how it is reached: the options that every command takes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use silverback_client::{Client, RetryPolicy};

use crate::failure::{Context, Failure};
use crate::time_text::parse_duration;

const HEADING: &str = "Connection";

/// The node, and the way to it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = HEADING)]
pub struct ConnectionArgs {
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
    pub async fn connect(&self) -> Result<Client, Failure> {
        let mut builder = Client::builder(&self.address)
            .connect_timeout(self.timeout)
            .request_timeout(self.timeout)
            .compression(self.compression.into());
        if let Some(token) = &self.bearer_token {
            builder = builder.bearer_token(token);
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
        Ok(builder.connect().await?)
    }

    /// How a writer meets failures that may pass.
    pub fn retry(&self) -> RetryPolicy {
        RetryPolicy { give_up_after: Some(self.timeout), ..RetryPolicy::default() }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).context(|| format!("can't read {}", path.display()))
}

/// A compression of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// Not at all: the cheapest where the network has room.
    None,
    /// By gzip.
    Gzip,
    /// By Zstandard: smaller than gzip, and cheaper.
    Zstd,
}

impl From<Compression> for silverback_client::Compression {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::None,
            Compression::Gzip => Self::Gzip,
            Compression::Zstd => Self::Zstd,
        }
    }
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a header is written NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}
