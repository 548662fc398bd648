//! Any text as a StableHLO module; `tests/language/imported.rs` does the same with damaged modules.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardc::{compiler, import};

fuzz_target!(|source: &str| {
    if let Ok(imported) = import::program(source, &import::Options::default()) {
        let _ = compiler::check(&imported.text);
    }
});
