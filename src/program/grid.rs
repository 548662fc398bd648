//! The mesh and its additional names: logical axes over several machine axes, and axes split into parts.

use super::error::CheckError;
use super::size::read_size;
use crate::diag::{Diagnostics, did_you_mean, nearest};
use crate::mesh::{Axis, AxisId, Mesh};
use crate::span::Span;
use crate::syntax::{AxisDecl, Name, PartDecl};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};

/// Names for several axes, major first.
pub(super) type Views = BTreeMap<String, Vec<AxisId>>;

/// The mesh and its additional names.
pub(super) struct Grid<'a> {
    pub(super) mesh: Mesh,
    pub(super) views: Views,
    /// Where each name is declared.
    places: BTreeMap<&'a str, Span>,
    /// The sizes by name.
    sizes: BTreeMap<&'a str, u64>,
    /// Whether the mesh sizes are as written, without an error.
    pub(super) sound: bool,
    /// Whether an unknown axis was to be split: names of its parts may occur anywhere.
    pub(super) parts_lost: bool,
}

impl<'a> Grid<'a> {
    /// Reads the mesh of a statement. An axis of invalid size gets size 1 to avoid follow-up errors.
    pub(super) fn read(decls: &'a [AxisDecl], span: Span, diagnostics: &mut Diagnostics) -> Option<Grid<'a>> {
        let mut axes: Vec<Axis> = Vec::new();
        let mut places: BTreeMap<&str, Span> = BTreeMap::new();
        let mut views: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut sizes: BTreeMap<&str, u64> = BTreeMap::new();
        let mut devices = 1u128;
        let mut sound = true;
        for decl in decls {
            let name = decl.name.node.as_str();
            if let Some(first) = places.get(name) {
                let (first, second) = (*first, decl.name.span);
                diagnostics.push(&CheckError::AxisRepeated { name: name.to_owned(), first, second });
                continue;
            }
            places.insert(name, decl.name.span);
            let what = format!("axis `{name}`");
            let physical: Vec<u64> = std::iter::once(&decl.size)
                .chain(&decl.more)
                .map(|size| {
                    let size = read_size(size, &what, &sizes, diagnostics);
                    sound &= size.is_some();
                    size.unwrap_or(1)
                })
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
        if let Some(taken) = axes.iter().map(|axis| &axis.name).duplicates().next() {
            diagnostics.push(&CheckError::PhysicalName { name: taken.clone(), at: span });
            return None;
        }
        if devices > u128::from(Mesh::MOST_DEVICES) {
            let count = if devices == u128::MAX { "2^128 or more".to_owned() } else { devices.to_string() };
            diagnostics.push(&CheckError::MeshTooLarge { found: format!("it has {count} devices"), at: span });
            axes.iter_mut().for_each(|axis| axis.size = 1);
            sound = false;
        }
        Some(Grid { mesh: Mesh::new(axes)?, views, places, sizes, sound, parts_lost: false })
    }

    /// Splits an axis: `axis R = {Q: 4, P: 4}`. After an error the parts are still declared.
    pub(super) fn view(
        &mut self,
        axis: &Name,
        parts: &'a [PartDecl],
        span: Span,
        lost: &BTreeSet<String>,
        diagnostics: &mut Diagnostics,
    ) {
        let name = axis.node.clone();
        let Some(id) = self.mesh.axis_named(&name) else {
            self.parts_lost = true;
            if let Some(parts) = self.views.get(&name) {
                let parts = parts.iter().map(|axis| format!("`{}`", self.mesh.axis(*axis).name)).join(", ");
                diagnostics.push(&CheckError::ViewOfParts { name, parts, at: axis.span });
            } else if !lost.contains(&name) {
                let names = self.mesh.axes().iter().map(|axis| axis.name.as_str());
                let help = match nearest(&name, names) {
                    Some(near) => did_you_mean(near),
                    None => format!("the mesh is `{}`", self.mesh),
                };
                diagnostics.push(&CheckError::UnknownAxis { fixes: Vec::new(), name, at: axis.span, help });
            }
            return;
        };
        let mut sizes: Vec<(String, u64)> = Vec::new();
        let mut sound = self.sound;
        for part in parts {
            let word = part.name.node.as_str();
            let second = part.name.span;
            let physical = || self.mesh.axis_named(word).map(|_| span);
            if let Some(first) = self.places.get(word).copied().or_else(physical) {
                diagnostics.push(&CheckError::AxisRepeated { name: word.to_owned(), first, second });
                sound = false;
                continue;
            }
            self.places.insert(word, second);
            let size = read_size(&part.size, &format!("axis `{word}`"), &self.sizes, diagnostics);
            sound &= size.is_some();
            self.sizes.extend(size.map(|size| (word, size)));
            sizes.push((word.to_owned(), size.unwrap_or(1)));
        }
        let (found, size) = (sizes.iter().fold(1, |all: u64, (_, part)| all.saturating_mul(*part)), self.mesh.size(id));
        if sound && found != size {
            diagnostics.push(&CheckError::ViewSize { axis: name.clone(), found, size, at: span });
        }
        if found != size {
            // The first part counts as all of the axis, so that no further error follows.
            let first = |place| if place == 0 { size } else { 1 };
            sizes.iter_mut().enumerate().for_each(|(place, (_, part))| *part = first(place));
        }
        let narrow = |(name, size): (String, u64)| (name, u32::try_from(size).unwrap_or(u32::MAX));
        let sizes: Vec<(String, u32)> = sizes.into_iter().map(narrow).collect();
        if !sizes.is_empty() {
            self.split(id, &name, &sizes, span, diagnostics);
        }
    }

    /// Names keep their devices.
    fn split(&mut self, id: AxisId, name: &str, parts: &[(String, u32)], span: Span, diagnostics: &mut Diagnostics) {
        let Some(mesh) = self.mesh.split(id, parts) else {
            let found = format!("it has more than {} axes including these parts", Mesh::MOST_AXES);
            diagnostics.push(&CheckError::MeshTooLarge { found, at: span });
            return;
        };
        let moved = |axis: AxisId| match axis.index() {
            place if place > id.index() => place + parts.len() - 1..place + parts.len(),
            place if place == id.index() => place..place + parts.len(),
            place => place..place + 1,
        };
        for axes in self.views.values_mut() {
            *axes = axes.iter().flat_map(|axis| moved(*axis)).map(AxisId::new).collect();
        }
        self.views.insert(name.to_owned(), moved(id).map(AxisId::new).collect());
        self.mesh = mesh;
    }
}
