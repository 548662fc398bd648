//! The processes, and what they tell each other beside the messages of a schedule.

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

/// What is not part of a schedule has this tag.
const TALK: i32 = 32_767;
/// What ends a rank by force waits so much longer than the timeout: a rank that can say what is missing comes first.
const MARGIN: Duration = Duration::from_millis(500);
/// How long the end of all ranks may take, once one has given up.
const ABORTING: Duration = Duration::from_secs(2);
/// The exit code of all when one gives up.
const GIVEN_UP: i32 = 2;
/// The most bytes of one message of a talk; longer ones come in several.
const MOST_TALK: usize = 1 << 30;
/// How often somebody who waits looks before others may have the core.
const LOOKS: u32 = 64;
/// How often a rank asks for the time.
const QUESTIONS: u32 = 20;
/// How long a rank that waits for an order sleeps between two looks.
const NAP: Duration = Duration::from_millis(1);

/// What the first rank tells the others to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Run this schedule, and hand over what comes out.
    Work(String),
    /// Run this schedule, and tell what it took.
    Measure(String),
    /// Run a collective of MPI on so many elements, and tell what it took.
    Native(super::Native, u64),
    /// There is nothing more to do; the exit code of all.
    Dismissed(u8),
}

/// What a rank is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Until all ranks are known to be the same command.
    Joining,
    /// The first rank reads, plans and compares; the others wait for what it orders.
    Planning,
    /// All read the inputs.
    Preparing,
    /// The schedule runs.
    Running,
    /// Results go to the first rank, which compares them.
    Gathering,
    /// MPI ends.
    Leaving,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Joining => "while the ranks joined",
            Phase::Planning => "while the first rank planned or compared",
            Phase::Preparing => "while the inputs were read",
            Phase::Running => "while the schedule ran",
            Phase::Gathering => "while the results were gathered",
            Phase::Leaving => "while the ranks left",
        })
    }
}

/// A sign of another rank.
#[derive(Clone, Copy)]
struct Heard {
    rank: u32,
    at: Instant,
    phase: Phase,
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unstarted {
    /// In words, said by this rank alone.
    Here(String),
    /// Another rank says why.
    Elsewhere,
}

/// This process as one of many.
pub struct Session {
    world: SimpleCommunicator,
    /// How long it waits for a message.
    timeout: Duration,
    /// Where words go if it gives up.
    say: fn(&str),
    /// The zero of this rank's own clock, and what the first rank's clock is ahead of it, in seconds.
    origin: Instant,
    ahead: f64,
    phase: Cell<Phase>,
    heard: Cell<Option<Heard>>,
    /// When the first rank last showed the others that it is alive, while it waited for one of them.
    signed: Cell<Instant>,
    watchdog: Watchdog,
    /// Of the first rank.
    pulse: Option<Pulse>,
    /// Ends MPI when it is dropped, and so comes last.
    universe: Option<Universe>,
}

impl Session {
    /// Joins the processes that were started together. From here on a panic ends all of them.
    ///
    /// - `timeout`: how long a message may take, and the others to join.
    /// - `say`: where words go if a rank gives up.
    /// - `hello`: what this process is; all must be the same.
    ///
    /// # Errors
    /// If this process has done so before, or the ranks are not the same command.
    pub fn start(timeout: Duration, say: fn(&str), hello: &Hello) -> Result<Session, Unstarted> {
        let watchdog = Watchdog::start(say, GIVEN_UP);
        let words = || {
            let who = own_rank().map_or_else(|| "a rank".to_owned(), |rank| format!("rank {rank}"));
            format!(
                "error: {who}: not all ranks have come to `MPI_Init` within {} s, {}; no other rank has been heard of\n",
                timeout.as_secs_f64(),
                Phase::Joining
            )
        };
        // One rank says so before the others do.
        let later = MARGIN.mul_f64(f64::from(own_rank().unwrap_or(0).min(10)) / 10.0);
        let joined = watchdog
            .during(timeout.saturating_add(later), words, || mpi::initialize_with_threading(Threading::Serialized));
        let Some((universe, threading)) = joined else {
            return Err(Unstarted::Here("MPI has been started before".to_owned()));
        };
        if threading < Threading::Serialized {
            return Err(Unstarted::Here("this MPI cannot be called from more than one thread".to_owned()));
        }
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            // Whoever leaves by a panic would wait for the others at the end of MPI, and they for it.
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

    /// Makes sure that all ranks are the same command.
    fn greet(&self, own: &Hello) -> Result<(), Unstarted> {
        if self.rank() != 0 {
            self.send_part(0, &own.to_bytes());
            return match &self.receive_part(0)[..] {
                b"welcome" => Ok(()),
                b"no" => Err(Unstarted::Elsewhere),
                _ => Err(Unstarted::Here("rank 0 runs another version of shardc".to_owned())),
            };
        }
        let objections: Vec<Option<String>> =
            (1..self.size()).map(|rank| own.objection(rank, &self.receive_part(rank))).collect();
        let objection = objections.into_iter().flatten().next();
        if let Some(words) = &objection {
            // The first process that fails ends the others: what is wrong is said before they know.
            (self.say)(&format!("error: {words}\n"));
        }
        let answer: &[u8] = if objection.is_none() { b"welcome" } else { b"no" };
        (1..self.size()).for_each(|rank| self.send_part(rank, answer));
        if objection.is_none() { Ok(()) } else { Err(Unstarted::Elsewhere) }
    }

    /// What this rank does from now on.
    pub fn enter(&self, phase: Phase) {
        self.phase.set(phase);
    }

    /// Does something for which this rank, the first, needs no other one, for as long as it takes; the others know that
    /// it is alive.
    pub fn alone<T>(&self, act: impl FnOnce() -> T) -> T {
        self.beat();
        let done = act();
        self.pause();
        done
    }

    /// From now on this rank, the first, works alone, until it [tells](Session::tell) the others something.
    pub fn beat(&self) {
        self.pulse.iter().for_each(Pulse::beat);
    }

    fn pause(&self) {
        self.watched("a sign of life", || self.pulse.iter().for_each(Pulse::pause));
    }

    /// Does something that only comes back when other ranks have done it too.
    pub(super) fn watched<T>(&self, what: &str, act: impl FnOnce() -> T) -> T {
        let words = || format!("error: rank {}: {}\n", self.rank(), self.overdue(what));
        self.watchdog.during(self.timeout.saturating_add(MARGIN), words, act)
    }

    /// A rank has sent something.
    pub(super) fn hear(&self, rank: u32) {
        self.heard.set(Some(Heard { rank, at: Instant::now(), phase: self.phase.get() }));
    }

    /// What is missing, since when, and who was there.
    fn overdue(&self, what: &str) -> String {
        let last = match self.heard.get() {
            None => "no other rank has been heard of".to_owned(),
            Some(Heard { rank, at, phase }) => {
                format!("rank {rank} was heard of last, {:.1} s ago {phase}", at.elapsed().as_secs_f64())
            }
        };
        format!("{what} has not come for {} s, {}; {last}", self.timeout.as_secs_f64(), self.phase.get())
    }

    /// Seconds on the clock of the first rank.
    pub(super) fn now(&self) -> f64 {
        self.origin.elapsed().as_secs_f64() + self.ahead
    }

    /// What the first rank's clock is ahead of this one's. It is asked several times: the answer that came back
    /// soonest is off by half its way at most.
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

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        u32::try_from(self.world.size()).expect("sizes are not negative")
    }

    /// All ranks.
    pub(super) fn world(&self) -> &SimpleCommunicator {
        &self.world
    }

    /// Says what is wrong and ends all ranks.
    pub fn give_up(&self, problem: &str) -> ! {
        (self.say)(&format!("error: rank {}: {problem}\n", self.rank()));
        self.watchdog.during(ABORTING, String::new, || self.world.abort(GIVEN_UP))
    }

    /// The data of a request when it is done. Whoever waits for too long gives up and says for what.
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

    /// The first rank, which waits for one of the others, shows the rest that it is alive: it knows best who is missing.
    fn sign(&self) {
        let others = self.pulse.is_some() && self.phase.get() != Phase::Running;
        if others && self.signed.get().elapsed() >= pulse::every(self.timeout) {
            self.signed.set(Instant::now());
            self.watched("a sign of life", || pulse::send(&self.world));
        }
    }

    /// Takes in the first rank's signs of life; when the last one came, if there was one.
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

    /// Waits until all ranks are here. The first one knows who is missing.
    pub fn meet(&self) {
        self.gather(Vec::new());
        let own = if self.rank() == 0 { self.timeout } else { self.timeout.saturating_add(MARGIN) };
        let (since, mut looks, mut request) = (Instant::now(), 0, self.world.immediate_barrier());
        while let Err(pending) = request.test() {
            request = pending;
            self.idle(&mut looks, since, own, &|| "the last rank".to_owned());
        }
    }

    /// Tells all other ranks what to do.
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

    /// Waits for what the first rank orders, for as long as that one shows that it is alive.
    pub fn order(&self) -> Order {
        let mut alive = Instant::now();
        while self.world.process_at_rank(0).immediate_probe_with_tag(TALK).is_none() {
            alive = self.first_alive().unwrap_or(alive);
            if alive.elapsed() > self.timeout {
                self.give_up(&self.overdue("a sign of rank 0"));
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
                    self.give_up("the first rank orders what MPI has not")
                };
                Order::Native(native, elements)
            }
            (Some("d"), Some(code)) => Order::Dismissed(code.parse().unwrap_or(u8::MAX)),
            _ => self.give_up("the first rank's order makes no sense"),
        }
    }

    /// Sends bytes to a rank that receives them next.
    pub fn send(&self, to: u32, bytes: &[u8]) {
        self.send_part(to, &(bytes.len() as u64).to_le_bytes());
        bytes.chunks(MOST_TALK).for_each(|part| self.send_part(to, part));
    }

    fn send_part(&self, to: u32, part: &[u8]) {
        mpi::request::scope(|scope| {
            let request = self.world.process_at_rank(rank(to)).immediate_send_with_tag(scope, part, TALK);
            self.wait(request, || format!("the receipt of a word by rank {to}"));
        });
    }

    /// What a rank sends next.
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
            self.idle(&mut looks, since, self.timeout, &|| format!("a word of rank {from}"));
        };
        let mut part = vec![0; usize::try_from(status.count(u8::equivalent_datatype())).unwrap_or(0)];
        mpi::request::scope(|scope| {
            let request = source.immediate_receive_into_with_tag(scope, &mut part[..], TALK);
            self.wait(request, || format!("the rest of a word of rank {from}"));
        });
        self.hear(from);
        part
    }

    /// What each rank has, at the first one; nothing at the others.
    pub fn gather(&self, own: Vec<u8>) -> Vec<Vec<u8>> {
        if self.rank() != 0 {
            self.send(0, &own);
            return Vec::new();
        }
        std::iter::once(own).chain((1..self.size()).map(|rank| self.receive(rank))).collect()
    }

    /// Whether all ranks can go on; if not, the words of the first that cannot, at all of them.
    ///
    /// # Errors
    /// If one cannot.
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
        self.watched("the last rank to leave", || drop(universe));
    }
}

/// The number of this rank before MPI can say it, from the variables of those who start it.
fn own_rank() -> Option<u32> {
    let names = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"];
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// As MPI counts ranks.
pub(super) fn rank(rank: u32) -> i32 {
    i32::try_from(rank).expect("MPI has as many ranks")
}
