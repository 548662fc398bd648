//! Totals of a plan: bytes, messages and memory.

use super::{Plan, Step, StepId, StepOp, operands, unroll};
use crate::layout::Layout;
use crate::mesh::{Axes, AxisSet, DeviceId, Mesh};
use crate::program::Definition;
use crate::sim::usage::{PerDevice, StepUsage, Traffic, Usage, Working};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Iterations of a body that reach its peak memory, if all omitted inputs are donated in the last but one.
const ITERATIONS: u64 = 4;

/// Bytes of a block on each device; 0 where it is absent.
fn block(layout: &Layout, mesh: &Mesh) -> PerDevice<u64> {
    let bytes = layout.local_bytes(mesh).0;
    let absent = if layout.sharding.operator.is_root() { layout.sharding.open } else { AxisSet::NONE };
    let root = layout.sharding.root(mesh).unwrap_or_default();
    let each = (0..absent.group_size(mesh)).map(|rank| if rank == root { bytes } else { 0 }).collect();
    PerDevice { axes: absent.in_order(), each }
}

/// Lower bound on the usage of a step, for any recipe.
///
/// - `is_inside`: whether its result stays inside a kernel.
pub(super) fn expected(step: &Step, operand: Option<&Layout>, is_inside: bool, mesh: &Mesh) -> StepUsage {
    let made = StepUsage::local(block(&step.layout, mesh).map(|bytes| if is_inside { 0 } else { *bytes }));
    match (&step.op, operand) {
        (StepOp::Collective(collective), Some(from)) => {
            let received = collective.bytes_received(from, mesh).0;
            let traffic = PerDevice::all(Traffic { sent: received, received, messages: 0 });
            let kept = Working { is_view: true, ..Working::default() };
            let is_local = !collective.kind().sends();
            let working = if is_local { PerDevice::all(kept) } else { made.working };
            StepUsage { traffic, working, links: Vec::new() }
        }
        (StepOp::Input | StepOp::Carry, _) => StepUsage::none(),
        _ => made,
    }
}

impl Plan {
    /// Traffic and memory of all steps together.
    pub fn usage(&self) -> Usage {
        let mesh = &self.program.mesh;
        let mut axes: Vec<Axes> = self.steps.node_weights().map(|step| step.usage.traffic.axes).collect();
        axes.extend(self.steps.node_weights().map(|step| step.usage.working.axes));
        axes.extend(self.steps.node_weights().map(|step| block(&step.layout, mesh).axes));
        let apart = axes.iter().fold(AxisSet::NONE, |all, axes| all.union(axes.set())).in_order();
        let devices = || (0..apart.group_size(mesh)).map(|rank| mesh.with_rank(DeviceId(0), apart.iter(), rank));
        let traffic = |device: DeviceId| {
            let mut sum = Traffic::default();
            for id in self.ids() {
                sum += self.step(id).usage.traffic.of(mesh, device).times(self.times(id));
            }
            sum
        };
        let traffic = PerDevice { axes: apart, each: devices().map(traffic).collect() };
        let short = match self.program.repeats.is_empty() {
            true => Cow::Borrowed(self),
            false => Cow::Owned(unroll::at_most(self, ITERATIONS)),
        };
        let lives = Lives::new(self, &short);
        let peak = devices().map(|device| lives.peak(device)).max();
        let peak = self.overlap.whole.map(|whole| whole.peak.0).or(peak);
        Usage::new(&traffic, peak.unwrap_or_default(), mesh)
    }

    /// For inputs, whether they are donated.
    fn donated(&self, id: StepId) -> Option<bool> {
        let step = self.step(id);
        match &self.program.value(step.value).definition {
            Definition::Input { supply } if step.op == StepOp::Input => Some(supply.is_given_up()),
            _ => None,
        }
    }
}

/// Readers of each step, and inputs.
struct Lives<'a> {
    /// The plan with few iterations of each body.
    plan: &'a Plan,
    operands: Vec<Vec<StepId>>,
    /// Whether each result stays inside its kernel; in the last iteration also one that only the next one would read.
    inside: Vec<bool>,
    /// For each step, its input, if it is one.
    inputs: BTreeMap<StepId, Given>,
}

/// An input, or several of one layout, live from the start.
struct Given {
    donated: bool,
    bytes: PerDevice<u64>,
}

impl<'a> Lives<'a> {
    /// - `short`: the plan with few iterations.
    fn new(whole: &Plan, short: &'a Plan) -> Lives<'a> {
        let mut inputs = BTreeMap::new();
        let mut seen: BTreeMap<StepId, u64> = BTreeMap::new();
        for id in short.ids() {
            let Some(donated) = short.donated(id) else { continue };
            // Each iteration has its own inputs.
            let iteration = seen.entry(short.origin(id)).or_default();
            *iteration += 1;
            let all = whole.times(short.origin(id));
            let count = if *iteration + 1 == ITERATIONS { all.saturating_sub(ITERATIONS) + 1 } else { 1 };
            let bytes = block(&short.step(id).layout, &short.program.mesh).map(|bytes| bytes.saturating_mul(count));
            inputs.insert(id, Given { donated, bytes });
        }
        let inside = short.accesses().iter().map(|access| access.is_inside).collect();
        Lives { plan: short, operands: short.ids().map(|id| operands(&short.steps, id)).collect(), inside, inputs }
    }

    /// Peak memory of a device.
    fn peak(&self, device: DeviceId) -> u64 {
        let plan = self.plan;
        let mesh = &plan.program.mesh;
        let working = |id: StepId| match self.inside[id.index()] {
            true => Working::default(),
            false => plan.step(id).usage.working.of(mesh, device),
        };
        let given = self.inputs.values().map(|given| given.bytes.of(mesh, device));
        let mut live = given.fold(0, u64::saturating_add);
        // The step that owns the memory of each value, and the last step that reads it.
        let mut blocks: Vec<StepId> = Vec::with_capacity(self.operands.len());
        let mut last: Vec<StepId> = plan.ids().collect();
        // A kernel reads its operands until its end.
        let ends = plan.ends();
        for id in plan.ids() {
            let operands = &self.operands[id.index()];
            // What leaves the block in place does not read it.
            let is_idle = plan
                .step(id)
                .op
                .collective()
                .is_some_and(|collective| collective.is_idle(&plan.step(operands[0]).layout.sharding, mesh));
            for operand in operands.iter().filter(|_| !is_idle) {
                let last = &mut last[blocks[operand.index()].index()];
                *last = ends[id.index()].max(*last);
            }
            let is_view = working(id).is_view || plan.step(id).op == StepOp::Carry;
            blocks.push(operands.first().filter(|_| is_view).map_or(id, |operand| blocks[operand.index()]));
        }
        plan.outputs.iter().for_each(|output| last[blocks[output.index()].index()] = StepId::end());
        // The bytes freed when a block is no longer read.
        let freed = |id: StepId| match self.inputs.get(&id) {
            Some(given) => {
                if given.donated {
                    given.bytes.of(mesh, device)
                } else {
                    0
                }
            }
            None => working(id).result,
        };
        let is_own = |id: StepId| blocks[id.index()] == id;
        // Unread values are not kept.
        let is_kept = |id: StepId| is_own(id) && (last[id.index()] != id || self.inputs.contains_key(&id));
        let mut dying = vec![0u64; last.len()];
        for id in plan.ids().filter(|id| is_kept(*id) && last[id.index()] != StepId::end()) {
            let dying = &mut dying[last[id.index()].index()];
            *dying = dying.saturating_add(freed(id));
        }
        let mut peak = live;
        for id in plan.ids() {
            let is_input = self.inputs.contains_key(&id);
            let own = if is_input { Working::default() } else { working(id) };
            peak = peak.max(live.saturating_add(own.reading));
            live = live.saturating_sub(dying[id.index()]);
            peak = peak.max(live.saturating_add(own.after));
            if !is_input && is_kept(id) {
                live = live.saturating_add(own.result);
            }
        }
        peak
    }
}
