//! Running error analysis: bounds the distance of each element from its exact value, operation by operation.
//!
//! Each block of values has a block of bounds in f64. A bound holds for any order of the kernel's additions: the
//! computed value, and the value that any other order would give, are at most that far from the result of exact
//! arithmetic. So two such values differ by at most twice the bound.
//!
//! ```text
//! sum of n    sum of bounds + gamma_(n-1) * sum of |terms|
//! product     (|A| + a)(|B| + b) - |A| |B| + gamma_n * |A| |B|
//! max, min    the largest bound
//! function    its variation over the interval, plus the rounding errors of its formula
//! then        one rounding to the dtype of the result
//! ```
//!
//! A bound is infinite where a number may overflow, as any result is then possible. An infinity or a NaN with a finite
//! bound results from every order of the additions. A product with an infinite factor has no finite bound: if the other
//! factor is a sum that is still open, its parts may meet the infinity separately, as 0 or with another sign.

use super::map::lined_up;
use super::pad::shifted;
use super::product::product;
use super::roles::result_extents;
use super::rounding::{Precision, SLACK};
use super::tensor::Tensor;
use super::term::Term;
use super::unary;
use super::view::{View, row_major};
use crate::dtype::DType;
use crate::einsum::{Einsum, Index};
use crate::function::{Binary, ByNumber, Function, Scalar, Unary};
use crate::operator::Operator;

/// A block with its bounds.
#[derive(Clone, Copy)]
pub(super) struct Bounded<'a> {
    pub(super) value: &'a Tensor,
    /// Bounds in f64, with the same extents.
    pub(super) bound: &'a Tensor,
}

impl Bounded<'_> {
    fn terms(self) -> Vec<Term> {
        let pairs = self.value.to_f64s().into_iter().zip(self.bound.to_f64s());
        pairs.map(|(value, bound)| Term { value, bound }).collect()
    }

    fn is_exact(self) -> bool {
        is_exact(self.bound)
    }

    /// Values and bounds under another view.
    fn viewed(self, view: impl Fn(&View) -> View) -> [Tensor; 2] {
        [self.value, self.bound].map(|tensor| tensor.with_view(view(tensor.view())))
    }

    /// `|value| + times * bound`
    fn magnitudes(self, times: f64) -> Tensor {
        let terms = self.terms().into_iter();
        let elements = terms.map(|term| term.value.abs() + if term.bound == 0.0 { 0.0 } else { times * term.bound });
        Tensor::owned(&self.value.view().extents, elements.collect())
    }
}

/// Whether the bound is larger than `most`, or a NaN.
fn exceeds(bound: f64, most: f64) -> bool {
    bound.is_nan() || bound > most
}

/// Bounds of exact elements.
pub(super) fn exact(extents: &[usize]) -> Tensor {
    let view = View { offset: 0, extents: extents.to_vec(), strides: vec![0; extents.len()] };
    Tensor::owned(&[1], vec![0f64]).with_view(view)
}

fn is_exact(bound: &Tensor) -> bool {
    let mut exact = true;
    bound.visit(|bound: f64| exact &= bound == 0.0);
    exact
}

/// Collects bounds; a NaN becomes an infinite bound.
fn bounds(extents: &[usize], elements: impl Iterator<Item = f64>) -> Tensor {
    Tensor::owned(extents, elements.map(|bound| if bound.is_nan() { f64::INFINITY } else { bound }).collect())
}

/// The bounds of blocks combined with `operator`.
///
/// - `value`: the computed result.
/// - `fused`: the number of additional roundings, if products are accumulated onto the sum.
pub(super) fn added(operator: Operator, blocks: &[Bounded<'_>], value: &Tensor, fused: f64) -> Tensor {
    let extents = &value.view().extents;
    if let [block] = blocks {
        return block.bound.clone();
    }
    let dtype = value.dtype();
    if !dtype.is_float() && blocks.iter().all(|block| block.is_exact()) {
        return exact(extents);
    }
    let blocks: Vec<Vec<Term>> = blocks.iter().map(|block| block.terms()).collect();
    let roundings = (blocks.len() - 1) as f64 + fused;
    let values = value.to_f64s().into_iter().enumerate();
    let fold = Fold { operator, roundings, dtype, stepwise: true };
    bounds(extents, values.map(|(place, value)| fold.bound(blocks.iter().map(|terms| terms[place]), value)))
}

/// The bounds of a reduction over the indices that the einsum contracts.
pub(super) fn reduced(operator: Operator, einsum: &Einsum, of: Bounded<'_>, value: &Tensor) -> Tensor {
    let (lengths, extents) = result_extents(einsum, &[&of.value.view().extents]);
    if !value.dtype().is_float() && of.is_exact() {
        return exact(&value.view().extents);
    }
    let order: Vec<Index> = einsum.result.iter().copied().chain(einsum.contracted()).collect();
    let all: Vec<usize> = order.iter().map(|index| lengths[usize::from(*index)]).collect();
    let run: usize = all[extents.len()..].iter().product();
    let in_order = |view: &View| {
        let stride = |index: &Index| -> usize {
            let places = einsum.operands[0].iter().zip(&view.strides);
            places.filter(|(other, _)| *other == index).map(|(_, stride)| stride).sum()
        };
        View { offset: view.offset, extents: all.clone(), strides: order.iter().map(stride).collect() }
    };
    let [values, bound] = of.viewed(in_order);
    let terms = Bounded { value: &values, bound: &bound }.terms();
    let fold = Fold { operator, roundings: run as f64, dtype: value.dtype(), stepwise: false };
    let runs = terms.chunks(run.max(1)).zip(value.to_f64s());
    bounds(&value.view().extents, runs.map(|(run, value)| fold.bound(run.iter().copied(), value)))
}

/// A combination of many elements into one.
struct Fold {
    operator: Operator,
    /// Number of roundings in the kernel's arithmetic.
    roundings: f64,
    /// Dtype of the result.
    dtype: DType,
    /// Whether a product is rounded to the dtype after each step.
    stepwise: bool,
}

impl Fold {
    fn bound(&self, terms: impl Iterator<Item = Term> + Clone, value: f64) -> f64 {
        match self.operator {
            Operator::Max | Operator::Min | Operator::And | Operator::Or | Operator::Root(_) => {
                terms.map(|term| term.bound).fold(0.0, f64::max)
            }
            Operator::Sum | Operator::Mean | Operator::SquareAdd => self.sum(terms, value),
            Operator::Mul => self.product(terms, value),
        }
    }

    fn finish(&self, bound: f64, value: f64) -> f64 {
        if self.dtype.is_narrow_float() { Precision::of(self.dtype).rounded(bound, value) } else { bound * SLACK }
    }

    fn sum(&self, terms: impl Iterator<Item = Term> + Clone, value: f64) -> f64 {
        let arithmetic = Precision::accumulated(self.dtype);
        let (mut total, mut spread, mut special) = (0.0, 0.0, false);
        for term in terms {
            spread += term.bound;
            if term.value.is_finite() {
                total += term.most();
            } else {
                special = true;
            }
        }
        // Half of the maximum, because a product accumulated onto the sum may be larger at intermediate steps.
        if spread.is_nan() || spread == f64::INFINITY || total > arithmetic.most / 2.0 {
            return f64::INFINITY;
        }
        // An infinity or a NaN persists, wherever it is added.
        if special {
            return 0.0;
        }
        self.finish(spread + arithmetic.gamma(self.roundings) * total, value)
    }

    /// Bounds a product in any order: intermediate results may be the product of any subset of the factors.
    fn product(&self, terms: impl Iterator<Item = Term> + Clone, value: f64) -> f64 {
        let (mut widest, mut wide, mut reach, mut spread, mut special) = (1.0, 1.0, 1.0, 0.0, false);
        for term in terms {
            widest *= term.most();
            wide *= term.value.abs() + term.bound;
            reach *= term.most().max(1.0);
            spread += term.bound;
            special |= !term.value.is_finite();
        }
        if !self.dtype.is_float() && spread == 0.0 {
            return 0.0;
        }
        let step = Precision::of(self.dtype);
        let arithmetic = Precision::accumulated(self.dtype);
        let narrow = if self.stepwise { step } else { arithmetic };
        if special || exceeds(reach, narrow.most) {
            return f64::INFINITY;
        }
        let count = self.roundings + 1.0;
        let rounding =
            narrow.gamma(count) + arithmetic.gamma(count) + if spread == 0.0 { 0.0 } else { count * CANCELLED };
        self.finish((widest - wide).max(0.0) + rounding * widest + count * narrow.tiny * reach, value)
    }
}

/// Relative error of a term from cancellation in the difference of two products of bounds.
const CANCELLED: f64 = 1.0 / (1u64 << 50) as f64;

/// The bounds of a product.
pub(super) fn multiplied(einsum: &Einsum, factors: [Bounded<'_>; 2], value: &Tensor) -> Tensor {
    let extents = &value.view().extents;
    let (dtype, are_exact) = (value.dtype(), factors.iter().all(|factor| factor.is_exact()));
    if !dtype.is_float() && are_exact {
        return exact(extents);
    }
    let (lengths, _) = result_extents(einsum, &factors.map(|factor| &factor.value.view().extents[..]));
    let inner = einsum.contracted().iter().map(|index| lengths[usize::from(*index)] as f64).product::<f64>();
    let magnitudes = |times: f64| {
        let [a, b] = factors.map(|factor| factor.magnitudes(times));
        product(einsum, &a, &b, DType::F64).to_f64s()
    };
    let widest = magnitudes(2.0);
    let wide = if are_exact { Vec::new() } else { magnitudes(1.0) };
    let (arithmetic, own) = (Precision::accumulated(dtype), Precision::of(dtype));
    let lost = if are_exact { 0.0 } else { (inner + 4.0) * CANCELLED };
    // Each term is rounded and added, and may have been widened from an integer first.
    let rounding = arithmetic.gamma(2.0 * inner + 4.0) + lost;
    let bound = |(place, value): (usize, f64)| {
        let widest = widest[place];
        if exceeds(widest, arithmetic.most / 2.0) {
            return f64::INFINITY;
        }
        let spread = wide.get(place).map_or(0.0, |wide| (widest - wide).max(0.0));
        let bound = spread + rounding * widest + inner * arithmetic.tiny;
        if own == arithmetic { bound * SLACK } else { own.rounded(bound, value) }
    };
    bounds(extents, value.to_f64s().into_iter().enumerate().map(bound))
}

/// The bounds of an elementwise function, or of a function along a dim.
pub(super) fn mapped(function: Function, einsum: &Einsum, operands: &[Bounded<'_>], value: &Tensor) -> Tensor {
    let extents = &value.view().extents;
    let dtypes: Vec<DType> = operands.iter().map(|operand| operand.value.dtype()).collect();
    let are_exact = operands.iter().all(|operand| operand.is_exact());
    let copies = dtypes.iter().all(|dtype| *dtype == value.dtype()) && function.facts().selects;
    if are_exact && (copies || !value.dtype().is_float()) {
        return exact(extents);
    }
    if let Function::Shift(shift) = function {
        let [_, bound] = operands[0].viewed(|view| lined_up(view, &einsum.operands[0], einsum, extents));
        return shifted(&bound, shift);
    }
    let operands: Vec<Vec<Term>> = operands
        .iter()
        .zip(&einsum.operands)
        .map(|(operand, indices)| {
            let [value, bound] = operand.viewed(|view| lined_up(view, indices, einsum, extents));
            Bounded { value: &value, bound: &bound }.terms()
        })
        .collect();
    let chooses = matches!(function, Function::Where | Function::Masked(_))
        && dtypes[1..].iter().all(|dtype| *dtype == value.dtype());
    let values = value.to_f64s();
    if let Function::Softmax { dim } = function {
        let dim = usize::from(dim);
        return softmax(&operands[0], &values, value.dtype(), extents, (row_major(extents)[dim], extents[dim]));
    }
    let each = Each { function, from: dtypes[0], to: value.dtype(), copies: copies || chooses };
    let bound = |(place, value): (usize, f64)| {
        let terms: Vec<Term> = operands.iter().map(|terms| terms[place]).collect();
        each.bound(&terms, value)
    };
    bounds(extents, values.into_iter().enumerate().map(bound))
}

/// A function of aligned elements.
struct Each {
    function: Function,
    /// Dtype of the first operand.
    from: DType,
    to: DType,
    /// Whether the function copies its operand without rounding.
    copies: bool,
}

/// Error bound of the functions' formulas, in units of roundoff.
const FORMULA: f64 = 8.0;

impl Each {
    fn bound(&self, terms: &[Term], value: f64) -> f64 {
        // The operand that a mask does not select may be anything.
        let terms = match (self.function, terms) {
            (Function::Where | Function::Masked(_), [mask, ..]) if mask.bound > 0.0 => return f64::INFINITY,
            (Function::Where, [mask, yes, no]) => &[if mask.value == 0.0 { *no } else { *yes }][..],
            (Function::Masked(_), [mask, yes]) => &[if mask.value == 0.0 { Term { value, bound: 0.0 } } else { *yes }],
            _ => terms,
        };
        if !terms.iter().all(|term| term.bound < f64::INFINITY) {
            return f64::INFINITY;
        }
        if terms.iter().all(|term| term.bound == 0.0) && (!value.is_finite() || !self.to.is_float()) {
            // All orders see the same bits, except for the sign of a zero.
            return if self.divides_by_zero(terms) { f64::INFINITY } else { 0.0 };
        }
        if let Function::Is(_) | Function::IsNumber(..) = self.function {
            // If the operands' intervals are disjoint, the order of the values is certain.
            let other =
                terms.get(1).copied().unwrap_or(Term { value: self.function.number().unwrap_or(0.0), bound: 0.0 });
            let (apart, unsure) = ((terms[0].value - other.value).abs(), terms[0].bound + other.bound);
            return if apart > 2.0 * unsure { 0.0 } else { f64::INFINITY };
        }
        let adds = matches!(self.function, Function::Binary(Binary::Add | Binary::Sub));
        if adds && !value.is_finite() && terms.iter().any(|term| !term.value.is_finite()) {
            // An infinity or a NaN persists, whatever is added.
            return 0.0;
        }
        let (spread, formula) = self.spread(terms);
        if self.copies {
            return spread;
        }
        if !self.to.is_float() {
            let stays = self.reach(terms) <= Precision::of(self.to).most && !self.falls_below_zero(terms);
            return if stays { spread } else { f64::INFINITY };
        }
        let arithmetic = if self.from == DType::F64 || self.to == DType::F64 { DType::F64 } else { DType::F32 };
        let (arithmetic, own) = (Precision::of(arithmetic), Precision::of(self.to));
        let units = if self.function.facts().selects { 2.0 } else { FORMULA };
        let bound = spread + units * arithmetic.unit * (value.abs() + 2.0 * spread + formula) + units * arithmetic.tiny;
        own.rounded(bound + self.underflow(terms, arithmetic), value)
    }

    fn divides_by_zero(&self, terms: &[Term]) -> bool {
        match self.function {
            Function::Unary(unary) if unary::divides(unary) => terms[0].value == 0.0,
            Function::Binary(Binary::Div) => terms[1].value == 0.0,
            _ => false,
        }
    }

    fn underflow(&self, terms: &[Term], arithmetic: Precision) -> f64 {
        match self.function {
            Function::Unary(unary) => unary::underflow(unary, terms[0], arithmetic.most),
            _ => 0.0,
        }
    }

    /// The magnitude above which an integer result wraps.
    fn reach(&self, terms: &[Term]) -> f64 {
        let all: f64 = terms.iter().map(|term| term.most()).sum();
        match self.function {
            Function::Unary(Unary::Square) => all * all,
            Function::Binary(Binary::Mul) => terms[0].most() * terms[1].most(),
            Function::ByNumber(ByNumber::Scale, Scalar(c)) => c.abs() * all + 1.0,
            Function::ByNumber(ByNumber::Shift, Scalar(c)) => c.abs() + all + 1.0,
            // A conversion from float truncates and saturates.
            Function::Identity | Function::Cast(_) | Function::Fill { .. } if self.from.is_float() => 0.0,
            _ => all,
        }
    }

    /// Whether an unsigned result may wrap below 0.
    fn falls_below_zero(&self, terms: &[Term]) -> bool {
        let [least, _] = terms[0].interval();
        self.to.is_unsigned()
            && match self.function {
                Function::Unary(Unary::Neg) => true,
                Function::Binary(Binary::Sub) => least < terms[1].interval()[1],
                Function::ByNumber(ByNumber::Scale, Scalar(c)) => c < 0.0,
                Function::ByNumber(ByNumber::Shift, Scalar(c)) => least + c < 0.0,
                Function::Cast(_) if !self.from.is_float() => least < 0.0,
                _ => false,
            }
    }

    /// The maximum distance of two results whose operands are within their bounds, and the magnitude of the
    /// intermediate results that the formula rounds.
    fn spread(&self, terms: &[Term]) -> (f64, f64) {
        let all: f64 = terms.iter().map(|term| term.bound).sum();
        let first = terms[0];
        let spread = match self.function {
            Function::Identity | Function::Cast(_) | Function::Fill { .. } => return (self.converted(first), 0.0),
            Function::Unary(unary) => return unary::spread(unary, first),
            Function::Binary(binary) => match binary {
                Binary::Add | Binary::Sub => all,
                Binary::Mul => {
                    // An exact operand contributes no error, even if its partner is infinite.
                    let part = |bound: f64, most: f64| if bound == 0.0 { 0.0 } else { bound * most };
                    part(terms[0].bound, terms[1].most()) + part(terms[1].bound, first.value.abs())
                }
                Binary::Larger | Binary::Smaller => terms.iter().map(|term| term.bound).fold(0.0, f64::max),
                Binary::Div => {
                    let least = terms[1].value.abs() - 2.0 * terms[1].bound;
                    if least.is_nan() || least <= 0.0 {
                        return (f64::INFINITY, 0.0);
                    }
                    let quotient = if terms[1].bound == 0.0 { 0.0 } else { first.most() / least * terms[1].bound };
                    (first.bound + quotient) / least
                }
            },
            Function::ByNumber(ByNumber::Scale, Scalar(c)) => {
                let spread = c.abs() * all;
                if self.to.is_float() { spread } else { spread + 1.0 }
            }
            Function::ByNumber(ByNumber::Shift, _) if !self.to.is_float() => all + 1.0,
            // Adding to 0 preserves the operand's rounding errors, and those of the number.
            Function::ByNumber(ByNumber::Shift, Scalar(c)) => return (all, c.abs()),
            Function::ByNumber(ByNumber::AtLeast | ByNumber::AtMost, Scalar(c)) => return (all, c.abs()),
            Function::Over(n) => all / n as f64,
            Function::Where | Function::Masked(_) => all,
            Function::Is(_) | Function::IsNumber(..) => unreachable!("comparisons have boolean results"),
            Function::Softmax { .. } | Function::Shift(_) => unreachable!("they go along a dim"),
        };
        (spread, 0.0)
    }

    /// The bound of a conversion to another dtype.
    fn converted(&self, of: Term) -> f64 {
        match (self.from.is_float(), self.to) {
            (_, dtype) if dtype.is_float() => of.bound,
            (_, DType::Bool) if of.value.abs() > 2.0 * of.bound || of.bound == 0.0 => 0.0,
            (_, DType::Bool) => f64::INFINITY,
            (false, _) => of.bound,
            (true, _) => {
                let [least, most] = self.to.finite_ends();
                let [low, high] = of.interval().map(|end| end.trunc().clamp(least, most));
                high - low
            }
        }
    }
}

/// The bounds of a softmax along a dim whose elements are `step` apart: powers vary by `e^bound`, and so does their
/// sum.
fn softmax(terms: &[Term], values: &[f64], dtype: DType, extents: &[usize], (step, length): (usize, usize)) -> Tensor {
    let (own, double) = (Precision::of(dtype), Precision::of(DType::F64));
    let formula = double.gamma(length as f64 + 16.0);
    let mut elements = vec![0.0; values.len()];
    for start in (0..values.len()).filter(|place| place / step % length.max(1) == 0) {
        let line = || (0..length).map(|n| start + n * step);
        let widest = line().map(|place| terms[place].bound).fold(0.0, f64::max);
        let largest = line().map(|place| terms[place].most()).filter(|most| most.is_finite()).fold(0.0, f64::max);
        // The difference from the largest element is rounded, too.
        let exponent = 2.0 * (widest + 4.0 * double.unit * largest);
        let apart = exponent.exp_m1() + formula;
        for place in line() {
            let value = values[place];
            elements[place] = if widest == f64::INFINITY {
                f64::INFINITY
            } else if value.is_nan() {
                0.0
            } else {
                // A result that underflowed to 0 may have been as large as the underflow threshold.
                own.rounded((value + own.tiny) * exponent.exp() * apart, value)
            };
        }
    }
    bounds(extents, elements.into_iter())
}
