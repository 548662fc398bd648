//! A checked program as text: one line per value, operands by number.
//!
//! ```text
//! mesh {X: 4, Y: 2} on tpu_v5e
//! %0 A: bf16[I, J_X] = input
//! %1 B: bf16[J_X, K] = input
//! %2 C: bf16[I, K_Y] = product ab,bc->ac %0 %1
//! output %2
//! ```

use super::{Definition, Program, Value, ValueId, Wanted};
use crate::collective::Collective;
use crate::layout::{Dims, Layout};
use crate::mesh::Mesh;
use crate::supply::Supply;
use std::fmt;

impl fmt::Display for ValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

impl Value {
    /// The brackets as written: `[I_X, K]{U_Y}`, or `[I_?, K_?]` for a free layout.
    pub fn brackets(&self, mesh: &Mesh, dims: &Dims) -> String {
        match &self.wanted {
            Wanted::Exact(sharding) => {
                let layout =
                    Layout { dtype: self.dtype, dims: self.dims.clone(), sharding: sharding.clone(), used: None };
                layout.brackets(mesh, dims)
            }
            Wanted::Partly(_) | Wanted::Free => {
                let axes = |place| self.wanted.axes(place).map_or("_?".to_owned(), |axes| axes.subscript(mesh));
                let items = self.dims.iter().enumerate();
                let items: Vec<String> =
                    items.map(|(place, dim)| format!("{}{}", dims.name(dim.id), axes(place))).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mesh {}", self.mesh)?;
        if let Some(hardware) = &self.hardware {
            write!(f, " on {}", hardware.node)?;
        }
        writeln!(f)?;
        for link in &self.links {
            let [from, to] = [link.node.from, link.node.to].map(|device| self.mesh.place(device));
            writeln!(f, "link {from}->{to} {}", link.node.state)?;
        }
        for id in self.value_ids() {
            let value = self.value(id);
            let begins = self.repeats.iter().find(|repeat| repeat.body.start == id.index());
            begins.iter().try_for_each(|repeat| writeln!(f, "repeat {} {{", repeat.times))?;
            write!(f, "{id}")?;
            if let Some(name) = &value.name {
                write!(f, " {name}")?;
            }
            write!(f, ": {}{} = {}", value.dtype, value.brackets(&self.mesh, &self.dims), self.operation(id))?;
            for operand in value.definition.operands() {
                write!(f, " {operand}")?;
            }
            writeln!(f)?;
            let ends = self.repeats.iter().any(|repeat| repeat.body.end == id.index() + 1);
            f.write_str(if ends { "}\n" } else { "" })?;
        }
        f.write_str("output")?;
        self.outputs.iter().try_for_each(|output| write!(f, " {output}"))?;
        writeln!(f)
    }
}

impl Program {
    /// The operation of a value, without operands: `product ab,bc->ac`, `relu`, `AllGather_X`.
    fn operation(&self, id: ValueId) -> String {
        let dim_name = |operand: ValueId, dim: usize| self.dims.name(self.value(operand).dims[dim].id);
        match &self.value(id).definition {
            Definition::Input { supply } => match supply {
                Supply::Held => "input",
                Supply::Donated => "donated input",
                Supply::Counted => "iota",
                Supply::Table(_) => "table",
            }
            .to_owned(),
            Definition::Product { local: false, .. } => format!("product {}", self.einsum(id)),
            Definition::Product { local: true, .. } => format!("local product {}", self.einsum(id)),
            Definition::Reduce { operator, .. } => format!("{operator} {}", self.einsum(id)),
            Definition::Map { function, .. } => format!("{function} {}", self.einsum(id)),
            Definition::Kernel { kernel, .. } => format!("{} {}", kernel.name, kernel.einsum),
            Definition::Move { .. } => "move".to_owned(),
            Definition::Collective { collective, from, operand } => {
                let name = collective.name(from, &self.mesh, |dim| dim_name(*operand, dim));
                match collective {
                    Collective::AllToAll { from: source, .. } => format!("{name} from {}", dim_name(*operand, *source)),
                    Collective::AllGather { .. }
                    | Collective::ReduceScatter { .. }
                    | Collective::AllReduce { .. }
                    | Collective::Permute { .. }
                    | Collective::Reshard { .. }
                    | Collective::Shift(_)
                    | Collective::Broadcast { .. }
                    | Collective::Slice { .. }
                    | Collective::Open { .. } => name,
                }
            }
            Definition::Rename { .. } => "rename".to_owned(),
        }
    }
}
