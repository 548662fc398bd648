//! Signs of life that the first rank sends while it plans or computes, however long that takes. They tell the waiting
//! ranks that it still runs.

use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Message tag of signs of life.
pub(super) const PULSE: i32 = 32_766;
/// Polling interval of the thread.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum time between two signs.
const MOST: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Only the main thread may call MPI.
    Paused,
    /// The main thread does not call MPI, so this thread sends signs.
    Beating,
    /// MPI is being finalized.
    Over,
}

/// A thread that sends signs of life unless it is paused.
pub(super) struct Pulse {
    /// Locked while a sign is sent.
    state: Arc<Mutex<State>>,
}

impl Pulse {
    /// Starts the thread in paused state. If there is only one rank, or no thread can be started, no signs are sent.
    ///
    /// - `timeout`: how long the other ranks wait.
    pub(super) fn start(ranks: u32, timeout: Duration) -> Pulse {
        let pulse = Pulse { state: Arc::new(Mutex::new(State::Paused)) };
        let (state, every) = (pulse.state.clone(), every(timeout));
        let beat = move || {
            let mut last: Option<Instant> = None;
            loop {
                thread::sleep(LOOK.min(every));
                // The lock is held while sending, because only one thread may call MPI at a time.
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

    /// Starts sending. The main thread must not call MPI until it calls [`Pulse::pause`].
    pub(super) fn beat(&self) {
        *locked(&self.state) = State::Beating;
    }

    /// Stops sending. After it returns, the main thread may call MPI.
    pub(super) fn pause(&self) {
        *locked(&self.state) = State::Paused;
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        *locked(&self.state) = State::Over;
    }
}

/// The interval between signs, given the timeout of the waiting ranks.
pub(super) fn every(timeout: Duration) -> Duration {
    MOST.min(timeout / 4)
}

/// Sends a sign of life from the first rank to all others.
pub(super) fn send(world: &SimpleCommunicator) {
    (1..world.size()).for_each(|to| world.process_at_rank(to).send_with_tag(&1u8, PULSE));
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
