//! Warns of meshes with links that no slice of the machine has.

use crate::diag::Diagnostics;
use crate::mesh::{Axis, AxisId, Mesh};
use crate::span::Span;
use crate::syntax::{Ast, AxisDecl, StatementKind};
use crate::topology::{Topology, Unlinked, WiringRule};
use itertools::Itertools;
use miette::SourceSpan;
use thiserror::Error;

/// A mesh that no slice of the machine has the links for.
#[derive(Debug, Error, miette::Diagnostic)]
#[error("{what}")]
#[diagnostic(code("no-such-slice"), severity(Warning), help("{help}"))]
struct NoSuchSlice {
    what: String,
    help: String,
    label: String,
    #[label("{label}")]
    at: SourceSpan,
}

/// Axes that no slice of the machine has the links for. Times are then those of another machine.
pub fn unlinked(ast: &Ast, topology: &Topology) -> Diagnostics {
    let mut found = Diagnostics::default();
    let written = ast.statements.iter().find_map(|statement| match &statement.kind {
        // A mesh that lenient reading assumes is not written anywhere.
        StatementKind::Mesh { axes, .. } if !statement.span.range().is_empty() => Some((axes, statement.span)),
        _ => None,
    });
    let Some((decls, mesh)) = written else { return found };
    let declared = |axis: AxisId| {
        let each = decls.iter().flat_map(|decl| std::iter::repeat_n(decl, 1 + decl.more.len()));
        each.enumerate().find(|(place, _)| *place == axis.index()).map(|(_, decl)| decl)
    };
    let mut told: Vec<Span> = Vec::new();
    for unlinked in topology.unlinked() {
        let warning = match unlinked {
            Unlinked::Axes => too_many(mesh, topology),
            Unlinked::Odd(axis) | Unlinked::Wraparound(axis) => {
                let Some(decl) = declared(axis).filter(|decl| !told.contains(&decl.name.span)) else { continue };
                told.push(decl.name.span);
                ring(decl, axis, unlinked, topology)
            }
        };
        found.push(&warning);
    }
    found
}

/// A ring that no slice has.
fn ring(decl: &AxisDecl, axis: AxisId, unlinked: Unlinked, topology: &Topology) -> NoSuchSlice {
    let (mesh, hardware) = (&topology.machine, &topology.hardware);
    let (size, name) = (mesh.size(axis), &decl.name.node);
    let sizes = std::iter::once(axis.index()).chain(axis.index() + 1..axis.index() + 1 + decl.more.len());
    let sizes = sizes.filter_map(|place| mesh.axes().get(place)).map(|axis| axis.size).join("x");
    let line = format!("`{name}: {sizes} line`");
    let mut beside =
        on_first(topology).filter(|other| *other != axis).map(|other| format!("`{}`", mesh.axis(other).name));
    let beside = beside.join(" and ");
    let (what, label, help) = match (unlinked, hardware.network.wiring) {
        (Unlinked::Odd(_), _) => (
            format!("no slice of {} has a ring of {size} along `{name}`", hardware.name),
            "a ring of an odd number of devices".to_owned(),
            format!("write {line}: each cycle of links has an even number of chips"),
        ),
        (_, WiringRule::RingOfSize(side)) => (
            format!("no slice of {} has both a ring of {size} along `{name}` and links along {beside}", hardware.name),
            format!("a side of {size} chips does not wrap around"),
            format!("write {line}: only a side of {side} chips wraps around"),
        ),
        (_, WiringRule::RingsOfMultiple(side)) => (
            format!(
                "no slice of {} {} chips has both a ring of {size} along `{name}` and links along {beside}",
                mesh.group_size(on_first(topology)),
                hardware.name
            ),
            "this slice does not wrap around".to_owned(),
            format!(
                "write {line}: a slice wraps around if all its sides are multiples of {side}; if the program uses a part of \
                 a slice, declare the mesh of the whole slice"
            ),
        ),
        (_, WiringRule::Always(_)) => unreachable!("such a machine has all rings"),
    };
    let end = decl.wiring.as_ref().map_or(decl.name.span, |wiring| wiring.span).range().end;
    NoSuchSlice { what, help, label, at: Span::new(decl.name.span.range().start, end).into() }
}

/// More axes than a slice has sides.
fn too_many(at: Span, topology: &Topology) -> NoSuchSlice {
    let (mesh, hardware) = (&topology.machine, &topology.hardware);
    let sides = hardware.network.torus.map_or(0, std::num::NonZeroU32::get);
    let axes: Vec<AxisId> = on_first(topology).collect();
    let split = axes.get((sides as usize).saturating_sub(1)..).unwrap_or_default();
    let name = name_of_all(mesh, split);
    let written = |axis: &Axis| match (&axis.over, axis.wiring) {
        (Some(network), _) => format!("{}: {} over {network}", axis.name, axis.size),
        (None, Some(wiring)) => format!("{}: {} {wiring}", axis.name, axis.size),
        (None, None) => format!("{}: {}", axis.name, axis.size),
    };
    let all = mesh.axis_ids().filter_map(|axis| match split.iter().position(|other| *other == axis) {
        Some(0) => Some(format!("{name}: {}", mesh.group_size(split.iter().copied()))),
        Some(_) => None,
        None => Some(written(mesh.axis(axis))),
    });
    let parts = split.iter().map(|axis| mesh.axis(*axis)).map(|axis| format!("{}: {}", axis.name, axis.size));
    let lines =
        format!("`mesh {{{}}} on {}` and `axis {name} = {{{}}}`", all.format(", "), hardware.name, parts.format(", "));
    let of = match hardware.network.wiring {
        // A larger slice may have them.
        WiringRule::RingsOfMultiple(_) => format!("{} {} chips", mesh.group_size(on_first(topology)), hardware.name),
        WiringRule::Always(_) | WiringRule::RingOfSize(_) => hardware.name.clone(),
    };
    NoSuchSlice {
        what: format!("no slice of {of} has separate links along {} axes", axes.len()),
        help: format!("a slice has {sides} sides; if axes share a side, declare the side and its parts: {lines}"),
        label: format!("{} axes with links of their own", axes.len()),
        at: at.into(),
    }
}

/// The axes on the first network of the machine.
fn on_first(topology: &Topology) -> impl Iterator<Item = AxisId> + '_ {
    let mesh = &topology.machine;
    mesh.axis_ids().filter(|axis| topology.axes[axis.index()].network == 0 && mesh.size(*axis) > 1)
}

/// An unused name for several axes together.
fn name_of_all(mesh: &Mesh, axes: &[AxisId]) -> String {
    let letters = ('R'..='Z').chain('A'..='Q').map(String::from);
    let long = (1..).map(|number| format!("side{number}"));
    let is_short = axes.iter().all(|axis| mesh.axis(*axis).name.chars().count() == 1);
    let names = letters.filter(|_| is_short).chain(long);
    names.into_iter().find(|name| mesh.axis_named(name).is_none()).expect("there are infinitely many")
}
