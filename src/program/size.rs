//! Sizes as they are declared.

use super::error::CheckError;
use crate::diag::Diagnostics;
use crate::syntax::SizeExpr;
use std::collections::BTreeMap;

/// A size, 1 or more; `None` and a report if it has none.
pub(super) fn read_size(
    size: &SizeExpr,
    what: &str,
    known: &BTreeMap<&str, u64>,
    diagnostics: &mut Diagnostics,
) -> Option<u64> {
    match size.value(&mut |name| known.get(name.node.as_str()).copied()) {
        Ok(0) => diagnostics.push(&CheckError::SizeZero { what: what.to_owned(), at: size.span }),
        Ok(size) => return Some(size),
        Err(flaw) => diagnostics.push(&CheckError::size(flaw, "sizes rest on names that are declared before")),
    }
    None
}
