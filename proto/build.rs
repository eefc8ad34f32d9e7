//! Compiles the `.proto` files with protox: no protoc is needed.

use std::path::PathBuf;

use prost::Message;

/// Every file that has messages of its own to offer; what they import comes with them.
const FILES: &[&str] = &[
    "prometheus/remote.proto",
    "io/prometheus/write/v2/types.proto",
    "silverback/v1/ingest.proto",
    "silverback/v1/query.proto",
    "silverback/v1/admin.proto",
    "opentelemetry/proto/collector/metrics/v1/metrics_service.proto",
    "thanos/store.proto",
    "thanos/info.proto",
    "thanos/exemplars.proto",
    "thanos/receive.proto",
    "thanos/query.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?);
    let encoded = descriptors.encode_to_vec();
    // OTLP has a JSON form too. What a newer sender adds is skipped there as in protobuf.
    let mut json = pbjson_build::Builder::new();
    json.register_descriptors(&encoded)?.ignore_unknown_fields().build(&[".opentelemetry"])?;
    std::fs::write(out.join("descriptors.bin"), encoded)?;
    // Whoever has a transport of its own connects by it.
    tonic_prost_build::configure().bytes(".").build_transport(false).compile_fds(descriptors)?;
    Ok(())
}
