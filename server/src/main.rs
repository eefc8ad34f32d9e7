//! The `silverback` command.
fn main() {}
