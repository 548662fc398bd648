//! Overridden sizes: `--set B=16` in place of a size in `dims` or `mesh`, `--set "X=4x4 over dcn"` in place of an axis.

use super::{Ast, AxisDecl, DimSize, SizeExpr, StatementKind};
use crate::diag::{did_you_mean, nearest};
use crate::mesh::Wiring;
use crate::span::Spanned;
use itertools::Itertools;
use std::fmt;
use thiserror::Error;

/// What an axis of the mesh consists of: `4x4 ring over dcn`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AxisShape {
    /// Sizes of its physical axes, the first major; at least one.
    pub sizes: Vec<u64>,
    /// Wiring that overrides the rule of the hardware.
    pub wiring: Option<Wiring>,
    /// Network; `None` for the first one of the hardware.
    pub over: Option<String>,
}

impl AxisShape {
    /// Parses `4x4 ring over dcn`; `None` if it is something else.
    pub fn parse(text: &str) -> Option<AxisShape> {
        let (ast, found) = super::parse(&format!("mesh {{X: {text}}}"));
        let [statement] = ast.statements.as_slice() else { return None };
        let StatementKind::Mesh { axes, hardware: None } = &statement.kind else { return None };
        let [axis] = axes.as_slice() else { return None };
        let sizes = std::iter::once(&axis.size).chain(&axis.more);
        let sizes = sizes.map(|size| size.value(&mut |_| None).ok().filter(|size| *size > 0));
        let (wiring, over) = (axis.wiring.as_ref(), axis.over.as_ref());
        let shape = AxisShape {
            sizes: sizes.collect::<Option<_>>()?,
            wiring: wiring.map(|wiring| wiring.node),
            over: over.map(|network| network.node.clone()),
        };
        (!found.has_errors()).then_some(shape)
    }

    /// Number of devices along the axis; `u64::MAX` if there are more.
    pub fn devices(&self) -> u64 {
        self.sizes.iter().fold(1, |product, size| product.saturating_mul(*size))
    }

    fn write_to(&self, axis: &mut AxisDecl) {
        let at = axis.size.span;
        let mut sizes = self.sizes.iter().map(|size| SizeExpr::number(*size, at));
        axis.size = sizes.next().expect("an axis has a size");
        axis.more = sizes.collect();
        axis.wiring = self.wiring.map(|node| Spanned { node, span: at });
        axis.over = self.over.clone().map(|node| Spanned { node, span: at });
    }
}

impl fmt::Display for AxisShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.sizes.iter().format("x"))?;
        self.wiring.iter().try_for_each(|wiring| write!(f, " {wiring}"))?;
        self.over.iter().try_for_each(|network| write!(f, " over {network}"))
    }
}

/// What a dim or an axis is set to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// A size; the wiring and the network of an axis stay as written.
    Size(u64),
    /// All that an axis consists of.
    Axis(AxisShape),
}

impl Extent {
    /// The size; of an axis the number of devices along it.
    pub fn size(&self) -> u64 {
        match self {
            Extent::Size(size) => *size,
            Extent::Axis(shape) => shape.devices(),
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Size(size) => write!(f, "{size}"),
            Extent::Axis(shape) => write!(f, "{shape}"),
        }
    }
}

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
    /// A dim has one size.
    #[error("cannot set dim `{name}` to `{shape}`, which is an axis")]
    NoAxis {
        /// The given name.
        name: String,
        /// The given axis.
        shape: String,
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
    pub fn set(&mut self, name: &str, extent: &Extent) -> Result<(), SetError> {
        let mut names = Vec::new();
        for statement in &mut self.statements {
            match &mut statement.kind {
                StatementKind::Dims(decls) => {
                    for decl in decls {
                        if decl.name.node != name {
                            names.push(decl.name.node.clone());
                            continue;
                        }
                        match (&mut decl.size, extent) {
                            (_, Extent::Axis(shape)) => {
                                return Err(SetError::NoAxis { name: name.to_owned(), shape: shape.to_string() });
                            }
                            (DimSize::Is(written), Extent::Size(size)) => {
                                *written = SizeExpr::number(*size, written.span);
                            }
                            (DimSize::Parts(parts), Extent::Size(_)) => {
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
                        match extent {
                            Extent::Axis(shape) => shape.write_to(axis),
                            Extent::Size(_) if !axis.more.is_empty() => {
                                let parts = (1..=axis.more.len() + 1).map(|place| format!("{name}{place}"));
                                return Err(SetError::made_of(name, parts, " x "));
                            }
                            Extent::Size(size) => axis.size = SizeExpr::number(*size, axis.size.span),
                        }
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
    use super::{AxisShape, Extent};
    use crate::syntax::parse;

    #[test]
    fn a_size_given_from_outside_takes_the_place_of_the_written_one() {
        let (mut ast, _) = parse("dims {D: 4, F: 4*D, N = D*F}");
        assert_eq!(ast.set("D", &Extent::Size(8)), Ok(()));
        assert_eq!(ast.to_string(), "dims {D: 8, F: 4*D, N = D*F}\n");
        let unknown = ast.set("Q", &Extent::Size(8)).expect_err("there is no Q").to_string();
        assert_eq!(unknown, "unknown dim or axis `Q`; the program has D, F, N");
        let near = ast.set("DD", &Extent::Size(8)).expect_err("there is no DD").to_string();
        assert_eq!(near, "unknown dim or axis `DD`; did you mean `D`?");
        assert_eq!(
            ast.set("N", &Extent::Size(8)).expect_err("made of parts").to_string(),
            "cannot set `N`: it is the composite D*F"
        );
        let (mut ast, _) = parse("mesh {X: 4, T: 2 x 3}");
        assert_eq!(ast.set("X", &Extent::Size(8)), Ok(()));
        assert_eq!(ast.to_string(), "mesh {X: 8, T: 2x3}\n");
        assert_eq!(
            ast.set("T", &Extent::Size(8)).expect_err("two").to_string(),
            "cannot set `T`: it is the composite T1 x T2"
        );
    }

    #[test]
    fn an_axis_given_from_outside_takes_the_place_of_all_of_the_written_one() {
        for text in ["8", "4x4", "2x3x4 ring", "16 over ib", "4x4 line over dcn"] {
            let shape = AxisShape::parse(text).expect("an axis");
            assert_eq!(shape.to_string(), text);
            let (mut ast, _) = parse("dims {D: 4}\nmesh {X: 4 switch over dcn, T: 2 x 3}");
            assert_eq!(ast.set("T", &Extent::Axis(shape.clone())), Ok(()));
            assert_eq!(ast.set("X", &Extent::Axis(shape.clone())), Ok(()));
            assert_eq!(ast.to_string(), format!("dims {{D: 4}}\nmesh {{X: {text}, T: {text}}}\n"));
            let dim = ast.set("D", &Extent::Axis(shape)).expect_err("a dim").to_string();
            assert_eq!(dim, format!("cannot set dim `D` to `{text}`, which is an axis"));
        }
        for text in
            ["", "0", "4x", "x4", "4 over", "4 rong", "4, Y: 2", "4} on tpu_v5e", "4}\nmesh {X: 4", "D", "4 # x"]
        {
            assert_eq!(AxisShape::parse(text), None, "{text}");
        }
        assert_eq!(AxisShape::parse("4294967296x4294967296").map(|shape| shape.devices()), Some(u64::MAX));
    }
}
