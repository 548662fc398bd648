//! Where the data of an input come from, and how long they are held.

/// How the first array of a computation gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Supply {
    /// Given from outside and held to the end.
    Held,
    /// Given from outside; its blocks may be given up after their last use.
    Donated,
    /// `iota_S`: 0, 1, 2 .. along its one dim. Each device counts by itself, and gives it up like `Donated`.
    Counted,
}

impl Supply {
    /// Whether a caller hands it in.
    pub fn is_given(self) -> bool {
        self != Supply::Counted
    }

    /// Whether its memory is free after the last use.
    pub fn is_given_up(self) -> bool {
        self != Supply::Held
    }
}
