//! What a bound counts, in words for people.

use crate::mesh::{DeviceId, Mesh};
use crate::units::Bytes;
use itertools::Itertools;
use std::fmt;

/// Why nothing can be faster. V is the full form in one group: what a gather makes, what a reduction starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing has to move.
    Nothing,
    /// The way to the farthest device, with however few bytes.
    Hops,
    /// Bytes that must come into some devices.
    Into(Region),
    /// Bytes that must leave some devices.
    OutOf(Region),
    /// The sends of an AllReduce between parts of a group.
    Between {
        /// Sends of each element: 2(p-1) for p parts.
        sends: u64,
        /// How many parts.
        parts: u64,
        /// Whether a part is one device.
        single: bool,
        /// The links between the parts.
        links: u64,
    },
    /// Bytes that must cross the links of an axis in parts, which the groups of all parts share.
    Shared {
        /// So many.
        bytes: Bytes,
        /// What these links carry together in a second.
        capacity: Bytes,
    },
    /// Bytes times the links that each byte must cross.
    Along {
        /// Which links: `the links along X`, `all links`.
        links: String,
        /// What each of them carries on average.
        each: Bytes,
    },
    /// What each device has to send where a switch adds.
    Added,
    /// Bytes that leave devices by their engines.
    Engines {
        /// What each of them sends on average.
        each: Bytes,
    },
}

/// Some devices, and what crosses their border.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Who: `device (0,0)`, `the 4 devices X=0`, `each device`.
    pub devices: String,
    /// Whether it is one.
    pub single: bool,
    /// What must cross.
    pub bytes: Bytes,
    /// The same as a fraction of V, where there is one group, or all groups are alike.
    pub share: Option<(u128, u128)>,
    /// Over so many links.
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
        write!(f, " over {}", count(self.links, "link"))
    }
}

impl fmt::Display for Reason {
    /// `the 4 devices X=0 take in 3/4 of V over 8 links`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Nothing => f.write_str("nothing has to move"),
            Reason::Added => f.write_str("where the switch adds, half of what is sent otherwise is enough"),
            Reason::Hops => f.write_str("hops, not bytes, take the time"),
            Reason::Shared { bytes, capacity } => {
                write!(f, "{bytes} over {capacity}/s: the groups of all parts of an axis share its links")
            }
            Reason::Into(region) => region.show(f, "takes in", "take in"),
            Reason::OutOf(region) => region.show(f, "sends out", "send out"),
            Reason::Between { sends, parts, single, links } => {
                let what = if *single { "devices" } else { "parts of the mesh" };
                let links = count(*links, "link");
                write!(f, "each element is sent {sends} times between {parts} {what} over {links}")
            }
            Reason::Along { links, each } => write!(f, "{links} carry {each} each on average"),
            Reason::Engines { each } => write!(f, "each device sends {each} by its engine on average"),
        }
    }
}

fn count(number: u64, word: &str) -> String {
    if number == 1 { format!("{number} {word}") } else { format!("{number} {word}s") }
}

/// A set of devices in words: by its coordinates if it is a box, else by its first few.
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

/// The least and the greatest coordinate.
fn spread(mesh: &Mesh, devices: &[DeviceId], axis: crate::mesh::AxisId) -> (u32, u32) {
    let coordinates = devices.iter().map(|device| mesh.coordinate(*device, axis));
    coordinates.minmax().into_option().unwrap_or_default()
}
