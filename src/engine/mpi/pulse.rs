//! Signs of life of the first rank while it plans or computes, for as long as that takes: the others wait for its word, and
//! must know whether it still runs.

use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Signs of life have this tag.
pub(super) const PULSE: i32 = 32_766;
/// How often the thread looks whether there is something to do.
const LOOK: Duration = Duration::from_millis(20);
/// The longest time between two signs.
const MOST: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The main thread has MPI for itself.
    Paused,
    /// The main thread does not call MPI.
    Beating,
    /// MPI ends.
    Over,
}

/// A thread that sends signs of life while it is not paused.
pub(super) struct Pulse {
    /// Locked while a sign is sent.
    state: Arc<Mutex<State>>,
}

impl Pulse {
    /// Paused. Without a thread, or alone, it sends nothing.
    ///
    /// - `timeout`: how long the others wait.
    pub(super) fn start(ranks: u32, timeout: Duration) -> Pulse {
        let pulse = Pulse { state: Arc::new(Mutex::new(State::Paused)) };
        let (state, every) = (pulse.state.clone(), every(timeout));
        let beat = move || {
            let mut last: Option<Instant> = None;
            loop {
                thread::sleep(LOOK.min(every));
                // The lock is held while it sends: MPI is called by one thread at a time.
                let state = locked(&state);
                match *state {
                    State::Over => return,
                    State::Beating if last.is_none_or(|last| last.elapsed() >= every) => {
                        send(&SimpleCommunicator::world());
                        last = Some(Instant::now());
                    }
                    State::Beating | State::Paused => {}
                }
            }
        };
        if ranks > 1 {
            thread::Builder::new().spawn(beat).ok();
        }
        pulse
    }

    /// The main thread does not call MPI until it pauses this.
    pub(super) fn beat(&self) {
        *locked(&self.state) = State::Beating;
    }

    /// When this is done the main thread may call MPI.
    pub(super) fn pause(&self) {
        *locked(&self.state) = State::Paused;
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        *locked(&self.state) = State::Over;
    }
}

/// The time between two signs for those who wait so long for one.
pub(super) fn every(timeout: Duration) -> Duration {
    MOST.min(timeout / 4)
}

/// A sign of the first rank, for all others.
pub(super) fn send(world: &SimpleCommunicator) {
    (1..world.size()).for_each(|to| world.process_at_rank(to).send_with_tag(&1u8, PULSE));
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
