//! `shardc run --engine mpi`: rank 0 reads, plans and prints; the other ranks run the schedules it sends.

use super::computed::{Computed, Data};
use super::{Failure, input};
use crate::engine::measured::{Measured, Spread, Taken};
use crate::engine::mpi::{Execute, Hello, Native, Order, Phase, Session, Unstarted};
use crate::mesh::DeviceId;
use crate::schedule::{Schedule, from_json, to_json};
use crate::sim::values::{self, Blocks, Inputs, Run, RunError, Tensor};
use std::time::Duration;

/// The ranks of this run.
pub(super) struct Ranks {
    session: Session,
    repetitions: u32,
}

/// Results of this rank.
struct Done {
    inputs: Inputs,
    run: Run,
    /// Times by repetition and operation.
    taken: Vec<Vec<Taken>>,
}

impl Ranks {
    /// Joins the other ranks.
    ///
    /// - `program`: the file of the program, if any.
    pub(super) fn start(program: Option<&str>, repetitions: u32, timeout: Duration) -> Result<Ranks, Failure> {
        let session = Session::start(timeout, input::say, &Hello::of_process(program));
        let session = session.map_err(|unstarted| match unstarted {
            Unstarted::Here(words) => Failure::Call(words),
            Unstarted::Elsewhere => Failure::Reported(2),
        })?;
        Ok(Ranks { session, repetitions })
    }

    /// Runs `first` on rank 0; the other ranks run the schedules it sends.
    ///
    /// - `data`: files and seed; each rank reads them itself.
    pub(super) fn lead(&self, data: Data<'_>, first: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        if self.session.rank() == 0 {
            let done = self.session.alone(first).map_err(|failure| {
                // The first process that fails ends the others, so the error is printed first.
                if let Failure::Call(words) = &failure {
                    input::say(&format!("error: {words}\n"));
                }
                Failure::Reported(failure.exit_code())
            });
            self.session.tell(&Order::Dismissed(done.as_ref().err().map_or(0, Failure::exit_code)));
            return done;
        }
        loop {
            self.session.enter(Phase::Planning);
            match self.session.order() {
                Order::Dismissed(0) => return Ok(()),
                Order::Dismissed(code) => return Err(Failure::Reported(code)),
                Order::Work(text) => self.follow(&text, data),
                Order::Measure(text) => drop(self.take_times(&self.read(&text))),
                Order::Native(native, elements) => drop(self.take_native(native, elements)),
            }
        }
    }

    /// Runs a schedule on a rank other than 0.
    fn follow(&self, text: &str, data: Data<'_>) {
        let Ok(schedule) = from_json(text) else { self.session.give_up("it received a malformed schedule") };
        // Errors are printed by rank 0.
        let Ok(done) = self.part(&schedule, data) else { return };
        self.session.enter(Phase::Gathering);
        self.session.gather(times_bytes(&done.taken));
        let verdict = (0..schedule.outputs.len()).map(|output| {
            let own = bytes_of(done.run.blocks(output)[self.own().index()].as_ref());
            let expected = self.session.receive(0);
            self.session.send(0, &own);
            let size = usize::try_from(schedule.operation(schedule.outputs[output].value).dtype.stored()).unwrap_or(1);
            differences(&expected, &own, size)
        });
        let differ: u64 = verdict.sum();
        self.session.gather(differ.to_le_bytes().to_vec());
    }

    fn read(&self, text: &str) -> Schedule {
        from_json(text).unwrap_or_else(|_| self.session.give_up("it received a malformed schedule"))
    }

    /// Number of ranks.
    pub(super) fn size(&self) -> u32 {
        self.session.size()
    }

    /// Measures a schedule on all ranks, after a warm-up run.
    pub(super) fn measure(&self, schedule: &Schedule) -> Result<Measured, Failure> {
        Execute::new(&self.session, schedule).map_err(Failure::Call)?;
        self.session.tell(&Order::Measure(to_json(schedule)));
        let taken = self.take_times(schedule);
        self.session.beat();
        let taken = taken.map_err(Failure::Call)?;
        let runs = usize::try_from(self.repetitions).unwrap_or(1);
        Ok(Measured::of(&by_run(&taken, runs, schedule.operations.node_count())))
    }

    /// Gathers the times of each rank on rank 0.
    fn take_times(&self, schedule: &Schedule) -> Result<Vec<Vec<u8>>, String> {
        self.session.enter(Phase::Preparing);
        let inputs = values::inputs(schedule, 0).map_err(|error| error.to_string());
        self.session.agree(inputs.as_ref().map(|_| ()).map_err(Clone::clone))?;
        let (inputs, execute) = (inputs?, Execute::new(&self.session, schedule)?);
        execute.run(&inputs);
        let taken: Vec<Vec<Taken>> = (0..self.repetitions).map(|_| execute.run(&inputs).1).collect();
        Ok(self.session.gather(times_bytes(&taken)))
    }

    /// Measures a collective of the MPI library, until the last rank is done.
    ///
    /// - `elements`: f32 elements of the whole array, a multiple of the square of the number of ranks.
    pub(super) fn native(&self, name: &str, elements: u64) -> Result<Spread, Failure> {
        let native = Native::ALL.into_iter().find(|native| native.name() == name);
        let native = native.ok_or_else(|| Failure::Call(format!("MPI has no {name}")))?;
        self.session.tell(&Order::Native(native, elements));
        let runs = usize::try_from(self.repetitions).unwrap_or(1);
        let taken = self.take_native(native, elements);
        self.session.beat();
        Ok(Measured::of(&by_run(&taken, runs, 1)).makespan)
    }

    fn take_native(&self, native: Native, elements: u64) -> Vec<Vec<u8>> {
        let elements = usize::try_from(elements).unwrap_or(usize::MAX);
        let taken = native.run(&self.session, elements, self.repetitions);
        self.session.gather(times_bytes(&[taken]))
    }

    fn own(&self) -> DeviceId {
        DeviceId(self.session.rank())
    }

    /// Runs this rank's part, if all ranks can run theirs.
    fn part(&self, schedule: &Schedule, data: Data<'_>) -> Result<Done, String> {
        let words = |failure: Failure| match failure {
            Failure::Call(words) => words,
            Failure::Program | Failure::Interrupted | Failure::Reported(_) => "already reported".to_owned(),
        };
        self.session.enter(Phase::Preparing);
        let execute = Execute::new(&self.session, schedule);
        let inputs = data.arrays.read(schedule).map_err(words).and_then(|given| {
            values::inputs_beside(schedule, data.seed, given).map_err(|error: RunError| error.to_string())
        });
        let ready = execute.and_then(|execute| Ok((execute, inputs?)));
        self.session.agree(ready.as_ref().map(|_| ()).map_err(Clone::clone))?;
        let (execute, inputs) = ready?;
        let mut last = None;
        let mut taken = Vec::new();
        for _ in 0..self.repetitions {
            let (run, own) = execute.run(&inputs);
            taken.push(own);
            last = Some(run);
        }
        drop(execute);
        let run = last.ok_or("no repetition was run")?;
        Ok(Done { inputs, run, taken })
    }

    /// Runs a schedule on all ranks. Every rank compares its blocks bitwise with the simulator's; the whole result is
    /// compared with the dense result.
    pub(super) fn compute(&self, schedule: &Schedule, data: Data<'_>) -> Result<Computed, Failure> {
        let call = |error: RunError| Failure::Call(format!("{error}; `shardc time` works for any size"));
        Execute::new(&self.session, schedule).map_err(Failure::Call)?;
        values::affordable(schedule).map_err(call)?;
        data.arrays.check(schedule)?;
        let text = to_json(schedule);
        // Rank 0 runs the same text that the others read.
        let schedule =
            &from_json(&text).map_err(|error| Failure::Call(format!("cannot send the schedule: {error}")))?;
        self.session.tell(&Order::Work(text));
        let done = self.part(schedule, data).map_err(Failure::Call)?;
        self.session.enter(Phase::Gathering);
        let taken = self.session.gather(times_bytes(&done.taken));
        let measured = Measured::of(&by_run(&taken, done.taken.len(), schedule.operations.node_count()));
        let expected = self.session.alone(|| values::run(schedule, &done.inputs)).map_err(call)?;
        let (blocks, mut differ) = self.outputs(schedule, &done.run, &expected);
        for (rank, own) in self.session.gather(0u64.to_le_bytes().to_vec()).iter().enumerate() {
            differ[rank] += own.as_slice().try_into().map_or(0, u64::from_le_bytes);
        }
        self.session.enter(Phase::Planning);
        self.session.beat();
        if let Some(rank) = differ.iter().position(|differ| *differ > 0) {
            input::say(&format!("error: {} elements on rank {rank} differ from the simulator\n", differ[rank]));
            return Err(Failure::Program);
        }
        let run = Run::of(schedule, blocks).map_err(call)?;
        let dense = values::dense(schedule, &done.inputs).map_err(call)?;
        let numerics = values::compare(schedule, &done.inputs, &dense, &run).map_err(call)?;
        if numerics.equal || numerics.within {
            data.arrays.write(schedule, &run)?;
        }
        Ok(Computed { numerics, measured: Some(measured), times: data.times })
    }

    /// The blocks of all ranks, and the number of elements per rank that differ from the simulator.
    fn outputs(&self, schedule: &Schedule, own: &Run, expected: &Run) -> (Vec<Blocks>, Vec<u64>) {
        let mut differ = vec![0; schedule.mesh.device_count()];
        let mut outputs = Vec::new();
        for (place, output) in schedule.outputs.iter().enumerate() {
            let operation = schedule.operation(output.value);
            let size = usize::try_from(operation.dtype.stored()).unwrap_or(1);
            let mut blocks: Blocks = Vec::new();
            for (device, simulated) in schedule.mesh.devices().zip(expected.blocks(place)) {
                let simulated = bytes_of(simulated.as_ref());
                if device == self.own() {
                    let block = own.blocks(place)[device.index()].clone();
                    differ[device.index()] += differences(&simulated, &bytes_of(block.as_ref()), size);
                    blocks.push(block);
                    continue;
                }
                self.session.send(device.0, &simulated);
                let bytes = self.session.receive(device.0);
                let block = bytes.get(1..).filter(|_| bytes[0] == 1);
                let block = block.map(|bytes| Tensor::from_le_bytes(operation.dtype, &operation.extents, bytes));
                let Some(block) = block.map_or(Some(None), |block| block.map(Some)) else {
                    self.session.give_up(&format!("rank {} sent a block of the wrong shape", device.0))
                };
                blocks.push(block);
            }
            outputs.push(blocks);
        }
        (outputs, differ)
    }
}

/// Serializes a block or its absence.
fn bytes_of(block: Option<&Tensor>) -> Vec<u8> {
    let Some(block) = block else { return vec![0] };
    let mut bytes = vec![1];
    block.append_le_bytes(&mut bytes);
    bytes
}

/// Counts the elements of two blocks that differ in any bit.
fn differences(expected: &[u8], found: &[u8], size: usize) -> u64 {
    if expected.len() != found.len() || expected.first() != found.first() {
        return (expected.len().max(found.len()) / size).max(1) as u64;
    }
    expected[1..].chunks(size).zip(found[1..].chunks(size)).filter(|(a, b)| a != b).count() as u64
}

fn times_bytes(taken: &[Vec<Taken>]) -> Vec<u8> {
    let times = taken.iter().flatten().flat_map(|taken| [taken.start, taken.finish]);
    times.flat_map(f64::to_le_bytes).collect()
}

/// Decodes times by run, rank and operation.
fn by_run(ranks: &[Vec<u8>], runs: usize, operations: usize) -> Vec<Vec<Vec<Taken>>> {
    let times = |bytes: &Vec<u8>| -> Vec<f64> {
        bytes.chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().expect("eight bytes"))).collect()
    };
    let times: Vec<Vec<f64>> = ranks.iter().map(times).collect();
    let taken = |rank: &Vec<f64>, run: usize| -> Vec<Taken> {
        let own = rank.chunks_exact(2).skip(run * operations).take(operations);
        own.map(|pair| Taken { start: pair[0], finish: pair[1] }).collect()
    };
    (0..runs).map(|run| times.iter().map(|rank| taken(rank, run)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_differing_element_counts() {
        assert_eq!(differences(&[1, 1, 2, 3, 4], &[1, 1, 2, 3, 4], 2), 0);
        assert_eq!(differences(&[1, 1, 2, 3, 4], &[1, 1, 2, 3, 5], 2), 1);
        assert_eq!(differences(&[1, 9, 2, 9, 4], &[1, 1, 2, 3, 5], 2), 2);
        assert_eq!(differences(&[0], &[0], 4), 0);
        assert!(differences(&[0], &[1, 1, 2, 3, 4], 4) > 0);
        assert!(differences(&[1, 1, 2, 3, 4], &[0], 4) > 0);
    }

    #[test]
    fn times_come_back_by_run_rank_and_operation() {
        let taken = |n: u32| Taken { start: f64::from(n), finish: f64::from(n) + 0.5 };
        let ranks = [[[taken(0), taken(1)], [taken(2), taken(3)]], [[taken(4), taken(5)], [taken(6), taken(7)]]];
        let bytes: Vec<Vec<u8>> = ranks.iter().map(|runs| times_bytes(&runs.map(|run| run.to_vec()))).collect();
        let runs = by_run(&bytes, 2, 2);
        assert_eq!(runs[1], [vec![taken(2), taken(3)], vec![taken(6), taken(7)]]);
        assert_eq!(runs[0][1], [taken(4), taken(5)]);
    }
}
