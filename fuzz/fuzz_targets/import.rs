//! Any text as a StableHLO module; `tests/language/imported.rs` and `opaque.rs` do the same with damaged modules.

#![no_main]

use libfuzzer_sys::fuzz_target;
use shardc::{compiler, import};

fuzz_target!(|source: &str| {
    for is_opaque in [false, true] {
        if let Ok(imported) = import::program(source, &import::Options { is_opaque, ..import::Options::default() }) {
            let _ = compiler::check(&imported.text);
        }
    }
});
