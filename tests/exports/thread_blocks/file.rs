//! Simulates MSCCL files, thread block by thread block.
//!
//! A message stays in a slot of its connection until it is received; a send waits for a free slot. Each step reads
//! and receives at once, and later writes and sends at once.

use super::world::{Caller, HALVES, Memory, World, hash};
use shardc::export::msccl::{Block, Op, Place, Program};
use shardc::export::ranks::Kind;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

#[derive(Clone, Default, Hash)]
struct Progress {
    next: usize,
    /// Number of chunks of the step that are done.
    done: usize,
    /// The result to be written and sent.
    result: Option<Vec<i64>>,
}

#[derive(Clone)]
pub(crate) struct FileWorld {
    program: Rc<Program>,
    /// Rank and number of each agent that is a thread block.
    blocks: Rc<Vec<(usize, usize)>>,
    memory: Memory,
    progress: Vec<Progress>,
    /// Messages in flight, by sender, receiver and channel.
    wires: BTreeMap<(usize, usize, u32), VecDeque<Vec<i64>>>,
    /// Number of messages that a connection can hold.
    slots: usize,
    /// Maximum number of chunks per message.
    together: usize,
}

impl FileWorld {
    pub(crate) fn new(program: &Rc<Program>, kind: Kind, slots: usize, together: usize) -> Option<FileWorld> {
        let chunks: Vec<[u64; 3]> = program.gpus.iter().map(|gpu| gpu.chunks).collect();
        let blocks: Vec<(usize, usize)> = (program.gpus.iter().enumerate())
            .flat_map(|(rank, gpu)| (0..gpu.blocks.len()).map(move |block| (rank, block)))
            .collect();
        Some(FileWorld {
            program: Rc::clone(program),
            memory: Memory::new(kind, &chunks)?,
            progress: vec![Progress::default(); blocks.len()],
            blocks: Rc::new(blocks),
            wires: BTreeMap::new(),
            slots,
            together,
        })
    }

    fn agent(&self, rank: usize, block: usize) -> usize {
        self.blocks.iter().position(|known| *known == (rank, block)).expect("the reader looked")
    }

    fn ended(&self, rank: usize) -> bool {
        let mut own = self.blocks.iter().zip(&self.progress).filter(|((other, _), _)| *other == rank);
        own.all(|((_, block), progress)| progress.next == self.program.gpus[rank].blocks[*block].steps.len())
    }

    fn wire(&self, rank: usize, block: &Block, sends: bool) -> (usize, usize, u32) {
        let peer = |peer: Option<u32>| peer.expect("the reader looked") as usize;
        if sends { (rank, peer(block.send), block.channel) } else { (peer(block.receive), rank, block.channel) }
    }

    fn values(&self, rank: usize, place: Place, first: usize, count: usize) -> Vec<i64> {
        let start = (usize::try_from(place.chunk).expect("small") + first) * HALVES;
        self.memory.buffers[rank][place.buffer as usize][start..start + count * HALVES].to_vec()
    }
}

fn add(left: Vec<i64>, right: &[i64]) -> Vec<i64> {
    left.into_iter().zip(right).map(|(left, right)| left.wrapping_add(*right)).collect()
}

impl World for FileWorld {
    fn agents(&self) -> usize {
        self.blocks.len() + self.memory.callers.len()
    }

    fn is_ready(&self, agent: usize) -> bool {
        let Some((rank, number)) = self.blocks.get(agent).copied() else {
            let rank = agent - self.blocks.len();
            return match self.memory.callers[rank] {
                Caller::Launches => true,
                Caller::Reads => self.ended(rank),
                Caller::Done => false,
            };
        };
        let (block, progress) = (&self.program.gpus[rank].blocks[number], &self.progress[agent]);
        let Some(step) = block.steps.get(progress.next).filter(|_| self.memory.runs(rank)) else { return false };
        if progress.result.is_some() {
            return true;
        }
        // `depid` is stored in a signed byte.
        let waits = step.after.is_some_and(|(other, place)| {
            let number = other % 256;
            number >= 128 || self.progress[self.agent(rank, number)].next <= place
        });
        let messages = |sends| self.wires.get(&self.wire(rank, block, sends)).map_or(0, VecDeque::len);
        let starves = step.op.receives() && messages(false) == 0;
        !(waits || starves || step.op.sends() && messages(true) >= self.slots)
    }

    fn step(&mut self, agent: usize) -> Result<(), String> {
        let Some((rank, number)) = self.blocks.get(agent).copied() else {
            let rank = agent - self.blocks.len();
            if self.memory.call(rank)? {
                for (place, (other, _)) in self.blocks.iter().enumerate() {
                    if *other == rank {
                        self.progress[place] = Progress::default();
                    }
                }
            }
            return Ok(());
        };
        let program = Rc::clone(&self.program);
        let block = &program.gpus[rank].blocks[number];
        let step = block.steps[self.progress[agent].next];
        let (first, all) = (self.progress[agent].done, usize::try_from(step.count).expect("small"));
        let count = (all - first).min(self.together);
        let Some(result) = self.progress[agent].result.take() else {
            let received = match step.op.receives() {
                true => {
                    let wire = self.wire(rank, block, false);
                    self.wires.get_mut(&wire).and_then(VecDeque::pop_front).unwrap_or_default()
                }
                false => Vec::new(),
            };
            if step.op.receives() && received.len() != count * HALVES {
                return Err("a message of another length".to_owned());
            }
            let source = |world: &FileWorld| world.values(rank, step.source, first, count);
            self.progress[agent].result = Some(match step.op {
                Op::Nop => Vec::new(),
                Op::Send | Op::Copy => source(self),
                Op::Receive | Op::ReceiveCopySend => received,
                Op::ReceiveReduceSend | Op::ReceiveReduceCopy | Op::ReceiveReduceCopySend => {
                    add(source(self), &received)
                }
                Op::Reduce => add(source(self), &self.values(rank, step.target, first, count)),
            });
            return Ok(());
        };
        if step.op.writes_target() {
            let start = (usize::try_from(step.target.chunk).expect("small") + first) * HALVES;
            let buffer = &mut self.memory.buffers[rank][step.target.buffer as usize];
            buffer[start..start + result.len()].copy_from_slice(&result);
        }
        if step.op.sends() {
            let wire = self.wire(rank, block, true);
            self.wires.entry(wire).or_default().push_back(result);
        }
        let progress = &mut self.progress[agent];
        progress.done += count;
        if progress.done >= all {
            *progress = Progress { next: progress.next + 1, ..Progress::default() };
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        // Remaining messages fill the slots, one more with each launch.
        self.memory.is_over() && self.wires.values().all(VecDeque::is_empty)
    }

    fn state(&self) -> u64 {
        hash(&(&self.memory, &self.progress, &self.wires))
    }
}
