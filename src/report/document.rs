//! The JSON documents, one line each, with a `schema` field.

use crate::compiler::Compiled;
use crate::costs;
use crate::diag::{Diagnostics, Severity};
use crate::mesh::{AxisId, Mesh};
use crate::picture::blocks::{Along, Blocks, Split};
use crate::plan::{Choice, Plan, StepId, StepOp};
use crate::recipe::Lowering;
use crate::recipe::MethodTime;
use crate::report::why::WhyDocument;
use crate::report::{plan_bound, step_bound, step_method_times, step_reason};
use crate::sim::clock::{Order, Timing};
use crate::sim::proof::Proof;
use crate::sim::usage::Usage;
use crate::sim::values::Numerics;
use crate::span::LineIndex;
use crate::topology::Topology;
use crate::units::Time;
use serde::Serialize;

/// `shardc.check/1`
#[derive(Debug, Serialize)]
pub struct CheckDocument {
    schema: &'static str,
    file: String,
    diagnostics: Vec<DiagnosticDocument>,
}

/// One diagnostic with its places.
#[derive(Debug, Serialize)]
pub struct DiagnosticDocument {
    code: String,
    severity: &'static str,
    message: String,
    help: Option<String>,
    labels: Vec<LabelDocument>,
}

#[derive(Debug, Serialize)]
struct LabelDocument {
    primary: bool,
    start: u32,
    end: u32,
    line: usize,
    column: usize,
    text: String,
}

/// The findings in a file.
pub fn check(file: &str, source: &str, diagnostics: &Diagnostics) -> CheckDocument {
    CheckDocument { schema: "shardc.check/1", file: file.to_owned(), diagnostics: list(source, diagnostics) }
}

pub(super) fn list(source: &str, diagnostics: &Diagnostics) -> Vec<DiagnosticDocument> {
    let index = LineIndex::new(source);
    let label = |label: &crate::diag::Label| {
        let (line, column) = index.line_column(source, label.span.start);
        let (start, end) = (label.span.start, label.span.end);
        LabelDocument { primary: label.primary, start, end, line, column, text: label.text.clone() }
    };
    let diagnostic = |diagnostic: &crate::diag::Diagnostic| DiagnosticDocument {
        code: diagnostic.code.clone(),
        severity: match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        },
        message: diagnostic.message.clone(),
        help: diagnostic.help.clone(),
        labels: diagnostic.labels.iter().map(label).collect(),
    };
    diagnostics.iter().map(diagnostic).collect()
}

/// `shardc.show/1`
#[derive(Debug, Serialize)]
pub struct ShowDocument {
    schema: &'static str,
    file: String,
    mesh: MeshDocument,
    arrays: Vec<ArrayDocument>,
}

/// An array in one layout.
#[derive(Debug, Serialize)]
struct ArrayDocument {
    name: String,
    layout: String,
    dtype: String,
    bytes_per_device: u64,
    /// At most 4096 of them.
    blocks: Vec<BlockDocument>,
}

#[derive(Debug, Serialize)]
struct BlockDocument {
    /// First and one past the last, for each dim.
    ranges: Vec<[u64; 2]>,
    /// For each axis of the mesh a coordinate, `*` for copies along it, `+` for parts of a sum.
    devices: Vec<Along>,
}

/// Layouts as blocks: the arrays that these steps leave.
pub fn show(file: &str, plan: &Plan, topology: &Topology, steps: &[StepId]) -> ShowDocument {
    let (mesh, dims) = (&plan.program.mesh, &plan.program.dims);
    let array = |id: &StepId| {
        let layout = &plan.step(*id).layout;
        let blocks = Blocks::new(layout, mesh, dims);
        let block = |index: Vec<usize>| {
            let range = |(dim, at): (&Split, &usize)| [dim.ranges[*at].start, dim.ranges[*at].end];
            let ranges = blocks.dims.iter().zip(&index).map(range).collect();
            BlockDocument { ranges, devices: blocks.devices(&index) }
        };
        ArrayDocument {
            name: plan.program.name(plan.step(*id).value),
            layout: plan.array(*id),
            dtype: layout.dtype.to_string(),
            bytes_per_device: layout.local_bytes(mesh).0,
            blocks: blocks.all().take(4096).map(block).collect(),
        }
    };
    let arrays = steps.iter().map(array).collect();
    ShowDocument { schema: "shardc.show/1", file: file.to_owned(), mesh: self::mesh(mesh, topology), arrays }
}

/// `shardc.plan/1`, and with more fields `shardc.time/1` and `shardc.run/1`
#[derive(Debug, Serialize)]
pub struct PlanDocument {
    schema: &'static str,
    file: String,
    mesh: MeshDocument,
    costs: &'static str,
    steps: Vec<StepDocument>,
    totals: TotalsDocument,
    optimal: OptimalDocument,
    /// Products whose way is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pinned: Vec<PinDocument>,
    /// Inputs whose layouts were chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    filled: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<TimeDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<ProofDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    numerics: Option<NumericsDocument>,
    /// The products that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    why: Vec<WhyDocument>,
    diagnostics: Vec<DiagnosticDocument>,
}

/// What a statement asks for, beside the cheapest way that there would be.
#[derive(Debug, Serialize)]
struct PinDocument {
    result: String,
    pin: String,
    time_s: f64,
    best_time_s: f64,
    best_moves: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct MeshDocument {
    axes: Vec<AxisDocument>,
    hardware: String,
}

#[derive(Debug, Serialize)]
struct AxisDocument {
    name: String,
    size: u32,
    physical: Vec<PhysicalDocument>,
    /// The axis of the machine of which this is a part; left out for a whole one.
    #[serde(skip_serializing_if = "Option::is_none")]
    part_of: Option<String>,
}

#[derive(Debug, Serialize)]
struct PhysicalDocument {
    size: u32,
    link: String,
    network: String,
}

#[derive(Debug, Serialize)]
struct StepDocument {
    op: &'static str,
    axes: Vec<String>,
    dim: Option<String>,
    operands: Vec<String>,
    result: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    case: Option<u8>,
    method: Option<String>,
    /// The first step of the kernel that it is in, by its place in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<usize>,
    times: u64,
    span: [u32; 2],
    #[serde(flatten)]
    traffic: TrafficDocument,
    /// Beside its operands.
    working_bytes_per_device: u64,
    flops_per_device: u128,
    time_s: f64,
    bound_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    methods: Option<Vec<MethodDocument>>,
}

/// What is sent: of the device that has most, and on average.
#[derive(Debug, Serialize)]
pub(super) struct TrafficDocument {
    bytes_sent_per_device: u64,
    bytes_received_per_device: u64,
    mean_bytes_received_per_device: f64,
    messages_received_per_device: u64,
}

impl TrafficDocument {
    pub(super) fn new(usage: &Usage) -> TrafficDocument {
        TrafficDocument {
            bytes_sent_per_device: usage.sent.most,
            bytes_received_per_device: usage.received.most,
            mean_bytes_received_per_device: usage.received.mean(),
            messages_received_per_device: usage.messages.most,
        }
    }
}

#[derive(Debug, Serialize)]
struct MethodDocument {
    name: String,
    chosen: bool,
    time_s: f64,
    ratio: f64,
}

#[derive(Debug, Serialize)]
struct TotalsDocument {
    time_s: f64,
    communication_s: f64,
    compute_s: f64,
    #[serde(flatten)]
    traffic: TrafficDocument,
    flops_per_device: u128,
    peak_bytes_per_device: u64,
    /// So long some unit is busy in every plan.
    bound_s: f64,
    /// Which: `compute`, or the links of some axes; none if nothing need take any time.
    bound_by: Option<String>,
}

#[derive(Debug, Serialize)]
struct OptimalDocument {
    proven: bool,
    lower_bound_s: f64,
    /// By which costs: `book`, `bytes` or `exact`.
    model: &'static str,
    /// Whether plans with axes in parts were looked at, too.
    axes_in_parts: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct TimeDocument {
    pub(super) makespan_s: f64,
    pub(super) bound_s: f64,
    pub(super) ratio: f64,
    pub(super) busiest_link: Option<String>,
    pub(super) engines: Vec<EngineDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) order: Option<&'static str>,
}

/// In which order links serve, unless it is that of the list.
pub(super) fn order(timing: &Timing) -> Option<&'static str> {
    match timing.order {
        Order::Listed => None,
        Order::Arrival => Some("arrival"),
    }
}

/// An engine on the device where it is busy longest.
#[derive(Debug, Serialize)]
pub(super) struct EngineDocument {
    name: String,
    busy_s: f64,
    utilisation: f64,
}

pub(super) fn engines(timing: &Timing, topology: &Topology) -> Vec<EngineDocument> {
    let engine = |(name, busy): (&String, &Time)| EngineDocument {
        name: name.clone(),
        busy_s: topology.scale.seconds(*busy),
        utilisation: if *busy == Time::ZERO { 0.0 } else { busy.ratio(timing.makespan) },
    };
    topology.hardware.engines.names().iter().zip(&timing.engines).map(engine).collect()
}

#[derive(Debug, Serialize)]
pub(super) struct ProofDocument {
    proven: bool,
    operations: usize,
    /// Devices on which the operations were followed.
    followed: usize,
    /// The axes along which the others are their images.
    collapsed: Vec<String>,
}

impl ProofDocument {
    pub(super) fn new(proof: Option<&Proof>, mesh: &Mesh) -> ProofDocument {
        let collapsed = proof.iter().flat_map(|proof| proof.collapsed.iter());
        ProofDocument {
            proven: proof.is_some(),
            operations: proof.map_or(0, |proof| proof.operations),
            followed: proof.map_or(0, |proof| proof.followed),
            collapsed: collapsed.map(|axis| mesh.axis(axis).name.clone()).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct NumericsDocument {
    equal: bool,
    max_abs_error: f64,
    max_rel_error: f64,
    elements: u64,
    not_compared: u64,
}

/// A plan.
pub fn plan(file: &str, source: &str, plan: &Plan, topology: &Topology, diagnostics: &Diagnostics) -> PlanDocument {
    let (totals, floor) = (plan.totals(), costs::floor(plan, topology));
    let seconds = |time| topology.scale.seconds(time);
    let steps = plan.ids().filter(|id| plan.is_done(*id));
    PlanDocument {
        schema: "shardc.plan/1",
        file: file.to_owned(),
        mesh: mesh(&plan.program.mesh, topology),
        costs: plan.costs,
        steps: steps.map(|id| step(plan, id, topology)).collect(),
        totals: TotalsDocument {
            time_s: seconds(totals.time()),
            communication_s: seconds(totals.communication),
            compute_s: seconds(totals.compute),
            traffic: TrafficDocument::new(&totals.usage),
            flops_per_device: totals.flops,
            peak_bytes_per_device: totals.peak().0,
            bound_s: floor.map_or(0.0, |floor| seconds(floor.time)),
            bound_by: floor.map(|floor| floor.unit.name(topology)),
        },
        pinned: plan.choices.iter().filter_map(|choice| pin(plan, choice, topology)).collect(),
        filled: plan.filled.iter().map(|id| plan.array(*id)).collect(),
        optimal: OptimalDocument {
            proven: plan.exact,
            lower_bound_s: seconds(plan.lower_bound),
            model: plan.costs,
            axes_in_parts: plan.in_parts,
        },
        time: None,
        proof: None,
        numerics: None,
        why: Vec::new(),
        diagnostics: list(source, diagnostics),
    }
}

impl PlanDocument {
    /// Adds to each collective the methods that could do it.
    pub fn with_methods(mut self, plan: &Plan, topology: &Topology, lowering: Lowering) -> PlanDocument {
        for (step, id) in self.steps.iter_mut().zip(plan.ids().filter(|id| plan.is_done(*id))) {
            let Some(times) = step_method_times(plan, id, topology, lowering) else { continue };
            let bound = step_bound(plan, id, topology).time();
            let document = |way: &MethodTime, chosen| MethodDocument {
                name: way.name.clone(),
                chosen,
                time_s: topology.scale.seconds(way.time),
                ratio: way.time.ratio(bound),
            };
            let others = times.others.iter().map(|other| document(other, false));
            step.methods = Some([document(&times.chosen, true)].into_iter().chain(others).collect());
        }
        self
    }

    /// Adds why some products are done as they are.
    pub fn with_why(self, why: Vec<WhyDocument>) -> PlanDocument {
        PlanDocument { why, ..self }
    }

    /// Adds what the clock and the proof say.
    pub fn timed(mut self, compiled: &Compiled, timing: &Timing) -> PlanDocument {
        let bound = plan_bound(&compiled.plan, &compiled.topology);
        let seconds = |time| compiled.topology.scale.seconds(time);
        self.schema = "shardc.time/1";
        self.time = Some(TimeDocument {
            makespan_s: seconds(timing.makespan),
            bound_s: seconds(bound),
            ratio: timing.makespan.ratio(bound),
            busiest_link: timing.busiest.map(|link| compiled.topology.show_link(link).to_string()),
            engines: engines(timing, &compiled.topology),
            order: order(timing),
        });
        self.proof = Some(ProofDocument::new(Some(&compiled.proof), &compiled.topology.mesh));
        self
    }

    /// Adds the comparison with the dense result.
    pub fn ran(mut self, numerics: &Numerics) -> PlanDocument {
        self.schema = "shardc.run/1";
        self.numerics = Some(numerics.into());
        self
    }
}

impl From<&Numerics> for NumericsDocument {
    fn from(numerics: &Numerics) -> NumericsDocument {
        NumericsDocument {
            equal: numerics.equal,
            max_abs_error: numerics.max_abs_error,
            max_rel_error: numerics.max_rel_error,
            elements: numerics.elements,
            not_compared: numerics.not_compared,
        }
    }
}

pub(super) fn mesh(mesh: &Mesh, topology: &Topology) -> MeshDocument {
    let axis = |(axis, id): (&crate::mesh::Axis, AxisId)| {
        let link = topology.links(id).wiring.to_string();
        let physical = vec![PhysicalDocument { size: axis.size, link, network: topology.network(id).name.clone() }];
        let part_of = mesh.views().find(|(_, parts)| parts.contains(id)).map(|(whole, _)| whole.name.clone());
        AxisDocument { name: axis.name.clone(), size: axis.size, physical, part_of }
    };
    let axes = mesh.axes().iter().zip(mesh.axis_ids()).map(axis).collect();
    MeshDocument { axes, hardware: topology.hardware.name.clone() }
}

fn pin(plan: &Plan, choice: &Choice, topology: &Topology) -> Option<PinDocument> {
    let (pinned, chosen) = (choice.pinned.as_ref()?, choice.alternatives.first()?);
    Some(PinDocument {
        result: plan.program.name(choice.value),
        pin: pinned.text.clone(),
        time_s: topology.scale.seconds(chosen.time),
        best_time_s: topology.scale.seconds(pinned.best.time),
        best_moves: pinned.best.moves.clone(),
    })
}

fn step(plan: &Plan, id: StepId, topology: &Topology) -> StepDocument {
    use crate::collective::Collective;
    let step = plan.step(id);
    let mesh = &plan.program.mesh;
    let names = |axes: crate::mesh::AxisSet| axes.iter().map(|axis| mesh.axis(axis).name.clone()).collect();
    let (op, axes, dim) = match &step.op {
        StepOp::Input => ("Input", Vec::new(), None),
        StepOp::Carry => ("Carry", Vec::new(), None),
        StepOp::Product { .. } => ("MatMul", Vec::new(), None),
        StepOp::Reduce { .. } => ("Reduce", Vec::new(), None),
        StepOp::Map { .. } => ("Map", Vec::new(), None),
        StepOp::Collective(collective) => {
            let from = &plan.step(plan.operands(id)[0]).layout.sharding;
            let name = |dim: usize| plan.program.dims.name(step.layout.dims[dim].id);
            let dim = match collective {
                Collective::AllGather { axes } => {
                    from.dims.iter().position(|on| !on.set().intersection(*axes).is_empty()).map(name)
                }
                Collective::ReduceScatter { dims } => {
                    let gaining = dims.iter().enumerate().filter(|(_, axes)| !axes.is_empty());
                    Some(gaining.map(|(dim, _)| name(dim)).collect::<Vec<_>>().join(","))
                }
                Collective::Slice { dim, .. } => Some(name(*dim)),
                Collective::AllToAll { to, .. } => Some(name(*to)),
                Collective::AllReduce { .. }
                | Collective::Permute { .. }
                | Collective::Broadcast { .. }
                | Collective::Open { .. } => None,
            };
            (collective.kind().name(), names(collective.axes(from, mesh)), dim)
        }
    };
    let seconds = |time| topology.scale.seconds(time);
    StepDocument {
        op,
        axes,
        dim,
        operands: plan.operands(id).into_iter().map(|operand| plan.array(operand)).collect(),
        result: plan.array(id),
        case: plan.case(id),
        method: Some(plan.how(id)).filter(|how| !how.is_empty() && plan.kernel(id).is_none()).map(str::to_owned),
        kernel: plan
            .kernel(id)
            .map(|first| plan.ids().filter(|id| plan.is_done(*id)).take_while(|id| *id != first).count()),
        times: plan.times(id),
        span: [plan.span(id).start, plan.span(id).end],
        traffic: TrafficDocument::new(&step.usage.whole(&plan.program.mesh)),
        working_bytes_per_device: step.usage.whole(&plan.program.mesh).peak.0,
        flops_per_device: step.flops,
        time_s: seconds(step.cost.time),
        bound_s: seconds(step_bound(plan, id, topology).time()),
        bound_reason: step_reason(plan, id, topology),
        methods: None,
    }
}
