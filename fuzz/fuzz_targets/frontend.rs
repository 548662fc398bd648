//! Any text, read, checked and formatted; `tests/language/soak.rs` does the same with damaged programs.

#![no_main]

#[path = "../../tests/common/frontend.rs"]
mod frontend;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    frontend::survive(source);
});
