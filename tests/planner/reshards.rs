//! Routed moves between any two shardings: correct for every pair of layouts, never slower than the best chain of
//! collectives, and close to a lower bound that is found by trying all sets of devices.

use crate::common::{apart, compile, sets};
use shardc::collective::Collective;
use shardc::compiler::{self, Options};
use shardc::layout::{Layout, Sharding};
use shardc::mesh::{Axes, AxisId, DeviceId, Mesh};
use shardc::recipe::{Lowering, Tuner};
use shardc::report::{Findings, step_bound, text};
use shardc::schedule::{Array, ArrayId, Builder, Dense, Output, Schedule, verify};
use shardc::sim::{proof, values};
use shardc::span::Span;
use shardc::topology::Topology;
use std::borrow::Cow;

const NAMES: [&str; 3] = ["X", "Y", "Z"];

/// The axes on each dim of a matrix.
type Matrix = [Vec<usize>; 2];

/// All layouts of a matrix: the axes on each dim, in every order.
fn layouts(axes: usize) -> Vec<Matrix> {
    let mut all = vec![[Vec::new(), Vec::new()]];
    for axis in 0..axes {
        let with = |layout: &Matrix| {
            let mut more = vec![layout.clone()];
            for dim in 0..2 {
                for place in 0..=layout[dim].len() {
                    let mut next = layout.clone();
                    next[dim].insert(place, axis);
                    more.push(next);
                }
            }
            more
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

fn pairs(axes: usize) -> Vec<(Matrix, Matrix)> {
    let all = layouts(axes);
    let of = |from: &Matrix| all.iter().map(|to| (from.clone(), to.clone())).collect::<Vec<_>>();
    all.iter().flat_map(of).filter(|(from, to)| from != to).collect()
}

fn brackets(layout: &Matrix) -> String {
    let dim = |(name, axes): (&str, &Vec<usize>)| {
        let axes: String = axes.iter().map(|axis| NAMES[*axis]).collect();
        if axes.is_empty() { name.to_owned() } else { format!("{name}_{axes}") }
    };
    format!("[{}, {}]", dim(("I", &layout[0])), dim(("J", &layout[1])))
}

fn head(sizes: &[u32], wiring: &str, hardware: &str, (rows, columns): (u64, u64)) -> String {
    let axes: Vec<String> = sizes.iter().zip(NAMES).map(|(size, name)| format!("{name}: {size} {wiring}")).collect();
    format!("mesh {{{}}} on {hardware}\ndims {{I: {rows}, J: {columns}}}\n", axes.join(", "))
}

fn sharding(layout: &Matrix) -> Sharding {
    let dims = layout.iter().map(|axes| axes.iter().map(|axis| AxisId::new(*axis)).collect::<Axes>());
    Sharding { dims: dims.collect(), ..Sharding::default() }
}

/// The routed move alone, even if a chain is faster.
fn alone(topology: &Topology, layout: &Layout, to: Sharding) -> Option<Schedule> {
    let tuner = Tuner::new(Cow::Borrowed(topology), Lowering::default());
    let collective = Collective::Reshard { to: to.clone(), by: Vec::new() };
    let chosen = tuner.choose(&collective, layout, None).expect("it needs no method");
    // Moves that only slice are not routed.
    chosen.time?;
    let mut schedule = Schedule::new(topology.mesh.clone());
    let extents: Vec<u64> = layout.dims.iter().map(|dim| dim.size).collect();
    schedule.arrays.push(Array {
        name: "A".to_owned(),
        dtype: layout.dtype,
        dims: vec!["I".to_owned(), "J".to_owned()],
        valid: extents.clone(),
        extents,
        definition: Dense::INPUT,
    });
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let input = builder.input(ArrayId(0), layout.sharding.clone());
    let value = chosen.recipe.emit(&mut builder, input);
    schedule.outputs.push(Output { value, array: ArrayId(0), sharding: to });
    Some(schedule)
}

/// Every pair of layouts on meshes with all wirings, including sizes that are not powers of two: proven, and correct
/// on integers. With three axes every third pair, or all.
#[test]
fn any_sharding_becomes_any_other() {
    let (mut count, mut sent) = (0, 0);
    let meshes: [(&[u32], &str); 7] = [
        (&[2, 2], "line"),
        (&[3, 2], "ring"),
        (&[2, 3], "line"),
        (&[4, 3], "ring"),
        (&[3, 4], "line"),
        (&[3, 2], "switch"),
        (&[2, 2, 2], "ring"),
    ];
    for (sizes, wiring) in meshes {
        let hardware = if wiring == "switch" { "h100_book" } else { "tpu_v5p" };
        let whole: u64 = sizes.iter().map(|size| u64::from(*size)).product();
        let step = if sizes.len() > 2 && !sets::are_full() { 7 } else { 1 };
        for (from, to) in pairs(sizes.len()).into_iter().step_by(step) {
            let source = format!(
                "{}A: i32{}\nB{} = A\n",
                head(sizes, wiring, hardware, (whole * 3, whole * 2)),
                brackets(&from),
                brackets(&to)
            );
            let (program, found) = compiler::check(&source);
            let program = program.unwrap_or_else(|| panic!("{source}{found:?}"));
            let topology = compiler::machine(&program, &Options::default()).expect("a machine");
            let layout = program.layout(program.value_ids().next().expect("an input"), sharding(&from));
            let schedule = alone(&topology, &layout, sharding(&to)).unwrap_or_else(|| panic!("{source}"));
            verify(&schedule).unwrap_or_else(|flaw| panic!("{source}{flaw}\n{schedule}"));
            proof::prove(&schedule).unwrap_or_else(|flaw| panic!("{source}{flaw}\n{schedule}"));
            let inputs = values::inputs(&schedule, 1).expect("small");
            let dense = values::dense(&schedule, &inputs).expect("small");
            let run = values::run(&schedule, &inputs).expect("small");
            let numerics = values::compare(&schedule, &inputs, &dense, &run).expect("comparable");
            assert!(numerics.within, "{source}{schedule}");
            count += 1;
            sent += usize::from(schedule.operations.node_count() > 3);
        }
    }
    assert!(count > 900 && sent > 800, "{count} {sent}");
}

/// The cells of an n x n grid that each device holds, as bits.
fn blocks(layout: &Matrix, mesh: &Mesh, n: u64) -> Vec<Vec<bool>> {
    let range = |axes: &Vec<usize>, device: DeviceId| {
        let axes: Vec<AxisId> = axes.iter().map(|axis| AxisId::new(*axis)).collect();
        let length = n / mesh.group_size(axes.iter().copied());
        let first = mesh.rank(device, axes.iter().copied()) * length;
        first..first + length
    };
    let of = |device: DeviceId| {
        let (rows, columns) = (range(&layout[0], device), range(&layout[1], device));
        (0..n * n).map(|cell| rows.contains(&(cell / n)) && columns.contains(&(cell % n))).collect()
    };
    mesh.devices().map(of).collect()
}

/// One-way links of a mesh of rings or lines; two devices have one cable.
fn links(mesh: &Mesh, is_ring: bool) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for device in mesh.devices() {
        for axis in mesh.axis_ids() {
            let (at, last) = (mesh.coordinate(device, axis), mesh.axis(axis).size - 1);
            let wraps = is_ring && last > 1;
            let up = if at < last { Some(at + 1) } else { Some(0).filter(|_| wraps) };
            let down = if at > 0 { Some(at - 1) } else { Some(last).filter(|_| wraps) };
            for next in [up, down].into_iter().flatten() {
                all.push((device.index(), mesh.with_coordinate(device, axis, next).index()));
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// A lower bound on the number of cells over the busiest link, the larger of two bounds. For every set of devices,
/// the cells that the set needs and no member holds enter over its links. For all links together, each cell crosses
/// the links between its nearest holder and each device that needs it.
fn least(from: &Matrix, to: &Matrix, mesh: &Mesh, is_ring: bool) -> f64 {
    let n = mesh.device_count() as u64;
    let (before, after, links) = (blocks(from, mesh, n), blocks(to, mesh, n), links(mesh, is_ring));
    let devices = mesh.device_count();
    // The devices that hold a cell, as bits.
    let having = |blocks: &[Vec<bool>], cell: usize| -> u32 {
        (0..devices).map(|device| u32::from(blocks[device][cell]) << device).sum()
    };
    let masks: Vec<(u32, u32)> =
        (0..before[0].len()).map(|cell| (having(&before, cell), having(&after, cell))).collect();
    let mut best: f64 = 0.0;
    for set in 1u32..(1 << devices) - 1 {
        let inside = |device: usize| set >> device & 1 == 1;
        let into = links.iter().filter(|(from, to)| !inside(*from) && inside(*to)).count();
        let lacking = masks.iter().filter(|(before, after)| before & set == 0 && after & set != 0).count();
        best = best.max(lacking as f64 / into as f64);
    }
    let mut distance = vec![vec![u64::MAX / 4; devices]; devices];
    (0..devices).for_each(|device| distance[device][device] = 0);
    links.iter().for_each(|(from, to)| distance[*from][*to] = 1);
    for by in 0..devices {
        for from in 0..devices {
            for to in 0..devices {
                distance[from][to] = distance[from][to].min(distance[from][by] + distance[by][to]);
            }
        }
    }
    let crossed = |cell: usize| {
        let holders: Vec<usize> = (0..devices).filter(|device| before[*device][cell]).collect();
        let takers: Vec<usize> = (0..devices).filter(|device| after[*device][cell] && !before[*device][cell]).collect();
        let nearest = |taker: &usize| holders.iter().map(|holder| distance[*holder][*taker]).min().unwrap_or(0);
        takers.iter().map(nearest).max().unwrap_or(0).max(takers.len() as u64)
    };
    let all: u64 = (0..before[0].len()).map(crossed).sum();
    best.max(all as f64 / links.len() as f64)
}

/// Large arrays, all pairs: on average at most 1.10 times the lower bound, at worst 1.5 times, and no chain is
/// faster. Meshes of at least eight devices with three axes, or of sixteen, test a part of the pairs, or all.
#[test]
fn moves_are_near_what_no_schedule_beats() {
    let meshes: [(&[u32], &str, usize); 6] = [
        (&[2, 2], "line", 1),
        (&[4, 2], "ring", 1),
        (&[4, 2], "line", 1),
        (&[2, 2, 2], "line", 41),
        (&[4, 4], "ring", 23),
        (&[4, 4], "line", 23),
    ];
    const SIZE: u64 = 16384;
    for (sizes, wiring, step) in meshes {
        let step = if sets::are_full() { 1 } else { step };
        let (mut sum, mut worst, mut count) = (0.0, (1.0, String::new()), 0);
        for (from, to) in pairs(sizes.len()).into_iter().step_by(step) {
            let head = head(sizes, wiring, "tpu_v5p", (SIZE, SIZE));
            let source = format!("{head}A: bf16{}\nB{} = A\n", brackets(&from), brackets(&to));
            let (chain, chosen) = (apart(&source), compile(&source));
            assert!(chosen.plan.time() <= chain.plan.time(), "{source}");
            let mesh = &chosen.plan.program.mesh;
            let cells = least(&from, &to, mesh, wiring == "ring");
            let devices = mesh.device_count() as f64;
            if cells == 0.0 {
                continue;
            }
            let bytes = cells * (2 * SIZE * SIZE) as f64 / (devices * devices);
            let seconds = chosen.topology.scale.seconds(chosen.plan.time());
            let ratio = seconds / (bytes / 90e9);
            assert!(ratio > 0.9999, "below the bound: {ratio} {source}");
            if ratio > worst.0 {
                worst = (ratio, source);
            }
            sum += ratio;
            count += 1;
        }
        let mean = sum / f64::from(count);
        assert!(mean <= 1.10 && worst.0 <= 1.5, "{sizes:?} {wiring}: {mean}, {worst:?}");
    }
}

/// The example in `docs/planning.md` takes the stated time.
#[test]
fn the_documents_example_takes_what_it_says() {
    let document = include_str!("../../docs/planning.md");
    let (_, section) = document.split_once("## Routed moves\n").expect("the heading");
    let blocks: Vec<&str> = section.split("```").collect();
    let (source, table) = (blocks[1].trim_start_matches("shard\n"), blocks[3].trim_start_matches("text\n"));
    let (compiled, chain) = (compile(source), apart(source));
    let text = text::plan(&Findings::new(&compiled.plan, &compiled.topology), None);
    table.lines().for_each(|line| assert!(text.contains(line), "{line}\n{text}"));
    let scale = compiled.topology.scale;
    let bound = step_bound(&compiled.plan, compiled.plan.outputs[0], &compiled.topology).bound.time();
    for figure in [chain.plan.time(), bound] {
        let told = scale.show(figure).to_string();
        assert!(section.contains(&told), "{told}");
    }
}
