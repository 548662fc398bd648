//! Executes all operations in order on this rank. Messages are posted in schedule order, and awaited when their value
//! is used.
//!
//! There is no deadlock: a rank waits only for messages that were posted by earlier operations of the list, and each
//! rank posts its sends before it waits for anything later.

use super::session::{Phase, Session, rank};
use crate::engine::measured::Taken;
use crate::engine::messages::Messages;
use crate::mesh::{AxisId, DeviceId};
use crate::schedule::{OpId, Reach, Schedule, verify};
use crate::sim::values::{Blocks, Execution, Here, Inputs, Run, RunError, Tensor};
use mpi::request::{LocalScope, Request};
use mpi::traits::{Communicator, Destination, Source};
use std::collections::BTreeMap;

/// Maximum bytes of a message: MPI counts them in an `int`.
pub const MOST_MESSAGE: u64 = i32::MAX as u64;
/// Number of tags, which are reused cyclically: messages between two ranks do not overtake each other. Every MPI
/// supports tags 0 to 32767; two are reserved.
const TAGS: usize = 32_766;
/// Maximum number of messages in flight before a rank waits for all of its own.
const BUFFERS: usize = 1 << 12;
/// Maximum bytes in flight before a rank waits for all of its own.
const BUFFERED: usize = 1 << 28;

/// A schedule as executed by this rank.
pub struct Execute<'a> {
    session: &'a Session,
    schedule: &'a Schedule,
    messages: Messages,
    own: DeviceId,
}

/// A message that may not have arrived.
struct Coming<'s, 'a> {
    request: Request<'a, [u8], &'s LocalScope<'a>>,
    from: DeviceId,
}

/// A message whose send may not be complete.
struct Sent<'s, 'a> {
    request: Request<'a, [u8], &'s LocalScope<'a>>,
    id: OpId,
    to: DeviceId,
}

impl<'a> Execute<'a> {
    /// Prepares a schedule with one device per rank.
    ///
    /// # Errors
    /// A message, if the number of ranks differs, or MPI cannot send a message of the schedule.
    pub fn new(session: &'a Session, schedule: &'a Schedule) -> Result<Execute<'a>, String> {
        let (devices, ranks) = (schedule.mesh.device_count() as u64, u64::from(session.size()));
        if devices != ranks {
            return Err(format!(
                "the mesh {} has {devices} devices, but {}; run `mpirun -n {devices} shardc ..`",
                schedule.mesh,
                if ranks == 1 { "there is 1 rank".to_owned() } else { format!("there are {ranks} ranks") }
            ));
        }
        let moves = |id: &OpId| matches!(reach(schedule, *id), Reach::Sent(..) | Reach::Gathered(_));
        // A gather sends its operand.
        let too_long = |id: &OpId| {
            let sent = schedule.operands(*id).into_iter().map(|operand| schedule.operation(operand).bytes());
            sent.max().is_some_and(|bytes| bytes > MOST_MESSAGE)
        };
        if let Some(id) = schedule.ids().filter(moves).find(too_long) {
            return Err(format!("%{} sends messages of more than {MOST_MESSAGE} bytes, the limit of MPI", id.index()));
        }
        let messages = Messages::of(verify(schedule).map_err(|malformed| malformed.to_string())?);
        Ok(Execute { session, schedule, messages, own: DeviceId(session.rank()) })
    }

    /// Runs all operations once. Returns this rank's results, and the times of its operations. On an error during the
    /// run, all ranks are ended.
    pub fn run(&self, inputs: &'a Inputs) -> (Run, Vec<Taken>) {
        let done = self.try_run(inputs);
        done.unwrap_or_else(|error| self.session.give_up(&error.to_string()))
    }

    fn try_run(&self, inputs: &'a Inputs) -> Result<(Run, Vec<Taken>), RunError> {
        let mut execution = Execution::new(self.schedule, inputs, Here::Only(self.own))?;
        let mut taken = vec![Taken::default(); self.schedule.operations.node_count()];
        // Inputs are read before the measurement starts.
        let is_given = |id: &OpId| matches!(reach(self.schedule, *id), Reach::Given(_));
        self.schedule.ids().filter(is_given).try_for_each(|id| execution.compute(id))?;
        let mut ids = self.schedule.ids().filter(|id| !is_given(id)).peekable();
        // An operation may need a buffer for each rank, and one for its own block.
        let most = self.schedule.mesh.device_count() + 1;
        self.session.enter(Phase::Running);
        self.session.meet();
        let start = self.session.now();
        self.schedule.ids().filter(is_given).for_each(|id| taken[id.index()] = Taken { start, finish: start });
        while ids.peek().is_some() {
            let mut buffers: Vec<Vec<u8>> = vec![Vec::new(); BUFFERS + most];
            mpi::request::scope(|scope| {
                let mut post = Post {
                    execute: self,
                    scope,
                    free: buffers.iter_mut(),
                    buffered: 0,
                    coming: BTreeMap::new(),
                    going: Vec::new(),
                    execution: &mut execution,
                    taken: &mut taken,
                };
                while let Some(id) = ids.next_if(|_| post.free.len() >= most && post.buffered < BUFFERED) {
                    // Requests must not be dropped, and other ranks are waiting, so errors cannot be returned from
                    // here.
                    post.step(id).unwrap_or_else(|error| self.session.give_up(&error.to_string()));
                }
                post.finish();
            });
        }
        Ok((execution.finish(), taken))
    }

    /// Blocks of all devices of which only one is present.
    fn only(&self, device: DeviceId, block: Option<Tensor>) -> Blocks {
        let mut blocks: Blocks = vec![None; self.schedule.mesh.device_count()];
        blocks[device.index()] = block;
        blocks
    }
}

/// The messages of a rank in flight, in buffers `'a` and with requests in scope `'s`.
struct Post<'r, 'e, 's, 'a> {
    execute: &'r Execute<'e>,
    scope: &'s LocalScope<'a>,
    free: std::slice::IterMut<'a, Vec<u8>>,
    /// Bytes of the buffers in use.
    buffered: usize,
    coming: BTreeMap<OpId, Coming<'s, 'a>>,
    going: Vec<Sent<'s, 'a>>,
    execution: &'r mut Execution<'e>,
    taken: &'r mut [Taken],
}

impl<'s, 'a> Post<'_, '_, 's, 'a> {
    fn now(&self) -> f64 {
        self.execute.session.now()
    }

    /// Executes one operation, or posts its messages.
    fn step(&mut self, id: OpId) -> Result<(), RunError> {
        for operand in self.execute.schedule.operands(id) {
            self.arrive(operand);
        }
        self.taken[id.index()].start = self.now();
        match reach(self.execute.schedule, id) {
            Reach::Sent(..) => self.shuffle(id),
            Reach::Gathered(axes) => self.all_gather(id, axes)?,
            Reach::Given(_) | Reach::Own => self.execution.compute(id)?,
        }
        self.taken[id.index()].finish = self.now();
        self.look();
        Ok(())
    }

    fn shuffle(&mut self, id: OpId) {
        let Execute { schedule, own, messages, .. } = self.execute;
        let own = *own;
        let part = messages.part(schedule, id, own);
        let block = self.execution.take(id).swap_remove(own.index());
        if let Some((to, block)) = part.to.filter(|to| *to != own).zip(block.as_ref()) {
            let bytes = self.packed(block);
            self.send(id, to, bytes);
        }
        match part.from {
            None => self.execution.put(id, self.execute.only(own, None)),
            Some(from) if from == own => self.execution.put(id, self.execute.only(own, block)),
            Some(from) => {
                let coming = self.receive(id, from, schedule.operation(id).bytes());
                self.coming.insert(id, coming);
            }
        }
    }

    /// Every member of a group sends its block to all others.
    fn all_gather(&mut self, id: OpId, axes: &[AxisId]) -> Result<(), RunError> {
        let Execute { schedule, own, messages, .. } = self.execute;
        let own = *own;
        let operand = schedule.operands(id)[0];
        let mut blocks = self.execution.take(id);
        let others: Vec<DeviceId> = schedule.mesh.group(own, axes).filter(|member| *member != own).collect();
        if let Some(block) = blocks[own.index()].clone() {
            let bytes = self.packed(&block);
            others.iter().for_each(|member| self.send(id, *member, bytes));
        }
        let senders = others.iter().filter(|member| messages.is_present(operand, **member));
        let coming: Vec<Coming<'_, '_>> =
            senders.map(|member| self.receive(id, *member, schedule.operation(operand).bytes())).collect();
        for coming in coming {
            let from = coming.from;
            let bytes = self.wait(id, coming);
            blocks[from.index()] = Some(self.unpacked(operand, bytes));
        }
        self.execution.gather(id, blocks)
    }

    /// The bytes of a block, in a buffer that outlives its messages.
    fn packed(&mut self, block: &Tensor) -> &'a [u8] {
        let buffer = self.free.next().expect("a step starts with buffers enough");
        block.append_message(buffer);
        self.buffered += buffer.len();
        buffer
    }

    fn unpacked(&self, id: OpId, bytes: &[u8]) -> Tensor {
        let operation = self.execute.schedule.operation(id);
        Tensor::from_message(operation.dtype, &operation.extents, bytes).expect("its buffer has the bytes of the block")
    }

    fn send(&mut self, id: OpId, to: DeviceId, bytes: &'a [u8]) {
        let to_rank = self.execute.session.world().process_at_rank(rank(to.0));
        let request = to_rank.immediate_send_with_tag(self.scope, bytes, tag(id));
        self.going.push(Sent { request, id, to });
    }

    fn receive(&mut self, id: OpId, from: DeviceId, bytes: u64) -> Coming<'s, 'a> {
        let buffer = self.free.next().expect("a step starts with buffers enough");
        buffer.resize(usize::try_from(bytes).expect("a message is addressable"), 0);
        self.buffered += buffer.len();
        let source = self.execute.session.world().process_at_rank(rank(from.0));
        let request = source.immediate_receive_into_with_tag(self.scope, &mut buffer[..], tag(id));
        Coming { request, from }
    }

    fn wait(&self, id: OpId, coming: Coming<'s, 'a>) -> &'a [u8] {
        let Coming { request, from } = coming;
        let session = self.execute.session;
        let bytes = session.wait(request, || format!("message of %{} from rank {}", id.index(), from.0));
        session.hear(from.0);
        bytes
    }

    /// Waits until a value is present.
    fn arrive(&mut self, id: OpId) {
        if let Some(coming) = self.coming.remove(&id) {
            let bytes = self.wait(id, coming);
            self.arrived(id, bytes);
        }
    }

    fn arrived(&mut self, id: OpId, bytes: &[u8]) {
        let block = self.unpacked(id, bytes);
        self.taken[id.index()].finish = self.now();
        self.execution.put(id, self.execute.only(self.execute.own, Some(block)));
    }

    /// Processes arrived messages, oldest first. Polling also advances the other messages.
    fn look(&mut self) {
        while let Some((id, Coming { request, from })) = self.coming.pop_first() {
            match request.test_with_data() {
                Ok((_, bytes)) => {
                    self.execute.session.hear(from.0);
                    self.arrived(id, bytes);
                }
                Err(request) => {
                    self.coming.insert(id, Coming { request, from });
                    break;
                }
            }
        }
    }

    /// Waits for all messages in flight.
    fn finish(&mut self) {
        while let Some((id, _)) = self.coming.first_key_value() {
            let id = *id;
            self.arrive(id);
        }
        for Sent { request, id, to } in self.going.drain(..) {
            self.execute
                .session
                .wait(request, || format!("receipt of the message of %{} by rank {}", id.index(), to.0));
        }
    }
}

/// The devices whose blocks an operation reads.
fn reach(schedule: &Schedule, id: OpId) -> Reach<'_> {
    schedule.operation(id).kind.properties().reach
}

fn tag(id: OpId) -> i32 {
    i32::try_from(id.index() % TAGS).expect("tags are small")
}
