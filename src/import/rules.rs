//! What operations outside of the language do with each dim, and what they cost: the facts of their kernels.
//!
//! A rule numbers the dims of operands and results. Dims with one number are the same dim; how the operation reads it says
//! whether a device may have only a part.

use super::module::{Operation, number, places, value_of};
use super::names::identifier;
use super::operation::attribute;
use super::trees::{Bracket, Kind, Tree, items};
use itertools::Itertools;

/// How an operation reads a dim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Each element alone: shards of the operands give the shards of the results.
    Alone,
    /// Each element alone, and the results for all of them are added.
    Summed,
    /// All elements at once.
    Whole,
}

/// A dim of operands and results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Index {
    pub(super) size: u64,
    pub(super) reading: Reading,
}

/// Dims of a tensor, without the one for the parts of complex numbers.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) sizes: Vec<u64>,
    pub(super) is_complex: bool,
}

/// Operations of a kernel: a factor times the sizes of some dims.
#[derive(Clone, Debug)]
pub(super) enum Flops {
    Unknown,
    Product(u64, Vec<usize>),
}

/// The facts of an operation.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// What its kernels are called.
    pub(super) word: String,
    pub(super) indices: Vec<Index>,
    /// The indices of each operand.
    pub(super) operands: Vec<Vec<usize>>,
    /// The indices of each result.
    pub(super) results: Vec<Vec<usize>>,
    pub(super) flops: Flops,
    /// The index of real and imaginary parts.
    pub(super) parts: Option<usize>,
}

/// Operations with communication, effects, control flow or functions: none of them is a local computation.
const NEVER: [&str; 34] = [
    "after_all",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "async_done",
    "async_start",
    "call",
    "case",
    "collective_broadcast",
    "collective_permute",
    "composite",
    "constant",
    "create_token",
    "cross-replica-sum",
    "get_tuple_element",
    "if",
    "infeed",
    "iota",
    "manual_computation",
    "optimization_barrier",
    "outfeed",
    "partition_id",
    "recv",
    "reduce_scatter",
    "replica_id",
    "reshard",
    "return",
    "send",
    "sharding_constraint",
    "sharding_group",
    "trace",
    "tuple",
    "while",
    "all_slice",
];

/// Operations that the language has; one that is refused is malformed.
const SAID: [&str; 5] = ["broadcast_in_dim", "transpose", "slice", "dot_general", "dot"];

/// Functions of each element. Those of other dialects than `stablehlo` and `chlo` are not known by their name.
const ELEMENTWISE: [&str; 68] = [
    "abs",
    "acos",
    "acosh",
    "add",
    "and",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bessel_i1e",
    "cbrt",
    "ceil",
    "clamp",
    "compare",
    "complex",
    "conj",
    "convert",
    "cosh",
    "cosine",
    "count_leading_zeros",
    "digamma",
    "divide",
    "erf",
    "erf_inv",
    "erfc",
    "exponential",
    "exponential_minus_one",
    "floor",
    "imag",
    "is_finite",
    "is_inf",
    "is_neg_inf",
    "is_pos_inf",
    "lgamma",
    "log",
    "log_plus_one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "next_after",
    "not",
    "or",
    "polygamma",
    "popcnt",
    "power",
    "real",
    "reduce_precision",
    "remainder",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "select",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "xor",
    "zeta",
];

/// Operations that compute nothing.
const MOVES: [&str; 6] =
    ["concatenate", "dynamic_slice", "dynamic_update_slice", "real_dynamic_slice", "reshape", "reverse"];

/// Longest word for a kernel.
const MOST_LETTERS: usize = 60;

/// Why an operation cannot be a kernel; `None` if the refusal of the operation says it.
pub(super) type Why = Option<&'static str>;

const MISFIT: Why = Some("its attributes do not match its operands");

/// The rule of an operation.
pub(super) fn rule(operation: &Operation<'_>, operands: &[Shape], results: &[Shape]) -> Result<Rule, Why> {
    let (dialect, short) = operation.name.rsplit_once('.').unwrap_or(("", operation.name));
    if NEVER.contains(&short) || SAID.contains(&short) || matches!(dialect, "sdy" | "func" | "mpmd" | "builtin") {
        return Err(None);
    }
    if results.is_empty() {
        return Err(Some("it has no result"));
    }
    if operands.is_empty() {
        return Err(Some("a kernel has an operand"));
    }
    if results.iter().chain(operands).any(|shape| shape.sizes.contains(&0)) {
        return Err(Some("a tensor without elements is in it"));
    }
    if value_of(&operation.trees, "has_side_effect").and_then(|value| value.first()?.word()) == Some("true") {
        return Err(Some("it has side effects"));
    }
    let is_known = matches!(dialect, "stablehlo" | "chlo" | "mhlo");
    let rule = Builder { operation, operands, results, indices: Vec::new() };
    let made = match short {
        _ if !is_known => rule.unknown(identifier(operation.name)),
        "sort" => rule.sort(),
        "top_k" => rule.top_k(),
        "convolution" => rule.convolution(),
        "cholesky" => rule.cholesky(),
        "triangular_solve" => rule.triangular_solve(),
        "fft" => rule.fft(),
        "reduce" => rule.reduce(),
        "reduce_window" => rule.reduce_window(),
        "select_and_scatter" => rule.select_and_scatter(),
        "gather" => rule.gather(),
        "scatter" => rule.scatter(),
        "bitcast_convert" => rule.bitcast(),
        "pad" => rule.pad(),
        "custom_call" => rule.custom_call(),
        _ if ELEMENTWISE.contains(&short) => rule.elementwise(),
        _ if MOVES.contains(&short) => {
            rule.unknown(identifier(short)).map(|rule| Rule { flops: Flops::Product(0, Vec::new()), ..rule })
        }
        // Random numbers, too: what one device draws must not depend on the layout.
        _ => rule.unknown(identifier(short)),
    };
    let mut made = made?;
    made.word.truncate(MOST_LETTERS);
    made.word.truncate(made.word.trim_end_matches('_').len());
    let is_known_region =
        is_known && matches!(short, "sort" | "reduce" | "reduce_window" | "select_and_scatter" | "scatter");
    if !is_known_region && !operation.regions.is_empty() {
        return Err(Some("what its region means is not known"));
    }
    let fits = |shapes: &[Shape], all: &[Vec<usize>]| {
        shapes.len() == all.len()
            && shapes.iter().zip(all).all(|(shape, indices)| {
                indices.iter().all_unique()
                    && shape.sizes.iter().copied().eq(indices.iter().map(|index| made.indices[*index].size))
            })
    };
    // What is read alone is in all results, and what is summed in none.
    let is_kept = |(index, read): (usize, &Index)| match read.reading {
        Reading::Alone => made.results.iter().all(|result| result.contains(&index)),
        Reading::Summed => made.results.iter().all(|result| !result.contains(&index)),
        Reading::Whole => true,
    };
    if !fits(operands, &made.operands) || !fits(results, &made.results) || !made.indices.iter().enumerate().all(is_kept)
    {
        return Err(MISFIT);
    }
    // The parts of complex numbers are a last dim.
    if operands.iter().chain(results).any(|shape| shape.is_complex) {
        let parts = made.indices.len();
        made.indices.push(Index { size: 2, reading: Reading::Whole });
        made.parts = Some(parts);
        let all = operands.iter().zip(&mut made.operands).chain(results.iter().zip(&mut made.results));
        for (_, indices) in all.filter(|(shape, _)| shape.is_complex) {
            indices.push(parts);
        }
    }
    if let Flops::Product(factor, indices) = &made.flops {
        let sizes = indices.iter().map(|index| made.indices[*index].size);
        let fits = sizes.into_iter().try_fold(*factor, u64::checked_mul);
        fits.ok_or(Some("its operations are more than 2^64"))?;
    }
    Ok(made)
}

struct Builder<'o, 'a> {
    operation: &'o Operation<'a>,
    operands: &'o [Shape],
    results: &'o [Shape],
    indices: Vec<Index>,
}

impl Builder<'_, '_> {
    fn add(&mut self, size: u64, reading: Reading) -> usize {
        self.indices.push(Index { size, reading });
        self.indices.len() - 1
    }

    /// An index for each of these sizes.
    fn all(&mut self, sizes: &[u64], reading: impl Fn(usize) -> Reading) -> Vec<usize> {
        sizes.iter().enumerate().map(|(at, size)| self.add(*size, reading(at))).collect()
    }

    /// The index of a result that a whole dim of this index turns into: the same one if their sizes are equal.
    fn turned(&mut self, index: usize, size: u64) -> usize {
        if self.indices[index].size == size { index } else { self.add(size, Reading::Whole) }
    }

    fn made(
        self,
        word: impl Into<String>,
        operands: Vec<Vec<usize>>,
        results: Vec<Vec<usize>>,
        flops: Flops,
    ) -> Result<Rule, Why> {
        Ok(Rule { word: word.into(), indices: self.indices, operands, results, flops, parts: None })
    }

    /// Nothing is known of what it does: all dims are whole. Tensors of one shape have the same dims.
    fn unknown(self, word: String) -> Result<Rule, Why> {
        self.batched(word, 0)
    }

    /// The first dims of all operands and results are a batch.
    fn batched(mut self, word: String, batch: usize) -> Result<Rule, Why> {
        let first = self.operands[0].sizes.get(..batch).unwrap_or_default();
        let fits = |shape: &Shape| shape.sizes.get(..batch) == Some(first);
        let batch = if self.operands.iter().chain(self.results).all(fits) { batch } else { 0 };
        let kept = self.all(&first[..batch.min(first.len())], |_| Reading::Alone);
        let mut known: Vec<(&[u64], Vec<usize>)> = Vec::new();
        let all = self.operands.iter().chain(self.results).map(|shape| &shape.sizes[..]);
        let mut each: Vec<Vec<usize>> = Vec::new();
        for sizes in all {
            let same = known.iter().find(|(other, _)| *other == sizes).map(|(_, own)| own.clone());
            let own = same.unwrap_or_else(|| [kept.clone(), self.all(&sizes[batch..], |_| Reading::Whole)].concat());
            known.push((sizes, own.clone()));
            each.push(own);
        }
        let results = each.split_off(self.operands.len());
        self.made(word, each, results, Flops::Unknown)
    }

    /// `stablehlo.custom_call @target`. JAX says of those of linear algebra how many dims are a batch.
    fn custom_call(self) -> Result<Rule, Why> {
        let target = self.operation.trees.iter().filter_map(|tree| tree.word()).find(|word| word.starts_with('@'));
        let named = || value_of(&self.operation.trees, "call_target_name").and_then(|value| value.first()?.text());
        let target = target.or_else(named).unwrap_or("target");
        let batch = value_of(&self.operation.trees, "num_batch_dims")
            .and_then(|value| value.first()?.text()?.parse().ok())
            .unwrap_or(0);
        self.batched(format!("custom_{}", identifier(target)), batch)
    }

    fn elementwise(mut self) -> Result<Rule, Why> {
        let [result] = self.results else { return Err(MISFIT) };
        let own = self.all(&result.sizes, |_| Reading::Alone);
        // A condition or a limit may be one for all.
        let operands =
            self.operands.iter().map(|shape| if shape.sizes.is_empty() { Vec::new() } else { own.clone() }).collect();
        let word = self.word();
        self.made(word, operands, vec![own.clone()], Flops::Product(1, own))
    }

    fn word(&self) -> String {
        identifier(self.operation.name.rsplit('.').next().unwrap_or_default())
    }

    fn sort(mut self) -> Result<Rule, Why> {
        let own = self.along(number(&self.operation.trees, "dimension"))?;
        let (operands, results) = (vec![own.0.clone(); self.operands.len()], vec![own.0.clone(); self.results.len()]);
        self.made("sort", operands, results, Flops::Product(levels(own.1), own.0))
    }

    /// Indices of the first operand of which the one at `at` is whole, the last one by default, and its size.
    fn along(&mut self, at: Option<i64>) -> Result<(Vec<usize>, u64), Why> {
        let sizes = &self.operands[0].sizes;
        let at = at.unwrap_or(-1);
        let from = if at < 0 { sizes.len() as u64 } else { 0 };
        let at = usize::try_from(from.wrapping_add_signed(at)).map_err(|_| MISFIT)?;
        let size = *sizes.get(at).ok_or(MISFIT)?;
        let reading = |place: usize| if place == at { Reading::Whole } else { Reading::Alone };
        Ok((self.all(sizes, reading), size))
    }

    fn top_k(mut self) -> Result<Rule, Why> {
        let (own, size) = self.along(None)?;
        let [first, _] = self.results else { return Err(MISFIT) };
        let (last, kept) = own.split_last().ok_or(MISFIT)?;
        let found = self.turned(*last, *first.sizes.last().ok_or(MISFIT)?);
        let result = [kept, &[found]].concat();
        let flops = Flops::Product(levels(size), own.clone());
        self.made("top_k", vec![own], vec![result.clone(), result], flops)
    }

    fn cholesky(mut self) -> Result<Rule, Why> {
        let sizes = &self.operands[0].sizes;
        let batch = sizes.len().checked_sub(2).ok_or(MISFIT)?;
        let own = self.all(sizes, |at| if at < batch { Reading::Alone } else { Reading::Whole });
        let size = u128::from(sizes[batch]);
        let flops = size.saturating_mul(size).saturating_mul(size).div_ceil(3);
        let flops = Flops::Product(u64::try_from(flops).unwrap_or(u64::MAX), own[..batch].to_vec());
        self.made("cholesky", vec![own.clone()], vec![own], flops)
    }

    /// The columns of the second operand are solved one by one, or its rows.
    fn triangular_solve(mut self) -> Result<Rule, Why> {
        let [matrix, sides] = self.operands else { return Err(MISFIT) };
        let batch = matrix.sizes.len().checked_sub(2).ok_or(MISFIT)?;
        let is_left = value_of(&self.operation.trees, "left_side").and_then(|value| value.first()?.word());
        let is_left = is_left.ok_or(MISFIT)? == "true";
        let own = self.all(&matrix.sizes, |at| if at < batch { Reading::Alone } else { Reading::Whole });
        let place = batch + usize::from(is_left);
        let columns = self.add(*sides.sizes.get(place).ok_or(MISFIT)?, Reading::Alone);
        let rows = own[batch];
        let ends = if is_left { [rows, columns] } else { [columns, rows] };
        let solved = [&own[..batch], &ends].concat();
        let flops = Flops::Product(1, [&own[..], &[columns]].concat());
        self.made("triangular_solve", vec![own, solved.clone()], vec![solved], flops)
    }

    /// `5 n log2 n` operations for `n` complex numbers, half of them for real ones.
    fn fft(mut self) -> Result<Rule, Why> {
        let [operand, result] = [self.operands, self.results].map(|shapes| shapes.first().map(|shape| &shape.sizes));
        let (Some(operand), Some(result)) = (operand, result) else { return Err(MISFIT) };
        let of = |keys: [&str; 2]| keys.iter().find_map(|key| value_of(&self.operation.trees, key));
        let words = |trees: &[Tree<'_>]| -> Option<String> {
            let inner = trees.iter().find_map(|tree| tree.group(Bracket::Angle));
            inner.unwrap_or(trees).iter().filter_map(Tree::word).next_back().map(str::to_lowercase)
        };
        let word = of(["type", "fft_type"]).and_then(words).ok_or(MISFIT)?;
        if !["fft", "ifft", "rfft", "irfft"].contains(&word.as_str()) {
            return Err(MISFIT);
        }
        let length = attribute(self.operation, &["length", "fft_length"]);
        if length.is_empty() {
            return Err(MISFIT);
        }
        let batch = operand.len().checked_sub(length.len()).filter(|_| operand.len() == result.len()).ok_or(MISFIT)?;
        let own = self.all(operand, |at| if at < batch { Reading::Alone } else { Reading::Whole });
        let ends: Vec<usize> = own.iter().zip(result).map(|(index, size)| self.turned(*index, *size)).collect();
        let elements = length.iter().fold(1.0, |product, size| product * float(size.unsigned_abs()));
        let each = if word.contains('r') { 2.5 } else { 5.0 };
        let flops = Flops::Product(rounded(each * elements * f64::log2(elements)), own[..batch].to_vec());
        self.made(word, vec![own], vec![ends], flops)
    }

    /// Reductions of several arrays at once, and those by other functions than the language has.
    fn reduce(mut self) -> Result<Rule, Why> {
        let (values, starts) = self.operands.split_at(self.operands.len() / 2);
        let over = places(&self.operation.trees, "dimensions");
        let sizes = &values.first().ok_or(MISFIT)?.sizes;
        let own = self.all(sizes, |at| if over.contains(&at) { Reading::Whole } else { Reading::Alone });
        let kept = own.iter().enumerate().filter(|(at, _)| !over.contains(at)).map(|(_, index)| *index).collect();
        // Printed pairs of an array and its start alternate; those of the generic form do not.
        let operands = self.operands.iter().map(|shape| if shape.sizes.is_empty() { Vec::new() } else { own.clone() });
        let operands = if sizes.is_empty() { vec![Vec::new(); 2 * starts.len()] } else { operands.collect() };
        let results = vec![kept; self.results.len()];
        self.made("reduce", operands, results, Flops::Product(1, own))
    }

    /// The indices of a tensor under a window, and those of the windows: dims that the window leaves as they are, dims
    /// that it changes, and its number of elements.
    fn windows(&mut self, sizes: &[u64], windows: &[u64]) -> Result<(Vec<usize>, Vec<usize>, u64), Why> {
        let rank = sizes.len();
        let of = |key: &str| -> Vec<i64> {
            match value_of(&self.operation.trees, key) {
                None if key != "window_dimensions" => vec![1; rank],
                _ => attribute(self.operation, &[key]),
            }
        };
        let lists = ["window_dimensions", "window_strides", "base_dilations", "window_dilations"].map(of);
        let padding = padding(&self.operation.trees, rank).ok_or(MISFIT)?;
        if windows.len() != rank || lists.iter().any(|list| list.len() != rank) {
            return Err(MISFIT);
        }
        let is_kept = |at: usize| padding[at] == [0, 0] && lists.iter().all(|list| list[at] == 1);
        let own = self.all(sizes, |at| if is_kept(at) { Reading::Alone } else { Reading::Whole });
        let moved = own.iter().zip(windows).map(|(index, size)| self.turned(*index, *size)).collect();
        let elements = lists[0].iter().fold(1, |product: u64, size| product.saturating_mul(size.unsigned_abs()));
        Ok((own, moved, elements))
    }

    fn reduce_window(mut self) -> Result<Rule, Why> {
        let (first, result) = (&self.operands[0].sizes, &self.results[0].sizes);
        let (own, moved, elements) = self.windows(first, result)?;
        let half = self.operands.len() / 2;
        let operands = [vec![own; half], vec![Vec::new(); self.operands.len() - half]].concat();
        let results = vec![moved.clone(); self.results.len()];
        self.made("reduce_window", operands, results, Flops::Product(elements, moved))
    }

    fn select_and_scatter(mut self) -> Result<Rule, Why> {
        let [operand, source, _] = self.operands else { return Err(MISFIT) };
        let (own, moved, elements) = self.windows(&operand.sizes, &source.sizes)?;
        let operands = vec![own.clone(), moved.clone(), Vec::new()];
        self.made("select_and_scatter", operands, vec![own], Flops::Product(elements, moved))
    }

    /// `dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`
    fn convolution(mut self) -> Result<Rule, Why> {
        let ([image, kernel], [result]) = (self.operands, self.results) else { return Err(MISFIT) };
        let numbers = ["dim_numbers", "dimension_numbers"];
        let numbers = numbers.iter().find_map(|key| value_of(&self.operation.trees, key)).ok_or(MISFIT)?;
        let numbers = numbers.iter().find_map(|tree| tree.group(Bracket::Angle)).unwrap_or(numbers);
        let lists: Vec<Vec<&str>> = numbers
            .iter()
            .filter_map(|tree| tree.group(Bracket::Square))
            .map(|list| items(list).filter_map(|item| item.first()?.word()).collect())
            .collect();
        let [of_image, of_kernel, of_result] = &lists[..] else { return Err(MISFIT) };
        let groups = |key: &str| number(&self.operation.trees, key).unwrap_or(1);
        let (batches, features) = (groups("batch_group_count"), groups("feature_group_count"));
        let size = |shape: &Shape, list: &[&str], word: &str| -> Result<u64, Why> {
            let at = list.iter().position(|found| *found == word).ok_or(MISFIT)?;
            shape.sizes.get(at).copied().ok_or(MISFIT)
        };
        let alone = |is_alone: bool, reading: Reading| if is_alone { reading } else { Reading::Whole };
        let is_plain = batches == 1 && features == 1;
        let batch = self.add(size(image, of_image, "b")?, alone(batches == 1, Reading::Alone));
        let input = self.add(size(image, of_image, "f")?, alone(is_plain, Reading::Summed));
        let output = self.add(size(kernel, of_kernel, "o")?, alone(is_plain, Reading::Alone));
        let in_kernel = if is_plain { input } else { self.add(size(kernel, of_kernel, "i")?, Reading::Whole) };
        let out_batch = self.turned(batch, size(result, of_result, "b")?);
        let mut axes: Vec<[usize; 3]> = Vec::new();
        for number in 0..image.sizes.len().saturating_sub(2) {
            let word = number.to_string();
            let at = self.add(size(image, of_image, &word)?, Reading::Whole);
            let window = self.add(size(kernel, of_kernel, &word)?, Reading::Whole);
            let to = self.turned(at, size(result, of_result, &word)?);
            axes.push([at, window, to]);
        }
        let listed = |list: &[&str], side: usize, ends: [(&str, usize); 2]| -> Result<Vec<usize>, Why> {
            let one = |word: &&str| match ends.iter().find(|(end, _)| end == word) {
                Some((_, index)) => Some(*index),
                None => axes.get(word.parse::<usize>().ok()?).map(|axes| axes[side]),
            };
            list.iter().map(one).collect::<Option<_>>().ok_or(MISFIT)
        };
        let operands = vec![
            listed(of_image, 0, [("b", batch), ("f", input)])?,
            listed(of_kernel, 1, [("i", in_kernel), ("o", output)])?,
        ];
        let made = listed(of_result, 2, [("b", out_batch), ("f", output)])?;
        let windows: Vec<usize> = axes.iter().map(|axes| axes[1]).collect();
        let flops = Flops::Product(2, [&made[..], &windows, &[in_kernel]].concat());
        self.made("conv", operands, vec![made], flops)
    }

    /// Rows of whole dims, for each index alone.
    fn gather(mut self) -> Result<Rule, Why> {
        let ([table, indices], [result]) = (self.operands, self.results) else { return Err(MISFIT) };
        let of = |key: &str| places(&self.operation.trees, key);
        let (offsets, collapsed, map) = (of("offset_dims"), of("collapsed_slice_dims"), of("start_index_map"));
        let (batch, batch_indices) = (of("operand_batching_dims"), of("start_indices_batching_dims"));
        let (slices, vector) = (of("slice_sizes"), vector(&self.operation.trees));
        let is_whole = |at: usize| {
            let taken = slices.get(at).and_then(|size| u64::try_from(*size).ok());
            batch.contains(&at) || !map.contains(&at) && taken == table.sizes.get(at).copied()
        };
        let own = self.all(&table.sizes, |at| if is_whole(at) { Reading::Alone } else { Reading::Whole });
        let read = self.read_indices(indices, vector, Reading::Alone, [&batch, &batch_indices], &own)?;
        let mut rows = (0..table.sizes.len()).filter(|at| !collapsed.contains(at) && !batch.contains(at));
        let mut named = read.iter().enumerate().filter(|(at, _)| *at != vector).map(|(_, index)| *index);
        let mut to = Vec::new();
        for (place, size) in result.sizes.iter().enumerate() {
            to.push(if offsets.contains(&place) {
                let at = rows.next().ok_or(MISFIT)?;
                // A part of a dim is another dim, also where it is all of it.
                if is_whole(at) { own[at] } else { self.turned(own[at], *size) }
            } else {
                named.next().ok_or(MISFIT)?
            });
        }
        self.made("gather", vec![own, read], vec![to], Flops::Product(0, Vec::new()))
    }

    /// The dims of indices: those of a batch are dims of the table, that of their vectors is whole.
    fn read_indices(
        &mut self,
        indices: &Shape,
        vector: usize,
        reading: Reading,
        [batch, batch_indices]: [&[usize]; 2],
        own: &[usize],
    ) -> Result<Vec<usize>, Why> {
        let mut read = Vec::new();
        for (at, size) in indices.sizes.iter().enumerate() {
            let batched = batch_indices.iter().position(|place| *place == at);
            read.push(match batched {
                Some(number) => *batch.get(number).and_then(|place| own.get(*place)).ok_or(MISFIT)?,
                None => self.add(*size, if at == vector { Reading::Whole } else { reading }),
            });
        }
        Ok(read)
    }

    /// Updates meet in a row, so that those of all indices are needed; rows are written element by element.
    fn scatter(mut self) -> Result<Rule, Why> {
        let arrays = self.results.len();
        let [table, .., updates] = self.operands else { return Err(MISFIT) };
        let indices = self.operands.get(arrays).ok_or(MISFIT)?;
        let of = |key: &str| places(&self.operation.trees, key);
        let (windows, inserted) = (of("update_window_dims"), of("inserted_window_dims"));
        let map = of("scatter_dims_to_operand_dims");
        let (batch, batch_indices) = (of("input_batching_dims"), of("scatter_indices_batching_dims"));
        let vector = vector(&self.operation.trees);
        let rows: Vec<usize> =
            (0..table.sizes.len()).filter(|at| !inserted.contains(at) && !batch.contains(at)).collect();
        let size_of = |at: usize| {
            let place = rows.iter().position(|row| *row == at)?;
            updates.sizes.get(*windows.get(place)?).copied()
        };
        let is_whole =
            |at: usize| batch.contains(&at) || !map.contains(&at) && size_of(at) == table.sizes.get(at).copied();
        let own = self.all(&table.sizes, |at| if is_whole(at) { Reading::Alone } else { Reading::Whole });
        let read = self.read_indices(indices, vector, Reading::Whole, [&batch, &batch_indices], &own)?;
        let mut named = read.iter().enumerate().filter(|(at, _)| *at != vector).map(|(_, index)| *index);
        let mut from = Vec::new();
        for (place, size) in updates.sizes.iter().enumerate() {
            from.push(match windows.iter().position(|window| *window == place) {
                Some(number) => {
                    let at = *rows.get(number).ok_or(MISFIT)?;
                    if is_whole(at) { own[at] } else { self.add(*size, Reading::Whole) }
                }
                None => named.next().ok_or(MISFIT)?,
            });
        }
        let operands = [vec![own.clone(); arrays], vec![read], vec![from.clone(); arrays]].concat();
        self.made("scatter", operands, vec![own; arrays], Flops::Product(1, from))
    }

    /// Bits of one dtype as another; a last dim holds the parts of wider elements.
    fn bitcast(mut self) -> Result<Rule, Why> {
        let ([operand], [result]) = (self.operands, self.results) else { return Err(MISFIT) };
        let shared = operand.sizes.len().min(result.sizes.len());
        let kept = self.all(&operand.sizes[..shared], |_| Reading::Alone);
        let [from, to] = [operand, result].map(|shape| {
            let rest = self.all(&shape.sizes[shared..], |_| Reading::Whole);
            [kept.clone(), rest].concat()
        });
        self.made("bitcast", vec![from], vec![to], Flops::Product(0, Vec::new()))
    }

    fn pad(mut self) -> Result<Rule, Why> {
        let ([operand, _], [result]) = (self.operands, self.results) else { return Err(MISFIT) };
        let padded = [["low", "edge_padding_low"], ["high", "edge_padding_high"], ["interior", "interior_padding"]]
            .map(|keys| attribute(self.operation, &keys));
        let is_kept = |at: usize| padded.iter().all(|list| list.get(at) == Some(&0));
        let own = self.all(&operand.sizes, |at| if is_kept(at) { Reading::Alone } else { Reading::Whole });
        let to = own.iter().zip(&result.sizes).map(|(index, size)| self.turned(*index, *size)).collect();
        self.made("pad", vec![own, Vec::new()], vec![to], Flops::Product(0, Vec::new()))
    }
}

/// `index_vector_dim`, which is printed unless it is 0.
fn vector(trees: &[Tree<'_>]) -> usize {
    number(trees, "index_vector_dim").and_then(|at| usize::try_from(at).ok()).unwrap_or(0)
}

/// `dense<[[0, 0], [1, 1]]>`, `dense<0>` for all, or nothing: what is put before and behind each dim.
fn padding(trees: &[Tree<'_>], rank: usize) -> Option<Vec<[i64; 2]>> {
    let Some(value) = value_of(trees, "padding") else { return Some(vec![[0, 0]; rank]) };
    let text = value.iter().find_map(|tree| if let Kind::Dense(text) = tree.kind { Some(text) } else { None })?;
    let numbers: Vec<i64> = text
        .split(|letter: char| !letter.is_ascii_digit() && letter != '-')
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    match numbers[..] {
        [all] => Some(vec![[all, all]; rank]),
        _ if numbers.len() == 2 * rank => Some(numbers.chunks(2).map(|pair| [pair[0], pair[1]]).collect()),
        _ => None,
    }
}

/// Comparisons for each element that is sorted, of this number.
fn levels(size: u64) -> u64 {
    u64::from(size.max(1).next_power_of_two().ilog2()).max(1)
}

#[expect(clippy::cast_precision_loss, reason = "a cost")]
fn float(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn rounded(number: f64) -> u64 {
    number.round() as u64
}
