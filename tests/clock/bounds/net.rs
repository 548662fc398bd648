//! Small networks, with lower bounds by exhaustive search. Shares no code with the library's bounds.

/// Devices, then switches, and one-way links between them: from, to, capacity.
#[derive(Clone, Debug)]
pub(crate) struct Net {
    pub(crate) devices: usize,
    pub(crate) nodes: usize,
    pub(crate) links: Vec<(usize, usize, u64)>,
}

/// A fraction.
pub(crate) type Fraction = (u128, u128);

pub(crate) fn larger(a: Fraction, b: Fraction) -> Fraction {
    if b.0 * a.1 > a.0 * b.1 { b } else { a }
}

impl Net {
    /// A grid of lines, or of rings along the axes that wrap, with capacities along each axis.
    pub(crate) fn grid(axes: &[(usize, bool, u64)]) -> Net {
        let devices = axes.iter().map(|axis| axis.0).product();
        let mut links = Vec::new();
        let mut stride = devices;
        for (size, wraps, capacity) in axes {
            stride /= size;
            for device in 0..devices {
                let at = device / stride % size;
                if at + 1 < *size {
                    links.extend([(device, device + stride, *capacity), (device + stride, device, *capacity)]);
                } else if *wraps && *size > 2 {
                    let first = device - at * stride;
                    links.extend([(device, first, *capacity), (first, device, *capacity)]);
                }
            }
        }
        Net { devices, nodes: devices, links }
    }

    pub(crate) fn ring(size: usize) -> Net {
        Net::grid(&[(size, true, 1)])
    }

    pub(crate) fn line(size: usize) -> Net {
        Net::grid(&[(size, false, 1)])
    }

    /// Devices with a port in each direction to one switch.
    pub(crate) fn switch(devices: usize) -> Net {
        let links = (0..devices).flat_map(|device| [(device, devices, 1), (devices, device, 1)]);
        Net { devices, nodes: devices + 1, links: links.collect() }
    }

    /// Devices with a link from each to each other.
    pub(crate) fn full(devices: usize) -> Net {
        let pairs = (0..devices).flat_map(|from| (0..devices).map(move |to| (from, to, 1)));
        Net { devices, nodes: devices, links: pairs.filter(|(from, to, _)| from != to).collect() }
    }

    /// The product with another network, whose capacities are multiplied: a copy of this one for each of its devices, and a
    /// copy of it between the copies of each device.
    pub(crate) fn times(&self, other: &Net, capacity: u64) -> Net {
        let devices = self.devices * other.devices;
        let mut net = Net { devices, nodes: devices, links: Vec::new() };
        let mut copy = |of: &Net, count: usize, place: &dyn Fn(usize, usize) -> usize, capacity: u64| {
            for number in 0..count {
                let node = |id: usize| if id < of.devices { place(id, number) } else { net.nodes + id - of.devices };
                net.links.extend(of.links.iter().map(|link| (node(link.0), node(link.1), link.2 * capacity)));
                net.nodes += of.nodes - of.devices;
            }
        };
        copy(self, other.devices, &|id, number| id * other.devices + number, 1);
        copy(other, self.devices, &|id, number| number * other.devices + id, capacity);
        net
    }

    /// Nodes with a switch each, and a slower network that connects the switches; `inside` and `between` are the
    /// capacities of a port in each direction.
    pub(crate) fn two_level(machines: usize, per_machine: usize, inside: u64, between: u64) -> Net {
        let devices = machines * per_machine;
        let mut links = Vec::new();
        for device in 0..devices {
            let switch = devices + device / per_machine;
            links.extend([(device, switch, inside), (switch, device, inside)]);
        }
        let spine = devices + machines;
        for machine in 0..machines {
            links.extend([(devices + machine, spine, between), (spine, devices + machine, between)]);
        }
        Net { devices, nodes: spine + 1, links }
    }

    /// A ring of all devices in random order, with some additional links of random capacities.
    pub(crate) fn random(random: &mut fastrand::Rng, devices: usize) -> Net {
        let mut order: Vec<usize> = (0..devices).collect();
        random.shuffle(&mut order);
        let mut links: Vec<(usize, usize, u64)> =
            (0..devices).map(|at| (order[at], order[(at + 1) % devices], random.u64(1..6))).collect();
        for from in 0..devices {
            for to in 0..devices {
                if from != to && random.u8(0..3) == 0 {
                    links.push((from, to, random.u64(1..6)));
                }
            }
        }
        Net { devices, nodes: devices, links }
    }

    /// Removes the link from one device to another.
    pub(crate) fn without(mut self, from: usize, to: usize) -> Net {
        let before = self.links.len();
        self.links.retain(|link| (link.0, link.1) != (from, to));
        assert_eq!(self.links.len() + 1, before, "there was one such link");
        self
    }

    pub(crate) fn without_cable(self, one: usize, other: usize) -> Net {
        self.without(one, other).without(other, one)
    }

    /// Capacity of the links into a set of nodes.
    fn into(&self, set: u32) -> u128 {
        let enters = |link: &&(usize, usize, u64)| set >> link.1 & 1 == 1 && set >> link.0 & 1 == 0;
        self.links.iter().filter(enters).map(|link| u128::from(link.2)).sum()
    }

    /// The maximum of `need(devices in the set)` over the capacity into the set, over all sets of devices and switches.
    pub(crate) fn over_all_sets(&self, need: impl Fn(u32) -> u128) -> Fraction {
        let devices = (1u32 << self.devices) - 1;
        let sets = 1..1u32 << self.nodes;
        sets.fold((0, 1), |most, set| match need(set & devices) {
            0 => most,
            needed => larger(most, (needed, self.into(set))),
        })
    }

    /// AllGather: every device has one shard and needs all.
    pub(crate) fn all_gather(&self) -> Fraction {
        let n = u32::try_from(self.devices).unwrap();
        let (needed, capacity) = self.over_all_sets(|set| if set == 0 { 0 } else { u128::from(n - set.count_ones()) });
        (needed, capacity * u128::from(n))
    }

    /// ReduceScatter: the same with all links reversed.
    pub(crate) fn reduce_scatter(&self) -> Fraction {
        let links = self.links.iter().map(|(from, to, capacity)| (*to, *from, *capacity)).collect();
        Net { links, ..self.clone() }.all_gather()
    }

    /// Broadcast: everything must leave the root.
    pub(crate) fn broadcast(&self, root: usize) -> Fraction {
        self.over_all_sets(|set| u128::from(set != 0 && set >> root & 1 == 0))
    }

    /// AllToAll: a block from each device to each.
    pub(crate) fn all_to_all(&self) -> Fraction {
        let n = u32::try_from(self.devices).unwrap();
        let blocks = |set: u32| u128::from(set.count_ones() * (n - set.count_ones()));
        let (needed, capacity) = self.over_all_sets(blocks);
        (needed, capacity * u128::from(n * n))
    }

    /// AllToAll by hops: each block over the minimum number of links, averaged over all links.
    pub(crate) fn all_to_all_by_hops(&self) -> Fraction {
        let hops = self.distances();
        let between_devices = (0..self.devices).map(|from| hops[from][..self.devices].iter().sum::<u128>());
        let capacity: u128 = self.links.iter().map(|link| u128::from(link.2)).sum();
        (between_devices.sum(), capacity * (self.devices * self.devices) as u128)
    }

    /// The minimum number of links between any two nodes.
    pub(crate) fn distances(&self) -> Vec<Vec<u128>> {
        let far = u128::from(u32::MAX);
        let mut hops = vec![vec![far; self.nodes]; self.nodes];
        (0..self.nodes).for_each(|node| hops[node][node] = 0);
        self.links.iter().for_each(|link| hops[link.0][link.1] = 1);
        for over in 0..self.nodes {
            for from in 0..self.nodes {
                for to in 0..self.nodes {
                    hops[from][to] = hops[from][to].min(hops[from][over] + hops[over][to]);
                }
            }
        }
        hops
    }

    /// AllReduce: the whole array must enter every proper set, and there are 2(p-1) sends between any p parts.
    pub(crate) fn all_reduce(&self) -> Fraction {
        let everybody = (1u32 << self.devices) - 1;
        let cuts = self.over_all_sets(|set| u128::from(set != 0 && set != everybody));
        let leaving: Vec<u128> = (0..=everybody).map(|set| self.least_leaving(set)).collect();
        let mut most = cuts;
        partitions(self.devices, &mut |parts| {
            if parts.len() > 1 {
                let capacity = parts.iter().map(|part| leaving[*part as usize]).sum();
                most = larger(most, (2 * (parts.len() as u128 - 1), capacity));
            }
        });
        most
    }

    /// The AllReduce bound of all partitions into two parts, and of that into single devices.
    pub(crate) fn all_reduce_in_two_or_all(&self) -> Fraction {
        let everybody = (1u32 << self.devices) - 1;
        let cuts = self.over_all_sets(|set| u128::from(set != 0 && set != everybody));
        let leaving: Vec<u128> = (0..=everybody).map(|set| self.least_leaving(set)).collect();
        let both = |set: u32| (2, leaving[set as usize] + leaving[(everybody & !set) as usize]);
        let single = (0..self.devices).map(|device| leaving[1 << device]).sum();
        let all = (2 * (self.devices as u128 - 1), single);
        (1..everybody).map(both).chain([all, cuts]).fold((0, 1), larger)
    }

    /// Minimum capacity out of a set of devices, over all placements of the switches.
    fn least_leaving(&self, devices: u32) -> u128 {
        let out = |set: u32| {
            let leaves = |link: &&(usize, usize, u64)| set >> link.0 & 1 == 1 && set >> link.1 & 1 == 0;
            self.links.iter().filter(leaves).map(|link| u128::from(link.2)).sum()
        };
        (0..1u32 << (self.nodes - self.devices)).map(|switches| out(devices | switches << self.devices)).min().unwrap()
    }
}

/// Calls `each` with all partitions of this number of devices, as sets of bits.
fn partitions(devices: usize, each: &mut impl FnMut(&[u32])) {
    fn grow(device: usize, devices: usize, parts: &mut Vec<u32>, each: &mut impl FnMut(&[u32])) {
        if device == devices {
            return each(parts);
        }
        for part in 0..parts.len() {
            parts[part] |= 1 << device;
            grow(device + 1, devices, parts, each);
            parts[part] &= !(1 << device);
        }
        parts.push(1 << device);
        grow(device + 1, devices, parts, each);
        parts.pop();
    }
    grow(0, devices, &mut Vec::new(), each);
}

/// The group and the position in its group of each device. Devices that agree in both are replicas.
pub(crate) struct Roles {
    pub(crate) group: Vec<usize>,
    pub(crate) place: Vec<usize>,
}

impl Roles {
    fn groups(&self) -> usize {
        self.group.iter().max().map_or(0, |most| most + 1)
    }

    fn places(&self) -> usize {
        self.place.iter().max().map_or(0, |most| most + 1)
    }

    /// For each group, the positions of which a set has a device.
    fn present(&self, set: u32) -> Vec<Vec<bool>> {
        let mut present = vec![vec![false; self.places()]; self.groups()];
        let inside = (0..self.group.len()).filter(|device| set >> device & 1 == 1);
        inside.for_each(|device| present[self.group[device]][self.place[device]] = true);
        present
    }

    /// Parts of V (n of them per position) that a set needs and does not have, over all groups.
    fn needed(&self, kind: &str, set: u32) -> u128 {
        let n = self.places() as u128;
        let of_group = |present: &Vec<bool>| {
            let here = present.iter().filter(|here| **here).count() as u128;
            match kind {
                _ if here == 0 => 0,
                "AllGather" => (n - here) * n,
                "AllToAll" => here * (n - here),
                // A block is complete when every position has contributed to it.
                "ReduceScatter" if here < n => here * n,
                "AllReduce" if here < n => n * n,
                _ => 0,
            }
        };
        self.present(set).iter().map(of_group).sum()
    }
}

impl Net {
    /// The maximum need of a set over the capacity into it, in units of V.
    pub(crate) fn with_roles(&self, kind: &str, roles: &Roles) -> Fraction {
        let (needed, capacity) = self.over_all_sets(|set| roles.needed(kind, set));
        let places = roles.places() as u128;
        let cuts = (needed, capacity * places * places);
        if kind != "AllReduce" {
            return cuts;
        }
        let mut most = cuts;
        partitions(roles.places(), &mut |parts| {
            let part_of = |device: usize| parts.iter().position(|part| part >> roles.place[device] & 1 == 1);
            let between = self.links.iter().filter(|link| part_of(link.0) != part_of(link.1));
            if parts.len() > 1 {
                let sends = 2 * (parts.len() as u128 - 1) * roles.groups() as u128;
                most = larger(most, (sends, between.map(|link| u128::from(link.2)).sum()));
            }
        });
        most
    }
}
