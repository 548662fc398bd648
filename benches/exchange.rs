//! Orders the messages of exchanges of unequal loads: `cargo bench --bench exchange`.

use divan::counter::ItemsCount;
use shardc::routing::{Hop, Network, Want, ragged};

fn main() {
    divan::main();
}

/// Most slots of a pair.
const MOST: u64 = 512;

/// A switch with an outgoing and an incoming port per device.
fn switch(devices: usize) -> Network {
    let pairs = (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to))).filter(|(from, to)| from != to);
    let hop = |(from, to)| Hop { from, to, links: vec![from, devices + to], direction: 0 };
    Network::new(devices, pairs.map(hop).collect(), vec![1; 2 * devices])
}

/// Random loads of all pairs: even ones, or of experts of which the k-th most popular has a k-th of the slots.
fn loads(devices: usize, are_popular: bool) -> Vec<Want> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut rank: Vec<u64> = (1..=devices as u64).collect();
    random.shuffle(&mut rank);
    let pairs = (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to))).filter(|(from, to)| from != to);
    let mut size = |to: usize| if are_popular { MOST / rank[to] + random.u64(0..8) } else { random.u64(0..=MOST) };
    let wants = pairs.map(|(from, to)| Want { holders: vec![from], takers: vec![to], size: size(to).min(MOST) });
    wants.filter(|want| want.size > 0).collect()
}

/// Loads that are evenly distributed up to the most.
#[divan::bench(args = [8, 16, 32, 64])]
fn even(bencher: divan::Bencher<'_, '_>, devices: usize) {
    let (network, wants) = (switch(devices), loads(devices, false));
    bencher.counter(ItemsCount::new(wants.len())).bench(|| ragged(&network, &wants, MOST).expect("all are linked"));
}

/// Loads of unequally popular experts.
#[divan::bench(args = [8, 16, 32, 64])]
fn popular(bencher: divan::Bencher<'_, '_>, devices: usize) {
    let (network, wants) = (switch(devices), loads(devices, true));
    bencher.counter(ItemsCount::new(wants.len())).bench(|| ragged(&network, &wants, MOST).expect("all are linked"));
}
