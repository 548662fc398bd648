//! Degraded links, given by their end devices. The hardware decides later whether the ends are neighbours.

use super::checker::Checker;
use super::error::{CheckError, Checked, Failure};
use crate::link::DegradedLink;
use crate::mesh::{DeviceId, Mesh};
use crate::span::{Span, Spanned};
use crate::syntax::LinkDecl;

impl Checker {
    /// Reads a statement about a link, or about both links of a cable.
    pub(super) fn link(&mut self, decl: &LinkDecl, span: Span) {
        if !self.sound {
            return;
        }
        // Links are of the axes as they are wired, not of their parts.
        let machine = self.mesh.machine();
        match (device(&machine, &decl.from), device(&machine, &decl.to)) {
            (Ok(from), Ok(to)) => {
                let ways = [Some((from, to)), decl.both_ways.then_some((to, from))];
                let links = ways.into_iter().flatten().map(|(from, to)| DegradedLink { from, to, state: decl.state });
                self.links.extend(links.map(|node| Spanned { node, span }));
            }
            (from, to) => [from, to].into_iter().filter_map(Result::err).for_each(|failure| self.tell(failure)),
        }
    }
}

/// The device at these coordinates.
fn device(mesh: &Mesh, place: &Spanned<Vec<u64>>) -> Checked<DeviceId> {
    let wrong = |why: String| Failure::from(CheckError::NoDevice { mesh: mesh.to_string(), why, at: place.span });
    if place.node.len() != mesh.axes().len() {
        return Err(wrong(format!("{} coordinates for {} axes", place.node.len(), mesh.axes().len())));
    }
    let mut device = DeviceId(0);
    for (axis, coordinate) in mesh.axis_ids().zip(&place.node) {
        let inside = u32::try_from(*coordinate).ok().filter(|coordinate| *coordinate < mesh.axis(axis).size);
        let Some(inside) = inside else {
            let (name, last) = (&mesh.axis(axis).name, mesh.axis(axis).size - 1);
            return Err(wrong(format!("`{name}` ranges from 0 to {last}")));
        };
        device = mesh.with_coordinate(device, axis, inside);
    }
    Ok(device)
}
