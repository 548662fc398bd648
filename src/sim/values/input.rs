//! Input arrays: default data, and the shards on the devices.

use super::bound::exact;
use super::combine::{close, times};
use super::element::{Element, with_dtype};
use super::error::RunError;
use super::guard;
use super::pad::padded;
use super::rounding::Precision;
use super::tensor::Tensor;
use super::view::sizes;
use crate::dtype::DType;
use crate::layout::Sharding;
use crate::mesh::{AxisSet, DeviceId, Mesh};
use crate::operator::Operator;
use crate::schedule::{Array, ArrayId, Dense, OpKind, Schedule};
use crate::supply::Supply;
use std::collections::BTreeMap;
use std::ops::Range;

/// The data of the input arrays. That of an open sum is the array, or one part for each device along its axes, stacked
/// along a first dim.
pub type Inputs = BTreeMap<ArrayId, Tensor>;

/// Default data: small integers in every dtype, so that products and sums stay exact as long as possible.
///
/// The values are -1, 0 and 1, or -4 to 4 if the dtype has room; they depend only on the seed. Unsigned
/// values are not negative. Narrow floats represent integers exactly only up to 8 (f8e5m2), 16 (f8e4m3), 256 (bf16) and
/// 2048 (f16), so most elements are 0 there: in a sum of n products, a share of about 2 / √n is nonzero.
///
/// # Errors
/// [`RunError::TooLarge`] if the whole computation would not fit.
pub fn inputs(schedule: &Schedule, seed: u64) -> Result<Inputs, RunError> {
    inputs_beside(schedule, seed, Inputs::new())
}

/// As [`inputs`], for the inputs that are not given.
///
/// # Errors
/// As [`inputs`]; also if given data have another dtype or other extents than declared.
pub fn inputs_beside(schedule: &Schedule, seed: u64, given: Inputs) -> Result<Inputs, RunError> {
    let schedule = guard::check(schedule)?;
    let declared = (0..).map(ArrayId).zip(&schedule.arrays).filter(|(_, array)| array.definition.is_input());
    for (id, _) in declared.clone().filter(|(id, _)| given.contains_key(id)) {
        self::given(&schedule, &given, id)?;
    }
    let arrays = declared.filter(|(id, _)| !given.contains_key(id));
    let seed = |id: ArrayId| seed.wrapping_add(u64::from(id.0));
    let squares = |id: ArrayId| {
        schedule.operations.node_weights().any(|operation| {
            matches!(&operation.kind, OpKind::Input { array, sharding }
                if *array == id && sharding.operator == Operator::SquareAdd)
        })
    };
    let made: Inputs =
        arrays.map(|(id, array)| (id, default_data(array, seed(id), share(&schedule, id), squares(id)))).collect();
    Ok(given.into_iter().chain(made).collect())
}

/// The share of nonzero elements of an input, in 256ths.
fn share(schedule: &Schedule, id: ArrayId) -> u8 {
    let terms = schedule.arrays.iter().filter_map(|array| match &array.definition {
        Dense::Product { operands, einsum } if operands.contains(&id) => {
            let extents = operands.map(|operand| schedule.array(operand).valid.clone());
            let lengths = einsum.lengths(&extents)?;
            Some(einsum.contracted().iter().map(|index| lengths[usize::from(*index)] as f64).product::<f64>())
        }
        Dense::Reduce { operator: Operator::Sum, operand, einsum } if *operand == id => {
            let lengths = einsum.lengths(&[schedule.array(id).valid.clone()])?;
            Some(einsum.contracted().iter().map(|index| lengths[usize::from(*index)] as f64).product::<f64>())
        }
        Dense::Product { .. }
        | Dense::Reduce { .. }
        | Dense::Input { .. }
        | Dense::Map { .. }
        | Dense::Kernel { .. } => None,
    });
    match schedule.array(id).dtype {
        // In 256ths, at least one; the conversion saturates.
        dtype if dtype.is_narrow_float() => {
            // The largest share of which the square is below 512^2 a term; 170 leaves two thirds.
            let most = terms.fold(1.0, f64::max);
            (1..=170).rev().find(|share| f64::from(*share).powi(2) * most <= 512.0 * 512.0).unwrap_or(1)
        }
        _ => u8::MAX,
    }
}

/// Default data of one array. With `squares`, all elements are sums of squares.
fn default_data(array: &Array, seed: u64, share: u8, squares: bool) -> Tensor {
    let extents = sizes(&array.valid);
    if array.definition == (Dense::Input { supply: Supply::Counted }) {
        return with_dtype!(array.dtype, T => {
            Tensor::owned(&extents, (0..).take(extents.iter().product()).map(<T as Element>::from_i64).collect())
        });
    }
    if let Dense::Input { supply: Supply::Table(table) } = &array.definition {
        return with_dtype!(array.dtype, T => {
            let elements = table.elements().iter().map(|element| <T as Element>::from_i64(i64::from(*element)));
            Tensor::owned(&extents, elements.collect())
        });
    }
    // Spreading the seed over all bits gives unrelated sequences for consecutive seeds.
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5EED);
    let most =
        if array.dtype.bits() <= 8 || array.dtype.is_narrow_float() || array.dtype == DType::F32 { 1 } else { 4 };
    let least = if array.dtype.finite_ends()[0] < 0.0 { -most } else { 0 };
    let (least, most) = if squares { (0, 1) } else { (least, most) };
    let count: usize = extents.iter().product();
    with_dtype!(array.dtype, T => {
        let mut draw = || match array.dtype {
            dtype if dtype.is_narrow_float() && random.u8(..) >= share => 0,
            dtype if dtype.is_narrow_float() => if squares || random.bool() { 1 } else { -1 },
            _ => random.i8(least..=most),
        };
        let elements = (0..count).map(|_| <T as Element>::from_i64(i64::from(draw())));
        Tensor::owned(&extents, elements.collect())
    })
}

/// The data of an input, checked against its declaration.
pub(super) fn given<'a>(schedule: &Schedule, inputs: &'a Inputs, id: ArrayId) -> Result<&'a Tensor, RunError> {
    let array = schedule.array(id);
    let tensor = inputs.get(&id).ok_or_else(|| RunError::MissingInput { array: array.name.clone() })?;
    let describe = |dtype: DType, extents: &[u64]| format!("{dtype}{extents:?}");
    let are_parts = || match (open_sharding(schedule, id), tensor.extents().split_first()) {
        (Some(sharding), Some((count, extents))) => {
            *count == sharding.open.group_size(&schedule.mesh) && extents == array.valid
        }
        _ => false,
    };
    if tensor.dtype() == array.dtype && (tensor.extents() == array.valid || are_parts()) {
        return Ok(tensor);
    }
    Err(RunError::WrongInput {
        array: array.name.clone(),
        found: describe(tensor.dtype(), &tensor.extents()),
        wanted: describe(array.dtype, &array.valid),
    })
}

/// The sharding of an input that is an open sum.
fn open_sharding(schedule: &Schedule, id: ArrayId) -> Option<&Sharding> {
    schedule.operations.node_weights().find_map(|operation| match &operation.kind {
        OpKind::Input { array, sharding } if *array == id && !sharding.open.is_empty() => Some(sharding),
        _ => None,
    })
}

/// The number of parts for which an input that is an open sum can be given; see [`Inputs`].
pub fn parts_of_input(schedule: &Schedule, id: ArrayId) -> Option<u64> {
    open_sharding(schedule, id).map(|sharding| sharding.open.group_size(&schedule.mesh))
}

/// The parts of an open sum, if they are given.
fn given_parts(array: &Array, tensor: &Tensor) -> Option<Vec<Tensor>> {
    (tensor.extents().len() > array.valid.len()).then(|| tensor.unstacked())
}

/// The array of an input, which the parts of an open sum combine to.
pub(super) fn whole(schedule: &Schedule, inputs: &Inputs, id: ArrayId) -> Result<Tensor, RunError> {
    let tensor = given(schedule, inputs, id)?;
    let parts = given_parts(schedule.array(id), tensor).zip(open_sharding(schedule, id));
    Ok(parts.map_or_else(|| tensor.clone(), |(parts, sharding)| combined(sharding, &schedule.mesh, parts)))
}

/// The array that the parts of all ranks combine to.
fn combined(sharding: &Sharding, mesh: &Mesh, mut parts: Vec<Tensor>) -> Tensor {
    match sharding.root(mesh) {
        Some(root) => parts.swap_remove(usize::try_from(root).expect("a rank of its group")),
        None => close(sharding.operator, parts),
    }
}

/// The box of an array that one device holds.
pub(super) fn shard_box(array: &Array, sharding: &Sharding, mesh: &Mesh, device: DeviceId) -> Vec<Range<u64>> {
    let dims = array.extents.iter().enumerate();
    dims.map(|(dim, size)| sharding.local_range(dim, *size, mesh, device)).collect()
}

/// The shard of each device, sharing the buffer of the array.
///
/// For an open sum, every device holds a part, a given one or one that is made; the parts combine to the array.
pub(super) fn shards(array: &Array, given: &Tensor, sharding: &Sharding, mesh: &Mesh) -> Result<Vec<Tensor>, RunError> {
    let count = usize::try_from(sharding.open.group_size(mesh)).unwrap_or(1);
    let parts = match given_parts(array, given) {
        Some(parts) => parts,
        None if sharding.operator == Operator::SquareAdd && !are_sums_of_squares(given, count) => {
            return Err(RunError::NoSquares { array: array.name.clone(), count });
        }
        None => open_parts(given, sharding.operator, count),
    };
    let parts: Vec<Tensor> = parts.iter().map(|part| padded(part, &sizes(&array.extents))).collect();
    let shard = |device: DeviceId| {
        let rank = usize::try_from(mesh.rank(device, sharding.open.iter())).expect("a device");
        parts[rank].slice(&shard_box(array, sharding, mesh, device)).expect("a shard lies in its array")
    };
    Ok(mesh.devices().map(shard).collect())
}

/// Bounds the distance of each shard's combined parts from the array: the parts of a sum are rounded, too.
pub(super) fn shard_bounds(
    array: &Array,
    given: &Tensor,
    sharding: &Sharding,
    mesh: &Mesh,
) -> Result<Vec<Tensor>, RunError> {
    let shards = shards(array, given, sharding, mesh)?;
    // Given parts are exact, but the array is their rounded sum.
    let parts = given_parts(array, given);
    let are_given = parts.is_some();
    let (whole, terms) = match parts {
        Some(parts) => (combined(sharding, mesh, parts), sharding.open.group_size(mesh) as f64),
        None => (given.clone(), 1.0),
    };
    let rounds = match sharding.operator {
        Operator::Sum | Operator::Mean | Operator::SquareAdd => !sharding.open.is_empty() && array.dtype.is_float(),
        // The factors that are made are signs.
        Operator::Mul => are_given && array.dtype.is_float(),
        Operator::Max | Operator::Min | Operator::And | Operator::Or | Operator::Root(_) => false,
    };
    if !rounds {
        return Ok(shards.iter().map(|shard| exact(&shard.view().extents)).collect());
    }
    let mut closed = sharding.clone();
    closed.set_open(AxisSet::NONE);
    let precision = Precision::of(array.dtype);
    let bound = |(shard, whole): (Tensor, Tensor)| {
        let pairs = shard.to_f64s().into_iter().zip(whole.to_f64s());
        let bounds = pairs.map(|(part, element)| {
            let magnitude = part.abs() + element.abs();
            // An infinity or a NaN of the array stands in a part as it is.
            if element.is_finite() { 4.0 * terms * (precision.unit * magnitude + precision.tiny) } else { 0.0 }
        });
        Tensor::owned(&shard.view().extents, bounds.collect())
    };
    Ok(shards.into_iter().zip(self::shards(array, &whole, &closed, mesh)?).map(bound).collect())
}

/// Whether [`open_part`] can write each element as a sum of squares.
fn are_sums_of_squares(whole: &Tensor, count: usize) -> bool {
    with_dtype!(whole.dtype(), T => {
        let mut found = true;
        whole.visit(|element: T| {
            found &= if T::DTYPE.is_float() {
                // A NaN is a sum of squares that contains a NaN.
                is_nan(element) || element.to_f64() >= 0.0
            } else {
                let roots = (0..count).map(|part| root(element, part, count).to_i64());
                roots.map(|root| root.wrapping_mul(root)).fold(0, i64::wrapping_add) == element.to_i64()
            };
        });
        found
    })
}

/// Parts of an open sum that combine to the array.
///
/// Parts are made of the array's own elements, rotated by one position per part, so they have similar magnitude and
/// exactness. For a sum, the parts are differences `v1, v2 - v1, .., a - v(n-1)`, and any consecutive parts add up to
/// a difference again. For a maximum or minimum, each element is in one part, and the other parts have a smaller
/// (larger) or equal element. For a product, the other parts have signs. For a mean, each part deviates by such a
/// difference. For a sum of squares, one part has the root, or for integers several parts have a 1.
fn open_parts(whole: &Tensor, operator: Operator, count: usize) -> Vec<Tensor> {
    if count <= 1 {
        return vec![whole.clone()];
    }
    let extents = whole.view().extents.clone();
    with_dtype!(whole.dtype(), T => {
        let elements: Vec<T> = whole.collect(|element: T| element);
        (0..count).map(|part| Tensor::owned(&extents, open_part(&elements, operator, part, count))).collect()
    })
}

fn open_part<T: Element>(elements: &[T], operator: Operator, part: usize, count: usize) -> Vec<T> {
    let moved = |place: usize, by: usize| elements[(place + by % count) % elements.len()];
    // The amount added in one part and subtracted in the next; 0 if that would not restore the element.
    let carried = |place: usize, by: usize| {
        let other = moved(place, by);
        if is_small(elements[place]) && is_small(other) { other } else { T::default() }
    };
    let element = |place: usize| match operator {
        Operator::Sum if T::DTYPE == DType::Bool => elements[place],
        Operator::Sum if part == 0 => carried(place, 1),
        // The last part is not rotated: it uses the array itself.
        Operator::Sum if part + 1 == count => difference(elements[place], carried(place, part)),
        Operator::Sum => difference(carried(place, part + 1), carried(place, part)),
        Operator::Max | Operator::Min | Operator::And | Operator::Or if place % count == part => elements[place],
        // NaNs of other positions are not used here.
        Operator::Max | Operator::Min if is_nan(moved(place, part + 1)) => elements[place],
        Operator::Max | Operator::Or => elements[place].smallest(moved(place, part + 1)),
        Operator::Min | Operator::And => elements[place].largest(moved(place, part + 1)),
        Operator::Mul => factor(elements[place], place, part, count),
        Operator::Mean => {
            // The positions wrap around, so that all that is added is subtracted again.
            let away = difference(carried(place, (part + 1) % count), carried(place, part));
            elements[place].sum(away)
        }
        Operator::SquareAdd => root(elements[place], (part + place) % count, count),
        // The values of the other devices are never read.
        Operator::Root(_) => elements[place],
    };
    (0..elements.len()).map(element).collect()
}

/// Whether two values of this magnitude can be added and subtracted within the dtype. Integers always can, as they
/// wrap.
fn is_small<T: Element>(element: T) -> bool {
    !T::DTYPE.is_float() || element.to_f64().abs() <= Precision::of(T::DTYPE).most / 4.0
}

fn is_nan<T: Element>(element: T) -> bool {
    element.partial_cmp(&element).is_none()
}

/// One factor of a product: the element times all signs in one part, a sign in each other part.
fn factor<T: Element>(element: T, place: usize, part: usize, count: usize) -> T {
    let sign = |part: usize| if (part + place).is_multiple_of(3) { -1 } else { 1 };
    if place % count != part {
        return T::from_i64(sign(part));
    }
    let others: i64 = (0..count).filter(|other| *other != part).map(sign).product();
    times(element, T::from_i64(others))
}

/// One of the numbers whose squares add up to the element.
fn root<T: Element>(element: T, part: usize, count: usize) -> T {
    let value = element.to_f64();
    if value.fract() == 0.0 && (0.0..=count as f64).contains(&value) {
        return T::from_i64(i64::from((part as f64) < value));
    }
    T::from_f64(if part == 0 { value.sqrt() } else { 0.0 })
}

/// `a - b`, rounded once; integers wrap.
fn difference<T: Element>(a: T, b: T) -> T {
    if T::DTYPE.is_float() {
        T::from_f64(a.to_f64() - b.to_f64())
    } else {
        T::from_i64(a.to_i64().wrapping_sub(b.to_i64()))
    }
}
