//! Costs of moves and operations for the planner: three implementations of one trait.

mod balance;
mod book;
mod bytes;
mod exact;
mod floor;

pub(crate) use balance::Balance;

pub use floor::{Floor, Unit, floor, floor_of, least_load, units};

use crate::collective::Collective;
use crate::layout::Layout;
use crate::method::Method;
use crate::plan::{Cost, Costs, Limit, LocalWork};
use crate::recipe::Lowering;
use crate::topology::{ProductWork, Topology};
use crate::units::{Bytes, Time};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cell::RefCell;

/// The choice of the cost model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum CostModel {
    /// Simulated time of the best method on the real links
    #[default]
    Exact,
    /// The closed forms of the book
    Book,
    /// Received bytes; times simulated
    Bytes,
}

impl CostModel {
    /// The model with this name, as given by [`Costs::name`].
    pub fn named(name: &str) -> Option<CostModel> {
        match name {
            "exact" => Some(CostModel::Exact),
            "book" => Some(CostModel::Book),
            "bytes" => Some(CostModel::Bytes),
            _ => None,
        }
    }

    /// The costs of this model for the plans of a program whose statements request these methods.
    pub fn with_methods(
        self,
        requested: impl Iterator<Item = Method>,
        topology: &Topology,
        lowering: Lowering,
    ) -> Box<dyn Costs + '_> {
        match self {
            CostModel::Exact => Box::new(exact::Exact::new(topology, lowering).with_methods(requested)),
            CostModel::Book | CostModel::Bytes => self.on(topology, lowering),
        }
    }

    /// The costs of this model on a machine.
    pub fn on(self, topology: &Topology, lowering: Lowering) -> Box<dyn Costs + '_> {
        match self {
            CostModel::Exact => Box::new(exact::Exact::new(topology, lowering)),
            CostModel::Book => Box::new(book::Book::new(topology, lowering)),
            CostModel::Bytes => Box::new(bytes::ReceivedBytes::new(Cow::Borrowed(topology), lowering)),
        }
    }
}

/// Costs computed so far, by operand layout.
#[derive(Default)]
struct Known {
    costs: RefCell<FxHashMap<Layout, FxHashMap<Collective, Cost>>>,
}

impl Known {
    fn get(&self, collective: &Collective, from: &Layout) -> Option<Cost> {
        self.costs.borrow().get(from)?.get(collective).copied()
    }

    /// The cost of a collective, computed if it is not known.
    fn or_computed(&self, collective: &Collective, from: &Layout, compute: impl FnOnce() -> Cost) -> Cost {
        self.get(collective, from).unwrap_or_else(|| {
            let cost = compute();
            self.costs.borrow_mut().entry(from.clone()).or_default().insert(collective.clone(), cost);
            cost
        })
    }
}

/// The cost of a product: the longer of its arithmetic and its memory traffic.
fn roofline(work: &LocalWork, topology: &Topology) -> Cost {
    let LocalWork { dtype, flops, traffic, form, starts } = *work;
    let traffic = u128::from(traffic.0);
    let took = topology.product_time(ProductWork { dtype, flops, form, traffic, starts });
    limited(took.time(), if took.computing >= took.traffic { Limit::Compute } else { Limit::Memory })
}

/// The time of reading the operands and writing the result.
fn traffic(work: &LocalWork, topology: &Topology) -> Cost {
    limited(topology.memory_time(u128::from(work.traffic.0), work.starts).time(), Limit::Memory)
}

/// A cost; work that takes no time has no limit.
fn limited(time: Time, limit: Limit) -> Cost {
    Cost { time, received: Bytes(0), limit: if time == Time::ZERO { Limit::Free } else { limit } }
}

#[cfg(test)]
mod tests {
    use super::{CostModel, Lowering};
    use crate::collective::Collective;
    use crate::compiler::{self, Options};
    use crate::mesh::AxisSet;

    /// A cost is bounded until it is computed; then it is known.
    #[test]
    fn what_was_computed_is_known() {
        let source = "mesh {X: 4, Y: 2} on tpu_v5e\ndims {I: 64, J: 64}\nA: bf16[I_X, J_Y]\noutput A\n";
        let program = compiler::check(source).0.expect("a program");
        let topology = compiler::machine(&program, &Options::default()).expect("a machine");
        let mesh = &program.mesh;
        let from = compiler::plan(&program, &topology, &Options::default()).expect("a plan");
        let from = from.ids().map(|id| from.step(id).layout.clone()).next().expect("an input");
        for model in [CostModel::Exact, CostModel::Book, CostModel::Bytes] {
            let costs = model.on(&topology, Lowering::default());
            for axis in mesh.axis_ids() {
                let moved = Collective::AllGather { axes: AxisSet::one(axis) };
                let bound = costs.at_least(&moved, &from);
                assert_eq!(bound.is_some(), model != CostModel::Book, "{model:?}");
                let cost = costs.collective(&moved, &from);
                assert!(bound.is_none_or(|bound| bound.time <= cost.time && bound.received <= cost.received));
                assert_eq!(costs.at_least(&moved, &from), None, "{model:?}");
                assert_eq!(costs.collective(&moved, &from), cost, "{model:?}");
            }
        }
    }
}
