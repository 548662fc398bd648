//! Links and hops.

use crate::mesh::{AxisId, DeviceId};
use std::fmt;

/// A link, as an index below [`super::Topology::link_count`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u32);

impl LinkId {
    /// The link with an index; links are numbered with 32 bits.
    pub(crate) fn at(index: usize) -> LinkId {
        LinkId(u32::try_from(index).expect("links are counted when the topology is made"))
    }

    /// The link as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A link of a device along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkSide {
    /// To the next higher coordinate; on a ring also from the last to the first.
    Up,
    /// To the next lower coordinate; on a ring also from the first to the last.
    Down,
    /// The output port into the switch.
    Out,
    /// The input port from the switch.
    In,
    /// In a full mesh, to the device with a coordinate higher by this number, from 1 to the size of the axis less 1; counted
    /// on from 0 after the last.
    Ahead(u32),
    /// The link of a fabric with this number.
    Cable(u32),
}

impl fmt::Display for LinkSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkSide::Up => f.write_str("up"),
            LinkSide::Down => f.write_str("down"),
            LinkSide::Out => f.write_str("out"),
            LinkSide::In => f.write_str("in"),
            LinkSide::Ahead(by) => write!(f, "+{by}"),
            LinkSide::Cable(number) => write!(f, "link {number}"),
        }
    }
}

/// The parts of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    /// Its axis of [`super::Topology::machine`].
    pub axis: AxisId,
    /// The side of the device.
    pub side: LinkSide,
    /// The sending device, or for an input port the receiving one.
    pub device: DeviceId,
}

/// A few links that are used at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Also([Option<LinkId>; Also::MOST]);

impl Also {
    /// Most links.
    pub const MOST: usize = 7;

    /// These links; `None` if there are too many.
    pub fn new(links: &[LinkId]) -> Option<Also> {
        let mut all = Also::default();
        all.0.get_mut(..links.len())?.iter_mut().zip(links).for_each(|(place, link)| *place = Some(*link));
        Some(all)
    }

    /// The links in order.
    pub fn iter(self) -> impl Iterator<Item = LinkId> {
        self.0.into_iter().map_while(|link| link)
    }
}

impl From<Option<LinkId>> for Also {
    fn from(link: Option<LinkId>) -> Also {
        let mut all = Also::default();
        all.0[0] = link;
        all
    }
}

/// One hop of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The axis of [`super::Topology::machine`] of the hop.
    pub axis: AxisId,
    /// The link, or the output port of a switch; on the second hop through a store-and-forward switch, the input port.
    pub link: LinkId,
    /// The links that are busy at the same time: the input port of a cut-through switch, or the other links through the
    /// switches of a fabric.
    pub also: Also,
    /// The device that is reached; `None` while the message is stored in a switch.
    pub to: Option<DeviceId>,
}

impl Hop {
    /// All links that it occupies, that of the sender first.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + use<> {
        std::iter::once(self.link).chain(self.also.iter())
    }
}
