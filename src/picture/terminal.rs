//! Blocks as text: a grid whose cells name devices.
//!
//! ```text
//! W[D_X, F_Y]
//!   bf16, 8 blocks of 512 x 1024, 1.05 MB, each on one device
//!   8.39 MB (8,388,608 B) in total
//!
//!               F 0..   1024..  2048..  3072..
//! D 0..512      (0,0)   (0,1)   (0,2)   (0,3)
//! D 512..1024   (1,0)   (1,1)   (1,2)   (1,3)
//!   (X,Y)
//! ```

use super::blocks::{Along, Blocks, Split};
use super::palette::{self, Color};
use crate::layout::{Dims, Layout};
use crate::mesh::Mesh;
use crate::units::{Bytes, grouped};
use itertools::Itertools;
use std::fmt::Write as _;

/// Rows drawn of a larger grid, including the last one.
const MOST_ROWS: usize = 8;

/// How blocks are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// By the devices named in them.
    Plain,
    /// By colour as well.
    Color,
}

/// Draws an array as its blocks, with a caption above and a legend below.
///
/// - `name`: the name with its brackets, as written in a program.
/// - `width`: columns of the terminal.
pub fn blocks(name: &str, layout: &Layout, mesh: &Mesh, dims: &Dims, (paint, width): (Paint, usize)) -> String {
    let blocks = Blocks::new(layout, mesh, dims);
    let grid = Grid::new(&blocks).draw(&blocks, paint, width);
    format!("{name}\n  {}\n{grid}{}", caption(layout, &blocks, mesh), legend(&blocks, mesh))
}

/// `f32, 8 blocks of 512 x 1024, 2.10 MB, each on 2 devices`, and below it `33.6 MB (33,554,432 B) in total`
fn caption(layout: &Layout, blocks: &Blocks, mesh: &Mesh) -> String {
    let extents = layout.local_extents(mesh).iter().map(u64::to_string).join(" x ");
    let of = if extents.is_empty() { "one number".to_owned() } else { extents };
    let what = match blocks.count() {
        1 => format!("one block of {of}"),
        count => format!("{count} blocks of {of}"),
    };
    let all = mesh.device_count() as u64;
    let on = match blocks.holders() {
        1 if all == 1 => "on the device".to_owned(),
        1 => "each on one device".to_owned(),
        holders if holders == all => format!("on all {all} devices"),
        holders => format!("each on {holders} devices"),
    };
    let total = Bytes(layout.local_bytes(mesh).0.saturating_mul(blocks.count() * blocks.holders()));
    let total = format!("{total} ({} B) in total", grouped(total.0));
    format!("{}, {what}, {}, {on}\n  {total}", layout.dtype, layout.local_bytes(mesh))
}

/// The axes of the coordinates and the marks: `  (X,Y): * a copy on each`
fn legend(blocks: &Blocks, mesh: &Mesh) -> String {
    let devices = blocks.devices(&vec![0; blocks.dims.len()]);
    let marks = [(Along::Copies, "* a copy on each"), (Along::Parts, "+ a part of the sum on each")];
    let marks = marks.iter().filter(|(along, _)| devices.contains(along)).map(|(_, words)| *words).join(", ");
    let axes = mesh.axes().iter().map(|axis| axis.name.as_str()).join(",");
    let colon = if marks.is_empty() { "" } else { ": " };
    format!("  ({axes}){colon}{marks}\n")
}

/// Rows and columns of blocks.
struct Grid {
    /// The sharded dims other than that of the columns.
    rows: Vec<usize>,
    /// The dim of the columns, if several dims are sharded or the last one is.
    column: Option<usize>,
}

impl Grid {
    fn new(blocks: &Blocks) -> Grid {
        let (rows, column) = blocks.rows_and_column();
        Grid { rows, column }
    }

    fn draw(&self, blocks: &Blocks, paint: Paint, room: usize) -> String {
        let row_keys = self.row_keys(blocks);
        let columns = self.column.map_or(1, |dim| blocks.dims[dim].ranges.len());
        let labels = row_keys.iter().map(|key| key.as_ref().map(|key| self.row_label(blocks, key))).collect_vec();
        let label_width = labels.iter().flatten().map(String::len).max().unwrap_or(0);
        let heads = (0..columns).map(|place| self.head(blocks, place)).collect_vec();
        let cell = |key: &[usize], place: usize| {
            let mut index = vec![0; blocks.dims.len()];
            self.rows.iter().zip(key).for_each(|(dim, at)| index[*dim] = *at);
            if let Some(dim) = self.column {
                index[dim] = place;
            }
            format!("({})", blocks.devices(&index).iter().join(","))
        };
        let widest = row_keys.iter().flatten().map(|key| cell(key, columns - 1).len()).max().unwrap_or(0);
        let width = heads.iter().map(String::len).max().unwrap_or(0).max(widest) + 2;
        let places = fitting(columns, room.saturating_sub(label_width + 3) / width);
        let mut text = String::new();
        if self.column.is_some() {
            write!(text, "  {:label_width$} ", "").expect("a string");
            for place in &places {
                let head = place.map_or("..", |place| &heads[place]);
                write!(text, "{head:^width$}").expect("a string");
            }
            end_line(&mut text);
        }
        for (key, label) in row_keys.iter().zip(&labels) {
            let (Some(key), Some(label)) = (key, label) else {
                text.push_str("  ..\n");
                continue;
            };
            write!(text, "  {label:<label_width$} ").expect("a string");
            for place in &places {
                let Some(place) = place else {
                    write!(text, "{:^width$}", "..").expect("a string");
                    continue;
                };
                let number = self.number(blocks, key, *place);
                text.push_str(&painted(&format!("{:^width$}", cell(key, *place)), number, blocks.count(), paint));
            }
            end_line(&mut text);
        }
        text
    }

    /// The index of each row in the sharded dims; `None` stands for omitted rows.
    fn row_keys(&self, blocks: &Blocks) -> Vec<Option<Vec<usize>>> {
        let counts = self.rows.iter().map(|dim| 0..blocks.dims[*dim].ranges.len()).collect_vec();
        let total: usize = counts.iter().map(ExactSizeIterator::len).product();
        if total <= MOST_ROWS {
            return counts.into_iter().multi_cartesian_product().map(Some).collect();
        }
        let last = counts.iter().map(|count| count.len() - 1).collect_vec();
        let first = counts.into_iter().multi_cartesian_product().take(MOST_ROWS - 2).map(Some);
        first.chain([None, Some(last)]).collect()
    }

    /// `D 0..512, S 0..64`
    fn row_label(&self, blocks: &Blocks, key: &[usize]) -> String {
        let range = |(dim, at): (&usize, &usize)| range(&blocks.dims[*dim], *at);
        self.rows.iter().zip(key).map(range).join(", ")
    }

    /// The start of a column: `F 0..`, `128..`
    fn head(&self, blocks: &Blocks, place: usize) -> String {
        let Some(split) = self.column.map(|dim| &blocks.dims[dim]) else { return String::new() };
        let start = split.ranges[place].start;
        match place {
            0 => format!("{} {start}..", split.name),
            _ if start >= split.size => "padding".to_owned(),
            _ => format!("{start}.."),
        }
    }

    /// The row-major index of a block.
    fn number(&self, blocks: &Blocks, key: &[usize], place: usize) -> u64 {
        let along =
            |number: u64, (dim, at): (&usize, &usize)| number * blocks.dims[*dim].ranges.len() as u64 + *at as u64;
        let row = self.rows.iter().zip(key).fold(0, along);
        let columns = self.column.map_or(1, |dim| blocks.dims[dim].ranges.len() as u64);
        row * columns + place as u64
    }
}

/// `D 0..512`, without padding.
fn range(split: &Split, place: usize) -> String {
    let range = &split.ranges[place];
    let (start, end) = (range.start.min(split.size), range.end.min(split.size));
    if start == end { format!("{} padding", split.name) } else { format!("{} {start}..{end}", split.name) }
}

/// The columns drawn: all, or the first ones, a gap and the last.
fn fitting(columns: usize, room: usize) -> Vec<Option<usize>> {
    if columns <= room.max(1) {
        return (0..columns).map(Some).collect();
    }
    let first = room.saturating_sub(2).max(1);
    (0..first).map(Some).chain([None, Some(columns - 1)]).collect()
}

fn end_line(text: &mut String) {
    text.truncate(text.trim_end_matches(' ').len());
    text.push('\n');
}

/// Colours a cell by its block.
fn painted(cell: &str, number: u64, count: u64, paint: Paint) -> String {
    if count == 1 { cell.to_owned() } else { colored(cell, palette::block(number, count), paint) }
}

/// Text on a background colour.
pub(super) fn colored(text: &str, color: Color, paint: Paint) -> String {
    match paint {
        Paint::Plain => text.to_owned(),
        Paint::Color => format!("\x1b[38;5;{};48;5;{}m{text}\x1b[0m", color.ink().ansi(), color.ansi()),
    }
}
