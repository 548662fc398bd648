//! One schedule, interpreted three ways: on numbers, on symbols, on time. The interpreters know nothing of each other.

pub mod clock;
pub mod proof;
pub mod values;
