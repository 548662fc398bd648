//! All operations in order on this rank. Messages are posted when the schedule lists them, and waited for when their
//! value is used.
//!
//! Nobody waits in a circle: what a rank waits for was posted by operations that stand before its own in the list, and
//! each rank posts what it sends before it waits for anything later.

use super::session::{Phase, Session, rank};
use crate::engine::measured::Taken;
use crate::engine::messages::Messages;
use crate::mesh::{AxisId, DeviceId};
use crate::schedule::{OpId, Reach, Schedule, verify};
use crate::sim::values::{Blocks, Execution, Here, Inputs, Run, RunError, Tensor};
use mpi::request::{LocalScope, Request};
use mpi::traits::{Communicator, Destination, Source};
use std::collections::BTreeMap;

/// The most bytes of a message: MPI counts them in an `int`.
pub const MOST_MESSAGE: u64 = i32::MAX as u64;
/// Tags go round: messages of one pair of ranks do not overtake each other. 0 to 32765 is what every MPI has, less two.
const TAGS: usize = 32_766;
/// So many messages are under way before a rank waits for all of its own.
const BUFFERS: usize = 1 << 12;
/// So many bytes are.
const BUFFERED: usize = 1 << 28;

/// A schedule as this rank runs it.
pub struct Execute<'a> {
    session: &'a Session,
    schedule: &'a Schedule,
    messages: Messages,
    own: DeviceId,
}

/// A message that has not arrived.
struct Coming<'s, 'a> {
    request: Request<'a, [u8], &'s LocalScope<'a>>,
    from: DeviceId,
}

/// A message that may not have left.
struct Sent<'s, 'a> {
    request: Request<'a, [u8], &'s LocalScope<'a>>,
    id: OpId,
    to: DeviceId,
}

impl<'a> Execute<'a> {
    /// Of a schedule with as many devices as there are ranks.
    ///
    /// # Errors
    /// In words: another number of ranks, or a message that MPI cannot send.
    pub fn new(session: &'a Session, schedule: &'a Schedule) -> Result<Execute<'a>, String> {
        let (devices, ranks) = (schedule.mesh.device_count() as u64, u64::from(session.size()));
        if devices != ranks {
            return Err(format!(
                "the mesh {} has {devices} devices, and {}: start it as `mpirun -n {devices} shardc ..`",
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
            return Err(format!(
                "%{} sends messages of more than {MOST_MESSAGE} bytes, which MPI cannot count",
                id.index()
            ));
        }
        let messages = Messages::of(verify(schedule).map_err(|malformed| malformed.to_string())?);
        Ok(Execute { session, schedule, messages, own: DeviceId(session.rank()) })
    }

    /// Runs all operations once; what this rank holds in the end, and when it did what. If something goes wrong on
    /// the way, it ends all ranks.
    pub fn run(&self, inputs: &'a Inputs) -> (Run, Vec<Taken>) {
        let done = self.try_run(inputs);
        done.unwrap_or_else(|error| self.session.give_up(&error.to_string()))
    }

    fn try_run(&self, inputs: &'a Inputs) -> Result<(Run, Vec<Taken>), RunError> {
        let mut execution = Execution::new(self.schedule, inputs, Here::Only(self.own))?;
        let mut taken = vec![Taken::default(); self.schedule.operations.node_count()];
        // What is given is there before the time starts.
        let is_given = |id: &OpId| matches!(reach(self.schedule, *id), Reach::Given(_));
        self.schedule.ids().filter(is_given).try_for_each(|id| execution.compute(id))?;
        let mut ids = self.schedule.ids().filter(|id| !is_given(id)).peekable();
        // An operation may need a buffer for each rank, and one of its own.
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
                    // Requests must not be dropped, and the others wait: there is no way back from here.
                    post.step(id).unwrap_or_else(|error| self.session.give_up(&error.to_string()));
                }
                post.finish();
            });
        }
        Ok((execution.finish(), taken))
    }

    /// Blocks of which only one device has something.
    fn only(&self, device: DeviceId, block: Option<Tensor>) -> Blocks {
        let mut blocks: Blocks = vec![None; self.schedule.mesh.device_count()];
        blocks[device.index()] = block;
        blocks
    }
}

/// What a rank has under way, in buffers `'a` and a scope `'s` of requests on them.
struct Post<'r, 'e, 's, 'a> {
    execute: &'r Execute<'e>,
    scope: &'s LocalScope<'a>,
    free: std::slice::IterMut<'a, Vec<u8>>,
    /// Bytes of the buffers that are in use.
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

    /// Does one operation, or posts its messages.
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

    /// The bytes of a block in a buffer that lasts as long as its messages.
    fn packed(&mut self, block: &Tensor) -> &'a [u8] {
        let buffer = self.free.next().expect("a step starts with buffers enough");
        block.append_le_bytes(buffer);
        self.buffered += buffer.len();
        buffer
    }

    fn unpacked(&self, id: OpId, bytes: &[u8]) -> Tensor {
        let operation = self.execute.schedule.operation(id);
        Tensor::from_le_bytes(operation.dtype, &operation.extents, bytes)
            .expect("its buffer has the bytes of the block")
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
        let bytes = session.wait(request, || format!("the message of %{} from rank {}", id.index(), from.0));
        session.hear(from.0);
        bytes
    }

    /// Makes sure that a value is here.
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

    /// Takes in what has arrived, the oldest first; that also drives what is under way.
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

    /// Waits for all that is under way.
    fn finish(&mut self) {
        while let Some((id, _)) = self.coming.first_key_value() {
            let id = *id;
            self.arrive(id);
        }
        for Sent { request, id, to } in self.going.drain(..) {
            self.execute
                .session
                .wait(request, || format!("the receipt of the message of %{} by rank {}", id.index(), to.0));
        }
    }
}

/// Whose blocks an operation needs.
fn reach(schedule: &Schedule, id: OpId) -> Reach<'_> {
    schedule.operation(id).kind.properties().reach
}

fn tag(id: OpId) -> i32 {
    i32::try_from(id.index() % TAGS).expect("tags are small")
}
