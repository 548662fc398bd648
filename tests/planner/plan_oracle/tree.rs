//! Trees of products: the minimum cost of every layout of every array, from the leaves to the root.

use super::distance::Graph;
use super::layout::Layout;
use super::moves::{Family, Move};
use super::price::{Model, Price};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The sizes of the indices, and the prices of all operations.
pub struct World {
    sizes: Vec<u64>,
    mesh: Vec<u64>,
    family: Family,
    /// Cost of a move of an array with these sizes.
    of_move: Box<OfMove>,
    /// Cost of a local product with this number of operations.
    of_product: Box<dyn Fn(u64) -> Price>,
    /// One graph for each list of indices of an array.
    graphs: RefCell<HashMap<Vec<usize>, Rc<Graph>>>,
}

/// Takes sizes, a move, and the layouts before and after it.
type OfMove = dyn Fn(&[u64], &Move, &Layout, &Layout) -> Price;

/// An array, and the minimum cost of each of its layouts.
pub struct Tree {
    /// The array's indices.
    dims: Vec<usize>,
    graph: Rc<Graph>,
    prices: Vec<Option<Price>>,
}

impl World {
    pub fn new(sizes: &[u64], mesh: &[u64], model: Model, family: Family) -> World {
        let own = mesh.to_vec();
        let of_move = move |sizes: &[u64], step: &Move, from: &Layout, _: &Layout| {
            model.of_move(step, 2 * from.elements(sizes, &own), &own)
        };
        World::priced(sizes, mesh, Box::new(of_move), Box::new(move |flops| model.of_product(flops)), family)
    }

    /// The same with any prices.
    pub fn priced(
        sizes: &[u64],
        mesh: &[u64],
        of_move: Box<OfMove>,
        of_product: Box<dyn Fn(u64) -> Price>,
        family: Family,
    ) -> World {
        let (sizes, mesh) = (sizes.to_vec(), mesh.to_vec());
        World { sizes, mesh, family, of_move, of_product, graphs: RefCell::default() }
    }

    /// The moves of an array with these indices.
    pub fn graph(&self, dims: &[usize]) -> Rc<Graph> {
        let make = || {
            let sizes: Vec<u64> = dims.iter().map(|dim| self.sizes[*dim]).collect();
            let of_move = |step: &Move, from: &Layout, to: &Layout| (self.of_move)(&sizes, step, from, to);
            Rc::new(Graph::priced(&sizes, &self.mesh, of_move, self.family))
        };
        self.graphs.borrow_mut().entry(dims.to_vec()).or_insert_with(make).clone()
    }

    /// An array that is available in one layout.
    pub fn input(&self, dims: &[usize], layout: &Layout) -> Tree {
        let graph = self.graph(dims);
        let prices = graph.distances(layout).to_vec();
        Tree { dims: dims.to_vec(), graph, prices }
    }

    /// The product of two arrays with these remaining indices. An axis splits an index (in any order with the others
    /// on it), stays in the open sum of one operand, or is idle.
    pub fn product(&self, left: &Tree, right: &Tree, dims: &[usize]) -> Tree {
        let graph = self.graph(dims);
        let mut fresh: Vec<Option<Price>> = vec![None; graph.layouts.len()];
        let mut space: Vec<usize> = left.dims.iter().chain(&right.dims).copied().collect();
        space.sort_unstable();
        space.dedup();
        let sizes: Vec<u64> = space.iter().map(|dim| self.sizes[*dim]).collect();
        for way in Layout::all(space.len(), self.mesh.len()) {
            if !way.divides(&sizes, &self.mesh) {
                continue;
            }
            let axes_of =
                |dim: &usize| way.dims[space.iter().position(|known| known == dim).expect("of an operand")].clone();
            let on = |dims: &[usize]| dims.iter().map(axes_of).collect::<Vec<_>>();
            let contracted = space.iter().filter(|dim| !dims.contains(dim)).flat_map(axes_of);
            let mut open: Vec<usize> = contracted.chain(way.open.iter().copied()).collect();
            open.sort_unstable();
            let Some(place) = graph.place(&Layout { dims: on(dims), open }) else { continue };
            let flops = (self.of_product)(2 * way.elements(&sizes, &self.mesh));
            // Each open axis comes from one of the two operands.
            for mask in 0..1usize << way.open.len() {
                let part = |bit: usize| {
                    let axes = way.open.iter().enumerate().filter(|(at, _)| (mask >> at & 1) == bit);
                    axes.map(|(_, axis)| *axis).collect::<Vec<_>>()
                };
                let operands = [(left, part(0)), (right, part(1))];
                let prices = operands.map(|(array, open)| array.price(&Layout { dims: on(&array.dims), open }));
                let [Some(to_left), Some(to_right)] = prices else { continue };
                let price = to_left + to_right + flops;
                if fresh[place].is_none_or(|known| price < known) {
                    fresh[place] = Some(price);
                }
            }
        }
        let reached = |to: &Layout| {
            let from = graph.layouts.iter().zip(&fresh);
            from.filter_map(|(from, price)| Some((*price)? + graph.distance(from, to)?)).min()
        };
        let prices = graph.layouts.iter().map(reached).collect();
        Tree { dims: dims.to_vec(), graph, prices }
    }
}

impl Tree {
    /// The minimum cost of a layout; `None` if it is unreachable.
    pub fn price(&self, layout: &Layout) -> Option<Price> {
        self.prices[self.graph.place(layout)?]
    }
}
