//! A schedule, interpreted: each child gives another meaning to the same operations and knows nothing of the others.

pub mod clock;
