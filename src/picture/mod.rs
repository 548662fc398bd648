//! Pictures: of layouts, of what is done after what, and of what is busy when.
//!
//! ```text
//! blocks    a layout as the blocks of its array, each with the devices that hold it
//! terminal  blocks as text of 80 columns, with colour where there is any
//! timeline  what is busy when, from the record of the clock
//! lanes     a timeline as text of 80 columns
//! graph     steps or operations and their operands, for Graphviz and Mermaid
//! svg       layouts and timelines as files that browsers show
//! trace     a timeline for Perfetto
//! ```

pub mod blocks;
pub mod graph;
pub mod lanes;
pub mod svg;
pub mod terminal;
pub mod timeline;
pub mod trace;
