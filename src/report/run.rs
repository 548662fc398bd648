//! What the proof, the clock and the numbers say of a schedule: as documents, and in lines for people.

use super::seconds::Seconds;
use crate::mesh::Mesh;
use crate::sim::clock::{AxisLoad, Order, Timing};
use crate::sim::proof::Proof;
use crate::sim::usage::Usage;
use crate::sim::values::Numerics;
use crate::topology::Topology;
use crate::units::{Bytes, Time};
use itertools::Itertools;
use serde::Serialize;
use std::fmt::Write as _;

/// What is sent: of the device that has most, and on average.
#[derive(Debug, Serialize)]
pub(super) struct Traffic {
    bytes_sent_per_device: u64,
    pub(super) bytes_received_per_device: u64,
    mean_bytes_received_per_device: f64,
    messages_received_per_device: u64,
}

impl Traffic {
    pub(super) fn new(usage: &Usage) -> Traffic {
        Traffic {
            bytes_sent_per_device: usage.sent.most,
            bytes_received_per_device: usage.received.most,
            mean_bytes_received_per_device: usage.received.mean(),
            messages_received_per_device: usage.messages.most,
        }
    }
}

/// What a device sends, receives and holds, in a line.
pub(super) fn usage(usage: &Usage) -> String {
    let peak = usage.peak;
    if usage.received.most == 0 {
        return format!("each device holds at most {peak} and receives nothing");
    }
    let (received, sent) = (Bytes(usage.received.most), Bytes(usage.sent.most));
    let messages = match usage.messages.most {
        1 => "1 message".to_owned(),
        messages => format!("{messages} messages"),
    };
    format!("each device receives at most {received} in {messages}, sends at most {sent} and holds at most {peak}")
}

/// The simulated time against a time that nothing beats.
#[derive(Debug, Serialize)]
pub(super) struct Makespan {
    pub(super) makespan_s: Seconds,
    pub(super) bound_s: Seconds,
    pub(super) ratio: f64,
    busiest_link: Option<String>,
    links: Vec<LinksDocument>,
    engines: Vec<Engine>,
    /// In which order links serve, unless it is that of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<&'static str>,
    /// How long the busiest link is busy.
    #[serde(skip)]
    link_s: Seconds,
}

/// What the links along an axis of the machine carry.
#[derive(Debug, Serialize)]
pub(super) struct LinksDocument {
    axis: String,
    /// On the link that carries most.
    bytes_per_link: u64,
    mean_bytes_per_link: f64,
    /// Links that the messages of a device pass, on average; a switch counts once.
    mean_hops_per_device: f64,
    /// Of the link that is busy longest.
    busy_s: Seconds,
}

pub(super) fn links(loads: &[AxisLoad], topology: &Topology) -> Vec<LinksDocument> {
    let of = |load: &AxisLoad| LinksDocument {
        axis: topology.machine.axis(load.axis).name.clone(),
        bytes_per_link: load.most.0,
        mean_bytes_per_link: load.mean(),
        mean_hops_per_device: load.mean_hops(),
        busy_s: Seconds::new(load.busy, topology),
    };
    loads.iter().map(of).collect()
}

/// An engine on the device where it is busy longest.
#[derive(Debug, Serialize)]
struct Engine {
    name: String,
    busy_s: Seconds,
    utilisation: f64,
}

impl Makespan {
    pub(super) fn new(timing: &Timing, bound: Time, topology: &Topology) -> Makespan {
        let seconds = |time| Seconds::new(time, topology);
        let engine = |(name, busy): (&String, &Time)| Engine {
            name: name.clone(),
            busy_s: seconds(*busy),
            utilisation: if *busy == Time::ZERO { 0.0 } else { busy.ratio(timing.makespan) },
        };
        Makespan {
            makespan_s: seconds(timing.makespan),
            bound_s: seconds(bound),
            ratio: timing.makespan.ratio(bound),
            busiest_link: timing.busiest.map(|link| topology.show_link(link).to_string()),
            links: links(&timing.axis_loads(topology), topology),
            engines: topology.hardware.engines.names().iter().zip(&timing.engines).map(engine).collect(),
            order: match timing.order {
                Order::Listed => None,
                Order::Arrival => Some("arrival"),
            },
            link_s: seconds(timing.busiest_link_time()),
        }
    }

    /// Which link is busy for longest.
    pub(super) fn link(&self) -> String {
        let line = |link| format!("         the busiest link is {link}, for {}\n", self.link_s);
        self.busiest_link.as_ref().map(line).unwrap_or_default()
    }

    /// In which order links and engines serve, where that is not as listed; how busy engines are, where there are several.
    pub(super) fn service(&self) -> String {
        let mut text = match self.order {
            None => String::new(),
            Some(_) => "         links and engines serve first come, first served\n".to_owned(),
        };
        if self.engines.len() > 1 {
            let engine =
                |engine: &Engine| format!("{} {} ({:.0} %)", engine.name, engine.busy_s, 100.0 * engine.utilisation);
            let engines = self.engines.iter().map(engine).join(", ");
            writeln!(text, "         engines are busy for at most: {engines}").expect("a string");
        }
        text
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ProofDocument {
    proven: bool,
    operations: usize,
    /// Devices on which the operations were followed.
    followed: usize,
    /// The axes along which the others are their images.
    collapsed: Vec<String>,
}

impl ProofDocument {
    pub(super) fn new(proof: Option<&Proof>, mesh: &Mesh) -> ProofDocument {
        ProofDocument {
            proven: proof.is_some(),
            operations: proof.map_or(0, |proof| proof.operations),
            followed: proof.map_or(0, |proof| proof.followed),
            collapsed: proof.map(|proof| collapsed(proof, mesh)).unwrap_or_default(),
        }
    }
}

fn collapsed(proof: &Proof, mesh: &Mesh) -> Vec<String> {
    proof.collapsed.iter().map(|axis| mesh.axis(axis).name.clone()).collect()
}

/// On larger meshes it is said on how many devices a proof has followed the schedule.
const MANY_DEVICES: usize = 64;

/// What was proven, in a line; on large meshes with a second one.
pub fn proof(proof: &Proof, mesh: &Mesh) -> String {
    let (devices, followed) = (proof.devices, proof.followed);
    let mut text =
        format!("proven   {} operations on {devices} devices give the right result for all data\n", proof.operations);
    if devices > MANY_DEVICES {
        let how = match proof.collapsed.is_empty() {
            true => format!("not collapsed: followed on all {devices} devices"),
            false => format!(
                "followed on {followed} of {devices} devices; the others are images under translation along {}",
                collapsed(proof, mesh).join(", ")
            ),
        };
        writeln!(text, "         {how}").expect("a string");
    }
    text
}

#[derive(Debug, Serialize)]
pub(super) struct NumericsDocument {
    equal: bool,
    max_abs_error: f64,
    max_rel_error: f64,
    elements: u64,
    not_compared: u64,
}

impl From<&Numerics> for NumericsDocument {
    fn from(numerics: &Numerics) -> NumericsDocument {
        let Numerics { equal, max_abs_error, max_rel_error, elements, not_compared, .. } = *numerics;
        NumericsDocument { equal, max_abs_error, max_rel_error, elements, not_compared }
    }
}

/// The comparison with the dense result, a line for all outputs together, and one for what it says nothing about.
pub fn numerics(numerics: &Numerics) -> String {
    let Numerics { elements, not_compared, max_abs_error: error, tolerance, .. } = numerics;
    let compared = elements - not_compared;
    let line = if numerics.equal {
        format!("equal    all {elements} elements equal the dense result\n")
    } else if !numerics.within {
        format!("WRONG    {compared} elements, off by {error:.3e} where rounding may cost {tolerance:.3e}\n")
    } else if *error > 0.0 {
        format!("close    {compared} elements, off by at most {error:.3e} where rounding may cost {tolerance:.3e}\n")
    } else {
        format!("equal    {compared} of {elements} elements equal the dense result\n")
    };
    if *not_compared == 0 {
        return line;
    }
    line + &format!("         {not_compared} of {elements} elements could overflow or cancel; not compared\n")
}
