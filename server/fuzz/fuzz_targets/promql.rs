//! Any text as an expression: parsed, printed, read again, and evaluated over a few series, it never panics, and
//! what is printed is the same expression.
#![no_main]

#[path = "../../promql/tests/any_text/mod.rs"]
mod any_text;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    any_text::check(text);
});
