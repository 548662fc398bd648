//! GOAL, the text format of LogGOPSim: <https://github.com/spcl/LogGOPSim>.
//!
//! Each rank lists its sends, receives and computations, each with a label, and the labels that must be done first.
//! Computations are given in nanoseconds.

use super::messages::{Messages, What};
use std::fmt::Write;

/// The text of messages.
///
/// - `memory`: nanoseconds for reading and writing a number of bytes.
pub fn write(messages: &Messages, memory: impl Fn(u64) -> u64) -> String {
    let mut text = format!("num_ranks {}\n", messages.ranks.len());
    for (rank, nodes) in messages.ranks.iter().enumerate() {
        writeln!(text, "\nrank {rank} {{").expect("a string takes all");
        for (number, node) in nodes.iter().enumerate() {
            let label = number + 1;
            match node.what {
                What::Send { to, tag, bytes } => writeln!(text, "l{label}: send {bytes}b to {to} tag {tag}"),
                What::Receive { from, tag, bytes } => writeln!(text, "l{label}: recv {bytes}b from {from} tag {tag}"),
                What::Compute { bytes } => writeln!(text, "l{label}: calc {}", memory(bytes)),
            }
            .expect("a string takes all");
        }
        for (number, node) in nodes.iter().enumerate() {
            for before in &node.after {
                writeln!(text, "l{} requires l{}", number + 1, before + 1).expect("a string takes all");
            }
        }
        text.push_str("}\n");
    }
    text
}
