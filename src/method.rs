//! The names of the ways in which a collective can be scheduled.

/// How a collective is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Whole shards, one link a step towards higher coordinates, all the way round.
    ClockwiseRing,
    /// The same towards lower coordinates.
    AnticlockwiseRing,
    /// One half of each shard goes clockwise, the other anticlockwise, both all the way round.
    BidirectionalRingPair,
    /// Whole shards both ways, until they meet half-way round.
    MeetInMiddleRing,
    /// The same, but the shard of the antipode comes in two halves, one from each side.
    BalancedMeetInMiddleRing,
    /// Whole shards both ways, up to the ends; what each device has for each other one, the farthest first.
    Line,
    /// Every device sends to every other one directly, over a switch.
    OneHop,
    /// Every device sends what it has to every other one: shards directly, values to be combined link by link.
    Broadcast,
    /// The same for values to be combined on a line, up to its ends.
    LineBroadcast,
    /// In round k each device takes over all that the one 2^k away holds; whole values are exchanged and combined.
    RecursiveDoubling,
    /// The same with the farthest first, while there is little to send.
    RecursiveHalving,
    /// In round k each device takes over what the one 2^k further up holds; for any number of devices.
    Bruck,
    /// Distances 1, 1, 3, 5, 11, .. by turns to both sides, one half of each shard the other way round.
    Swing,
    /// Sums flow up a binary tree and back, in chunks.
    Tree,
    /// The halves of each value by two binary trees; who has children in one is a leaf of the other.
    DoubleBinaryTree,
    /// Sums flow from both ends of a line to its middle and back, in chunks.
    Chain,
    /// Whole values are shifted by 1, 2, .. and all added at once.
    FuriosaRotation,
    /// Each device slices its value along a diagonal; the slices are shifted and all added at once.
    FuriosaDiagonal,
    /// Each message goes straight from its source to its destination, the shorter way.
    Direct,
    /// The same, but what goes to the antipode of a ring goes in two halves, one each way.
    DirectHalves,
    /// The same, but what goes to the antipode goes upwards from even devices and downwards from odd ones.
    DirectParity,
    /// Neighbour to neighbour around a ring, each block by itself, the farthest first; to the antipode half each way.
    LinkByLink,
    /// Neighbour to neighbour around a ring: all that has still to go the same way goes in one message.
    Bundled,
    /// The same along a line: all that goes to devices farther on, and for those behind what they leave unread.
    LineBundled,
    /// The first device sends each other one its part, and all gather the parts.
    ScatterGather,
    /// Over several axes at once: parts of each shard go through the axes in different orders, in chunks.
    Multiport,
    /// Quarters of each shard around two rings through all devices of a torus that share no link, both ways.
    QuadDirectionalRing,
    /// Part of each shard goes along an axis that holds copies: cut over it, gathered, and spread along it again.
    IdleAxis,
    /// Along trees that are made for the links there are, in chunks: no link carries more than it must.
    TreePacking,
    /// Each piece from the nearest device that has it to all that want it, on ways that are chosen so that links carry
    /// equally much.
    Routed,
    /// The switch adds: each device sends what it has once and receives the sum once.
    SwitchSum,
}

/// The methods that are one idea with other numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// From neighbour to neighbour, shards or partial sums.
    Flow(Flow),
    /// In about log2 n rounds.
    Doubling(Doubling),
    /// In chunks along a tree, and back.
    Trees(Trees),
    /// Each message from its source to its destination.
    Direct,
    /// Whole values from neighbour to neighbour, combined where they arrive.
    Whole,
    /// Over several axes at once.
    Several,
}

/// Which flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// [`Method::ClockwiseRing`]
    Clockwise,
    /// [`Method::AnticlockwiseRing`]
    Anticlockwise,
    /// [`Method::BidirectionalRingPair`]
    Pair,
    /// [`Method::MeetInMiddleRing`]
    MeetInMiddle,
    /// [`Method::BalancedMeetInMiddleRing`]
    Balanced,
    /// [`Method::Line`]
    Line,
}

/// Which rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubling {
    /// [`Method::RecursiveDoubling`]
    NearestFirst,
    /// [`Method::RecursiveHalving`]
    FarthestFirst,
    /// [`Method::Bruck`]
    Bruck,
    /// [`Method::Swing`]
    Swing,
}

/// Which trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trees {
    /// [`Method::Tree`]
    Binary,
    /// [`Method::DoubleBinaryTree`]
    DoubleBinary,
    /// [`Method::Chain`]
    Chain,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 31] = [
        Method::ClockwiseRing,
        Method::AnticlockwiseRing,
        Method::BidirectionalRingPair,
        Method::MeetInMiddleRing,
        Method::BalancedMeetInMiddleRing,
        Method::Line,
        Method::OneHop,
        Method::Broadcast,
        Method::LineBroadcast,
        Method::RecursiveDoubling,
        Method::RecursiveHalving,
        Method::Bruck,
        Method::Swing,
        Method::Tree,
        Method::DoubleBinaryTree,
        Method::Chain,
        Method::FuriosaRotation,
        Method::FuriosaDiagonal,
        Method::Direct,
        Method::DirectHalves,
        Method::DirectParity,
        Method::LinkByLink,
        Method::Bundled,
        Method::LineBundled,
        Method::ScatterGather,
        Method::Multiport,
        Method::QuadDirectionalRing,
        Method::IdleAxis,
        Method::TreePacking,
        Method::Routed,
        Method::SwitchSum,
    ];

    /// As it is written after `using`.
    pub fn name(self) -> &'static str {
        match self {
            Method::ClockwiseRing => "clockwise_ring",
            Method::AnticlockwiseRing => "anticlockwise_ring",
            Method::BidirectionalRingPair => "bidirectional_ring_pair",
            Method::MeetInMiddleRing => "meet_in_middle_ring",
            Method::BalancedMeetInMiddleRing => "balanced_meet_in_middle_ring",
            Method::Line => "line",
            Method::OneHop => "one_hop",
            Method::Broadcast => "broadcast",
            Method::LineBroadcast => "line_broadcast",
            Method::RecursiveDoubling => "recursive_doubling",
            Method::RecursiveHalving => "recursive_halving",
            Method::Bruck => "bruck",
            Method::Swing => "swing",
            Method::Tree => "tree",
            Method::DoubleBinaryTree => "double_binary_tree",
            Method::Chain => "chain",
            Method::FuriosaRotation => "furiosa_rotation",
            Method::FuriosaDiagonal => "furiosa_diagonal",
            Method::Direct => "direct",
            Method::DirectHalves => "direct_halves",
            Method::DirectParity => "direct_parity",
            Method::LinkByLink => "link_by_link",
            Method::Bundled => "bundled",
            Method::LineBundled => "line_bundled",
            Method::ScatterGather => "scatter_gather",
            Method::Multiport => "multiport",
            Method::QuadDirectionalRing => "quad_directional_ring",
            Method::IdleAxis => "idle_axis",
            Method::TreePacking => "tree_packing",
            Method::Routed => "routed",
            Method::SwitchSum => "switch_sum",
        }
    }

    /// What it has in common with others.
    pub fn family(self) -> Family {
        match self {
            Method::ClockwiseRing => Family::Flow(Flow::Clockwise),
            Method::AnticlockwiseRing => Family::Flow(Flow::Anticlockwise),
            Method::BidirectionalRingPair => Family::Flow(Flow::Pair),
            Method::MeetInMiddleRing => Family::Flow(Flow::MeetInMiddle),
            Method::BalancedMeetInMiddleRing => Family::Flow(Flow::Balanced),
            Method::Line => Family::Flow(Flow::Line),
            Method::RecursiveDoubling => Family::Doubling(Doubling::NearestFirst),
            Method::RecursiveHalving => Family::Doubling(Doubling::FarthestFirst),
            Method::Bruck => Family::Doubling(Doubling::Bruck),
            Method::Swing => Family::Doubling(Doubling::Swing),
            Method::Tree => Family::Trees(Trees::Binary),
            Method::DoubleBinaryTree => Family::Trees(Trees::DoubleBinary),
            Method::Chain => Family::Trees(Trees::Chain),
            Method::OneHop | Method::FuriosaRotation | Method::FuriosaDiagonal => Family::Direct,
            Method::Direct | Method::DirectHalves | Method::DirectParity | Method::Bundled => Family::Direct,
            Method::LinkByLink | Method::LineBundled | Method::ScatterGather => Family::Direct,
            Method::Broadcast | Method::LineBroadcast => Family::Whole,
            Method::Multiport | Method::QuadDirectionalRing | Method::IdleAxis => Family::Several,
            Method::TreePacking | Method::Routed | Method::SwitchSum => Family::Several,
        }
    }

    /// Whether it is taken only where `using` asks for it, however fast it is.
    pub fn is_on_request(self) -> bool {
        matches!(self, Method::IdleAxis | Method::QuadDirectionalRing)
    }

    /// Whether a sum by it is cut into chunks that follow each other.
    pub fn in_chunks(self) -> bool {
        matches!(self.family(), Family::Trees(_))
    }

    /// The method of that name.
    pub fn from_name(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.name() == name)
    }
}
