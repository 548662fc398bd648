//! Fabrics: devices, switches and links as a profile lists them.
//!
//! A message takes the route with the lowest latency, then with the fewest links. Of equal routes, links to devices are
//! taken in the order of the profile, and links to switches by turns of the destination, as in fat trees. Between two
//! devices of its route a message passes all switches at once (cut-through): it needs all links to be free, and occupies
//! each for its bytes at the rate of the link.

use super::hardware::{Attachment, Hardware, HopRule, Network, SwitchKind, WiringRule};
use super::hop::{Also, Hop, LinkId};
use super::listed::End;
use crate::mesh::{AxisId, DeviceId, Wiring};
use crate::units::{Rate, Time, TimeScale};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

/// Most devices of a fabric: each has a route to each other one.
const MOST_DEVICES: usize = 512;

/// Most links, counted per direction.
const MOST_LINKS: usize = 1 << 12;

/// A one-way link as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) from: End,
    pub(super) to: End,
    /// Bytes per second.
    pub(super) rate: Rate,
    /// Latency in picoseconds.
    pub(super) latency: u64,
}

impl Network {
    /// The listed links, a pair in both directions as two.
    pub(super) fn one_way_links(&self) -> impl Iterator<Item = Listed> + '_ {
        self.links.iter().flat_map(move |links| {
            let forth = links.between.iter().chain(&links.from_to).map(|[from, to]| (from, to));
            let back = links.between.iter().map(|[from, to]| (to, from));
            forth.chain(back).map(move |(from, to)| Listed {
                from: from.clone(),
                to: to.clone(),
                rate: links.one_way.unwrap_or(self.one_way),
                latency: links.hop_latency.unwrap_or(self.hop_latency),
            })
        })
    }
}

/// A one-way link between nodes: devices, then switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// The sending node.
    pub from: usize,
    /// The receiving node.
    pub to: usize,
    /// Bytes per second.
    pub rate: Rate,
    /// Latency in picoseconds.
    pub latency: u64,
}

/// A network of devices and switches.
#[derive(Debug, PartialEq, Eq)]
pub struct Fabric {
    devices: usize,
    /// The names of the switches.
    switches: Vec<String>,
    cables: Vec<Cable>,
    /// The different rates of the links.
    rates: Vec<Rate>,
    /// For each link, its rate in `rates`.
    rate_of: Vec<u32>,
    /// The first hop from each device to each other one, row by row; what follows depends on the device that it reaches.
    next: Vec<Option<Hop>>,
    /// The fewest hops from device to device on any way from each device to each other one, row by row.
    hops: Vec<u16>,
    /// The lowest latency between two devices, in picoseconds.
    least_latency: u64,
}

/// The latency of a route, and its number of links.
type Length = (u64, usize);

/// The links of each node.
struct Beside {
    into: Vec<Vec<usize>>,
    out: Vec<Vec<usize>>,
}

/// The times of messages of one size over the links of a fabric.
///
/// A link between two devices is used like one of a ring. On the way through switches a link is busy for the bytes only,
/// like the port of a switch, and the hop has the latency of all its links and the rate of the slowest.
#[derive(Clone, Debug)]
pub struct CableTimes<'f> {
    fabric: &'f Fabric,
    scale: TimeScale,
    rule: HopRule,
    /// The time of the bytes at each rate of the fabric.
    at_rates: Vec<Time>,
}

impl CableTimes<'_> {
    /// The time of a hop.
    pub fn transit(&self, hop: &Hop) -> Time {
        let latency = hop.links().map(|link| self.fabric.cables[link.index()].latency).fold(0, u64::saturating_add);
        let bandwidth = hop.links().map(|link| self.at_rate(link)).max().unwrap_or_default();
        match self.rule {
            HopRule::Larger => self.scale.picoseconds(latency).max(bandwidth),
            HopRule::Sum => self.scale.picoseconds(latency) + bandwidth,
        }
    }

    /// The time for which a link of a hop is busy.
    pub fn busy(&self, hop: &Hop, link: LinkId) -> Time {
        let is_direct = hop.also.iter().next().is_none();
        match self.rule {
            HopRule::Larger if is_direct => self.transit(hop),
            HopRule::Larger | HopRule::Sum => self.at_rate(link),
        }
    }

    fn at_rate(&self, link: LinkId) -> Time {
        self.at_rates[self.fabric.rate_of[link.index()] as usize]
    }
}

/// Whether a network is a fabric.
fn is_fabric(network: &Network) -> bool {
    network.wiring == WiringRule::Always(Wiring::Fabric)
}

/// A description of what is wrong with the fabrics of a profile.
pub(super) fn flaw(hardware: &Hardware) -> Option<String> {
    let listed = |network: &&Network| {
        let has_keys = !network.links.is_empty() || !network.switches.is_empty() || network.ports.is_some();
        has_keys && !is_fabric(network)
    };
    if let Some(network) = hardware.networks().find(listed) {
        let name = &network.name;
        return Some(format!(
            "network `{name}` has keys of a fabric; write `wiring = \"fabric\"`, or remove `links`, `switches` and `ports`"
        ));
    }
    if let Some(network) = hardware.beyond.iter().find(|network| is_fabric(network)) {
        return Some(format!(
            "network `{}` between nodes cannot be a fabric; list all links in `[network]`",
            network.name
        ));
    }
    if !is_fabric(&hardware.network) {
        return None;
    }
    if let Some(network) = hardware.beyond.first() {
        let name = &network.name;
        return Some(format!(
            "a fabric wires all devices; list the links of `{name}` in `[network]`, and remove `[[beyond]]`"
        ));
    }
    Fabric::new(&hardware.network).err()
}

/// The first key that a fabric has no use for.
fn idle_key(network: &Network) -> Option<&'static str> {
    let keys = [
        ("measured", !network.measured.is_empty()),
        ("adds", !network.adds.is_empty()),
        ("attached", network.attached != Attachment::Device),
        ("switch", network.switch != SwitchKind::CutThrough),
    ];
    keys.into_iter().find(|(_, is_set)| *is_set).map(|(key, _)| key)
}

impl Fabric {
    /// The fabric that a network lists, or a description of what is wrong with it.
    pub(super) fn new(network: &Network) -> Result<Fabric, String> {
        if let Some(key) = idle_key(network) {
            return Err(format!(
                "a fabric has no `{key}`; its links have rates and latencies, and its switches pass messages on"
            ));
        }
        let listed: Vec<Listed> = network.one_way_links().collect();
        if listed.is_empty() {
            return Err("a fabric needs links: `[[network.links]]` with `between = [[0, 1], [1, 2]]`".to_owned());
        }
        if listed.len() > MOST_LINKS {
            return Err(format!(
                "the fabric has {} links, counted per direction; the limit is {MOST_LINKS}",
                listed.len()
            ));
        }
        let devices = count_devices(listed.iter().flat_map(|link| [&link.from, &link.to]))?;
        if let Some(most) = network.devices.filter(|most| most.get() as usize != devices) {
            return Err(format!("the links lead to {devices} devices, and `devices` is {most}"));
        }
        if let Some(name) = network.switches.iter().duplicates().next() {
            return Err(format!("switch `{name}` is listed twice"));
        }
        let mut cables: Vec<Cable> = Vec::new();
        let mut used: BTreeMap<(usize, &str), u32> = BTreeMap::new();
        for Listed { from, to, rate, latency } in listed {
            if from == to {
                return Err(format!("a link leads from {from} to itself"));
            }
            let node =
                |end| node(end, devices, &network.switches).map_err(|error| format!("link {from}->{to}: {error}"));
            let (from, to) = (node(&from)?, node(&to)?);
            *used.entry((from, "out of")).or_default() += 1;
            *used.entry((to, "into")).or_default() += 1;
            match cables.iter_mut().find(|cable| (cable.from, cable.to, cable.latency) == (from, to, latency)) {
                Some(same) => {
                    let sum = same.rate.per_second().saturating_add(rate.per_second());
                    same.rate = Rate::new(sum).unwrap_or(rate);
                }
                None => cables.push(Cable { from, to, rate, latency }),
            }
        }
        let most = network.ports.map_or(u32::MAX, NonZeroU32::get);
        if let Some(((device, way), count)) = used.iter().find(|((node, _), count)| *node < devices && **count > most) {
            return Err(format!("{count} links lead {way} device {device}, and `ports` is {most}"));
        }
        let switches = network.switches.clone();
        let rates: Vec<Rate> = cables.iter().map(|cable| cable.rate).unique().collect();
        let rate_of = cables.iter().map(|cable| {
            let place = rates.iter().position(|rate| *rate == cable.rate).expect("it is listed");
            u32::try_from(place).expect("few links")
        });
        let rate_of = rate_of.collect();
        let mut fabric =
            Fabric { devices, switches, cables, rates, rate_of, next: Vec::new(), hops: Vec::new(), least_latency: 0 };
        fabric.check_switches()?;
        fabric.connect()?;
        Ok(fabric)
    }

    /// Each switch connects several nodes.
    fn check_switches(&self) -> Result<(), String> {
        let beside = |node: usize| {
            let ends = self.cables.iter().filter(move |cable| cable.from == node || cable.to == node);
            ends.map(move |cable| cable.from + cable.to - node).unique().count()
        };
        match (self.devices..self.nodes()).find(|node| beside(*node) < 2) {
            Some(node) if beside(node) == 0 => Err(format!("switch `{}` has no links", self.name(node))),
            Some(node) => {
                Err(format!("switch `{}` has links to one node only, and passes no messages on", self.name(node)))
            }
            None => Ok(()),
        }
    }

    /// Finds the routes between all devices, and the lowest latency of them.
    fn connect(&mut self) -> Result<(), String> {
        let mut beside = Beside { into: vec![Vec::new(); self.nodes()], out: vec![Vec::new(); self.nodes()] };
        for (number, cable) in self.cables.iter().enumerate() {
            beside.into[cable.to].push(number);
            beside.out[cable.from].push(number);
        }
        self.next = vec![None; self.devices * self.devices];
        self.hops = vec![0; self.devices * self.devices];
        let leaves = |cable: &Cable| u16::from(cable.from < self.devices);
        self.least_latency = u64::MAX;
        for to in 0..self.devices {
            let left = self.lengths_to(to, &beside, longer);
            let hops = self.lengths_to(to, &beside, |hops: u16, cable| hops + leaves(cable));
            for from in (0..self.devices).filter(|from| *from != to) {
                let Some((latency, _)) = left[from] else {
                    return Err(format!(
                        "no route leads from device {from} to device {to}; add links, or write `between` for both directions"
                    ));
                };
                self.least_latency = self.least_latency.min(latency);
                self.next[from * self.devices + to] = Some(self.hop(from, to, &left, &beside)?);
                self.hops[from * self.devices + to] = hops[from].unwrap_or_default();
            }
        }
        Ok(())
    }

    /// Distance of each node to a device; `None` if it cannot reach it.
    ///
    /// - `longer`: the length of a way with one more link in front.
    fn lengths_to<L: Copy + Default + Ord>(
        &self,
        to: usize,
        beside: &Beside,
        longer: impl Fn(L, &Cable) -> L,
    ) -> Vec<Option<L>> {
        let mut lengths = vec![None; self.nodes()];
        let mut open = BTreeSet::from([(L::default(), to)]);
        while let Some((length, at)) = open.pop_first() {
            if lengths[at].is_none() {
                lengths[at] = Some(length);
                let before = beside.into[at].iter().map(|cable| &self.cables[*cable]);
                open.extend(before.map(|cable| (longer(length, cable), cable.from)));
            }
        }
        lengths
    }

    /// The hop from a device to the next one on the way to another.
    ///
    /// - `left`: distance of each node to that one.
    fn hop(&self, from: usize, to: usize, left: &[Option<Length>], beside: &Beside) -> Result<Hop, String> {
        let (mut at, mut passed) = (from, Vec::new());
        loop {
            let goes = |cable: &Cable| left[cable.to].map(|rest| longer(rest, cable)) == left[at];
            let next = beside.out[at].iter().copied().filter(|cable| goes(&self.cables[*cable])).collect_vec();
            let through = next.iter().copied().filter(|cable| self.cables[*cable].to >= self.devices).collect_vec();
            let first = *next.first().expect("a node with a distance has a link towards the device");
            let cable = if through.contains(&first) { through[to % through.len()] } else { first };
            passed.push(LinkId::at(cable));
            at = self.cables[cable].to;
            if at < self.devices {
                break;
            }
        }
        let also = Also::new(&passed[1..]).ok_or_else(|| {
            let (count, most) = (passed.len(), Also::MOST + 1);
            format!(
                "the route from device {from} to device {to} has {count} links through switches; the limit is {most}"
            )
        })?;
        Ok(Hop { axis: AxisId::new(0), link: passed[0], also, to: Some(device(at)) })
    }

    /// The device that a link belongs to: its sender, or the first device.
    pub(super) fn owner(&self, cable: usize) -> DeviceId {
        let from = self.cables[cable].from;
        device(if from < self.devices { from } else { 0 })
    }

    /// The next hop of a message; `None` once it has arrived.
    pub(super) fn next(&self, at: DeviceId, to: DeviceId) -> Option<Hop> {
        self.next[at.index() * self.devices + to.index()]
    }

    /// The fewest hops from device to device on any way between two devices.
    pub fn hops(&self, from: DeviceId, to: DeviceId) -> u64 {
        u64::from(self.hops[from.index() * self.devices + to.index()])
    }

    /// The times of messages of `bytes` bytes.
    pub(super) fn times(&self, scale: TimeScale, rule: HopRule, bytes: u64) -> CableTimes<'_> {
        let at_rates = self.rates.iter().map(|rate| scale.at_rate(u128::from(bytes), *rate)).collect();
        CableTimes { fabric: self, scale, rule, at_rates }
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Number of switches.
    pub fn switches(&self) -> usize {
        self.switches.len()
    }

    /// All links.
    pub fn cables(&self) -> &[Cable] {
        &self.cables
    }

    /// The device at the end of a link between devices; `None` for links from or to a switch.
    pub(super) fn end(&self, cable: u32) -> Option<DeviceId> {
        let Cable { from, to, .. } = self.cables[cable as usize];
        (from.max(to) < self.devices).then(|| device(to))
    }

    /// Formats a link: `3->leaf0`.
    pub(super) fn show(&self, cable: u32) -> String {
        let Cable { from, to, .. } = self.cables[cable as usize];
        format!("{}->{}", self.name(from), self.name(to))
    }

    /// Number of devices and switches.
    fn nodes(&self) -> usize {
        self.devices + self.switches.len()
    }

    /// Bytes per second of the fastest link.
    pub(crate) fn fastest(&self) -> Rate {
        self.cables.iter().map(|cable| cable.rate).max_by_key(|rate| rate.per_second()).expect("a fabric has links")
    }

    /// The lowest latency between two devices, in picoseconds.
    pub(super) fn least_latency(&self) -> u64 {
        self.least_latency
    }

    /// The name of a node: the number of a device, or the name of a switch.
    pub fn name(&self, node: usize) -> String {
        match node.checked_sub(self.devices) {
            Some(switch) => self.switches[switch].clone(),
            None => node.to_string(),
        }
    }
}

fn device(number: usize) -> DeviceId {
    DeviceId(u32::try_from(number).expect("few devices"))
}

fn longer((latency, links): Length, cable: &Cable) -> Length {
    (latency.saturating_add(cable.latency), links + 1)
}

/// The number of devices: all below the last one have links.
fn count_devices<'e>(ends: impl Iterator<Item = &'e End>) -> Result<usize, String> {
    let number = |end: &End| match end {
        End::Device(number) => Some(*number as usize),
        End::Switch(_) => None,
    };
    let numbers: BTreeSet<usize> = ends.filter_map(number).collect();
    let devices = numbers.last().map_or(0, |last| last + 1);
    if devices > MOST_DEVICES {
        return Err(format!(
            "device {} is out of range; a fabric has at most {MOST_DEVICES} devices, numbered from 0",
            devices - 1
        ));
    }
    match (0..devices).find(|device| !numbers.contains(device)) {
        Some(gap) => Err(format!("device {gap} of {devices} has no links; devices are numbered from 0 without gaps")),
        None if devices < 2 => Err("the links lead to fewer than two devices".to_owned()),
        None => Ok(devices),
    }
}

/// The number of a node.
fn node(end: &End, devices: usize, switches: &[String]) -> Result<usize, String> {
    let name = match end {
        End::Device(number) => return Ok(*number as usize),
        End::Switch(name) => name,
    };
    let place = switches.iter().position(|known| known == name);
    place.map(|place| devices + place).ok_or_else(|| match switches {
        [] => format!("unknown switch `{name}`; add `switches = [\"{name}\"]`"),
        _ => format!("unknown switch `{name}`; `switches` lists {}", switches.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use crate::compiler::{self, Options};
    use crate::topology::Hardware;

    /// A profile with this text in place of the networks of a shipped one.
    fn read(network: &str) -> Result<Hardware, String> {
        let shipped = Hardware::named("tpu_v5e").expect("shipped").to_toml();
        let (machine, _) = shipped.split_once("[network]").expect("a network");
        Hardware::from_toml(&format!("{machine}[network]\n{network}")).map_err(|error| error.message)
    }

    const FABRIC: &str = "name = \"f\"\none_way = 5e10\nhop_latency = \"1us\"\nwiring = \"fabric\"\n";

    #[test]
    fn wrong_links_are_errors() {
        for (network, error) in [
            ("", "needs links"),
            ("[[network.links]]\nbetween = [[0, 1], [2, 3]]\n", "no route leads from device 2 to device 0"),
            ("[[network.links]]\nfrom_to = [[0, 1]]\n", "no route leads from device 1 to device 0"),
            ("[[network.links]]\nbetween = [[0, 1], [1, 3]]\n", "device 2 of 4 has no links"),
            ("[[network.links]]\nbetween = [[0, 0]]\n", "fewer than two devices"),
            ("[[network.links]]\nbetween = [[0, 1], [1, 1]]\n", "a link leads from 1 to itself"),
            ("[[network.links]]\nbetween = [[0, 512]]\n", "device 512 is out of range"),
            ("[[network.links]]\nbetween = [[0, -1]]\n", "the number of a device or the name of a switch"),
            ("[[network.links]]\nbetween = [[0, 1.5]]\n", "the number of a device or the name of a switch"),
            ("[[network.links]]\nbetween = [[0, 1]]\none_way = 0\n", "below 1000"),
            ("[[network.links]]\nbetween = [[0, 1]]\nhop_latency = 1\n", "unit"),
            ("[[network.links]]\nbetween = [[0, \"s\"], [1, \"s\"]]\n", "unknown switch `s`; add `switches = [\"s\"]`"),
            (
                "switches = [\"s\"]\n[[network.links]]\nbetween = [[0, \"s\"], [1, \"t\"]]\n",
                "link 1->t: unknown switch `t`; `switches` lists s",
            ),
            ("switches = [\"s\", \"s\"]\n[[network.links]]\nbetween = [[0, \"s\"], [1, \"s\"]]\n", "listed twice"),
            ("switches = [\"s\"]\n[[network.links]]\nbetween = [[0, 1]]\n", "switch `s` has no links"),
            (
                "switches = [\"s\"]\n[[network.links]]\nbetween = [[0, 1], [0, \"s\"]]\n",
                "switch `s` has links to one node only",
            ),
            (
                "ports = 1\n[[network.links]]\nbetween = [[0, 1], [1, 2]]\n",
                "2 links lead into device 1, and `ports` is 1",
            ),
            ("devices = 3\n[[network.links]]\nbetween = [[0, 1]]\n", "2 devices, and `devices` is 3"),
            ("switch = \"store_and_forward\"\n[[network.links]]\nbetween = [[0, 1]]\n", "a fabric has no `switch`"),
            (
                "[[network.links]]\nbetween = [[0, 1]]\n[[beyond]]\nname = \"b\"\none_way = 5e10\nhop_latency = \"1us\"\nwiring = \"switch\"\n",
                "remove `[[beyond]]`",
            ),
        ] {
            let found = read(&format!("{FABRIC}{network}")).expect_err(network);
            assert!(found.contains(error), "{network}: {found}");
        }
        let many: String = (0..2049).map(|_| "[0, 1], ").collect();
        let found = read(&format!("{FABRIC}[[network.links]]\nbetween = [{many}]\n")).expect_err("too many");
        assert!(found.contains("4098 links"), "{found}");
        let ring = FABRIC.replace("fabric", "ring");
        let found = read(&format!("{ring}[[network.links]]\nbetween = [[0, 1]]\n")).expect_err("a ring");
        assert!(found.contains("keys of a fabric"), "{found}");
        // Nine links through switches, one after the other.
        let switches: Vec<String> = (0..8).map(|number| format!("\"s{number}\"")).collect();
        let chain: Vec<String> = (1..8).map(|at| format!("[\"s{}\", \"s{at}\"]", at - 1)).collect();
        let long = format!(
            "switches = [{}]\n[[network.links]]\nbetween = [[0, \"s0\"], {}, [\"s7\", 1]]\n",
            switches.join(", "),
            chain.join(", ")
        );
        let found = read(&format!("{FABRIC}{long}")).expect_err("too long");
        assert!(found.contains("has 9 links through switches; the limit is 8"), "{found}");
    }

    #[test]
    fn a_fabric_is_written_as_it_was_read() {
        let text = "switches = [\"s\"]\nports = 2\n[[network.links]]\nbetween = [[0, \"s\"], [1, \"s\"]]\none_way = 2e10\n\
                    [[network.links]]\nfrom_to = [[0, 1]]\nhop_latency = \"3us\"\n";
        let mut hardware = read(&format!("{FABRIC}{text}")).expect("a profile");
        hardware.name = "mine".to_owned();
        assert_eq!(Hardware::from_toml(&hardware.to_toml()), Ok(hardware));
    }

    /// The error of a program on the shipped example, or of its links: the code, the message and the help.
    fn refused(mesh: &str) -> [String; 3] {
        let text = include_str!("../../examples/machines/rails.toml");
        let hardware = Some(Hardware::from_toml(text).expect("a profile"));
        let source = format!("{mesh}\ndims {{I: 64}}\nA: bf16[I]\noutput A\n");
        let program = compiler::check(&source).0.expect("a correct program");
        let found = compiler::compile(&program, &Options { hardware, ..Options::default() }).expect_err(mesh);
        let first = found.iter().next().expect("an error");
        [first.code.clone(), first.message.clone(), first.help.clone().unwrap_or_default()]
    }

    #[test]
    fn a_mesh_fits_its_fabric() {
        for (mesh, code, message, help) in [
            (
                "mesh {X: 4}",
                "fabric-size",
                "the mesh has 4 devices, the fabric of `rails` has 8",
                "use a mesh of 8 devices",
            ),
            ("mesh {D: 8, X: 2}", "fabric-size", "the mesh has 16 devices", "which may have several axes"),
            (
                "mesh {X: 8 ring}",
                "fabric-axis",
                "axis `X` cannot have a wiring of its own on `rails`",
                "remove the wiring",
            ),
            ("mesh {D: 2 over rails, X: 4}", "fabric-axis", "axis `D` cannot have a network", "remove the network"),
            ("mesh {X: 8}\nlink (0)->(1) down", "no-link", "the profile lists the links of a fabric", ""),
        ] {
            let found = refused(mesh);
            assert_eq!(found[0], code, "{mesh}: {found:?}");
            assert!(found[1].contains(message) && found[2].contains(help), "{mesh}: {found:?}");
        }
    }
}
