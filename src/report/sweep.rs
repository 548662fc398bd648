//! Results of a sweep, as a table, as CSV and as JSON.

use super::table;
use crate::sweep::{Crossing, Figures, Outcome, Point};
use crate::syntax::Extent;
use crate::units::{bytes_or_dash, show_seconds};
use itertools::Itertools;
use serde::Serialize;
use std::collections::BTreeMap;

/// The points of a sweep. Among points with equal dims, the fastest is marked.
pub struct Rows<'a> {
    /// Names of the swept sizes.
    names: Vec<&'a str>,
    rows: Vec<(&'a Point, &'a Outcome, bool)>,
    /// Whether several machines are compared.
    several_machines: bool,
    crossings: &'a [Crossing],
}

impl<'a> Rows<'a> {
    /// - `axes`: the swept names that are mesh axes; they do not change the result of the program.
    pub fn new(points: &'a [Point], outcomes: &'a [Outcome], axes: &[String], crossings: &'a [Crossing]) -> Rows<'a> {
        let of_dims = |point: &Point| {
            let sizes = point.sizes.iter().filter(|(name, _)| !axes.contains(name));
            sizes.map(|(_, extent)| extent.size()).collect_vec()
        };
        let mut best: BTreeMap<Vec<u64>, (f64, usize)> = BTreeMap::new();
        for (place, (point, outcome)) in points.iter().zip(outcomes).enumerate() {
            let Ok(figures) = outcome else { continue };
            let known = best.entry(of_dims(point)).or_insert((f64::INFINITY, place));
            if figures.time < known.0 {
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

    /// Formats the points as a table.
    pub fn text(&self) -> String {
        let machine = self.several_machines.then_some("machine");
        let figures = ["devices", "time", "exposed", "compute", "received", "memory", "utilisation", ""];
        let header: Vec<&str> = self.names.iter().copied().chain(machine).chain(figures).collect();
        let last = header.len() - 1;
        let mut table = table::new(header, 0..last);
        for (point, outcome, is_best) in &self.rows {
            let mut row: Vec<String> = point.sizes.iter().map(|(_, size)| size.to_string()).collect();
            if self.several_machines {
                row.extend(point.hardware.iter().map(|machine| machine.name.clone()));
            }
            match outcome {
                Ok(figures) => {
                    row.push(figures.devices.to_string());
                    row.extend([figures.time, figures.exposed, figures.compute].map(show_seconds));
                    row.extend([figures.received, figures.held].map(bytes_or_dash));
                    row.push(format!("{:.1} %", 100.0 * figures.utilisation));
                    row.push(match (figures.broken, is_best) {
                        (0, true) => "best".to_owned(),
                        (0, false) => String::new(),
                        // Expectations are about one plan, not about all of a sweep.
                        (_, true) => "best, other than expected".to_owned(),
                        (_, false) => "other than expected".to_owned(),
                    });
                }
                Err(why) => {
                    row.extend(std::iter::repeat_n("-".to_owned(), 7));
                    row.push(why.clone());
                }
            }
            table.add_row(row);
        }
        let best = self.rows.iter().filter(|(.., is_best)| *is_best).collect_vec();
        let filled = match best.as_slice() {
            [(_, Ok(Figures { filled, .. }), _)] if !filled.is_empty() => {
                format!("\ninput layouts of the best: {}\n", filled.iter().map(|array| format!("`{array}`")).join(", "))
            }
            _ => String::new(),
        };
        table::lines(&table) + &filled + &self.crossings_text()
    }

    /// Formats the crossings.
    fn crossings_text(&self) -> String {
        let line = |crossing: &Crossing| {
            let Crossing { point, name, size, computes } = crossing;
            let machine = point.hardware.iter().filter(|_| self.several_machines).map(|machine| machine.name.clone());
            let others = point.sizes.iter().map(|(name, size)| format!("{name} = {size}")).chain(machine).join(", ");
            let others = if others.is_empty() { others } else { format!(" ({others})") };
            let bound = if *computes { "compute" } else { "communication" };
            format!("{bound}-bound from {name} = {size}{others}\n")
        };
        let lines: String = self.crossings.iter().map(line).collect();
        if lines.is_empty() { lines } else { format!("\n{lines}") }
    }

    /// Formats the points as CSV: seconds, bytes, and `1` for true.
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

    /// Converts the points to JSON.
    pub fn document(&self, file: &'a str) -> SweepDocument<'a> {
        let row = |(point, outcome, is_best): &(&'a Point, &'a Outcome, bool)| RowDocument {
            sizes: point.sizes.iter().map(|(name, size)| SizeDocument::new(name, size)).collect(),
            hardware: match outcome {
                Ok(figures) => Some(figures.hardware.as_str()),
                Err(_) => point.hardware.as_ref().map(|machine| machine.name.as_str()),
            },
            best: *is_best,
            figures: outcome.as_ref().ok().map(FiguresDocument::new),
            error: outcome.as_ref().err().map(String::as_str),
        };
        let crossing = |crossing: &'a Crossing| CrossingDocument {
            sizes: crossing.point.sizes.iter().map(|(name, size)| SizeDocument::new(name, size)).collect(),
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
pub(super) struct SizeDocument<'a> {
    name: &'a str,
    size: u64,
    /// The physical axes of a mesh axis: `4x4 over dcn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    axis: Option<String>,
}

impl<'a> SizeDocument<'a> {
    pub(super) fn new(name: &'a str, extent: &Extent) -> SizeDocument<'a> {
        let axis = match extent {
            Extent::Size(_) => None,
            Extent::Axis(shape) => Some(shape.to_string()),
        };
        SizeDocument { name, size: extent.size(), axis }
    }
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
