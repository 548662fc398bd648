//! A second, slow timing simulator for comparison: the end of every message and computation is computed from its
//! predecessors.

use super::super::{Order, run_in};
use super::*;
use crate::einsum::Einsum;
use crate::function::{Binary, Function};
use crate::link::LinkState;
use crate::mesh::{DeviceId, Mesh};
use crate::topology::{
    Attachment, Engines, HopRule, LinkSide, LocalMoves, Measured, Messages, Network, Protocol, SwitchKind, Work,
};
use crate::units::Rate;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Occupies its resources once: a hop of a message, or a computation of a device.
struct Event {
    /// Names of the resources that it needs exclusively, such as links.
    needs: Vec<String>,
    /// Events that must have ended before it starts.
    after: Vec<usize>,
    busy: u128,
    takes: u128,
}

/// All events, in the order in which resources serve them.
#[derive(Default)]
struct Events {
    list: Vec<Event>,
    /// The last event of each resource so far.
    last: HashMap<String, usize>,
    /// For each event, the previous events at its resources.
    before: Vec<Vec<usize>>,
}

impl Events {
    fn push(&mut self, event: Event) -> usize {
        let id = self.list.len();
        self.before.push(event.needs.iter().filter_map(|name| self.last.insert(name.clone(), id)).collect());
        self.list.push(event);
        id
    }

    fn start(&self, id: usize, known: &mut HashMap<usize, u128>) -> u128 {
        if let Some(start) = known.get(&id) {
            return *start;
        }
        let mut start = 0;
        for other in &self.list[id].after {
            start = start.max(self.start(*other, known) + self.list[*other].takes);
        }
        for other in &self.before[id] {
            start = start.max(self.start(*other, known) + self.list[*other].busy);
        }
        known.insert(id, start);
        start
    }

    /// First come, first served: at each time, every ready event starts if all its resources are idle. Priority is
    /// the ready time, then list order.
    fn makespan_by_arrival(&self) -> u128 {
        let mut ends: Vec<Option<u128>> = vec![None; self.list.len()];
        let mut busy_until: HashMap<&str, u128> = HashMap::new();
        let mut now = 0;
        loop {
            let ready = |id: usize, ends: &[Option<u128>]| {
                let mut after = self.list[id].after.iter().map(|other| ends[*other].filter(|end| *end <= now));
                after.try_fold(0, |ready: u128, end| Some(ready.max(end?)))
            };
            let waiting = (0..self.list.len()).filter(|id| ends[*id].is_none());
            let mut turns: Vec<(u128, usize)> = waiting.filter_map(|id| Some((ready(id, &ends)?, id))).collect();
            // Events that need no resources come first: they may release others at the same time.
            turns.sort_by_key(|(since, id)| (!self.list[*id].needs.is_empty(), *since, *id));
            let free = turns.first().is_some_and(|(_, id)| self.list[*id].needs.is_empty());
            for (_, id) in turns.into_iter().filter(|(_, id)| !free || self.list[*id].needs.is_empty()) {
                let event = &self.list[id];
                let until = |name: &String| busy_until.get(name.as_str()).copied().unwrap_or(0);
                if event.needs.iter().all(|name| until(name) <= now) {
                    event.needs.iter().for_each(|name| {
                        busy_until.insert(name, now + event.busy);
                    });
                    ends[id] = Some(now + event.takes);
                }
            }
            if free {
                continue;
            }
            let later = ends.iter().flatten().chain(busy_until.values()).filter(|time| **time > now);
            match later.min() {
                Some(next) => now = *next,
                None => return ends.into_iter().map(|end| end.expect("everything happens")).max().unwrap_or(0),
            }
        }
    }

    fn makespan(&self) -> u128 {
        let mut known = HashMap::new();
        (0..self.list.len()).map(|id| self.start(id, &mut known) + self.list[id].takes).max().unwrap_or(0)
    }
}

/// Coordinates of a device, computed by division.
fn coordinates(mesh: &Mesh, device: DeviceId) -> Vec<i64> {
    let mut rest = i64::from(device.0);
    let mut coordinates: Vec<i64> = Vec::new();
    for axis in mesh.axes().iter().rev() {
        coordinates.insert(0, rest % i64::from(axis.size));
        rest /= i64::from(axis.size);
    }
    coordinates
}

/// A hop: the resources that it needs at once, and its network.
#[derive(Clone)]
struct OneHop<'t> {
    needs: Vec<String>,
    network: &'t Network,
    is_switch: bool,
    /// Remaining rate in percent; 0 if the link is down.
    percent: u64,
}

/// Remaining rate of a link in percent, given its endpoints.
fn percent(topology: &Topology, axis: usize, from: &[i64], to: &[i64]) -> u64 {
    let owners = |from: &[i64], to: &[i64]| (axis, owner(topology, axis, from), owner(topology, axis, to));
    let states = topology.degraded().filter_map(|(id, state)| {
        let link = topology.link(id);
        let at = coordinates(&topology.mesh, link.device);
        let mut next = at.clone();
        let size = i64::from(topology.mesh.axis(link.axis).size);
        let by = match link.side {
            LinkSide::Ahead(by) => i64::from(by),
            LinkSide::Up => 1,
            _ => -1,
        };
        next[link.axis.index()] = (next[link.axis.index()] + by).rem_euclid(size);
        let same = link.axis.index() == axis && owners(&at, &next) == owners(from, to);
        same.then_some(match state {
            LinkState::Down => 0,
            LinkState::Percent(percent) => u64::from(percent),
        })
    });
    states.min().unwrap_or(100)
}

/// The best route around failed links, by exhaustive search: fewest hops between nodes, then fewest hops, then link
/// order.
fn around(topology: &Topology, from: &[i64], to: &[i64]) -> Vec<(usize, Vec<i64>)> {
    type Tried = (usize, usize, Vec<(usize, usize)>, Vec<(usize, Vec<i64>)>);
    let mut open: Vec<Tried> = vec![(0, 0, Vec::new(), Vec::new())];
    let mut seen: Vec<Vec<i64>> = Vec::new();
    loop {
        // The best open route: ordered by length so far, then by the order of the links taken.
        let least = (0..open.len()).min_by_key(|place| {
            let (between, hops, order, _) = &open[*place];
            (*between, *hops, order.clone())
        });
        let (between, hops, order, way) = open.swap_remove(least.expect("the machine is in one piece"));
        let at = way.last().map_or(from.to_vec(), |(_, at)| at.clone());
        if at == to {
            return way;
        }
        if seen.contains(&at) {
            continue;
        }
        seen.push(at.clone());
        for axis in 0..at.len() {
            let size = i64::from(topology.mesh.axes()[axis].size);
            let wiring = topology.axes[axis].wiring;
            let moved = |there: i64| {
                let mut next = at.clone();
                next[axis] = there;
                next
            };
            let nexts: Vec<Vec<i64>> = match wiring {
                Wiring::Switch => {
                    let on = on_switch(topology, axis);
                    let places = topology.mesh.devices().map(|device| coordinates(&topology.mesh, device));
                    let alike =
                        |place: &Vec<i64>| (0..at.len()).all(|axis| on.contains(&axis) || place[axis] == at[axis]);
                    places.filter(alike).collect()
                }
                Wiring::Ring => vec![moved((at[axis] + 1) % size), moved((at[axis] + size - 1) % size)],
                Wiring::Line => vec![moved(at[axis] + 1), moved(at[axis] - 1)],
                Wiring::Fabric => unreachable!("has tests of its own"),
                Wiring::Full => (1..size).map(|by| moved((at[axis] + by) % size)).collect(),
            };
            for (side, next) in nexts.into_iter().enumerate() {
                let exists = (0..size).contains(&next[axis]) && next != at;
                if !exists || wiring != Wiring::Switch && percent(topology, axis, &at, &next) == 0 {
                    continue;
                }
                let far = usize::from(topology.mesh.axes()[axis].over.is_some());
                let (mut order, mut way) = (order.clone(), way.clone());
                order.push((axis, side));
                way.push((axis, next));
                open.push((between + far, hops + 1, order, way));
            }
        }
    }
}

/// The network of an axis.
fn network(topology: &Topology, axis: usize) -> &Network {
    match &topology.mesh.axes()[axis].over {
        None => &topology.hardware.network,
        Some(name) => topology.hardware.networks().find(|network| network.name == *name).expect("a known network"),
    }
}

/// The axes on the same switch.
fn on_switch(topology: &Topology, axis: usize) -> Vec<usize> {
    let name = &network(topology, axis).name;
    let switches = (0..topology.axes.len()).filter(|axis| topology.axes[*axis].wiring == Wiring::Switch);
    switches.filter(|axis| network(topology, *axis).name == *name).collect()
}

/// The owner of a device's links: the device, or its node.
fn owner(topology: &Topology, axis: usize, at: &[i64]) -> Vec<i64> {
    let mut owner = at.to_vec();
    if network(topology, axis).attached == Attachment::Node {
        let inside = topology.mesh.axes().iter().zip(&mut owner).filter(|(axis, _)| axis.over.is_none());
        inside.for_each(|(_, coordinate)| *coordinate = 0);
    }
    owner
}

/// The axes in the order in which messages cross them: outer networks first, then rings, lines, switches and full meshes,
/// of each the shortest first.
fn crossed(topology: &Topology) -> Vec<usize> {
    let place = |axis: usize| topology.hardware.networks().position(|known| known.name == network(topology, axis).name);
    let wiring = |axis: usize| match topology.axes[axis].declared {
        Wiring::Ring => 0,
        Wiring::Line => 1,
        Wiring::Switch => 2,
        Wiring::Full => 3,
        Wiring::Fabric => unreachable!("has tests of its own"),
    };
    let mut axes: Vec<usize> = (0..topology.axes.len()).collect();
    axes.sort_by_key(|axis| (Reverse(place(*axis)), wiring(*axis), topology.mesh.axes()[*axis].size));
    axes
}

/// The hops of a message: dimension-ordered, or a detour around failed links.
fn hops(topology: &Topology, from: DeviceId, to: DeviceId, route: Route) -> Vec<OneHop<'_>> {
    let (start, goal) = (coordinates(&topology.mesh, from), coordinates(&topology.mesh, to));
    let mut way = Vec::new();
    let mut at = start.clone();
    for axis in crossed(topology) {
        let size = i64::from(topology.mesh.axes()[axis].size);
        let wiring = topology.axes[axis].wiring;
        let direct = goal[axis] - at[axis];
        let mut distance = match (wiring, route) {
            _ if direct == 0 => 0,
            (_, Route::Hops(hops)) => hops,
            (Wiring::Ring, Route::Shortest) => {
                let candidates = [direct, direct + size, direct - size];
                candidates.into_iter().min_by_key(|hops| (hops.abs(), -hops)).unwrap()
            }
            (Wiring::Line | Wiring::Switch | Wiring::Full | Wiring::Fabric, Route::Shortest) => direct,
        };
        if wiring == Wiring::Switch && distance != 0 {
            on_switch(topology, axis).into_iter().for_each(|axis| at[axis] = goal[axis]);
            way.push((axis, at.clone()));
            continue;
        }
        if wiring == Wiring::Full && distance != 0 {
            at[axis] = goal[axis];
            way.push((axis, at.clone()));
            continue;
        }
        while distance != 0 {
            at[axis] = (at[axis] + distance.signum()).rem_euclid(size);
            distance -= distance.signum();
            way.push((axis, at.clone()));
        }
    }
    assert_eq!(at, goal);
    let walked = walked(topology, &start, &way);
    if walked.iter().all(|hop| hop.percent > 0) {
        return walked;
    }
    let way = around(topology, &start, &goal);
    self::walked(topology, &start, &way)
}

/// The hops of a route given as a sequence of coordinates.
fn walked<'t>(topology: &'t Topology, start: &[i64], way: &[(usize, Vec<i64>)]) -> Vec<OneHop<'t>> {
    let mut at = start.to_vec();
    let mut hops = Vec::new();
    for (axis, next) in way {
        let (axis, network) = (*axis, network(topology, *axis));
        let owners = [&at, next].map(|place| owner(topology, axis, place));
        if topology.axes[axis].wiring == Wiring::Switch {
            let ports =
                [format!("{} out {:?}", network.name, owners[0]), format!("{} in {:?}", network.name, owners[1])];
            match network.switch {
                SwitchKind::CutThrough => {
                    hops.push(OneHop { needs: ports.to_vec(), network, is_switch: true, percent: 100 })
                }
                SwitchKind::StoreAndForward => {
                    hops.extend(ports.map(|port| OneHop { needs: vec![port], network, is_switch: true, percent: 100 }));
                }
            }
        } else {
            let needs = vec![format!("{axis} {:?} {:?}", owners[0], owners[1])];
            let percent = percent(topology, axis, &at, next);
            hops.push(OneHop { needs, network, is_switch: false, percent });
        }
        at.clone_from(next);
    }
    hops
}

/// Per device, the event after which it has the value: `Some(None)` if it has the value from the start, `None` if it
/// never has it.
type Holders = Vec<Option<Option<usize>>>;

/// The end of the last event of a schedule.
pub(super) fn makespan(schedule: &Schedule, topology: &Topology) -> u128 {
    events(schedule, topology).makespan()
}

/// The events of a schedule of inputs, shuffles, sums, slices and maps.
fn events(schedule: &Schedule, topology: &Topology) -> Events {
    let mut events = Events::default();
    let mut values: Vec<Holders> = Vec::new();
    for id in schedule.ids() {
        let operands: Vec<&Holders> = schedule.operands(id).iter().map(|operand| &values[operand.index()]).collect();
        let holders = match &schedule.operation(id).kind {
            OpKind::Input { .. } => vec![Some(None); schedule.mesh.device_count()],
            OpKind::Shuffle { sources, route } => {
                let part = (!has_come(schedule, id), is_exchange(schedule, id));
                shuffle(&mut events, topology, operands[0], (sources, *route), schedule.operation(id).bytes(), part)
            }
            _ => schedule
                .mesh
                .devices()
                .map(|device| {
                    let there = operands.iter().filter_map(|holders| holders[device.index()]).collect();
                    compute(&mut events, topology, schedule.operation(id), device, operands.len(), there)
                })
                .collect(),
        };
        values.push(holders);
    }
    events
}

/// Operands of the same step that result from moves.
fn moved(schedule: &Schedule, id: OpId) -> Vec<OpId> {
    let of_step = |operand: &OpId| schedule.operation(*operand).step == schedule.operation(id).step;
    let is_move = |operand: &OpId| {
        let kind = &schedule.operation(*operand).kind;
        matches!(kind, OpKind::Shuffle { .. } | OpKind::Add { .. } | OpKind::Slice { .. })
    };
    schedule.operands(id).into_iter().filter(of_step).filter(is_move).collect()
}

/// Whether an operand of the operation arrived by a message of its step.
fn has_come(schedule: &Schedule, id: OpId) -> bool {
    let is_sent = |operand: &OpId| matches!(schedule.operation(*operand).kind, OpKind::Shuffle { .. });
    moved(schedule, id).iter().any(|operand| is_sent(operand) || has_come(schedule, *operand))
}

/// Whether a message carries a different slice for each device that is neither forwarded nor added in its step.
fn is_exchange(schedule: &Schedule, id: OpId) -> bool {
    fn is_part(schedule: &Schedule, id: OpId) -> bool {
        let is_slice = |operand: &OpId| matches!(schedule.operation(*operand).kind, OpKind::Slice { .. });
        moved(schedule, id).iter().any(|operand| is_slice(operand) || is_part(schedule, *operand))
    }
    fn goes_on(schedule: &Schedule, id: OpId) -> bool {
        let of_step = |user: &OpId| schedule.operation(*user).step == schedule.operation(id).step;
        schedule.ids().filter(|user| schedule.operands(*user).contains(&id)).filter(of_step).any(|user| match schedule
            .operation(user)
            .kind
        {
            OpKind::Shuffle { .. } | OpKind::Add { .. } => true,
            OpKind::Slice { .. } => goes_on(schedule, user),
            _ => false,
        })
    }
    !has_come(schedule, id) && is_part(schedule, id) && !goes_on(schedule, id)
}

/// The measured figures of a network for the mesh's device count on it, or for the next count.
fn figures<'t>(topology: &'t Topology, network: &'t Network) -> Option<&'t Measured> {
    let on_it = |axis: &Axis| axis.over.as_deref().unwrap_or(&topology.hardware.network.name) == network.name;
    let devices: u32 = topology.mesh.axes().iter().filter(|axis| on_it(axis)).map(|axis| axis.size).product();
    let mut all: Vec<&Measured> = network.measured.iter().collect();
    all.sort_by_key(|measured| measured.devices);
    all.iter().copied().find(|measured| measured.devices >= devices).or(all.last().copied())
}

/// The events of a shuffle: all first hops, then all second hops, and so on.
///
/// - `(starts, is_exchange)`: the kind of its messages.
fn shuffle(
    events: &mut Events,
    topology: &Topology,
    operand: &Holders,
    (sources, route): (&Sources, Route),
    bytes: u64,
    (starts, is_exchange): (bool, bool),
) -> Holders {
    let mut holders: Holders = vec![None; operand.len()];
    let mut ways: Vec<(DeviceId, Vec<OneHop<'_>>)> = Vec::new();
    let sends = topology.hardware.engines.of(Work::Shuffle);
    for device in topology.mesh.devices() {
        let Some(source) = sources.of(&topology.mesh, device) else { continue };
        holders[device.index()] = operand[source.index()];
        if operand[source.index()].is_some() {
            let mut way = hops(topology, source, device, route);
            if let (Some(hop), Some(engine)) = (way.first_mut(), sends) {
                hop.needs.push(format!("{engine:?} {source}"));
            }
            ways.push((device, way));
        }
    }
    for hop in 0..ways.iter().map(|(_, hops)| hops.len()).max().unwrap_or(0) {
        for (device, hops) in &ways {
            let Some(OneHop { needs, network, is_switch, percent }) = hops.get(hop).cloned() else { continue };
            let latency = topology.scale.picoseconds(network.hop_latency).ticks();
            let bandwidth =
                topology.scale.at_rate(u128::from(bytes) * 100, network.one_way).ticks() / u128::from(percent);
            let overhead = if hop == 0 { network.message_overhead } else { 0 };
            let overhead = topology.scale.picoseconds(overhead).ticks();
            let (busy, takes) = match topology.hardware.hop_rule {
                HopRule::Larger if is_switch => (overhead + bandwidth, overhead + latency.max(bandwidth)),
                HopRule::Larger => (overhead + latency.max(bandwidth), overhead + latency.max(bandwidth)),
                HopRule::Sum => (overhead + bandwidth, overhead + bandwidth + latency),
            };
            let mut after: Vec<usize> = holders[device.index()].flatten().into_iter().collect();
            let (mut busy, mut takes) = (busy, takes);
            if let Some(measured) = figures(topology, network) {
                let messages = if is_exchange { &measured.exchanges } else { &measured.collectives };
                let at = |rate: Rate| topology.scale.at_rate(u128::from(bytes), rate).ticks();
                let time = |picoseconds| topology.scale.picoseconds(picoseconds).ticks();
                let fastest = |all: &[Protocol]| all.iter().map(|protocol| protocol.one_way).max().unwrap();
                let all = fastest(&measured.collectives.protocols).max(fastest(&measured.exchanges.protocols));
                let left = topology.scale.at_rate(u128::from(bytes) * 100, all).ticks() / u128::from(percent);
                busy = left.max(at(fastest(&messages.protocols)));
                let least =
                    messages.protocols.iter().map(|protocol| time(protocol.latency) + at(protocol.one_way)).min();
                takes = busy.max(least.unwrap());
            }
            // A kernel on a network that was not measured starts as on the fully used one inside a node.
            let whole = topology.hardware.network.measured.iter().max_by_key(|measured| measured.devices);
            if let Some(measured) = figures(topology, network).or(whole).filter(|_| hop == 0 && starts) {
                let messages = if is_exchange { &measured.exchanges } else { &measured.collectives };
                let (busy, takes) = (0, topology.scale.picoseconds(messages.start).ticks());
                after = vec![events.push(Event { needs: Vec::new(), after, busy, takes })];
            }
            holders[device.index()] = Some(Some(events.push(Event { needs, after, busy, takes })));
        }
    }
    holders
}

/// The event of a local computation, if enough operands are present.
fn compute(
    events: &mut Events,
    topology: &Topology,
    operation: &Operation,
    device: DeviceId,
    operands: usize,
    there: Vec<Option<usize>>,
) -> Option<Option<usize>> {
    let (enough, local) = match &operation.kind {
        OpKind::Add { .. } => (!there.is_empty(), true),
        OpKind::Map { .. } => (there.len() == operands, false),
        OpKind::Slice { view, region } => {
            let Cut::At(map) = &region[0] else { unreachable!("made with a map") };
            let inside = map.at(&topology.mesh, device).is_some_and(|index| index < view[0]);
            (inside && !there.is_empty(), true)
        }
        other => unreachable!("not made here: {other:?}"),
    };
    let free = local && topology.hardware.local_moves == LocalMoves::Free;
    let traffic = if free { 0 } else { (there.len() as u64 + 1) * operation.bytes() };
    let start = if local { 0 } else { topology.scale.picoseconds(topology.hardware.kernel_start).ticks() };
    let takes = start + topology.scale.at_rate(u128::from(traffic), topology.hardware.hbm_bandwidth).ticks();
    let work = match &operation.kind {
        OpKind::Add { .. } => Work::Add,
        OpKind::Map { .. } => Work::Map,
        _ => Work::Slice,
    };
    let engine = topology.hardware.engines.of(work).expect("local work has an engine");
    let needs = if takes == 0 { vec![] } else { vec![format!("{engine:?} {device}")] };
    let after = there.into_iter().flatten().collect();
    enough.then(|| Some(events.push(Event { needs, after, busy: takes, takes })))
}

/// One compute engine, or several with randomly assigned work. Messages leave by one of them or by none.
fn random_engines(random: &mut fastrand::Rng) -> Engines {
    if random.bool() {
        return Engines::default();
    }
    let mut engines: Vec<(String, Vec<Work>)> = (0..random.usize(1..=3)).map(|id| (format!("e{id}"), vec![])).collect();
    for work in Work::ALL {
        let id = random.usize(0..engines.len());
        if work != Work::Shuffle || random.bool() {
            engines[id].1.push(work);
        }
    }
    Engines::new(engines).expect("all work")
}

/// Random figures of messages.
fn random_figures(random: &mut fastrand::Rng) -> Measured {
    let mut messages = || {
        let protocol = |_| {
            let one_way = Rate::new(*random.choice(&[1, 2, 5, 9, 20, 36]).unwrap() * 1_000_000_000).unwrap();
            Protocol { latency: random.u64(0..5) * 250_000, one_way }
        };
        let protocols = (0..2).map(protocol).collect();
        Messages { start: random.u64(0..4) * 500_000, protocols }
    };
    let (collectives, exchanges) = (messages(), messages());
    Measured { devices: random.u32(1..=8), collectives, exchanges, sums: None }
}

/// A random machine.
pub(super) fn random_topology(random: &mut fastrand::Rng) -> Topology {
    let mut hardware = Hardware {
        hop_rule: *random.choice(&[HopRule::Larger, HopRule::Sum]).unwrap(),
        local_moves: *random.choice(&[LocalMoves::Free, LocalMoves::Memory]).unwrap(),
        engines: random_engines(random),
        ..Hardware::named("tpu_v5e").expect("shipped")
    };
    let far = Network { one_way: Rate::new(6_250_000_000).unwrap(), ..hardware.beyond[0].clone() };
    hardware.beyond = vec![far];
    for network in std::iter::once(&mut hardware.network).chain(&mut hardware.beyond) {
        network.message_overhead = *random.choice(&[0, 300_000]).unwrap();
        network.switch = *random.choice(&[SwitchKind::CutThrough, SwitchKind::StoreAndForward]).unwrap();
        network.measured = (0..random.usize(0..3)).map(|_| random_figures(random)).collect();
        network.measured.dedup_by_key(|measured| measured.devices);
    }
    hardware.kernel_start = *random.choice(&[0, 700_000]).unwrap();
    hardware.beyond[0].attached = *random.choice(&[Attachment::Device, Attachment::Node]).unwrap();
    let axes = ["X", "Y", "Z"].into_iter().take(random.usize(1..=3)).map(|name| Axis {
        name: name.to_owned(),
        size: random.u32(1..=4),
        wiring: Some(*random.choice(&Wiring::ALL).unwrap()),
        over: (random.u32(0..3) == 0).then(|| "dcn".to_owned()),
    });
    let mesh = Mesh::new(axes.collect()).expect("a small mesh");
    Topology::new(mesh, hardware).expect("a common tick")
}

/// A partial permutation of the groups of some axes.
pub(super) fn random_sources(random: &mut fastrand::Rng, mesh: &Mesh) -> Sources {
    let mut axes: Vec<AxisId> = mesh.axis_ids().collect();
    random.shuffle(&mut axes);
    axes.truncate(random.usize(1..=axes.len()));
    let members = u32::try_from(mesh.group_size(axes.iter().copied())).unwrap();
    let mut entries: Vec<Option<u32>> = (0..members).map(Some).collect();
    random.shuffle(&mut entries);
    entries.iter_mut().for_each(|entry| *entry = entry.filter(|_| random.u32(0..5) > 0));
    Sources::Table { axes, entries }
}

pub(super) fn random_schedule(random: &mut fastrand::Rng, topology: &Topology) -> Schedule {
    let mut builder = Builder::new(topology);
    let mut values = vec![builder.input(&[60_000]), builder.input(&[60_000])];
    for _ in 0..random.usize(1..14) {
        let [one, two] = [0, 1].map(|_| *random.choice(&values).unwrap());
        let axis = random.usize(0..topology.mesh.axes().len());
        let value = match random.u32(0..6) {
            0 | 1 => {
                let sources = random_sources(random, &topology.mesh);
                builder.push(OpKind::Shuffle { sources, route: Route::Shortest }, &[60_000], &[one])
            }
            2 => {
                let (wrap, size) = (topology.axes[axis].wiring != Wiring::Line, topology.mesh.axes()[axis].size);
                let hops = if size == 1 { 0 } else { random.i64(1..i64::from(size)) };
                let signed = if random.bool() { hops } else { -hops };
                builder.shift(one, axis, -signed, wrap, Route::Hops(signed))
            }
            3 => builder.add(&[one, two]),
            4 => {
                let einsum = Einsum { operands: vec![vec![0], vec![0]], result: vec![0] };
                builder.push(OpKind::Map { function: Function::Binary(Binary::Add), einsum }, &[60_000], &[one, two])
            }
            _ => {
                let (axis, shift) = (AxisId::new(axis), random.i64(-1..=1));
                let map = match random.bool() {
                    true => CoordMap::shifted(axis, shift),
                    false => CoordMap::rotated(axis, shift, random.u64(1..=2)),
                };
                // The whole block on some devices, nothing on the others.
                let slice = OpKind::Slice { view: vec![1, 60_000], region: vec![Cut::At(map), Cut::Whole] };
                builder.push(slice, &[60_000], &[one])
            }
        };
        values.push(value);
    }
    let mut schedule = builder.schedule;
    for operation in schedule.operations.node_weights_mut() {
        operation.step = random.u32(0..2);
    }
    schedule
}

#[test]
fn random_schedules_take_the_same_time_on_both_clocks() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut sent = 0;
    for case in 0..600 {
        let topology = random_topology(&mut random);
        let schedule = random_schedule(&mut random, &topology);
        let timing = run(&schedule, &topology).expect("a sound schedule");
        let events = events(&schedule, &topology);
        assert_eq!(timing.makespan.ticks(), events.makespan(), "case {case}: {schedule:#?}");
        let timing = run_in(&schedule, &topology, Order::Arrival).expect("a sound schedule");
        assert_eq!(timing.makespan.ticks(), events.makespan_by_arrival(), "case {case}: {schedule:#?}");
        sent += usize::from(timing.busiest.is_some());
    }
    assert!(sent > 300, "only {sent} cases send anything");
}
