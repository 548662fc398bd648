//! What the generator knows of an array, and how it writes layouts.

use super::choices::Choices;
use super::machine::{Dims, Machine};
use shardc::dtype::DType;
use shardc::operator::Operator;

/// Pieces that are still to be combined, over these axes.
pub(crate) type Open = Option<(Operator, Vec<usize>)>;

/// The axes on each dim of an array, and its open sum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sharding {
    pub(crate) axes: Vec<Vec<usize>>,
    pub(crate) open: Open,
}

impl Sharding {
    /// All axes that are spent.
    pub(crate) fn spent(&self) -> Vec<usize> {
        self.axes.iter().flatten().chain(self.open.iter().flat_map(|(_, axes)| axes)).copied().collect()
    }
}

/// What is known of the elements of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// No element is larger, nor any sum of the absolute values that it is made of.
    pub(crate) most: f64,
    /// All are integers, and computed without rounding in whatever order.
    pub(crate) exact: bool,
}

/// The type of a value.
#[derive(Clone, Debug)]
pub(crate) struct Type {
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<usize>,
    /// Where it is written; otherwise the compiler picks it.
    pub(crate) layout: Option<Sharding>,
    /// The open sum that a written layout left in it, whether the layout is still known or not.
    pub(crate) open: Open,
    pub(crate) range: Range,
}

/// A value with a name.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) computed: bool,
}

/// The largest magnitude that is let into a dtype.
pub(crate) fn room(dtype: DType) -> f64 {
    match dtype {
        DType::Bool => 1.0,
        DType::I8 => 100.0,
        DType::F16 => 2e4,
        DType::I32 | DType::Bf16 => 1e7,
        DType::I64 | DType::F32 | DType::F64 => 1e9,
    }
}

/// Up to which magnitude all integers are in a dtype.
pub(crate) fn integers(dtype: DType) -> f64 {
    match dtype {
        DType::Bf16 => 256.0,
        DType::F16 => 2048.0,
        DType::F32 => 16e6,
        DType::Bool | DType::I8 | DType::I32 | DType::I64 | DType::F64 => f64::INFINITY,
    }
}

/// Whether pieces of this dtype can be combined so.
pub(crate) fn combines(operator: Operator, dtype: DType) -> bool {
    match operator {
        Operator::And | Operator::Or => dtype == DType::Bool,
        Operator::Mean => dtype.is_float(),
        Operator::Sum | Operator::Max | Operator::Min | Operator::Mul | Operator::SquareAdd => dtype != DType::Bool,
        Operator::Root => true,
    }
}

/// Names of axes behind a `_`, without it.
pub(crate) fn axes_text(choices: &mut Choices, machine: &Machine, axes: &[usize]) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < axes.len() {
        let word = machine.words.iter().find(|(_, parts)| axes[at..].starts_with(parts));
        match word.filter(|_| choices.chance(1, 2)) {
            Some((name, parts)) => {
                names.push(name);
                at += parts.len();
            }
            None => {
                names.push(&machine.leaves[axes[at]].name);
                at += 1;
            }
        }
    }
    let short = names.iter().all(|name| name.len() == 1);
    match names.as_slice() {
        [only] if !choices.chance(1, 12) => (*only).to_owned(),
        names if short && !choices.chance(1, 5) => names.concat(),
        names => format!("{{{}}}", names.join(choices.one(&[",", ", "]))),
    }
}

/// The axes of an open sum or behind a function: braces where they are a word.
fn braced(text: &str) -> String {
    if text.starts_with('{') || text.len() == 1 { text.to_owned() } else { format!("{{{text}}}") }
}

/// `_X`, `_{XY}`, `_{data,X}`
pub(crate) fn subscript(choices: &mut Choices, machine: &Machine, axes: &[usize]) -> String {
    let text = axes_text(choices, machine, axes);
    format!("_{}", braced(&text))
}

/// How often the axes cut a dim.
pub(crate) fn pieces(machine: &Machine, axes: &[usize]) -> u64 {
    axes.iter().map(|axis| machine.leaves[*axis].size).product()
}

/// `[I_X, J]{U_Y}`; of dims with holes `None`.
pub(crate) fn brackets(
    choices: &mut Choices,
    (machine, dims): (&Machine, &Dims),
    names: &[usize],
    axes: &[Option<Vec<usize>>],
    open: &Open,
) -> String {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < names.len() {
        let merged = dims.merged.as_ref().filter(|(_, k, m)| {
            names.get(at) == Some(k) && names.get(at + 1) == Some(m) && axes[at].is_some() && axes[at + 1].is_some()
        });
        if let Some((name, k, _)) = merged {
            let (major, minor) = (axes[at].clone().unwrap_or_default(), axes[at + 1].clone().unwrap_or_default());
            let size = dims.list[*k].size;
            let all: Vec<usize> = major.iter().chain(&minor).copied().collect();
            // Where an axis of one device stands is nothing that the merged name can say.
            let clear = all.iter().all(|axis| machine.leaves[*axis].size > 1);
            let major_pieces = pieces(machine, &major);
            if clear && size % major_pieces == 0 && (minor.is_empty() || size == major_pieces) && choices.chance(1, 2) {
                let text =
                    if all.is_empty() { String::new() } else { format!("_{}", axes_text(choices, machine, &all)) };
                parts.push(format!("{name}{text}"));
                at += 2;
                continue;
            }
        }
        let name = &dims.list[names[at]].name;
        parts.push(match &axes[at] {
            None => format!("{name}_?"),
            Some(axes) if axes.is_empty() => name.clone(),
            Some(axes) => format!("{name}_{}", axes_text(choices, machine, axes)),
        });
        at += 1;
    }
    let sum = open.as_ref().map(|(operator, axes)| {
        let text = axes_text(choices, machine, axes);
        format!("{{{}_{text}}}", operator.word())
    });
    format!("[{}]{}", parts.join(", "), sum.unwrap_or_default())
}
