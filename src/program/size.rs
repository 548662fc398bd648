//! Declared sizes.

use super::error::CheckError;
use crate::diag::Diagnostics;
use crate::syntax::SizeExpr;
use std::collections::BTreeMap;

/// A size of at least 1; `None` after a reported error.
pub(super) fn read_size(
    size: &SizeExpr,
    what: &str,
    known: &BTreeMap<&str, u64>,
    diagnostics: &mut Diagnostics,
) -> Option<u64> {
    match size.value(&mut |name| known.get(name.node.as_str()).copied()) {
        Ok(0) => diagnostics.push(&CheckError::SizeZero { what: what.to_owned(), at: size.span }),
        Ok(size) => return Some(size),
        Err(flaw) => diagnostics.push(&CheckError::size(flaw, "declare the names of a size before it")),
    }
    None
}
