//! The mesh and the dims: read before everything else, since every other statement rests on them.

use super::error::CheckError;
use crate::diag::Diagnostics;
use crate::layout::{Dim, Dims};
use crate::mesh::{Axis, Mesh};
use crate::span::Span;
use crate::syntax::{Ast, AxisDecl, DimDecl, Name, StatementKind};
use std::collections::BTreeMap;

/// What the declarations say.
pub(super) struct Ground {
    pub(super) mesh: Mesh,
    pub(super) hardware: Option<Name>,
    pub(super) dims: Dims,
    /// By name; `None` where the declaration has an error.
    pub(super) named_dims: BTreeMap<String, Option<Dim>>,
}

/// Reads all `mesh` and `dims` statements; `None` if there is no mesh to go on with.
pub(super) fn read(ast: &Ast, diagnostics: &mut Diagnostics) -> Option<Ground> {
    let mut mesh: Option<(Span, Option<Mesh>, Option<Name>)> = None;
    let mut first_array: Option<Span> = None;
    let (mut dims, mut named_dims, mut places) = (Dims::default(), BTreeMap::new(), BTreeMap::new());
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
                let read = read_mesh(axes, statement.span, diagnostics);
                if let (None, Some(mesh)) = (hardware, &read) {
                    diagnostics.push(&CheckError::DefaultHardware { mesh: mesh.to_string(), at: statement.span });
                }
                mesh = Some((statement.span, read, hardware.clone()));
            }
            StatementKind::Dims(list) => {
                for decl in list {
                    read_dim(decl, &mut dims, &mut named_dims, &mut places, diagnostics);
                }
            }
            StatementKind::Input { .. } | StatementKind::Assign { .. } => {
                first_array.get_or_insert(statement.span);
            }
            StatementKind::Output(_) => {}
        }
    }
    // Any statement that could not be read may have been the mesh.
    if mesh.is_none() && ast.lost.is_empty() {
        diagnostics.push(&CheckError::NoMesh { at: first_array });
    }
    let (_, mesh, hardware) = mesh?;
    Some(Ground { mesh: mesh?, hardware, dims, named_dims })
}

/// The mesh of a statement. Where a size is wrong the axis counts as 1, so that nothing more is told because of it.
fn read_mesh(decls: &[AxisDecl], span: Span, diagnostics: &mut Diagnostics) -> Option<Mesh> {
    let mut axes: Vec<Axis> = Vec::new();
    let mut places: BTreeMap<&str, Span> = BTreeMap::new();
    let mut devices = 1u128;
    for decl in decls {
        let (name, size) = (decl.name.node.as_str(), decl.size.node);
        if let Some(first) = places.get(name) {
            let (first, second) = (*first, decl.name.span);
            diagnostics.push(&CheckError::AxisRepeated { name: name.to_owned(), first, second });
            continue;
        }
        places.insert(name, decl.name.span);
        if size == 0 {
            diagnostics.push(&CheckError::SizeZero { what: format!("axis `{name}`"), at: decl.size.span });
        }
        devices = devices.saturating_mul(u128::from(size.max(1)));
        let wiring = decl.wiring.as_ref().map(|wiring| wiring.node);
        let size = u32::try_from(size.max(1)).unwrap_or(u32::MAX);
        axes.push(Axis { name: name.to_owned(), size, wiring });
    }
    if axes.len() > Mesh::MOST_AXES {
        let found = format!("it has {} axes", axes.len());
        diagnostics.push(&CheckError::MeshTooLarge { found, at: span });
        return None;
    }
    if devices > u128::from(Mesh::MOST_DEVICES) {
        let count = if devices == u128::MAX { "far too many".to_owned() } else { devices.to_string() };
        diagnostics.push(&CheckError::MeshTooLarge { found: format!("it has {count} devices"), at: span });
        axes.iter_mut().for_each(|axis| axis.size = 1);
    }
    Mesh::new(axes)
}

fn read_dim<'a>(
    decl: &'a DimDecl,
    dims: &mut Dims,
    named: &mut BTreeMap<String, Option<Dim>>,
    places: &mut BTreeMap<&'a str, Span>,
    diagnostics: &mut Diagnostics,
) {
    let (name, size) = (decl.name.node.as_str(), decl.size.node);
    if let Some(first) = places.get(name) {
        let (first, second) = (*first, decl.name.span);
        diagnostics.push(&CheckError::DimRedeclared { name: name.to_owned(), first, second });
        return;
    }
    places.insert(name, decl.name.span);
    if size == 0 {
        diagnostics.push(&CheckError::SizeZero { what: format!("dim `{name}`"), at: decl.size.span });
    }
    let dim = (size > 0).then(|| dims.add(Some(name.to_owned()), size));
    named.insert(name.to_owned(), dim);
}
