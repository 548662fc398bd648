//! One schedule, interpreted four ways: on numbers, on symbols, on time, and by counting. The interpreters know nothing of
//! each other.

pub mod clock;
pub mod proof;
pub mod usage;
pub mod values;
