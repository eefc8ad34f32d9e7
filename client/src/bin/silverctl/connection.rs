//! Where the node is and how it is reached: the options that every command takes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

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
    #[arg(long, global = true, value_name = "TOKEN", env = "SILVERBACK_BEARER_TOKEN", hide_env_values = true)]
    pub bearer_token: Option<String>,
    /// A header that is sent with each request; may be given more than once.
    #[arg(long = "header", global = true, value_name = "NAME=VALUE", value_parser = parse_header)]
    pub headers: Vec<(String, String)>,
    /// Certificates (PEM) that are trusted instead of the system's.
    #[arg(long, global = true, value_name = "FILE", env = "SILVERBACK_CA_FILE")]
    pub ca_file: Option<PathBuf>,
    /// This side's certificate (PEM), for a node that asks for one.
    #[arg(long, global = true, value_name = "FILE", env = "SILVERBACK_CERT_FILE")]
    pub cert_file: Option<PathBuf>,
    /// The key (PEM) of --cert-file.
    #[arg(long, global = true, value_name = "FILE", env = "SILVERBACK_KEY_FILE")]
    pub key_file: Option<PathBuf>,
    /// How long an answer may take.
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// How requests and answers are compressed on the wire.
    #[arg(long, global = true, value_enum, default_value_t = Compression::None)]
    pub compression: Compression,
}

/// A compression of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// None.
    None,
    /// Gzip: for slow networks.
    Gzip,
    /// Zstandard: smaller and cheaper than gzip.
    Zstd,
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a header is written NAME=VALUE")?;
    Ok((name.trim().to_ascii_lowercase(), value.to_owned()))
}
