//! Sizes given from outside: `--set B=16` in place of what `dims` says.

use super::{Ast, DimSize, SizeExpr, StatementKind};
use thiserror::Error;

/// A dim that cannot be given a size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SetError {
    /// No `dims` statement has it.
    #[error("no dim is called `{name}`{}", known(.dims))]
    Unknown {
        /// As it was given.
        name: String,
        /// The dims that there are.
        dims: Vec<String>,
    },
    /// It is the product of other dims.
    #[error("`{name}` is {parts} in one; set these")]
    MadeOfParts {
        /// As it was given.
        name: String,
        /// `K*M`
        parts: String,
    },
}

fn known(dims: &[String]) -> String {
    if dims.is_empty() { String::new() } else { format!("; the program has {}", dims.join(", ")) }
}

impl Ast {
    /// Gives a dim another size; sizes that rest on it follow.
    ///
    /// # Errors
    /// If the program has no such dim, or it is made of others.
    pub fn set(&mut self, name: &str, size: u64) -> Result<(), SetError> {
        let mut dims = Vec::new();
        for statement in &mut self.statements {
            let StatementKind::Dims(decls) = &mut statement.kind else { continue };
            for decl in decls {
                if decl.name.node != name {
                    dims.push(decl.name.node.clone());
                    continue;
                }
                match &mut decl.size {
                    DimSize::Is(written) => *written = SizeExpr::number(size, written.span),
                    DimSize::Parts(parts) => {
                        let parts: Vec<&str> = parts.iter().map(|part| part.node.as_str()).collect();
                        return Err(SetError::MadeOfParts { name: name.to_owned(), parts: parts.join("*") });
                    }
                }
                return Ok(());
            }
        }
        // What could not be read may have declared it: that is told already.
        if self.lost.contains(name) {
            return Ok(());
        }
        Err(SetError::Unknown { name: name.to_owned(), dims })
    }
}

#[cfg(test)]
mod tests {
    use crate::syntax::parse;

    #[test]
    fn a_size_given_from_outside_takes_the_place_of_the_written_one() {
        let (mut ast, _) = parse("dims {D: 4, F: 4*D, N = D*F}");
        assert_eq!(ast.set("D", 8), Ok(()));
        assert_eq!(ast.to_string(), "dims {D: 8, F: 4*D, N = D*F}\n");
        let unknown = ast.set("Q", 8).expect_err("there is no Q").to_string();
        assert_eq!(unknown, "no dim is called `Q`; the program has D, F, N");
        assert_eq!(ast.set("N", 8).expect_err("made of parts").to_string(), "`N` is D*F in one; set these");
    }
}
