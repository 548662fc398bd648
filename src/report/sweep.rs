//! A program at many sizes, meshes and machines, as a table for people, as CSV and as JSON.

use super::text::lines;
use crate::sweep::{Crossing, Figures, Outcome, Point};
use crate::units::show_seconds;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use itertools::Itertools;
use serde::Serialize;
use std::collections::BTreeMap;

/// The points, the best marked: of those that compute the same, the one that takes the least time.
pub struct Rows<'a> {
    /// Those of which each is one size for all.
    names: Vec<&'a str>,
    rows: Vec<(&'a Point, &'a Outcome, bool)>,
    /// Whether several machines are compared.
    several_machines: bool,
    crossings: &'a [Crossing],
}

impl<'a> Rows<'a> {
    /// - `axes`: the names that are axes of the mesh. On other meshes and machines a program computes the same.
    pub fn new(points: &'a [Point], outcomes: &'a [Outcome], axes: &[String], crossings: &'a [Crossing]) -> Rows<'a> {
        let of_dims = |point: &Point| {
            let sizes = point.sizes.iter().filter(|(name, _)| !axes.contains(name));
            sizes.map(|(_, size)| *size).collect_vec()
        };
        let mut best: BTreeMap<Vec<u64>, (f64, usize)> = BTreeMap::new();
        for (place, (point, outcome)) in points.iter().zip(outcomes).enumerate() {
            let Ok(figures) = outcome else { continue };
            let known = best.entry(of_dims(point)).or_insert((f64::INFINITY, place));
            if figures.broken == 0 && figures.time < known.0 {
                *known = (figures.time, place);
            }
        }
        let is_compared = points.len() > best.len();
        let is_best = |place: usize| is_compared && best.values().any(|(time, at)| *at == place && time.is_finite());
        let rows = points.iter().zip(outcomes).enumerate();
        Rows {
            crossings,
            names: points
                .first()
                .map_or_else(Vec::new, |point| point.sizes.iter().map(|(name, _)| name.as_str()).collect()),
            rows: rows.map(|(place, (point, outcome))| (point, outcome, is_best(place))).collect(),
            several_machines: points
                .iter()
                .map(|point| point.hardware.as_ref().map(|machine| &machine.name))
                .unique()
                .count()
                > 1,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        let machine = self.several_machines.then_some("machine");
        let figures = ["devices", "time", "exposed", "compute", "received", "held", "utilised", ""];
        let header: Vec<&str> = self.names.iter().copied().chain(machine).chain(figures).collect();
        let count = header.len();
        table.set_header(header);
        for (point, outcome, is_best) in &self.rows {
            let mut row: Vec<String> = point.sizes.iter().map(|(_, size)| size.to_string()).collect();
            if self.several_machines {
                row.extend(point.hardware.iter().map(|machine| machine.name.clone()));
            }
            match outcome {
                Ok(figures) => {
                    row.push(figures.devices.to_string());
                    row.extend([figures.time, figures.exposed, figures.compute].map(show_seconds));
                    row.extend([figures.received, figures.held].map(|bytes| bytes.to_string()));
                    row.push(format!("{:.1} %", 100.0 * figures.utilisation));
                    row.push(match (figures.broken, is_best) {
                        (0, true) => "best".to_owned(),
                        (0, false) => String::new(),
                        (_, _) => "an expectation does not hold".to_owned(),
                    });
                }
                Err(why) => {
                    row.extend(std::iter::repeat_n("-".to_owned(), 7));
                    row.push(why.clone());
                }
            }
            table.add_row(row);
        }
        for place in 0..count - 1 {
            if let Some(column) = table.column_mut(place) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let best = self.rows.iter().filter(|(.., is_best)| *is_best).collect_vec();
        let filled = match best.as_slice() {
            [(_, Ok(Figures { filled, .. }), _)] if !filled.is_empty() => {
                format!("\nthe best has its inputs as {}\n", filled.iter().map(|array| format!("`{array}`")).join(", "))
            }
            _ => String::new(),
        };
        lines(table) + &filled + &self.crossings_text()
    }

    /// A line for each crossing.
    fn crossings_text(&self) -> String {
        let line = |crossing: &Crossing| {
            let Crossing { point, name, size, computes } = crossing;
            let machine = point.hardware.iter().filter(|_| self.several_machines).map(|machine| machine.name.clone());
            let others = point.sizes.iter().map(|(name, size)| format!("{name} = {size}")).chain(machine).join(", ");
            let others = if others.is_empty() { others } else { format!(" ({others})") };
            let [longer, shorter] = if *computes { ["computing", "what moves"] } else { ["what moves", "computing"] };
            format!("from {name} = {size} on{others} {longer} takes longer than {shorter}\n")
        };
        let told: String = self.crossings.iter().map(line).collect();
        if told.is_empty() { told } else { format!("\n{told}") }
    }

    /// As comma-separated values with a header: seconds, bytes, and what is true as `1`.
    pub fn csv(&self) -> String {
        let quoted = |text: &str| match text.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let header = "machine,devices,time_s,exposed_s,compute_s,communication_s,received_bytes,held_bytes,utilisation,best,error";
        let mut text = self.names.iter().map(|name| quoted(name)).chain([header.to_owned()]).join(",") + "\n";
        for (point, outcome, is_best) in &self.rows {
            let mut row: Vec<String> = point.sizes.iter().map(|(_, size)| size.to_string()).collect();
            match outcome {
                Ok(figures) => {
                    let Figures { devices, hardware, time, exposed, compute, communication, .. } = figures;
                    row.extend([quoted(hardware), devices.to_string()]);
                    row.extend([time, exposed, compute, communication].map(f64::to_string));
                    row.extend([figures.received.0.to_string(), figures.held.0.to_string()]);
                    row.extend([figures.utilisation.to_string(), u8::from(*is_best).to_string(), String::new()]);
                }
                Err(why) => {
                    row.push(quoted(point.hardware.as_ref().map_or("", |machine| &machine.name)));
                    row.extend(std::iter::repeat_n(String::new(), 9));
                    row.push(quoted(why));
                }
            }
            text.push_str(&(row.join(",") + "\n"));
        }
        text
    }

    /// As a document.
    pub fn document(&self, file: &'a str) -> SweepDocument<'a> {
        let row = |(point, outcome, is_best): &(&'a Point, &'a Outcome, bool)| RowDocument {
            sizes: point.sizes.iter().map(|(name, size)| SizeDocument { name, size: *size }).collect(),
            hardware: match outcome {
                Ok(figures) => Some(figures.hardware.as_str()),
                Err(_) => point.hardware.as_ref().map(|machine| machine.name.as_str()),
            },
            best: *is_best,
            figures: outcome.as_ref().ok().map(FiguresDocument::new),
            error: outcome.as_ref().err().map(String::as_str),
        };
        let crossing = |crossing: &'a Crossing| CrossingDocument {
            sizes: crossing.point.sizes.iter().map(|(name, size)| SizeDocument { name, size: *size }).collect(),
            hardware: crossing.point.hardware.as_ref().map(|machine| machine.name.as_str()),
            name: &crossing.name,
            size: crossing.size,
            computes: crossing.computes,
        };
        SweepDocument {
            schema: "shardc.sweep/1",
            file,
            points: self.rows.iter().map(row).collect(),
            crossings: self.crossings.iter().map(crossing).collect(),
        }
    }
}

/// All points.
#[derive(Debug, Serialize)]
pub struct SweepDocument<'a> {
    schema: &'static str,
    file: &'a str,
    points: Vec<RowDocument<'a>>,
    crossings: Vec<CrossingDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct CrossingDocument<'a> {
    sizes: Vec<SizeDocument<'a>>,
    hardware: Option<&'a str>,
    name: &'a str,
    size: u64,
    computes: bool,
}

#[derive(Debug, Serialize)]
struct RowDocument<'a> {
    sizes: Vec<SizeDocument<'a>>,
    hardware: Option<&'a str>,
    best: bool,
    figures: Option<FiguresDocument<'a>>,
    error: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct SizeDocument<'a> {
    name: &'a str,
    size: u64,
}

#[derive(Debug, Serialize)]
struct FiguresDocument<'a> {
    devices: usize,
    time_s: f64,
    exposed_s: f64,
    compute_s: f64,
    communication_s: f64,
    utilisation: f64,
    bytes_received_per_device: u64,
    peak_bytes_per_device: u64,
    inputs: &'a [String],
    optimal: bool,
    broken_expectations: usize,
}

impl FiguresDocument<'_> {
    fn new(figures: &Figures) -> FiguresDocument<'_> {
        FiguresDocument {
            devices: figures.devices,
            time_s: figures.time,
            exposed_s: figures.exposed,
            compute_s: figures.compute,
            communication_s: figures.communication,
            utilisation: figures.utilisation,
            bytes_received_per_device: figures.received.0,
            peak_bytes_per_device: figures.held.0,
            inputs: &figures.filled,
            optimal: figures.is_optimal,
            broken_expectations: figures.broken,
        }
    }
}
