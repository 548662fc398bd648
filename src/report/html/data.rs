//! The JSON document of a report.

use super::Source;
use super::figures::{self, Figures};
use super::player::{self, Player, Summary};
use crate::compiler::Compiled;
use crate::layout::Layout;
use crate::mesh::{AxisSet, Wiring};
use crate::picture::blocks::{Blocks, Role};
use crate::picture::graph::Graph;
use crate::picture::palette::{self, Kind};
use crate::picture::timeline::{Lane, Scope, Timeline, step_names};
use crate::recipe::Lowering;
use crate::report::document::{self, DiagnosticDocument};
use crate::report::step::{Method, Step};
use crate::report::why::{Pin, Product, Way};
use crate::report::{Findings, run, text};
use crate::sim::clock::{Record, Timing};
use crate::span::LineIndex;
use crate::topology::{Link, LinkSide, Topology};
use crate::units::Time;
use itertools::Itertools;
use serde::Serialize;
use std::collections::BTreeMap;

/// The most lines of a program that are shown.
const MOST_LINES: usize = 5000;
/// The most operations that are listed, or drawn without folding.
const MOST_DRAWN: usize = 400;
/// The most bars of a timeline with all its lanes.
const MOST_BARS: usize = 20_000;
/// The most lanes of such a timeline.
const MOST_LANES: usize = 64;
/// The most links whose loads are listed one by one.
const MOST_LINKS: usize = 1 << 17;

/// The report of a program with errors.
#[derive(Debug, Serialize)]
pub struct Refused {
    schema: &'static str,
    program: ProgramDocument,
}

impl Refused {
    pub(super) fn new(source: Source<'_>) -> Refused {
        Refused { schema: "shardc.page/1", program: ProgramDocument::new(source) }
    }
}

#[derive(Debug, Serialize)]
struct ProgramDocument {
    file: String,
    lines: Vec<String>,
    /// The number of lines that are left out.
    left: usize,
    diagnostics: Vec<DiagnosticDocument>,
}

impl ProgramDocument {
    fn new(source: Source<'_>) -> ProgramDocument {
        let lines = source.text.lines();
        ProgramDocument {
            file: source.name.to_owned(),
            lines: lines.clone().take(MOST_LINES).map(str::to_owned).collect(),
            left: lines.count().saturating_sub(MOST_LINES),
            diagnostics: document::list(source.text, source.diagnostics),
        }
    }
}

/// The report of a program that was compiled.
#[derive(Debug, Serialize)]
pub(super) struct Document {
    schema: &'static str,
    program: ProgramDocument,
    /// Shown at the top.
    figures: Figures,
    /// Lines about the machine and the proof.
    summary: Vec<String>,
    palette: PaletteDocument,
    mesh: MeshDocument,
    arrays: Vec<ArrayDocument>,
    steps: Vec<StepDocument>,
    totals: Vec<String>,
    graph: GraphDocument,
    operations: OperationsDocument,
    timeline: TimelineDocument,
    players: Vec<Player>,
    /// Collectives without a player, because the page would grow too large.
    unplayed: Vec<Summary>,
}

/// Colours for the scripts.
#[derive(Debug, Serialize)]
struct PaletteDocument {
    /// The ramp for the blocks of an array.
    ramp: Vec<String>,
    /// The fill of a graph's nodes, by kind.
    tints: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
struct MeshDocument {
    axes: Vec<AxisDocument>,
    /// The axes that have links.
    wired: Vec<AxisDocument>,
    /// For each such axis and direction, the utilisation of the links in device order, or one number for all.
    loads: Vec<LoadDocument>,
}

#[derive(Debug, Serialize)]
struct AxisDocument {
    name: String,
    size: u32,
    wiring: String,
    rate: String,
}

#[derive(Debug, Serialize)]
struct LoadDocument {
    axis: usize,
    side: String,
    /// In tenths of a percent; `None` where there is no such link.
    busy: Vec<Option<u32>>,
    /// Busy time of the busiest link.
    most: String,
    /// Bytes over the busiest link.
    bytes: String,
    /// The name of the busiest link.
    link: String,
}

#[derive(Debug, Serialize)]
struct ArrayDocument {
    name: String,
    note: String,
    dims: Vec<DimDocument>,
    /// The sharded dims as the rows and the column of a drawing.
    rows: Vec<usize>,
    column: Option<usize>,
    /// For each mesh axis, the dim that it shards and the blocks between neighbours along it, or `*` or `+`.
    roles: Vec<RoleDocument>,
}

#[derive(Debug, Serialize)]
struct DimDocument {
    name: String,
    size: u64,
    padded: u64,
    blocks: usize,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum RoleDocument {
    Cuts { dim: usize, minor: u64 },
    Mark(&'static str),
}

#[derive(Debug, Serialize)]
struct StepDocument {
    /// Its number in the timeline.
    id: usize,
    name: String,
    layouts: String,
    received: String,
    time: String,
    /// The share of the sum over all steps.
    part: f64,
    bound: String,
    limit: &'static str,
    method: String,
    case: Option<String>,
    times: u64,
    line: usize,
    /// The reason for the bound.
    reason: Option<String>,
    /// The alternatives of a product, the chosen one first.
    ways: Vec<WayDocument>,
    /// The methods of a collective, the chosen one first.
    methods: Vec<WayDocument>,
    /// The cost of a pin.
    pinned: Option<String>,
}

#[derive(Debug, Serialize)]
struct WayDocument {
    what: String,
    time: String,
    /// The time relative to the chosen alternative.
    ratio: f64,
}

#[derive(Debug, Serialize)]
struct GraphDocument {
    nodes: Vec<NodeDocument>,
    edges: Vec<(usize, usize)>,
}

#[derive(Debug, Serialize)]
struct NodeDocument {
    lines: Vec<String>,
    /// The kind, a key of the tints.
    kind: &'static str,
}

/// The schedule.
#[derive(Debug, Serialize)]
struct OperationsDocument {
    count: usize,
    /// The first operations: step, text and method.
    lines: Vec<(usize, String, String)>,
    graph: GraphDocument,
    /// Whether the operations of one kind in a step are folded into one node.
    folded: bool,
    steps: Vec<String>,
}

#[derive(Debug, Serialize)]
struct TimelineDocument {
    /// The whole time in nanoseconds.
    total: f64,
    shown: String,
    steps: Vec<String>,
    /// The colour of each step.
    colors: Vec<String>,
    /// The busiest lane of each kind.
    lanes: Vec<LaneDocument>,
    /// All lanes, unless there are too many.
    all: Vec<LaneDocument>,
    note: String,
}

#[derive(Debug, Serialize)]
struct LaneDocument {
    kind: String,
    name: String,
    alike: usize,
    busy: f64,
    /// Step, start and end; adjacent bars of one step are merged.
    bars: Vec<(u32, f64, f64)>,
}

impl Document {
    pub(super) fn new(
        source: Source<'_>,
        compiled: &Compiled,
        (timing, record): (&Timing, &Record),
        lowering: Lowering,
        assumed: bool,
    ) -> Document {
        let Compiled { topology, plan, proof, .. } = compiled;
        let findings = Findings::new(plan, topology).with_methods(lowering);
        let summary = [text::machine(topology, assumed), run::proof(proof, &topology.mesh)];
        let arrays = plan.own_layouts().into_iter().map(|id| array(compiled, &plan.array(id), &plan.step(id).layout));
        let names = step_names(plan);
        let (players, unplayed) = player::all(compiled, timing, &findings, &names);
        Document {
            schema: "shardc.page/1",
            program: ProgramDocument::new(source),
            figures: figures::figures(&findings, timing),
            palette: PaletteDocument {
                ramp: palette::ramp().iter().map(ToString::to_string).collect(),
                tints: Kind::ALL.iter().map(|kind| (kind.name(), kind.tint().to_string())).collect(),
            },
            summary: summary.concat().lines().map(str::to_owned).collect(),
            mesh: mesh(topology, timing),
            arrays: arrays.collect(),
            steps: steps(&findings, source.text),
            totals: findings.totals_text().lines().map(str::to_owned).chain(findings.advice()).collect(),
            graph: Graph::of_plan(plan).into(),
            operations: operations(compiled, &names),
            timeline: timeline(compiled, (timing, record), names.clone()),
            players,
            unplayed: unplayed
                .into_iter()
                .map(|id| player::summary(compiled, timing, id, &names[id.index()]))
                .collect(),
        }
    }
}

fn mesh(topology: &Topology, timing: &Timing) -> MeshDocument {
    let axis = |axis: &crate::mesh::Axis, wiring: Wiring, rate: u64| AxisDocument {
        name: axis.name.clone(),
        size: axis.size,
        wiring: wiring.noun().to_owned(),
        rate: format!("{}/s", crate::units::Bytes(rate)),
    };
    let axes = topology.mesh.axis_ids().map(|id| {
        let links = topology.links(id);
        axis(topology.mesh.axis(id), links.wiring, links.one_way.per_second())
    });
    let wired = topology.machine.axes().iter().zip(&topology.axes);
    let directions = topology.machine.axis_ids().flat_map(|id| topology.sides(id).map(move |side| (id, side)));
    let load = |(id, side): (crate::mesh::AxisId, LinkSide)| {
        let links = topology.machine.devices().map(|device| Link { axis: id, side, device });
        let links = links.map(|link| topology.exists(link).then(|| topology.link_id(link))).collect_vec();
        let busiest =
            links.iter().flatten().copied().max_by_key(|link| (timing.link(*link).busy, std::cmp::Reverse(*link)))?;
        let part = |time: Time| per_mille(time, timing.makespan);
        let mut busy = links.iter().map(|link| link.map(|link| part(timing.link(link).busy))).collect_vec();
        if busy.iter().all_equal() || busy.len() > MOST_LINKS {
            busy.truncate(1);
        }
        Some(LoadDocument {
            axis: id.index(),
            side: side.to_string(),
            busy,
            most: topology.scale.show(timing.link(busiest).busy),
            bytes: timing.link(busiest).bytes.to_string(),
            link: topology.show_link(busiest).to_string(),
        })
    };
    MeshDocument {
        axes: axes.collect(),
        wired: wired.map(|(of, links)| axis(of, links.wiring, links.one_way.per_second())).collect(),
        loads: directions.filter_map(load).collect(),
    }
}

/// The ratio of two times in thousandths, rounded up so that only 0 gives 0.
fn per_mille(part: Time, all: Time) -> u32 {
    let thousand = part.ticks().saturating_mul(1000);
    u32::try_from(thousand.div_ceil(all.ticks().max(1))).unwrap_or(u32::MAX)
}

fn array(compiled: &Compiled, name: &str, layout: &Layout) -> ArrayDocument {
    let (mesh, dims) = (&compiled.plan.program.mesh, &compiled.plan.program.dims);
    let blocks = Blocks::new(layout, mesh, dims);
    let (rows, column) = blocks.rows_and_column();
    let role = |role: Role| match role {
        Role::Cuts { dim, minor } => RoleDocument::Cuts { dim, minor },
        Role::Copies => RoleDocument::Mark("*"),
        Role::Adds => RoleDocument::Mark("+"),
    };
    ArrayDocument {
        name: name.to_owned(),
        note: match blocks.count() {
            1 => format!("{}, {} a device, one block", layout.dtype, layout.local_bytes(mesh)),
            count => format!("{}, {} a device, {count} blocks", layout.dtype, layout.local_bytes(mesh)),
        },
        dims: blocks
            .dims
            .iter()
            .zip(&layout.dims)
            .map(|(split, dim)| DimDocument {
                name: split.name.clone(),
                size: split.size,
                padded: dim.size,
                blocks: split.ranges.len(),
            })
            .collect(),
        rows,
        column,
        roles: blocks.roles().map(role).collect(),
    }
}

fn steps(findings: &Findings<'_>, source: &str) -> Vec<StepDocument> {
    let index = LineIndex::new(source);
    let total = findings.totals.time();
    let step = |step: &Step| {
        let product = step.case.and_then(|_| findings.product(findings.plan.step(step.id).value));
        let part = step.time_s.time * step.times;
        StepDocument {
            id: step.id.index(),
            name: step.name.clone(),
            layouts: step.layouts.clone(),
            received: step.received(),
            time: step.time_s.to_string(),
            part: if total == Time::ZERO { 0.0 } else { part.ratio(total) },
            bound: step.bound_s.to_string(),
            limit: step.limit,
            method: step.how.clone(),
            case: product.map(Product::case),
            times: step.times,
            line: index.line_column(source, findings.plan.span(step.id).start).0,
            reason: step.bound_reason.clone(),
            ways: product.map(ways).unwrap_or_default(),
            methods: step.methods.as_deref().map(methods).unwrap_or_default(),
            pinned: product.and_then(|product| product.pin.as_ref()).map(Pin::words),
        }
    };
    findings.steps.iter().map(step).collect()
}

fn ways(product: &Product) -> Vec<WayDocument> {
    let chosen = product.ways.first().map_or(Time::ZERO, |chosen| chosen.time_s.time);
    let ratio = |way: &Way| if chosen == Time::ZERO { 1.0 } else { way.time_s.time.ratio(chosen) };
    product.ways.iter().map(|way| WayDocument { what: way.moves(), time: way.time(), ratio: ratio(way) }).collect()
}

fn methods(methods: &[Method]) -> Vec<WayDocument> {
    let way = |method: &Method| WayDocument {
        what: method.name.clone(),
        time: method.time_s.to_string(),
        ratio: method.time_s.ratio(methods[0].time_s),
    };
    methods.iter().map(way).collect()
}

impl From<Graph> for GraphDocument {
    fn from(graph: Graph) -> GraphDocument {
        let node = |node: crate::picture::graph::Node| NodeDocument { lines: node.lines, kind: node.kind.name() };
        GraphDocument { nodes: graph.nodes.into_iter().map(node).collect(), edges: graph.edges }
    }
}

fn operations(compiled: &Compiled, names: &[String]) -> OperationsDocument {
    let (schedule, plan) = (&compiled.schedule, Some(&compiled.plan));
    let count = schedule.operations.node_count();
    let line = |id: crate::schedule::OpId| {
        let operation = schedule.operation(id);
        let extents = operation.extents.iter().join(", ");
        let operands = schedule.operands(id).iter().map(|operand| format!(" %{}", operand.index())).join("");
        let text = format!("%{} = {}{operands} : {}[{extents}]", id.index(), schedule.brief(id), operation.dtype);
        (operation.step as usize, text, operation.method.unwrap_or_default().to_owned())
    };
    OperationsDocument {
        count,
        lines: schedule.ids().take(MOST_DRAWN).map(line).collect(),
        graph: match count > MOST_DRAWN {
            true => Graph::of_folded_schedule(schedule, plan).into(),
            false => Graph::of_schedule(schedule, plan).into(),
        },
        folded: count > MOST_DRAWN,
        steps: names.to_vec(),
    }
}

fn timeline(compiled: &Compiled, (timing, record): (&Timing, &Record), names: Vec<String>) -> TimelineDocument {
    let (topology, schedule) = (&compiled.topology, &compiled.schedule);
    let nanoseconds = |time| topology.scale.seconds(time) * 1e9;
    let made = |scope| Timeline::new(schedule, topology, (timing, record), Some(&compiled.plan), scope);
    let lane = |lane: &Lane| {
        let bars = lane.bars.iter().map(|bar| (bar.step, bar.start, bar.finish));
        let joined = bars.coalesce(|left, right| {
            if left.0 == right.0 && left.2 == right.1 { Ok((left.0, left.1, right.2)) } else { Err((left, right)) }
        });
        LaneDocument {
            kind: lane.kind.clone(),
            name: lane.name.clone(),
            alike: lane.alike,
            busy: lane.busy.ratio(timing.makespan),
            bars: joined.map(|(step, start, end)| (step, nanoseconds(start), nanoseconds(end))).collect(),
        }
    };
    let kinds = made(Scope::Kinds);
    let all = made(Scope::All).lanes.iter().map(lane).collect_vec();
    let few = all.len() <= MOST_LANES && all.iter().map(|lane| lane.bars.len()).sum::<usize>() <= MOST_BARS;
    let alike = names_of(topology, record.collapsed);
    TimelineDocument {
        total: nanoseconds(timing.makespan),
        shown: topology.scale.show(timing.makespan),
        steps: names,
        colors: kinds.colors().iter().map(ToString::to_string).collect(),
        lanes: kinds.lanes.iter().map(lane).collect(),
        all: if few { all } else { Vec::new() },
        note: if alike.is_empty() {
            String::new()
        } else {
            format!("Devices along {alike} behave alike; one is shown.")
        },
    }
}

fn names_of(topology: &Topology, axes: AxisSet) -> String {
    axes.iter().map(|axis| topology.mesh.axis(axis).name.as_str()).join(", ")
}
