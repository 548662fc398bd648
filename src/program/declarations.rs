//! Declarations of the mesh and the dims, read before all other statements.

use super::error::CheckError;
use super::grid::{Grid, Views};
use super::size::read_size;
use crate::diag::{Diagnostics, did_you_mean, nearest};
use crate::layout::{Dim, Dims};
use crate::mesh::Mesh;
use crate::span::Span;
use crate::syntax::{Ast, DimDecl, DimSize, Name, PartDecl, SizeExpr, StatementKind, axes_of};
use std::collections::BTreeMap;

/// The declared mesh and dims.
pub(super) struct Ground {
    pub(super) mesh: Mesh,
    /// Whether the mesh sizes are as written, without an error.
    pub(super) sound: bool,
    /// Whether parts of an axis failed to parse; their names may occur anywhere.
    pub(super) parts_lost: bool,
    pub(super) hardware: Option<Name>,
    /// The networks of axes.
    pub(super) networks: Vec<Name>,
    pub(super) dims: Dims,
    /// Dims by name; `None` after an error.
    pub(super) named_dims: BTreeMap<String, Option<Dim>>,
    /// Dims made of other dims, major first: `N = K*M`; empty after an error.
    pub(super) parts: BTreeMap<String, Vec<Dim>>,
    /// Names for several mesh axes, major first.
    pub(super) views: Views,
    /// The last statement that declares axes.
    pub(super) axes: Span,
}

/// The name of the array that a statement declares or computes, in quotes.
fn first_name(statement: &StatementKind) -> String {
    let name = match statement {
        StatementKind::Input { name, .. } => Some(name),
        StatementKind::Assign { target, .. } => target.name.as_ref(),
        _ => None,
    };
    name.map_or_else(|| "the statement".to_owned(), |name| format!("`{}`", name.node))
}

/// Reads all `mesh` and `dims` statements; `None` without a usable mesh.
pub(super) fn read(ast: &Ast, diagnostics: &mut Diagnostics) -> Option<Ground> {
    let mut mesh: Option<(Span, Option<Grid>, Option<Name>)> = None;
    let mut views: Vec<(&Name, &[PartDecl], Span)> = Vec::new();
    let mut first_array: Option<(Span, String)> = None;
    let mut sizes = Sizes::default();
    let mut networks: Vec<Name> = Vec::new();
    for statement in &ast.statements {
        match &statement.kind {
            StatementKind::Mesh { axes, hardware } => {
                if let Some((first, ..)) = mesh {
                    diagnostics.push(&CheckError::MeshRepeated { first, second: statement.span });
                    continue;
                }
                if let Some((_, first)) = first_array.clone() {
                    let what = "the mesh".to_owned();
                    diagnostics.push(&CheckError::MeshLate { what, first, mesh: statement.span });
                }
                networks.extend(axes.iter().filter_map(|axis| axis.over.clone()));
                let read = Grid::read(axes, statement.span, diagnostics);
                if let (None, Some(Grid { mesh, .. })) = (hardware, &read) {
                    diagnostics.push(&CheckError::DefaultHardware { mesh: mesh.to_string(), at: statement.span });
                }
                mesh = Some((statement.span, read, hardware.clone()));
            }
            StatementKind::View { axis, parts } => {
                if let Some((_, first)) = first_array.clone() {
                    let what = format!("the parts of `{}`", axis.node);
                    diagnostics.push(&CheckError::MeshLate { what, first, mesh: statement.span });
                }
                views.push((axis, parts, statement.span));
            }
            StatementKind::Dims(list) => {
                for decl in list {
                    sizes.declare(decl, diagnostics);
                }
            }
            StatementKind::Input { .. } | StatementKind::Assign { .. } | StatementKind::Repeat { .. } => {
                first_array.get_or_insert_with(|| (statement.span, first_name(&statement.kind)));
            }
            StatementKind::Output(_)
            | StatementKind::Def { .. }
            | StatementKind::Kernel(_)
            | StatementKind::Return(_)
            | StatementKind::Expect(_)
            | StatementKind::Limit { .. }
            | StatementKind::Link(_) => {}
        }
    }
    // Any statement that could not be read may have been the mesh.
    if mesh.is_none() && ast.lost.is_empty() {
        let help = match axes_of(ast).as_slice() {
            [] => "write a line such as `mesh {X: 4, Y: 2} on tpu_v5e` before the arrays".to_owned(),
            axes => {
                let axes: Vec<String> = axes.iter().map(|axis| format!("{axis}: 4")).collect();
                format!(
                    "write `mesh {{{}}} on tpu_v5e` before the arrays, with your sizes and hardware",
                    axes.join(", ")
                )
            }
        };
        diagnostics.push(&CheckError::NoMesh { at: first_array.map(|(at, _)| at), help });
    }
    let (span, grid, hardware) = mesh?;
    let axes = views.iter().map(|(.., span)| *span).fold(span, Ord::max);
    let mut grid = grid?;
    views.into_iter().for_each(|(axis, parts, span)| grid.view(axis, parts, span, &ast.lost, diagnostics));
    let Grid { mesh, views, sound, parts_lost, .. } = grid;
    let parts_lost = parts_lost || ast.lost.contains("axis");
    let known: Vec<&str> =
        mesh.axes().iter().map(|axis| axis.name.as_str()).chain(views.keys().map(String::as_str)).collect();
    for (name, at) in &sizes.places {
        if let Some((dim, axis)) = other_reading(name, &sizes.places, &known) {
            let (name, dim, axis) = ((*name).to_owned(), dim.to_owned(), axis.to_owned());
            diagnostics.push(&CheckError::UnderscoreInName { name, dim, axis, at: *at });
        }
    }
    let Sizes { dims, named: named_dims, parts, .. } = sizes;
    Some(Ground { mesh, sound, parts_lost, hardware, networks, dims, named_dims, parts, views, axes })
}

/// A name with `_` that is ambiguous: `d_model`, or dim `d` over axis `model`.
fn other_reading<'n>(name: &'n str, dims: &BTreeMap<&str, Span>, axes: &[&'n str]) -> Option<(&'n str, &'n str)> {
    let cuts = name.match_indices('_').map(|(at, _)| (&name[..at], &name[at + 1..]));
    let of_dims = cuts.filter(|(dim, _)| dims.contains_key(dim));
    of_dims.into_iter().find_map(|(dim, rest)| {
        let is_run = rest.chars().all(|letter| axes.iter().any(|axis| axis.chars().eq([letter])));
        let begins =
            |axis: &&&str| axis.strip_prefix(rest).is_some_and(|more| more.is_empty() || more.starts_with('_'));
        let axis = axes.iter().find(begins).copied().or_else(|| is_run.then_some(rest))?;
        Some((dim, axis))
    })
}

/// The declared dims.
#[derive(Default)]
struct Sizes<'a> {
    dims: Dims,
    named: BTreeMap<String, Option<Dim>>,
    parts: BTreeMap<String, Vec<Dim>>,
    places: BTreeMap<&'a str, Span>,
    /// Known dim sizes.
    known: BTreeMap<&'a str, u64>,
}

impl<'a> Sizes<'a> {
    fn declare(&mut self, decl: &'a DimDecl, diagnostics: &mut Diagnostics) {
        let name = decl.name.node.as_str();
        if let Some(first) = self.places.get(name) {
            let (first, second) = (*first, decl.name.span);
            diagnostics.push(&CheckError::DimRedeclared { name: name.to_owned(), first, second });
            return;
        }
        self.places.insert(name, decl.name.span);
        match &decl.size {
            DimSize::Is(size) => {
                let size = self.size(size, name, diagnostics);
                let dim = size.map(|size| self.dims.add(Some(name.to_owned()), size));
                self.known.extend(size.map(|size| (name, size)));
                self.named.insert(name.to_owned(), dim);
            }
            DimSize::Parts(parts) => {
                let found = self.split(parts, diagnostics).unwrap_or_default();
                let size = found.iter().try_fold(1u64, |size, dim| size.checked_mul(dim.size));
                self.known.extend(size.filter(|_| !found.is_empty()).map(|size| (name, size)));
                self.parts.insert(name.to_owned(), found);
            }
        }
    }

    fn size(&self, size: &SizeExpr, name: &str, diagnostics: &mut Diagnostics) -> Option<u64> {
        // An error in the declaration of the name is already reported.
        if size.names().iter().any(|name| self.places.contains_key(name) && !self.known.contains_key(name)) {
            return None;
        }
        read_size(size, &format!("dim `{name}`"), &self.known, diagnostics)
    }

    /// The factors of a composed dim, expanded recursively.
    fn split(&mut self, parts: &[Name], diagnostics: &mut Diagnostics) -> Option<Vec<Dim>> {
        let mut found: Vec<Dim> = Vec::new();
        for part in parts {
            let dims = match (self.named.get(&part.node), self.parts.get(&part.node)) {
                (Some(Some(dim)), _) => vec![*dim],
                (None, Some(dims)) if !dims.is_empty() => dims.clone(),
                (None, None) => {
                    let help = match nearest(&part.node, self.places.keys().copied()) {
                        Some(near) => did_you_mean(near),
                        None => format!("declare it before: `dims {{{}: 8}}`", part.node),
                    };
                    diagnostics.push(&CheckError::UnknownDim { name: part.node.clone(), at: part.span, help });
                    // Reported once; later uses assume this declaration.
                    self.named.insert(part.node.clone(), None);
                    return None;
                }
                (Some(None), _) | (None, Some(_)) => return None,
            };
            if let Some(dim) = dims.iter().find(|dim| found.contains(dim)) {
                let dim = self.dims.name(dim.id);
                diagnostics.push(&CheckError::PartRepeated { dim, at: part.span });
                return None;
            }
            found.extend(dims);
        }
        Some(found)
    }
}
