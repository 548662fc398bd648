//! Four interpreters of a schedule: values, symbolic proof, timing, and traffic counts. They do not depend on each
//! other.

pub mod clock;
pub mod proof;
pub mod usage;
pub mod values;
