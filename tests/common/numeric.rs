//! A naive interpreter in i64, element by element. It shares only basic types with the library: coordinate maps,
//! sources, shardings and index lengths, but no interpreter code.
//!
//! Functions of floats are replaced by integer functions with only the properties that a schedule may rely on: `exp`
//! and `tanh` are increasing, a fractional factor is an odd number derived from its bits, `gelu` and division
//! scramble, and `softmax` mixes each element with the sum over its dim.

use itertools::Itertools;
use shardc::einsum::Einsum;
use shardc::function::{Binary, ByNumber, Filler, Function, Relation, Scalar, Unary};
use shardc::kernel::{Kernel, Local};
use shardc::layout::Sharding;
use shardc::mesh::{Axes, DeviceId, Mesh};
use shardc::operator::Operator;
use shardc::schedule::{CoordMap, Cut, Dense, OpKind, Region, Schedule};
use shardc::shift::Shift;
use shardc::supply::Supply;

/// Elements of a block or a whole array, row-major.
type Data = Vec<i64>;

/// Random inputs, and the dense result of a schedule.
pub struct Reference {
    dense: Vec<Data>,
    /// The pieces of the open inputs, by operation and device.
    open: Vec<Vec<Data>>,
}

/// Whether the schedule computes its outputs on random data; `false` if it cannot be run.
pub fn computes(schedule: &Schedule, seed: u64) -> bool {
    Reference::new(schedule, seed).is_met_by(schedule)
}

impl Reference {
    /// The inputs and arrays of a schedule, which its mutants share.
    pub fn new(schedule: &Schedule, seed: u64) -> Reference {
        let mut random = fastrand::Rng::with_seed(seed);
        let mesh = &schedule.mesh;
        let small = |random: &mut fastrand::Rng, n: u64| (0..n).map(|_| random.i64(-1000..1000)).collect::<Data>();
        // The pieces of open inputs are generated first, as they define their arrays.
        let mut given: Vec<Option<Data>> = vec![None; schedule.arrays.len()];
        let mut open = vec![Vec::new(); schedule.operations.node_count()];
        for id in schedule.ids() {
            let operation = schedule.operation(id);
            if let OpKind::Input { array, sharding } = &operation.kind
                && !is_whole(sharding)
            {
                assert!(sharding.dim_axes().is_empty(), "open inputs of these tests are whole otherwise");
                let axes = sharding.open.in_order();
                let groups: Vec<Data> =
                    (0..axes.group_size(mesh)).map(|_| small(&mut random, operation.elements())).collect();
                let rank = |device| usize::try_from(mesh.rank(device, axes.iter())).expect("small");
                open[id.index()] = mesh.devices().map(|device| groups[rank(device)].clone()).collect();
                let combine = combiner(sharding.operator);
                given[array.index()] = groups.into_iter().reduce(|sum, part| zip(&sum, &part, combine));
            }
        }
        let mut dense: Vec<Data> = Vec::new();
        for (array, given) in schedule.arrays.iter().zip(given) {
            let extents = |operand: &shardc::schedule::ArrayId| schedule.array(*operand).extents.clone();
            let operands = array.definition.operands();
            let blocks: Vec<&Data> = operands.iter().map(|operand| &dense[operand.index()]).collect();
            let extents: Vec<Vec<u64>> = operands.iter().map(extents).collect();
            let data = match &array.definition {
                // These decide what is 0.
                Dense::Input { supply: Supply::Counted } => {
                    (0..i64::try_from(array.extents[0]).expect("small")).collect()
                }
                Dense::Input { supply: Supply::Table(table) } => {
                    table.elements().iter().copied().map(i64::from).collect()
                }
                Dense::Input { .. } => given.unwrap_or_else(|| {
                    let mut data = small(&mut random, array.extents.iter().product());
                    let kept = |at: &Vec<u64>| at.iter().zip(&array.valid).all(|(at, valid)| at < valid);
                    for (element, at) in data.iter_mut().zip(tuples(&array.extents)) {
                        *element = if kept(&at) { *element } else { 0 };
                    }
                    data
                }),
                Dense::Map { function: Function::Fill { dim, valid, with }, .. } => {
                    fill(blocks[0], &array.extents, usize::from(*dim), *valid, *with)
                }
                Dense::Map { function: Function::Shift(shift), .. } => shifted(blocks[0], &array.extents, *shift),
                Dense::Product { einsum, .. } => evaluate(einsum, &extents, &blocks, |x| x[0].wrapping_mul(x[1])),
                Dense::Reduce { operator, einsum, .. } => reduce(*operator, einsum, &extents[0], blocks[0]),
                Dense::Kernel { kernel, .. } => called(kernel, &extents, &blocks),
                Dense::Map { function, einsum, .. } => map(*function, einsum, &extents, &blocks),
            };
            dense.push(data);
        }
        Reference { dense, open }
    }

    /// Whether the schedule, or a mutant of it, has the dense result as its outputs, and what it asserts.
    pub fn is_met_by(&self, schedule: &Schedule) -> bool {
        let mesh = &schedule.mesh;
        let Some(values) = run(schedule, &self.dense, &self.open) else { return false };
        schedule.outputs.iter().chain(&schedule.assertions).all(|output| {
            let value = &values[output.value.index()];
            let axes = if is_whole(&output.sharding) { Axes::NONE } else { output.sharding.open.in_order() };
            let array = schedule.array(output.array);
            let on = |device: &DeviceId| output.sharding.is_on(*device, mesh);
            mesh.devices().filter(on).all(|device| {
                let members = (0..axes.group_size(mesh))
                    .map(|rank| value[mesh.with_rank(device, axes.iter(), rank).index()].clone());
                let Some(members) = members.collect::<Option<Vec<Data>>>() else { return false };
                let combine = |sum: Data, part: Data| zip(&sum, &part, combiner(output.sharding.operator));
                let total = members.into_iter().reduce(combine);
                let dense = &self.dense[output.array.index()];
                total == Some(shard(dense, &array.extents, &output.sharding, mesh, device))
            })
        })
    }
}

/// Whether devices hold complete elements, not pieces to be combined.
fn is_whole(sharding: &Sharding) -> bool {
    sharding.open.is_empty() || sharding.operator.is_root()
}

fn run(schedule: &Schedule, dense: &[Data], open: &[Vec<Data>]) -> Option<Vec<Vec<Option<Data>>>> {
    let mesh = &schedule.mesh;
    let mut values: Vec<Vec<Option<Data>>> = Vec::new();
    for id in schedule.ids() {
        let operation = schedule.operation(id);
        let operands = schedule.operands(id);
        let extents: Vec<Vec<u64>> =
            operands.iter().map(|operand| schedule.operation(*operand).extents.clone()).collect();
        let mut value = Vec::new();
        for device in mesh.devices() {
            let blocks: Vec<Option<&Data>> =
                operands.iter().map(|operand| values[operand.index()][device.index()].as_ref()).collect();
            let all = || blocks.iter().copied().collect::<Option<Vec<&Data>>>();
            value.push(match &operation.kind {
                OpKind::Input { array, sharding } if is_whole(sharding) => {
                    let extents = &schedule.array(*array).extents;
                    sharding.is_on(device, mesh).then(|| shard(&dense[array.index()], extents, sharding, mesh, device))
                }
                OpKind::Input { .. } => Some(open[id.index()][device.index()].clone()),
                OpKind::Slice { view, region } => {
                    let places = places(mesh, view, region, device);
                    blocks[0].filter(|_| !places.is_empty()).map(|block| places.iter().map(|at| block[*at]).collect())
                }
                OpKind::Shuffle { sources, .. } => {
                    let source = sources.of(mesh, device);
                    source.and_then(|source| values[operands[0].index()][source.index()].clone())
                }
                OpKind::Add { operator } => {
                    let present = blocks.iter().flatten().map(|block| (*block).clone());
                    present.reduce(|sum, part| zip(&sum, &part, combiner(*operator)))
                }
                OpKind::Assemble { view, places: regions, zeros } => {
                    let mut block: Vec<Option<i64>> = vec![None; usize::try_from(operation.elements()).ok()?];
                    for (region, piece) in regions.iter().zip(&blocks) {
                        let Some(piece) = piece else { continue };
                        for (at, element) in places(mesh, view, region, device).into_iter().zip(piece.iter()) {
                            // Writing twice is an error even with equal values.
                            if block[at].replace(*element).is_some() {
                                return None;
                            }
                        }
                    }
                    if block.iter().all(Option::is_none) {
                        None
                    } else {
                        Some(
                            block
                                .into_iter()
                                .map(|element| element.or(zeros.then_some(0)))
                                .collect::<Option<Data>>()?,
                        )
                    }
                }
                OpKind::SwitchSum { axes, operator } => {
                    let operand = operands.first()?;
                    let members = (0..mesh.group_size(axes.iter().copied())).map(|rank| {
                        let member = mesh.with_rank(device, axes.iter().copied(), rank);
                        values[operand.index()][member.index()].clone()
                    });
                    let members: Vec<Option<Data>> = members.collect();
                    if members.iter().all(Option::is_none) {
                        value.push(None);
                        continue;
                    }
                    let members: Vec<Data> = members.into_iter().collect::<Option<_>>()?;
                    members.into_iter().reduce(|sum, part| zip(&sum, &part, combiner(*operator)))
                }
                OpKind::AllGather { axes, dim } => {
                    let members = (0..mesh.group_size(axes.iter().copied())).map(|rank| {
                        let member = mesh.with_rank(device, axes.iter().copied(), rank);
                        values[operands[0].index()][member.index()].as_ref()
                    });
                    let members: Vec<Option<&Data>> = members.collect();
                    if members.iter().all(Option::is_none) {
                        value.push(None);
                        continue;
                    }
                    let members: Vec<&Data> = members.into_iter().collect::<Option<_>>()?;
                    let inner = usize::try_from(extents[0][*dim..].iter().product::<u64>()).ok()?;
                    let outer = members[0].len() / inner;
                    let rows = (0..outer).cartesian_product(&members);
                    Some(rows.flat_map(|(row, member)| member[row * inner..(row + 1) * inner].to_vec()).collect())
                }
                OpKind::MatMul { einsum } => {
                    all().map(|blocks| evaluate(einsum, &extents, &blocks, |x| x[0].wrapping_mul(x[1])))
                }
                OpKind::Fill { dim, valid, with, block } => {
                    let start = block.at(mesh, device)?.checked_mul(extents[0][*dim])?;
                    blocks[0].map(|data| fill(data, &extents[0], *dim, valid.saturating_sub(start), *with))
                }
                OpKind::Shift { shift, length, block } => {
                    let dim = usize::from(shift.dim);
                    let start = i64::try_from(block.at(mesh, device)?.checked_mul(extents[0][dim])?).ok()?;
                    let length = i64::try_from(*length).ok()?;
                    let kept = |at: &Vec<u64>| {
                        let from = start + i64::try_from(at[dim]).expect("small") - shift.by;
                        shift.wraps || (0..length).contains(&from)
                    };
                    let at = tuples(&extents[0]);
                    blocks[0].map(|data| data.iter().zip(&at).map(|(x, at)| if kept(at) { *x } else { 0 }).collect())
                }
                OpKind::Mask { axes } => {
                    let first = mesh.rank(device, axes.iter().copied()) == 0;
                    blocks[0].map(|block| block.iter().map(|element| if first { *element } else { 0 }).collect())
                }
                OpKind::Reshape => blocks[0].cloned(),
                OpKind::Reduce { operator, einsum } => {
                    blocks[0].map(|block| reduce(*operator, einsum, &extents[0], block))
                }
                OpKind::Kernel(kernel) => all().map(|blocks| called(kernel, &extents, &blocks)),
                OpKind::Map { function: Function::Shift(shift), .. } => {
                    blocks[0].map(|block| shifted(block, &operation.extents, *shift))
                }
                OpKind::Map { function, einsum } => all().map(|blocks| map(*function, einsum, &extents, &blocks)),
            });
        }
        values.push(value);
    }
    Some(values)
}

/// The reference of a declared kernel.
fn called(kernel: &Kernel, extents: &[Vec<u64>], blocks: &[&Vec<i64>]) -> Vec<i64> {
    let operands = extents.iter().cloned().zip(blocks.iter().map(|block| (*block).clone())).collect();
    let formula = kernel.formula.as_ref().expect("a reference");
    let (_, result) = formula.evaluate(operands, |step, operands: &[&(Vec<u64>, Vec<i64>)]| {
        let extents: Vec<Vec<u64>> = operands.iter().map(|(extents, _)| extents.clone()).collect();
        let blocks: Vec<&Vec<i64>> = operands.iter().map(|(_, block)| block).collect();
        let einsum = step.op.einsum();
        let lengths = einsum.lengths(&extents).expect("blocks that fit");
        let own = einsum.result.iter().map(|index| lengths[usize::from(*index)]).collect();
        let data = match &step.op {
            Local::Product(einsum) => evaluate(einsum, &extents, &blocks, |x| x[0].wrapping_mul(x[1])),
            Local::Reduce(operator, einsum) => reduce(*operator, einsum, &extents[0], blocks[0]),
            Local::Map(function, einsum) => map(*function, einsum, &extents, &blocks),
        };
        (own, data)
    });
    result
}

fn combiner(operator: Operator) -> fn(i64, i64) -> i64 {
    match operator {
        Operator::Sum => i64::wrapping_add,
        Operator::Max => i64::max,
        Operator::Min => i64::min,
        Operator::Mul => i64::wrapping_mul,
        Operator::And | Operator::Or | Operator::Mean | Operator::SquareAdd | Operator::Root(_) => {
            unimplemented!("not on integers")
        }
    }
}

fn reduce(operator: Operator, einsum: &Einsum, extents: &[u64], block: &Data) -> Data {
    let lengths = einsum.lengths(&[extents.to_vec()]).expect("verified");
    let pick = |indices: &[u8], at: &[u64]| indices.iter().map(|index| at[usize::from(*index)]).collect::<Vec<u64>>();
    let shape = pick(&einsum.result, &lengths);
    let mut result: Vec<Option<i64>> = vec![None; usize::try_from(shape.iter().product::<u64>()).expect("small")];
    for at in tuples(&lengths) {
        let element = block[number(&pick(&einsum.operands[0], &at), extents)];
        let place = &mut result[number(&pick(&einsum.result, &at), &shape)];
        *place = Some(place.map_or(element, |known| combiner(operator)(known, element)));
    }
    result.into_iter().map(|element| element.expect("no extent is 0")).collect()
}

/// Each element that another one comes to, else 0. The dims are in the order of the operand.
fn shifted(data: &Data, extents: &[u64], shift: Shift) -> Data {
    let dim = usize::from(shift.dim);
    let length = i64::try_from(extents[dim]).expect("small");
    let element = |mut at: Vec<u64>| {
        let mut from = i64::try_from(at[dim]).expect("small") - shift.by;
        if shift.wraps {
            from = from.rem_euclid(length);
        }
        at[dim] = u64::try_from(from).ok().filter(|from| *from < extents[dim])?;
        Some(data[number(&at, extents)])
    };
    tuples(extents).into_iter().map(|at| element(at).unwrap_or(0)).collect()
}

fn zip(left: &Data, right: &Data, combine: fn(i64, i64) -> i64) -> Data {
    left.iter().zip(right).map(|(left, right)| combine(*left, *right)).collect()
}

/// All index tuples below the extents, last index fastest.
fn tuples(extents: &[u64]) -> Vec<Vec<u64>> {
    if extents.is_empty() {
        return vec![Vec::new()];
    }
    extents.iter().map(|extent| 0..*extent).multi_cartesian_product().collect()
}

fn number(at: &[u64], extents: &[u64]) -> usize {
    let number = at.iter().zip(extents).fold(0, |number, (at, extent)| number * extent + at);
    usize::try_from(number).expect("small")
}

/// The elements of a region, in order; `None` if a cut exceeds its dim.
fn places(mesh: &Mesh, view: &[u64], region: &Region, device: DeviceId) -> Vec<usize> {
    let at = |map: &CoordMap| map.at(mesh, device);
    let inside = |index: &Vec<u64>| {
        region.iter().zip(index).all(|(cut, index)| match cut {
            Cut::Whole => true,
            Cut::Range { start, end } => (*start..*end).contains(index),
            Cut::At(map) => at(map) == Some(*index),
        })
    };
    tuples(view).into_iter().filter(inside).map(|index| number(&index, view)).collect()
}

fn shard(data: &Data, extents: &[u64], sharding: &Sharding, mesh: &Mesh, device: DeviceId) -> Data {
    let ranges: Vec<_> =
        extents.iter().enumerate().map(|(dim, extent)| sharding.local_range(dim, *extent, mesh, device)).collect();
    let mine = tuples(extents).into_iter().filter(|at| at.iter().zip(&ranges).all(|(at, range)| range.contains(at)));
    mine.map(|at| data[number(&at, extents)]).collect()
}

fn evaluate(einsum: &Einsum, extents: &[Vec<u64>], blocks: &[&Data], of: impl Fn(&[i64]) -> i64) -> Data {
    let lengths = einsum.lengths(extents).expect("verified");
    let pick = |indices: &[u8]| indices.iter().map(|index| lengths[usize::from(*index)]).collect::<Vec<u64>>();
    let shape = pick(&einsum.result);
    let mut result = vec![0i64; usize::try_from(shape.iter().product::<u64>()).expect("small")];
    let mut words: Vec<&[u8]> = einsum.operands.iter().map(Vec::as_slice).collect();
    words.push(&einsum.result);
    // Strides of each index in the operands, followed by those in the result.
    let steps: Vec<Vec<usize>> = words.iter().map(|word| steps(word, &lengths)).collect();
    let mut at = vec![0u64; lengths.len()];
    let mut x = vec![0i64; blocks.len()];
    for _ in 0..lengths.iter().product::<u64>() {
        let place = |steps: &[usize]| -> usize {
            at.iter().zip(steps).map(|(at, step)| usize::try_from(*at).expect("small") * step).sum()
        };
        for ((x, block), steps) in x.iter_mut().zip(blocks).zip(&steps) {
            *x = block[place(steps)];
        }
        let sum = &mut result[place(&steps[blocks.len()])];
        *sum = sum.wrapping_add(of(&x));
        for (at, length) in at.iter_mut().zip(&lengths).rev() {
            *at = (*at + 1) % length;
            if *at > 0 {
                break;
            }
        }
    }
    result
}

/// Row-major strides of each index in `word`.
fn steps(word: &[u8], lengths: &[u64]) -> Vec<usize> {
    let mut steps = vec![0; lengths.len()];
    let mut step = 1;
    for index in word.iter().rev().map(|index| usize::from(*index)) {
        steps[index] = step;
        step *= usize::try_from(lengths[index]).expect("small");
    }
    steps
}

fn fill(data: &Data, extents: &[u64], dim: usize, kept: u64, with: Filler) -> Data {
    let filler = match with {
        Filler::Zero => 0,
        Filler::One => 1,
        Filler::Least => i64::MIN,
        Filler::Greatest => i64::MAX,
    };
    data.iter().zip(tuples(extents)).map(|(x, at)| if at[dim] < kept { *x } else { filler }).collect()
}

fn map(function: Function, einsum: &Einsum, extents: &[Vec<u64>], blocks: &[&Data]) -> Data {
    let data = evaluate(einsum, extents, blocks, |x| apply(function, x));
    let Function::Softmax { dim } = function else { return data };
    let lengths = einsum.lengths(extents).expect("verified");
    let shape: Vec<u64> = einsum.result.iter().map(|index| lengths[usize::from(*index)]).collect();
    let inner = usize::try_from(shape[usize::from(dim) + 1..].iter().product::<u64>()).expect("small");
    let length = usize::try_from(shape[usize::from(dim)]).expect("small");
    let sum = |at: usize| {
        let start = at / (inner * length) * inner * length + at % inner;
        (0..length).map(|place| data[start + place * inner]).fold(0, i64::wrapping_add)
    };
    (0..data.len()).map(|at| scramble(data[at] ^ scramble(sum(at)))).collect()
}

/// A nonlinear bijection.
fn scramble(x: i64) -> i64 {
    let x = x.wrapping_mul(0x5851_F42D_4C95_7F2D);
    (x ^ (x >> 29)).wrapping_mul(0x2545_F491_4F6C_DD1D)
}

#[allow(clippy::cast_possible_truncation)]
fn factor(x: f64) -> i64 {
    if x.fract() == 0.0 { x as i64 } else { (x.to_bits() >> 40 | 1).cast_signed() }
}

fn compare(relation: Relation, left: i64, right: i64) -> i64 {
    i64::from(match relation {
        Relation::Less => left < right,
        Relation::LessOrEqual => left <= right,
        Relation::Greater => left > right,
        Relation::GreaterOrEqual => left >= right,
        Relation::Equal => left == right,
        Relation::Unequal => left != right,
    })
}

fn apply(function: Function, x: &[i64]) -> i64 {
    match function {
        Function::Identity | Function::Cast(_) | Function::Fill { .. } => x[0],
        Function::Shift(_) => unreachable!("not elementwise"),
        Function::Binary(Binary::Add) => x[0].wrapping_add(x[1]),
        Function::Binary(Binary::Sub) => x[0].wrapping_sub(x[1]),
        Function::Binary(Binary::Mul) => x[0].wrapping_mul(x[1]),
        Function::Binary(Binary::Div) => scramble(x[1]).wrapping_mul(x[0]),
        Function::Unary(Unary::Neg) => x[0].wrapping_neg(),
        Function::ByNumber(ByNumber::Scale, Scalar(by)) => x[0].wrapping_mul(factor(by)),
        Function::ByNumber(ByNumber::Shift, Scalar(by)) => x[0].wrapping_add(factor(by)),
        Function::Unary(Unary::Relu) => x[0].max(0),
        Function::Unary(Unary::Abs) => x[0].wrapping_abs(),
        Function::Unary(Unary::Square) => x[0].wrapping_mul(x[0]),
        Function::Unary(Unary::Not) => i64::from(x[0] == 0),
        Function::Binary(Binary::Larger) => x[0].max(x[1]),
        Function::Binary(Binary::Smaller) => x[0].min(x[1]),
        Function::ByNumber(ByNumber::AtLeast, Scalar(bound)) => x[0].max(factor(bound)),
        Function::ByNumber(ByNumber::AtMost, Scalar(bound)) => x[0].min(factor(bound)),
        Function::Is(relation) => compare(relation, x[0], x[1]),
        Function::IsNumber(relation, Scalar(number)) => compare(relation, x[0], factor(number)),
        Function::Where => x[if x[0] != 0 { 1 } else { 2 }],
        Function::Masked(Scalar(other)) => {
            if x[0] != 0 {
                x[1]
            } else {
                factor(other)
            }
        }
        Function::Unary(Unary::Exp) => x[0].saturating_mul(3).saturating_add(1),
        Function::Unary(Unary::Tanh) => x[0].saturating_mul(5).saturating_add(2),
        Function::Unary(Unary::Sigmoid) => x[0].saturating_mul(7).saturating_add(3),
        Function::Unary(Unary::Sqrt) => x[0].saturating_mul(9).saturating_add(4),
        Function::Unary(Unary::Log) => x[0].saturating_mul(11).saturating_add(5),
        Function::Unary(Unary::Cos) => scramble(x[0]).saturating_add(1),
        Function::Unary(Unary::Gelu)
        | Function::Unary(Unary::Sin)
        | Function::Unary(Unary::Silu)
        | Function::Unary(Unary::Rsqrt)
        | Function::Unary(Unary::Recip)
        | Function::Over(_)
        | Function::Softmax { .. } => scramble(x[0]),
    }
}
