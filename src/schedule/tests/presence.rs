//! Presence against an oracle that follows every block of random schedules.

use super::interpreter::{Block, run};
use crate::dtype::DType;
use crate::layout::Sharding;
use crate::mesh::{AxisId, Mesh};
use crate::operator::Operator;
use crate::schedule::presence::presence;
use crate::schedule::{
    Array, ArrayId, CoordMap, Cut, Dense, OpId, OpKind, Operation, Route, Schedule, Sources, verify,
};
use crate::span::Span;

fn push(schedule: &mut Schedule, kind: OpKind, extents: &[u64], operands: &[OpId]) -> OpId {
    let (extents, span) = (extents.to_vec(), Span::default());
    schedule.push(Operation { kind, dtype: DType::I64, extents, step: 0, method: None, span }, operands)
}

fn some_axes(random: &mut fastrand::Rng, mesh: &Mesh) -> Vec<AxisId> {
    let mut axes: Vec<AxisId> = mesh.axis_ids().filter(|_| random.bool()).collect();
    random.shuffle(&mut axes);
    axes
}

/// Numbers for devices, some of them none or at least 2.
fn map(random: &mut fastrand::Rng, mesh: &Mesh) -> CoordMap {
    let axes = some_axes(random, mesh);
    if random.bool() {
        let entries = (0..mesh.group_size(axes.iter().copied())).map(|_| Some(random.u64(0..4)).filter(|at| *at < 3));
        return CoordMap::Table { entries: entries.collect(), axes };
    }
    let terms = axes.into_iter().map(|axis| (axis, random.i64(-2..=2))).collect();
    let modulo = if random.bool() { Some(random.u64(1..=3)) } else { None };
    CoordMap::Affine { terms, constant: random.i64(-1..=2), modulo }
}

fn sources(random: &mut fastrand::Rng, mesh: &Mesh) -> Sources {
    let axis = AxisId::new(random.usize(0..mesh.axes().len()));
    let n = i64::try_from(mesh.size(axis)).expect("small");
    if random.bool() {
        return Sources::Shift { axes: axis.into(), by: random.i64(1 - n..n), wrap: random.bool() };
    }
    let axes = some_axes(random, mesh);
    let mut entries: Vec<Option<u32>> = (0..mesh.group_size(axes.iter().copied()) as u32).map(Some).collect();
    random.shuffle(&mut entries);
    entries.iter_mut().for_each(|entry| *entry = entry.filter(|_| random.u8(0..4) > 0));
    Sources::Table { axes, entries }
}

/// Operations on blocks of two rows of two elements each; assemblies may leave gaps, of which presence knows nothing.
fn random_schedule(random: &mut fastrand::Rng) -> Schedule {
    let sizes: Vec<u32> = (0..random.usize(1..=3)).map(|_| random.u32(1..=3)).collect();
    let names = ["X", "Y", "Z"];
    let mut schedule = Schedule::new(Mesh::of(&names.into_iter().zip(sizes).collect::<Vec<_>>()));
    let extents = vec![2, 2];
    let dims = vec!["I".to_owned(), "J".to_owned()];
    let (valid, definition) = (extents.clone(), Dense::INPUT);
    schedule.arrays.push(Array { name: "A".into(), dtype: DType::I64, dims, extents, valid, definition });
    let mut sharding = Sharding::replicated(2);
    if random.bool() {
        sharding.set_open(some_axes(random, &schedule.mesh).into_iter().collect());
        sharding.operator = Operator::Root(crate::mesh::DeviceId(0));
    }
    let mut values = vec![push(&mut schedule, OpKind::Input { array: ArrayId(0), sharding }, &[2, 2], &[])];
    for _ in 0..random.usize(1..12) {
        let pick = |random: &mut fastrand::Rng| values[random.usize(0..values.len())];
        let (one, two) = (pick(random), pick(random));
        let (row, rest) = (Cut::At(map(random, &schedule.mesh)), Cut::Whole);
        let value = match random.u8(0..6) {
            0 => {
                // The row that is kept, twice.
                let kept =
                    push(&mut schedule, OpKind::Slice { view: vec![2, 2], region: vec![row, rest] }, &[1, 2], &[one]);
                let places = [0, 1].map(|row| vec![Cut::At(CoordMap::constant(row)), Cut::Whole]).to_vec();
                push(&mut schedule, OpKind::Assemble { view: vec![2, 2], places, zeros: false }, &[2, 2], &[kept, kept])
            }
            1 => {
                let sources = sources(random, &schedule.mesh);
                push(&mut schedule, OpKind::Shuffle { sources, route: Route::Shortest }, &[2, 2], &[one])
            }
            2 => push(&mut schedule, OpKind::Add { operator: Operator::Sum }, &[2, 2], &[one, two]),
            3 => {
                // Whole blocks in places that some devices lack.
                let places = vec![vec![row, rest.clone(), rest.clone()]];
                push(&mut schedule, OpKind::Assemble { view: vec![1, 2, 2], places, zeros: false }, &[2, 2], &[one])
            }
            4 => {
                let einsum = crate::einsum::Einsum { operands: vec![vec![0, 1], vec![0, 1]], result: vec![0, 1] };
                let function = crate::function::Function::Binary(crate::function::Binary::Add);
                push(&mut schedule, OpKind::Map { function, einsum }, &[2, 2], &[one, two])
            }
            _ => {
                let axes = some_axes(random, &schedule.mesh);
                let n = schedule.mesh.group_size(axes.iter().copied());
                let whole = push(&mut schedule, OpKind::AllGather { axes, dim: 0 }, &[2 * n, 2], &[one]);
                let region = vec![Cut::At(CoordMap::constant(0)), rest.clone(), rest];
                push(&mut schedule, OpKind::Slice { view: vec![n, 2, 2], region }, &[2, 2], &[whole])
            }
        };
        values.push(value);
    }
    schedule
}

#[test]
fn presence_is_where_an_interpreter_finds_blocks() {
    let mut random = fastrand::Rng::with_seed(17);
    let mut counts = [0; 2];
    for case in 0..2000 {
        let schedule = random_schedule(&mut random);
        let present = presence(verify(&schedule).unwrap_or_else(|error| panic!("{error}\n{schedule}")));
        let OpKind::Input { sharding, .. } = &schedule.operation(OpId::new(0)).kind else {
            unreachable!("it is first")
        };
        let data = |device| sharding.is_on(device, &schedule.mesh).then(|| vec![1; 4]);
        let given: Vec<Block> = schedule.mesh.devices().map(data).collect();
        for (id, blocks) in run(&schedule, &[given]).iter().enumerate() {
            let found: Vec<bool> = blocks.iter().map(Option::is_some).collect();
            assert_eq!(present[id], found, "case {case}, %{id} of\n{schedule}");
            found.iter().for_each(|found| counts[usize::from(*found)] += 1);
        }
    }
    assert!(counts.iter().all(|count| *count > 10_000), "{counts:?}");
}
