//! Overridden sizes: `--set B=16` in place of a size in `dims` or `mesh`.

use super::{Ast, DimSize, SizeExpr, StatementKind};
use crate::diag::{did_you_mean, nearest};
use thiserror::Error;

/// Why the size of a dim or an axis cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SetError {
    /// No `dims` or `mesh` statement declares it.
    #[error("unknown dim or axis `{name}`{}", known(.name, .names))]
    Unknown {
        /// The given name.
        name: String,
        /// The declared dims and axes.
        names: Vec<String>,
    },
    /// It is the product of other dims, or of several machine axes.
    #[error("cannot set `{name}`: it is the composite {parts}")]
    MadeOfParts {
        /// The given name.
        name: String,
        /// Its definition, `K*M`.
        parts: String,
    },
}

impl SetError {
    fn made_of(name: &str, parts: impl Iterator<Item = String>, between: &str) -> SetError {
        SetError::MadeOfParts { name: name.to_owned(), parts: parts.collect::<Vec<_>>().join(between) }
    }
}

/// The declared name that is probably meant, or all names.
fn known(name: &str, names: &[String]) -> String {
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("; {}", did_you_mean(near)),
        None if names.is_empty() => String::new(),
        None => format!("; the program has {}", names.join(", ")),
    }
}

impl Ast {
    /// Sets the size of a dim or a mesh axis; dependent sizes follow.
    ///
    /// # Errors
    /// If the program does not declare the name, or it is composed of others.
    pub fn set(&mut self, name: &str, size: u64) -> Result<(), SetError> {
        let mut names = Vec::new();
        for statement in &mut self.statements {
            match &mut statement.kind {
                StatementKind::Dims(decls) => {
                    for decl in decls {
                        if decl.name.node != name {
                            names.push(decl.name.node.clone());
                            continue;
                        }
                        match &mut decl.size {
                            DimSize::Is(written) => *written = SizeExpr::number(size, written.span),
                            DimSize::Parts(parts) => {
                                return Err(SetError::made_of(name, parts.iter().map(|part| part.node.clone()), "*"));
                            }
                        }
                        return Ok(());
                    }
                }
                StatementKind::Mesh { axes, .. } => {
                    for axis in axes {
                        if axis.name.node != name {
                            names.push(axis.name.node.clone());
                            continue;
                        }
                        if !axis.more.is_empty() {
                            let parts = (1..=axis.more.len() + 1).map(|place| format!("{name}{place}"));
                            return Err(SetError::made_of(name, parts, " x "));
                        }
                        axis.size = SizeExpr::number(size, axis.size.span);
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        // A statement with a syntax error may declare it; that error is already reported.
        if self.lost.contains(name) {
            return Ok(());
        }
        Err(SetError::Unknown { name: name.to_owned(), names })
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
        assert_eq!(unknown, "unknown dim or axis `Q`; the program has D, F, N");
        let near = ast.set("DD", 8).expect_err("there is no DD").to_string();
        assert_eq!(near, "unknown dim or axis `DD`; did you mean `D`?");
        assert_eq!(ast.set("N", 8).expect_err("made of parts").to_string(), "cannot set `N`: it is the composite D*F");
        let (mut ast, _) = parse("mesh {X: 4, T: 2 x 3}");
        assert_eq!(ast.set("X", 8), Ok(()));
        assert_eq!(ast.to_string(), "mesh {X: 8, T: 2x3}\n");
        assert_eq!(ast.set("T", 8).expect_err("two").to_string(), "cannot set `T`: it is the composite T1 x T2");
    }
}
