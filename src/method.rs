//! Methods for scheduling collectives.

/// A method for scheduling a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// Whole shards, one link per step towards higher coordinates, all the way around.
    ClockwiseRing,
    /// Whole shards, one link per step towards lower coordinates, all the way around.
    AnticlockwiseRing,
    /// One half of each shard clockwise, the other anticlockwise, both all the way around.
    BidirectionalRingPair,
    /// Whole shards in both directions, until they meet halfway around.
    MeetInMiddleRing,
    /// Like [`Method::MeetInMiddleRing`], but the shard of the antipode arrives in two halves, one from each side.
    BalancedMeetInMiddleRing,
    /// Whole shards in both directions, up to the ends; the data for the farthest device first.
    Line,
    /// Every device sends to every other one directly, over a switch.
    OneHop,
    /// Every device sends its data to every other one: shards directly, partial results whole and link by link. After a
    /// ReduceScatter each keeps its shard of their combination.
    Broadcast,
    /// Like [`Method::Broadcast`] for partial results on a line, up to its ends.
    LineBroadcast,
    /// In round k each device exchanges its data with the one 2^k away; whole values are exchanged and combined.
    RecursiveDoubling,
    /// Recursive doubling in reverse order: the farthest device first, while messages are small.
    RecursiveHalving,
    /// In round k each device receives the data of the one 2^k further up; for any number of devices.
    Bruck,
    /// Distances 1, 1, 3, 5, 11, .. alternating between both sides, one half of each shard in the opposite direction.
    Swing,
    /// Sums flow up a binary tree and back, in chunks.
    Tree,
    /// The halves of each value on two binary trees; an inner node of one is a leaf of the other.
    DoubleBinaryTree,
    /// Sums flow from both ends of a line to its middle and back, in chunks.
    Chain,
    /// Whole values are shifted by 1, 2, .. and added in one step.
    FuriosaRotation,
    /// Each device slices its value along a diagonal; the slices are shifted and added in one step.
    FuriosaDiagonal,
    /// Like [`Method::FuriosaRotation`] on an even ring, but the value of the antipode arrives in two halves, one from each
    /// side, and is sent first.
    BalancedFuriosaRotation,
    /// Like [`Method::FuriosaDiagonal`] on an even ring, but the slice for the antipode is sent first, in two halves, one in
    /// each direction.
    BalancedFuriosaDiagonal,
    /// Each message goes directly from its source to its destination, the shorter way.
    Direct,
    /// Direct, but messages to the antipode of a ring are sent as two halves, one in each direction.
    DirectHalves,
    /// Direct, but messages to the antipode go upwards from even devices and downwards from odd ones.
    DirectParity,
    /// Neighbour to neighbour on a ring, each block separately, the farthest first; half each way to the antipode.
    LinkByLink,
    /// Neighbour to neighbour on a ring: all blocks that continue in the same direction form one message.
    Bundled,
    /// Neighbour to neighbour on a line: all blocks for devices further on form one message.
    LineBundled,
    /// The root sends each other device its part, and all gather the parts.
    ScatterGather,
    /// Several axes at once: parts of each shard traverse the axes in different orders, in chunks.
    Multiport,
    /// Quarters of each shard along two edge-disjoint Hamiltonian cycles of a torus, in both directions.
    QuadDirectionalRing,
    /// A part of each shard along an axis of replicas: sliced over it, gathered, and gathered along it again.
    IdleAxis,
    /// Trees packed for the available links, in chunks; no link carries more than necessary.
    TreePacking,
    /// Each piece from the nearest device that holds it to all devices that need it, along routes that balance the load of
    /// the links.
    Routed,
    /// In-switch reduction: each device sends its data once and receives the sum once.
    SwitchSum,
}

/// A family of methods with a common implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Shards or partial sums forwarded from neighbour to neighbour.
    Flow(Flow),
    /// About log2 n rounds.
    Doubling(Doubling),
    /// Chunks along a tree, and back.
    Trees(Trees),
    /// Each message from its source to its destination.
    Direct,
    /// Whole values from neighbour to neighbour, combined on arrival.
    Whole,
    /// Several axes at once.
    Several,
}

/// A ring or line method.
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

/// A method of log2 n rounds.
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

/// A tree method.
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
    /// All methods.
    pub const ALL: [Method; 33] = [
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
        Method::BalancedFuriosaRotation,
        Method::BalancedFuriosaDiagonal,
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

    /// The name as written after `using`.
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
            Method::BalancedFuriosaRotation => "balanced_furiosa_rotation",
            Method::BalancedFuriosaDiagonal => "balanced_furiosa_diagonal",
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

    /// The family of the method.
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
            Method::BalancedFuriosaRotation | Method::BalancedFuriosaDiagonal => Family::Direct,
            Method::Direct | Method::DirectHalves | Method::DirectParity | Method::Bundled => Family::Direct,
            Method::LinkByLink | Method::LineBundled | Method::ScatterGather => Family::Direct,
            Method::Broadcast | Method::LineBroadcast => Family::Whole,
            Method::Multiport | Method::QuadDirectionalRing | Method::IdleAxis => Family::Several,
            Method::TreePacking | Method::Routed | Method::SwitchSum => Family::Several,
        }
    }

    /// Whether it is used only on request with `using`, even if it is the fastest.
    pub fn is_on_request(self) -> bool {
        matches!(self, Method::IdleAxis | Method::QuadDirectionalRing)
    }

    /// Whether it splits a sum into pipelined chunks.
    pub fn in_chunks(self) -> bool {
        matches!(self.family(), Family::Trees(_))
    }

    /// Finds a method by name.
    pub fn from_name(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.name() == name)
    }
}
