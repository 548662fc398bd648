//! Parsing of words of the JSON and text forms.

use crate::dtype::DType;
use crate::einsum::{Einsum, Index};
use crate::function::{ByNumber, Filler, Function, Relation, Scalar};
use crate::layout::DimId;
use crate::operator::Operator;
use crate::schedule::MOST_DIMS;

pub(super) fn operator(word: &str) -> Option<Operator> {
    Operator::from_name(word)
}

/// Parses `relu`, `scale(0.5)`, `softmax(1)`, `cast(bf16)`.
pub(super) fn function(word: &str) -> Option<Function> {
    if let Some(function) = Function::plain().find(|function| function.to_string() == word) {
        return Some(function);
    }
    let (name, argument) = word.strip_suffix(')')?.split_once('(')?;
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
