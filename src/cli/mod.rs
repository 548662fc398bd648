//! The command line: the only place that meets files, the terminal and the clock.

pub mod render;
