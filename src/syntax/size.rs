//! Sizes: a number, a name, or integer arithmetic: `8192`, `4*D`, `128/(2*8)`.

use super::Name;
use crate::span::Span;
use std::fmt::{self, Display, Formatter};

/// A size expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeExpr {
    /// Its form.
    pub kind: SizeKind,
    /// Source span.
    pub span: Span,
}

/// The forms of a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeKind {
    /// `8192`.
    Number(u64),
    /// `D`: the size of another dim, or of another axis.
    Name(String),
    /// `(2*8)`.
    Group(Box<SizeExpr>),
    /// `4*D/2`, or `D+1-2`: left to right, all operators of equal precedence.
    Chain {
        /// The first operand.
        first: Box<SizeExpr>,
        /// The operators and their right operands.
        rest: Vec<(SizeSign, SizeExpr)>,
    },
}

/// An operator between sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeSign {
    /// `+`.
    Plus,
    /// `-`.
    Minus,
    /// `*`.
    Times,
    /// `/`, without remainder.
    Over,
    /// `**`.
    Power,
}

/// Why a size has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeFlaw {
    /// The name is unknown, or its own size has an error.
    Unknown(Name),
    /// The message and its place.
    Arithmetic(String, Span),
}

impl SizeExpr {
    /// A number.
    pub fn number(size: u64, span: Span) -> SizeExpr {
        SizeExpr { kind: SizeKind::Number(size), span }
    }

    /// The value, given the sizes of names.
    ///
    /// # Errors
    /// A name without a size; a result that is not an integer, is negative, or does not fit 64 bits.
    pub fn value(&self, named: &mut dyn FnMut(&Name) -> Option<u64>) -> Result<u64, SizeFlaw> {
        match &self.kind {
            SizeKind::Number(size) => Ok(*size),
            SizeKind::Name(name) => {
                let name = Name { node: name.clone(), span: self.span };
                named(&name).ok_or(SizeFlaw::Unknown(name))
            }
            SizeKind::Group(inner) => inner.value(named),
            SizeKind::Chain { first, rest } => {
                let mut value = first.value(named)?;
                for (sign, operand) in rest {
                    let right = operand.value(named)?;
                    value = sign
                        .apply(value, right)
                        .map_err(|why| SizeFlaw::Arithmetic(format!("{value} {sign} {right} {why}"), self.span))?;
                }
                Ok(value)
            }
        }
    }

    /// The names, one entry per use.
    pub fn names(&self) -> Vec<&str> {
        match &self.kind {
            SizeKind::Number(_) => Vec::new(),
            SizeKind::Name(name) => vec![name],
            SizeKind::Group(inner) => inner.names(),
            SizeKind::Chain { first, rest } => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, operand)| operand)).flat_map(Self::names).collect()
            }
        }
    }
}

impl SizeSign {
    fn apply(self, left: u64, right: u64) -> Result<u64, &'static str> {
        let value = match self {
            SizeSign::Plus => left.checked_add(right),
            SizeSign::Times => left.checked_mul(right),
            SizeSign::Minus => return left.checked_sub(right).ok_or("is negative"),
            SizeSign::Over if right == 0 => return Err("divides by zero"),
            SizeSign::Over if !left.is_multiple_of(right) => return Err("is not a whole number"),
            SizeSign::Over => Some(left / right),
            // With 64 and more, only 0 and 1 fit.
            SizeSign::Power => left.checked_pow(u32::try_from(right.min(64)).unwrap_or(64)),
        };
        value.ok_or("does not fit into 64 bits")
    }
}

impl Display for SizeSign {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SizeSign::Plus => "+",
            SizeSign::Minus => "-",
            SizeSign::Times => "*",
            SizeSign::Over => "/",
            SizeSign::Power => "**",
        })
    }
}

impl Display for SizeExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            SizeKind::Number(size) => write!(f, "{size}"),
            SizeKind::Name(name) => f.write_str(name),
            SizeKind::Group(inner) => write!(f, "({inner})"),
            SizeKind::Chain { first, rest } => {
                write!(f, "{first}")?;
                rest.iter().try_for_each(|(sign, operand)| write!(f, "{sign}{operand}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::{StatementKind, parse};

    /// The value of a size in a `dims` statement, where `D` is 16.
    fn value(text: &str) -> Result<u64, SizeFlaw> {
        let (ast, diagnostics) = parse(&format!("dims {{F: {text}}}"));
        assert!(!diagnostics.has_errors(), "{text}: {diagnostics:?}");
        let StatementKind::Dims(dims) = &ast.statements[0].kind else { panic!("{text}") };
        let super::super::DimSize::Is(size) = &dims[0].size else { panic!("{text}") };
        size.value(&mut |name| (name.node == "D").then_some(16))
    }

    #[test]
    fn products_bind_stronger_than_sums() {
        for (text, expected) in [
            ("8", 8),
            ("4*D", 64),
            ("128/(2*8)", 8),
            ("1+2*3", 7),
            ("(1+2)*3", 9),
            ("D - 4 - 2", 10),
            ("8k", 8192),
            ("2M/D", 131_072),
            ("2**15", 32768),
            ("2*2**(3**2)", 1024),
            ("1**99", 1),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_has_no_value_is_told() {
        for (text, why) in [
            ("7/2", "7 / 2 is not a whole number"),
            ("2-3", "2 - 3 is negative"),
            ("D/0", "16 / 0 divides by zero"),
            ("2**64", "2 ** 64 does not fit into 64 bits"),
            ("2**(2**63)", "2 ** 9223372036854775808 does not fit into 64 bits"),
            ("1 + 9223372036854775807*3", "9223372036854775807 * 3 does not fit into 64 bits"),
        ] {
            let found = value(text);
            assert!(matches!(&found, Err(SizeFlaw::Arithmetic(said, _)) if said == why), "{text}: {found:?}");
        }
        assert!(matches!(value("2*Q"), Err(SizeFlaw::Unknown(name)) if name.node == "Q"));
    }
}
