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
    /// The price of one more chunk over each hop.
    prices: Vec<f64>,
}

/// The sixteenth power, computed by multiplications only, so that it is the same on all machines.
fn power(load: f64) -> f64 {
    let second = load * load;
    let fourth = second * second;
    let eighth = fourth * fourth;
    eighth * eighth
}

impl<'a> Loads<'a> {
    fn new(network: &'a Network) -> Loads<'a> {
        let fastest = network.busy.iter().copied().min().unwrap_or(1).max(1);
        #[expect(clippy::cast_precision_loss, reason = "loads need no more digits")]
        let chunk: Vec<f64> = network.busy.iter().map(|busy| *busy as f64 / fastest as f64).collect();
        let mut loads = Loads { network, carried: vec![0.0; chunk.len()], chunk, prices: Vec::new() };
        loads.prices = (0..network.hops.len()).map(|hop| loads.price(hop)).collect();
        loads
    }

    /// The increase of the sum of powers by one more chunk over a hop.
    fn price(&self, hop: usize) -> f64 {
        let added = |link: &usize| {
            let (carried, chunk) = (self.carried[*link], self.chunk[*link]);
            power(carried + chunk) - power(carried)
        };
        self.network.hops[hop].links.iter().map(added).sum()
    }

    /// The price of a whole tree.
    fn price_of(&self, tree: &Tree) -> f64 {
        tree.iter().map(|hop| self.prices[*hop]).sum()
    }

    /// - `chunks`: number of chunks that are added, negative if they are removed.
    fn change(&mut self, tree: &Tree, chunks: f64) {
        let network = self.network;
        let links = || tree.iter().flat_map(|hop| &network.hops[*hop].links);
        links().for_each(|link| self.carried[*link] += chunks * self.chunk[*link]);
        for hop in links().flat_map(|link| &network.over[*link]) {
            self.prices[*hop] = self.price(*hop);
        }
    }
}

/// A tree for each want, in order; `None` if a taker is unreachable.
///
/// # Panics
/// If a want names a device that is not in the network.
pub fn ways(network: &Network, wants: &[Want]) -> Option<Vec<Tree>> {
    #[expect(clippy::cast_precision_loss, reason = "loads need no more digits")]
    let size = |want: &Want| want.size as f64;
    let mut loads = Loads::new(network);
    let mut grower = Grower::new(network);
    let mut trees: Vec<Tree> = Vec::with_capacity(wants.len());
    for want in wants {
        let tree = grower.grown(&loads.prices, want)?;
        loads.change(&tree, size(want));
        trees.push(tree);
    }
    for _ in 0..PASSES {
        let mut changed = false;
        for (tree, want) in trees.iter_mut().zip(wants) {
            loads.change(tree, -size(want));
            let better = grower.grown(&loads.prices, want)?;
            if loads.price_of(&better) < loads.price_of(tree) {
                *tree = better;
                changed = true;
            }
            loads.change(tree, size(want));
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
    /// Devices that have the chunk, and those that still want it.
    has: Vec<bool>,
    wanted: Vec<bool>,
    /// The least price found at which the chunk reaches each device, and the last hop to it.
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
            has: vec![false; devices],
            wanted: vec![false; devices],
            least: vec![f64::INFINITY; devices],
            by: vec![0; devices],
            heap: BinaryHeap::new(),
        }
    }

    /// A cheap tree: repeatedly connects the nearest remaining taker to any device that has the chunk. `None` if a taker
    /// is unreachable.
    ///
    /// One search serves all takers: it goes on from the devices on the way to each taker, which then have the chunk.
    fn grown(&mut self, prices: &[f64], want: &Want) -> Option<Tree> {
        self.has.fill(false);
        self.wanted.fill(false);
        self.least.fill(f64::INFINITY);
        self.heap.clear();
        want.takers.iter().for_each(|device| self.wanted[*device] = true);
        want.holders.iter().for_each(|device| self.has[*device] = true);
        want.holders.iter().for_each(|device| self.least[*device] = 0.0);
        want.holders.iter().for_each(|device| self.leave(*device, prices));
        let mut left = want.takers.len();
        let mut tree = Vec::new();
        while left > 0 {
            let path = tree.len();
            let mut at = self.nearest(prices)?;
            while !self.has[at] {
                self.has[at] = true;
                self.least[at] = 0.0;
                left -= usize::from(std::mem::take(&mut self.wanted[at]));
                tree.push(self.by[at]);
                at = self.network.hops[self.by[at]].from;
            }
            tree[path..].reverse();
            for hop in &tree[path..] {
                self.leave(self.network.hops[*hop].to, prices);
            }
        }
        Some(tree)
    }

    /// The nearest device that wants the chunk.
    fn nearest(&mut self, prices: &[f64]) -> Option<usize> {
        loop {
            let Reverse((price, device)) = self.heap.pop()?;
            // A shorter way was found since.
            if f64::from_bits(price) > self.least[device] {
                continue;
            }
            if self.wanted[device] {
                return Some(device);
            }
            self.leave(device, prices);
        }
    }

    /// Goes on from a device. Of equally good hops to a device, the one from the nearest device is kept, then the one
    /// from the first, so that the order of the search does not matter. A hop whose price is lost in rounding only
    /// reaches devices that are not yet reached: paths of such hops could close.
    fn leave(&mut self, device: usize, prices: &[f64]) {
        let reached = self.least[device];
        for hop in &self.network.leaving[device] {
            let (to, price) = (self.network.hops[*hop].to, reached + prices[*hop]);
            if self.has[to] {
                continue;
            }
            if price < self.least[to] {
                self.heap.push(Reverse((price.to_bits(), to)));
            } else {
                let other = self.network.hops[self.by[to]].from;
                let is_first = reached < price && (reached, device) < (self.least[other], other);
                if price > self.least[to] || !is_first {
                    continue;
                }
            }
            self.least[to] = price;
            self.by[to] = *hop;
        }
    }
}
