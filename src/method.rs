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
    /// Over several axes at once: parts of each shard go through the axes in different orders, in chunks.
    Multiport,
    /// Along trees that are made for the links there are, in chunks: no link carries more than it must.
    TreePacking,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 21] = [
        Method::ClockwiseRing,
        Method::AnticlockwiseRing,
        Method::BidirectionalRingPair,
        Method::MeetInMiddleRing,
        Method::BalancedMeetInMiddleRing,
        Method::Line,
        Method::OneHop,
        Method::Broadcast,
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
        Method::Multiport,
        Method::TreePacking,
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
            Method::Multiport => "multiport",
            Method::TreePacking => "tree_packing",
        }
    }

    /// Whether a sum by it is cut into chunks that follow each other.
    pub fn in_chunks(self) -> bool {
        matches!(self, Method::Tree | Method::DoubleBinaryTree | Method::Chain)
    }

    /// The method of that name.
    pub fn from_name(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.name() == name)
    }
}
