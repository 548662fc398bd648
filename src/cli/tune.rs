//! `shardc tune`

use super::progress::Progress;
use super::{Failure, Output, Sizes, effort, files, input, interrupt};
use crate::compiler::{self, Options, Overlapping, Spelling};
use crate::costs::CostModel;
use crate::mesh::Mesh;
use crate::report::tune::Tuned;
use crate::sweep::{self, Point};
use crate::syntax::Extent;
use crate::tune;
use clap::{ArgGroup, Args};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Most meshes that are tried.
const MOST_MESHES: usize = 1 << 16;

/// A number of devices that a mesh may have.
fn device_count(text: &str) -> Result<u64, String> {
    let count = input::number(text)?;
    match (1..=Mesh::MOST_DEVICES).contains(&count) {
        true => Ok(count),
        false => Err(format!("a mesh has 1 to {} devices", Mesh::MOST_DEVICES)),
    }
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("meshes").required(true).args(["devices", "topology"])))]
pub(super) struct Tune {
    /// A program; `-` is standard input
    file: String,
    /// Numbers of devices, separated by commas; all meshes of the program's axes with as many devices are tried
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', value_parser = device_count)]
    devices: Vec<u64>,
    /// The physical axes of the machine, such as `8x8x4` or `16 over ib, 8`; all maps of them to the program's axes are tried
    #[arg(long, value_name = "AXES")]
    topology: Option<String>,
    /// Leave the layouts of all inputs to the plan; otherwise of those with `_?`
    #[arg(long)]
    open: bool,
    /// Plan all meshes, also those that cannot be the fastest: they may take less memory
    #[arg(long)]
    every: bool,
    /// Write the programs of the fastest plans, and of those that take less memory, to this new folder
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Hardware profiles or TOML files, separated by commas
    #[arg(long, value_name = "NAME|FILE.toml", value_delimiter = ',')]
    hardware: Vec<String>,
    /// Cost model of the planner
    #[arg(long, value_enum, default_value_t)]
    costs: CostModel,
    /// Overlap communication with computation by splitting and reordering steps
    #[arg(long, value_enum, default_value_t)]
    overlap: Overlapping,
    #[command(flatten)]
    sizes: Sizes,
    #[command(flatten)]
    effort: effort::Effort,
    #[command(flatten)]
    format: Output,
}

/// Meshes with the sizes, or the physical axes, of their axes.
fn with<T>(meshes: Vec<Vec<(String, T)>>, extent: impl Fn(T) -> Extent) -> Vec<Vec<(String, Extent)>> {
    let of = |mesh: Vec<(String, T)>| mesh.into_iter().map(|(name, own)| (name, extent(own))).collect();
    meshes.into_iter().map(of).collect()
}

impl Tune {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let source = input::source(&self.file)?;
        let hardware = self.hardware.iter().map(|name| input::hardware(name)).collect::<Result<Vec<_>, _>>()?;
        let (budget, limit) = self.effort.start_many()?;
        let options = Options { costs: self.costs, overlap: self.overlap, budget, ..Options::default() };
        let (program, mut found) = input::quietly(&source, &options, self.format.format)?;
        // The mesh of the program is not one of those that are tried.
        found.retain(|found| !compiler::UNLIKE.contains(&found.code.as_str()));
        if self.format.format == super::Format::Text {
            input::tell(&found, &source);
        }
        let text = if self.open { tune::opened(&source.text, &program) } else { source.text.clone() };
        // Axes whose size is given stay as they are.
        let mut axes = sweep::axes(&text, Spelling::Exact);
        let fixed = self.sizes.set.iter().filter(|(name, _)| axes.contains(name));
        let fixed = fixed.map(|(_, extent)| extent.size()).fold(1u64, u64::saturating_mul).max(1);
        axes.retain(|axis| self.sizes.set.iter().all(|(name, _)| name != axis));
        let counts: BTreeSet<u64> = self.devices.iter().copied().collect();
        let mut points = Vec::new();
        for hardware in hardware.iter().cloned().map(Some).chain(hardware.is_empty().then_some(None)) {
            let meshes = match &self.topology {
                Some(topology) => {
                    let options = Options { hardware: hardware.clone(), ..options.clone() };
                    let own = compiler::machine(&program, &options)
                        .map_err(|found| input::fault(&source, &found, self.format.format))?;
                    let physical = tune::machine(topology, &own.hardware)
                        .map_err(|why| Failure::Call(format!("`--topology`: {why}")))?;
                    with(tune::maps(&axes, &physical), Extent::Axis)
                }
                None => {
                    let counts = counts.iter().filter(|devices| devices.is_multiple_of(fixed));
                    with(counts.flat_map(|devices| tune::meshes(&axes, devices / fixed)).collect(), Extent::Size)
                }
            };
            points.extend(meshes.into_iter().map(|mesh| Point {
                sizes: self.sizes.set.iter().cloned().chain(mesh).collect(),
                hardware: hardware.clone(),
            }));
        }
        if points.len() > MOST_MESHES {
            return Err(Failure::Call(format!("there are {} meshes, more than {MOST_MESHES}", points.len())));
        }
        let progress = Progress::of(points.len());
        progress.begin("planned");
        let unknown = |error| Failure::Call(format!("`--set`: {error} (in `{}`)", source.name));
        let done = || progress.done();
        let tried = tune::tune(&text, Spelling::Exact, &options, points, self.every, limit, done).map_err(unknown)?;
        drop(progress);
        let tuned = Tuned::new(&tried, &axes);
        if let Some(folder) = &self.output {
            let name = |tried: &tune::Tried| {
                let sizes: Vec<String> = tried
                    .point
                    .sizes
                    .iter()
                    .map(|(name, extent)| format!("{name}{extent}").replace(' ', "_"))
                    .collect();
                let machine = tried.point.hardware.as_ref().map(|hardware| format!("_{}", hardware.name));
                format!("{}{}.shard", sizes.join("_"), machine.unwrap_or_default())
            };
            let programs = tuned
                .frontier()
                .map(|(tried, figures)| (name(tried), tune::written(&text, &tried.point, &figures.filled)));
            let programs: Vec<(String, String)> = programs.collect();
            files::write_folder(folder, programs.iter().map(|(name, text)| (name.clone(), text.as_bytes())))?;
        }
        match self.format.format {
            super::Format::Text => input::print(&tuned.text())?,
            super::Format::Json => input::print_json(&tuned.document(&source.name))?,
        }
        match tuned.frontier().next() {
            Some(_) if !interrupt::is_interrupted() => Ok(()),
            Some(_) => Err(Failure::Interrupted),
            None => Err(Failure::Program),
        }
    }
}
