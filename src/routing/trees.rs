//! Chooses the tree of each chunk: first one chunk after the other, given the loads so far, then repeatedly once more
//! for each chunk.

use super::{Network, Tree, Want};
use std::cmp::Ordering;
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

/// A device and the price of reaching it.
struct Reached {
    price: f64,
    device: usize,
}

impl PartialEq for Reached {
    fn eq(&self, other: &Reached) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Reached {}

impl PartialOrd for Reached {
    fn partial_cmp(&self, other: &Reached) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Reached {
    /// Reversed, because heaps return the greatest element first.
    fn cmp(&self, other: &Reached) -> Ordering {
        other.price.total_cmp(&self.price).then(other.device.cmp(&self.device))
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
    let mut trees: Vec<Tree> = Vec::with_capacity(wants.len());
    for want in wants {
        let tree = grown(&loads, want)?;
        loads.change(&tree, 1.0);
        trees.push(tree);
    }
    for _ in 0..PASSES {
        let mut changed = false;
        for (tree, want) in trees.iter_mut().zip(wants) {
            loads.change(tree, -1.0);
            let better = grown(&loads, want)?;
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

/// A cheap tree: repeatedly connects the nearest remaining taker to any device that has the chunk.
fn grown(loads: &Loads<'_>, want: &Want) -> Option<Tree> {
    let network = loads.network;
    let prices: Vec<f64> = (0..network.hops.len()).map(|hop| loads.price(hop)).collect();
    let mut has = vec![false; network.devices()];
    want.holders.iter().for_each(|device| has[*device] = true);
    let mut wanted = vec![false; network.devices()];
    want.takers.iter().for_each(|device| wanted[*device] = true);
    let mut left = want.takers.len();
    let mut tree = Vec::new();
    while left > 0 {
        let mut by: Vec<Option<usize>> = vec![None; network.devices()];
        let mut least = vec![f64::INFINITY; network.devices()];
        let mut heap = BinaryHeap::new();
        for (device, _) in has.iter().enumerate().filter(|(_, has)| **has) {
            least[device] = 0.0;
            heap.push(Reached { price: 0.0, device });
        }
        let taker = loop {
            let Reached { price, device } = heap.pop()?;
            if price > least[device] {
                continue;
            }
            if wanted[device] {
                break device;
            }
            for hop in &network.leaving[device] {
                let (to, price) = (network.hops[*hop].to, price + prices[*hop]);
                if price < least[to] {
                    least[to] = price;
                    by[to] = Some(*hop);
                    heap.push(Reached { price, device: to });
                }
            }
        };
        let mut path = Vec::new();
        let mut at = taker;
        while let Some(hop) = by[at].filter(|_| !has[at]) {
            has[at] = true;
            if std::mem::take(&mut wanted[at]) {
                left -= 1;
            }
            path.push(hop);
            at = network.hops[hop].from;
        }
        tree.extend(path.into_iter().rev());
    }
    Some(tree)
}
