//! The mesh and the dims: read before everything else, since every other statement rests on them.

use super::error::CheckError;
use super::names::nearest;
use crate::diag::Diagnostics;
use crate::layout::{Dim, Dims};
use crate::mesh::{Axis, AxisId, Mesh};
use crate::span::Span;
use crate::syntax::{Ast, AxisDecl, DimDecl, DimSize, Name, SizeExpr, StatementKind};
use std::collections::BTreeMap;

/// Names that stand for several axes, major first.
pub(super) type Views = BTreeMap<String, Vec<AxisId>>;

/// The mesh, and the names beside those of its axes.
type Grid = (Mesh, Views);

/// What the declarations say.
pub(super) struct Ground {
    pub(super) mesh: Mesh,
    pub(super) hardware: Option<Name>,
    /// The networks that axes lie over.
    pub(super) networks: Vec<Name>,
    pub(super) dims: Dims,
    /// By name; `None` where the declaration has an error.
    pub(super) named_dims: BTreeMap<String, Option<Dim>>,
    /// Dims that stand for several, major first: `N = K*M`; empty where the declaration has an error.
    pub(super) parts: BTreeMap<String, Vec<Dim>>,
    /// Names that stand for several axes of the mesh, major first.
    pub(super) views: Views,
}

/// Reads all `mesh` and `dims` statements; `None` if there is no mesh to go on with.
pub(super) fn read(ast: &Ast, diagnostics: &mut Diagnostics) -> Option<Ground> {
    let mut mesh: Option<(Span, Option<Grid>, Option<Name>)> = None;
    let mut first_array: Option<Span> = None;
    let mut sizes = Sizes::default();
    let mut networks: Vec<Name> = Vec::new();
    for statement in &ast.statements {
        match &statement.kind {
            StatementKind::Mesh { axes, hardware } => {
                if let Some((first, ..)) = mesh {
                    diagnostics.push(&CheckError::MeshRepeated { first, second: statement.span });
                    continue;
                }
                if let Some(first) = first_array {
                    diagnostics.push(&CheckError::MeshLate { first, mesh: statement.span });
                }
                networks.extend(axes.iter().filter_map(|axis| axis.over.clone()));
                let read = read_mesh(axes, statement.span, diagnostics);
                if let (None, Some((mesh, _))) = (hardware, &read) {
                    diagnostics.push(&CheckError::DefaultHardware { mesh: mesh.to_string(), at: statement.span });
                }
                mesh = Some((statement.span, read, hardware.clone()));
            }
            StatementKind::Dims(list) => {
                for decl in list {
                    sizes.declare(decl, diagnostics);
                }
            }
            StatementKind::Input { .. } | StatementKind::Assign { .. } | StatementKind::Repeat { .. } => {
                first_array.get_or_insert(statement.span);
            }
            StatementKind::Output(_)
            | StatementKind::Expect(_)
            | StatementKind::Limit { .. }
            | StatementKind::Link(_) => {}
        }
    }
    // Any statement that could not be read may have been the mesh.
    if mesh.is_none() && ast.lost.is_empty() {
        diagnostics.push(&CheckError::NoMesh { at: first_array });
    }
    let (_, mesh, hardware) = mesh?;
    let (mesh, views) = mesh?;
    let Sizes { dims, named: named_dims, parts, .. } = sizes;
    Some(Ground { mesh, hardware, networks, dims, named_dims, parts, views })
}

/// The mesh of a statement. Where a size is wrong the axis counts as 1, so that nothing more is told because of it.
fn read_mesh(decls: &[AxisDecl], span: Span, diagnostics: &mut Diagnostics) -> Option<Grid> {
    let mut axes: Vec<Axis> = Vec::new();
    let mut places: BTreeMap<&str, Span> = BTreeMap::new();
    let mut views: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut devices = 1u128;
    for decl in decls {
        let name = decl.name.node.as_str();
        if let Some(first) = places.get(name) {
            let (first, second) = (*first, decl.name.span);
            diagnostics.push(&CheckError::AxisRepeated { name: name.to_owned(), first, second });
            continue;
        }
        places.insert(name, decl.name.span);
        let physical: Vec<u64> = std::iter::once(&decl.size)
            .chain(&decl.more)
            .map(|size| read_size(size, &format!("axis `{name}`"), &sizes, diagnostics).unwrap_or(1))
            .collect();
        sizes.insert(name, physical.iter().fold(1, |size: u64, part| size.saturating_mul(*part)));
        let wiring = decl.wiring.as_ref().map(|wiring| wiring.node);
        let over = decl.over.as_ref().map(|network| network.node.clone());
        for (place, size) in (1..).zip(&physical) {
            devices = devices.saturating_mul(u128::from(*size));
            let name = if physical.len() > 1 { format!("{name}{place}") } else { name.to_owned() };
            if physical.len() > 1 {
                views.entry(decl.name.node.clone()).or_default().push(axes.len());
            }
            axes.push(Axis { name, size: u32::try_from(*size).unwrap_or(u32::MAX), wiring, over: over.clone() });
        }
    }
    if axes.len() > Mesh::MOST_AXES {
        let found = format!("it has {} axes", axes.len());
        diagnostics.push(&CheckError::MeshTooLarge { found, at: span });
        return None;
    }
    let ids = |places: Vec<usize>| places.into_iter().map(AxisId::new).collect();
    let views = views.into_iter().map(|(name, places)| (name, ids(places))).collect();
    if let Some(taken) = axes.iter().enumerate().find_map(|(at, axis)| axes[..at].iter().find(|a| a.name == axis.name))
    {
        diagnostics.push(&CheckError::PhysicalName { name: taken.name.clone(), at: span });
        return None;
    }
    if devices > u128::from(Mesh::MOST_DEVICES) {
        let count = if devices == u128::MAX { "far too many".to_owned() } else { devices.to_string() };
        diagnostics.push(&CheckError::MeshTooLarge { found: format!("it has {count} devices"), at: span });
        axes.iter_mut().for_each(|axis| axis.size = 1);
    }
    Some((Mesh::new(axes)?, views))
}

/// A size, 1 or more; `None` and a report if it has none.
fn read_size(size: &SizeExpr, what: &str, known: &BTreeMap<&str, u64>, diagnostics: &mut Diagnostics) -> Option<u64> {
    match size.value(&mut |name| known.get(name.node.as_str()).copied()) {
        Ok(0) => diagnostics.push(&CheckError::SizeZero { what: what.to_owned(), at: size.span }),
        Ok(size) => return Some(size),
        Err(flaw) => diagnostics.push(&CheckError::size(flaw, "sizes rest on names that are declared before")),
    }
    None
}

/// The dims as far as they are declared.
#[derive(Default)]
struct Sizes<'a> {
    dims: Dims,
    named: BTreeMap<String, Option<Dim>>,
    parts: BTreeMap<String, Vec<Dim>>,
    places: BTreeMap<&'a str, Span>,
    /// The sizes of those that have one.
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
        // A name whose own declaration has an error is told of already.
        if size.names().iter().any(|name| self.places.contains_key(name) && !self.known.contains_key(name)) {
            return None;
        }
        read_size(size, &format!("dim `{name}`"), &self.known, diagnostics)
    }

    /// The dims that another one is made of; one that is made of others counts as those.
    fn split(&mut self, parts: &[Name], diagnostics: &mut Diagnostics) -> Option<Vec<Dim>> {
        let mut found: Vec<Dim> = Vec::new();
        for part in parts {
            let dims = match (self.named.get(&part.node), self.parts.get(&part.node)) {
                (Some(Some(dim)), _) => vec![*dim],
                (None, Some(dims)) if !dims.is_empty() => dims.clone(),
                (None, None) => {
                    let help = match nearest(&part.node, self.places.keys().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("give it a size before: `dims {{{}: 8}}`", part.node),
                    };
                    diagnostics.push(&CheckError::UnknownDim { name: part.node.clone(), at: part.span, help });
                    // Told once; later uses rest on this.
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
