//! Reading files of other tools, whatever is in them; a fuzz target uses it as well.

use shardc::export::{chakra, messages, msccl, mscclpp};

/// Reads a text as each of the formats of runtimes; what is read is proven or refused.
pub(crate) fn read_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(written) = msccl::read(&text) {
        let _ = msccl::prove(&written.program, None, msccl::Room::of(written.program.dialect));
    }
    if let Ok(plan) = mscclpp::read(&text) {
        let _ = mscclpp::prove(&plan, None);
    }
}

/// Reads the traces of ranks; what is read is checked.
pub(crate) fn read_traces(files: &[Vec<u8>]) {
    if let Ok(read) = chakra::read(files) {
        let _ = messages::check(&read, None);
    }
}
