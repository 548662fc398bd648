//! Pictures as SVG, each one file: layouts as blocks, and a timeline. They follow the reader's choice of light or dark.

use super::blocks::{Along, Blocks};
use super::timeline::Timeline;
use crate::escape::xml;
use crate::layout::{Dims, Layout};
use crate::mesh::Mesh;
use crate::units::{Time, TimeScale};
use itertools::Itertools;
use std::fmt::Write as _;

/// Colours of blocks and of steps. Neighbours differ in brightness as well, for the colour-blind.
pub const COLORS: [&str; 8] = ["#a6cee3", "#1f78b4", "#fdd49e", "#6a51a3", "#c7e9c0", "#b15928", "#dadaeb", "#238b45"];
/// Of these the text on each is read best.
pub const ON_COLORS: [&str; 8] = ["#000", "#fff", "#000", "#fff", "#000", "#fff", "#000", "#fff"];
/// Rows and columns of blocks that are drawn of a larger grid, the last one among them.
const MOST: usize = 16;
/// Pixels of a character of the font.
const CHAR: usize = 8;
/// Pixels of a line.
const LINE: usize = 26;

const STYLE: &str = "\
text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#1b1b1b}\
.t{font-weight:bold}.s{fill:#555}.r{stroke:#444;stroke-width:1}.p{stroke-dasharray:4 2;stroke-width:2}\
.l{stroke:#8884}\
@media(prefers-color-scheme:dark){text{fill:#eee}.s{fill:#aaa}.r{stroke:#ccc}.bg{fill:#1b1b1b}}";

/// An array and the layout that it has.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// With its brackets, as it is written.
    pub name: &'a str,
    /// How it is spread.
    pub layout: &'a Layout,
}

/// Arrays as the blocks that devices hold, one under the other.
pub fn layouts(arrays: &[Named<'_>], mesh: &Mesh, dims: &Dims) -> String {
    let (mut body, mut y, mut width) = (String::new(), 8, 320);
    for Named { name, layout } in arrays {
        let grid = Grid::new(&Blocks::new(layout, mesh, dims));
        let note = format!("{}, {} a device{}", layout.dtype, layout.local_bytes(mesh), grid.note());
        text(&mut body, (8, y + 16), "t", name);
        text(&mut body, (8, y + 34), "s", &note);
        y += 42;
        width = width.max(16 + CHAR * name.chars().count().max(note.chars().count()));
        width = width.max(grid.draw(&mut body, y));
        y += grid.height() + 18;
    }
    let axes = mesh.axes().iter().map(|axis| axis.name.as_str()).join(",");
    text(&mut body, (8, y + 8), "s", &format!("in each block: the devices ({axes}) that hold it"));
    file(width, y + 20, "layouts as the blocks that devices hold", &body)
}

/// Blocks in rows and columns; where there are too many, some are left out.
struct Grid {
    heads: Vec<String>,
    rows: Vec<(String, Vec<Option<Cell>>)>,
    label: usize,
    cell: usize,
    copies: bool,
    parts: bool,
}

struct Cell {
    text: String,
    title: String,
    number: usize,
}

impl Grid {
    fn new(blocks: &Blocks) -> Grid {
        let last = blocks.dims.len().checked_sub(1);
        let cut = |dim: &usize| blocks.dims[*dim].ranges.len() > 1;
        let rows = (0..last.unwrap_or(0)).filter(cut).collect_vec();
        let columns = last.map_or(1, |dim| blocks.dims[dim].ranges.len());
        let range = |dim: usize, at: usize| {
            let (split, range) = (&blocks.dims[dim], &blocks.dims[dim].ranges[at]);
            format!("{} {}..{}", split.name, range.start.min(split.size), range.end.min(split.size))
        };
        let counts = rows.iter().map(|dim| blocks.dims[*dim].ranges.len()).collect_vec();
        let total: usize = counts.iter().product();
        let places = shown(columns);
        let heads = places.iter().map(|place| match (place, last) {
            (Some(place), Some(dim)) => range(dim, *place),
            (None, _) => "…".to_owned(),
            (Some(_), None) => String::new(),
        });
        let row = |number: Option<usize>| {
            let Some(number) = number else { return ("…".to_owned(), places.iter().map(|_| None).collect_vec()) };
            let mut index = vec![0; blocks.dims.len()];
            let mut rest = number;
            for (dim, count) in rows.iter().zip(&counts).rev() {
                index[*dim] = rest % count;
                rest /= count;
            }
            let label = rows.iter().map(|dim| range(*dim, index[*dim])).join(", ");
            let cell = |place: &Option<usize>| {
                let place = (*place)?;
                let mut index = index.clone();
                if let Some(dim) = last {
                    index[dim] = place;
                }
                let text = format!("({})", blocks.devices(&index).iter().join(","));
                let title = index.iter().enumerate().map(|(dim, at)| range(dim, *at)).join(", ");
                Some(Cell { text, title, number: number * columns + place })
            };
            (label, places.iter().map(cell).collect_vec())
        };
        let (heads, rows) = (heads.collect_vec(), shown(total).into_iter().map(row).collect_vec());
        let devices = blocks.devices(&vec![0; blocks.dims.len()]);
        let cells = rows.iter().flat_map(|(_, cells)| cells).flatten().map(|cell| cell.text.chars().count());
        let cell = heads.iter().map(|head| head.chars().count()).chain(cells).max().unwrap_or(1);
        Grid {
            label: rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0),
            heads,
            rows,
            cell: CHAR * (cell + 2),
            copies: devices.contains(&Along::Copies),
            parts: devices.contains(&Along::Parts),
        }
    }

    fn note(&self) -> String {
        let copies = if self.copies { "; * a copy on each" } else { "" };
        let parts = if self.parts { "; + a part of the sum on each" } else { "" };
        format!("{copies}{parts}")
    }

    fn height(&self) -> usize {
        LINE * (self.rows.len() + 1)
    }

    /// Draws it, and says how wide it is.
    fn draw(&self, body: &mut String, top: usize) -> usize {
        let left = 12 + CHAR * self.label;
        for (column, head) in self.heads.iter().enumerate() {
            middle(body, (left + column * self.cell + self.cell / 2, top + 17), ("s", ""), head);
        }
        for (row, (label, cells)) in self.rows.iter().enumerate() {
            let y = top + LINE * (row + 1);
            text(body, (8, y + 17), "s", label);
            for (column, cell) in cells.iter().enumerate() {
                let x = left + column * self.cell;
                let Some(cell) = cell else {
                    middle(body, (x + self.cell / 2, y + 17), ("s", ""), "…");
                    continue;
                };
                let (fill, ink) = (COLORS[cell.number % 8], ON_COLORS[cell.number % 8]);
                let (width, height) = (self.cell - 4, LINE - 4);
                // Copies lie under one another; a part of a sum has a broken edge.
                if self.copies {
                    write!(
                        body,
                        "<rect class=\"r\" x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{height}\" rx=\"3\" fill=\"{fill}\"/>",
                        x + 3,
                        y + 3
                    )
                    .expect("a string");
                }
                let class = if self.parts { "r p" } else { "r" };
                write!(
                    body,
                    "<g><title>{} on {}</title><rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"3\" fill=\"{fill}\"/>",
                    xml(&cell.title),
                    xml(&cell.text)
                )
                .expect("a string");
                middle(body, (x + width / 2, y + 16), ("", ink), &cell.text);
                body.push_str("</g>\n");
            }
        }
        left + self.heads.len() * self.cell + 12
    }
}

/// All places, or the first ones, a gap and the last.
fn shown(count: usize) -> Vec<Option<usize>> {
    if count <= MOST {
        return (0..count).map(Some).collect();
    }
    (0..MOST - 2).map(Some).chain([None, Some(count - 1)]).collect()
}

/// A timeline, a lane for each resource, with the steps named below.
pub fn timeline(timeline: &Timeline, scale: TimeScale) -> String {
    const WIDTH: usize = 720;
    let label = 16 + CHAR * timeline.lanes.iter().map(|lane| lane.kind.chars().count()).max().unwrap_or(0);
    let total = timeline.makespan.ticks().max(1) as f64;
    let x = |time: Time| label as f64 + WIDTH as f64 * (time.ticks() as f64 / total);
    let used = timeline.used();
    let place = |step: u32| used.iter().position(|known| *known == step).unwrap_or(0);
    let (mut body, bottom) = (String::new(), 30 + LINE * timeline.lanes.len());
    for tick in 0..=4 {
        let time = Time::from_ticks(timeline.makespan.ticks() / 4 * tick as u128);
        let at = label + WIDTH / 4 * tick;
        write!(body, "<line class=\"l\" x1=\"{at}\" x2=\"{at}\" y1=\"24\" y2=\"{bottom}\"/>").expect("a string");
        middle(&mut body, (at, 18), ("s", ""), &scale.show(time));
    }
    for (row, lane) in timeline.lanes.iter().enumerate() {
        let y = 28 + LINE * row;
        text(&mut body, (8, y + 16), "", &lane.kind);
        // Bars of one step that touch are one.
        let runs = lane.bars.iter().map(|bar| (bar.step, bar.start, bar.finish)).coalesce(|left, right| {
            if left.0 == right.0 && left.2 == right.1 { Ok((left.0, left.1, right.2)) } else { Err((left, right)) }
        });
        for (step, start, finish) in runs {
            let (from, to) = (x(start), x(finish));
            let title = format!("{}: {} to {}", timeline.step(step), scale.show(start), scale.show(finish));
            writeln!(
                body,
                "<rect x=\"{from:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{}\" fill=\"{}\"><title>{}</title></rect>",
                (to - from).max(0.5),
                LINE - 6,
                COLORS[place(step) % 8],
                xml(&title)
            )
            .expect("a string");
        }
    }
    let mut y = bottom + 8;
    for (place, step) in used.iter().enumerate() {
        let color = COLORS[place % 8];
        write!(body, "<rect class=\"r\" x=\"8\" y=\"{y}\" width=\"14\" height=\"14\" fill=\"{color}\"/>")
            .expect("a string");
        text(&mut body, (30, y + 12), "", &timeline.step(*step));
        y += 20;
    }
    file(label + WIDTH + 60, y + 8, "what is busy when", &body)
}

fn file(width: usize, height: usize, title: &str, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\
         <title>{title}</title><style>{STYLE}</style><rect class=\"bg\" width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

fn text(body: &mut String, (x, y): (usize, usize), class: &str, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    writeln!(body, "<text x=\"{x}\" y=\"{y}\"{class}>{}</text>", xml(words)).expect("a string");
}

fn middle(body: &mut String, (x, y): (usize, usize), (class, ink): (&str, &str), words: &str) {
    let style = if ink.is_empty() { String::new() } else { format!(" style=\"fill:{ink}\"") };
    write!(body, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" class=\"{class}\"{style}>{}</text>", xml(words))
        .expect("a string");
}
