//! Pictures of layouts, dependencies and timelines.
//!
//! ```text
//! palette   colours: a hue for each kind of step, a ramp for blocks
//! blocks    the blocks of an array and the devices that hold each
//! terminal  blocks as text, with colour on terminals
//! timeline  activity of engines and links, from the record of the clock
//! lanes     a timeline as text
//! graph     steps or operations and their operands, for Graphviz and Mermaid
//! svg       layouts and timelines as SVG
//! trace     a timeline for Perfetto
//! ```

pub mod blocks;
pub mod graph;
pub mod lanes;
pub mod palette;
pub mod svg;
pub mod terminal;
pub mod timeline;
pub mod trace;
