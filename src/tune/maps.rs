//! Maps of the physical axes of a machine to the axes of a mesh.
//!
//! ```text
//! 8x8x4                ─► data: 8x8, model: 4 │ data: 8x4, model: 8 │ data: 4, model: 8x8 │ ..
//! 16 over ib, 8 (NVLink) ─► data: 16 over ib, model: 8 │ data: 4 over ib, pipe: 4 over ib, model: 8 │ ..
//! ```

use super::meshes;
use crate::mesh::{Mesh, Wiring};
use crate::syntax::AxisShape;
use crate::topology::{Hardware, WiringRule};
use itertools::Itertools;

/// A physical axis of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalAxis {
    /// Number of devices along it.
    pub size: u64,
    /// Wiring that overrides the rule of the hardware.
    pub wiring: Option<Wiring>,
    /// Network; `None` for the first one of the hardware.
    pub over: Option<String>,
    /// Whether a group of any devices along it has its network, as at a switch; a part of a ring has other links.
    pub is_divisible: bool,
}

impl PhysicalAxis {
    /// A mesh axis with a share of this one; `None` if it would have two networks or wirings.
    fn added_to(&self, shape: &AxisShape, share: u64) -> Option<AxisShape> {
        let is_alike = || (shape.wiring, &shape.over) == (self.wiring, &self.over);
        match share {
            1 => Some(shape.clone()),
            _ if !shape.sizes.is_empty() && !is_alike() => None,
            _ => {
                let sizes = shape.sizes.iter().copied().chain([share]).sorted_unstable().rev().collect();
                Some(AxisShape { sizes, wiring: self.wiring, over: self.over.clone() })
            }
        }
    }
}

/// Parses the physical axes of a machine, `8x8x4` or `16 over ib, 8`.
///
/// # Errors
/// What is expected instead.
pub fn machine(text: &str, hardware: &Hardware) -> Result<Vec<PhysicalAxis>, String> {
    let mut found = Vec::new();
    for part in text.split(',') {
        let shape = AxisShape::parse(part.trim())
            .ok_or_else(|| format!("`{}` is not a list of axes; expected `8x8x4` or `16 over ib, 8`", part.trim()))?;
        let AxisShape { sizes, wiring, over } = shape;
        let network = hardware.networks().enumerate().find(|(place, network)| match &over {
            None => *place == 0,
            Some(over) => network.name == *over,
        });
        let Some((_, network)) = network else {
            let known = hardware.networks().map(|network| format!("`{}`", network.name)).join(", ");
            let over = over.unwrap_or_default();
            return Err(format!("{} has no network `{over}`; it has {known}", hardware.name));
        };
        let is_divisible = wiring.map_or(network.wiring, WiringRule::Always) == WiringRule::Always(Wiring::Switch);
        found.extend(sizes.into_iter().map(|size| PhysicalAxis { size, wiring, over: over.clone(), is_divisible }));
    }
    let devices = found.iter().map(|axis| axis.size).fold(1, u64::saturating_mul);
    match devices <= Mesh::MOST_DEVICES {
        true => Ok(found),
        false => Err(format!("a mesh has at most {} devices", Mesh::MOST_DEVICES)),
    }
}

/// All maps of physical axes to the axes of a mesh, each once.
///
/// An axis gets any number of physical axes with one network and wiring, the longest major. Those of a switch are also
/// divided among several axes. Maps that differ in which of several like physical axes an axis gets are the same.
pub fn maps(axes: &[String], machine: &[PhysicalAxis]) -> Vec<Vec<(String, AxisShape)>> {
    let none = AxisShape { sizes: Vec::new(), wiring: None, over: None };
    let mut found = vec![vec![none; axes.len()]];
    for physical in machine {
        // The first mesh axis gets the first physical ones first; as a whole, all other shares are 1.
        let divided = meshes(axes, physical.size).into_iter().rev();
        let divided = divided.map(|mesh| mesh.into_iter().map(|(_, share)| share).collect_vec());
        let shares = divided.filter(|shares| physical.is_divisible || shares.contains(&physical.size)).collect_vec();
        let with = |shapes: &Vec<AxisShape>, shares: &Vec<u64>| {
            let each = shapes.iter().zip(shares).map(|(shape, share)| physical.added_to(shape, *share));
            each.collect::<Option<Vec<AxisShape>>>()
        };
        // Many maps are the same already, long before the last physical axis.
        found = found
            .iter()
            .cartesian_product(&shares)
            .filter_map(|(shapes, shares)| with(shapes, shares))
            .unique()
            .collect();
    }
    let named = |shapes: Vec<AxisShape>| {
        let whole = shapes.into_iter().map(|shape| match shape.sizes.is_empty() {
            true => AxisShape { sizes: vec![1], ..shape },
            false => shape,
        });
        axes.iter().cloned().zip(whole).collect()
    };
    found.into_iter().map(named).collect()
}
