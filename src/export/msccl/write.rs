//! Writes MSCCL files in exactly the form that the runtimes' parsers accept.

use super::{Calls, Dialect, Options, Program};
use crate::export::ranks::Kind;
use std::fmt::Write;

/// The text of a file.
pub fn write(program: &Program, options: &Options) -> String {
    let mut text = String::new();
    let line = &mut text;
    let put = |line: &mut String, part: std::fmt::Arguments<'_>| line.write_fmt(part).expect("a string takes all");
    put(
        line,
        format_args!(
            "<algo name=\"{}\" proto=\"{}\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" inplace=\"{}\"",
            name(&program.name),
            program.protocol.name(),
            program.channels,
            program.chunks_per_loop,
            program.gpus.len(),
            program.kind.map_or("custom", |kind| word(kind, options.dialect)),
            u8::from(program.calls != Calls::OutOfPlace),
        ),
    );
    if options.dialect == Dialect::Azure {
        put(line, format_args!(" outofplace=\"{}\"", u8::from(program.calls != Calls::InPlace)));
    }
    if let Some((least, most)) = program.sizes {
        put(line, format_args!(" minBytes=\"{least}\" maxBytes=\"{most}\""));
    }
    line.push_str(">\n");
    for (rank, gpu) in program.gpus.iter().enumerate() {
        let [i, o, s] = gpu.chunks;
        put(line, format_args!("  <gpu id=\"{rank}\" i_chunks=\"{i}\" o_chunks=\"{o}\" s_chunks=\"{s}\">\n"));
        for (id, block) in gpu.blocks.iter().enumerate() {
            let peer = |peer: Option<u32>| peer.map_or(-1, i64::from);
            let (send, receive, channel) = (peer(block.send), peer(block.receive), block.channel);
            put(line, format_args!("    <tb id=\"{id}\" send=\"{send}\" recv=\"{receive}\" chan=\"{channel}\">\n"));
            for (number, step) in block.steps.iter().enumerate() {
                let (after, of) = step.after.map_or((-1, -1), |(block, step)| {
                    (i64::try_from(block).unwrap_or(-1), i64::try_from(step).unwrap_or(-1))
                });
                put(
                    line,
                    format_args!(
                        "      <step s=\"{number}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" \
                         dstoff=\"{}\" cnt=\"{}\" depid=\"{after}\" deps=\"{of}\" hasdep=\"{}\"/>\n",
                        step.op.word(),
                        step.source.buffer.letter(),
                        step.source.chunk,
                        step.target.buffer.letter(),
                        step.target.chunk,
                        step.count,
                        u8::from(step.awaited),
                    ),
                );
            }
            line.push_str("    </tb>\n");
        }
        line.push_str("  </gpu>\n");
    }
    line.push_str("</algo>\n");
    text
}

/// A name that needs no quoting, truncated to the length that the parsers keep.
fn name(name: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    name.chars().map(plain).take(64).collect()
}

/// The name of a collective.
pub(super) fn word(kind: Kind, dialect: Dialect) -> &'static str {
    match (kind, dialect) {
        (Kind::ReduceScatter, Dialect::Msccl) => "reduce_scatter",
        _ => kind.word(),
    }
}
