//! One schedule, interpreted: on numbers, on symbols, on time. The interpreters know nothing of each other.

pub mod values;
