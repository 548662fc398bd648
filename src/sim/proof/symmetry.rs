//! Finds axes along which a schedule may be symmetric, and how a step along them permutes array elements.
//!
//! A step along an axis maps every device to the next one. It maps the schedule to itself if array elements are
//! permuted accordingly: where the axis cuts an array, each shard becomes the next. If blocks are also cut by the
//! axis along other dims, such as by the scatter of an AllReduce, those dims rotate as well. The symmetries found
//! here are only candidates: `claims.rs` checks each operation.

use super::digits::{Cutting, Digit, Digits, lie_apart, reshaped, unite};
use super::terms::{Origin, TermId, Terms};
use crate::einsum::{Einsum, Index};
use crate::kernel::Kernel;
use crate::layout::Sharding;
use crate::mesh::{AxisId, AxisSet, Mesh, Orbits};
use crate::schedule::{Dense, OpId, OpKind, Reach, Schedule, Verified};
use std::rc::Rc;

/// The collapsed axes, and the devices that represent the others.
pub(super) struct Symmetry {
    pub(super) orbits: Orbits,
    pub(super) axes: Vec<Turning>,
}

/// An axis along which one device represents all.
pub(super) struct Turning {
    pub(super) axis: AxisId,
    /// Length of the axis.
    pub(super) n: u64,
    /// Digits that rotate in each declared array. Those of computed arrays follow from their operands.
    arrays: Vec<Digits>,
    /// Digits that rotate in each term so far; `None` if the operands of a term do not rotate consistently.
    terms: Vec<Option<Rc<[Digit]>>>,
}

/// Axes along which no map and no shuffle distinguishes devices.
pub(super) fn candidates(schedule: Verified<'_>) -> AxisSet {
    let mesh = &schedule.mesh;
    let claims = || schedule.assertions.iter().chain(&schedule.outputs);
    let on_first = |axis: &AxisId| claims().any(|claim| is_on_first(&claim.sharding, *axis));
    mesh.axis_ids().filter(|axis| mesh.size(*axis) > 1 && turns(&schedule, *axis) && !on_first(axis)).collect()
}

/// Whether every map and every shuffle commutes with a step along the axis.
fn turns(schedule: &Schedule, axis: AxisId) -> bool {
    let mesh = &schedule.mesh;
    schedule.ids().all(|id| {
        // A mask distinguishes the first device.
        let masks = match &schedule.operation(id).kind {
            OpKind::Mask { axes } => axes.contains(&axis),
            // Which elements are 0 differs from device to device.
            OpKind::Assemble { zeros, .. } => *zeros,
            _ => false,
        };
        let reach_turns = match schedule.operation(id).kind.properties().reach {
            Reach::Sent(sources, _) => sources.commutes(mesh, axis),
            Reach::Given(sharding) => !is_on_first(sharding, axis),
            Reach::Gathered(_) | Reach::Own => true,
        };
        !masks && reach_turns && cuttings(schedule, id, axis).is_some()
    })
}

/// Whether only one device along the axis holds the array.
fn is_on_first(sharding: &Sharding, axis: AxisId) -> bool {
    sharding.operator.is_root() && sharding.open.contains(axis)
}

/// How an axis rotates the regions of a slice or an assembly; `None` if some region does not rotate.
pub(super) fn cuttings(schedule: &Schedule, id: OpId, axis: AxisId) -> Option<Vec<Cutting<'_>>> {
    let (mesh, operation) = (&schedule.mesh, schedule.operation(id));
    let operands = schedule.operands(id);
    let extents = |place: usize| schedule.operation(operands[place]).extents.as_slice();
    match &operation.kind {
        OpKind::Slice { view, region } => {
            Cutting::new(mesh, axis, (extents(0), view), region, &operation.extents).map(|cutting| vec![cutting])
        }
        OpKind::Assemble { view, places, .. } => {
            let cuttings = places
                .iter()
                .enumerate()
                .map(|(place, region)| Cutting::new(mesh, axis, (&operation.extents, view), region, extents(place)));
            cuttings.collect()
        }
        _ => Some(Vec::new()),
    }
}

impl Symmetry {
    /// Selects those of the axes for which consistent rotations of the arrays are found.
    pub(super) fn new(schedule: Verified<'_>, axes: AxisSet) -> Symmetry {
        let mut turning: Vec<Turning> = Vec::new();
        for axis in axes.iter() {
            turning.extend(Turning::new(&schedule, axis));
            // Steps along different axes must commute.
            let commute = (0..schedule.arrays.len()).all(|place| {
                let all = turning.iter().flat_map(|own| own.arrays[place].iter().map(|digit| (*digit, own.n)));
                lie_apart(&all.collect::<Vec<_>>(), &schedule.arrays[place].extents)
            });
            if !commute {
                turning.pop();
            }
        }
        let orbits = Orbits::new(&schedule.mesh, turning.iter().map(|turning| turning.axis).collect());
        Symmetry { orbits, axes: turning }
    }
}

impl Turning {
    fn new(schedule: &Schedule, axis: AxisId) -> Option<Turning> {
        let n = schedule.mesh.size(axis);
        let arrays = arrays(schedule, axis)?;
        Some(Turning { axis, n, arrays, terms: Vec::new() })
    }

    /// Digits that rotate in the elements of a term; `None` if they do not follow from its operands.
    pub(super) fn term(&mut self, terms: &Terms, term: TermId) -> Option<Rc<[Digit]>> {
        while self.terms.len() <= term.index() {
            let next = terms.origin(TermId::new(self.terms.len()));
            let digits = match next {
                Origin::Input(array) => Some(self.arrays[array].as_slice().into()),
                Origin::Of(of) => self.terms[of.index()].clone(),
                // What an unknown function makes of rotated elements is unknown.
                Origin::Opaque(kernel, operands) if self.rotates_whole(kernel, operands) => None,
                Origin::Opaque(kernel, operands) => self.passed(&kernel.einsum, operands),
                Origin::Computed(einsum, operands) => self.passed(einsum, operands),
            };
            self.terms.push(digits);
        }
        self.terms[term.index()].clone()
    }

    /// Digits that rotate in the elements of a result, if those of its operands agree.
    fn passed(&self, einsum: &Einsum, operands: &[TermId]) -> Option<Rc<[Digit]>> {
        let known: Vec<_> = operands.iter().map(|id| self.terms[id.index()].clone()).collect::<Option<_>>()?;
        let weights = (0..einsum.index_count()).map(|index| {
            let index = u8::try_from(index).ok()?;
            let mut own = einsum.operands.iter().zip(&known).filter_map(|(indices, digits)| {
                let dim = indices.iter().position(|known| *known == index)?;
                Some(of_dim(digits, dim))
            });
            let first = own.next().unwrap_or_default();
            own.all(|other| other == first).then_some(first)
        });
        let weights = weights.collect::<Option<Vec<Vec<u64>>>>()?;
        let dims = einsum.result.iter().enumerate().flat_map(|(dim, index)| {
            weights[usize::from(*index)].iter().map(move |weight| Digit { dim, weight: *weight })
        });
        Some(dims.collect())
    }

    /// Whether a digit rotates in an index that a kernel needs whole.
    fn rotates_whole(&self, kernel: &Kernel, operands: &[TermId]) -> bool {
        let mut all = kernel.einsum.operands.iter().zip(operands);
        all.any(|(indices, operand)| {
            let digits = self.terms[operand.index()].iter().flat_map(|digits| digits.iter());
            digits.into_iter().any(|digit| !kernel.sharded[usize::from(indices[digit.dim])])
        })
    }

    /// Weights of the digits that rotate in a contracted index of a term.
    pub(super) fn contracted(&mut self, terms: &Terms, term: TermId, index: u8) -> Option<Vec<u64>> {
        self.term(terms, term)?;
        let (einsum, operands) = match terms.origin(term) {
            Origin::Computed(einsum, operands) => (einsum, operands),
            Origin::Opaque(kernel, operands) => (&kernel.einsum, operands),
            Origin::Input(_) | Origin::Of(_) => return None,
        };
        einsum.operands.iter().zip(operands).find_map(|(indices, operand)| {
            let dim = indices.iter().position(|known| *known == index)?;
            Some(of_dim(self.terms[operand.index()].as_ref()?, dim))
        })
    }
}

/// Weights of the digits of one dim.
fn of_dim(digits: &[Digit], dim: usize) -> Vec<u64> {
    digits.iter().filter(|digit| digit.dim == dim).map(|digit| digit.weight).collect()
}

/// The digit by which an axis cuts a dim of an array.
pub(super) fn cut_by(mesh: &Mesh, sharding: &Sharding, extents: &[u64], axis: AxisId) -> Option<Digit> {
    let dim = sharding.dim_of(axis).filter(|_| !sharding.open.contains(axis))?;
    let shard = extents[dim] / sharding.dims[dim].group_size(mesh);
    let minor = mesh.group_size(sharding.dims[dim].iter().skip_while(|own| *own != axis).skip(1));
    Some(Digit { dim, weight: shard * minor })
}

/// Proposed digits for each array: where the axis cuts the array, where it is cut along the way, and dims that share
/// an index with such dims.
fn arrays(schedule: &Schedule, axis: AxisId) -> Option<Vec<Digits>> {
    let mesh = &schedule.mesh;
    let mut arrays: Vec<Digits> = vec![Digits::new(); schedule.arrays.len()];
    let wanted = wanted(schedule, axis)?;
    let inputs = schedule.ids().zip(wanted).filter_map(|(id, wanted)| match &schedule.operation(id).kind {
        OpKind::Input { array, sharding } => Some((*array, sharding, wanted)),
        _ => None,
    });
    let outputs = schedule.outputs.iter().map(|output| (output.array, &output.sharding, Digits::new()));
    for (array, sharding, wanted) in inputs.chain(outputs) {
        let cut = cut_by(mesh, sharding, &schedule.array(array).extents, axis);
        unite(&mut arrays[array.index()], cut.into_iter().chain(wanted));
    }
    // Dims that share an index rotate equally, in operands and results.
    let mut grows = true;
    while grows {
        grows = false;
        let places: Vec<usize> = (0..schedule.arrays.len()).collect();
        for place in places.iter().chain(places.iter().rev()) {
            grows |= unite_indices(schedule, *place, &mut arrays);
        }
    }
    let n = mesh.size(axis);
    let fit = arrays.iter().zip(&schedule.arrays).all(|(digits, array)| {
        let digits: Vec<(Digit, u64)> = digits.iter().map(|digit| (*digit, n)).collect();
        lie_apart(&digits, &array.extents)
    });
    fit.then_some(arrays)
}

/// Makes dims of an array and its operands that share an index rotate equally. Returns whether a digit was added.
fn unite_indices(schedule: &Schedule, place: usize, arrays: &mut [Digits]) -> bool {
    let (einsum, operands) = match &schedule.arrays[place].definition {
        Dense::Input { .. } => return false,
        Dense::Product { einsum, operands } => (einsum, operands.as_slice()),
        Dense::Reduce { einsum, operand, .. } => (einsum, std::slice::from_ref(operand)),
        Dense::Map { einsum, operands, .. } => (einsum, operands.as_slice()),
        Dense::Kernel { kernel, operands } => (&kernel.einsum, operands.as_slice()),
    };
    let is_united = |index: &Index| match &schedule.arrays[place].definition {
        Dense::Kernel { kernel, .. } => kernel.sharded[usize::from(*index)],
        _ => true,
    };
    let sides = || {
        let operands = einsum.operands.iter().zip(operands).map(|(indices, operand)| (indices, operand.index()));
        operands.chain([(&einsum.result, place)])
    };
    let mut weights: Vec<Vec<u64>> = vec![Vec::new(); einsum.index_count()];
    for (indices, array) in sides() {
        for (dim, index) in indices.iter().enumerate() {
            if is_united(index) {
                weights[usize::from(*index)].extend(of_dim(&arrays[array], dim));
            }
        }
    }
    sides().fold(false, |grows, (indices, array)| {
        let all = indices.iter().enumerate().flat_map(|(dim, index)| {
            weights[usize::from(*index)].iter().map(move |weight| Digit { dim, weight: *weight })
        });
        unite(&mut arrays[array], all) || grows
    })
}

/// Adds the digits of a result to those of its operands, by index.
fn unite_operands(einsum: &Einsum, operands: &[OpId], own: &[Digit], wanted: &mut [Digits]) {
    for (indices, operand) in einsum.operands.iter().zip(operands) {
        let digits = own.iter().filter_map(|digit| {
            let index = einsum.result.get(digit.dim)?;
            let dim = indices.iter().position(|known| known == index)?;
            Some(Digit { dim, weight: digit.weight })
        });
        unite(&mut wanted[operand.index()], digits);
    }
}

/// For each value, the digits by which its blocks, or values computed from it, are cut.
fn wanted(schedule: &Schedule, axis: AxisId) -> Option<Vec<Digits>> {
    let mut wanted: Vec<Digits> = vec![Digits::new(); schedule.operations.node_count()];
    for id in schedule.ids().collect::<Vec<_>>().into_iter().rev() {
        let own = std::mem::take(&mut wanted[id.index()]);
        let operation = schedule.operation(id);
        let operands = schedule.operands(id);
        match &operation.kind {
            OpKind::Input { .. } => {}
            OpKind::Slice { .. } => {
                for (cutting, operand) in cuttings(schedule, id, axis)?.iter().zip(&operands) {
                    unite(&mut wanted[operand.index()], cutting.indices().into_iter().chain(cutting.up(&own)));
                }
            }
            OpKind::Assemble { .. } => {
                for (cutting, operand) in cuttings(schedule, id, axis)?.iter().zip(&operands) {
                    unite(&mut wanted[operand.index()], cutting.down(&own));
                }
            }
            OpKind::Shuffle { .. }
            | OpKind::Add { .. }
            | OpKind::SwitchSum { .. }
            | OpKind::Fill { .. }
            | OpKind::Shift { .. }
            | OpKind::Mask { .. } => {
                for operand in &operands {
                    unite(&mut wanted[operand.index()], own.iter().copied());
                }
            }
            OpKind::Reshape => {
                let (of, from) = (&operation.extents, &schedule.operation(operands[0]).extents);
                let digits = reshaped(&own, schedule.mesh.size(axis), of, from);
                unite(&mut wanted[operands[0].index()], digits.into_iter().flatten());
            }
            OpKind::AllGather { .. } => {
                let extents = &schedule.operation(operands[0]).extents;
                let fits = |digit: &Digit| lie_apart(&[(*digit, schedule.mesh.size(axis))], extents);
                unite(&mut wanted[operands[0].index()], own.iter().copied().filter(fits));
            }
            OpKind::MatMul { einsum } | OpKind::Reduce { einsum, .. } | OpKind::Map { einsum, .. } => {
                unite_operands(einsum, &operands, &own, &mut wanted);
            }
            OpKind::Kernel(kernel) => unite_operands(&kernel.einsum, &operands, &own, &mut wanted),
        }
        wanted[id.index()] = own;
    }
    Some(wanted)
}
