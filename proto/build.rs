//! Compiles the `.proto` files with protox: no protoc is needed.

/// Every file that has messages of its own to offer; what they import comes with them.
const FILES: &[&str] = &["prometheus/remote.proto", "io/prometheus/write/v2/types.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
