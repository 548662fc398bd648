//! Explanations of lower bounds.

use crate::mesh::{DeviceId, Mesh};
use crate::units::{Bytes, counted};
use itertools::Itertools;
use std::fmt;

/// The reason for a lower bound. V is the size of the full array in one group: the result of a gather, the input of a
/// reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No communication.
    Nothing,
    /// Latency of the hops to the farthest device.
    Hops,
    /// Bytes that a set of devices must receive.
    Into(Region),
    /// Bytes that a set of devices must send.
    OutOf(Region),
    /// Bytes of distant devices that a device must receive, or bytes for them that it must send.
    Far {
        /// The device, its bytes and its links.
        region: Region,
        /// The latency of the way, at least.
        away: String,
        /// Whether they are sent.
        is_sent: bool,
    },
    /// Either two hops in sequence, or a message between any two devices.
    Rounds,
    /// Sends of an AllReduce between parts of a group.
    Between {
        /// Sends of each element: 2(p-1) for p parts.
        sends: u64,
        /// Number of parts.
        parts: u64,
        /// Whether a part is one device.
        single: bool,
        /// The links between the parts.
        links: u64,
    },
    /// Bytes that must cross the links of a split axis, which the groups of all its parts share.
    Shared {
        /// Bytes to cross.
        bytes: Bytes,
        /// Combined rate of the links, in bytes per second.
        capacity: Bytes,
    },
    /// Bytes that some device must receive over all of its links.
    Device {
        /// The bytes.
        bytes: Bytes,
    },
    /// Bytes times the number of links that each byte must cross.
    Along {
        /// The links: `the links along X`, `all links`.
        links: String,
        /// Average load of a link.
        each: Bytes,
    },
    /// Bytes that each device must send if the switch adds.
    Added,
    /// Bytes that the engines of devices must send.
    Engines {
        /// Average bytes sent by a device.
        each: Bytes,
    },
}

/// A set of devices and the traffic across its border.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The devices: `device (0,0)`, `the 4 devices X=0`, `each device`.
    pub devices: String,
    /// Whether it is a single device.
    pub single: bool,
    /// Bytes that must cross.
    pub bytes: Bytes,
    /// The bytes as a fraction of V, if there is one group or all groups are alike.
    pub share: Option<(u128, u128)>,
    /// Number of links across the border.
    pub links: u64,
}

impl Region {
    fn show(&self, f: &mut fmt::Formatter<'_>, one: &str, many: &str) -> fmt::Result {
        let verb = if self.single { one } else { many };
        write!(f, "{} {verb} ", self.devices)?;
        match self.share {
            Some((1, 1)) => write!(f, "V")?,
            Some((part, whole)) => write!(f, "{part}/{whole} of V")?,
            None => write!(f, "{}", self.bytes)?,
        }
        write!(f, " over {}", counted(self.links, "link"))
    }
}

impl fmt::Display for Reason {
    /// Formats `the 4 devices X=0 receive 3/4 of V over 8 links`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Nothing => f.write_str("no communication"),
            Reason::Added => f.write_str("the switch adds, which halves the traffic"),
            Reason::Hops => f.write_str("latency-bound"),
            Reason::Shared { bytes, capacity } => {
                write!(f, "{bytes} over {capacity}/s; groups along all parts of the axis share its links")
            }
            Reason::Device { bytes } => write!(f, "a device receives {bytes} over its links"),
            Reason::Into(region) => region.show(f, "receives", "receive"),
            Reason::OutOf(region) => region.show(f, "sends", "send"),
            Reason::Rounds => f.write_str("a message between any two devices, or two hops in sequence"),
            Reason::Far { region, away, is_sent: false } => {
                region.show(f, "receives", "receive")?;
                write!(f, " from devices at least {away} away")
            }
            Reason::Far { region, away, is_sent: true } => {
                region.show(f, "sends", "send")?;
                write!(f, " to devices at least {away} away")
            }
            Reason::Between { sends, parts, single, links } => {
                let what = if *single { "devices" } else { "parts of the mesh" };
                let links = counted(*links, "link");
                write!(f, "each element is sent {sends} times between {parts} {what} over {links}")
            }
            Reason::Along { links, each } => write!(f, "{links} carry {each} each on average"),
            Reason::Engines { each } => write!(f, "each device sends {each} through its engine on average"),
        }
    }
}

/// Describes a set of devices: by its coordinates if it is a box, else by its first four.
pub(super) fn name_devices(mesh: &Mesh, devices: &[DeviceId]) -> String {
    let place =
        |device: &DeviceId| format!("({})", mesh.axis_ids().map(|axis| mesh.coordinate(*device, axis)).join(","));
    match devices {
        [] => "no device".to_owned(),
        [only] => format!("device {}", place(only)),
        [..] => {
            let ranges: Vec<_> = mesh.axis_ids().map(|axis| spread(mesh, devices, axis)).collect();
            let inside: u64 = ranges.iter().map(|(least, most)| u64::from(most - least) + 1).product();
            if inside != devices.len() as u64 {
                let first = devices.iter().take(4).map(place).join(" ");
                let rest = if devices.len() > 4 { " .." } else { "" };
                return format!("the {} devices {first}{rest}", devices.len());
            }
            let part = |(axis, (least, most)): (crate::mesh::AxisId, &(u32, u32))| {
                let name = &mesh.axis(axis).name;
                match most - least + 1 {
                    size if size == mesh.axis(axis).size => None,
                    1 => Some(format!("{name}={least}")),
                    _ => Some(format!("{name}={least}..{most}")),
                }
            };
            let parts = mesh.axis_ids().zip(&ranges).filter_map(part).join(", ");
            format!("the {} devices {parts}", devices.len())
        }
    }
}

/// The smallest and the largest coordinate.
fn spread(mesh: &Mesh, devices: &[DeviceId], axis: crate::mesh::AxisId) -> (u32, u32) {
    let coordinates = devices.iter().map(|device| mesh.coordinate(*device, axis));
    coordinates.minmax().into_option().unwrap_or_default()
}
