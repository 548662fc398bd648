//! Maps of the physical axes of a machine to the axes of a mesh.
//!
//! ```text
//! 8x8x4                ─► data: 8x8, model: 4 │ data: 8x4, model: 8 │ data: 4, model: 8x8 │ ..
//! 16 over ib, 8 (NVLink) ─► data: 16 over ib, model: 8 │ data: 4 over ib, pipe: 4 over ib, model: 8 │ ..
//! ```

use super::meshes;
use crate::mesh::Wiring;
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
    Ok(found)
}

/// All maps of physical axes to the axes of a mesh, each once.
///
/// An axis gets any number of physical axes with one network and wiring, the longest major. Those of a switch are also
/// divided among several axes. Maps that differ in which of several like physical axes an axis gets are the same.
pub fn maps(axes: &[String], machine: &[PhysicalAxis]) -> Vec<Vec<(String, AxisShape)>> {
    // For each physical axis, its possible shares by mesh axis.
    let shares = machine.iter().map(|physical| {
        // The first mesh axis gets the first physical ones first.
        let divided = meshes(axes, physical.size).into_iter().rev();
        let divided = divided.map(|sizes| sizes.into_iter().map(|(_, size)| size).collect_vec());
        // As a whole, all other shares are 1.
        divided.filter(|sizes| physical.is_divisible || sizes.contains(&physical.size)).collect_vec()
    });
    let all = shares.multi_cartesian_product();
    let with_shapes = all.filter_map(|shares: Vec<Vec<u64>>| {
        let shape = |place: usize| {
            let parts = machine.iter().zip(&shares).filter(|(_, shares)| shares[place] > 1);
            let kinds = parts.clone().map(|(physical, _)| (physical.wiring, physical.over.clone())).unique();
            let (wiring, over) = kinds.at_most_one().ok()?.unwrap_or_default();
            let mut sizes = parts.map(|(_, shares)| shares[place]).sorted_unstable().rev().collect_vec();
            if sizes.is_empty() {
                sizes.push(1);
            }
            Some(AxisShape { sizes, wiring, over })
        };
        (0..axes.len()).map(shape).collect::<Option<Vec<AxisShape>>>()
    });
    with_shapes.unique().map(|shapes| axes.iter().cloned().zip(shapes).collect()).collect()
}
