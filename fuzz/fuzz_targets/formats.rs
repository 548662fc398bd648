//! Any bytes, read as foreign files; `tests/exports/export.rs` does the same with damaged files.

#![no_main]

#[path = "../../tests/common/formats.rs"]
mod formats;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    formats::read_text(bytes);
    formats::read_traces(&[bytes.to_vec()]);
});
