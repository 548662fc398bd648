//! What is done after what, as a graph: the steps of a plan, or the operations of a schedule. Written for Graphviz and
//! for Mermaid.

use super::timeline::{step_label, step_names};
use crate::escape;
use crate::plan::{Plan, StepOp};
use crate::schedule::{Reach, Schedule};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Boxes and arrows.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// By their numbers.
    pub nodes: Vec<Node>,
    /// From whom to whom.
    pub edges: Vec<(usize, usize)>,
    /// What the groups are called, by their number.
    pub groups: BTreeMap<u32, String>,
}

/// One box.
#[derive(Clone, Debug)]
pub struct Node {
    /// What stands in it, line by line.
    pub lines: Vec<String>,
    /// What it is.
    pub kind: Kind,
    /// The group that it is in: of an operation its step.
    pub group: Option<u32>,
}

/// What a node is, so that it can look like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is given.
    Input,
    /// Something is sent.
    Message,
    /// A device computes.
    Compute,
    /// Blocks are cut or put together, and nothing is sent.
    Local,
}

impl Kind {
    /// For documents, and as a class of a style.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Message => "message",
            Kind::Compute => "compute",
            Kind::Local => "local",
        }
    }

    /// A light colour behind black text.
    fn fill(self) -> &'static str {
        match self {
            Kind::Input => "#f2f2f2",
            Kind::Message => "#ffd28a",
            Kind::Compute => "#a9d5f5",
            Kind::Local => "#ffffff",
        }
    }
}

impl Graph {
    /// The steps of a plan.
    pub fn of_plan(plan: &Plan) -> Graph {
        let names = step_names(plan);
        let node = |id| {
            let step = plan.step(id);
            let kind = match step.op {
                StepOp::Input | StepOp::Carry => Kind::Input,
                StepOp::Collective(_) if plan.communicates(id) => Kind::Message,
                StepOp::Collective(_) => Kind::Local,
                StepOp::Product { .. } | StepOp::Reduce { .. } | StepOp::Map { .. } => Kind::Compute,
            };
            let times = if plan.times(id) > 1 { format!(" x {}", plan.times(id)) } else { String::new() };
            let lines = match kind {
                Kind::Input => vec![format!("{}{times}", plan.array(id))],
                Kind::Message | Kind::Compute | Kind::Local => {
                    vec![format!("{}{times}", names[id.index()]), plan.array(id)]
                }
            };
            Node { lines, kind, group: None }
        };
        let edges = plan.ids().flat_map(|id| plan.operands(id).into_iter().map(move |from| (from.index(), id.index())));
        Graph { nodes: plan.ids().map(node).collect(), edges: edges.collect(), groups: BTreeMap::new() }
    }

    /// The operations of a schedule, each in the group of its step.
    ///
    /// - `steps`: what the steps are called, by their number.
    ///
    /// # Panics
    /// If the schedule is malformed: [`verify`](crate::schedule::verify) refuses it.
    pub fn of_schedule(schedule: &Schedule, steps: &[String]) -> Graph {
        let node = |id| {
            let operation = schedule.operation(id);
            let properties = operation.kind.properties();
            let kind = match properties.reach {
                Reach::Given(_) => Kind::Input,
                Reach::Sent(..) | Reach::Gathered(_) => Kind::Message,
                Reach::Own if properties.moves => Kind::Local,
                Reach::Own => Kind::Compute,
            };
            let extents: Vec<String> = operation.extents.iter().map(u64::to_string).collect();
            let block = format!("{}[{}]", operation.dtype, extents.join(", "));
            let lines = vec![format!("%{} {}", id.index(), schedule.brief(id)), block];
            Node { lines, kind, group: Some(operation.step) }
        };
        let edges = schedule.ids().flat_map(|id| {
            let operands = schedule.operands(id);
            operands.into_iter().map(move |from| (from.index(), id.index()))
        });
        let groups = schedule.ids().map(|id| schedule.operation(id).step);
        let named = groups.map(|step| (step, step_label(steps, step)));
        Graph { nodes: schedule.ids().map(node).collect(), edges: edges.collect(), groups: named.collect() }
    }

    /// In the language of Graphviz: <https://graphviz.org/doc/info/lang.html>.
    pub fn dot(&self) -> String {
        let mut text = String::from("digraph shardc {\n");
        text.push_str("  graph [fontname=\"sans-serif\"];\n");
        text.push_str("  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\", fontsize=11];\n");
        let line = |text: &mut String, depth: &str, place: usize, node: &Node| {
            let label: Vec<String> = node.lines.iter().map(|line| escape::dot(line)).collect();
            let (label, fill) = (label.join("\\n"), node.kind.fill());
            writeln!(text, "{depth}n{place} [label=\"{label}\", fillcolor=\"{fill}\"];").expect("a string");
        };
        let nodes = || self.nodes.iter().enumerate();
        for (group, name) in &self.groups {
            writeln!(text, "  subgraph cluster_{group} {{\n    label=\"{}\";", escape::dot(name)).expect("a string");
            nodes()
                .filter(|(_, node)| node.group == Some(*group))
                .for_each(|(at, node)| line(&mut text, "    ", at, node));
            text.push_str("  }\n");
        }
        nodes().filter(|(_, node)| node.group.is_none()).for_each(|(at, node)| line(&mut text, "  ", at, node));
        for (from, to) in &self.edges {
            writeln!(text, "  n{from} -> n{to};").expect("a string");
        }
        text + "}\n"
    }

    /// As a flowchart of Mermaid: <https://mermaid.js.org/syntax/flowchart.html>.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        let line = |text: &mut String, depth: &str, place: usize, node: &Node| {
            let label: Vec<String> = node.lines.iter().map(|line| escape::mermaid(line)).collect();
            let (label, class) = (label.join("<br/>"), node.kind.name());
            writeln!(text, "{depth}n{place}[\"{label}\"]:::{class}").expect("a string");
        };
        let nodes = || self.nodes.iter().enumerate();
        for (group, name) in &self.groups {
            writeln!(text, "  subgraph s{group}[\"{}\"]", escape::mermaid(name)).expect("a string");
            nodes()
                .filter(|(_, node)| node.group == Some(*group))
                .for_each(|(at, node)| line(&mut text, "    ", at, node));
            text.push_str("  end\n");
        }
        nodes().filter(|(_, node)| node.group.is_none()).for_each(|(at, node)| line(&mut text, "  ", at, node));
        for (from, to) in &self.edges {
            writeln!(text, "  n{from} --> n{to}").expect("a string");
        }
        for kind in [Kind::Input, Kind::Message, Kind::Compute, Kind::Local] {
            writeln!(text, "  classDef {} fill:{},stroke:#555,color:#000", kind.name(), kind.fill()).expect("a string");
        }
        text
    }
}
