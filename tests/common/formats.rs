//! Reads foreign files with arbitrary contents; shared with a fuzz target.

use shardc::export::{chakra, messages, msccl, mscclpp};

/// Reads a text as each of the runtime formats. Files that can be read are proven or refused.
pub(crate) fn read_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(written) = msccl::read(&text) {
        let _ = msccl::prove(&written.program, None, msccl::Room::of(written.program.dialect));
    }
    if let Ok(plan) = mscclpp::read(&text) {
        let _ = mscclpp::prove(&plan, None);
    }
}

/// Reads the traces of ranks. Traces that can be read are checked.
pub(crate) fn read_traces(files: &[Vec<u8>]) {
    if let Ok(read) = chakra::read(files) {
        let _ = messages::check(&read, None);
    }
}
