//! Lowering of a plan to a [`Schedule`]: every step becomes operations, collectives by their recipes.

use crate::function::Function;
use crate::layout::Dim;
use crate::mesh::{AxisId, Wiring};
use crate::plan::{Bundle, Item, Listing, Member, Part, Pieces, Plan, StepOp};
use crate::program::{Definition, Program, Value, ValueId};
use crate::recipe::{Flaw, Lowering, Tuner};
use crate::schedule::{Array, ArrayId, Builder, Cut, Dense, OpId, OpKind, Output, Region, Schedule};
use crate::topology::Topology;
use itertools::Itertools;
use miette::SourceSpan;
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use thiserror::Error;

/// Why a plan cannot be lowered.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
pub enum LowerError {
    /// A requested method does not apply.
    #[error("method `{method}` does not support {kind} along {axis}, a {wiring} of {size}")]
    #[diagnostic(code("method-not-applicable"), help("{help}"))]
    Method {
        /// Name of the method.
        method: &'static str,
        /// The collective.
        kind: &'static str,
        /// Its axes.
        axis: String,
        /// Wiring of the axes.
        wiring: Wiring,
        /// Number of devices.
        size: u64,
        /// Applicable methods.
        help: String,
        /// The statement.
        #[label("requested by this statement")]
        span: SourceSpan,
    },
    /// Every method of a collective has too many operations to prove.
    #[error("{kind} along {axis} ({size} devices) has too many operations to prove")]
    #[diagnostic(
        code("proof-too-large"),
        help("`shardc plan` shows its lower bound; a mesh of several shorter axes has fewer operations")
    )]
    TooLarge {
        /// The collective.
        kind: &'static str,
        /// Its axes.
        axis: String,
        /// Number of devices.
        size: u64,
        /// The statement.
        #[label("needed by this statement")]
        span: SourceSpan,
    },
    /// A collective has no recipe.
    #[error("{kind} has no recipe")]
    #[diagnostic(code("recipe-missing"), help("call `Plan::with_recipes`, or use `compiler::plan`"))]
    NoRecipe {
        /// The collective.
        kind: &'static str,
        /// The statement.
        #[label("needed by this statement")]
        span: SourceSpan,
    },
}

/// The requested methods of written collectives that do not apply.
///
/// Those of other statements depend on the plan. Along axes of one device nothing is sent.
pub fn unsupported_methods(program: &Program, topology: &Topology) -> Vec<LowerError> {
    let tuner = Tuner::new(Cow::Borrowed(topology), Lowering::default());
    let flaw = |value: &Value| {
        let Definition::Collective { collective, from, operand } = &value.definition else { return None };
        let several = |axis: AxisId| program.mesh.size(axis) > 1;
        let method = value.using.method.filter(|_| collective.axes(from, &program.mesh).iter().all(several))?;
        let from = program.layout(*operand, from.clone());
        tuner.supports(collective, &from, method).err().map(|flaw| error(&flaw, value.span.into()))
    };
    program.values.iter().filter_map(flaw).collect()
}

/// Lowers every step of a plan that [has its recipes](Plan::with_recipes), in order.
///
/// # Errors
/// If a requested method does not apply, a collective has too many operations to prove, or a collective has no recipe.
pub fn lower(plan: &Plan) -> Result<Schedule, LowerError> {
    listed(plan, &Listing::of(plan))
}

/// Lowers a plan in the order of a listing, split into its pieces.
///
/// # Errors
/// As [`lower`].
pub fn listed(plan: &Plan, listing: &Listing<'_>) -> Result<Schedule, LowerError> {
    let program = &plan.program;
    let mut schedule = Schedule::new(program.mesh.clone());
    schedule.arrays = program.value_ids().map(|id| array(program, id)).collect();
    let mut made: Vec<OpId> = Vec::with_capacity(listing.items.len());
    for item in &listing.items {
        let operands: Vec<OpId> = item.operands.iter().map(|operand| made[*operand]).collect();
        let number = u32::try_from(plan.origin(item.step).index()).expect("steps are numbered in 32 bits");
        let mut builder = Builder::new(&mut schedule, number, plan.span(item.step));
        made.push(match item.part {
            Part::Given => {
                let step = plan.step(item.step);
                builder.input(array_id(step.value), step.layout.sharding.clone())
            }
            Part::Pack(bundle) => pack(bundle, &operands, &mut builder),
            Part::Unpack(bundle, member) => {
                let extents = plan.step(item.step).layout.local_extents(&program.mesh);
                unpack(bundle, member, operands[0], extents, &mut builder)
            }
            Part::Whole | Part::Piece { .. } | Part::Bundled(_) => emit(plan, item, &operands, &mut builder)?,
            Part::Cut { pieces, at } => {
                let extents = builder.extents(operands[0]).to_vec();
                let (view, regions) = places(&extents, pieces);
                let region = regions[usize::try_from(at).expect("few pieces")].clone();
                builder.slice(operands[0], view, region)
            }
            Part::Join(pieces) => {
                let mut extents = builder.extents(operands[0]).to_vec();
                let first = pieces.division.lengths()[0];
                extents[pieces.dim] = extents[pieces.dim] / first * units(pieces);
                let (view, regions) = places(&extents, pieces);
                builder.assemble(extents, view, operands.iter().copied().zip_eq(regions).collect())
            }
            Part::Add(operator) => builder.add(&operands, operator),
        });
    }
    schedule.kernels = listing.kernels.iter().map(|kernel| kernel.iter().map(|item| made[*item]).collect()).collect();
    for ((step, value), item) in plan.outputs.iter().zip(&program.outputs).zip(&listing.outputs) {
        let sharding = plan.step(*step).layout.sharding.clone();
        schedule.outputs.push(Output { value: made[*item], array: array_id(*value), sharding });
    }
    assert_steps(plan, listing, &made, &mut schedule);
    Ok(schedule)
}

/// Asserts the arrays that steps make, where the proof may divide the schedule.
fn assert_steps(plan: &Plan, listing: &Listing<'_>, made: &[OpId], schedule: &mut Schedule) {
    let sums = listing.items.iter().filter(|item| matches!(item.part, Part::Add(_)));
    let summands: HashSet<usize> = sums.flat_map(|item| item.operands.iter().copied()).collect();
    let mut known: HashSet<OpId> = schedule.outputs.iter().map(|output| output.value).collect();
    for (at, item) in listing.items.iter().enumerate() {
        let step = plan.step(item.step);
        let is_whole = match item.part {
            Part::Whole | Part::Join(_) | Part::Unpack(..) => true,
            // The sum of all pieces.
            Part::Add(_) => !summands.contains(&at),
            Part::Given | Part::Piece { .. } | Part::Cut { .. } | Part::Pack(_) | Part::Bundled(_) => false,
        };
        let is_input = matches!(schedule.operation(made[at]).kind, OpKind::Input { .. });
        if is_whole && !is_input && step.layout.sharding.open.is_empty() && known.insert(made[at]) {
            schedule.assert(made[at], array_id(step.value), step.layout.sharding.clone());
        }
    }
    schedule.assertions.sort_by_key(|assertion| assertion.value);
}

/// The operand of a bundle: in each of its parts the elements of all members, one after the other.
fn pack(bundle: &Bundle, blocks: &[OpId], builder: &mut Builder<'_>) -> OpId {
    let parts = bundle.parts[0];
    let mut pieces: Vec<(OpId, Region)> = Vec::with_capacity(blocks.len());
    for (member, block) in bundle.members.iter().zip(blocks) {
        let extents = builder.extents(*block).to_vec();
        let length = extents.iter().product::<u64>() / parts;
        if are_rows(&extents, member.dim, parts) {
            pieces.push((builder.reshape(*block, vec![parts * length]), region(member, parts, None)));
            continue;
        }
        let rows = extents[member.dim] / parts;
        for part in 0..parts {
            let slice = builder.slice_range(*block, member.dim, part * rows..(part + 1) * rows);
            pieces.push((builder.reshape(slice, vec![length]), region(member, parts, Some(part))));
        }
    }
    builder.assemble(vec![parts * bundle.elements()], view(bundle, parts), pieces)
}

/// The block of a member in the result of its bundle.
///
/// - `extents`: of the block.
fn unpack(bundle: &Bundle, member: &Member, all: OpId, extents: Vec<u64>, builder: &mut Builder<'_>) -> OpId {
    let parts = bundle.parts[1];
    if are_rows(&extents, member.dim, parts) {
        let rows = builder.slice(all, view(bundle, parts), region(member, parts, None));
        return builder.reshape(rows, extents);
    }
    let mut part = extents.clone();
    part[member.dim] /= parts;
    let pieces = (0..parts).map(|at| {
        let slice = builder.slice(all, view(bundle, parts), region(member, parts, Some(at)));
        let mut place = vec![Cut::Whole; extents.len()];
        place[member.dim] = Cut::Range { start: at * part[member.dim], end: (at + 1) * part[member.dim] };
        (builder.reshape(slice, part.clone()), place)
    });
    let pieces = pieces.collect();
    builder.assemble(extents.clone(), extents.clone(), pieces)
}

/// The block of a bundle by part and element.
fn view(bundle: &Bundle, parts: u64) -> Vec<u64> {
    if parts == 1 { vec![bundle.elements()] } else { vec![parts, bundle.elements()] }
}

/// The elements of a member in that view, in one part or in all.
fn region(member: &Member, parts: u64, part: Option<u64>) -> Region {
    let own = Cut::Range { start: member.elements.start, end: member.elements.end };
    let part = part.map_or(Cut::Whole, |at| Cut::Range { start: at, end: at + 1 });
    if parts == 1 { vec![own] } else { vec![part, own] }
}

/// Whether the parts of a block along a dim are rows, one after the other.
fn are_rows(extents: &[u64], dim: usize, parts: u64) -> bool {
    parts == 1 || extents.iter().take(dim).all(|extent| *extent == 1)
}

/// The view `[.., shards, units, rest, ..]` of a block, and the regions of its pieces.
fn places(extents: &[u64], pieces: Pieces) -> (Vec<u64>, Vec<Region>) {
    let mut view = extents.to_vec();
    let rest = view[pieces.dim] / pieces.shards / units(pieces);
    view.splice(pieces.dim..=pieces.dim, [pieces.shards, units(pieces), rest]);
    let region = |Range { start, end }| {
        let mut region = vec![Cut::Whole; view.len()];
        region[pieces.dim + 1] = Cut::Range { start, end };
        region
    };
    let regions = pieces.division.ranges().map(region).collect();
    (view, regions)
}

fn units(pieces: Pieces) -> u64 {
    pieces.division.units().expect("the division of a pipeline divides its dim")
}

/// Adds the operations of a step, or of a piece of it.
fn emit(plan: &Plan, item: &Item<'_>, operands: &[OpId], builder: &mut Builder<'_>) -> Result<OpId, LowerError> {
    let step = plan.step(item.step);
    let span = || plan.span(item.step).into();
    Ok(match &step.op {
        StepOp::Input => builder.input(array_id(step.value), step.layout.sharding.clone()),
        // Spelled out, nothing is carried; in a body that is done once it is the value itself.
        StepOp::Carry => operands[0],
        StepOp::Product { einsum } => builder.mat_mul([operands[0], operands[1]], einsum.clone(), step.layout.dtype),
        StepOp::Map { function: Function::Fill { dim, valid, with }, .. } => {
            let dim = usize::from(*dim);
            let axes: Vec<AxisId> = step.layout.sharding.dims[dim].iter().collect();
            builder.fill(operands[0], dim, *valid, *with, &axes)
        }
        StepOp::Kernel(kernel) => builder.kernel(operands, kernel.clone(), step.layout.dtype),
        StepOp::Reduce { operator, einsum } => builder.reduce(*operator, operands[0], einsum.clone()),
        StepOp::Map { function, einsum } => builder.map(*function, operands, einsum.clone()),
        StepOp::Collective(collective) => match (item.part, &step.recipe) {
            (Part::Bundled(bundle), _) => bundle.recipe.recipe.emit(builder, operands[0]),
            (Part::Piece { moved: Some(moved), .. }, _) => moved.chosen.recipe.emit(builder, operands[0]),
            (_, Some(Ok(chosen))) => chosen.recipe.emit(builder, operands[0]),
            (_, Some(Err(flaw))) => return Err(error(flaw, span())),
            (_, None) => return Err(LowerError::NoRecipe { kind: collective.kind().name(), span: span() }),
        },
    })
}

fn error(flaw: &Flaw, span: SourceSpan) -> LowerError {
    match flaw {
        Flaw::Method { method, kind, axis, wiring, size, candidates } => LowerError::Method {
            method: method.name(),
            kind: kind.name(),
            axis: axis.clone(),
            wiring: *wiring,
            size: *size,
            help: match candidates.iter().map(|method| format!("`{}`", method.name())).join(" or ") {
                none if none.is_empty() => "remove `using`; no communication is needed".to_owned(),
                some => format!("remove `using`, or use {some}"),
            },
            span,
        },
        Flaw::TooLarge { kind, axis, size } => {
            LowerError::TooLarge { kind: kind.name(), axis: axis.clone(), size: *size, span }
        }
    }
}

/// Converts values to dense arrays with the same numbers.
fn array_id(value: ValueId) -> ArrayId {
    ArrayId(value.0)
}

/// The definition of a value without layouts.
fn array(program: &Program, id: ValueId) -> Array {
    let value = program.value(id);
    let operands: Vec<ArrayId> = value.definition.operands().iter().map(|operand| array_id(*operand)).collect();
    let definition = match &value.definition {
        Definition::Input { supply } => Dense::Input { supply: supply.clone() },
        Definition::Product { operands: [left, right], .. } => {
            Dense::Product { operands: [array_id(*left), array_id(*right)], einsum: program.einsum(id) }
        }
        Definition::Kernel { kernel, .. } => Dense::Kernel { kernel: kernel.clone(), operands },
        Definition::Reduce { operator, operand } => {
            Dense::Reduce { operator: *operator, operand: array_id(*operand), einsum: program.einsum(id) }
        }
        Definition::Map { function, .. } => Dense::Map { function: *function, operands, einsum: program.einsum(id) },
        // The same array in another layout, in another order of its dims, or under other names.
        Definition::Move { .. } | Definition::Collective { .. } | Definition::Rename { .. } => {
            Dense::Map { function: Function::Identity, operands, einsum: program.einsum(id) }
        }
    };
    let name = |dim: &Dim| program.dims.name(dim.id);
    Array {
        name: program.name(id),
        dtype: value.dtype,
        dims: value.dims.iter().map(name).collect(),
        extents: value.dims.iter().map(|dim| dim.size).collect(),
        valid: value.dims.iter().map(|dim| program.dims.size(dim.id)).collect(),
        definition,
    }
}
