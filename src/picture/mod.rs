//! Pictures of layouts, for the terminal.
//!
//! ```text
//! blocks    a layout as the blocks of its array, each with the devices that hold it
//! terminal  blocks as text of 80 columns, with colour where there is any
//! ```

pub mod blocks;
pub mod terminal;
