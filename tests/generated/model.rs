//! The generator's knowledge of an array, and its spelling of layouts.

use super::choices::Choices;
use super::machine::{Dims, Machine};
use shardc::dtype::DType;
use shardc::mesh::DeviceId;
use shardc::operator::Operator;

/// The operator and axes of an open sum.
pub(crate) type Open = Option<(Operator, Vec<usize>)>;

/// The axes on each dim of an array, and its open sum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sharding {
    pub(crate) axes: Vec<Vec<usize>>,
    pub(crate) open: Open,
}

impl Sharding {
    /// All axes in use.
    pub(crate) fn spent(&self) -> Vec<usize> {
        self.axes.iter().flatten().chain(self.open.iter().flat_map(|(_, axes)| axes)).copied().collect()
    }
}

/// Known properties of an array's elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// Bound on the elements, and on any sum of the absolute values that they are computed from.
    pub(crate) most: f64,
    /// Whether all are integers, computed without rounding in any order.
    pub(crate) exact: bool,
}

/// The type of a value.
#[derive(Clone, Debug)]
pub(crate) struct Type {
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<usize>,
    /// The written layout; `None` if the compiler chooses it.
    pub(crate) layout: Option<Sharding>,
    /// The open sum that a written layout left, whether or not the layout is still known.
    pub(crate) open: Open,
    pub(crate) range: Range,
}

/// A named value.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) computed: bool,
}

/// All dtypes, the simplest first.
pub(crate) const DTYPES: [DType; 17] = [
    DType::F32,
    DType::Bf16,
    DType::I32,
    DType::Bool,
    DType::F16,
    DType::I8,
    DType::F64,
    DType::I64,
    DType::F8E4M3,
    DType::U8,
    DType::F8E5M2,
    DType::U32,
    DType::I16,
    DType::U16,
    DType::U64,
    DType::I4,
    DType::U4,
];

pub(crate) fn is_unsigned(dtype: DType) -> bool {
    matches!(dtype, DType::U4 | DType::U8 | DType::U16 | DType::U32 | DType::U64)
}

/// Maximum magnitude that is allowed for a dtype.
pub(crate) fn room(dtype: DType) -> f64 {
    match dtype {
        DType::Bool => 1.0,
        DType::I4 | DType::U4 => 7.0,
        DType::I8 | DType::U8 | DType::F8E4M3 => 100.0,
        DType::I16 | DType::U16 | DType::F16 | DType::F8E5M2 => 2e4,
        DType::I32 | DType::U32 | DType::Bf16 => 1e7,
        DType::I64 | DType::U64 | DType::F32 | DType::F64 => 1e9,
    }
}

/// Magnitude up to which a dtype represents all integers.
pub(crate) fn integers(dtype: DType) -> f64 {
    match dtype {
        DType::F8E5M2 => 8.0,
        DType::F8E4M3 => 16.0,
        DType::Bf16 => 256.0,
        DType::F16 => 2048.0,
        DType::F32 => 16e6,
        _ => f64::INFINITY,
    }
}

/// Whether pieces of this dtype can be combined with the operator.
pub(crate) fn combines(operator: Operator, dtype: DType) -> bool {
    match operator {
        Operator::And | Operator::Or => dtype == DType::Bool,
        Operator::Mean => dtype.is_float(),
        Operator::Sum | Operator::Max | Operator::Min | Operator::Mul | Operator::SquareAdd => dtype != DType::Bool,
        Operator::Root(_) => true,
    }
}

/// The axes of a subscript, without `_`.
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

/// The axes of an open sum or of a function, in braces if they form a word.
fn braced(text: &str) -> String {
    if text.starts_with('{') || text.len() == 1 { text.to_owned() } else { format!("{{{text}}}") }
}

/// A subscript: `_X`, `_{XY}`, `_{data,X}`.
pub(crate) fn subscript(choices: &mut Choices, machine: &Machine, axes: &[usize]) -> String {
    let text = axes_text(choices, machine, axes);
    format!("_{}", braced(&text))
}

/// Number of pieces into which the axes cut a dim.
pub(crate) fn pieces(machine: &Machine, axes: &[usize]) -> u64 {
    axes.iter().map(|axis| machine.leaves[*axis].size).product()
}

/// The brackets of a layout, `[I_X, J]{U_Y}`; `None` for dims with holes.
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
            // The merged name cannot express the position of an axis of size 1.
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
        let root = match operator {
            Operator::Root(DeviceId(rank)) if *rank > 0 => format!("={rank}"),
            _ => String::new(),
        };
        format!("{{{}_{text}{root}}}", operator.word())
    });
    format!("[{}]{}", parts.join(", "), sum.unwrap_or_default())
}
