//! One step of a plan: operation, cost and lower bound.

use super::run::{LinksDocument, Traffic, links};
use super::seconds::Seconds;
use crate::bounds::{self, Bound, Certificate, Reason};
use crate::collective::Collective;
use crate::plan::{Plan, StepId, StepOp};
use crate::recipe::{self, Lowering, MethodTime, MethodTimes};
use crate::topology::Topology;
use crate::units::{Bytes, Time, bytes_or_dash};
use itertools::Itertools;
use serde::Serialize;

/// A step of a plan, for text and JSON.
#[derive(Debug, Serialize)]
pub struct Step {
    /// Its number in the plan.
    #[serde(skip)]
    pub id: StepId,
    /// Its name: `product`, `AllGather_X x 3`.
    #[serde(skip)]
    pub name: String,
    /// Its layouts: `A[I, J] * B[J, K_X] -> C[I, K_X]`.
    #[serde(skip)]
    pub layouts: String,
    /// Methods of a collective; `fused` for a step in the kernel of an earlier one.
    #[serde(skip)]
    pub how: String,
    /// The resource that limits its time.
    #[serde(skip)]
    pub limit: &'static str,
    op: &'static str,
    axes: Vec<String>,
    dim: Option<String>,
    pub(super) operands: Vec<String>,
    pub(super) result: String,
    /// The case of a product, as in the book.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case: Option<u8>,
    method: Option<String>,
    /// Index of the first step of its kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<usize>,
    /// Number of repetitions.
    pub times: u64,
    span: [u32; 2],
    #[serde(flatten)]
    traffic: Traffic,
    /// Link loads of one repetition; empty if it sends nothing or is too large to simulate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<LinksDocument>,
    /// Memory in addition to its operands.
    working_bytes_per_device: u64,
    flops_per_device: u128,
    /// Its time when run alone.
    pub time_s: Seconds,
    /// Lower bound on its time.
    pub bound_s: Seconds,
    /// Explanation of the bound of a collective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_reason: Option<String>,
    /// The methods that apply, the chosen one first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<Method>>,
}

/// A method that applies to a collective.
#[derive(Debug, Serialize)]
pub struct Method {
    /// Its name.
    pub name: String,
    /// Whether it was chosen.
    pub chosen: bool,
    /// The time of the collective when run alone.
    pub time_s: Seconds,
    /// Ratio of the time to the lower bound.
    pub ratio: f64,
}

impl Step {
    pub(super) fn new(plan: &Plan, id: StepId, topology: &Topology) -> Step {
        let step = plan.step(id);
        let usage = step.usage.whole(&plan.program.mesh);
        let certificate = step_bound(plan, id, topology);
        let (op, axes, dim) = operation(plan, id);
        let operands: Vec<String> = plan.operands(id).into_iter().map(|operand| plan.array(operand)).collect();
        let (result, how) = (plan.array(id), plan.how(id).to_owned());
        let name = plan.op_label(id);
        let labels = (0..plan.operands(id).len()).map(|place| plan.operand_label(id, place));
        let sign = if matches!(step.op, StepOp::Product { .. }) { " * " } else { ", " };
        let is_before = |first| plan.ids().filter(|id| plan.is_done(*id)).take_while(|id| *id != first).count();
        Step {
            id,
            name: if plan.times(id) == 1 { name } else { format!("{name} x {}", plan.times(id)) },
            layouts: format!("{} -> {}", labels.collect_vec().join(sign), plan.array_label(id)),
            limit: step.cost.limit.name(),
            op,
            axes,
            dim,
            operands,
            result,
            case: plan.case(id),
            method: Some(how.clone()).filter(|how| !how.is_empty() && plan.kernel(id).is_none()),
            how,
            kernel: plan.kernel(id).map(is_before),
            times: plan.times(id),
            span: [plan.span(id).start, plan.span(id).end],
            traffic: Traffic::new(&usage),
            links: links(&step.usage.links, topology),
            working_bytes_per_device: usage.peak.0,
            flops_per_device: step.flops,
            time_s: Seconds::new(step.cost.time, topology),
            bound_s: Seconds::new(certificate.bound.time(), topology),
            bound_reason: certificate.words(),
            methods: None,
        }
    }

    /// Times the methods that apply.
    pub(super) fn find_methods(&mut self, plan: &Plan, topology: &Topology, lowering: Lowering) {
        let method = |way: MethodTime, chosen| Method {
            name: way.name,
            chosen,
            time_s: Seconds::new(way.time, topology),
            ratio: way.time.ratio(self.bound_s.time),
        };
        self.methods = step_method_times(plan, self.id, topology, lowering).map(|MethodTimes { chosen, others }| {
            let others = others.into_iter().map(|other| method(other, false));
            std::iter::once(method(chosen, true)).chain(others).collect()
        });
    }

    /// Bytes received by the device that receives the most.
    pub fn bytes_received(&self) -> Bytes {
        Bytes(self.traffic.bytes_received_per_device)
    }

    /// Formats the bytes received; `-` if none.
    pub fn received(&self) -> String {
        bytes_or_dash(self.bytes_received())
    }
}

/// Name, axes and dim of the operation of a step.
fn operation(plan: &Plan, id: StepId) -> (&'static str, Vec<String>, Option<String>) {
    let (step, mesh) = (plan.step(id), &plan.program.mesh);
    let collective = match &step.op {
        StepOp::Input => return ("Input", Vec::new(), None),
        StepOp::Carry => return ("Carry", Vec::new(), None),
        StepOp::Product { .. } => return ("MatMul", Vec::new(), None),
        StepOp::Reduce { .. } => return ("Reduce", Vec::new(), None),
        StepOp::Map { .. } => return ("Map", Vec::new(), None),
        StepOp::Kernel(_) => return ("Kernel", Vec::new(), None),
        StepOp::Collective(collective) => collective,
    };
    let from = &plan.step(plan.operands(id)[0]).layout.sharding;
    let name = |dim: usize| plan.program.dims.name(step.layout.dims[dim].id);
    let dim = match collective {
        Collective::AllGather { axes } => {
            from.dims.iter().position(|on| !on.set().intersection(*axes).is_empty()).map(name)
        }
        Collective::ReduceScatter { dims } => {
            let gaining = dims.iter().enumerate().filter(|(_, axes)| !axes.is_empty());
            Some(gaining.map(|(dim, _)| name(dim)).join(","))
        }
        Collective::Slice { dim, .. } => Some(name(*dim)),
        Collective::Shift(shift) => Some(name(shift.dim())),
        Collective::AllToAll { to, .. } => Some(name(*to)),
        Collective::AllReduce { .. }
        | Collective::Permute { .. }
        | Collective::Reshard { .. }
        | Collective::Broadcast { .. }
        | Collective::Open { .. } => None,
    };
    let axes = collective.axes(from, mesh).iter().map(|axis| mesh.axis(axis).name.clone()).collect();
    (collective.kind().name(), axes, dim)
}

/// Lower bound of one step over all schedules, with its reason.
pub fn step_bound(plan: &Plan, id: StepId, topology: &Topology) -> Certificate {
    let bandwidth = match &plan.step(id).op {
        StepOp::Collective(collective) => {
            let from = &plan.step(plan.operands(id)[0]).layout;
            let recipe = plan.step(id).recipe.as_ref().and_then(|chosen| chosen.as_ref().ok());
            return match recipe.is_some_and(|chosen| chosen.recipe.keeps_gathers()) {
                true => bounds::by_hops_or_bytes(collective, from, topology),
                false => bounds::certificate(collective, from, topology),
            };
        }
        StepOp::Input | StepOp::Carry => Time::ZERO,
        StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Map { .. } | StepOp::Kernel(_) => {
            plan.step(id).cost.time
        }
    };
    Certificate { bound: Bound { bandwidth, ..Bound::default() }, reason: Reason::Nothing, largest: true }
}

/// Times of the methods for the collective of a step; `None` for other steps and if nothing is sent.
pub fn step_method_times(plan: &Plan, id: StepId, topology: &Topology, lowering: Lowering) -> Option<MethodTimes> {
    let step = plan.step(id);
    let StepOp::Collective(collective) = &step.op else { return None };
    let from = &plan.step(plan.operands(id)[0]).layout;
    recipe::method_times(collective, from, topology, lowering, plan.program.value(step.user).using.method)
}
