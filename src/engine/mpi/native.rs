//! MPI's own collectives, for comparison.

use super::session::Session;
use crate::engine::measured::Taken;
use mpi::collective::SystemOperation;
use mpi::traits::CommunicatorCollectives;

/// A collective of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    /// `MPI_Allgather`
    AllGather,
    /// `MPI_Reduce_scatter_block`
    ReduceScatter,
    /// `MPI_Allreduce`
    AllReduce,
    /// `MPI_Alltoall`
    AllToAll,
}

impl Native {
    /// All collectives.
    pub const ALL: [Native; 4] = [Native::AllGather, Native::ReduceScatter, Native::AllReduce, Native::AllToAll];

    /// Name in shardc's notation.
    pub fn name(self) -> &'static str {
        match self {
            Native::AllGather => "AllGather",
            Native::ReduceScatter => "ReduceScatter",
            Native::AllReduce => "AllReduce",
            Native::AllToAll => "AllToAll",
        }
    }

    /// Start and end of several runs on this rank, after one warm-up run.
    ///
    /// - `elements`: f32 elements of the whole array, a multiple of the square of the number of ranks.
    pub fn run(self, session: &Session, elements: usize, repetitions: u32) -> Vec<Taken> {
        let (ranks, world) = (usize::try_from(session.size()).unwrap_or(1), session.world());
        let (whole, shard) = (vec![1f32; elements], vec![1f32; elements / ranks]);
        let (mut all, mut part) = (whole.clone(), shard.clone());
        let mut once = || {
            session.meet();
            let start = session.now();
            session.watched("answer of the last rank", || match self {
                Native::AllGather => world.all_gather_into(&shard[..], &mut all[..]),
                Native::ReduceScatter => {
                    world.reduce_scatter_block_into(&whole[..], &mut part[..], SystemOperation::sum());
                }
                Native::AllReduce => world.all_reduce_into(&whole[..], &mut all[..], SystemOperation::sum()),
                Native::AllToAll => world.all_to_all_into(&shard[..], &mut part[..]),
            });
            Taken { start, finish: session.now() }
        };
        once();
        (0..repetitions).map(|_| once()).collect()
    }
}
