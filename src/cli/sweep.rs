//! `shardc sweep`

use super::progress::Progress;
use super::{Failure, effort, files, input, interrupt};
use crate::compiler::{Options, Overlapping, Spelling};
use crate::costs::CostModel;
use crate::report::html;
use crate::report::sweep::Rows;
use crate::sweep;
use crate::syntax::{AxisShape, Extent};
use clap::{Args, ValueEnum};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Upper limit on the points of a sweep.
const MOST_POINTS: usize = 1 << 16;

#[derive(Debug, Args)]
pub(super) struct Sweep {
    /// A program; `-` is standard input
    file: String,
    /// Sizes for a dim or a mesh axis: `B=16,32`, `B=16..1M` (doubling), `B=16..64x4`, `B=16..64+16`; whole axes: `X=16,4x4`
    #[arg(long, value_name = "NAME=SIZES", value_parser = values)]
    set: Vec<(String, Vec<Extent>)>,
    /// Sizes for several axes, and their product: `data=1..64, model=1..8, product=64`
    #[arg(long, value_name = "AXES", value_parser = mesh, conflicts_with = "devices")]
    mesh: Option<Mesh>,
    /// Keep only meshes of this many devices
    #[arg(long, value_name = "COUNT", value_parser = input::number)]
    devices: Option<u64>,
    /// Hardware profiles or TOML files, separated by commas
    #[arg(long, value_name = "NAME|FILE.toml", value_delimiter = ',')]
    hardware: Vec<String>,
    /// Cost model of the planner
    #[arg(long, value_enum, default_value_t)]
    costs: CostModel,
    /// Overlap communication with computation by splitting and reordering steps
    #[arg(long, value_enum, default_value_t)]
    overlap: Overlapping,
    /// Find the sizes of the last `--set` at which communication stops taking longer than computation
    #[arg(long)]
    crossings: bool,
    /// Sort the points; by default they are in the order given, the last name varying fastest
    #[arg(long, value_enum)]
    sort: Option<Sort>,
    /// HTML file with plots of the points to write; self-contained, needs no network
    #[arg(short, long, value_name = "OUT.html")]
    output: Option<PathBuf>,
    /// Accept LaTeX and subscripts without `_`
    #[arg(long)]
    lenient: bool,
    #[command(flatten)]
    effort: effort::Effort,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Sort key of the points, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    /// Total time
    Time,
    /// Model FLOPs utilisation: time of the products at peak rate over total time
    Utilisation,
    /// Memory per device
    Memory,
}

/// Output format of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable text
    #[default]
    Text,
    /// Comma-separated values with a header, in seconds and bytes
    Csv,
    /// One JSON document, with a `schema` field
    Json,
}

/// Meshes of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mesh {
    /// Sizes by axis.
    axes: Vec<(String, Vec<Extent>)>,
    /// Number of devices of the whole mesh, if given.
    product: Option<u64>,
}

/// Parses `data=1..64, model=1,2,4, product=64`.
fn mesh(text: &str) -> Result<Mesh, String> {
    let mut found = Mesh { axes: Vec::new(), product: None };
    for part in text.split(',') {
        match (part.split_once('='), found.axes.last_mut()) {
            (Some((name, devices)), _) if name.trim() == "product" => found.product = Some(input::number(devices)?),
            (Some(_), _) => found.axes.push(values(part)?),
            // Another size of the same axis.
            (None, Some((_, sizes))) => sizes.extend(extents(part.trim())?),
            (None, None) => {
                return Err("expected axes and sizes, such as `data=1..64, model=1..8, product=64`".to_owned());
            }
        }
    }
    Ok(found)
}

/// Parses `B=16..1Mx2`.
fn values(text: &str) -> Result<(String, Vec<Extent>), String> {
    let (name, list) = text.split_once('=').ok_or("expected a name and sizes, such as `B=16,32` or `B=16..1M`")?;
    let mut found = Vec::new();
    for item in list.split(',') {
        found.extend(extents(item.trim())?);
    }
    Ok((name.trim().to_owned(), found))
}

/// Parses a range, or an axis: `4x4`.
fn extents(text: &str) -> Result<Vec<Extent>, String> {
    match (range(text), AxisShape::parse(text)) {
        (Ok(sizes), _) => Ok(sizes.into_iter().map(Extent::Size).collect()),
        (Err(_), Some(shape)) => Ok(vec![Extent::Axis(shape)]),
        (Err(why), None) => Err(why),
    }
}

/// Parses `16`, `16..64`, `16..64x4` or `16..64+16`.
fn range(text: &str) -> Result<Vec<u64>, String> {
    let Some((first, rest)) = text.split_once("..") else { return Ok(vec![input::number(text)?]) };
    let first = input::number(first)?;
    let (last, step) = match rest.split_once(['x', '+']) {
        Some((last, step)) => (input::number(last)?, input::number(step)?),
        None => (input::number(rest)?, 2),
    };
    let adds = rest.contains('+');
    if first == 0 || last < first || step < if adds { 1 } else { 2 } {
        return Err(format!("`{text}` is not a valid range; write `16`, `16..64`, `16..64x4` or `16..64+16`"));
    }
    let next = |size: &u64| if adds { size.checked_add(step) } else { size.checked_mul(step) };
    let sizes = std::iter::successors(Some(first), next).take_while(|size| *size <= last);
    Ok(sizes.take(MOST_POINTS + 1).collect())
}

impl Sweep {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let source = input::source(&self.file)?;
        let spelling = if self.lenient { Spelling::Lenient } else { Spelling::Exact };
        let hardware = self.hardware.iter().map(|name| input::hardware(name)).collect::<Result<Vec<_>, _>>()?;
        let mesh = self.mesh.iter().flat_map(|mesh| mesh.axes.iter().cloned());
        let set: Vec<_> = mesh.chain(self.set.iter().cloned()).collect();
        let count = set.iter().try_fold(hardware.len().max(1), |count, (_, sizes)| count.checked_mul(sizes.len()));
        if count.is_none_or(|count| count > MOST_POINTS) {
            return Err(Failure::Call(format!("the sweep has more than {MOST_POINTS} points; give fewer sizes")));
        }
        let mut names = BTreeSet::new();
        if let Some((name, _)) = set.iter().find(|(name, _)| !names.insert(name)) {
            return Err(Failure::Call(format!("`--set {name}` is given twice: separate its sizes by commas")));
        }
        let budget = self.effort.start()?.until(interrupt::flag()?);
        let options = Options { costs: self.costs, overlap: self.overlap, budget, ..Options::default() };
        let mut points = sweep::points(&set, &hardware);
        let unknown = |error| Failure::Call(format!("`--set`: {error} (in `{}`)", source.name));
        if let Some(wanted) = self.devices.or(self.mesh.as_ref().and_then(|mesh| mesh.product)) {
            let mut kept = Vec::new();
            for point in points {
                // A point that is not a valid program stays, so that the table says why.
                let devices = sweep::devices(&source.text, spelling, &point).map_err(unknown)?;
                if devices.is_none_or(|devices| devices as u64 == wanted) {
                    kept.push(point);
                }
            }
            points = kept;
            if points.is_empty() {
                return Err(Failure::Call(format!(
                    "no mesh of the sweep has {wanted} devices; add axis sizes with `--set`"
                )));
            }
        }
        let progress = Progress::of(points.len());
        progress.begin("planned");
        let outcomes = sweep::sweep(&source.text, spelling, &options, &points, || progress.done()).map_err(unknown)?;
        let crossings = match self.crossings && !interrupt::is_interrupted() {
            true => sweep::crossings(&source.text, spelling, &options, &points, &outcomes).map_err(unknown)?,
            false => Vec::new(),
        };
        drop(progress);
        let mut rows: Vec<_> = points.into_iter().zip(outcomes).collect();
        if let Some(sort) = self.sort {
            let key = |outcome: &sweep::Outcome| match (outcome, sort) {
                (Err(_), _) => f64::INFINITY,
                (Ok(figures), Sort::Time) => figures.time,
                (Ok(figures), Sort::Utilisation) => -figures.utilisation,
                (Ok(figures), Sort::Memory) => figures.held.0 as f64,
            };
            rows.sort_by(|(_, a), (_, b)| key(a).total_cmp(&key(b)));
        }
        let (points, outcomes): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let axes = sweep::axes(&source.text, spelling);
        let rows = Rows::new(&points, &outcomes, &axes, &crossings);
        if let Some(output) = &self.output {
            files::write_result(output, html::sweep(source.title(), &rows.document(&source.name)))?;
        }
        match self.format {
            Format::Text => input::print(&rows.text())?,
            Format::Csv => input::print(&rows.csv())?,
            Format::Json => input::print_json(&rows.document(&source.name))?,
        }
        match outcomes.iter().any(Result::is_ok) {
            true if !interrupt::is_interrupted() => Ok(()),
            true => Err(Failure::Interrupted),
            false => Err(Failure::Program),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{mesh, values};
    use crate::syntax::Extent;

    #[test]
    fn sizes_are_lists_and_ranges() {
        let found = |text: &str| values(text).map(|(_, sizes)| sizes.iter().map(Extent::size).collect::<Vec<u64>>());
        assert_eq!(found("B=16"), Ok(vec![16]));
        assert_eq!(found("B=1,4k,3"), Ok(vec![1, 4096, 3]));
        assert_eq!(found("B=16..128"), Ok(vec![16, 32, 64, 128]));
        assert_eq!(found("B=16..1000x4"), Ok(vec![16, 64, 256]));
        assert_eq!(found("B=16..64+24, 7"), Ok(vec![16, 40, 64, 7]));
        for wrong in ["B", "B=", "B=4..2", "B=0..4", "B=1..4x1", "B=1..4+0", "B=a", "B=1..2..3"] {
            assert!(values(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn meshes_are_axes_with_a_product() {
        let found = |text: &str| {
            let mesh = mesh(text)?;
            let axis = |(name, sizes): (String, Vec<Extent>)| {
                format!("{name}: {}", sizes.iter().map(Extent::to_string).collect::<Vec<_>>().join(" "))
            };
            Ok::<_, String>((mesh.axes.into_iter().map(axis).collect::<Vec<_>>().join("; "), mesh.product))
        };
        assert_eq!(
            found("data=1..64x4, model=1,2, 4x4 over dcn, product=64"),
            Ok(("data: 1 4 16 64; model: 1 2 4x4 over dcn".to_owned(), Some(64)))
        );
        assert_eq!(found("X=8"), Ok(("X: 8".to_owned(), None)));
        for wrong in ["", "8", "product", "product=x", "X=8, Y", "X=", "8, X=8"] {
            assert!(mesh(wrong).is_err(), "{wrong}");
        }
    }
}
