//! SVG files of layouts and timelines. They follow the reader's colour scheme.

use super::blocks::{Along, Blocks};
use super::palette::{self, Color};
use super::timeline::Timeline;
use crate::escape::xml;
use crate::layout::{Dims, Layout};
use crate::mesh::Mesh;
use crate::units::{Time, TimeScale};
use itertools::Itertools;
use std::fmt::Write as _;

/// Rows and columns drawn of a larger grid, including the last one.
const MOST: usize = 16;
/// Width of a character in pixels.
const CHAR: usize = 8;
/// Height of a line in pixels.
const LINE: usize = 26;
/// The largest width of a picture in pixels.
const WIDTH: usize = 1200;

const STYLE: &str = "\
text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#1b1b1b}\
.t{font-weight:bold}.s{fill:#555}.r{stroke:#444;stroke-width:1}.p{stroke-dasharray:4 2;stroke-width:2}\
.l{stroke:#8884}\
@media(prefers-color-scheme:dark){text{fill:#eee}.s{fill:#aaa}.r{stroke:#ccc}.bg{fill:#1b1b1b}}";

/// An array and its layout.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The name with its brackets, as written in a program.
    pub name: &'a str,
    /// The layout.
    pub layout: &'a Layout,
}

/// Draws arrays as blocks, side by side as far as they fit. Arrays with the same drawing share one.
pub fn layouts(arrays: &[Named<'_>], mesh: &Mesh, dims: &Dims) -> String {
    let mut drawn: Vec<(Vec<&str>, String, Grid)> = Vec::new();
    for Named { name, layout } in arrays {
        let grid = Grid::new(&Blocks::new(layout, mesh, dims));
        let note = format!("{}, {} a device{}", layout.dtype, layout.local_bytes(mesh), grid.note());
        match drawn.iter_mut().find(|(_, other, alike)| *other == note && *alike == grid) {
            Some((names, ..)) => names.push(name),
            None => drawn.push((vec![name], note, grid)),
        }
    }
    let (mut body, mut width) = (String::new(), 320);
    // Where the next one goes, and how high its row is.
    let (mut x, mut y, mut row) = (8, 8, 0);
    for (names, note, grid) in &drawn {
        let names = names.iter().copied().unique().collect_vec();
        let lines = titles(&names);
        let words = lines.iter().chain([note]).map(|line| line.chars().count()).max().unwrap_or(0);
        let (across, down) = (grid.width().max(CHAR * words) + 24, 18 * lines.len() + 24 + grid.height() + 18);
        if x > 8 && x + across > WIDTH {
            (x, y, row) = (8, y + row, 0);
        }
        write!(body, "<g transform=\"translate({x} {y})\"><title>{}</title>", xml(&names.join(", ")))
            .expect("a string");
        for (place, line) in lines.iter().enumerate() {
            text(&mut body, (0, 16 + 18 * place), "t", line);
        }
        let top = 18 * lines.len();
        text(&mut body, (0, top + 16), "s", note);
        grid.draw(&mut body, top + 24);
        body.push_str("</g>\n");
        x += across;
        (width, row) = (width.max(x), row.max(down));
    }
    y += row;
    let axes = mesh.axes().iter().map(|axis| axis.name.as_str()).join(",");
    text(&mut body, (8, y + 8), "s", &format!("in each block: the devices ({axes}) that hold it"));
    file(width, y + 20, "blocks of arrays and the devices that hold them", &body)
}

/// The names of arrays that share a drawing, a line each; of many, the first ones.
fn titles(names: &[&str]) -> Vec<String> {
    const MOST: usize = 4;
    let shown = if names.len() > MOST { MOST - 1 } else { names.len() };
    let rest = (names.len() > shown).then(|| format!("and {} more", names.len() - shown));
    names[..shown].iter().map(|name| (*name).to_owned()).chain(rest).collect()
}

/// Blocks in rows and columns; large grids are abridged.
#[derive(PartialEq)]
struct Grid {
    heads: Vec<String>,
    rows: Vec<(String, Vec<Option<Cell>>)>,
    label: usize,
    cell: usize,
    copies: bool,
    parts: bool,
}

#[derive(PartialEq)]
struct Cell {
    text: String,
    title: String,
    color: Color,
}

impl Grid {
    fn new(blocks: &Blocks) -> Grid {
        let (rows, column) = blocks.rows_and_column();
        let columns = column.map_or(1, |dim| blocks.dims[dim].ranges.len());
        let range = |dim: usize, at: usize| {
            let (split, range) = (&blocks.dims[dim], &blocks.dims[dim].ranges[at]);
            format!("{} {}..{}", split.name, range.start.min(split.size), range.end.min(split.size))
        };
        let counts = rows.iter().map(|dim| blocks.dims[*dim].ranges.len()).collect_vec();
        let index = |row: usize, at: usize| {
            let (mut index, mut rest) = (vec![0; blocks.dims.len()], row);
            for (dim, count) in rows.iter().zip(&counts).rev() {
                index[*dim] = rest % count;
                rest /= count;
            }
            if let Some(dim) = column {
                index[dim] = at;
            }
            index
        };
        let cell = |row: usize, at: usize| {
            let index = index(row, at);
            let text = format!("({})", blocks.devices(&index).iter().join(","));
            let title = index.iter().enumerate().map(|(dim, at)| range(dim, *at)).join(", ");
            Cell { text, title, color: palette::block((row * columns + at) as u64, blocks.count()) }
        };
        let label = |row: usize| rows.iter().map(|dim| range(*dim, index(row, 0)[*dim])).join(", ");
        let head = |at: usize| column.map_or_else(String::new, |dim| range(dim, at));
        let length = |text: String| text.chars().count();
        let total: usize = counts.iter().product();
        let shown_rows = shown(total, MOST);
        let label_width = shown_rows.iter().flatten().map(|row| length(label(*row))).max().unwrap_or(0);
        let widest = length(head(columns - 1)).max(length(cell(total - 1, columns - 1).text));
        let cell_width = CHAR * (widest + 2);
        let room = WIDTH.saturating_sub(CHAR * label_width + 64) / cell_width;
        let places = shown(columns, room.clamp(3, MOST));
        let row = |row: &Option<usize>| {
            let of = |at: &Option<usize>| row.zip(*at).map(|(row, at)| cell(row, at));
            (row.map_or_else(|| "…".to_owned(), label), places.iter().map(of).collect())
        };
        let devices = blocks.devices(&vec![0; blocks.dims.len()]);
        Grid {
            heads: places.iter().map(|at| at.map_or_else(|| "…".to_owned(), head)).collect(),
            rows: shown_rows.iter().map(row).collect(),
            label: label_width,
            cell: cell_width,
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
        self.head() + LINE * self.rows.len()
    }

    /// The height of the column headings; a single column has none.
    fn head(&self) -> usize {
        if self.heads == [""] { 4 } else { LINE }
    }

    /// The left edge of the first column.
    fn left(&self) -> usize {
        4 + CHAR * self.label
    }

    fn width(&self) -> usize {
        self.left() + self.heads.len() * self.cell
    }

    fn draw(&self, body: &mut String, top: usize) {
        let left = self.left();
        for (column, head) in self.heads.iter().enumerate() {
            middle(body, (left + column * self.cell + self.cell / 2, top + 17), ("s", None), head);
        }
        for (row, (label, cells)) in self.rows.iter().enumerate() {
            let y = top + self.head() + LINE * row;
            text(body, (0, y + 17), "s", label);
            for (column, cell) in cells.iter().enumerate() {
                let x = left + column * self.cell;
                let Some(cell) = cell else {
                    middle(body, (x + self.cell / 2, y + 17), ("s", None), "…");
                    continue;
                };
                let fill = cell.color;
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
                middle(body, (x + width / 2, y + 16), ("", Some(fill.ink())), &cell.text);
                body.push_str("</g>\n");
            }
        }
    }
}

/// All indices, or the first ones, a gap and the last.
fn shown(count: usize, most: usize) -> Vec<Option<usize>> {
    if count <= most {
        return (0..count).map(Some).collect();
    }
    (0..most - 2).map(Some).chain([None, Some(count - 1)]).collect()
}

/// Draws a timeline: a lane for each resource, with a legend of the steps.
pub fn timeline(timeline: &Timeline, scale: TimeScale) -> String {
    const ACROSS: usize = 720;
    let label = 16 + CHAR * timeline.lanes.iter().map(|lane| lane.kind.chars().count()).max().unwrap_or(0);
    let total = timeline.makespan.ticks().max(1) as f64;
    let x = |time: Time| label as f64 + ACROSS as f64 * (time.ticks() as f64 / total);
    let used = timeline.used();
    let colors = timeline.colors();
    let number = |step: u32| used.iter().position(|known| *known == step).unwrap_or(0) + 1;
    let (mut body, bottom) = (String::new(), 30 + LINE * timeline.lanes.len());
    for tick in 0..=4 {
        let time = Time::from_ticks(timeline.makespan.ticks() / 4 * tick as u128);
        let at = label + ACROSS / 4 * tick;
        write!(body, "<line class=\"l\" x1=\"{at}\" x2=\"{at}\" y1=\"24\" y2=\"{bottom}\"/>").expect("a string");
        middle(&mut body, (at, 18), ("s", None), &scale.show(time));
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
            let (color, number) = (colors[step as usize], number(step).to_string());
            writeln!(
                body,
                "<rect x=\"{from:.2}\" y=\"{y}\" width=\"{:.2}\" height=\"{}\" fill=\"{color}\"><title>{}</title></rect>",
                (to - from).max(0.5),
                LINE - 6,
                xml(&title)
            )
            .expect("a string");
            if to - from > (CHAR * (number.len() + 1)) as f64 {
                writeln!(
                    body,
                    "<text x=\"{:.2}\" y=\"{}\" text-anchor=\"middle\" style=\"fill:{}\" pointer-events=\"none\">{number}</text>",
                    f64::midpoint(from, to),
                    y + 15,
                    color.ink()
                )
                .expect("a string");
            }
        }
    }
    let width = label + ACROSS + 60;
    let bottom = legend(&mut body, timeline, &used, (width, bottom + 8));
    file(width, bottom + 8, "timeline of engines and links", &body)
}

/// Draws the legend in as many columns as fit, and returns its lower edge.
fn legend(body: &mut String, timeline: &Timeline, used: &[u32], (width, top): (usize, usize)) -> usize {
    const MOST: usize = 60;
    const LONGEST: usize = 48;
    let colors = timeline.colors();
    let clipped = |name: String| match name.chars().count() > LONGEST {
        true => name.chars().take(LONGEST - 1).chain(['…']).collect(),
        false => name,
    };
    let entry = |(place, step): (usize, &u32)| {
        (Some(colors[*step as usize]), format!("{} {}", place + 1, clipped(timeline.step(*step))))
    };
    let mut entries = used.iter().take(MOST).enumerate().map(entry).collect_vec();
    if used.len() > MOST {
        entries.push((None, format!("and {} more", used.len() - MOST)));
    }
    let widest = entries.iter().map(|(_, words)| words.chars().count()).max().unwrap_or(0);
    let column = CHAR * widest + 44;
    let rows = entries.len().div_ceil((width / column).max(1));
    for (place, (color, words)) in entries.iter().enumerate() {
        let (x, y) = (8 + place / rows * column, top + place % rows * 20);
        if let Some(color) = color {
            write!(body, "<rect class=\"r\" x=\"{x}\" y=\"{y}\" width=\"14\" height=\"14\" fill=\"{color}\"/>")
                .expect("a string");
        }
        text(body, (x + 22, y + 12), "", words);
    }
    top + 20 * rows
}

fn file(width: usize, height: usize, title: &str, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" style=\"max-width:100%;height:auto\">\
         <title>{title}</title><style>{STYLE}</style><rect class=\"bg\" width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

fn text(body: &mut String, (x, y): (usize, usize), class: &str, words: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    writeln!(body, "<text x=\"{x}\" y=\"{y}\"{class}>{}</text>", xml(words)).expect("a string");
}

fn middle(body: &mut String, (x, y): (usize, usize), (class, ink): (&str, Option<Color>), words: &str) {
    let style = ink.map_or_else(String::new, |ink| format!(" style=\"fill:{ink}\""));
    write!(body, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" class=\"{class}\"{style}>{}</text>", xml(words))
        .expect("a string");
}
