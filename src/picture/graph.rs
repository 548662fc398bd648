//! Dependency graphs of the steps of a plan and of the operations of a schedule, written for Graphviz and
//! Mermaid.

use super::palette::{self, Kind};
use super::timeline::{step_label, step_names};
use crate::escape;
use crate::plan::Plan;
use crate::schedule::Schedule;
use itertools::Itertools;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The defaults of Mermaid's `maxTextSize` and `maxEdges`, which a diagram cannot raise by itself.
const MERMAID_TEXT: usize = 50_000;
const MERMAID_EDGES: usize = 500;

/// A graph whose nodes may be grouped.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The nodes; edges refer to their indices.
    pub nodes: Vec<Node>,
    /// Pairs of an operand and its user.
    pub edges: Vec<(usize, usize)>,
    /// Names of the groups by their number.
    pub groups: BTreeMap<u32, String>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// The lines of its label.
    pub lines: Vec<String>,
    /// The kind of its step, which determines its colour.
    pub kind: Kind,
    /// Its group; for an operation, the step.
    pub group: Option<u32>,
}

impl Graph {
    /// The steps of a plan.
    pub fn of_plan(plan: &Plan) -> Graph {
        let names = step_names(plan);
        let node = |id| {
            let kind = Kind::of_step(plan, id);
            let times = if plan.times(id) > 1 { format!(" x {}", plan.times(id)) } else { String::new() };
            let lines = match kind {
                Kind::Input => vec![format!("{}{times}", plan.array_label(id))],
                _ => vec![format!("{}{times}", names[id.index()]), plan.array_label(id)],
            };
            Node { lines, kind, group: None }
        };
        let edges = plan.ids().flat_map(|id| plan.operands(id).into_iter().map(move |from| (from.index(), id.index())));
        Graph { nodes: plan.ids().map(node).collect(), edges: edges.collect(), groups: BTreeMap::new() }
    }

    /// The operations of a schedule, each in the group of its step.
    ///
    /// - `plan`: the plan that was lowered to the schedule, if there is one.
    ///
    /// # Panics
    /// If the schedule is malformed: [`verify`](crate::schedule::verify) refuses it.
    pub fn of_schedule(schedule: &Schedule, plan: Option<&Plan>) -> Graph {
        let (steps, kinds) = (plan.map(step_names).unwrap_or_default(), palette::kinds(schedule, plan));
        let node = |id| {
            let operation = schedule.operation(id);
            // A message is of the kind of its collective.
            let kind = match Kind::of_operation(&operation.kind) {
                Kind::Move => kinds[operation.step as usize],
                kind => kind,
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
        let named = groups.map(|step| (step, step_label(&steps, step)));
        Graph { nodes: schedule.ids().map(node).collect(), edges: edges.collect(), groups: named.collect() }
    }

    /// The operations of a schedule, with those of one kind in a step folded into one node that counts them.
    ///
    /// - `plan`: the plan that was lowered to the schedule, if there is one.
    ///
    /// # Panics
    /// If the schedule is malformed: [`verify`](crate::schedule::verify) refuses it.
    pub fn of_folded_schedule(schedule: &Schedule, plan: Option<&Plan>) -> Graph {
        let whole = Graph::of_schedule(schedule, plan);
        let noun = |id| schedule.operation(id).kind.properties().noun;
        let key = |id| (schedule.operation(id).step, noun(id));
        let keys = schedule.ids().map(key).unique().collect_vec();
        let place: BTreeMap<_, _> = keys.iter().enumerate().map(|(place, key)| (*key, place)).collect();
        let places = schedule.ids().map(|id| place[&key(id)]).collect_vec();
        let counts = places.iter().copied().counts();
        let node = |(place, (step, noun)): (usize, &(u32, &str))| {
            let first = places.iter().position(|other| *other == place).map(|first| &whole.nodes[first]);
            let (count, noun) = (counts[&place], noun.trim_start_matches("a ").trim_start_matches("an "));
            match first {
                Some(node) if count == 1 => node.clone(),
                first => Node {
                    lines: vec![format!("{count} x {noun}")],
                    kind: first.map_or(Kind::Local, |node| node.kind),
                    group: Some(*step),
                },
            }
        };
        let edges = whole.edges.iter().map(|(from, to)| (places[*from], places[*to])).filter(|(from, to)| from != to);
        Graph {
            nodes: keys.iter().enumerate().map(node).collect(),
            edges: edges.unique().collect(),
            groups: whole.groups.clone(),
        }
    }

    /// The distinct kinds of its nodes.
    pub fn kinds(&self) -> Vec<Kind> {
        self.nodes.iter().map(|node| node.kind).sorted().dedup().collect()
    }

    /// Writes the graph in Graphviz's DOT language: <https://graphviz.org/doc/info/lang.html>.
    pub fn dot(&self) -> String {
        let mut text = String::from("digraph shardc {\n");
        text.push_str("  graph [fontname=\"sans-serif\"];\n");
        text.push_str("  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\", fontsize=11];\n");
        let node = |node: &Node| {
            let (label, fill) = (node.lines.iter().map(|line| escape::dot(line)).join("\\n"), node.kind.tint());
            format!(" [label=\"{label}\", fillcolor=\"{fill}\"];")
        };
        let group = |group, name: &str| {
            [format!("subgraph cluster_{group} {{\n    label=\"{}\";", escape::dot(name)), "}".to_owned()]
        };
        text.push_str(&self.grouped(node, group));
        for (from, to) in &self.edges {
            writeln!(text, "  n{from} -> n{to};").expect("a string");
        }
        text + "}\n"
    }

    /// The nodes, one per line, those of groups first.
    ///
    /// - `node`: what follows the name of a node.
    /// - `group`: what is before and behind the nodes of a group.
    fn grouped(&self, node: impl Fn(&Node) -> String, group: impl Fn(u32, &str) -> [String; 2]) -> String {
        let members = |text: &mut String, of: Option<u32>, depth: &str| {
            for (place, own) in self.nodes.iter().enumerate().filter(|(_, node)| node.group == of) {
                writeln!(text, "{depth}n{place}{}", node(own)).expect("a string");
            }
        };
        let mut text = String::new();
        for (number, name) in &self.groups {
            let [before, behind] = group(*number, name);
            writeln!(text, "  {before}").expect("a string");
            members(&mut text, Some(*number), "    ");
            writeln!(text, "  {behind}").expect("a string");
        }
        members(&mut text, None, "  ");
        text
    }

    /// The default limits of Mermaid that the graph exceeds, in words; `None` if it exceeds none.
    ///
    /// - `text`: the graph as a Mermaid flowchart.
    pub fn beyond_mermaid(&self, text: &str) -> Option<String> {
        let (characters, edges) = (text.chars().count(), self.edges.len());
        let characters =
            (characters > MERMAID_TEXT).then(|| format!("{characters} characters, at most {MERMAID_TEXT}"));
        let edges = (edges > MERMAID_EDGES).then(|| format!("{edges} edges, at most {MERMAID_EDGES}"));
        let beyond = [characters, edges].into_iter().flatten().join("; ");
        Some(beyond).filter(|beyond| !beyond.is_empty())
    }

    /// Writes the graph as a Mermaid flowchart: <https://mermaid.js.org/syntax/flowchart.html>.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        let node = |node: &Node| {
            let label = node.lines.iter().map(|line| escape::mermaid(line)).join("<br/>");
            format!("[\"{label}\"]:::{}", node.kind.name())
        };
        let group = |group, name: &str| [format!("subgraph s{group}[\"{}\"]", escape::mermaid(name)), "end".to_owned()];
        text.push_str(&self.grouped(node, group));
        for (from, to) in &self.edges {
            writeln!(text, "  n{from} --> n{to}").expect("a string");
        }
        for kind in self.kinds() {
            writeln!(text, "  classDef {} fill:{},stroke:#555,color:#000", kind.name(), kind.tint()).expect("a string");
        }
        text
    }
}
