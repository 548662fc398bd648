//! The MPI processes, and their communication outside of schedules.

use super::hello::Hello;
use super::pulse::{self, PULSE, Pulse};
use super::watchdog::Watchdog;
use mpi::Threading;
use mpi::datatype::Equivalence;
use mpi::environment::Universe;
use mpi::request::{Request, Scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};
use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

/// Message tag of everything that is not part of a schedule.
const TALK: i32 = 32_767;
/// Additional time before a rank is killed, so that ranks that can report the missing message do so first.
const MARGIN: Duration = Duration::from_millis(500);
/// Time limit for ending all ranks after one has given up.
const ABORTING: Duration = Duration::from_secs(2);
/// Exit code of all ranks if one gives up.
const GIVEN_UP: i32 = 2;
/// Maximum bytes of a message outside of schedules; longer ones are split.
const MOST_TALK: usize = 1 << 30;
/// Number of polls before a waiting rank yields its core.
const LOOKS: u32 = 64;
/// Number of clock queries of a rank.
const QUESTIONS: u32 = 20;
/// Sleep between two polls of a rank that waits for an order.
const NAP: Duration = Duration::from_millis(1);

/// An order of the first rank to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Run this schedule, and send the results.
    Work(String),
    /// Run this schedule, and send the measured times.
    Measure(String),
    /// Run a collective of MPI on this number of elements, and send the measured times.
    Native(super::Native, u64),
    /// Exit with this code.
    Dismissed(u8),
}

/// The current activity of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Checking that all ranks run the same command.
    Joining,
    /// The first rank reads, plans and compares; the others wait for its orders.
    Planning,
    /// All ranks read the inputs.
    Preparing,
    /// All ranks run the schedule.
    Running,
    /// The first rank collects and compares the results.
    Gathering,
    /// MPI is being finalized.
    Leaving,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Joining => "while the ranks joined",
            Phase::Planning => "while rank 0 planned or compared",
            Phase::Preparing => "while the inputs were read",
            Phase::Running => "while the schedule ran",
            Phase::Gathering => "while the results were gathered",
            Phase::Leaving => "while the ranks left",
        })
    }
}

/// The last sign of life of another rank.
#[derive(Clone, Copy)]
struct Heard {
    rank: u32,
    at: Instant,
    phase: Phase,
}

/// The reason why a session cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unstarted {
    /// An error message, to be printed by this rank only.
    Here(String),
    /// Another rank reports the reason.
    Elsewhere,
}

/// This process as one of several ranks.
pub struct Session {
    world: SimpleCommunicator,
    /// Maximum wait for a message.
    timeout: Duration,
    /// Prints a message when the rank gives up.
    say: fn(&str),
    /// Start of this rank's clock; the offset of the first rank's clock follows, in seconds.
    origin: Instant,
    ahead: f64,
    phase: Cell<Phase>,
    heard: Cell<Option<Heard>>,
    /// When the first rank last sent signs of life to the others while waiting for one of them.
    signed: Cell<Instant>,
    watchdog: Watchdog,
    /// Only on the first rank.
    pulse: Option<Pulse>,
    /// Finalizes MPI when dropped, so it must be the last field.
    universe: Option<Universe>,
}

impl Session {
    /// Joins the processes that were started together. After this, a panic ends all of them.
    ///
    /// - `timeout`: time limit for a message, and for the other ranks to join.
    /// - `say`: prints a message when a rank gives up.
    /// - `hello`: this process's parameters; they must be equal on all ranks.
    ///
    /// # Errors
    /// If this process has called it before, or the ranks run different commands.
    pub fn start(timeout: Duration, say: fn(&str), hello: &Hello) -> Result<Session, Unstarted> {
        let watchdog = Watchdog::start(say, GIVEN_UP);
        let words = || {
            let who = own_rank().map_or_else(|| "a rank".to_owned(), |rank| format!("rank {rank}"));
            format!(
                "error: {who}: timeout of {} s in `MPI_Init`, {}; no message from any other rank\n",
                timeout.as_secs_f64(),
                Phase::Joining
            )
        };
        // Timeouts are staggered so that one rank reports the error before the others.
        let later = MARGIN.mul_f64(f64::from(own_rank().unwrap_or(0).min(10)) / 10.0);
        let joined = watchdog
            .during(timeout.saturating_add(later), words, || mpi::initialize_with_threading(Threading::Serialized));
        let Some((universe, threading)) = joined else {
            return Err(Unstarted::Here("MPI is already initialized".to_owned()));
        };
        if threading < Threading::Serialized {
            return Err(Unstarted::Here("this MPI library does not support calls from several threads".to_owned()));
        }
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            // Unwinding would wait for the other ranks in `MPI_Finalize`, and they would wait for this one.
            std::process::abort();
        }));
        let (world, origin) = (universe.world(), Instant::now());
        let mut session = Session {
            world,
            timeout,
            say,
            origin,
            ahead: 0.0,
            phase: Cell::new(Phase::Joining),
            heard: Cell::new(None),
            signed: Cell::new(origin),
            watchdog,
            pulse: None,
            universe: Some(universe),
        };
        session.greet(hello)?;
        session.ahead = session.set_clock();
        session.enter(Phase::Planning);
        if session.rank() == 0 {
            session.pulse = Some(Pulse::start(session.size(), timeout));
        }
        Ok(session)
    }

    /// Checks that all ranks run the same command.
    fn greet(&self, own: &Hello) -> Result<(), Unstarted> {
        if self.rank() != 0 {
            self.send_part(0, &own.to_bytes());
            return match &self.receive_part(0)[..] {
                b"welcome" => Ok(()),
                b"no" => Err(Unstarted::Elsewhere),
                _ => Err(Unstarted::Here("rank 0 runs a different version of shardc".to_owned())),
            };
        }
        let objections: Vec<Option<String>> =
            (1..self.size()).map(|rank| own.objection(rank, &self.receive_part(rank))).collect();
        let objection = objections.into_iter().flatten().next();
        if let Some(words) = &objection {
            // The first failing process ends the others, so the error is printed first.
            (self.say)(&format!("error: {words}\n"));
        }
        let answer: &[u8] = if objection.is_none() { b"welcome" } else { b"no" };
        (1..self.size()).for_each(|rank| self.send_part(rank, answer));
        if objection.is_none() { Ok(()) } else { Err(Unstarted::Elsewhere) }
    }

    /// Sets this rank's phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.set(phase);
    }

    /// Runs `act`, which needs no other rank, on the first rank. Signs of life are sent meanwhile.
    pub fn alone<T>(&self, act: impl FnOnce() -> T) -> T {
        self.beat();
        let done = act();
        self.pause();
        done
    }

    /// Starts sending signs of life from the first rank until its next message to the others ([`Session::tell`]).
    pub fn beat(&self) {
        self.pulse.iter().for_each(Pulse::beat);
    }

    fn pause(&self) {
        self.watched("heartbeat", || self.pulse.iter().for_each(Pulse::pause));
    }

    /// Runs `act`, which returns only after other ranks have made the same call, with a watchdog.
    pub(super) fn watched<T>(&self, what: &str, act: impl FnOnce() -> T) -> T {
        let words = || format!("error: rank {}: {}\n", self.rank(), self.overdue(what));
        self.watchdog.during(self.timeout.saturating_add(MARGIN), words, act)
    }

    /// Records a message of a rank.
    pub(super) fn hear(&self, rank: u32) {
        self.heard.set(Some(Heard { rank, at: Instant::now(), phase: self.phase.get() }));
    }

    /// The error message for a timeout: what is missing, since when, and which ranks were last heard.
    fn overdue(&self, what: &str) -> String {
        let last = match self.heard.get() {
            None => "no message from any other rank".to_owned(),
            Some(Heard { rank, at, phase }) => {
                format!("last message from rank {rank}, {:.1} s ago {phase}", at.elapsed().as_secs_f64())
            }
        };
        format!("timeout: no {what} for {} s, {}; {last}", self.timeout.as_secs_f64(), self.phase.get())
    }

    /// Seconds on the first rank's clock.
    pub(super) fn now(&self) -> f64 {
        self.origin.elapsed().as_secs_f64() + self.ahead
    }

    /// Offset of the first rank's clock. It is queried several times: the answer with the shortest round trip is off
    /// by at most half of it.
    fn set_clock(&self) -> f64 {
        if self.rank() == 0 {
            for rank in 1..self.size() {
                for _ in 0..QUESTIONS {
                    self.receive_part(rank);
                    self.send_part(rank, &self.now().to_le_bytes());
                }
            }
            return 0.0;
        }
        let ask = |_| {
            let asked = self.now();
            self.send_part(0, &[0]);
            let answer = self.receive_part(0).as_slice().try_into().map_or(0.0, f64::from_le_bytes);
            let way = self.now() - asked;
            (way, answer - asked - way / 2.0)
        };
        let answers = (0..QUESTIONS).map(ask);
        answers.min_by(|(way, _), (other, _)| way.total_cmp(other)).map_or(0.0, |(_, ahead)| ahead)
    }

    /// The number of this rank, from 0.
    pub fn rank(&self) -> u32 {
        u32::try_from(self.world.rank()).expect("ranks are not negative")
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        u32::try_from(self.world.size()).expect("sizes are not negative")
    }

    /// The communicator of all ranks.
    pub(super) fn world(&self) -> &SimpleCommunicator {
        &self.world
    }

    /// Reports an error and ends all ranks.
    pub fn give_up(&self, problem: &str) -> ! {
        (self.say)(&format!("error: rank {}: {problem}\n", self.rank()));
        self.watchdog.during(ABORTING, String::new, || self.world.abort(GIVEN_UP))
    }

    /// Waits for a request and returns its data. After the timeout, reports what is missing and gives up.
    pub(super) fn wait<'a, D: ?Sized, S: Scope<'a>>(
        &self,
        mut request: Request<'a, D, S>,
        what: impl Fn() -> String,
    ) -> &'a D {
        let since = Instant::now();
        let mut looks = 0;
        loop {
            match request.test_with_data() {
                Ok((_, data)) => return data,
                Err(pending) => request = pending,
            }
            self.idle(&mut looks, since, self.timeout, &what);
        }
    }

    fn idle(&self, looks: &mut u32, since: Instant, most: Duration, what: &impl Fn() -> String) {
        *looks += 1;
        if *looks < LOOKS {
            return std::hint::spin_loop();
        }
        if since.elapsed() > most {
            self.give_up(&self.overdue(&what()));
        }
        self.sign();
        std::thread::yield_now();
    }

    /// Sends signs of life from the first rank while it waits for another rank. The first rank reports which one is
    /// missing.
    fn sign(&self) {
        let others = self.pulse.is_some() && self.phase.get() != Phase::Running;
        if others && self.signed.get().elapsed() >= pulse::every(self.timeout) {
            self.signed.set(Instant::now());
            self.watched("heartbeat", || pulse::send(&self.world));
        }
    }

    /// Processes signs of life of the first rank. Returns the time of the last one, if any.
    fn first_alive(&self) -> Option<Instant> {
        let first = self.world.process_at_rank(0);
        let mut alive = None;
        while first.immediate_probe_with_tag(PULSE).is_some() {
            first.receive_vec_with_tag::<u8>(PULSE);
            self.hear(0);
            alive = Some(Instant::now());
        }
        alive
    }

    /// Waits for all ranks. On a timeout, the first rank reports which one is missing.
    pub fn meet(&self) {
        self.gather(Vec::new());
        let own = if self.rank() == 0 { self.timeout } else { self.timeout.saturating_add(MARGIN) };
        let (since, mut looks, mut request) = (Instant::now(), 0, self.world.immediate_barrier());
        while let Err(pending) = request.test() {
            request = pending;
            self.idle(&mut looks, since, own, &|| "answer of the last rank".to_owned());
        }
    }

    /// Sends an order to all other ranks.
    pub fn tell(&self, order: &Order) {
        self.pause();
        let text = match order {
            Order::Work(text) => format!("w{text}"),
            Order::Measure(text) => format!("m{text}"),
            Order::Native(native, elements) => format!("n{} {elements}", native.name()),
            Order::Dismissed(code) => format!("d{code}"),
        };
        (1..self.size()).for_each(|rank| self.send(rank, text.as_bytes()));
    }

    /// Waits for an order of the first rank, as long as it sends signs of life.
    pub fn order(&self) -> Order {
        let mut alive = Instant::now();
        while self.world.process_at_rank(0).immediate_probe_with_tag(TALK).is_none() {
            alive = self.first_alive().unwrap_or(alive);
            if alive.elapsed() > self.timeout {
                self.give_up(&self.overdue("heartbeat of rank 0"));
            }
            std::thread::sleep(NAP);
        }
        let text = String::from_utf8(self.receive(0)).unwrap_or_default();
        match (text.get(..1), text.get(1..)) {
            (Some("w"), Some(text)) => Order::Work(text.to_owned()),
            (Some("m"), Some(text)) => Order::Measure(text.to_owned()),
            (Some("n"), Some(text)) => {
                let (name, elements) = text.split_once(' ').unwrap_or_default();
                let native = super::Native::ALL.into_iter().find(|native| native.name() == name);
                let Some((native, elements)) = native.zip(elements.parse().ok()) else {
                    self.give_up("rank 0 requested an unknown MPI collective")
                };
                Order::Native(native, elements)
            }
            (Some("d"), Some(code)) => Order::Dismissed(code.parse().unwrap_or(u8::MAX)),
            _ => self.give_up("malformed request from rank 0"),
        }
    }

    /// Sends bytes; the receiver must call [`Session::receive`] next.
    pub fn send(&self, to: u32, bytes: &[u8]) {
        self.send_part(to, &(bytes.len() as u64).to_le_bytes());
        bytes.chunks(MOST_TALK).for_each(|part| self.send_part(to, part));
    }

    fn send_part(&self, to: u32, part: &[u8]) {
        mpi::request::scope(|scope| {
            let request = self.world.process_at_rank(rank(to)).immediate_send_with_tag(scope, part, TALK);
            self.wait(request, || format!("receipt by rank {to}"));
        });
    }

    /// Receives the next bytes sent by a rank.
    pub fn receive(&self, from: u32) -> Vec<u8> {
        let length = self.receive_part(from);
        let Ok(length) = <[u8; 8]>::try_from(&length[..]) else { self.give_up("a message has no length") };
        let length = u64::from_le_bytes(length);
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            bytes.extend(self.receive_part(from));
        }
        bytes
    }

    fn receive_part(&self, from: u32) -> Vec<u8> {
        let (mut since, mut looks) = (Instant::now(), 0);
        let source = self.world.process_at_rank(rank(from));
        let status = loop {
            if let Some(status) = source.immediate_probe_with_tag(TALK) {
                break status;
            }
            if from == 0 {
                since = self.first_alive().unwrap_or(since);
            }
            self.idle(&mut looks, since, self.timeout, &|| format!("message from rank {from}"));
        };
        let mut part = vec![0; usize::try_from(status.count(u8::equivalent_datatype())).unwrap_or(0)];
        mpi::request::scope(|scope| {
            let request = source.immediate_receive_into_with_tag(scope, &mut part[..], TALK);
            self.wait(request, || format!("rest of the message from rank {from}"));
        });
        self.hear(from);
        part
    }

    /// Collects the data of all ranks on the first rank; empty on the others.
    pub fn gather(&self, own: Vec<u8>) -> Vec<Vec<u8>> {
        if self.rank() != 0 {
            self.send(0, &own);
            return Vec::new();
        }
        std::iter::once(own).chain((1..self.size()).map(|rank| self.receive(rank))).collect()
    }

    /// Agrees on success. If any rank failed, all ranks return the error of the first failing rank.
    ///
    /// # Errors
    /// If a rank failed.
    pub fn agree(&self, own: Result<(), String>) -> Result<(), String> {
        let words = self.gather(own.err().unwrap_or_default().into_bytes());
        let verdict = if self.rank() == 0 {
            let wrong = words.into_iter().enumerate().find(|(_, words)| !words.is_empty());
            let verdict = wrong.map(|(rank, words)| match rank {
                0 => String::from_utf8_lossy(&words).into_owned(),
                _ => format!("on rank {rank}, {}", String::from_utf8_lossy(&words)),
            });
            let verdict = verdict.unwrap_or_default();
            (1..self.size()).for_each(|rank| self.send(rank, verdict.as_bytes()));
            verdict
        } else {
            String::from_utf8_lossy(&self.receive(0)).into_owned()
        };
        if verdict.is_empty() { Ok(()) } else { Err(verdict) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.pulse = None;
        self.enter(Phase::Leaving);
        let universe = self.universe.take();
        self.watched("exit of the last rank", || drop(universe));
    }
}

/// The number of this rank before MPI is initialized, from the launcher's environment variables.
fn own_rank() -> Option<u32> {
    let names = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// A rank number as MPI's integer type.
pub(super) fn rank(rank: u32) -> i32 {
    i32::try_from(rank).expect("MPI has as many ranks")
}
