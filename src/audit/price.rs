//! What collectives take on the links of a program: those of a module are written as statements of a program on the same
//! mesh, and planned.

use super::{Kind, Module, Move, Place};
use crate::compiler::{self, Options, Overlapping, Resharding};
use crate::diag::Diagnostics;
use crate::mesh::{AxisSet, Mesh};
use crate::plan::Plan;
use crate::schedule;
use crate::sim::clock;
use crate::span::LineIndex;
use crate::topology::Topology;
use crate::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What a collective takes; bytes and time are those of all repetitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Paid {
    /// Its name: `AllGather_data`.
    pub name: String,
    /// What it moves: `8.39 MB` of a module, `A[I_X] -> A[I]` of a plan.
    pub what: String,
    /// Number of repetitions.
    pub times: u64,
    /// Bytes that the device which receives most receives.
    pub received: Bytes,
    /// Seconds on the links, alone; `None` if the groups are not those of mesh axes.
    pub seconds: Option<f64>,
    /// The line that it comes from.
    pub place: Option<Place>,
}

/// The collectives of a plan. Lines of imported programs end with their place: `# model.py:12`.
pub fn planned(plan: &Plan, topology: &Topology, source: &str) -> Vec<Paid> {
    let (index, places) = (LineIndex::new(source), places(source));
    let steps = plan.ids().filter(|id| plan.communicates(*id));
    let paid = |id| {
        let (step, times) = (plan.step(id), plan.times(id));
        let from =
            plan.operands(id).into_iter().map(|operand| plan.array_label(operand)).collect::<Vec<_>>().join(", ");
        let (line, _) = index.line_column(source, plan.span(id).start);
        Paid {
            name: plan.op_name(id),
            what: format!("{from} -> {}", plan.array_label(id)),
            times,
            received: Bytes(step.usage.received().0.saturating_mul(times)),
            seconds: Some(topology.scale.seconds(step.cost.time * times)),
            place: places.get(line.saturating_sub(1)).cloned().flatten(),
        }
    };
    steps.map(paid).collect()
}

/// The place of each line of a program: that of its comment, else that of the line before.
fn places(source: &str) -> Vec<Option<Place>> {
    let mut last = None;
    let mut places = Vec::new();
    for line in source.lines() {
        let place = line.rsplit_once("# ").and_then(|(_, comment)| {
            let (file, number) = comment.trim().rsplit_once(':')?;
            let is_file = !file.is_empty() && !file.contains(char::is_whitespace);
            Some(Place { file: file.to_owned(), line: number.parse().ok().filter(|_| is_file)? })
        });
        last = place.or(last);
        places.push(last.clone());
    }
    places
}

/// The collectives of a module on a machine.
///
/// - `machine`: the statements of a program that declare its mesh.
/// - `topology`: that machine.
/// - `options`: costs, as for the plan beside it.
///
/// # Errors
/// If the machine is invalid.
pub fn priced(
    module: &Module,
    machine: &str,
    topology: &Topology,
    options: &Options,
) -> Result<Vec<Paid>, Diagnostics> {
    let mesh = &topology.mesh;
    let options = Options {
        hardware: Some(topology.hardware.clone()),
        overlap: Overlapping::None,
        reshard: Resharding::Chains,
        as_written: true,
        strict: false,
        alternatives: false,
        ..options.clone()
    };
    let axes: Vec<Option<AxisSet>> = module.moves.iter().map(|one| axes_of(one, mesh)).collect();
    // Equal collectives are priced once.
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    let mut texts: Vec<String> = Vec::new();
    let statements: Vec<Option<usize>> = (module.moves.iter().zip(&axes))
        .map(|(one, axes)| {
            let (dims, text) = statement(one, (*axes)?, mesh)?;
            let count = texts.len();
            Some(*alike.entry(format!("{dims} {text}")).or_insert_with(|| {
                texts.push(format!(
                    "dims {{{}}}\n{}\n",
                    dims.replace('#', &count.to_string()),
                    text.replace('#', &count.to_string())
                ));
                count
            }))
        })
        .collect();
    let prices = prices(&texts, machine, &options)?;
    let priced = module.moves.iter().zip(axes).zip(statements).map(|((one, axes), statement)| {
        let n = one.groups.iter().map(Vec::len).max().unwrap_or_default() as u64;
        let name = match axes {
            Some(axes) => format!("{}_{}", one.kind.name(), axes.in_order().names(mesh)),
            None if one.kind == Kind::Permute => one.kind.name().to_owned(),
            None => format!("{} of {n}", one.kind.name()),
        };
        let price = statement.and_then(|statement| prices.get(statement).copied());
        let (received, seconds) = match price {
            Some((received, seconds)) => (received, Some(seconds)),
            None if one.kind == Kind::Permute => (one.bytes, permuted(one, mesh, &options)),
            None => (one.kind.received(one.bytes, n), None),
        };
        Paid {
            name,
            what: Bytes(one.bytes).to_string(),
            times: one.times,
            received: Bytes(received.saturating_mul(one.times)),
            seconds: seconds.map(|seconds| seconds * one.times as f64),
            place: one.place.clone(),
        }
    });
    // Groups of one device do not communicate.
    let is_alone = |one: &Move| one.kind != Kind::Permute && one.groups.iter().all(|group| group.len() < 2);
    Ok(priced.zip(&module.moves).filter(|(_, one)| !is_alone(one)).map(|(paid, _)| paid).collect())
}

/// The axes whose groups are those of a collective.
fn axes_of(one: &Move, mesh: &Mesh) -> Option<AxisSet> {
    if one.kind == Kind::Permute {
        return None;
    }
    let sorted = |group: &[u64]| group.iter().copied().collect::<BTreeSet<u64>>();
    let groups: BTreeSet<BTreeSet<u64>> = one.groups.iter().map(|group| sorted(group)).collect();
    let all = mesh.axis_ids().map(AxisSet::one).fold(AxisSet::NONE, AxisSet::union);
    let size = one.groups.first()?.len() as u64;
    // Of axes of one device the fewest.
    let mut fitting = all.subsets().filter(|axes| axes.group_size(mesh) == size).collect::<Vec<_>>();
    fitting.sort_by_key(|axes| axes.len());
    fitting.into_iter().find(|axes| {
        let list: Vec<_> = axes.iter().collect();
        let group = |device| mesh.group(device, &list).map(|device| device.index() as u64).collect::<BTreeSet<u64>>();
        mesh.devices().map(group).collect::<BTreeSet<_>>() == groups
    })
}

/// A collective as declarations of dims and statements, with `#` for its number; `None` if the notation has none.
fn statement(one: &Move, axes: AxisSet, mesh: &Mesh) -> Option<(String, String)> {
    let n = axes.group_size(mesh);
    if n < 2 {
        return None;
    }
    let dtype = match one.width {
        0 | 1 => "i8",
        2 => "bf16",
        3..=4 => "f32",
        _ => "f64",
    };
    let size = match dtype {
        "i8" => 1,
        "bf16" => 2,
        "f32" => 4,
        _ => 8,
    };
    let elements = (one.bytes / size).max(1);
    let axes = axes.in_order().names(mesh);
    let name = one.kind.name();
    Some(match one.kind {
        Kind::AllGather => {
            (format!("N#: {elements}"), format!("A#: {dtype}[N#_{axes}]\nB#[N#] = {name}_{axes}(A#)\noutput B#"))
        }
        Kind::AllReduce => {
            (format!("N#: {elements}"), format!("A#: {dtype}[N#]{{U_{axes}}}\nB#[N#] = {name}_{axes}(A#)\noutput B#"))
        }
        Kind::ReduceScatter => {
            let written = format!("A#: {dtype}[N#]{{U_{axes}}}\nB#[N#_{axes}] = A#\noutput B#");
            (format!("N#: {}", elements.checked_mul(n)?), written)
        }
        Kind::AllToAll => {
            let written = format!("A#: {dtype}[G#_{axes}, N#]\nB#[G#, N#_{axes}] = A#\noutput B#");
            (format!("G#: {n}, N#: {elements}"), written)
        }
        Kind::Permute | Kind::Broadcast => return None,
    })
}

/// Bytes received and seconds of each statement.
fn prices(texts: &[String], machine: &str, options: &Options) -> Result<Vec<(u64, f64)>, Diagnostics> {
    let mut prices = Vec::new();
    for text in texts {
        let (program, found) = compiler::check(&format!("{machine}{text}"));
        let Some(program) = program else { return Err(found) };
        let topology = compiler::machine(&program, options)?;
        let plan = compiler::plan(&program, &topology, options)?;
        let topology = compiler::machine_as_planned(&plan, &topology);
        let received = plan.ids().map(|id| plan.step(id).usage.received().0).fold(0u64, u64::saturating_add);
        prices.push((received, topology.scale.seconds(plan.totals().communication)));
    }
    Ok(prices)
}

/// The time of a permute: its messages on their shortest routes, all at once.
fn permuted(one: &Move, mesh: &Mesh, options: &Options) -> Option<f64> {
    let devices = mesh.device_count() as u64;
    let mut sources = vec![None; mesh.device_count()];
    for pair in &one.groups {
        *sources.get_mut(usize::try_from(*pair.get(1)?).ok()?)? = Some(pair[0]);
    }
    let table = sources.iter().map(|source| source.map_or("-".to_owned(), |source| source.to_string()));
    let table = table.collect::<Vec<_>>().join(",");
    let all = mesh.axis_ids().map(AxisSet::one).fold(AxisSet::NONE, AxisSet::union).in_order();
    let (bytes, subscript, names) = (one.bytes.max(1), all.subscript(mesh), all.names(mesh));
    let mut schedule = format!("mesh {mesh}\n");
    writeln!(schedule, "array A: i8[I {}] = input", bytes.checked_mul(devices)?).ok()?;
    writeln!(schedule, "%0 = input A[I{subscript}] : i8[{bytes}]").ok()?;
    writeln!(schedule, "%1 = shuffle ({table}) via {names} %0 : i8[{bytes}]").ok()?;
    let schedule = schedule::from_text(&schedule).ok()?.schedule;
    let topology = compiler::machine_of(&schedule, options).ok()?;
    let timing = clock::run(&schedule, &topology).ok()?;
    Some(topology.scale.seconds(timing.makespan))
}
