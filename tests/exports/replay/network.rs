//! A simulator of messages on links: each link and port serves one message at a time, first come, first served.
//!
//! Messages are stored and forwarded at every device, on a shortest route, axis by axis: rings, lines, then switches, of each
//! the shortest first. A message through a switch needs the sender's port and the receiver's port at once; others at the
//! sender's port may overtake it meanwhile, unless the network sends in order. Messages that are ready at the same time are
//! served in the order of their files.

use super::trace::{Trace, What};
use itertools::Itertools;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// The wiring of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wire {
    Ring,
    Line,
    Switch,
}

/// The time of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The larger of latency and bytes over rate; the link is busy as long, the port of a switch for bytes over rate.
    Larger,
    /// The sum of latency and bytes over rate; the link is busy for bytes over rate.
    Sum,
}

/// A network; ranks are numbered with the last axis varying fastest.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) axes: Vec<(usize, Wire)>,
    /// Bytes per second of a link or port, one way.
    pub(super) rate: u64,
    /// Nanoseconds of a hop.
    pub(super) latency: u64,
    pub(super) rule: Rule,
    /// Whether a message waits for those before it at its first port, even if they wait for other ports.
    pub(super) in_order: bool,
}

/// A link or port: axis, device, and direction (0 up or out, 1 down or in).
type Port = (usize, usize, usize);

/// Exact time: a nanosecond is `rate` of them, a byte on a link 10^9.
type Ticks = u128;

impl Network {
    fn ranks(&self) -> usize {
        self.axes.iter().map(|(size, _)| size).product()
    }

    /// The ports of each hop between two ranks. Messages between antipodes of a ring go up if `number` is even.
    fn route(&self, from: usize, to: usize, number: u64) -> Vec<Vec<Port>> {
        let (mut at, mut hops) = (from, Vec::new());
        let crossed = self.axes.iter().enumerate().sorted_by_key(|(_, (size, wire))| (*wire, *size));
        for (axis, (size, wire)) in crossed {
            let stride: usize = self.axes[axis + 1..].iter().map(|(size, _)| size).product();
            let place = |rank: usize| rank / stride % size;
            let (mut here, there) = (place(at), place(to));
            let up = (there + size - here) % size;
            let goes_up = match wire {
                Wire::Switch => {
                    if here != there {
                        let next = at - here * stride + there * stride;
                        hops.push(vec![(axis, at, 0), (axis, next, 1)]);
                        at = next;
                    }
                    continue;
                }
                Wire::Line => there > here,
                Wire::Ring => 2 * up < *size || (2 * up == *size && number.is_multiple_of(2)),
            };
            while here != there {
                let next = if goes_up { (here + 1) % size } else { (here + size - 1) % size };
                hops.push(vec![(axis, at, usize::from(!goes_up))]);
                at = at - here * stride + next * stride;
                here = next;
            }
        }
        hops
    }

    /// How long a hop along an axis occupies its ports, and how long it takes.
    fn hop(&self, axis: usize, bytes: u64) -> (Ticks, Ticks) {
        let (latency, serial) = (u128::from(self.latency) * u128::from(self.rate), u128::from(bytes) * 1_000_000_000);
        match self.rule {
            Rule::Larger if self.axes[axis].1 == Wire::Switch => (serial, latency.max(serial)),
            Rule::Larger => (latency.max(serial), latency.max(serial)),
            Rule::Sum => (serial, latency + serial),
        }
    }

    /// The seconds until all ranks are done.
    #[expect(clippy::cast_precision_loss, reason = "compared with a tolerance")]
    pub(super) fn seconds(&self, trace: &Trace) -> f64 {
        Replay::new(self, trace).run() as f64 / (self.rate as f64 * 1e9)
    }
}

/// Something that waits for ports: when it was ready, position in its file, rank.
type Turn = (Ticks, usize, usize);

struct Job {
    hops: Vec<Vec<Port>>,
    /// The current hop.
    hop: usize,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Free(Port),
    /// A message, by sender and position, has passed a hop.
    Hop(usize, usize),
    /// An action is done.
    Done(usize, usize),
}

struct Replay<'a> {
    network: &'a Network,
    trace: &'a Trace,
    /// Outstanding actions and messages of each action, and the actions that wait for it.
    missing: Vec<Vec<usize>>,
    users: Vec<Vec<Vec<usize>>>,
    receivers: BTreeMap<(usize, usize, u64), (usize, usize)>,
    jobs: BTreeMap<(usize, usize), Job>,
    /// Messages that wait for each port.
    queues: BTreeMap<Port, BTreeSet<Turn>>,
    /// Messages that may have become able to start.
    candidates: BTreeSet<Turn>,
    busy: BTreeSet<Port>,
    engines: Vec<Ticks>,
    events: BinaryHeap<Reverse<(Ticks, Event)>>,
    done: usize,
}

impl<'a> Replay<'a> {
    fn new(network: &'a Network, trace: &'a Trace) -> Replay<'a> {
        assert_eq!(network.ranks(), trace.len());
        let mut users: Vec<Vec<Vec<usize>>> = trace.iter().map(|actions| vec![Vec::new(); actions.len()]).collect();
        let (mut missing, mut receivers) = (Vec::new(), BTreeMap::new());
        for (rank, actions) in trace.iter().enumerate() {
            let mut own = Vec::new();
            for (place, action) in actions.iter().enumerate() {
                action.after.iter().for_each(|before| users[rank][*before].push(place));
                let message = if let What::Receive { from, tag, .. } = action.what {
                    let earlier = receivers.insert((from, rank, tag), (rank, place));
                    assert_eq!(earlier, None, "one receive per message");
                    1
                } else {
                    0
                };
                own.push(action.after.len() + message);
            }
            missing.push(own);
        }
        let engines = vec![0; trace.len()];
        Replay {
            network,
            trace,
            missing,
            users,
            receivers,
            jobs: BTreeMap::new(),
            queues: BTreeMap::new(),
            candidates: BTreeSet::new(),
            busy: BTreeSet::new(),
            engines,
            events: BinaryHeap::new(),
            done: 0,
        }
    }

    fn run(mut self) -> Ticks {
        for (rank, actions) in self.trace.iter().enumerate() {
            for place in 0..actions.len() {
                if self.missing[rank][place] == 0 {
                    self.start(rank, place, 0);
                }
            }
        }
        let mut now = 0;
        loop {
            self.serve(now);
            let Some(Reverse((next, _))) = self.events.peek() else { break };
            now = *next;
            while let Some(Reverse((_, event))) = self.events.peek().copied().filter(|Reverse((at, _))| *at == now) {
                self.events.pop();
                match event {
                    Event::Free(port) => {
                        self.busy.remove(&port);
                        self.candidates.extend(self.queues.get(&port).into_iter().flatten());
                    }
                    Event::Done(rank, place) => self.finish(rank, place, now),
                    Event::Hop(rank, place) => {
                        let job = self.jobs.get_mut(&(rank, place)).expect("on its way");
                        job.hop += 1;
                        if job.hop < job.hops.len() {
                            self.wait((now, place, rank));
                        } else {
                            self.arrive(rank, place, now);
                        }
                    }
                }
            }
        }
        let all: usize = self.trace.iter().map(Vec::len).sum();
        assert_eq!(self.done, all, "every action is done");
        now
    }

    /// Starts an action whose dependencies are done.
    fn start(&mut self, rank: usize, place: usize, now: Ticks) {
        match self.trace[rank][place].what {
            What::Send { to, tag, bytes } => {
                let hops = self.network.route(rank, to, tag);
                self.jobs.insert((rank, place), Job { hops, hop: 0, bytes });
                self.wait((now, place, rank));
            }
            What::Receive { .. } => self.finish(rank, place, now),
            What::Compute { nanoseconds } => {
                let end = now.max(self.engines[rank]) + u128::from(nanoseconds) * u128::from(self.network.rate);
                self.engines[rank] = end;
                self.events.push(Reverse((end, Event::Done(rank, place))));
            }
        }
    }

    /// A message is there: the receive has one dependency less, and the send is done.
    fn arrive(&mut self, rank: usize, place: usize, now: Ticks) {
        let What::Send { to, tag, bytes } = self.trace[rank][place].what else { unreachable!("only sends travel") };
        let (receiver, receive) = self.receivers[&(rank, to, tag)];
        let What::Receive { bytes: expected, .. } = self.trace[receiver][receive].what else { unreachable!() };
        assert_eq!(bytes, expected, "equal lengths");
        self.finish(rank, place, now);
        self.less(receiver, receive, now);
    }

    fn less(&mut self, rank: usize, place: usize, now: Ticks) {
        self.missing[rank][place] -= 1;
        if self.missing[rank][place] == 0 {
            self.start(rank, place, now);
        }
    }

    fn finish(&mut self, rank: usize, place: usize, now: Ticks) {
        self.done += 1;
        for user in std::mem::take(&mut self.users[rank][place]) {
            self.less(rank, user, now);
        }
    }

    /// The ports of the next hop of a message.
    fn ports(&self, (_, place, rank): Turn) -> &[Port] {
        let job = &self.jobs[&(rank, place)];
        &job.hops[job.hop]
    }

    fn wait(&mut self, turn: Turn) {
        self.candidates.insert(turn);
        for port in self.ports(turn).to_vec() {
            self.queues.entry(port).or_default().insert(turn);
        }
    }

    /// Starts all hops whose ports are free, in turn.
    fn serve(&mut self, now: Ticks) {
        for turn in std::mem::take(&mut self.candidates) {
            let ports = self.ports(turn).to_vec();
            if ports.iter().any(|port| self.busy.contains(port)) {
                continue;
            }
            if self.network.in_order && self.queues[&ports[0]].first() != Some(&turn) {
                continue;
            }
            let (_, place, rank) = turn;
            let (busy, takes) = self.network.hop(ports[0].0, self.jobs[&(rank, place)].bytes);
            for port in ports {
                self.queues.entry(port).or_default().remove(&turn);
                self.busy.insert(port);
                self.events.push(Reverse((now + busy, Event::Free(port))));
            }
            self.events.push(Reverse((now + takes, Event::Hop(rank, place))));
        }
    }
}
