//! Results of proof, clock and numeric comparison of a schedule, as text and as JSON.

use super::seconds::Seconds;
use crate::mesh::Mesh;
use crate::sim::clock::{AxisLoad, Order, Timing};
use crate::sim::proof::Proof;
use crate::sim::usage::Usage;
use crate::sim::values::Numerics;
use crate::topology::Topology;
use crate::units::{Bytes, Time, counted, grouped};
use itertools::Itertools;
use serde::Serialize;
use std::fmt::Write as _;

/// Traffic: of the device with the most, and on average.
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

/// Formats the traffic and the peak memory of a device in one line.
pub(super) fn usage(usage: &Usage) -> String {
    let peak = usage.peak;
    if usage.received.most == 0 {
        return format!("per device: no communication, peak memory {peak}");
    }
    let (received, sent) = (Bytes(usage.received.most), Bytes(usage.sent.most));
    let messages = counted(usage.messages.most, "message");
    format!("per device: receives up to {received} in {messages}, sends up to {sent}, peak memory {peak}")
}

/// The simulated time and its lower bound.
#[derive(Debug, Serialize)]
pub(super) struct Makespan {
    pub(super) makespan_s: Seconds,
    pub(super) bound_s: Seconds,
    pub(super) ratio: f64,
    busiest_link: Option<String>,
    links: Vec<LinksDocument>,
    engines: Vec<Engine>,
    /// Service order of the links, if not list order.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<&'static str>,
    /// Busy time of the busiest link.
    #[serde(skip)]
    link_s: Seconds,
}

/// Load of the links along a machine axis.
#[derive(Debug, Serialize)]
pub(super) struct LinksDocument {
    axis: String,
    /// Bytes on the most loaded link.
    bytes_per_link: u64,
    mean_bytes_per_link: f64,
    /// Mean number of links that the messages of a device cross; a switch counts once.
    mean_hops_per_device: f64,
    /// Busy time of the busiest link.
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

/// Busy time of an engine, on the device where it is busiest.
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

    /// Formats the busiest link.
    pub(super) fn link(&self) -> String {
        let line = |link| format!("         busiest link {link}, busy for {}\n", self.link_s);
        self.busiest_link.as_ref().map(line).unwrap_or_default()
    }

    /// Formats the service order, if not list order, and the busy times of engines, if there are several.
    pub(super) fn service(&self) -> String {
        let mut text = match self.order {
            None => String::new(),
            Some(_) => "         links and engines serve first come, first served\n".to_owned(),
        };
        if self.engines.len() > 1 {
            let engine =
                |engine: &Engine| format!("{} {} ({:.0} %)", engine.name, engine.busy_s, 100.0 * engine.utilisation);
            let engines = self.engines.iter().map(engine).join(", ");
            writeln!(text, "         engine busy times: {engines}").expect("a string");
        }
        text
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ProofDocument {
    proven: bool,
    operations: usize,
    /// Number of devices on which the operations were checked.
    followed: usize,
    /// Axes along which the other devices follow by symmetry.
    collapsed: Vec<String>,
    /// Declared kernels, whose sharding rules are taken as declared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kernels: Vec<String>,
}

impl ProofDocument {
    pub(super) fn new(proof: Option<&Proof>, mesh: &Mesh) -> ProofDocument {
        ProofDocument {
            proven: proof.is_some(),
            operations: proof.map_or(0, |proof| proof.operations),
            followed: proof.map_or(0, |proof| proof.followed),
            collapsed: proof.map(|proof| collapsed(proof, mesh)).unwrap_or_default(),
            kernels: proof.map(|proof| proof.kernels.clone()).unwrap_or_default(),
        }
    }
}

fn collapsed(proof: &Proof, mesh: &Mesh) -> Vec<String> {
    proof.collapsed.iter().map(|axis| mesh.axis(axis).name.clone()).collect()
}

/// On larger meshes the number of checked devices is printed.
const MANY_DEVICES: usize = 64;

/// Formats what was proven in one line, on large meshes in two.
pub fn proof(proof: &Proof, mesh: &Mesh) -> String {
    let (devices, followed) = (proof.devices, proof.followed);
    let operations = counted(proof.operations as u64, "operation");
    let on = counted(devices as u64, "device");
    let mut text = format!("proven   {operations} on {on}, correct for all inputs\n");
    if devices > MANY_DEVICES {
        let how = match proof.collapsed.is_empty() {
            true => format!("checked on all {devices} devices"),
            false => format!(
                "checked on {followed} of {devices} devices; the others follow by symmetry along {}",
                collapsed(proof, mesh).join(", ")
            ),
        };
        writeln!(text, "         {how}").expect("a string");
    }
    if !proof.kernels.is_empty() {
        let kernels = proof.kernels.iter().map(|kernel| format!("`{kernel}`")).join(", ");
        writeln!(text, "         declared kernels are taken as declared: {kernels}").expect("a string");
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

/// Formats a non-negative figure with three significant digits.
fn figure(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        0.01..1000.0 => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}

/// Formats the comparison with the dense result: a line for all outputs, and a line for elements not compared.
pub fn numerics(numerics: &Numerics) -> String {
    let Numerics { elements, not_compared, max_abs_error: error, tolerance, .. } = numerics;
    if not_compared == elements && !numerics.equal {
        let what =
            if *elements == 1 { "the element".to_owned() } else { format!("all {} elements", grouped(*elements)) };
        return format!("unclear  not compared: {what} may overflow or cancel\n");
    }
    let (compared, elements) = (grouped(elements - not_compared), grouped(*elements));
    let line = if numerics.equal && elements == "1" {
        "equal    the element equals the dense result\n".to_owned()
    } else if numerics.equal {
        format!("equal    all {elements} elements equal the dense result\n")
    } else if !numerics.within {
        format!(
            "WRONG    max abs error {} exceeds tolerance {}, {compared} elements\n",
            figure(*error),
            figure(*tolerance)
        )
    } else if *error > 0.0 {
        format!("close    max abs error {} (tolerance {}), {compared} elements\n", figure(*error), figure(*tolerance))
    } else {
        format!("equal    all {compared} compared elements equal the dense result\n")
    };
    if *not_compared == 0 {
        return line;
    }
    line + &format!(
        "         {} of {elements} elements not compared: they may overflow or cancel\n",
        grouped(*not_compared)
    )
}
