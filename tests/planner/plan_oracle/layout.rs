//! Layouts as plain lists of axes, and their enumeration.

use itertools::Itertools;

/// Names of the axes, which are numbers here.
const AXES: [&str; 4] = ["X", "Y", "Z", "T"];

/// The axes on each dim, major first, and those of the open sum in mesh order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layout {
    pub dims: Vec<Vec<usize>>,
    pub open: Vec<usize>,
}

impl Layout {
    /// All ways to put each axis on a dim (in any order), in the open sum, or nowhere.
    pub fn all(rank: usize, axes: usize) -> Vec<Layout> {
        let mut layouts = vec![Layout { dims: vec![Vec::new(); rank], open: Vec::new() }];
        for axis in 0..axes {
            let mut with = Vec::new();
            for layout in &layouts {
                for dim in 0..rank {
                    for place in 0..=layout.dims[dim].len() {
                        let mut more = layout.clone();
                        more.dims[dim].insert(place, axis);
                        with.push(more);
                    }
                }
                let mut open = layout.clone();
                open.open.push(axis);
                with.push(open);
            }
            layouts.append(&mut with);
        }
        layouts
    }

    /// The layouts without an open sum.
    pub fn closed(rank: usize, axes: usize) -> Vec<Layout> {
        Layout::all(rank, axes).into_iter().filter(|layout| layout.open.is_empty()).collect()
    }

    /// The same layout with each axis replaced by its parts, major first.
    pub fn in_parts(&self, parts: &[Vec<usize>]) -> Layout {
        let list = |axes: &Vec<usize>| axes.iter().flat_map(|axis| parts[*axis].clone()).collect();
        Layout { dims: self.dims.iter().map(list).collect(), open: list(&self.open) }
    }

    /// Number of pieces of each dim.
    pub fn pieces(&self, mesh: &[u64]) -> Vec<u64> {
        self.dims.iter().map(|axes| axes.iter().map(|axis| mesh[*axis]).product()).collect()
    }

    /// Whether all pieces of a dim have equal length.
    pub fn divides(&self, sizes: &[u64], mesh: &[u64]) -> bool {
        self.pieces(mesh).iter().zip(sizes).all(|(pieces, size)| size.is_multiple_of(*pieces))
    }

    /// Number of elements on a device.
    pub fn elements(&self, sizes: &[u64], mesh: &[u64]) -> u64 {
        self.pieces(mesh).iter().zip(sizes).map(|(pieces, size)| size / pieces).product()
    }

    /// Whether the axes first occur in mesh order. This selects one of the layouts that differ only in axis names.
    pub fn is_first_of_its_kind(&self) -> bool {
        let met = self.dims.iter().flatten().chain(&self.open);
        met.enumerate().all(|(at, axis)| at == *axis)
    }

    /// The layout as text, with these dim names: `[I_XY, J]{U_Z}`.
    pub fn text(&self, names: &[&str]) -> String {
        let list = |axes: &[usize]| axes.iter().map(|axis| AXES[*axis]).join("");
        let dim = |(axes, name): (&Vec<usize>, &&str)| match axes.is_empty() {
            true => (*name).to_owned(),
            false => format!("{name}_{}", list(axes)),
        };
        let open = if self.open.is_empty() { String::new() } else { format!("{{U_{}}}", list(&self.open)) };
        format!("[{}]{open}", self.dims.iter().zip(names).map(dim).join(", "))
    }
}

/// The mesh with each axis split into parts of prime size, and the parts of each axis.
pub fn primes(mesh: &[u64]) -> (Vec<u64>, Vec<Vec<usize>>) {
    let mut sizes = Vec::new();
    let mut parts = Vec::new();
    for axis in mesh {
        let first = sizes.len();
        let mut rest = *axis;
        while let Some(prime) = (2..=rest).find(|factor| rest.is_multiple_of(*factor)) {
            sizes.push(prime);
            rest /= prime;
        }
        parts.push((first..sizes.len()).collect());
    }
    (sizes, parts)
}

/// The mesh as a `mesh` statement, with rings, as in the book.
pub fn mesh_text(mesh: &[u64]) -> String {
    let axes = mesh.iter().zip(AXES).map(|(size, name)| format!("{name}: {size} ring"));
    format!("mesh {{{}}} on tpu_v5e", axes.into_iter().join(", "))
}
