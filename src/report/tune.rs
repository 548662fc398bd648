//! Meshes that were tried for a program, as a table and as JSON.

use super::sweep::SizeDocument;
use super::table;
use crate::sweep::Figures;
use crate::syntax::Extent;
use crate::tune::{Fate, Tried};
use crate::units::{bytes_or_dash, counted, show_seconds};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Most rows of the table; the JSON document has all.
const MOST_ROWS: usize = 20;

/// The meshes by devices, the fastest first.
pub struct Tuned<'a> {
    /// Names of the axes.
    names: Vec<&'a str>,
    planned: Vec<(&'a Tried, &'a Figures)>,
    tried: &'a [Tried],
    /// Whether several machines are compared.
    several_machines: bool,
}

/// What is known about a number of devices.
struct Summary<'a> {
    devices: u64,
    fastest: Option<&'a Figures>,
    /// Lower bound over all meshes, in seconds.
    bound: f64,
    count: [usize; 4],
}

impl<'a> Tuned<'a> {
    /// - `axes`: the tuned axes.
    pub fn new(tried: &'a [Tried], axes: &'a [String]) -> Tuned<'a> {
        let planned = tried.iter().filter_map(|tried| Some((tried, tried.figures()?)));
        let mut planned: Vec<_> = planned.collect();
        planned.sort_by(|(a, first), (b, second)| {
            a.devices.cmp(&b.devices).then(first.time.total_cmp(&second.time)).then(first.held.cmp(&second.held))
        });
        let machine = |tried: &'a Tried| tried.point.hardware.as_ref().map(|hardware| hardware.name.as_str());
        let machines: std::collections::BTreeSet<_> = tried.iter().map(machine).collect();
        Tuned { names: axes.iter().map(String::as_str).collect(), planned, tried, several_machines: machines.len() > 1 }
    }

    /// The plans that no other one dominates, by devices.
    pub fn frontier(&self) -> impl Iterator<Item = (&'a Tried, &'a Figures)> {
        self.planned.iter().copied().filter(|(tried, _)| tried.is_on_frontier)
    }

    fn summaries(&self) -> Vec<Summary<'a>> {
        let mut by_devices: BTreeMap<u64, Summary<'a>> = BTreeMap::new();
        for tried in self.tried {
            let devices = tried.devices;
            let new = Summary { devices, fastest: None, bound: f64::INFINITY, count: [0; 4] };
            let summary = by_devices.entry(devices).or_insert(new);
            if !matches!(tried.fate, Fate::Impossible(_)) {
                summary.bound = summary.bound.min(tried.bound);
            }
            match &tried.fate {
                Fate::Planned(figures) => {
                    summary.count[0] += 1;
                    if summary.fastest.is_none_or(|fastest| figures.time < fastest.time) {
                        summary.fastest = Some(figures);
                    }
                }
                Fate::Slower => summary.count[1] += 1,
                Fate::Untried => summary.count[2] += 1,
                Fate::Impossible(_) => summary.count[3] += 1,
            }
        }
        by_devices.into_values().collect()
    }

    /// Formats the plans as a table, and what is proven.
    pub fn text(&self) -> String {
        let machine = self.several_machines.then_some("machine");
        let figures = ["devices", "time", "exposed", "received", "memory", "utilisation", ""];
        let header: Vec<&str> = self.names.iter().copied().chain(machine).chain(figures).collect();
        let last = header.len() - 1;
        let mut table = table::new(header, 0..last);
        let mut last = None;
        for (tried, figures) in self.planned.iter().take(MOST_ROWS) {
            let extent = |name: &&str| tried.point.sizes.iter().find(|(own, _)| own == name).map(|(_, extent)| extent);
            let mut row: Vec<String> =
                self.names.iter().map(|name| extent(name).map_or_else(|| "1".to_owned(), Extent::to_string)).collect();
            if self.several_machines {
                row.push(figures.hardware.clone());
            }
            row.push(tried.devices.to_string());
            row.extend([figures.time, figures.exposed].map(show_seconds));
            row.extend([figures.received, figures.held].map(bytes_or_dash));
            row.push(format!("{:.1} %", 100.0 * figures.utilisation));
            row.push(match (last.replace(tried.devices) != Some(tried.devices), tried.is_on_frontier) {
                (true, _) => "fastest".to_owned(),
                (false, true) => "less memory".to_owned(),
                (false, false) => String::new(),
            });
            table.add_row(row);
        }
        let mut text = table::lines(&table);
        if self.planned.len() > MOST_ROWS {
            writeln!(text, "... and {} more", self.planned.len() - MOST_ROWS).expect("a string");
        }
        text.push('\n');
        for summary in self.summaries() {
            text.push_str(&summary.text());
        }
        for (place, (tried, figures)) in self.frontier().filter(|(_, figures)| !figures.filled.is_empty()).enumerate() {
            let head = if place == 0 { "\nlayouts\n" } else { "" };
            writeln!(text, "{head}  {}: {}", self.mesh(tried), figures.filled.join(", ")).expect("a string");
        }
        if self.planned.is_empty()
            && let Some(Tried { fate: Fate::Impossible(why), .. }) = self.tried.first()
        {
            writeln!(text, "the first: {why}").expect("a string");
        }
        text
    }

    /// Formats `data=8, model=4`.
    fn mesh(&self, tried: &Tried) -> String {
        let sizes = tried.point.sizes.iter().filter(|(name, _)| self.names.contains(&name.as_str()));
        let sizes: Vec<String> = sizes.map(|(name, size)| format!("{name}={size}")).collect();
        sizes.join(", ")
    }

    /// Converts all meshes to JSON.
    pub fn document(&self, file: &'a str) -> TuneDocument<'a> {
        TuneDocument { schema: "shardc.tune/1", file, meshes: self.tried.iter().map(mesh).collect() }
    }
}

impl Summary<'_> {
    fn text(&self) -> String {
        let [planned, slower, untried, impossible] = self.count;
        let total = planned + slower + untried + impossible;
        let mut parts = vec![format!("{planned} planned")];
        parts.extend((slower > 0).then(|| format!("{slower} cannot be faster")));
        parts.extend((untried > 0).then(|| format!("{untried} not planned in time")));
        parts.extend((impossible > 0).then(|| format!("{impossible} impossible")));
        let claim = match self.fastest {
            None => "no plan".to_owned(),
            Some(fastest) if fastest.time <= 0.0 => "no step takes time".to_owned(),
            Some(_) if self.bound <= 0.0 => "lower bound unknown".to_owned(),
            Some(fastest) => {
                let bound = show_seconds(self.bound);
                format!("lower bound of all meshes {bound}, the fastest plan {:.2}x", fastest.time / self.bound)
            }
        };
        let (devices, meshes) = (counted(self.devices, "device"), if total == 1 { "mesh" } else { "meshes" });
        format!("{devices}: {total} {meshes}, {}; {claim}\n", parts.join(", "))
    }
}

/// Meshes as a JSON document.
#[derive(Debug, Serialize)]
pub struct TuneDocument<'a> {
    schema: &'static str,
    file: &'a str,
    meshes: Vec<MeshDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct MeshDocument<'a> {
    sizes: Vec<SizeDocument<'a>>,
    devices: u64,
    hardware: Option<&'a str>,
    /// `planned`, `slower`, `untried` or `impossible`.
    fate: &'static str,
    /// On the frontier of devices, time and memory.
    frontier: bool,
    time_s: Option<f64>,
    exposed_s: Option<f64>,
    bytes_received_per_device: Option<u64>,
    peak_bytes_per_device: Option<u64>,
    utilisation: Option<f64>,
    /// Lower bound on the time of its plans; missing if there are none.
    bound_s: Option<f64>,
    /// Layouts chosen for inputs.
    layouts: &'a [String],
    why: Option<&'a str>,
}

fn mesh(tried: &Tried) -> MeshDocument<'_> {
    let figures = tried.figures();
    let (fate, why) = match &tried.fate {
        Fate::Planned(_) => ("planned", None),
        Fate::Slower => ("slower", None),
        Fate::Untried => ("untried", None),
        Fate::Impossible(why) => ("impossible", Some(why.as_str())),
    };
    MeshDocument {
        sizes: tried.point.sizes.iter().map(|(name, size)| SizeDocument::new(name, size)).collect(),
        devices: tried.devices,
        hardware: tried.point.hardware.as_ref().map(|hardware| hardware.name.as_str()),
        fate,
        frontier: tried.is_on_frontier,
        time_s: figures.map(|figures| figures.time),
        exposed_s: figures.map(|figures| figures.exposed),
        bytes_received_per_device: figures.map(|figures| figures.received.0),
        peak_bytes_per_device: figures.map(|figures| figures.held.0),
        utilisation: figures.map(|figures| figures.utilisation),
        bound_s: Some(tried.bound).filter(|bound| bound.is_finite()),
        layouts: figures.map_or(&[], |figures| figures.filled.as_slice()),
        why,
    }
}
