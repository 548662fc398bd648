//! The messages of a collective and the contents of each device, event by event.
//!
//! The clock gives the times, and the proof the contents. A device holds a value from the end of its operation until the
//! end of the last operation that reads it; values that hold the same cell are counted together, as parts of its sum.
//! Cells are the pieces of the array between all edges of these blocks.

use crate::compiler::Compiled;
use crate::mesh::{Axes, AxisId, AxisSet, DeviceId, Mesh};
use crate::plan::{Plan, StepId};
use crate::report::Findings;
use crate::schedule::{OpId, OpKind, Schedule, Sources};
use crate::sim::clock::Timing;
use crate::sim::proof::{Contributions, Held, Holdings, holdings};
use crate::topology::Topology;
use crate::units::Time;
use itertools::Itertools;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The most devices that are shown.
const MOST_DEVICES: usize = 16;
/// The most players of a page.
const MOST_PLAYERS: usize = 48;
/// The most events of a player.
const MOST_FRAMES: usize = 200;
/// The most cells of an array.
const MOST_CELLS: usize = 256;
/// The most numbers of a player: cells that change, over all events and devices.
const MOST_NUMBERS: usize = 60_000;
/// The most numbers of all players together.
const MOST_NUMBERS_IN_ALL: usize = 200_000;
/// The most operations times devices of all players together.
const MOST_FOLLOWED: usize = 1 << 16;

/// A collective to step through.
#[derive(Debug, Serialize)]
pub(super) struct Player {
    name: String,
    method: String,
    /// The layouts before and after.
    layouts: String,
    array: String,
    dims: Vec<String>,
    /// The starts of the cells of each dim, and its end.
    cuts: Vec<Vec<u64>>,
    /// The dims as the rows and the columns of a drawing, major first.
    rows: Vec<usize>,
    columns: Vec<usize>,
    /// The dims that are sharded before or after it; the others are split only to be sent in pieces.
    sharded: Vec<usize>,
    devices: Vec<DeviceDocument>,
    /// The axes along which the shown devices differ, with their sizes.
    axes: Vec<(String, u32)>,
    /// The number of devices of the mesh.
    of: usize,
    frames: Vec<Frame>,
}

#[derive(Debug, Serialize)]
struct DeviceDocument {
    place: String,
    /// The coordinate along each of the axes.
    at: Vec<u32>,
}

/// The state after an event.
#[derive(Debug, Serialize)]
struct Frame {
    /// The time since the start of the program, in words.
    time: String,
    /// Messages that have arrived since the last frame.
    messages: Vec<Message>,
    /// The most bytes that a device has received.
    bytes: String,
    /// For each device the cells that have become others: which, how many contributions, of how many; 0 of them is none.
    cells: Vec<Vec<(usize, u64, u64)>>,
}

/// By places among the devices; `path` leads through all devices between, none for one that is not shown.
#[derive(Debug, Serialize)]
struct Message {
    path: Vec<Option<usize>>,
    /// The cells that are sent.
    cells: Vec<usize>,
}

/// A collective that is too large to step through.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    name: String,
    operations: usize,
    /// The end of an interval, the messages to each device within it, and the bytes received per device so far.
    rows: Vec<(String, String, String)>,
}

/// The most rows of a summary.
const MOST_ROWS: u128 = 16;

/// Summarises a collective in equal intervals.
pub(super) fn summary(compiled: &Compiled, timing: &Timing, step: StepId, name: &str) -> Summary {
    let (schedule, mesh) = (&compiled.schedule, &compiled.topology.mesh);
    let operations = operations_of(schedule, step);
    let interval = |id: &OpId| timing.operation(*id);
    let begin = operations.iter().map(|id| interval(id).start).min().unwrap_or_default();
    let end = operations.iter().map(|id| interval(id).finish).max().unwrap_or_default();
    let length = (end - begin).ticks().max(1);
    let row_of = |id: &OpId| {
        let after = (interval(id).finish - begin).ticks();
        (after.saturating_mul(MOST_ROWS)).div_ceil(length).saturating_sub(1)
    };
    let mut rows: BTreeMap<u128, (BTreeMap<String, usize>, u64)> = BTreeMap::new();
    for id in &operations {
        let way = match &schedule.operation(*id).kind {
            OpKind::Shuffle { sources: Sources::Shift { axes, by, .. }, .. } => {
                format!("{} {}", axes.names(mesh), if *by < 0 { "up" } else { "down" })
            }
            OpKind::Shuffle { sources: Sources::Table { axes, .. }, .. }
            | OpKind::AllGather { axes, .. }
            | OpKind::SwitchSum { axes, .. } => axes.iter().copied().collect::<Axes>().names(mesh),
            OpKind::Input { .. }
            | OpKind::Slice { .. }
            | OpKind::Add { .. }
            | OpKind::Assemble { .. }
            | OpKind::MatMul { .. }
            | OpKind::Reduce { .. }
            | OpKind::Map { .. }
            | OpKind::Kernel(_)
            | OpKind::Fill { .. }
            | OpKind::Shift { .. }
            | OpKind::Mask { .. }
            | OpKind::Reshape => continue,
        };
        let (ways, bytes) = rows.entry(row_of(id)).or_default();
        *ways.entry(way).or_default() += 1;
        *bytes = bytes.saturating_add(schedule.operation(*id).bytes());
    }
    let mut received = 0u64;
    let rows = rows.into_iter().map(|(row, (ways, bytes))| {
        received = received.saturating_add(bytes);
        let until = begin + Time::from_ticks(length.saturating_mul(row + 1) / MOST_ROWS);
        let ways = ways.iter().map(|(way, count)| format!("{count} along {way}")).join(", ");
        (compiled.topology.scale.show(until), ways, crate::units::Bytes(received).to_string())
    });
    Summary { name: name.to_owned(), operations: operations.len(), rows: rows.collect() }
}

/// The players of a program, and the collectives that have none because there would be too much to show.
///
/// - `names`: the names of the steps, by their number.
pub(super) fn all(
    compiled: &Compiled,
    timing: &Timing,
    findings: &Findings<'_>,
    names: &[String],
) -> (Vec<Player>, Vec<StepId>) {
    let Compiled { topology, plan, schedule, .. } = compiled;
    let steps = || findings.steps.iter().filter(|step| plan.communicates(step.id));
    let mut wanted = Vec::new();
    let (mut unplayed, mut followed) = (Vec::new(), 0);
    for step in steps() {
        let operations = operations_of(schedule, step.id);
        let shown = shown(&topology.mesh, compiled, step.id);
        let cost = operations.len() * shown.len();
        if operations.is_empty() || wanted.len() >= MOST_PLAYERS || followed + cost > MOST_FOLLOWED {
            unplayed.push(step.id);
            continue;
        }
        followed += cost;
        wanted.push((step, operations, shown));
    }
    let values: BTreeSet<OpId> = wanted
        .iter()
        .flat_map(|(_, operations, _)| operations)
        .flat_map(|id| schedule.operands(*id).into_iter().chain([*id]))
        .collect();
    let devices: Vec<DeviceId> = wanted.iter().flat_map(|(.., shown)| shown.iter().copied()).sorted().dedup().collect();
    // The schedule is proven already; one that is too large for it is not followed.
    let Ok(held) = holdings(schedule, &values, &devices) else {
        return (Vec::new(), steps().map(|step| step.id).collect());
    };
    let (mut players, mut numbers) = (Vec::new(), 0);
    for (step, operations, shown) in wanted {
        let scene = Scene { schedule, topology, timing, operations, shown, all: &devices, held: &held };
        let played = scene.cells().and_then(|cells| Some((scene.frames(&cells)?, cells)));
        let Some(((frames, size), cells)) = played.filter(|((_, size), _)| numbers + size <= MOST_NUMBERS_IN_ALL)
        else {
            unplayed.push(step.id);
            continue;
        };
        numbers += size;
        let axes = scene.axes();
        let sharded = sharded(plan, step.id);
        let (rows, columns) = rows_and_columns(&sharded, cells.cuts.len());
        let place = |device: &DeviceId| DeviceDocument {
            place: topology.mesh.place(*device),
            at: axes.iter().map(|axis| topology.mesh.coordinate(*device, *axis)).collect(),
        };
        players.push(Player {
            name: names[step.id.index()].clone(),
            method: step.how.clone(),
            layouts: step.layouts.clone(),
            array: plan.program.label(plan.step(step.id).value),
            dims: plan.step(step.id).layout.dims.iter().map(|dim| plan.program.dims.name(dim.id)).collect(),
            cuts: cells.cuts,
            rows,
            columns,
            sharded: sharded.into_iter().collect(),
            devices: scene.shown.iter().map(place).collect(),
            axes: axes
                .iter()
                .map(|axis| (topology.mesh.axis(*axis).name.clone(), topology.mesh.axis(*axis).size))
                .collect(),
            of: topology.mesh.device_count(),
            frames,
        });
    }
    unplayed.sort_unstable();
    (players, unplayed)
}

/// The operations of a step: in a repeat, those of its first iteration.
fn operations_of(schedule: &Schedule, step: StepId) -> Vec<OpId> {
    let of_step = |id: &OpId| schedule.operation(*id).step as usize == step.index();
    schedule.ids().skip_while(|id| !of_step(id)).take_while(of_step).collect()
}

/// The devices that are shown: all, those of the first group, or the first ones of that.
fn shown(mesh: &Mesh, compiled: &Compiled, step: StepId) -> Vec<DeviceId> {
    if mesh.device_count() <= MOST_DEVICES {
        return mesh.devices().collect();
    }
    let plan = &compiled.plan;
    let axes =
        plan.step(step).op.collective().map_or(AxisSet::NONE, |collective| {
            collective.axes(&plan.step(plan.operands(step)[0]).layout.sharding, mesh)
        });
    let first = DeviceId(0);
    let group = axes.group_size(mesh);
    let members = (0..group.min(MOST_DEVICES as u64)).map(|rank| mesh.with_rank(first, axes.iter(), rank));
    members.collect()
}

/// The dims that are sharded before or after a step.
fn sharded(plan: &Plan, step: StepId) -> BTreeSet<usize> {
    let layouts = plan.operands(step).into_iter().chain([step]).map(|id| &plan.step(id).layout.sharding);
    layouts.flat_map(|sharding| sharding.dims.iter().positions(|axes| !axes.is_empty())).collect()
}

/// The dims of an array as rows and columns: sharded dims are major.
fn rows_and_columns(sharded: &BTreeSet<usize>, count: usize) -> (Vec<usize>, Vec<usize>) {
    let (mut rows, mut others): (Vec<usize>, Vec<usize>) = (0..count).partition(|dim| sharded.contains(dim));
    let mut columns = Vec::new();
    if rows.len() > 1 || rows.last().is_some_and(|dim| dim + 1 == count) {
        columns.extend(rows.pop());
    }
    if columns.is_empty() && rows.is_empty() {
        columns.extend(others.pop());
    }
    if rows.is_empty() {
        rows = others
    } else {
        columns.extend(others)
    }
    (rows, columns)
}

/// A collective with all that its player needs.
struct Scene<'a> {
    schedule: &'a Schedule,
    topology: &'a Topology,
    timing: &'a Timing,
    operations: Vec<OpId>,
    shown: Vec<DeviceId>,
    /// The devices of which is known what they hold, in order.
    all: &'a [DeviceId],
    held: &'a Holdings,
}

/// An array in cells, row-major.
struct Cells {
    array: String,
    cuts: Vec<Vec<u64>>,
}

impl Cells {
    /// The cells of a box, which begins and ends where cells do.
    fn of(&self, held: &Held) -> Vec<usize> {
        let ranges = held.region.iter().zip(&self.cuts).map(|(range, cuts)| {
            let place = |at| cuts.partition_point(|cut| *cut < at);
            place(range.start)..place(range.end)
        });
        let counts: Vec<usize> = self.cuts.iter().map(|cuts| cuts.len() - 1).collect();
        let number = |at: Vec<usize>| at.iter().zip(&counts).fold(0, |number, (at, count)| number * count + at);
        ranges.multi_cartesian_product().map(number).collect()
    }
}

impl Scene<'_> {
    /// The axes along which the devices that are shown differ.
    fn axes(&self) -> Vec<AxisId> {
        let mesh = &self.topology.mesh;
        let differs = |axis: &AxisId| !self.shown.iter().map(|device| mesh.coordinate(*device, *axis)).all_equal();
        mesh.axis_ids().filter(differs).collect()
    }

    /// What a device holds of a value; of what is not known nothing.
    fn holds(&self, id: OpId, device: DeviceId) -> &[Held] {
        let place = self.all.binary_search(&device).ok();
        let held = place.and_then(|place| self.held.get(&id)?.get(place)?.as_ref());
        held.map_or(&[], Vec::as_slice)
    }

    /// The values of the step: what it begins with and what its operations make.
    fn values(&self) -> impl Iterator<Item = OpId> {
        let operands = self.operations.iter().flat_map(|id| self.schedule.operands(*id));
        operands.chain(self.operations.iter().copied()).sorted().dedup()
    }

    /// The cells of the array that the step ends with; `None` if there are too many, or blocks of several arrays.
    fn cells(&self) -> Option<Cells> {
        let last = *self.operations.last()?;
        let first = self.shown.iter().flat_map(|device| self.holds(last, *device)).next()?;
        let mut cuts: Vec<BTreeSet<u64>> = first.extents.iter().map(|extent| BTreeSet::from([0, *extent])).collect();
        for (id, device) in self.values().cartesian_product(&self.shown) {
            for held in self.holds(id, *device) {
                if held.array != first.array || held.extents != first.extents {
                    return None;
                }
                for (cuts, range) in cuts.iter_mut().zip(&held.region) {
                    cuts.extend([range.start, range.end]);
                }
            }
            if cuts.iter().map(|cuts| cuts.len() - 1).product::<usize>() > MOST_CELLS {
                return None;
            }
        }
        let cuts = cuts.into_iter().map(|cuts| cuts.into_iter().collect()).collect();
        Some(Cells { array: first.array.to_string(), cuts })
    }

    /// The end of the last operation of the step that takes a value; of what it ends with, never.
    fn until(&self, value: OpId) -> Time {
        let users = self.operations.iter().filter(|id| self.schedule.operands(**id).contains(&value));
        users.map(|id| self.timing.operation(*id).finish).max().unwrap_or(Time::MAX)
    }

    /// Everything that happens, and how many numbers tell it; `None` if these are too many.
    fn frames(&self, cells: &Cells) -> Option<(Vec<Frame>, usize)> {
        let sends = |id: &&OpId| {
            matches!(
                self.schedule.operation(**id).kind,
                OpKind::Shuffle { .. } | OpKind::AllGather { .. } | OpKind::SwitchSum { .. }
            )
        };
        let mut times: BTreeSet<Time> =
            self.operations.iter().filter(sends).map(|id| self.timing.operation(*id).finish).collect();
        let end = self.operations.iter().map(|id| self.timing.operation(*id).finish).max()?;
        times.insert(end);
        if times.len() > MOST_FRAMES {
            return None;
        }
        let lives: Vec<(OpId, Time, Time)> = self
            .values()
            .map(|id| {
                let own = self.operations.contains(&id);
                let from = if own { self.timing.operation(id).finish } else { Time::ZERO };
                (id, from, self.until(id))
            })
            .collect();
        let mut frames = Vec::new();
        let mut before: Vec<BTreeMap<usize, (u64, u64)>> = vec![BTreeMap::new(); self.shown.len()];
        let mut numbers = 0;
        let begin = self.operations.iter().map(|id| self.timing.operation(*id).start).min()?;
        let starts = std::iter::once((None, begin)).chain(times.iter().map(|time| (Some(*time), *time)));
        let mut last: Option<Time> = None;
        for (at, time) in starts {
            // Before anything happens only what the step begins with is there.
            let lives_then = |(id, from, until): &(OpId, Time, Time)| match at {
                None => !self.operations.contains(id),
                Some(at) => *from <= at && at < *until,
            };
            let live: Vec<OpId> = lives.iter().filter(|life| lives_then(life)).map(|(id, ..)| *id).collect();
            let mut changes = Vec::with_capacity(self.shown.len());
            for (device, before) in self.shown.iter().zip(&mut before) {
                let now = self.together(cells, &live, *device);
                let gone = before.keys().filter(|cell| !now.contains_key(cell)).map(|cell| (*cell, 0, 0));
                let new = now.iter().filter(|(cell, share)| before.get(cell) != Some(share));
                let changed: Vec<(usize, u64, u64)> =
                    gone.chain(new.map(|(cell, (of, all))| (*cell, *of, *all))).collect();
                numbers += changed.len();
                changes.push(changed);
                *before = now;
            }
            let arrived = at.map(|at| {
                let arrives = |id: &&OpId| {
                    let finish = self.timing.operation(**id).finish;
                    finish <= at && last.is_none_or(|last| finish > last)
                };
                self.operations.iter().filter(sends).filter(arrives).copied().collect_vec()
            });
            let (messages, bytes) = self.messages(cells, &arrived.unwrap_or_default());
            numbers += messages.iter().map(|message: &Message| message.cells.len() + message.path.len()).sum::<usize>();
            if numbers > MOST_NUMBERS {
                return None;
            }
            let bytes = crate::units::Bytes(bytes).to_string();
            frames.push(Frame { time: self.topology.scale.show(time), messages, bytes, cells: changes });
            last = at;
        }
        Some((frames, numbers))
    }

    /// What a device has of the sum of each cell, in all values together.
    fn together(&self, cells: &Cells, live: &[OpId], device: DeviceId) -> BTreeMap<usize, (u64, u64)> {
        let mut found: BTreeMap<usize, Vec<&Rc<Contributions>>> = BTreeMap::new();
        let held = live.iter().flat_map(|id| self.holds(*id, device)).filter(|held| *held.array == *cells.array);
        for held in held {
            for cell in cells.of(held) {
                let sets = found.entry(cell).or_default();
                if !sets.contains(&&held.contributions) {
                    sets.push(&held.contributions);
                }
            }
        }
        let share = |sets: Vec<&Rc<Contributions>>| match sets.iter().any(|set| set.is_all()) {
            true => (1, 1),
            false => reduced(Contributions::share(&sets.iter().map(|set| &***set).collect_vec())),
        };
        found.into_iter().map(|(cell, sets)| (cell, share(sets))).collect()
    }

    /// The messages of some operations to the devices that are shown, and the most that one of them receives.
    fn messages(&self, cells: &Cells, operations: &[OpId]) -> (Vec<Message>, u64) {
        let (mesh, mut messages) = (&self.topology.mesh, Vec::new());
        let place = |device: DeviceId| self.shown.iter().position(|shown| *shown == device);
        let mut received = vec![0u64; self.shown.len()];
        for id in operations {
            let operation = self.schedule.operation(*id);
            let OpKind::Shuffle { sources, route } = &operation.kind else { continue };
            let route = self.topology.in_links(sources, *route);
            for (destination, received) in self.shown.iter().zip(&mut received) {
                let source = sources.of(mesh, *destination).filter(|source| source != destination);
                let held = self.holds(*id, *destination);
                let Some(source) = source.filter(|_| !held.is_empty()) else { continue };
                *received = received.saturating_add(operation.bytes());
                let hops = self.topology.route(source, *destination, route).unwrap_or_default();
                let path = std::iter::once(source).chain(hops.into_iter().filter_map(|hop| hop.to)).map(place);
                let cells = held.iter().flat_map(|held| cells.of(held)).collect();
                messages.push(Message { path: path.collect(), cells });
            }
        }
        (messages, received.into_iter().max().unwrap_or_default())
    }
}

/// A fraction in lowest terms.
fn reduced((of, all): (u128, u128)) -> (u64, u64) {
    let (mut a, mut b) = (of, all);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let small = |number: u128| u64::try_from(number / a.max(1)).unwrap_or(u64::MAX);
    (small(of), small(all))
}
