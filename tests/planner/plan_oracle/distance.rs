//! Shortest paths between all layouts of an array: all moves are relaxed until nothing improves.

use super::layout::Layout;
use super::moves::{Family, Move, moves};
use super::price::{Model, Price};
use std::cell::OnceCell;
use std::collections::HashMap;

/// The layouts of a bf16 array, and the cost of moving it from one to another.
pub struct Graph {
    pub layouts: Vec<Layout>,
    index: HashMap<Layout, usize>,
    /// The cheapest single move.
    edges: Vec<Vec<Option<Price>>>,
    /// The moves out of each layout, with the indices of their targets.
    moves: Vec<Vec<(usize, Price)>>,
    /// The cheapest chains of moves out of each layout, computed on demand.
    distances: Vec<OnceCell<Vec<Option<Price>>>>,
}

impl Graph {
    pub fn new(sizes: &[u64], mesh: &[u64], model: Model, family: Family) -> Graph {
        let of_move =
            |step: &Move, from: &Layout, _: &Layout| model.of_move(step, 2 * from.elements(sizes, mesh), mesh);
        Graph::priced(sizes, mesh, of_move, family)
    }

    /// The same with any price of a move between two layouts.
    pub fn priced(
        sizes: &[u64],
        mesh: &[u64],
        of_move: impl Fn(&Move, &Layout, &Layout) -> Price,
        family: Family,
    ) -> Graph {
        let mut layouts = Layout::all(sizes.len(), mesh.len());
        layouts.retain(|layout| layout.divides(sizes, mesh));
        let cheapest =
            |from: &Layout, to: &Layout| moves(from, to, mesh, family).iter().map(|step| of_move(step, from, to)).min();
        let edges: Vec<Vec<Option<Price>>> =
            layouts.iter().map(|from| layouts.iter().map(|to| cheapest(from, to)).collect()).collect();
        let index = layouts.iter().cloned().enumerate().map(|(at, layout)| (layout, at)).collect();
        let numbered =
            |row: &Vec<Option<Price>>| row.iter().enumerate().filter_map(|(to, edge)| Some((to, (*edge)?))).collect();
        let moves = edges.iter().map(numbered).collect();
        let distances = vec![OnceCell::new(); layouts.len()];
        Graph { layouts, index, edges, moves, distances }
    }

    /// Index of a layout; `None` if it does not divide the array.
    pub fn place(&self, layout: &Layout) -> Option<usize> {
        self.index.get(layout).copied()
    }

    /// Costs from one layout to all; `None` if unreachable.
    pub fn distances(&self, from: &Layout) -> &[Option<Price>] {
        let source = self.index[from];
        self.distances[source].get_or_init(|| distances_from(source, &self.moves))
    }

    /// Cost from one layout to another.
    pub fn distance(&self, from: &Layout, to: &Layout) -> Option<Price> {
        self.distances(from)[self.index[to]]
    }

    /// Cost of a single move, if there is one.
    pub fn edge(&self, from: &Layout, to: &Layout) -> Option<Price> {
        self.edges[self.index[from]][self.index[to]]
    }
}

/// Bellman-Ford, which needs neither an order of the nodes nor a queue.
fn distances_from(source: usize, edges: &[Vec<(usize, Price)>]) -> Vec<Option<Price>> {
    let mut best = vec![None; edges.len()];
    best[source] = Some(Price::default());
    loop {
        let mut changed = false;
        for from in 0..edges.len() {
            let Some(here) = best[from] else { continue };
            for (to, edge) in &edges[from] {
                if best[*to].is_none_or(|known| here + *edge < known) {
                    best[*to] = Some(here + *edge);
                    changed = true;
                }
            }
        }
        if !changed {
            return best;
        }
    }
}
