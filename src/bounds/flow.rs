//! The least cut of a network between a source and a sink.

use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

/// A node of a network.
pub(super) type Node = NodeIndex<u32>;

/// A network with a source and a sink; its first nodes have the numbers of the nodes of a graph.
#[derive(Debug)]
pub(super) struct Network {
    graph: DiGraph<(), u128, u32>,
    source: Node,
    sink: Node,
}

/// A cut of least capacity.
#[derive(Debug)]
pub(super) struct Cut {
    /// The sum of the capacities from the side of the source to that of the sink.
    pub(super) capacity: u128,
    /// The smallest side of a sink.
    pub(super) sink_side: Vec<bool>,
    /// The smallest side of a source.
    pub(super) source_side: Vec<bool>,
}

impl Network {
    /// Above every capacity, and so many of them still fit.
    pub(super) const UNLIMITED: u128 = 1 << 96;

    pub(super) fn new(nodes: usize) -> Network {
        let mut graph = DiGraph::with_capacity(nodes + 2, 0);
        (0..nodes).for_each(|_| {
            graph.add_node(());
        });
        let (source, sink) = (graph.add_node(()), graph.add_node(()));
        Network { graph, source, sink }
    }

    pub(super) fn node(&self, id: usize) -> Node {
        NodeIndex::new(id)
    }

    pub(super) fn source(&self) -> Node {
        self.source
    }

    pub(super) fn sink(&self) -> Node {
        self.sink
    }

    pub(super) fn add_node(&mut self) -> Node {
        self.graph.add_node(())
    }

    pub(super) fn add(&mut self, from: Node, to: Node, capacity: u128) {
        if capacity > 0 {
            self.graph.add_edge(from, to, capacity.min(Self::UNLIMITED));
        }
    }

    pub(super) fn least_cut(&self) -> Cut {
        let (capacity, flows) = dinics(&self.graph, self.source, self.sink);
        Cut {
            capacity,
            sink_side: self.reach(&flows, self.sink, true),
            source_side: self.reach(&flows, self.source, false),
        }
    }

    /// The nodes that are joined to `start` by links that have something left; against their direction if `backwards`.
    fn reach(&self, flows: &[u128], start: Node, backwards: bool) -> Vec<bool> {
        let mut reached = vec![false; self.graph.node_count()];
        let mut stack = vec![start];
        reached[start.index()] = true;
        while let Some(at) = stack.pop() {
            for edge in self
                .graph
                .edges_directed(at, petgraph::Outgoing)
                .chain(self.graph.edges_directed(at, petgraph::Incoming))
            {
                let along = (edge.source() == at) != backwards;
                let left = if along { edge.weight() - flows[edge.id().index()] } else { flows[edge.id().index()] };
                let other = if edge.source() == at { edge.target() } else { edge.source() };
                if left > 0 && !std::mem::replace(&mut reached[other.index()], true) {
                    stack.push(other);
                }
            }
        }
        reached
    }
}
