//! A schedule, interpreted: on symbols, on numbers, on time. The interpreters know nothing of each other.

pub mod proof;
