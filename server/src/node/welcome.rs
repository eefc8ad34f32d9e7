//! What a person who has just started a node wants to know: where it is, and what to do with it.

use std::net::SocketAddr;

use crate::config::Config;

/// Tells, once everything is there, that the node takes samples in, and where.
pub(crate) fn tell(config: &Config, listen: &[SocketAddr], shards: usize) {
    let urls: Vec<String> = listen.iter().map(url).collect();
    let Some(first) = urls.first() else { return };
    tracing::info!(
        shards,
        data_dir = %config.data_dir.display(),
        "silverback is ready: look at {}/ and send samples to {first}/api/v1/write (Prometheus' remote_write, \
         silverctl, OTLP and others: README, \"Sending to it\")",
        urls.join("/ , ")
    );
}

/// Warns once where others than this machine's processes can reach the node: it asks nobody who he is.
pub(crate) fn warn_of_open_doors(listen: &[SocketAddr]) {
    let open: Vec<String> =
        listen.iter().filter(|at| !at.ip().is_loopback()).map(ToString::to_string).collect();
    if !open.is_empty() {
        tracing::warn!(
            listen = open.join(","),
            "whoever reaches this address may write, read and administer: there is no authentication. Let a firewall \
             or a NetworkPolicy admit your senders alone, or listen on 127.0.0.1"
        );
    }
}

/// How a browser or a sender on this machine reaches an address.
fn url(address: &SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!("http://localhost:{}", address.port()),
        false => format!("http://{address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_as_one_reaches_it() {
        let check = |address: &str, expect| assert_eq!(url(&address.parse().unwrap()), expect);
        check("127.0.0.1:9009", "http://127.0.0.1:9009");
        check("0.0.0.0:9009", "http://localhost:9009");
        check("[::]:80", "http://localhost:80");
        check("[::1]:9009", "http://[::1]:9009");
    }
}
