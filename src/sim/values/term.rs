//! An element with its rounding bound.

/// An element with its bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub(super) value: f64,
    pub(super) bound: f64,
}

impl Term {
    /// The largest magnitude that may have been computed.
    pub(super) fn most(self) -> f64 {
        self.value.abs() + 2.0 * self.bound
    }

    /// The interval of the values that may have been computed.
    pub(super) fn interval(self) -> [f64; 2] {
        [self.value - 2.0 * self.bound, self.value + 2.0 * self.bound]
    }
}
