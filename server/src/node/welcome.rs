//! What a person who has just started a node wants to know: where it is, and what to do with it.

use std::net::SocketAddr;

use crate::access::Doors;
use crate::config::Config;

/// Logs, once everything is there, that the node accepts samples, and where.
pub(crate) fn tell(config: &Config, listen: &[SocketAddr], doors: Option<&Doors>, shards: usize) {
    let scheme = if doors.is_some_and(|doors| doors.tls.is_some()) { "https" } else { "http" };
    let urls: Vec<String> = listen.iter().map(|address| url(scheme, address)).collect();
    let Some(first) = urls.first() else { return };
    tracing::info!(
        shards,
        data_dir = %config.data_dir.display(),
        "silverback is ready: look at {}/ and send samples to {first}/api/v1/write (Prometheus' remote_write, \
         silverctl, OTLP and others: README, \"Sending to it\")",
        urls.join("/ , ")
    );
}

/// Warns once where others than this machine's processes can reach the node, and it asks for no credentials, or lets
/// passwords and tokens cross the network for all to read. Logs what an operator should know of the files besides.
pub(crate) fn warn_of_open_doors(addresses: &[SocketAddr], doors: Option<&Doors>) {
    let open: Vec<String> =
        addresses.iter().filter(|at| !at.ip().is_loopback()).map(ToString::to_string).collect();
    for caution in doors.into_iter().flat_map(|doors| &doors.cautions) {
        tracing::warn!(caution, "web configuration");
    }
    if open.is_empty() {
        return;
    }
    if doors.is_none_or(Doors::are_open) {
        tracing::warn!(
            listen = open.join(","),
            "WHOEVER REACHES THIS ADDRESS MAY WRITE, READ AND ADMINISTER: there is no authentication. Give the node \
             users, tokens or client certificates (--web-config-file, --access-file), let a firewall or a NetworkPolicy \
             admit your senders alone, or listen on 127.0.0.1"
        );
    } else if doors.is_some_and(Doors::are_overheard) {
        tracing::warn!(
            listen = open.join(","),
            "passwords and tokens cross the network for all to read: add tls_server_config to --web-config-file, or let \
             a proxy before the node encrypt them"
        );
    }
}

/// How a browser or a sender on this machine reaches an address.
fn url(scheme: &str, address: &SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!("{scheme}://localhost:{}", address.port()),
        false => format!("{scheme}://{address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_as_one_reaches_it() {
        let check = |address: &str, expect| assert_eq!(url("http", &address.parse().unwrap()), expect);
        check("127.0.0.1:9009", "http://127.0.0.1:9009");
        check("0.0.0.0:9009", "http://localhost:9009");
        check("[::]:80", "http://localhost:80");
        check("[::1]:9009", "http://[::1]:9009");
    }
}
