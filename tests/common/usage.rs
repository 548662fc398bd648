//! An independent count of traffic and memory from a schedule's JSON, device by device and message by message, with
//! allocated and freed blocks. Shares no code with the compiler's count.

use itertools::Itertools;
use serde_json::{Value, json};
use shardc::compiler::Compiled;
use shardc::costs::CostModel;
use shardc::diag::Diagnostics;
use shardc::function::Function;
use shardc::mesh::{AxisId, DeviceId, Wiring};
use shardc::operator::Operator;
use shardc::plan::{Plan, StepId, StepOp};
use shardc::program::Definition;
use shardc::report::{Findings, document};
use shardc::schedule::{self, Array, ArrayId, Builder, Dense, OpId, OpKind, Output, Schedule};
use shardc::sim::clock::{self, AxisLoad};
use shardc::sim::usage;
use shardc::span::Span;
use shardc::supply::Supply;
use shardc::units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// The first difference between the figures of a plan and of its schedule; `None` if all agree.
pub fn disagreement(compiled: &Compiled) -> Option<String> {
    let Compiled { plan, schedule, .. } = compiled;
    let devices = schedule.mesh.device_count();
    let counted: Counted = count(&schedule::to_json(schedule));
    for id in plan.ids() {
        let each = counted.steps.get(&(id.index() as u64)).cloned().unwrap_or_else(|| vec![[0; 3]; devices]);
        for (device, of) in schedule.mesh.devices().zip(each) {
            let told = plan.step(id).usage.traffic.of(&plan.program.mesh, device).times(plan.times(id));
            let told = [told.sent, told.received, told.messages];
            if told != of {
                return Some(format!("{} of {device:?}: {told:?}, counted {of:?}", plan.op_name(id)));
            }
        }
    }
    let whole = counted.whole(devices);
    let told = plan.usage();
    for (place, spread) in [told.sent, told.received, told.messages].into_iter().enumerate() {
        let most = whole.iter().map(|of| of[place]).max();
        let total: u128 = whole.iter().map(|of| u128::from(of[place])).sum();
        if (Some(spread.most), spread.total) != (most, total) {
            return Some(format!("{place} of all: {spread:?}, counted {most:?} and {total}"));
        }
    }
    let own = usage::of(schedule::verify(schedule).expect("what is lowered is verified"));
    if own != told {
        return Some(format!("{told:?}, its schedule {own:?}"));
    }
    let peak = counted.peaks.iter().max();
    (peak != Some(&told.peak.0)).then(|| format!("holds {:?}, counted {peak:?}", told.peak))
}

/// The first step whose time differs from that of its operations alone; `None` if all agree.
pub fn other_time(compiled: &Compiled) -> Option<String> {
    let Compiled { plan, topology, .. } = compiled;
    if CostModel::named(plan.costs) != Some(CostModel::Exact) {
        return None;
    }
    let accesses = plan.accesses();
    let kernels: Vec<Vec<StepId>> = plan
        .ids()
        .filter(|id| plan.kernels.iter().all(|kernel| !kernel.contains(id)))
        .map(|id| vec![id])
        .chain(plan.kernels.iter().cloned())
        .collect();
    kernels.iter().find_map(|kernel| {
        let timing = clock::run(&alone(compiled, kernel)?, topology).expect("it has a time");
        let time = if kernel.len() > 1 { timing.engines.iter().copied().sum() } else { timing.makespan };
        let told = kernel.iter().map(|id| plan.step(*id).cost.time).sum::<Time>();
        let name = plan.op_name(kernel[0]);
        if time != told {
            return Some(format!("{name} takes {told:?}, by itself {time:?}"));
        }
        // One pass over memory: values from outside are read once, and results needed outside are written once.
        let products = kernel.iter().filter(|id| matches!(plan.step(**id).op, StepOp::Product { .. })).count();
        if kernel.len() > 1 && products == 0 {
            let outside = |id: &StepId| !kernel.contains(id);
            let read = kernel.iter().flat_map(|id| plan.operands(*id)).map(|id| block(plan, id));
            let read: BTreeSet<StepId> = read.filter(outside).collect();
            let written = kernel.iter().copied().filter(|id| !accesses[id.index()].is_inside);
            let bytes: u64 =
                read.into_iter().chain(written).map(|id| plan.step(id).layout.local_bytes(&plan.program.mesh).0).sum();
            let pass = topology.scale.at_rate(u128::from(bytes), topology.hardware.hbm_bandwidth)
                + topology.scale.picoseconds(topology.hardware.kernel_start);
            return (pass != told).then(|| format!("a kernel of {name} takes {told:?}, one pass {pass:?}"));
        }
        None
    })
}

/// The step whose block a reader of this step reads: collectives over axes of size 1 leave it in place.
fn block(plan: &Plan, id: StepId) -> StepId {
    let step = plan.step(id);
    let mesh = &plan.program.mesh;
    match step.op.collective() {
        Some(collective) if collective.kind().sends() => {
            let operand = plan.operands(id)[0];
            let from = &plan.step(operand).layout.sharding;
            let is_idle = collective.axes(from, mesh).iter().all(|axis| mesh.size(axis) == 1);
            // What closes a sum of squares squares its operand.
            if is_idle && from.operator != Operator::SquareAdd { block(plan, operand) } else { id }
        }
        _ => id,
    }
}

/// The steps of a kernel on the whole machine, without other steps.
fn alone(compiled: &Compiled, kernel: &[StepId]) -> Option<Schedule> {
    let plan = &compiled.plan;
    let mut schedule = Schedule::new(plan.program.mesh.clone());
    let read = |id: &StepId| -> Vec<StepId> { plan.operands(*id).into_iter().map(|id| block(plan, id)).collect() };
    let operands: BTreeSet<StepId> = kernel.iter().flat_map(read).filter(|id| !kernel.contains(id)).collect();
    for id in operands.iter().chain(kernel) {
        let layout = &plan.step(*id).layout;
        let extents: Vec<u64> = layout.dims.iter().map(|dim| dim.size).collect();
        let (name, dims) = (String::new(), vec![String::new(); extents.len()]);
        let counted = Definition::Input { supply: Supply::Counted };
        let definition = match plan.program.value(plan.step(*id).value).definition == counted {
            true => Dense::Input { supply: Supply::Counted },
            false => Dense::INPUT,
        };
        let (dtype, valid) = (layout.dtype, extents.clone());
        schedule.arrays.push(Array { name, dtype, dims, extents, valid, definition });
    }
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let mut made: BTreeMap<StepId, OpId> = BTreeMap::new();
    for (place, id) in (0..).zip(&operands) {
        made.insert(*id, builder.input(ArrayId(place), plan.step(*id).layout.sharding.clone()));
    }
    for id in kernel {
        let step = plan.step(*id);
        let operands: Vec<OpId> = read(id).iter().map(|operand| made[operand]).collect();
        let value = match &step.op {
            StepOp::Input | StepOp::Carry => return None,
            StepOp::Product { einsum } => {
                builder.mat_mul([operands[0], operands[1]], einsum.clone(), step.layout.dtype)
            }
            StepOp::Reduce { operator, einsum } => builder.reduce(*operator, operands[0], einsum.clone()),
            StepOp::Map { function: Function::Fill { dim, valid, with }, .. } => {
                let axes: Vec<_> = step.layout.sharding.dims[usize::from(*dim)].iter().collect();
                builder.fill(operands[0], usize::from(*dim), *valid, *with, &axes)
            }
            StepOp::Kernel(kernel) => builder.kernel(&operands, kernel.clone(), step.layout.dtype),
            StepOp::Map { function, einsum } => builder.map(*function, &operands, einsum.clone()),
            StepOp::Collective(_) => step.recipe.as_ref()?.as_ref().ok()?.recipe.emit(&mut builder, operands[0]),
        };
        made.insert(*id, value);
    }
    if kernel.len() > 1 {
        schedule.kernels = vec![kernel.iter().map(|id| made[id]).collect()];
        let accesses = plan.accesses();
        for (place, id) in (0..).zip(kernel).filter(|(_, id)| !accesses[id.index()].is_inside) {
            let array = ArrayId(u32::try_from(operands.len()).unwrap() + place);
            let (value, sharding) = (made[id], plan.step(*id).layout.sharding.clone());
            schedule.outputs.push(Output { value, array, sharding });
        }
    }
    Some(schedule)
}

/// Traffic and memory of the devices of a schedule.
pub struct Counted {
    /// By step and device: bytes sent, bytes received, messages received.
    pub steps: BTreeMap<u64, Vec<[u64; 3]>>,
    /// Peak bytes of each device.
    pub peaks: Vec<u64>,
    /// All messages.
    messages: Vec<Message>,
}

/// A message of a step.
struct Message {
    step: u64,
    from: DeviceId,
    to: DeviceId,
    bytes: u64,
    /// Hops along the axis in which the devices differ, towards higher coordinates if positive; `None` for the shortest
    /// route.
    hops: Option<i64>,
}

/// The side of a device at which a link begins; of the input port of a switch, ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Up,
    Down,
    Out,
    In,
    /// Of a full mesh, to the device at this coordinate.
    To(u32),
}

/// Traffic of the links along an axis, or of the ports of a switch.
#[derive(Clone, Default)]
struct Passed {
    /// Links that messages pass; a switch counts once.
    hops: u128,
    /// Bytes of each link.
    bytes: BTreeMap<(DeviceId, Side), u128>,
}

impl Passed {
    fn add(&mut self, link: (DeviceId, Side), bytes: u64) {
        *self.bytes.entry(link).or_default() += u128::from(bytes);
        self.hops += u128::from(link.1 != Side::In);
    }
}

/// The first difference between the link loads of plan, simulator and messages; `None` if all agree. Split axes,
/// degraded links, fabrics, and gathers kept as one operation are not checked.
pub fn other_links(compiled: &Compiled) -> Option<String> {
    let Compiled { plan, topology, schedule, .. } = compiled;
    let mesh = &schedule.mesh;
    let is_kept = |id: OpId| matches!(schedule.operation(id).kind, OpKind::AllGather { .. } | OpKind::SwitchSum { .. });
    if mesh.views().next().is_some() || topology.is_irregular() || schedule.ids().any(is_kept) {
        return None;
    }
    // All axes on one switch count as one.
    let wires = |axis: AxisId| -> String {
        let links = topology.links(axis);
        if links.wiring == Wiring::Switch { topology.network(axis).name.clone() } else { mesh.axis(axis).name.clone() }
    };
    // Messages cross outer networks first, then rings, lines, switches and full meshes, of each the shortest first.
    let crossed = mesh.axis_ids().sorted_by_key(|axis| {
        let links = topology.links(*axis);
        let wiring =
            [Wiring::Ring, Wiring::Line, Wiring::Switch, Wiring::Full].iter().position(|w| *w == links.declared);
        (std::cmp::Reverse(links.network), wiring, mesh.size(*axis))
    });
    let crossed: Vec<AxisId> = crossed.collect();
    let mut steps: BTreeMap<u64, BTreeMap<String, Passed>> = BTreeMap::new();
    for message in count(&schedule::to_json(schedule)).messages {
        let passed = steps.entry(message.step).or_default();
        let mut at = message.from;
        for axis in crossed.iter().copied() {
            let size = i64::from(mesh.axis(axis).size);
            let [here, there] = [at, message.to].map(|device| i64::from(mesh.coordinate(device, axis)));
            if here == there {
                continue;
            }
            let own = passed.entry(wires(axis)).or_default();
            if topology.links(axis).wiring == Wiring::Switch {
                // A message passes a switch once, whatever number of its axes it crosses.
                let on_it = mesh.axis_ids().filter(|other| wires(*other) == wires(axis));
                let next = on_it.fold(at, |at, axis| mesh.with_coordinate(at, axis, mesh.coordinate(message.to, axis)));
                // A node with one link out has a port for all of its devices.
                let port = |device| if topology.is_shared(axis) { topology.node_of(device) } else { device };
                own.add((port(at), Side::Out), message.bytes);
                own.add((port(next), Side::In), message.bytes);
                at = next;
                continue;
            }
            if topology.links(axis).wiring == Wiring::Full {
                // A link for every two devices.
                own.add((at, Side::To(mesh.coordinate(message.to, axis))), message.bytes);
                at = mesh.with_coordinate(at, axis, mesh.coordinate(message.to, axis));
                continue;
            }
            let up = (there - here).rem_euclid(size);
            let hops = match topology.links(axis).wiring {
                Wiring::Ring => message.hops.unwrap_or(if up <= size - up { up } else { up - size }),
                Wiring::Line | Wiring::Switch | Wiring::Full | Wiring::Fabric => there - here,
            };
            for _ in 0..hops.abs() {
                own.add((at, if hops > 0 { Side::Up } else { Side::Down }), message.bytes);
                let next = (i64::from(mesh.coordinate(at, axis)) + hops.signum()).rem_euclid(size);
                at = mesh.with_coordinate(at, axis, u32::try_from(next).unwrap());
            }
        }
        assert_eq!(at, message.to, "its hops lead there");
    }
    // On a part of the machine, loads per link and per device equal those on the whole.
    let differs = |told: &[AxisLoad], counted: &BTreeMap<String, Passed>, times: u64, in_pieces: bool| {
        let mut left = counted.clone();
        for load in told {
            let name = wires(load.axis);
            let Passed { hops, bytes: each } = left.remove(&name).unwrap_or_default();
            let (bytes, most): (u128, _) = (each.values().sum(), each.values().copied().max());
            let links = topology.all_links().filter(|link| wires(topology.link(*link).axis) == name).count() as u128;
            let devices = mesh.device_count() as u128;
            let all_bytes = load.total * links * u128::from(times) == bytes * u128::from(load.links);
            let all_hops = load.hops * devices * u128::from(times) == hops * u128::from(load.devices);
            // Each piece may have another method, and thus another busiest link.
            let is_most = in_pieces || Some(u128::from(load.most.0) * u128::from(times)) == most;
            if !(all_bytes && all_hops && is_most) {
                return Some(format!("{load:?}, counted {bytes} bytes, {most:?} on a link, and {hops} hops"));
            }
        }
        left.pop_first().map(|(left, _)| format!("{left} is not counted"))
    };
    let in_pieces = |id: &StepId| plan.overlap.pipelines.iter().any(|pipeline| pipeline.steps.contains_key(id));
    for id in plan.ids() {
        let Some(Ok(chosen)) = &plan.step(id).recipe else { continue };
        let none = BTreeMap::new();
        let counted = steps.get(&(id.index() as u64)).unwrap_or(&none);
        if chosen.time.is_some()
            && let Some(how) = differs(&plan.step(id).usage.links, counted, plan.times(id), in_pieces(&id))
        {
            return Some(format!("{}: {how}", plan.op_name(id)));
        }
    }
    let mut whole: BTreeMap<String, Passed> = BTreeMap::new();
    for (name, passed) in steps.into_values().flatten() {
        let sum = whole.entry(name).or_default();
        sum.hops += passed.hops;
        passed.bytes.into_iter().for_each(|(link, bytes)| *sum.bytes.entry(link).or_default() += bytes);
    }
    let timing = clock::run(schedule, topology).expect("it has a time");
    differs(&timing.axis_loads(topology), &whole, 1, false)
}

/// The first step of which the JSON document has other messages, hops or link loads than the plan; `None` if all agree.
pub fn other_document(findings: &Findings<'_>) -> Option<String> {
    let Findings { plan, topology, .. } = findings;
    let document = document::plan("p.shard", "", findings, &Diagnostics::default());
    let document = serde_json::to_value(&document).expect("JSON");
    let steps = document["steps"].as_array().expect("steps");
    findings.steps.iter().zip_eq(steps).find_map(|(step, told)| {
        let usage = &plan.step(step.id).usage;
        let links: Vec<Value> = usage
            .links
            .iter()
            .map(|load| {
                json!({
                    "axis": topology.machine.axis(load.axis).name,
                    "bytes_per_link": load.most.0,
                    "mean_bytes_per_link": load.total as f64 / load.links as f64,
                    "mean_hops_per_device": load.hops as f64 / load.devices as f64,
                    "busy_s": topology.scale.seconds(load.busy),
                })
            })
            .collect();
        let messages = usage.traffic.each.iter().map(|traffic| traffic.messages).max().unwrap_or_default();
        let own = (json!(messages), if links.is_empty() { Value::Null } else { json!(links) });
        let found = (told["messages_received_per_device"].clone(), told["links"].clone());
        (found != own).then(|| format!("{}: {found:?}, counted {own:?}", step.name))
    })
}

impl Counted {
    /// Totals of each device over all steps.
    pub fn whole(&self, devices: usize) -> Vec<[u64; 3]> {
        let mut whole = vec![[0; 3]; devices];
        for step in self.steps.values() {
            for (sum, of) in whole.iter_mut().zip(step) {
                (0..3).for_each(|place| sum[place] += of[place]);
            }
        }
        whole
    }
}

/// A mesh in JSON form: names and sizes, and parts of axes.
struct Mesh {
    names: Vec<String>,
    sizes: Vec<u64>,
}

impl Mesh {
    fn devices(&self) -> u64 {
        self.sizes.iter().product()
    }

    fn coordinate(&self, device: u64, axis: usize) -> u64 {
        let minor: u64 = self.sizes[axis + 1..].iter().product();
        device / minor % self.sizes[axis]
    }

    fn axis(&self, name: &Value) -> usize {
        let name = name.as_str().expect("a name");
        self.names.iter().position(|known| known == name).expect("an axis of the mesh")
    }

    fn axes(&self, names: &Value) -> Vec<usize> {
        names.as_array().expect("names").iter().map(|name| self.axis(name)).collect()
    }

    fn rank(&self, device: u64, axes: &[usize]) -> u64 {
        axes.iter().fold(0, |rank, axis| rank * self.sizes[*axis] + self.coordinate(device, *axis))
    }

    fn with_rank(&self, device: u64, axes: &[usize], rank: u64) -> u64 {
        let (mut device, mut rank) = (device, rank);
        for axis in axes.iter().rev() {
            let minor: u64 = self.sizes[axis + 1..].iter().product();
            device = device - self.coordinate(device, *axis) * minor + rank % self.sizes[*axis] * minor;
            rank /= self.sizes[*axis];
        }
        device
    }

    /// The value of a coordinate map; `None` if it is absent.
    fn map(&self, map: &Value, device: u64) -> Option<i64> {
        if let Some(affine) = map.get("affine") {
            let terms = affine["terms"].as_array().expect("terms");
            let sum = terms.iter().map(|term| {
                i64::try_from(self.coordinate(device, self.axis(&term[0]))).unwrap() * term[1].as_i64().unwrap()
            });
            let value = sum.sum::<i64>() + affine["constant"].as_i64().unwrap();
            return Some(affine.get("modulo").and_then(Value::as_i64).map_or(value, |modulo| value.rem_euclid(modulo)));
        }
        let table = &map["table"];
        let rank = self.rank(device, &self.axes(&table["axes"]));
        table["entries"][usize::try_from(rank).unwrap()].as_i64()
    }

    /// The device from which a device receives.
    fn source(&self, sources: &Value, device: u64) -> Option<u64> {
        if let Some(shift) = sources.get("shift") {
            let axes = self.axes(&shift["axes"]);
            let n: i64 = axes.iter().map(|axis| i64::try_from(self.sizes[*axis]).unwrap()).product();
            let at = i64::try_from(self.rank(device, &axes)).unwrap() + shift["by"].as_i64().unwrap();
            let at = if shift["wrap"] == true { at.rem_euclid(n) } else { at };
            return (0..n).contains(&at).then(|| self.with_rank(device, &axes, u64::try_from(at).unwrap()));
        }
        let table = &sources["table"];
        let axes = self.axes(&table["axes"]);
        let rank = usize::try_from(self.rank(device, &axes)).unwrap();
        table["entries"][rank].as_u64().map(|source| self.with_rank(device, &axes, source))
    }
}

/// Runs a schedule without data. Parts of axes in its mesh must not overlap.
pub fn count(json: &str) -> Counted {
    let schedule: Value = serde_json::from_str(json).expect("JSON");
    let axes = schedule["mesh"]["axes"].as_array().expect("axes");
    let mesh = Mesh {
        names: axes.iter().map(|axis| axis["name"].as_str().unwrap().to_owned()).collect(),
        sizes: axes.iter().map(|axis| axis["size"].as_u64().unwrap()).collect(),
    };
    let devices = usize::try_from(mesh.devices()).unwrap();
    let arrays = schedule["arrays"].as_array().expect("arrays");
    let operations = schedule["operations"].as_array().expect("operations");
    let operands: Vec<Vec<usize>> = operations
        .iter()
        .map(|operation| {
            let list = operation["operands"].as_array().unwrap();
            list.iter().map(|operand| usize::try_from(operand.as_u64().unwrap()).unwrap()).collect()
        })
        .collect();
    let outputs: Vec<usize> = schedule["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|output| usize::try_from(output["value"].as_u64().unwrap()).unwrap())
        .collect();
    // The allocation that contains each value, for each device.
    let mut lies: Vec<Vec<Option<usize>>> = Vec::new();
    let mut steps: BTreeMap<u64, Vec<[u64; 3]>> = BTreeMap::new();
    let mut messages = Vec::new();
    let kernels: Vec<Vec<usize>> = match schedule.get("kernels").and_then(Value::as_array) {
        Some(kernels) => kernels
            .iter()
            .map(|kernel| {
                kernel.as_array().unwrap().iter().map(|at| usize::try_from(at.as_u64().unwrap()).unwrap()).collect()
            })
            .collect(),
        None => Vec::new(),
    };
    let kernel_of = |at: usize| kernels.iter().position(|kernel| kernel.contains(&at));
    // Values that are read only inside their kernel are not in memory.
    let is_inside = |at: usize| {
        let users: Vec<usize> = (0..operations.len()).filter(|user| operands[*user].contains(&at)).collect();
        let own = kernel_of(at);
        own.is_some() && !outputs.contains(&at) && !users.is_empty() && users.iter().all(|user| kernel_of(*user) == own)
    };
    let inside: Vec<bool> = (0..operations.len()).map(is_inside).collect();
    let ends: Vec<usize> = (0..operations.len())
        .map(|at| kernel_of(at).map_or(at, |kernel| *kernels[kernel].iter().max().unwrap()))
        .collect();
    let size = |at: usize| {
        if inside[at] {
            return 0;
        }
        let extents = operations[at]["extents"].as_array().unwrap().iter().map(|extent| extent.as_u64().unwrap());
        (extents.product::<u64>() * bits_of(operations[at]["dtype"].as_str().unwrap())).div_ceil(8)
    };
    for (at, operation) in operations.iter().enumerate() {
        let op = &operation["op"];
        let step = steps.entry(operation["step"].as_u64().unwrap()).or_insert_with(|| vec![[0; 3]; devices]);
        let there = |operand: usize, device: u64| lies[operand][usize::try_from(device).unwrap()];
        let mut made = vec![None; devices];
        for device in 0..mesh.devices() {
            let place = usize::try_from(device).unwrap();
            let present = operands[at].iter().filter(|operand| there(**operand, device).is_some()).count();
            let all = present == operands[at].len();
            made[place] = if let Some(input) = op.get("input") {
                let sharding = &input["sharding"];
                let is_root = sharding["operator"] == "root";
                let open = if is_root { mesh.axes(&sharding["open"]) } else { Vec::new() };
                let root = sharding.get("root").and_then(Value::as_u64).unwrap_or_default();
                (open.is_empty() || mesh.rank(device, &open) == root).then_some(at)
            } else if let Some(slice) = op.get("slice") {
                let (view, region) = (slice["view"].as_array().unwrap(), slice["region"].as_array().unwrap());
                let hits = view.iter().zip(region).all(|(length, cut)| {
                    cut == "whole"
                        || cut.get("range").is_some()
                        || mesh.map(cut, device).is_some_and(|index| (0..length.as_i64().unwrap()).contains(&index))
                });
                there(operands[at][0], device).filter(|_| hits)
            } else if op.get("reshape").is_some() {
                there(operands[at][0], device)
            } else if let Some(shuffle) = op.get("shuffle") {
                match mesh.source(&shuffle["sources"], device) {
                    Some(source) if source == device => there(operands[at][0], device),
                    Some(source) if there(operands[at][0], source).is_some() => {
                        if size(at) > 0 {
                            step[place][1] += size(at);
                            step[place][2] += 1;
                            step[usize::try_from(source).unwrap()][0] += size(at);
                            let id = |device: u64| DeviceId(u32::try_from(device).unwrap());
                            messages.push(Message {
                                step: operation["step"].as_u64().unwrap(),
                                from: id(source),
                                to: id(device),
                                bytes: size(at),
                                hops: shuffle["route"].get("hops").map(|hops| hops.as_i64().unwrap()),
                            });
                        }
                        Some(at)
                    }
                    _ => None,
                }
            } else if let Some(gather) = op.get("all_gather") {
                let n: u64 = mesh.axes(&gather["axes"]).iter().map(|axis| mesh.sizes[*axis]).product();
                if all && size(at) > 0 {
                    step[place][0] += size(operands[at][0]) * (n - 1);
                    step[place][1] += size(operands[at][0]) * (n - 1);
                    step[place][2] += n - 1;
                }
                all.then_some(at)
            } else if op.get("switch_sum").is_some() {
                if all && size(at) > 0 {
                    step[place][0] += size(at);
                    step[place][1] += size(at);
                    step[place][2] += 1;
                }
                all.then_some(at)
            } else if op.get("add").is_some() || op.get("assemble").is_some() {
                (present > 0).then_some(at)
            } else {
                all.then_some(at)
            };
        }
        lies.push(made);
    }
    let peaks = (0..devices)
        .map(|device| peak(device, &lies, &operands, &outputs, (arrays, operations), &ends, &size))
        .collect();
    Counted { steps, peaks, messages }
}

/// Allocates and frees blocks in list order. Inputs are present from the start. Only donated inputs are freed, and
/// not before they are first used.
fn peak(
    device: usize,
    lies: &[Vec<Option<usize>>],
    operands: &[Vec<usize>],
    outputs: &[usize],
    (arrays, operations): (&[Value], &[Value]),
    ends: &[usize],
    size: &dyn Fn(usize) -> u64,
) -> u64 {
    let is_input = |at: usize| operations[at]["op"].get("input").is_some();
    let is_donated = |at: usize| {
        let array = usize::try_from(operations[at]["op"]["input"]["array"].as_u64().unwrap()).unwrap();
        let definition = &arrays[array]["definition"];
        ["donated_input", "iota"].iter().any(|given_up| definition == *given_up) || definition.get("table").is_some()
    };
    // Number of values in each allocation that are still to be read, or are outputs.
    let mut readers: BTreeMap<usize, usize> = BTreeMap::new();
    for operand in operands.iter().flatten().chain(outputs) {
        if let Some(block) = lies[*operand][device] {
            *readers.entry(block).or_default() += 1;
        }
    }
    let mut heap: BTreeMap<usize, u64> = BTreeMap::new();
    let given = (0..operations.len()).filter(|at| is_input(*at) && lies[*at][device].is_some());
    heap.extend(given.map(|at| (at, size(at))));
    let mut peak = heap.values().sum::<u64>();
    for at in 0..operations.len() {
        if lies[at][device] == Some(at) && !is_input(at) {
            heap.insert(at, size(at));
        }
        peak = peak.max(heap.values().sum());
        // A kernel reads its operands until its end.
        for operand in (0..=at).filter(|user| ends[*user] == at).flat_map(|user| &operands[user]) {
            if let Some(block) = lies[*operand][device] {
                *readers.get_mut(&block).expect("it is read") -= 1;
            }
        }
        let stays = |block: usize| is_input(block) && (!is_donated(block) || block > at);
        let is_needed = |block: usize| stays(block) || readers.get(&block).is_some_and(|left| *left > 0);
        heap.retain(|block, _| is_needed(*block));
    }
    peak
}

fn bits_of(dtype: &str) -> u64 {
    dtype.trim_start_matches(|c: char| c.is_alphabetic()).parse().unwrap_or(8)
}
