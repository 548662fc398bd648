//! The processes, and what they tell each other beside the messages of a schedule.

use mpi::environment::Universe;
use mpi::request::{Request, Scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};
use std::time::{Duration, Instant};

/// What is not part of a schedule has this tag.
const TALK: i32 = 32_767;
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
    /// Ends MPI when it is dropped, and so comes last.
    _universe: Universe,
}

impl Session {
    /// Joins the processes that were started together; none if this process has done so before. From here on a panic
    /// ends all of them.
    ///
    /// - `timeout`: how long a message may take.
    /// - `say`: where words go if a rank gives up.
    pub fn start(timeout: Duration, say: fn(&str)) -> Option<Session> {
        let universe = mpi::initialize()?;
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            before(panic);
            // Whoever leaves by a panic would wait for the others at the end of MPI, and they for it.
            std::process::abort();
        }));
        let (world, origin) = (universe.world(), Instant::now());
        let mut session = Session { world, timeout, say, origin, ahead: 0.0, _universe: universe };
        session.ahead = session.set_clock();
        Some(session)
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
        self.world.abort(GIVEN_UP)
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
            self.idle(&mut looks, since, &what);
        }
    }

    fn idle(&self, looks: &mut u32, since: Instant, what: &impl Fn() -> String) {
        *looks += 1;
        if *looks < LOOKS {
            return std::hint::spin_loop();
        }
        if since.elapsed() > self.timeout {
            self.give_up(&format!("{} has not come for {} s", what(), self.timeout.as_secs_f64()));
        }
        std::thread::yield_now();
    }

    /// Waits until all ranks are here.
    pub fn meet(&self) {
        self.wait(self.world.immediate_barrier(), || "the last rank".to_owned());
    }

    /// Tells all other ranks what to do.
    pub fn tell(&self, order: &Order) {
        let text = match order {
            Order::Work(text) => format!("w{text}"),
            Order::Measure(text) => format!("m{text}"),
            Order::Native(native, elements) => format!("n{} {elements}", native.name()),
            Order::Dismissed(code) => format!("d{code}"),
        };
        (1..self.size()).for_each(|rank| self.send(rank, text.as_bytes()));
    }

    /// Waits for what the first rank orders, for as long as it takes.
    pub fn order(&self) -> Order {
        while self.world.process_at_rank(0).immediate_probe_with_tag(TALK).is_none() {
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
        self.world.process_at_rank(rank(to)).send_with_tag(part, TALK);
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
        let (since, mut looks) = (Instant::now(), 0);
        let source = self.world.process_at_rank(rank(from));
        while source.immediate_probe_with_tag(TALK).is_none() {
            self.idle(&mut looks, since, &|| format!("a word of rank {from}"));
        }
        source.receive_vec_with_tag::<u8>(TALK).0
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

/// As MPI counts ranks.
pub(super) fn rank(rank: u32) -> i32 {
    i32::try_from(rank).expect("MPI has as many ranks")
}
