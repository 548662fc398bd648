//! Simulates MSCCL++ plans, thread by thread.
//!
//! Each block has two threads, which is sufficient to expose races. Each element of a chunk is handled by one of
//! them, which differs between operations. A thread reads in one step and writes in another. It runs independently of
//! the other one until a `nop`.

use super::world::{Caller, HALVES, Memory, World, hash};
use shardc::export::mscclpp::{Chunks, Operation, Plan};
use shardc::export::ranks::Kind;
use std::collections::BTreeMap;
use std::rc::Rc;

const THREADS: usize = 2;

/// A range of a buffer: rank, buffer, first chunk, number of chunks.
type Place = (usize, usize, usize, usize);

/// A decoded operation.
enum Op {
    Nop,
    /// The signalled ranks, in thread order.
    Signal(Vec<usize>),
    Wait(Vec<usize>),
    Acquire(Vec<usize>),
    Release(Vec<usize>),
    /// Adds up what it reads, and writes the result to all targets.
    Move(Vec<Place>, Place),
}

struct Code {
    /// Operations by rank and block.
    blocks: Vec<Vec<Vec<Op>>>,
    /// The element that the first thread handles, by rank, block and operation.
    shifts: Vec<Vec<Vec<usize>>>,
    /// Rank, block and thread of each agent that is a thread.
    threads: Vec<(usize, usize, usize)>,
}

#[derive(Clone, Default, Hash)]
struct Thread {
    next: usize,
    /// Number of completed turns in the current operation.
    turn: usize,
    read: Option<Vec<i64>>,
}

#[derive(Clone)]
pub(crate) struct PlanWorld {
    code: Rc<Code>,
    memory: Memory,
    threads: Vec<Thread>,
    signals: BTreeMap<(usize, usize), usize>,
    semaphores: Vec<Vec<i64>>,
}

impl PlanWorld {
    /// `None` if an operation cannot be executed at all.
    pub(crate) fn new(plan: &Plan, kind: Kind, random: &mut fastrand::Rng) -> Option<PlanWorld> {
        let chunks: Vec<[u64; 3]> =
            plan.gpus.iter().map(|gpu| [gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks]).collect();
        let memory = Memory::new(kind, &chunks)?;
        let (mut blocks, mut shifts, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, gpu) in plan.gpus.iter().enumerate() {
            let mut all = Vec::new();
            for (block, code) in gpu.threadblocks.iter().enumerate() {
                let ops = code.ops.iter().map(|op| looked_up(plan, &memory, (rank, block), op));
                all.push(ops.collect::<Option<Vec<Op>>>()?);
                threads.extend((0..THREADS).map(|thread| (rank, block, thread)));
            }
            shifts.push(all.iter().map(|ops| ops.iter().map(|_| random.usize(..THREADS)).collect()).collect());
            blocks.push(all);
        }
        Some(PlanWorld {
            memory,
            threads: vec![Thread::default(); threads.len()],
            signals: BTreeMap::new(),
            semaphores: plan
                .gpus
                .iter()
                .map(|gpu| gpu.semaphores.iter().map(|semaphore| i64::from(semaphore.init_value)).collect())
                .collect(),
            code: Rc::new(Code { blocks, shifts, threads }),
        })
    }

    /// The next turn of a thread in an operation on channels or semaphores, if any.
    fn turn<'a>(&self, agent: usize, all: &'a [usize]) -> Option<&'a usize> {
        all.get(self.threads[agent].turn * THREADS + self.code.threads[agent].2)
    }

    fn ended(&self, rank: usize) -> bool {
        let mut threads = self.threads.iter().zip(&self.code.threads).filter(|(_, (other, ..))| *other == rank);
        threads.all(|(thread, (_, block, _))| thread.next == self.code.blocks[rank][*block].len())
    }
}

fn looked_up(plan: &Plan, memory: &Memory, (rank, block): (usize, usize), op: &Operation) -> Option<Op> {
    let (gpu, n) = (&plan.gpus[rank], plan.gpus.len());
    let peers = || -> Option<Vec<usize>> {
        let own = &gpu.threadblocks[block].channels[0].channel_ids;
        let peer = |id: &usize| Some(*gpu.channels[0].connected_to.get(*own.get(*id)?)? as usize);
        let peers = op.channel_ids.iter().map(peer).collect::<Option<Vec<usize>>>()?;
        (!peers.is_empty() && peers.iter().all(|peer| *peer < n && *peer != rank)).then_some(peers)
    };
    let semaphores = || {
        let known = op.semaphore_ids.iter().all(|id| *id < gpu.semaphores.len());
        (known && !op.semaphore_ids.is_empty()).then(|| op.semaphore_ids.clone())
    };
    let place = |chunks: &Chunks, elsewhere: bool| -> Option<Place> {
        let (whose, letter) = match (&chunks.kind, chunks.buffer_id) {
            (Some(kind), None) if !elsewhere => (rank, kind.as_str()),
            (None, Some(id)) if elsewhere => {
                let id = gpu.threadblocks[block].remote_buffer_refs[0].remote_buffer_ids.get(id)?;
                let remote = gpu.remote_buffers.get(*id)?;
                (remote.rank as usize, remote.kind.as_str())
            }
            _ => return None,
        };
        let buffer = ["i", "o", "s"].iter().position(|known| *known == letter)?;
        let (start, count) = (usize::try_from(chunks.index).ok()?, usize::try_from(chunks.size).ok()?);
        (count > 0 && memory.holds(whose, buffer, start, count)).then_some((whose, buffer, start, count))
    };
    Some(match op.name.as_str() {
        "nop" => Op::Nop,
        "signal" => Op::Signal(peers()?),
        "wait" => Op::Wait(peers()?),
        "sem_acquire" => Op::Acquire(semaphores()?),
        "sem_release" => Op::Release(semaphores()?),
        "put" | "copy" | "re" => {
            let sources = op.src_buff.iter().map(|chunks| place(chunks, false)).collect::<Option<Vec<Place>>>()?;
            let [target] = op.dst_buff.as_slice() else { return None };
            let target = place(target, op.name == "put")?;
            let fits = !sources.is_empty() && sources.iter().all(|source| source.3 == target.3);
            if !fits || op.name != "re" && sources.len() != 1 {
                return None;
            }
            Op::Move(sources, target)
        }
        _ => return None,
    })
}

impl World for PlanWorld {
    fn agents(&self) -> usize {
        self.threads.len() + self.memory.callers.len()
    }

    fn is_ready(&self, agent: usize) -> bool {
        let Some((rank, block, _)) = self.code.threads.get(agent).copied() else {
            let rank = agent - self.threads.len();
            return match self.memory.callers[rank] {
                Caller::Launches => true,
                Caller::Reads => self.ended(rank),
                Caller::Done => false,
            };
        };
        let next = self.threads[agent].next;
        let Some(op) = self.code.blocks[rank][block].get(next).filter(|_| self.memory.runs(rank)) else { return false };
        match op {
            Op::Nop => {
                let own = self.code.threads.iter().zip(&self.threads);
                own.filter(|((r, b, _), _)| (*r, *b) == (rank, block)).all(|(_, thread)| thread.next >= next)
            }
            Op::Wait(peers) => self
                .turn(agent, peers)
                .is_none_or(|peer| self.signals.get(&(*peer, rank)).is_some_and(|count| *count > 0)),
            Op::Acquire(ids) => self.turn(agent, ids).is_none_or(|id| self.semaphores[rank][*id] > 0),
            Op::Signal(_) | Op::Release(_) | Op::Move(..) => true,
        }
    }

    fn step(&mut self, agent: usize) -> Result<(), String> {
        let code = Rc::clone(&self.code);
        let Some((rank, block, number)) = code.threads.get(agent).copied() else {
            let rank = agent - self.threads.len();
            if self.memory.call(rank)? {
                let own = self.threads.iter_mut().zip(&code.threads).filter(|(_, (other, ..))| *other == rank);
                own.for_each(|(thread, _)| *thread = Thread::default());
            }
            return Ok(());
        };
        let next = self.threads[agent].next;
        match &code.blocks[rank][block][next] {
            Op::Nop => {}
            Op::Signal(all) | Op::Wait(all) | Op::Acquire(all) | Op::Release(all) => {
                if let Some(one) = self.turn(agent, all).copied() {
                    match &code.blocks[rank][block][next] {
                        Op::Signal(_) => *self.signals.entry((rank, one)).or_default() += 1,
                        Op::Wait(_) => *self.signals.entry((one, rank)).or_default() -= 1,
                        Op::Acquire(_) => self.semaphores[rank][one] -= 1,
                        _ => self.semaphores[rank][one] += 1,
                    }
                    self.threads[agent].turn += 1;
                    return Ok(());
                }
            }
            Op::Move(sources, (to, buffer, start, count)) => {
                let half = (number + code.shifts[rank][block][next]) % HALVES;
                match self.threads[agent].read.take() {
                    None => {
                        let sum = |chunk: usize| {
                            let parts = sources.iter().map(|(rank, buffer, start, _)| {
                                self.memory.buffers[*rank][*buffer][(start + chunk) * HALVES + half]
                            });
                            parts.fold(0i64, i64::wrapping_add)
                        };
                        self.threads[agent].read = Some((0..*count).map(sum).collect());
                        return Ok(());
                    }
                    Some(values) => {
                        for (chunk, value) in values.into_iter().enumerate() {
                            self.memory.buffers[*to][*buffer][(start + chunk) * HALVES + half] = value;
                        }
                    }
                }
            }
        }
        self.threads[agent] = Thread { next: next + 1, ..Thread::default() };
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.memory.is_over()
    }

    fn state(&self) -> u64 {
        hash(&(&self.memory, &self.threads, &self.signals, &self.semaphores))
    }
}
