//! Costs of moves and operations for the planner: three implementations of one trait.

mod balance;
mod book;
mod bytes;
mod exact;
mod floor;

pub(crate) use balance::Balance;

pub use floor::{Floor, Unit, floor, floor_of, least_load, units};

use crate::plan::{Cost, Costs, Limit, LocalWork};
use crate::recipe::Lowering;
use crate::topology::{ProductWork, Topology};
use crate::units::{Bytes, Time};
use std::borrow::Cow;

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

    /// The costs of this model on a machine.
    pub fn on(self, topology: &Topology, lowering: Lowering) -> Box<dyn Costs + '_> {
        match self {
            CostModel::Exact => Box::new(exact::Exact::new(topology, lowering)),
            CostModel::Book => Box::new(book::Book::new(topology, lowering)),
            CostModel::Bytes => Box::new(bytes::ReceivedBytes::new(Cow::Borrowed(topology), lowering)),
        }
    }
}

/// The cost of a product: the longer of its arithmetic and its memory traffic.
fn roofline(work: &LocalWork, topology: &Topology) -> Cost {
    let LocalWork { dtype, flops, traffic, shape, starts } = *work;
    let traffic = u128::from(traffic.0);
    let took = topology.product_time(ProductWork { dtype, flops, shape, traffic, starts });
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
