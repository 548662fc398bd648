//! Values that are computed alike, such as those of layers that are written out one by one. The ways to compute them are
//! listed once for all of them.

use super::fused::{Replaced, Structure};
use crate::einsum::Einsum;
use crate::function::Function;
use crate::fusion::{Access, Writes};
use crate::kernel::Kernel;
use crate::operator::Operator;
use crate::program::{Definition, Program, ValueId};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

/// What the ways to compute a value depend on, apart from the open sums of its operands.
#[derive(PartialEq, Eq, Hash)]
struct Kind {
    computation: Computation,
    einsum: Rc<Einsum>,
    /// The array types of its operands and of the value.
    spaces: Vec<usize>,
    access: Access,
    /// Its part in the product whose write it replaces.
    replaced: Option<Replaced>,
}

#[derive(PartialEq, Eq, Hash)]
enum Computation {
    Product,
    Reduce(Operator),
    Map(Function),
    Kernel(Arc<Kernel>),
}

/// For each value the first one that is computed alike.
///
/// - `einsum`: of each value that is computed.
/// - `spaces`: the array type of each value.
pub(super) fn kinds(
    program: &Program,
    structure: &Structure,
    einsum: impl Fn(ValueId) -> Rc<Einsum>,
    spaces: &[usize],
) -> Vec<usize> {
    let mut first: FxHashMap<Kind, usize> = FxHashMap::default();
    let kind = |id: ValueId| {
        let definition = &program.value(id).definition;
        let computation = match definition {
            Definition::Product { local: false, .. } => Computation::Product,
            Definition::Reduce { operator, .. } => Computation::Reduce(*operator),
            Definition::Map { function, .. } => Computation::Map(*function),
            Definition::Kernel { kernel, .. } => Computation::Kernel(Arc::clone(kernel)),
            // A local product has the layouts of its statement.
            Definition::Product { local: true, .. }
            | Definition::Input { .. }
            | Definition::Move { .. }
            | Definition::Collective { .. }
            | Definition::Rename { .. } => return None,
        };
        let access = structure.access(id).clone();
        let (writes, replaced) = match access.writes {
            Writes::Beyond(product) => (Writes::Beyond(0), structure.replaced_by(product)),
            writes => (writes, None),
        };
        let of = definition.operands().iter().chain([&id]);
        let spaces = of.map(|id| spaces[id.index()]).collect();
        Some(Kind { computation, einsum: einsum(id), spaces, access: Access { writes, ..access }, replaced })
    };
    let first = |id: ValueId| kind(id).map_or(id.index(), |kind| *first.entry(kind).or_insert(id.index()));
    program.value_ids().map(first).collect()
}
