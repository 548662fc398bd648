//! Chooses the tree of each chunk: first one chunk after the other, given the loads so far, then repeatedly once more
//! for each chunk.

use super::{Network, Tree, Want};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Number of passes in which each chunk looks for a better tree.
const PASSES: usize = 12;

/// Link loads, in units of the time that the fastest link needs for a chunk.
struct Loads<'a> {
    network: &'a Network,
    /// Busy time of each link per chunk.
    chunk: Vec<f64>,
    carried: Vec<f64>,
}

/// The sixteenth power, computed by multiplications only, so that it is the same on all machines.
fn power(load: f64) -> f64 {
    let second = load * load;
    let fourth = second * second;
    let eighth = fourth * fourth;
    eighth * eighth
}

impl Loads<'_> {
    /// The increase of the sum of powers by one more chunk over a hop, plus a small cost of the hop itself.
    fn price(&self, hop: usize) -> f64 {
        let added = |link: &usize| {
            let (carried, chunk) = (self.carried[*link], self.chunk[*link]);
            power(carried + chunk) - power(carried)
        };
        self.network.hops[hop].links.iter().map(added).sum()
    }

    fn change(&mut self, tree: &Tree, sign: f64) {
        for link in tree.iter().flat_map(|hop| &self.network.hops[*hop].links) {
            self.carried[*link] += sign * self.chunk[*link];
        }
    }
}

/// A tree for each want, in order; `None` if a taker is unreachable.
///
/// # Panics
/// If a want names a device that is not in the network.
pub fn ways(network: &Network, wants: &[Want]) -> Option<Vec<Tree>> {
    let fastest = network.busy.iter().copied().min().unwrap_or(1).max(1);
    #[expect(clippy::cast_precision_loss, reason = "loads need no more digits")]
    let chunk: Vec<f64> = network.busy.iter().map(|busy| *busy as f64 / fastest as f64).collect();
    let mut loads = Loads { network, carried: vec![0.0; chunk.len()], chunk };
    let mut grower = Grower::new(network);
    let mut trees: Vec<Tree> = Vec::with_capacity(wants.len());
    for want in wants {
        let tree = grower.grown(&loads, want)?;
        loads.change(&tree, 1.0);
        trees.push(tree);
    }
    for _ in 0..PASSES {
        let mut changed = false;
        for (tree, want) in trees.iter_mut().zip(wants) {
            loads.change(tree, -1.0);
            let better = grower.grown(&loads, want)?;
            let price = |tree: &Tree| tree.iter().map(|hop| loads.price(*hop)).sum::<f64>();
            if price(&better) < price(tree) {
                *tree = better;
                changed = true;
            }
            loads.change(tree, 1.0);
        }
        if !changed {
            break;
        }
    }
    Some(trees)
}

/// Space for growing trees, kept from one to the next.
struct Grower<'a> {
    network: &'a Network,
    /// The price of each hop under the loads.
    prices: Vec<f64>,
    /// Devices that have the chunk, and those that still want it.
    has: Vec<bool>,
    wanted: Vec<bool>,
    /// The price of reaching each device, and the last hop to it.
    least: Vec<f64>,
    by: Vec<usize>,
    /// Devices that were reached, by price and number. Prices are positive, so their bits are in the same order.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'a> Grower<'a> {
    fn new(network: &'a Network) -> Grower<'a> {
        let devices = network.devices();
        Grower {
            network,
            prices: Vec::new(),
            has: vec![false; devices],
            wanted: vec![false; devices],
            least: vec![f64::INFINITY; devices],
            by: vec![0; devices],
            heap: BinaryHeap::new(),
        }
    }

    /// A cheap tree: repeatedly connects the nearest remaining taker to any device that has the chunk. `None` if a taker
    /// is unreachable.
    fn grown(&mut self, loads: &Loads<'_>, want: &Want) -> Option<Tree> {
        self.prices.clear();
        self.prices.extend((0..self.network.hops.len()).map(|hop| loads.price(hop)));
        self.has.fill(false);
        want.holders.iter().for_each(|device| self.has[*device] = true);
        self.wanted.fill(false);
        want.takers.iter().for_each(|device| self.wanted[*device] = true);
        let mut left = want.takers.len();
        let mut tree = Vec::new();
        while left > 0 {
            let taker = self.nearest()?;
            let path = tree.len();
            let mut at = taker;
            while !self.has[at] {
                self.has[at] = true;
                left -= usize::from(std::mem::take(&mut self.wanted[at]));
                tree.push(self.by[at]);
                at = self.network.hops[self.by[at]].from;
            }
            tree[path..].reverse();
        }
        Some(tree)
    }

    /// The nearest device that wants the chunk.
    fn nearest(&mut self) -> Option<usize> {
        self.least.fill(f64::INFINITY);
        self.heap.clear();
        for device in 0..self.has.len() {
            if self.has[device] {
                self.leave(device, 0.0);
            }
        }
        loop {
            let Reverse((price, device)) = self.heap.pop()?;
            let price = f64::from_bits(price);
            if price > self.least[device] {
                continue;
            }
            if self.wanted[device] {
                return Some(device);
            }
            self.leave(device, price);
        }
    }

    /// Goes on from a device that is reached at a price.
    fn leave(&mut self, device: usize, price: f64) {
        for hop in &self.network.leaving[device] {
            let (to, price) = (self.network.hops[*hop].to, price + self.prices[*hop]);
            if price < self.least[to] && !self.has[to] {
                self.least[to] = price;
                self.by[to] = *hop;
                self.heap.push(Reverse((price.to_bits(), to)));
            }
        }
    }
}
