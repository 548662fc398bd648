//! Small random mutations of plans and files.

use shardc::export::msccl::{Op, Program, Step};
use shardc::export::mscclpp::{Operation, Plan};
use shardc::export::ranks::Buffer;

/// A different number close to `value`.
fn near(value: u64, random: &mut fastrand::Rng) -> u64 {
    value.saturating_add_signed(random.choice([-1, 1, 1, 2]).unwrap_or(1))
}

/// Moves an element to another position.
fn moved<T>(list: &mut Vec<T>, from: usize, random: &mut fastrand::Rng) {
    let one = list.remove(from);
    let to = random.usize(..=list.len());
    list.insert(to, one);
}

/// A random position for which `holds` is true; any position if there is none.
fn place<T>(list: &[T], random: &mut fastrand::Rng, holds: impl Fn(&T) -> bool) -> usize {
    let places: Vec<usize> = (0..list.len()).filter(|place| holds(&list[*place])).collect();
    random.choice(places).unwrap_or_else(|| random.usize(..list.len()))
}

fn is_sync(op: &Operation) -> bool {
    ["signal", "wait", "nop", "sem_acquire", "sem_release"].contains(&op.name.as_str())
}

/// A plan with one mutation.
pub(crate) fn of_plan(right: &Plan, random: &mut fastrand::Rng) -> Plan {
    let mut plan = right.clone();
    let ranks = plan.gpus.len();
    let blocks = &mut plan.gpus[random.usize(..ranks)].threadblocks;
    let (block, count) = (random.usize(..blocks.len()), blocks.len());
    let ops = &mut blocks[block].ops;
    if ops.is_empty() {
        return plan;
    }
    let any = random.usize(..ops.len());
    match random.u8(..13) {
        0 => drop(ops.remove(any)),
        1 if any + 1 < ops.len() => ops.swap(any, any + 1),
        2 => ops.insert(any, ops[any].clone()),
        3 => {
            let at = place(ops, random, |op| !op.dst_buff.is_empty());
            ops[at].dst_buff.iter_mut().for_each(|to| to.index = near(to.index, random));
        }
        4 => {
            let at = place(ops, random, |op| !op.src_buff.is_empty());
            let count = ops[at].src_buff.len();
            if count > 0 {
                let from = &mut ops[at].src_buff[random.usize(..count)];
                from.index = near(from.index, random);
            }
        }
        5 => {
            let at = place(ops, random, |op| !op.channel_ids.is_empty());
            let other = random.usize(..4);
            ops[at].channel_ids.iter_mut().take(1).for_each(|id| *id = other);
        }
        6 => {
            let at = place(ops, random, |op| op.dst_buff.iter().any(|to| to.buffer_id.is_some()));
            let other = random.usize(..4);
            ops[at].dst_buff.iter_mut().for_each(|to| to.buffer_id = to.buffer_id.map(|_| other));
        }
        7 | 8 => {
            let at = place(ops, random, is_sync);
            moved(ops, at, random);
        }
        9 | 10 => {
            let at = place(ops, random, is_sync);
            ops.remove(at);
        }
        11 => {
            let at = place(ops, random, |op| !op.src_buff.is_empty());
            let letter = random.choice(["i", "o", "s"]).unwrap_or("o").to_owned();
            let op = &mut ops[at];
            let mut chunks = op.src_buff.iter_mut().chain(&mut op.dst_buff).filter(|chunks| chunks.kind.is_some());
            if let Some(chunks) = chunks.next() {
                chunks.kind = Some(letter);
            }
        }
        _ => {
            // To the next thread block, or the first.
            let op = ops.remove(any);
            let other = (block + 1) % count;
            let to = random.usize(..=blocks[other].ops.len());
            blocks[other].ops.insert(to, op);
        }
    }
    plan
}

/// Updates references to steps that have a new number.
fn renumber(blocks: &mut [shardc::export::msccl::Block], block: usize, number: impl Fn(usize) -> usize) {
    for step in blocks.iter_mut().flat_map(|block| &mut block.steps) {
        step.after = step.after.map(|(of, step)| (of, if of == block { number(step) } else { step }));
    }
}

/// A file with one mutation.
pub(crate) fn of_file(right: &Program, random: &mut fastrand::Rng) -> Program {
    let mut program = right.clone();
    let ranks = program.gpus.len();
    let rank = random.usize(..ranks);
    let blocks = &mut program.gpus[rank].blocks;
    let block = random.usize(..blocks.len());
    let (all, length) = (blocks.len(), blocks[block].steps.len());
    let at = random.usize(..length);
    let keeps = random.bool();
    let step = |blocks: &mut Vec<shardc::export::msccl::Block>| -> Step { blocks[block].steps[at] };
    match random.u8(..14) {
        0 | 1 => {
            blocks[block].steps.remove(at);
            if keeps {
                renumber(blocks, block, |step| if step > at { step - 1 } else { step });
            }
        }
        2 if at + 1 < length => {
            blocks[block].steps.swap(at, at + 1);
            if keeps {
                let swapped = |step| if step == at { at + 1 } else { if step == at + 1 { at } else { step } };
                renumber(blocks, block, swapped);
            }
        }
        3 => {
            let again = step(blocks);
            blocks[block].steps.insert(at, again);
            if keeps {
                renumber(blocks, block, |step| if step >= at { step + 1 } else { step });
            }
        }
        4 => blocks[block].steps[at].source.chunk = near(step(blocks).source.chunk, random),
        5 => blocks[block].steps[at].target.chunk = near(step(blocks).target.chunk, random),
        6 => {
            let buffer = random.choice([Buffer::Input, Buffer::Output, Buffer::Scratch]).unwrap_or(Buffer::Output);
            let step = &mut blocks[block].steps[at];
            if keeps { step.source.buffer = buffer } else { step.target.buffer = buffer }
        }
        7 => {
            let other = u32::try_from(random.usize(..ranks)).ok().filter(|other| *other as usize != rank);
            if keeps { blocks[block].send = other } else { blocks[block].receive = other }
        }
        8 | 9 => {
            let at = place(&blocks[block].steps, random, |step| step.after.is_some());
            blocks[block].steps[at].after = None;
        }
        10 => {
            let other = random.usize(..all);
            let length = blocks[other].steps.len();
            let after = (other, random.usize(..length));
            blocks[block].steps[at].after = Some(after);
            blocks[after.0].steps[after.1].awaited = true;
        }
        11 => blocks[block].steps[at].op = random.choice(Op::ALL).unwrap_or(Op::Nop),
        12 => blocks[block].steps[at].count = near(step(blocks).count, random).max(1),
        _ => {
            let from = random.usize(..length);
            moved(&mut blocks[block].steps, from, random);
        }
    }
    program
}
