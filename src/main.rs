//! The `shardc` command.

fn main() {}
