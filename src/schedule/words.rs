//! Parsing of words of the JSON and text forms.

use crate::dtype::DType;
use crate::einsum::{Einsum, Index, letter};
use crate::function::{ByNumber, Filler, Function, Relation, Scalar};
use crate::kernel::{Formula, FormulaStep, Kernel, Local};
use crate::layout::DimId;
use crate::operator::Operator;
use crate::schedule::MOST_DIMS;
use crate::shift::Shift;
use itertools::Itertools;

/// What a kernel looks like, for messages.
pub(super) const KERNELS: &str = "a kernel such as `sort(ab->ab; sizes 8 16; shard a; flops 100)`";

pub(super) fn operator(word: &str) -> Option<Operator> {
    Operator::from_name(word)
}

/// Parses `relu`, `scale(0.5)`, `softmax(1)`, `cast(bf16)`.
pub(super) fn function(word: &str) -> Option<Function> {
    if let Some(function) = Function::plain().find(|function| function.to_string() == word) {
        return Some(function);
    }
    let (name, argument) = word.strip_suffix(')')?.split_once('(')?;
    if let (Some((dim, by)), "shift" | "roll") = (argument.split_once(", "), name) {
        let shift = Shift { dim: dim.parse().ok()?, by: by.parse().ok()?, wraps: name == "roll" };
        return Some(Function::Shift(shift));
    }
    if let Some(by) = ByNumber::ALL.into_iter().find(|by| by.word() == name) {
        return argument.parse().ok().map(|number| Function::ByNumber(by, Scalar(number)));
    }
    if let Some(relation) = Relation::ALL.into_iter().find(|relation| relation.word() == name) {
        return argument.parse().ok().map(|number| Function::IsNumber(relation, Scalar(number)));
    }
    match name {
        "masked" => argument.parse().ok().map(|number| Function::Masked(Scalar(number))),
        "over" => argument.parse().ok().map(Function::Over),
        "softmax" => argument.parse().ok().map(|dim| Function::Softmax { dim }),
        "fill" => {
            let (dim, rest) = argument.split_once(", ")?;
            let (valid, with) = rest.split_once(", ")?;
            Some(Function::Fill { dim: dim.parse().ok()?, valid: valid.parse().ok()?, with: filler(with)? })
        }
        "cast" => argument.parse::<DType>().ok().map(Function::Cast),
        _ => None,
    }
}

pub(super) fn filler(word: &str) -> Option<Filler> {
    Filler::ALL.into_iter().find(|filler| filler.word() == word)
}

/// Parses `ab,bc->ac` with any letters, which are renumbered by first appearance.
pub(super) fn einsum(word: &str) -> Option<Einsum> {
    let (operands, result) = word.split_once("->")?;
    let letters = operands.chars().filter(|letter| *letter != ',');
    if operands.len() + result.len() > 16 * MOST_DIMS
        || !letters.chain(result.chars()).all(char::is_alphabetic)
        || !result.chars().all(|letter| operands.contains(letter))
    {
        return None;
    }
    let dims = |letters: &str| -> Vec<DimId> { letters.chars().map(|letter| DimId(u32::from(letter))).collect() };
    let operands: Vec<Vec<DimId>> = operands.split(',').map(dims).collect();
    let distinct: std::collections::BTreeSet<DimId> = operands.iter().flatten().copied().collect();
    (distinct.len() <= MOST_DIMS && Index::try_from(distinct.len()).is_ok())
        .then(|| Einsum::new(&operands, &dims(result)))
}

/// Formats a declared kernel: `sort(ab->ab; sizes 8 16; shard a; flops 100; bytes 50)`.
pub(super) fn kernel_text(kernel: &Kernel) -> String {
    let letters: Vec<char> = (0..).take(kernel.lengths.len()).map(letter).collect();
    let sizes = kernel.lengths.iter().join(" ");
    let sharded: String =
        letters.iter().zip(&kernel.sharded).filter(|(_, is)| **is).map(|(letter, _)| letter).collect();
    let mut text = format!("{}({}; sizes {sizes}", kernel.name, kernel.einsum);
    if !sharded.is_empty() {
        text += &format!("; shard {sharded}");
    }
    text += &format!("; flops {}", kernel.flops);
    if let Some(bytes) = kernel.bytes {
        text += &format!("; bytes {bytes}");
    }
    if let Some(formula) = &kernel.formula {
        text += &format!("; computes {}", formula_text(formula));
    }
    text + ")"
}

/// Formats `* 0 1 by ab,bc->ac : f32 | relu 2 by ab->ab : f32 | 3`: the steps, and the value of the kernel.
fn formula_text(formula: &Formula) -> String {
    let step = |step: &FormulaStep| {
        let (operands, einsum) = (step.operands.iter().join(" "), step.op.einsum());
        let word = match &step.op {
            Local::Product(_) => "*".to_owned(),
            Local::Reduce(operator, _) => format!("reduce {operator}"),
            Local::Map(function, _) => function.to_string(),
        };
        format!("{word} {operands} by {einsum} : {}", step.dtype)
    };
    formula.steps.iter().map(step).chain([formula.result.to_string()]).join(" | ")
}

fn formula(text: &str) -> Option<Formula> {
    let parts: Vec<&str> = text.split(" | ").collect();
    let (result, steps) = parts.split_last()?;
    let steps = steps.iter().map(|step| {
        let (step, dtype) = step.split_once(" : ")?;
        let (call, by) = step.split_once(" by ")?;
        let numbers = call.rfind(|c: char| !c.is_ascii_digit() && c != ' ').map_or(0, |at| at + 1);
        let (word, operands) = call.split_at(numbers);
        let operands = operands.split_whitespace().map(|number| number.parse().ok()).collect::<Option<Vec<usize>>>()?;
        let by = einsum(by)?;
        let op = match word.strip_prefix("reduce ") {
            Some(word) => Local::Reduce(operator(word)?, by),
            None if word == "*" => Local::Product(by),
            None => Local::Map(function(word)?, by),
        };
        Some(FormulaStep { op, operands, dtype: dtype.parse().ok()? })
    });
    Some(Formula { steps: steps.collect::<Option<_>>()?, result: result.parse().ok()? })
}

/// Parses a declared kernel. Its letters are renumbered by first appearance, as are those of `shard`; sizes are in that
/// order.
pub(super) fn kernel(word: &str) -> Option<Kernel> {
    let (name, facts) = word.strip_suffix(')')?.split_once('(')?;
    let mut facts = facts.split("; ");
    let (operands, result) = facts.next()?.split_once("->")?;
    let all: Vec<char> = operands.chars().filter(|c| *c != ',').chain(result.chars()).unique().collect();
    if !all.iter().all(|letter| letter.is_alphabetic()) || all.len() > MOST_DIMS {
        return None;
    }
    let dims = |letters: &str| -> Vec<DimId> { letters.chars().map(|letter| DimId(u32::from(letter))).collect() };
    let einsum = Einsum::with_new_dims(&operands.split(',').map(dims).collect::<Vec<_>>(), &dims(result));
    let (mut lengths, mut sharded, mut flops, mut bytes) = (Vec::new(), vec![false; all.len()], None, None);
    let mut computes = None;
    for fact in facts {
        match fact.split_once(' ')? {
            ("sizes", sizes) => lengths = sizes.split(' ').map(|size| size.parse().ok()).collect::<Option<_>>()?,
            ("shard", letters) => {
                for letter in letters.chars() {
                    sharded[all.iter().position(|known| *known == letter)?] = true;
                }
            }
            ("flops", number) => flops = Some(number.parse().ok()?),
            ("bytes", number) => bytes = Some(number.parse().ok()?),
            ("computes", text) => computes = Some(formula(text)?),
            _ => return None,
        }
    }
    Some(Kernel { name: name.to_owned(), einsum, lengths, sharded, flops: flops?, bytes, formula: computes })
}
