//! Single mutations of a schedule.

use petgraph::graph::DiGraph;
use shardc::function::{Binary, Filler, Unary};
use shardc::mesh::{AxisId, Mesh};
use shardc::operator::Operator;
use shardc::schedule::{Array, ArrayId, CoordMap, Cut, OpId, OpKind, Operation, Output, Schedule, Sources};
use shardc::shift::Shift;

/// All mutations of the schedule that this file defines, with names.
pub fn mutants(schedule: &Schedule) -> impl Iterator<Item = (String, Schedule)> {
    let (schedule, other) = (schedule.clone(), schedule.clone());
    let assertions = (0..schedule.assertions.len()).flat_map(move |place| of_assertion(&other, place));
    schedule.ids().collect::<Vec<_>>().into_iter().flat_map(move |id| of_operation(&schedule, id)).chain(assertions)
}

/// Assertions about other values, about other arrays, and of other layouts.
fn of_assertion(schedule: &Schedule, place: usize) -> Vec<(String, Schedule)> {
    let mut list = Vec::new();
    let mut push = |what: String, change: &dyn Fn(&mut Output)| {
        let mut mutant = schedule.clone();
        change(&mut mutant.assertions[place]);
        list.push((format!("assertion {place}: {what}"), mutant));
    };
    let Output { value, array, sharding } = &schedule.assertions[place];
    let extents = |id: OpId| (&schedule.operation(id).extents, schedule.operation(id).dtype);
    for other in schedule.ids().filter(|other| other != value && extents(*other) == extents(*value)) {
        push(format!("of %{}", other.index()), &|assertion| assertion.value = other);
    }
    let shape = |array: &Array| (array.extents.clone(), array.dtype);
    for (other, known) in (0..).map(ArrayId).zip(&schedule.arrays) {
        if other != *array && shape(known) == shape(schedule.array(*array)) {
            push(format!("that it is array {}", other.index()), &|assertion| assertion.array = other);
        }
    }
    for dim in 0..sharding.dims.len() {
        for other in dim + 1..sharding.dims.len() {
            if sharding.dims[dim] != sharding.dims[other] {
                push(format!("dims {dim} and {other} swap axes"), &|assertion| {
                    assertion.sharding.dims.swap(dim, other)
                });
            }
        }
    }
    list
}

fn of_operation(schedule: &Schedule, id: OpId) -> Vec<(String, Schedule)> {
    let mut list = deleted(schedule, id);
    list.extend(operands_changed(schedule, id));
    for (what, kind) in kinds(&schedule.mesh, &schedule.operation(id).kind) {
        let mut mutant = schedule.clone();
        mutant.operations[id].kind = kind;
        list.push((format!("%{}: {what}", id.index()), mutant));
    }
    list
}

/// The same schedule with other operands; operations may change their kind accordingly.
fn rewired(schedule: &Schedule, change: impl Fn(OpId, &mut Operation, &mut Vec<OpId>)) -> Schedule {
    let mut mutant = Schedule { operations: DiGraph::new(), ..schedule.clone() };
    for id in schedule.ids() {
        let (mut operation, mut operands) = (schedule.operation(id).clone(), schedule.operands(id));
        change(id, &mut operation, &mut operands);
        mutant.push(operation, &operands);
    }
    mutant
}

/// Removes an operation: users read an operand of equal extents instead, or omit it.
fn deleted(schedule: &Schedule, id: OpId) -> Vec<(String, Schedule)> {
    let mut list = Vec::new();
    for operand in schedule.operands(id) {
        if schedule.operation(operand).extents == schedule.operation(id).extents {
            let mut mutant = rewired(schedule, |_, _, operands| {
                operands.iter_mut().filter(|used| **used == id).for_each(|used| *used = operand);
            });
            mutant.outputs.iter_mut().filter(|output| output.value == id).for_each(|output| output.value = operand);
            list.push((format!("%{} replaced by %{}", id.index(), operand.index()), mutant));
        }
    }
    let dropped = rewired(schedule, |_, operation, operands| match &mut operation.kind {
        OpKind::Add { .. } => operands.retain(|used| *used != id),
        OpKind::Assemble { places, .. } => {
            let kept: Vec<bool> = operands.iter().map(|used| *used != id).collect();
            let mut flags = kept.iter();
            places.retain(|_| *flags.next().unwrap_or(&true));
            operands.retain(|used| *used != id);
        }
        OpKind::Input { .. }
        | OpKind::Slice { .. }
        | OpKind::Shuffle { .. }
        | OpKind::AllGather { .. }
        | OpKind::SwitchSum { .. }
        | OpKind::MatMul { .. }
        | OpKind::Reduce { .. }
        | OpKind::Map { .. }
        | OpKind::Kernel(_)
        | OpKind::Fill { .. }
        | OpKind::Shift { .. }
        | OpKind::Mask { .. }
        | OpKind::Reshape => {}
    });
    list.push((format!("%{} dropped from its users", id.index()), dropped));
    list
}

/// Duplicated, missing and reordered operands.
fn operands_changed(schedule: &Schedule, id: OpId) -> Vec<(String, Schedule)> {
    let count = schedule.operands(id).len();
    let mut list = Vec::new();
    let mut push = |what: String, change: &dyn Fn(&mut Operation, &mut Vec<OpId>)| {
        let mutant = rewired(schedule, |at, operation, operands| {
            if at == id {
                change(operation, operands);
            }
        });
        list.push((format!("%{}: {what}", id.index()), mutant));
    };
    for place in 0..count {
        push(format!("operand {place} twice"), &|operation, operands| {
            operands.push(operands[place]);
            if let OpKind::Assemble { places, .. } = &mut operation.kind {
                places.push(places[place].clone());
            }
        });
        push(format!("operand {place} left out"), &|operation, operands| {
            operands.remove(place);
            if let OpKind::Assemble { places, .. } = &mut operation.kind {
                places.remove(place);
            }
        });
    }
    for place in 1..count {
        push(format!("operands {} and {place} swapped", place - 1), &|_, operands| operands.swap(place - 1, place));
        push(format!("operand {} stands for {place}", place - 1), &|_, operands| operands[place] = operands[place - 1]);
    }
    for earlier in schedule.ids().take_while(|earlier| *earlier < id) {
        let other = schedule.operation(earlier);
        for place in 0..count {
            let used = schedule.operands(id)[place];
            if used != earlier && schedule.operation(used).extents == other.extents {
                push(format!("operand {place} is %{}", earlier.index()), &|_, operands| operands[place] = earlier);
            }
        }
    }
    list
}

/// Changed parameters.
fn kinds(mesh: &Mesh, kind: &OpKind) -> Vec<(String, OpKind)> {
    match kind {
        OpKind::Input { .. } | OpKind::Kernel(_) | OpKind::Reshape => Vec::new(),
        OpKind::Slice { view, region } => {
            let changed = cuts(mesh, view, region).into_iter();
            changed.map(|(what, region)| (what, OpKind::Slice { view: view.clone(), region })).collect()
        }
        OpKind::Shuffle { sources, .. } => shuffles(mesh, sources),
        OpKind::Add { .. } => [Operator::Max, Operator::Min]
            .map(|operator| (format!("combined with {operator}"), OpKind::Add { operator }))
            .to_vec(),
        OpKind::Assemble { view, places, zeros } => {
            let mut list = Vec::new();
            if *zeros {
                let full = OpKind::Assemble { view: view.clone(), places: places.clone(), zeros: false };
                list.push(("without zeros".to_owned(), full));
            }
            for (place, region) in places.iter().enumerate() {
                for (what, region) in cuts(mesh, view, region) {
                    let mut places = places.clone();
                    places[place] = region;
                    list.push((
                        format!("place {place}: {what}"),
                        OpKind::Assemble { view: view.clone(), places, zeros: *zeros },
                    ));
                }
            }
            list
        }
        OpKind::AllGather { axes, dim } => [0, 1]
            .into_iter()
            .filter(|other| other != dim)
            .map(|dim| (format!("along dim {dim}"), OpKind::AllGather { axes: axes.clone(), dim }))
            .collect(),
        OpKind::SwitchSum { axes, operator } => {
            let combined = [Operator::Max, Operator::Min].map(|operator| {
                (format!("combined with {operator}"), OpKind::SwitchSum { axes: axes.clone(), operator })
            });
            let other = |axis: AxisId| (!axes.contains(&axis)).then(|| ("over another axis", vec![axis]));
            let others = mesh.axis_ids().filter_map(other).chain([("over no axis", Vec::new())]);
            let others = others.map(|(what, axes)| (what.to_owned(), OpKind::SwitchSum { axes, operator: *operator }));
            combined.into_iter().chain(others).collect()
        }
        OpKind::Fill { dim, valid, with, block } => fillers(mesh, *dim, *valid, *with, block),
        OpKind::Shift { shift, length, block } => shifts(mesh, *shift, *length, block),
        OpKind::Mask { axes } => {
            let other = |axis: AxisId| (!axes.contains(&axis)).then(|| ("over another axis", vec![axis]));
            let others = mesh.axis_ids().filter_map(other).chain([("over no axis", Vec::new())]);
            others.map(|(what, axes)| (what.to_owned(), OpKind::Mask { axes })).collect()
        }
        OpKind::MatMul { einsum } => {
            let mut transposed = einsum.clone();
            transposed.operands[0].reverse();
            let mut result = einsum.clone();
            result.result.reverse();
            [("left transposed", transposed), ("result transposed", result)]
                .map(|(what, einsum)| (what.to_owned(), OpKind::MatMul { einsum }))
                .to_vec()
        }
        OpKind::Reduce { operator, einsum } => [Operator::Sum, Operator::Max, Operator::Min]
            .into_iter()
            .filter(|other| other != operator)
            .map(|operator| (format!("reduced by {operator}"), OpKind::Reduce { operator, einsum: einsum.clone() }))
            .collect(),
        OpKind::Map { function, einsum } => {
            use shardc::function::Function;
            let mut result = einsum.clone();
            result.result.reverse();
            let mut list = vec![("result transposed".to_owned(), OpKind::Map { function: *function, einsum: result })];
            for other in [
                Function::Identity,
                Function::Unary(Unary::Neg),
                Function::Unary(Unary::Relu),
                Function::Binary(Binary::Add),
                Function::Binary(Binary::Sub),
            ] {
                if other != *function && other.arity() == function.arity() {
                    list.push((format!("computes {other}"), OpKind::Map { function: other, einsum: einsum.clone() }));
                }
            }
            list
        }
    }
}

/// Changes one device's entry of a map, in several ways.
fn cuts(mesh: &Mesh, view: &[u64], region: &[Cut]) -> Vec<(String, Vec<Cut>)> {
    let mut list = Vec::new();
    for (dim, cut) in region.iter().enumerate() {
        let Cut::At(map) = cut else { continue };
        let axes: Vec<AxisId> = mesh.axis_ids().collect();
        let entries: Vec<Option<u64>> = mesh.devices().map(|device| map.at(mesh, device)).collect();
        for device in mesh.devices() {
            for value in (0..=view[dim]).map(Some).chain([None]) {
                if entries[device.index()] != value {
                    let mut entries = entries.clone();
                    entries[device.index()] = value;
                    let mut region = region.to_vec();
                    region[dim] = Cut::At(CoordMap::Table { axes: axes.clone(), entries });
                    list.push((format!("{device} takes {value:?}"), region));
                }
            }
        }
    }
    list
}

/// Changed lanes, another filler, and a device that assumes another block.
fn fillers(mesh: &Mesh, dim: usize, valid: u64, with: Filler, block: &CoordMap) -> Vec<(String, OpKind)> {
    let fill = |dim, valid, with, block: &CoordMap| OpKind::Fill { dim, valid, with, block: block.clone() };
    let mut list = Vec::new();
    for other in [valid.saturating_sub(1), valid + 1] {
        list.push((format!("fills from {other} on"), fill(dim, other, with, block)));
    }
    for other in [Filler::Zero, Filler::Least] {
        list.push((format!("fills with {}", other.word()), fill(dim, valid, other, block)));
    }
    for other in [0, 1] {
        list.push((format!("fills dim {other}"), fill(other, valid, with, block)));
    }
    for (what, region) in cuts(mesh, &[3], &[Cut::At(block.clone())]) {
        if let [Cut::At(block)] = region.as_slice() {
            list.push((what, fill(dim, valid, with, block)));
        }
    }
    list
}

/// Another distance, dim or length, zeros or the other end, and a device that assumes another block.
fn shifts(mesh: &Mesh, shift: Shift, length: u64, block: &CoordMap) -> Vec<(String, OpKind)> {
    let made = |shift: Shift, length: u64, block: &CoordMap| OpKind::Shift { shift, length, block: block.clone() };
    let Shift { dim, by, wraps } = shift;
    let mut list = Vec::new();
    for other in [by - 1, by + 1, -by] {
        list.push((format!("moves by {other}"), made(Shift { by: other, ..shift }, length, block)));
    }
    list.push((format!("wraps: {}", !wraps), made(Shift { wraps: !wraps, ..shift }, length, block)));
    list.push(("moves along another dim".to_owned(), made(Shift { dim: 1 - dim.min(1), ..shift }, length, block)));
    for other in [length - 1, length + 1] {
        list.push((format!("of {other}"), made(shift, other, block)));
    }
    for (what, region) in cuts(mesh, &[3], &[Cut::At(block.clone())]) {
        if let [Cut::At(block)] = region.as_slice() {
            list.push((what, made(shift, length, block)));
        }
    }
    list
}

/// Changed shifts, and table entries changed or swapped.
fn shuffles(mesh: &Mesh, sources: &Sources) -> Vec<(String, OpKind)> {
    let route = shardc::schedule::Route::Shortest;
    let mut list = Vec::new();
    if let Sources::Shift { axes, by, wrap } = sources {
        for (by, wrap) in [(by + 1, *wrap), (by - 1, *wrap), (-by, *wrap), (*by, !wrap)] {
            let sources = Sources::Shift { axes: *axes, by, wrap };
            list.push((format!("shifts by {by}, wraps: {wrap}"), OpKind::Shuffle { sources, route }));
        }
    }
    let axes: Vec<AxisId> = mesh.axis_ids().collect();
    let entries: Vec<Option<u32>> =
        mesh.devices().map(|device| sources.of(mesh, device).map(|source| source.0)).collect();
    let count = u32::try_from(entries.len()).expect("a small mesh");
    for place in 0..entries.len() {
        for value in (0..count).map(Some).chain([None]) {
            let mut changed = entries.clone();
            changed[place] = value;
            let sources = Sources::Table { axes: axes.clone(), entries: changed };
            list.push((format!("d{place} receives from {value:?}"), OpKind::Shuffle { sources, route }));
        }
        for other in 0..place {
            let mut changed = entries.clone();
            changed.swap(place, other);
            let sources = Sources::Table { axes: axes.clone(), entries: changed };
            list.push((format!("d{place} and d{other} swap sources"), OpKind::Shuffle { sources, route }));
        }
    }
    list
}
