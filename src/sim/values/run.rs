//! Runs all operations in order, and reassembles the outputs.

use super::combine::{assemble, close};
use super::defer::{Deferred, Part, defer, is_deferred};
use super::difference::largest_difference;
use super::error::RunError;
use super::guard;
use super::input::{Inputs, shard_box};
use super::late::{Late, step_late};
use super::pad::valid_part;
use super::parallel::Here;
use super::step::{Blocks, fit, step};
use super::tensor::Tensor;
use super::view::{index, sizes};
use crate::mesh::{DeviceId, Mesh};
use crate::schedule::{Array, OpId, OpKind, Output, Schedule, Verified, verify};
use std::collections::BTreeMap;
use std::ops::Range;

/// The outputs on the devices at the end of a run.
#[derive(Clone, Debug)]
pub struct Run {
    mesh: Mesh,
    outputs: Vec<Held>,
}

/// One output on all devices.
#[derive(Clone, Debug)]
struct Held {
    output: Output,
    array: Array,
    blocks: Blocks,
}

/// A shard of an output, with open sums combined.
pub(super) struct Shard {
    /// A device that holds it: the first of those that hold its parts.
    pub(super) device: DeviceId,
    /// Its box in the array.
    pub(super) ranges: Vec<Range<u64>>,
    /// Its elements.
    pub(super) block: Tensor,
}

/// A reassembled output.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// The array.
    pub array: Tensor,
    /// The largest difference between replicas, 0 if they agree; always 0 for integers.
    pub replica_gap: f64,
}

/// Runs all operations on every device, in list order. Values are freed after their last use.
///
/// # Errors
/// If the schedule is malformed, inputs are missing or have another type, or the computation is too large.
pub fn run(schedule: &Schedule, inputs: &Inputs) -> Result<Run, RunError> {
    let mut execution = Execution::new(schedule, inputs, Here::All)?;
    schedule.ids().try_for_each(|id| execution.compute(id))?;
    Ok(execution.finish())
}

/// A schedule being run, operation by operation.
#[derive(Debug)]
pub struct Execution<'a> {
    schedule: Verified<'a>,
    inputs: &'a Inputs,
    here: Here,
    /// Outstanding uses of each value.
    uses: Vec<u32>,
    values: Vec<Option<Value>>,
}

impl<'a> Execution<'a> {
    /// The state before the first operation.
    ///
    /// # Errors
    /// If the schedule is malformed, or the computation is too large.
    pub fn new(schedule: &'a Schedule, inputs: &'a Inputs, here: Here) -> Result<Execution<'a>, RunError> {
        let schedule = guard::check(schedule)?;
        let values = vec![None; schedule.operations.node_count()];
        Ok(Execution { schedule, inputs, here, uses: schedule.uses(), values })
    }

    /// Runs one operation on the devices selected by `here`. All earlier operations must be done.
    ///
    /// # Errors
    /// If inputs are missing or have another type, or a device lacks an operand.
    ///
    /// # Panics
    /// If an earlier operation is not done, or the schedule has no such operation.
    pub fn compute(&mut self, id: OpId) -> Result<(), RunError> {
        let operands = self.schedule.operands(id);
        let taken = self.taken(&operands);
        let value = evaluate(self.schedule, self.inputs, self.here, id, &operands, taken)?;
        self.keep(id, value);
        Ok(())
    }

    /// Removes and returns the blocks of the single operand of a communication operation.
    ///
    /// # Panics
    /// If the operation does not communicate.
    pub fn take(&mut self, id: OpId) -> Blocks {
        let taken = self.taken(&self.schedule.operands(id));
        match <[Value; 1]>::try_from(taken) {
            Ok([Value::Blocks(blocks)]) => blocks,
            _ => unreachable!("what moves has one operand, and only slices use a deferred product"),
        }
    }

    /// Sets the blocks that a communication operation received.
    ///
    /// # Panics
    /// If they do not match the operation.
    pub fn put(&mut self, id: OpId, blocks: Blocks) {
        assert!(fit(self.schedule.operation(id), &blocks), "what comes is what %{} says", id.index());
        self.keep(id, Value::Blocks(blocks));
    }

    /// The result of a gather kept as one operation, from the blocks of all group members.
    ///
    /// # Errors
    /// As [`compute`](Execution::compute).
    pub fn gather(&mut self, id: OpId, members: Blocks) -> Result<(), RunError> {
        let mut blocks = step(self.schedule, self.inputs, self.here, id, vec![members])?;
        let devices = self.schedule.mesh.devices();
        blocks
            .iter_mut()
            .zip(devices)
            .filter(|(_, device)| !self.here.has(*device))
            .for_each(|(block, _)| *block = None);
        self.keep(id, Value::Blocks(blocks));
        Ok(())
    }

    /// Whether each device has a block of a value; `None` if the value is no longer needed.
    pub fn present(&self, id: OpId) -> Option<Vec<bool>> {
        match self.values[id.index()].as_ref()? {
            Value::Blocks(blocks) => Some(blocks.iter().map(Option::is_some).collect()),
            Value::Deferred(_) | Value::Part(_) => None,
        }
    }

    /// The outputs at the end.
    ///
    /// # Panics
    /// If an operation is not done.
    pub fn finish(mut self) -> Run {
        let held = |output: &Output| Held {
            output: output.clone(),
            array: self.schedule.array(output.array).clone(),
            blocks: match &mut self.values[output.value.index()] {
                Some(Value::Blocks(blocks)) => blocks.clone(),
                Some(Value::Deferred(_) | Value::Part(_)) | None => unreachable!("outputs are kept and not deferred"),
            },
        };
        Run { mesh: self.schedule.mesh.clone(), outputs: self.schedule.outputs.iter().map(held).collect() }
    }

    fn taken(&mut self, operands: &[OpId]) -> Vec<Value> {
        let take = |operand: &OpId| {
            let uses = &mut self.uses[operand.index()];
            *uses -= 1;
            let value = &mut self.values[operand.index()];
            if *uses == 0 { value.take() } else { value.clone() }.expect("operands come first and are kept while used")
        };
        operands.iter().map(take).collect()
    }

    fn keep(&mut self, id: OpId, value: Value) {
        if self.uses[id.index()] > 0 {
            self.values[id.index()] = Some(value);
        }
    }
}

/// State of a value.
#[derive(Clone, Debug)]
enum Value {
    Blocks(Blocks),
    Deferred(Deferred),
    Part(Part),
}

fn evaluate(
    schedule: Verified<'_>,
    inputs: &Inputs,
    here: Here,
    id: OpId,
    operands: &[OpId],
    values: Vec<Value>,
) -> Result<Value, RunError> {
    let part = match (operands, &values[..]) {
        ([of], [Value::Deferred(deferred)]) => Some(Part::new(*of, deferred.clone(), id)),
        ([_], [Value::Part(part)]) if matches!(schedule.operation(id).kind, OpKind::Slice { .. }) => {
            Some(part.clone().sliced(id))
        }
        _ => None,
    };
    if let Some(part) = part {
        let waits = part.can_wait(&schedule);
        return Ok(if waits { Value::Part(part) } else { Value::Blocks(part.blocks(&schedule, here)) });
    }
    if values.iter().any(|value| matches!(value, Value::Part(_))) {
        let late = values.into_iter().map(|value| match value {
            Value::Blocks(blocks) => Late::Blocks(blocks),
            Value::Part(part) => Late::Part(part),
            Value::Deferred(_) => unreachable!("only slices use a deferred product"),
        });
        return Ok(Value::Blocks(step_late(&schedule, here, id, late.collect())?));
    }
    let blocks = values.into_iter().map(|value| match value {
        Value::Blocks(blocks) => blocks,
        Value::Deferred(_) | Value::Part(_) => unreachable!("only slices use a deferred product"),
    });
    if is_deferred(&schedule, id) {
        return Ok(Value::Deferred(defer(&schedule, here, id, blocks.collect())));
    }
    Ok(Value::Blocks(step(schedule, inputs, here, id, blocks.collect())?))
}

impl Run {
    /// A run from the output blocks of all devices, computed elsewhere.
    ///
    /// # Errors
    /// If the schedule is malformed.
    ///
    /// # Panics
    /// If the blocks are not shards of their output.
    pub fn of(schedule: &Schedule, blocks: Vec<Blocks>) -> Result<Run, RunError> {
        let schedule = verify(schedule)?;
        let fits = |(output, blocks): (&Output, &Blocks)| fit(schedule.operation(output.value), blocks);
        assert!(schedule.outputs.iter().zip(&blocks).all(fits), "each rank has what the schedule says");
        let held = |(output, blocks): (&Output, Blocks)| Held {
            output: output.clone(),
            array: schedule.array(output.array).clone(),
            blocks,
        };
        Ok(Run { mesh: schedule.mesh.clone(), outputs: schedule.outputs.iter().zip(blocks).map(held).collect() })
    }

    /// The block of each device for one output, given by its position in [`Schedule::outputs`].
    ///
    /// # Panics
    /// If there is no such output.
    pub fn blocks(&self, output: usize) -> &[Option<Tensor>] {
        &self.outputs[output].blocks
    }

    /// An output, given by its position in [`Schedule::outputs`], reassembled from its shards. Open sums are combined
    /// in rank order, padding is removed, and replicas are compared.
    ///
    /// # Errors
    /// If a device lacks its shard, or replicas hold different integers.
    ///
    /// # Panics
    /// If there is no such output.
    pub fn gather(&self, output: usize) -> Result<Gathered, RunError> {
        let held = &self.outputs[output];
        let mut firsts: BTreeMap<Vec<u64>, (DeviceId, Tensor)> = BTreeMap::new();
        let mut pieces: Vec<(Vec<Range<usize>>, Tensor)> = Vec::new();
        let mut replica_gap: f64 = 0.0;
        for Shard { device, ranges, block } in self.closed(output)? {
            let Some((ranges, own)) = valid_part(&ranges, &held.array.valid) else { continue };
            let block = block.slice(&own).expect("a part of the block");
            let key = ranges.iter().map(|range| range.start).collect();
            match firsts.get(&key) {
                None => {
                    firsts.insert(key, (device, block.clone()));
                    let ranges = ranges.iter().map(|range| index(range.start)..index(range.end)).collect();
                    pieces.push((ranges, block));
                }
                Some((first, other)) => {
                    let gap = largest_difference(other, &block);
                    if gap != 0.0 && !held.array.dtype.is_float() {
                        let array = held.array.name.clone();
                        return Err(RunError::ReplicasDiffer { array, first: *first, second: device });
                    }
                    replica_gap = replica_gap.max(gap);
                }
            }
        }
        let array = assemble(held.array.dtype, &sizes(&held.array.valid), &pieces, false)
            .expect("the shards of all devices fill the array");
        Ok(Gathered { array, replica_gap })
    }

    /// The shard of each replica.
    pub(super) fn closed(&self, output: usize) -> Result<Vec<Shard>, RunError> {
        let Held { output, array, blocks } = &self.outputs[output];
        let open: Vec<_> = output.sharding.open.iter().collect();
        let missing = |device| RunError::MissingShard { array: array.name.clone(), device };
        let firsts = self.mesh.devices().filter(|device| self.mesh.rank(*device, open.iter().copied()) == 0);
        let closed = firsts.map(|device| {
            // If only one device holds the output, the others contribute nothing.
            let root = output.sharding.root(&self.mesh);
            let ranks = root.map_or(0..self.mesh.group_size(open.iter().copied()), |root| root..root + 1);
            let members = ranks.map(|rank| self.mesh.with_rank(device, open.iter().copied(), rank));
            let parts = members.map(|member| blocks[member.index()].clone().ok_or_else(|| missing(member)));
            let block = close(output.sharding.operator, parts.collect::<Result<_, _>>()?);
            Ok(Shard { device, ranges: shard_box(array, &output.sharding, &self.mesh, device), block })
        });
        closed.collect()
    }
}
