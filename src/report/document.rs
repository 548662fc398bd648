//! JSON documents, one line each, with a `schema` field.

use super::findings::Findings;
use super::run::{Makespan, NumericsDocument, ProofDocument, Traffic};
use super::seconds::Seconds;
use super::step::Step;
use super::why::{Pin, Product};
use crate::diag::{Diagnostics, Severity};
use crate::mesh::{Axis, AxisId, DeviceId, Mesh};
use crate::picture::blocks::{Along, Blocks, Split};
use crate::plan::{Division, LowerBound, Plan, Rewriting, StepId, StepOp};
use crate::sim::clock::Timing;
use crate::sim::proof::Proof;
use crate::sim::values::Numerics;
use crate::span::LineIndex;
use crate::topology::Topology;
use crate::units::Time;
use itertools::Itertools;
use serde::Serialize;

/// JSON document `shardc.check/1`.
#[derive(Debug, Serialize)]
pub struct CheckDocument {
    schema: &'static str,
    file: String,
    diagnostics: Vec<DiagnosticDocument>,
}

/// One diagnostic with its locations.
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

/// Diagnostics of a file.
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

/// JSON document `shardc.show/1`.
#[derive(Debug, Serialize)]
pub struct ShowDocument {
    schema: &'static str,
    file: String,
    mesh: MeshDocument,
    arrays: Vec<ArrayDocument>,
    /// The groups of each collective, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<GroupsDocument>>,
}

/// The groups of devices of a collective.
#[derive(Debug, Serialize)]
pub struct GroupsDocument {
    /// `AllReduce_X`.
    pub collective: String,
    /// Its operand.
    pub operand: String,
    /// The devices of each group by number, in the order of their ranks.
    pub groups: Vec<Vec<usize>>,
}

impl ShowDocument {
    /// The document with the groups of collectives.
    #[must_use]
    pub fn with_groups(self, groups: Option<Vec<GroupsDocument>>) -> ShowDocument {
        ShowDocument { groups, ..self }
    }
}

/// The groups of the collectives of a plan, each collective on an operand once.
pub fn groups(plan: &Plan) -> Vec<GroupsDocument> {
    let mesh = &plan.program.mesh;
    let of = |id: StepId| {
        let StepOp::Collective(collective) = &plan.step(id).op else { return None };
        let operand = *plan.operands(id).first()?;
        let axes: Vec<_> = collective.axes(&plan.step(operand).layout.sharding, mesh).iter().collect();
        let is_first = |device: &DeviceId| mesh.rank(*device, axes.iter().copied()) == 0;
        let devices = |first| mesh.group(first, &axes).map(|device| device.index()).collect();
        Some(GroupsDocument {
            collective: plan.op_name(id),
            operand: plan.array(operand),
            groups: mesh.devices().filter(is_first).map(devices).collect(),
        })
    };
    let all = plan.ids().filter(|id| plan.communicates(*id)).filter_map(of);
    all.unique_by(|one| (one.collective.clone(), one.operand.clone())).collect()
}

/// An array in one layout.
#[derive(Debug, Serialize)]
struct ArrayDocument {
    name: String,
    layout: String,
    dtype: String,
    bytes_per_device: u64,
    /// All copies and partial sums together.
    bytes_on_all_devices: u64,
    /// Its shards, at most 4096.
    blocks: Vec<BlockDocument>,
}

#[derive(Debug, Serialize)]
struct BlockDocument {
    /// Half-open range of each dim.
    ranges: Vec<[u64; 2]>,
    /// For each mesh axis a coordinate, `*` for replicas along it, or `+` for partial sums.
    devices: Vec<Along>,
}

/// The results of these steps as shards.
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
            bytes_on_all_devices: layout.local_bytes(mesh).0.saturating_mul(blocks.count() * blocks.holders()),
            blocks: blocks.all().take(4096).map(block).collect(),
        }
    };
    let arrays = steps.iter().map(array).collect();
    ShowDocument {
        schema: "shardc.show/1",
        file: file.to_owned(),
        mesh: self::mesh(mesh, topology),
        arrays,
        groups: None,
    }
}

/// JSON document `shardc.plan/1`, and with more fields `shardc.time/1` and `shardc.run/1`.
#[derive(Debug, Serialize)]
pub struct PlanDocument<'a> {
    schema: &'static str,
    file: &'a str,
    mesh: MeshDocument,
    costs: &'static str,
    steps: &'a [Step],
    totals: TotalsDocument,
    /// Overlap of the steps, if they are split or reordered.
    #[serde(skip_serializing_if = "Option::is_none")]
    overlap: Option<OverlapDocument>,
    optimal: OptimalDocument,
    /// Pinned products.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pinned: Vec<&'a Pin>,
    /// Inputs whose layouts were chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    filled: Vec<String>,
    /// Rewrites of the program, in the order of application.
    rewritten: Vec<RewritingDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Makespan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<ProofDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    numerics: Option<NumericsDocument>,
    /// Products selected by `--why`.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    why: &'a [Product],
    diagnostics: Vec<DiagnosticDocument>,
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
    /// The machine axis that this is a part of, if any.
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
struct TotalsDocument {
    time_s: Seconds,
    communication_s: Seconds,
    compute_s: Seconds,
    #[serde(flatten)]
    traffic: Traffic,
    flops_per_device: u128,
    peak_bytes_per_device: u64,
    /// Time for which some unit is busy in every plan.
    bound_s: Seconds,
    /// That unit: `compute`, or the links of some axes; `None` if the bound is zero.
    bound_by: Option<String>,
}

#[derive(Debug, Serialize)]
struct OverlapDocument {
    /// Simulated time of the whole schedule.
    time_s: Seconds,
    pipelines: Vec<PipelineDocument>,
    /// Collectives that are done as one: their indices in `steps`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bundles: Vec<Vec<usize>>,
}

/// Steps that are split into pieces.
#[derive(Debug, Serialize)]
struct PipelineDocument {
    /// The dim that is split.
    dim: String,
    pieces: u64,
    /// Relative lengths of the pieces, if they differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lengths: Vec<u64>,
    /// Their indices in `steps`.
    steps: Vec<usize>,
}

/// A rewrite of the program; figures before and after.
#[derive(Debug, Serialize)]
struct RewritingDocument<'a> {
    how: &'a str,
    /// Time of all steps in sequence.
    time_s: [Seconds; 2],
    /// Bytes received by the device that receives the most.
    received_bytes: [u64; 2],
}

#[derive(Debug, Serialize)]
struct OptimalDocument {
    proven: bool,
    /// Reason why the search ended.
    stop: &'static str,
    #[serde(flatten)]
    lower_bound: LowerBoundDocument,
    /// Cost model: `book`, `bytes` or `exact`.
    model: &'static str,
    /// Whether plans with split axes were searched.
    axes_in_parts: bool,
    /// Lower bound over plans with whole or split axes, if the search of the latter was not completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    with_split_axes: Option<LowerBoundDocument>,
}

#[derive(Debug, Serialize)]
struct LowerBoundDocument {
    lower_bound_s: Seconds,
    lower_bound_received_bytes: u64,
}

impl LowerBoundDocument {
    fn new(bound: LowerBound, findings: &Findings<'_>) -> LowerBoundDocument {
        let lower_bound_s = findings.seconds(bound.time);
        LowerBoundDocument { lower_bound_s, lower_bound_received_bytes: bound.received.0 }
    }
}

impl From<(String, Division, Vec<usize>)> for PipelineDocument {
    fn from((dim, division, steps): (String, Division, Vec<usize>)) -> PipelineDocument {
        let lengths = if division.halvings() == (0, 0) { Vec::new() } else { division.lengths() };
        PipelineDocument { dim, pieces: division.count(), lengths, steps }
    }
}

/// Builds the JSON document of a plan.
pub fn plan<'a>(
    file: &'a str,
    source: &str,
    findings: &'a Findings<'_>,
    diagnostics: &Diagnostics,
) -> PlanDocument<'a> {
    let Findings { plan, topology, totals, .. } = findings;
    let floor = findings.floor();
    PlanDocument {
        schema: "shardc.plan/1",
        file,
        mesh: mesh(&plan.program.mesh, topology),
        costs: plan.costs,
        steps: &findings.steps,
        totals: TotalsDocument {
            time_s: findings.seconds(totals.time()),
            communication_s: findings.seconds(totals.communication),
            compute_s: findings.seconds(totals.compute),
            traffic: Traffic::new(&totals.usage),
            flops_per_device: totals.flops,
            peak_bytes_per_device: totals.peak().0,
            bound_s: findings.seconds(floor.map_or(Time::ZERO, |floor| floor.time)),
            bound_by: floor.map(|floor| floor.unit.name(topology)),
        },
        overlap: plan.overlap.whole.map(|whole| OverlapDocument {
            time_s: findings.seconds(whole.time),
            pipelines: findings.pipelines().into_iter().map(PipelineDocument::from).collect(),
            bundles: findings.bundles(),
        }),
        pinned: findings.products.iter().filter_map(|product| product.pin.as_ref()).collect(),
        filled: plan.filled.iter().map(|filled| plan.array(filled.input)).collect(),
        rewritten: plan.rewritten.iter().map(|rewriting| rewritten(rewriting, findings)).collect(),
        optimal: OptimalDocument {
            proven: plan.is_optimal(),
            stop: plan.stop.name(),
            lower_bound: LowerBoundDocument::new(plan.lower_bound, findings),
            model: plan.costs,
            axes_in_parts: plan.in_parts,
            with_split_axes: plan.with_split_axes.map(|bound| LowerBoundDocument::new(bound, findings)),
        },
        time: None,
        proof: None,
        numerics: None,
        why: &[],
        diagnostics: list(source, diagnostics),
    }
}

fn rewritten<'a>(rewriting: &'a Rewriting, findings: &Findings<'_>) -> RewritingDocument<'a> {
    let Rewriting { summary, time, received } = rewriting;
    RewritingDocument {
        how: summary,
        time_s: time.map(|time| findings.seconds(time)),
        received_bytes: received.map(|bytes| bytes.0),
    }
}

impl<'a> PlanDocument<'a> {
    /// Adds the explanations requested with `--why`.
    pub fn with_why(self, why: &'a [Product]) -> PlanDocument<'a> {
        PlanDocument { why, ..self }
    }

    /// Adds the simulated times and the proof.
    pub fn timed(self, findings: &Findings<'_>, timing: &Timing, proof: &Proof) -> PlanDocument<'a> {
        PlanDocument {
            schema: "shardc.time/1",
            time: Some(Makespan::new(timing, findings.bound.time, findings.topology)),
            proof: Some(ProofDocument::new(Some(proof), &findings.topology.mesh)),
            ..self
        }
    }

    /// Adds the comparison with the dense result.
    pub fn ran(self, numerics: &Numerics) -> PlanDocument<'a> {
        PlanDocument { schema: "shardc.run/1", numerics: Some(numerics.into()), ..self }
    }
}

pub(super) fn mesh(mesh: &Mesh, topology: &Topology) -> MeshDocument {
    let axis = |(axis, id): (&Axis, AxisId)| {
        let link = topology.links(id).wiring.to_string();
        let physical = vec![PhysicalDocument { size: axis.size, link, network: topology.network(id).name.clone() }];
        let part_of = mesh.views().find(|(_, parts)| parts.contains(id)).map(|(whole, _)| whole.name.clone());
        AxisDocument { name: axis.name.clone(), size: axis.size, physical, part_of }
    };
    let axes = mesh.axes().iter().zip(mesh.axis_ids()).map(axis).collect();
    MeshDocument { axes, hardware: topology.hardware.name.clone() }
}
