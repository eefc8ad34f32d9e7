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
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    // Whoever has a transport of its own connects by it.
    tonic_prost_build::configure().bytes(".").build_transport(false).compile_fds(descriptors)?;
    Ok(())
}
