//! Proof in segments, between the values that a schedule asserts.
//!
//! A value that is proven to be an array in a sharding may be an input of everything that follows, however it was made.
//! So every assertion and every output is a goal of its own: the operations that lead to it from the asserted values
//! before it, which are its inputs. Goals of equal layers and equal pieces are equal schedules up to names, and each is
//! proven once. The cost grows with the number of different goals. Symmetry is looked for in each goal, too: arrays that
//! rotate differently in two collectives are no obstacle if a value between them is asserted.
//!
//! ```text
//! x1 ── gather, product, scatter ──▶ x2 ── gather, product, scatter ──▶ x3
//!       goal x2, from the input x1         goal x3, from the input x2: the same schedule
//! ```
//!
//! What is assembled to an asserted value is a part of it, and may be cut out of it again.
//!
//! Operations that lead to no assertion and no output are followed as well, as what they are: nothing is claimed of them.
//!
//! A goal takes only values before it as given, so none is used in its own proof. It may fail although the schedule is
//! right: if it also needs to know how an asserted value was made, such as that its array is the sum of an open one. Then
//! the whole schedule is followed.

use super::zeros::Zeros;
use super::{Proof, run};
use crate::function::Function;
use crate::schedule::{
    Array, ArrayId, Cut, Dense, OpId, OpKind, Operation, Output, Region, Schedule, Verified, verify,
};
use crate::span::Span;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

/// Maximum number of operations and arrays in all goals, as a multiple of those of the schedule: an operation may lead to
/// several.
const MOST_SHARED: usize = 4;

/// The proof of all goals; `None` if one of them does not follow from the asserted values before it, or if they are larger
/// than the schedule may be.
pub(super) fn run(schedule: Verified<'_>) -> Option<Proof> {
    let mut proof = Proof {
        operations: schedule.operations.node_count(),
        devices: schedule.mesh.device_count(),
        followed: 1,
        collapsed: schedule.mesh.axis_ids().filter(|axis| schedule.mesh.size(*axis) > 1).collect(),
        pieces: 0,
        segments: 0,
        kernels: run::kernels(schedule.schedule()),
    };
    let mut work = 0usize;
    let segments = different(schedule, |segment| {
        work = work.saturating_add(size(segment).saturating_mul(super::followed(verify(segment).ok()?)));
        (work <= run::MOST_VALUES).then_some(())
    })?;
    for segment in &segments {
        let own = run::run(verify(segment).ok()?).ok()?;
        proof.followed = proof.followed.max(own.followed);
        proof.collapsed = proof.collapsed.intersection(own.collapsed);
        proof.pieces = proof.pieces.saturating_add(own.pieces);
        proof.segments += 1;
        if proof.pieces > run::MOST_PIECES {
            return None;
        }
    }
    Some(proof)
}

/// Estimated operations and operands of all segments, times the devices to follow; `None` without assertions.
pub(super) fn work(schedule: Verified<'_>) -> Option<usize> {
    let mut work = 0usize;
    different(schedule, |segment| {
        work = work.saturating_add(size(segment).saturating_mul(super::followed(verify(segment).ok()?)));
        Some(())
    })?;
    Some(work)
}

/// Number of operations and operands.
fn size(segment: &Schedule) -> usize {
    segment.operations.node_count() + segment.operations.edge_count()
}

/// The segments that differ from those before them, each passed to `each`; `None` without assertions, with too many
/// operations or arrays in all, or if `each` returns that.
fn different(schedule: Verified<'_>, mut each: impl FnMut(&Schedule) -> Option<()>) -> Option<Vec<Schedule>> {
    let cutter = Cutter::new(schedule.schedule())?;
    let mut found: Vec<Schedule> = Vec::new();
    let mut known: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    let whole = schedule.operations.node_count() + schedule.arrays.len();
    let mut left = whole.saturating_mul(MOST_SHARED);
    let claims = schedule.assertions.iter().chain(&schedule.outputs);
    let claims = claims.map(|claim| Goal { value: claim.value, claim: Some(claim) });
    for goal in claims.chain(cutter.unclaimed()) {
        let segment = cutter.segment(goal, left)?;
        left = left.checked_sub(segment.operations.node_count() + segment.arrays.len())?;
        let alike = known.entry(digest(&segment)).or_default();
        if !alike.iter().any(|other| are_equal(&found[*other], &segment)) {
            each(&segment)?;
            alike.push(found.len());
            found.push(segment);
        }
    }
    Some(found)
}

/// A value to which operations lead.
#[derive(Clone, Copy)]
struct Goal<'a> {
    value: OpId,
    /// What is claimed of it.
    claim: Option<&'a Output>,
}

/// A schedule, and what is asserted of its values.
struct Cutter<'a> {
    schedule: &'a Schedule,
    /// The operands of each operation.
    operands: Vec<Vec<OpId>>,
    /// What each value is, if anything is asserted of it.
    given: Vec<Option<Given<'a>>>,
}

/// What is asserted of a value.
#[derive(Clone, Copy)]
enum Given<'a> {
    /// It is an array in a sharding without open sums.
    Whole(&'a Output),
    /// It is the same region of such a value on every device.
    Part { of: &'a Output, view: &'a [u64], region: &'a Region },
}

impl<'a> Given<'a> {
    /// The value that it is, or is a part of.
    fn whole(self) -> &'a Output {
        match self {
            Given::Whole(output) | Given::Part { of: output, .. } => output,
        }
    }
}

impl<'a> Cutter<'a> {
    /// Returns `None` without assertions.
    fn new(schedule: &'a Schedule) -> Option<Cutter<'a>> {
        if schedule.assertions.is_empty() {
            return None;
        }
        let operands: Vec<Vec<OpId>> = schedule.ids().map(|id| schedule.operands(id)).collect();
        let kept = with_zeros(schedule);
        let closed = || {
            let all = schedule.assertions.iter().chain(&schedule.outputs);
            all.filter(|output| output.sharding.open.is_empty() && !kept.contains(&output.array))
        };
        let mut given = vec![None; operands.len()];
        for output in closed() {
            given[output.value.index()] = Some(Given::Whole(output));
        }
        for output in closed() {
            let OpKind::Assemble { view, places, .. } = &schedule.operation(output.value).kind else { continue };
            if !need_all(view, places) {
                continue;
            }
            for (operand, region) in operands[output.value.index()].iter().zip(places) {
                given[operand.index()].get_or_insert(Given::Part { of: output, view, region });
            }
        }
        Some(Cutter { schedule, operands, given })
    }

    /// The values of which nothing is claimed, and which nothing uses.
    fn unclaimed(&self) -> impl Iterator<Item = Goal<'a>> + use<'a> {
        let claims = self.schedule.assertions.iter().chain(&self.schedule.outputs).map(|claim| claim.value);
        let used: FxHashSet<OpId> = self.operands.iter().flatten().copied().chain(claims).collect();
        let unused = self.schedule.ids().filter(move |id| !used.contains(id));
        unused.map(|value| Goal { value, claim: None })
    }

    /// The operations that lead to a goal from values that are given before it; `None` if they or their arrays are more
    /// than `most`.
    fn segment(&self, goal: Goal<'_>, most: usize) -> Option<Schedule> {
        let cone = self.cone(goal, most)?;
        let arrays = self.arrays(goal, &cone, most)?;
        let place = |array: ArrayId| {
            let place =
                arrays.binary_search_by_key(&array, |(known, _)| *known).expect("all arrays of the goal are known");
            ArrayId(u32::try_from(place).expect("there are not more than in the schedule"))
        };
        let definitions = arrays.iter().map(|(id, is_given)| self.array(*id, *is_given, place));
        let mut segment = Schedule::new(self.schedule.mesh.clone());
        segment.arrays = definitions.collect();
        let mut made: FxHashMap<OpId, OpId> = FxHashMap::default();
        let push = |segment: &mut Schedule, id: OpId, kind: OpKind, operands: &[OpId]| {
            let Operation { dtype, extents, .. } = self.schedule.operation(id);
            let (dtype, extents) = (*dtype, extents.clone());
            segment.push(Operation { kind, dtype, extents, step: 0, method: None, span: Span::default() }, operands)
        };
        let input = |output: &Output| OpKind::Input {
            array: place(self.named(output.array)),
            sharding: output.sharding.clone(),
        };
        for id in cone {
            let own = match (self.given(goal, id), &self.schedule.operation(id).kind) {
                (Some(Given::Whole(output)), _) => match made.get(&id) {
                    // A part of it came first.
                    Some(own) => *own,
                    None => push(&mut segment, id, input(output), &[]),
                },
                (Some(Given::Part { of, view, region }), _) => {
                    let whole = made.entry(of.value).or_insert_with(|| push(&mut segment, of.value, input(of), &[]));
                    let kind = OpKind::Slice { view: view.to_vec(), region: region.clone() };
                    push(&mut segment, id, kind, &[*whole])
                }
                (None, OpKind::Input { array, sharding }) => {
                    let kind = OpKind::Input { array: place(*array), sharding: sharding.clone() };
                    push(&mut segment, id, kind, &[])
                }
                (None, kind) => {
                    let operands: Vec<OpId> = self.operands[id.index()].iter().map(|operand| made[operand]).collect();
                    push(&mut segment, id, kind.clone(), &operands)
                }
            };
            made.insert(id, own);
        }
        segment.outputs.extend(goal.claim.map(|claim| Output {
            value: made[&claim.value],
            array: place(claim.array),
            sharding: claim.sharding.clone(),
        }));
        Some(segment)
    }

    /// The operations that lead to a goal, operands first; `None` if they are more than `most`. Their order does not depend on that of the schedule, in which equal
    /// layers may be interleaved differently.
    fn cone(&self, goal: Goal<'_>, most: usize) -> Option<Vec<OpId>> {
        let (mut cone, mut seen) = (Vec::new(), FxHashSet::from_iter([goal.value]));
        // Operations, each with the number of its operands that are done.
        let mut open = vec![(goal.value, 0)];
        while let Some((id, done)) = open.last_mut() {
            let operands = &self.operands[id.index()];
            match operands.get(*done).filter(|_| self.given(goal, *id).is_none()) {
                Some(operand) => {
                    *done += 1;
                    if seen.insert(*operand) {
                        open.push((*operand, 0));
                    }
                }
                None => {
                    cone.push(*id);
                    open.pop();
                }
            }
            if seen.len() > most {
                return None;
            }
        }
        Some(cone)
    }

    /// What is known of a value before a goal.
    fn given(&self, goal: Goal<'_>, id: OpId) -> Option<Given<'a>> {
        self.given[id.index()].filter(|given| given.whole().value < goal.value)
    }

    /// The arrays of a goal in order, operands first, and whether each is given; `None` if they are more than `most`.
    fn arrays(&self, goal: Goal<'_>, cone: &[OpId], most: usize) -> Option<Vec<(ArrayId, bool)>> {
        let given = cone.iter().filter_map(|id| match (self.given(goal, *id), &self.schedule.operation(*id).kind) {
            (Some(given), _) => Some(self.named(given.whole().array)),
            (None, OpKind::Input { array, .. }) => Some(*array),
            (None, _) => None,
        });
        let given: BTreeSet<ArrayId> = given.collect();
        let (mut all, mut open) = (given.clone(), Vec::from_iter(goal.claim.map(|claim| claim.array)));
        while let Some(array) = open.pop() {
            if all.insert(array) {
                open.extend(self.schedule.array(array).definition.operands());
            }
            if all.len() > most {
                return None;
            }
        }
        Some(all.into_iter().map(|array| (array, given.contains(&array))).collect())
    }

    /// The array that another one is under another name: what is known of one is known of the other.
    fn named(&self, mut id: ArrayId) -> ArrayId {
        loop {
            let array = self.schedule.array(id);
            match &array.definition {
                Dense::Map { function: Function::Identity, operands, einsum }
                    if einsum.operands[0] == einsum.result
                        && self.schedule.array(operands[0]).extents == array.extents
                        && self.schedule.array(operands[0]).dtype == array.dtype =>
                {
                    id = operands[0];
                }
                _ => return id,
            }
        }
    }

    /// An array without its name, among those of a goal.
    fn array(&self, id: ArrayId, is_given: bool, place: impl Fn(ArrayId) -> ArrayId) -> Array {
        let array = self.schedule.array(id);
        let definition = match &array.definition {
            Dense::Input { supply } if !supply.is_given() => Dense::Input { supply: supply.clone() },
            _ if is_given => Dense::INPUT,
            Dense::Input { .. } => Dense::INPUT,
            Dense::Product { operands, einsum } => {
                Dense::Product { operands: operands.map(&place), einsum: einsum.clone() }
            }
            Dense::Reduce { operator, operand, einsum } => {
                Dense::Reduce { operator: *operator, operand: place(*operand), einsum: einsum.clone() }
            }
            Dense::Kernel { kernel, operands } => {
                Dense::Kernel { kernel: kernel.clone(), operands: operands.iter().copied().map(&place).collect() }
            }
            Dense::Map { function, operands, einsum } => Dense::Map {
                function: *function,
                operands: operands.iter().copied().map(&place).collect(),
                einsum: einsum.clone(),
            },
        };
        Array { name: String::new(), definition, ..array.clone() }
    }
}

/// The arrays whose definitions are needed, as blocks have zeros by them: none of their values is given.
fn with_zeros(schedule: &Schedule) -> FxHashSet<ArrayId> {
    let on_zeros = |id: OpId| matches!(schedule.operation(id).kind, OpKind::Assemble { zeros: true, .. });
    if !schedule.ids().any(on_zeros) {
        return FxHashSet::default();
    }
    let arrays = (0..).map(ArrayId).take(schedule.arrays.len());
    arrays.filter_map(|id| Zeros::of(schedule, id)).flat_map(|zeros| zeros.follows_from).collect()
}

/// Whether a full block needs each of these regions on every device. Where regions overlap, an operand may be absent on some
/// devices, and another one take its place.
fn need_all(view: &[u64], places: &[Region]) -> bool {
    let length = |(cut, extent): (&Cut, &u64)| match cut {
        Cut::Whole => Some(u128::from(*extent)),
        Cut::Range { start, end } => Some(u128::from(end - start)),
        Cut::At(_) => None,
    };
    let volume = |region: &Region| region.iter().zip(view).map(length).product::<Option<u128>>();
    places.iter().map(volume).sum::<Option<u128>>() == Some(view.iter().map(|extent| u128::from(*extent)).product())
}

/// A number that equal segments share.
fn digest(segment: &Schedule) -> u64 {
    let mut hasher = FxHasher::default();
    for operation in segment.operations.node_weights() {
        (std::mem::discriminant(&operation.kind), &operation.extents, operation.dtype).hash(&mut hasher);
    }
    for edge in segment.operations.raw_edges() {
        (edge.source(), edge.target(), edge.weight).hash(&mut hasher);
    }
    hasher.finish()
}

/// Whether two segments of one schedule are the same.
fn are_equal(one: &Schedule, other: &Schedule) -> bool {
    let edges = |segment: &Schedule| {
        let edges = segment.operations.raw_edges().iter();
        edges.map(|edge| (edge.source(), edge.target(), edge.weight)).collect::<Vec<_>>()
    };
    one.outputs == other.outputs
        && one.arrays == other.arrays
        && one.operations.node_weights().eq(other.operations.node_weights())
        && edges(one) == edges(other)
}
