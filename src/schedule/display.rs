//! The text form of a schedule.
//!
//! ```text
//! mesh {X: 4}
//! array A: i8[D 8] = input
//! step 0
//! %0 = input A[D_X] : i8[2]
//! %1 = shuffle (3,0,1,2) via X+1 %0 : i8[2] using clockwise_ring
//! output %0 = A[D_X]
//! ```
//!
//! A vector has one entry per rank of a group: the chunk that the device keeps, or the rank it receives from; `-` means
//! none. Above 8 ranks maps are formulas of the coordinates, `(x+1) mod 16`. [`from_text`](super::from_text) parses this
//! form.

use super::text::names::{array_names, coordinate, dim_text};
use super::words;
use super::{Array, CoordMap, Cut, Dense, OpId, OpKind, Operation, Output, Region, Route, Schedule, Sources};
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisId, DeviceId, Mesh};
use crate::shift::Shift;
use crate::supply::Supply;
use itertools::Itertools;
use std::fmt::{self, Display};

/// Largest group whose vectors are written out.
pub(super) const MOST_ENTRIES: usize = 8;

impl Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = array_names(&self.arrays);
        writeln!(f, "mesh {}", self.mesh)?;
        for (array, name) in self.arrays.iter().zip(&names) {
            fmt_array(f, array, name, &names)?;
        }
        let mut assertions = self.assertions.iter().sorted_by_key(|assertion| assertion.value).peekable();
        let mut step = None;
        for id in self.ids() {
            let operation = self.operation(id);
            if step.replace(operation.step) != Some(operation.step) {
                writeln!(f, "step {}", operation.step)?;
            }
            self.fmt_operation(f, id, operation, &names)?;
            while let Some(assertion) = assertions.next_if(|assertion| assertion.value == id) {
                self.fmt_value(f, "assert", assertion, &names)?;
            }
        }
        for kernel in &self.kernels {
            writeln!(f, "kernel {}", kernel.iter().map(|id| format!("%{}", id.index())).format(", "))?;
        }
        for output in &self.outputs {
            self.fmt_value(f, "output", output, &names)?;
        }
        Ok(())
    }
}

impl Schedule {
    /// Formats `output %3 = C[I_X, K]`.
    fn fmt_value(&self, f: &mut fmt::Formatter<'_>, word: &str, output: &Output, names: &[String]) -> fmt::Result {
        let layout = brackets(&self.mesh, self.array(output.array), &output.sharding);
        writeln!(f, "{word} %{} = {}{layout}", output.value.index(), names[output.array.index()])
    }

    /// Formats an output, `C[I_X, K]`, and its definition, `A * B by ab,bc->ac`.
    pub fn show_output(&self, output: &Output) -> (String, String) {
        let names = array_names(&self.arrays);
        let array = self.array(output.array);
        let layout = brackets(&self.mesh, array, &output.sharding);
        (format!("{}{layout}", names[output.array.index()]), definition(array, &names))
    }
}

fn fmt_array(f: &mut fmt::Formatter<'_>, array: &Array, name: &str, names: &[String]) -> fmt::Result {
    let dims = array.dims.iter().zip(&array.extents).zip(&array.valid);
    // A literal dim is named by its size.
    let dims = dims.map(|((name, extent), valid)| {
        let name = if *name == valid.to_string() { name.clone() } else { format!("{} {valid}", dim_text(name)) };
        if valid == extent { name } else { format!("{name} of {extent}") }
    });
    writeln!(f, "array {name}: {}[{}] = {}", array.dtype, dims.format(", "), definition(array, names))
}

/// Formats `A * B by ab,bc->ac`.
fn definition(array: &Array, names: &[String]) -> String {
    let name = |id: &super::ArrayId| names[id.index()].as_str();
    match &array.definition {
        Dense::Input { supply: Supply::Held } => "input".to_owned(),
        Dense::Input { supply: Supply::Donated } => "input donated".to_owned(),
        Dense::Input { supply: Supply::Counted } => "iota".to_owned(),
        Dense::Input { supply: Supply::Table(table) } => format!("table {table}"),
        Dense::Product { operands: [left, right], einsum } => format!("{} * {} by {einsum}", name(left), name(right)),
        Dense::Reduce { operator, operand, einsum } => format!("reduce {operator} {} by {einsum}", name(operand)),
        Dense::Kernel { kernel, operands } => {
            format!("call {} {}", words::kernel_text(kernel), operands.iter().map(name).format(", "))
        }
        Dense::Map { function, operands, einsum } => {
            format!("{function} {} by {einsum}", operands.iter().map(name).format(", "))
        }
    }
}

impl Schedule {
    fn fmt_operation(
        &self,
        f: &mut fmt::Formatter<'_>,
        id: OpId,
        operation: &Operation,
        names: &[String],
    ) -> fmt::Result {
        let operands = self.operands(id);
        let values = operands.iter().map(|operand| format!("%{}", operand.index())).join(", ");
        write!(f, "%{} = ", id.index())?;
        match &operation.kind {
            OpKind::Input { array, sharding } => {
                let layout = brackets(&self.mesh, self.array(*array), sharding);
                write!(f, "input {}{layout}", names[array.index()])?;
            }
            OpKind::Slice { view, region } => {
                write!(f, "slice {} {values}", self.slice(view, region, operands.first()))?;
            }
            OpKind::Shuffle { sources, route } => {
                write!(f, "shuffle {} {values}", self.shuffle(sources, *route))?;
            }
            OpKind::Add { operator } => write!(f, "add {operator} {values}")?,
            OpKind::Assemble { view, places, zeros } => {
                let piece = |(operand, place): (&OpId, &Region)| {
                    format!("%{} at {}", operand.index(), region_text(&self.mesh, place))
                };
                let pieces = operands.iter().zip(places).map(piece);
                let zeros = if *zeros { " on zeros" } else { "" };
                write!(f, "assemble{zeros}{} {}", view_text(view, &operation.extents), pieces.format(", "))?;
            }
            OpKind::AllGather { axes, dim } => {
                let axes: Axes = axes.iter().copied().collect();
                write!(f, "all_gather over {} dim {dim} {values}", axes_text(&self.mesh, axes))?;
            }
            OpKind::SwitchSum { axes, operator } => {
                let axes: Axes = axes.iter().copied().collect();
                write!(f, "switch_sum {operator} over {} {values}", axes.names(&self.mesh))?;
            }
            OpKind::MatMul { einsum } => write!(f, "mat_mul {einsum} {values}")?,
            OpKind::Reduce { operator, einsum } => write!(f, "reduce {operator} {einsum} {values}")?,
            OpKind::Map { function, einsum } => write!(f, "map {function} {einsum} {values}")?,
            OpKind::Kernel(kernel) => write!(f, "call {} {values}", words::kernel_text(kernel))?,
            OpKind::Fill { dim, valid, with, block } => {
                let block = map_text(&self.mesh, block);
                write!(f, "fill {} dim {dim} from {valid} on, block {block} {values}", with.word())?;
            }
            OpKind::Shift { shift, length, block } => {
                let block = map_text(&self.mesh, block);
                let Shift { dim, by, .. } = shift;
                write!(f, "{} dim {dim} by {by} of {length}, block {block} {values}", shift.word())?;
            }
            OpKind::Mask { axes } => {
                let axes: Axes = axes.iter().copied().collect();
                write!(f, "mask over {} {values}", axes.names(&self.mesh))?;
            }
            OpKind::Reshape => write!(f, "reshape {values}")?,
        }
        write!(f, " : {}[{}]", operation.dtype, operation.extents.iter().format(", "))?;
        match operation.method {
            Some(method) => writeln!(f, " using {method}"),
            None => writeln!(f),
        }
    }

    /// Formats an operation briefly: `shuffle (3,0,1,2) via X+1`, `add sum`.
    pub fn brief(&self, id: OpId) -> String {
        let operation = self.operation(id);
        match &operation.kind {
            OpKind::Input { array, sharding } => {
                let array = self.array(*array);
                format!("input {}{}", array.name, brackets(&self.mesh, array, sharding))
            }
            OpKind::Slice { view, region } => {
                format!("slice {}", self.slice(view, region, self.operands(id).first()))
            }
            OpKind::Shuffle { sources, route } => format!("shuffle {}", self.shuffle(sources, *route)),
            OpKind::Add { operator } => format!("add {operator}"),
            OpKind::Assemble { .. } => "assemble".to_owned(),
            OpKind::AllGather { axes, dim } => {
                let axes: Axes = axes.iter().copied().collect();
                format!("all_gather over {} dim {dim}", axes_text(&self.mesh, axes))
            }
            OpKind::SwitchSum { axes, operator } => {
                let axes: Axes = axes.iter().copied().collect();
                format!("switch_sum {operator} over {}", axes.names(&self.mesh))
            }
            OpKind::MatMul { einsum } => format!("mat_mul {einsum}"),
            OpKind::Reduce { operator, einsum } => format!("reduce {operator} {einsum}"),
            OpKind::Map { function, einsum } => format!("map {function} {einsum}"),
            OpKind::Kernel(kernel) => format!("call {} {}", kernel.name, kernel.einsum),
            OpKind::Fill { dim, with, .. } => format!("fill {} dim {dim}", with.word()),
            OpKind::Shift { shift, .. } => format!("{} dim {} by {}", shift.word(), shift.dim, shift.by),
            OpKind::Mask { axes } => {
                let axes: Axes = axes.iter().copied().collect();
                format!("mask over {}", axes.names(&self.mesh))
            }
            OpKind::Reshape => "reshape".to_owned(),
        }
    }

    /// Formats `(3,0,1,2) dim 0 of [4, 2, 8]`, or the whole region if several dims are cut.
    fn slice(&self, view: &[u64], region: &Region, operand: Option<&OpId>) -> String {
        let extents = operand.map(|operand| self.operation(*operand).extents.as_slice()).unwrap_or_default();
        let of = view_text(view, extents);
        let mut cuts = region.iter().enumerate().filter(|(_, cut)| **cut != Cut::Whole);
        match (cuts.next(), cuts.next()) {
            (Some((dim, Cut::At(map))), None) => format!("{} dim {dim}{of}", map_text(&self.mesh, map)),
            _ => format!("{}{of}", region_text(&self.mesh, region)),
        }
    }

    /// Formats `(3,0,1,2) via X+1`.
    fn shuffle(&self, sources: &Sources, route: Route) -> String {
        let mesh = &self.mesh;
        let (vector, axis) = match sources {
            Sources::Shift { axes, by, wrap } => (shift_text(mesh, *axes, *by, *wrap), *axes),
            Sources::Table { axes, entries } => {
                let vector = entries.iter().map(|entry| entry_text(entry.map(u64::from)));
                (format!("({})", vector.format(",")), axes.iter().copied().collect())
            }
        };
        match route {
            Route::Hops(hops) => format!("{vector} via {}{hops:+}", axes_text(mesh, axis)),
            Route::Shortest => format!("{vector} via {}", axes_text(mesh, axis)),
        }
    }
}

/// Formats ` of [4, 2, 8]`; empty if the view is the block.
fn view_text(view: &[u64], extents: &[u64]) -> String {
    if view == extents { String::new() } else { format!(" of [{}]", view.iter().format(", ")) }
}

/// Formats `[I_X, J]{U_Y}`.
fn brackets(mesh: &Mesh, array: &Array, sharding: &Sharding) -> String {
    let dims = array.dims.iter().zip(&sharding.dims);
    let dims = dims.map(|(name, axes)| format!("{}{}", dim_text(name), axes.subscript(mesh)));
    format!("[{}]{}", dims.format(", "), sharding.open_sum(mesh))
}

fn region_text(mesh: &Mesh, region: &Region) -> String {
    let cut = |cut: &Cut| match cut {
        Cut::Whole => ":".to_owned(),
        Cut::Range { start, end } => format!("{start}..{end}"),
        Cut::At(map) => map_text(mesh, map),
    };
    format!("[{}]", region.iter().map(cut).format(", "))
}

/// Formats `XY`; `{}` for no axes.
fn axes_text(mesh: &Mesh, axes: Axes) -> String {
    if axes.is_empty() { "{}".to_owned() } else { axes.names(mesh) }
}

fn entry_text(entry: Option<u64>) -> String {
    entry.map_or_else(|| "-".to_owned(), |entry| entry.to_string())
}

/// Formats a map as a vector, with its axes if the mesh has several; above 8 ranks as a formula.
fn map_text(mesh: &Mesh, map: &CoordMap) -> String {
    match map {
        CoordMap::Affine { terms, constant, modulo } => {
            let axes: Vec<AxisId> = terms.iter().map(|(axis, _)| *axis).collect();
            if axes.is_empty() || mesh.group_size(axes.iter().copied()) > MOST_ENTRIES as u64 {
                return formula(mesh, terms, *constant, *modulo);
            }
            let entries = ranks(mesh, &axes).map(|device| map.at(mesh, device));
            vector(mesh, &axes, entries)
        }
        CoordMap::Table { axes, entries } => vector(mesh, axes, entries.iter().copied()),
    }
}

/// The devices of the group at the origin, by rank.
fn ranks<'a>(mesh: &'a Mesh, axes: &'a [AxisId]) -> impl Iterator<Item = DeviceId> + 'a {
    let count = mesh.group_size(axes.iter().copied());
    (0..count).map(move |rank| mesh.with_rank(DeviceId(0), axes.iter().copied(), rank))
}

fn vector(mesh: &Mesh, axes: &[AxisId], entries: impl Iterator<Item = Option<u64>>) -> String {
    let entries = entries.map(entry_text).join(",");
    let list: Axes = axes.iter().copied().collect();
    // Over no axes there is one rank: a number for all.
    if list.is_empty() {
        entries
    } else if mesh.axes().len() > 1 {
        format!("({entries}) over {}", list.names(mesh))
    } else {
        format!("({entries})")
    }
}

/// Formats the source of each device along an axis; the route names the axis.
fn shift_text(mesh: &Mesh, axes: Axes, by: i64, wrap: bool) -> String {
    if axes.group_size(mesh) > MOST_ENTRIES as u64 {
        return map_text(mesh, &CoordMap::along(mesh, axes, by, wrap));
    }
    let sources = Sources::Shift { axes, by, wrap };
    let entry = |device| sources.of(mesh, device).map(|source| mesh.rank(source, axes.iter()));
    let entries = ranks(mesh, &axes.iter().collect::<Vec<_>>()).map(entry).map(entry_text).join(",");
    format!("({entries})")
}

/// Formats `(x+1) mod 16` or `4x+y`.
fn formula(mesh: &Mesh, terms: &[(AxisId, i64)], constant: i64, modulo: Option<u64>) -> String {
    let mut sum = String::new();
    for (axis, factor) in terms {
        let name = coordinate(mesh, *axis);
        sum += &match factor {
            1 => format!("+{name}"),
            -1 => format!("-{name}"),
            _ if name.len() == 1 => format!("{factor:+}{name}"),
            _ => format!("{factor:+}*{name}"),
        };
    }
    if constant != 0 || terms.is_empty() {
        sum += &format!("{constant:+}");
    }
    let sum = sum.strip_prefix('+').unwrap_or(&sum);
    match modulo {
        Some(modulo) => format!("({sum}) mod {modulo}"),
        None => sum.to_owned(),
    }
}
