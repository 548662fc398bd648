//! Orders direct messages of one hop each that share links, such as those between all pairs of devices.
//!
//! Whenever links become free, the messages whose most loaded link has most left to carry go first, so that it is never
//! idle. Of equal ones, those between devices at the smallest distance by number go first: if nothing else decides, the
//! messages of a round are a shift of all devices.
//!
//! Source: the longest-remaining-time rule for open shops, with several machines for each task.

use super::{Network, Round};
use std::cmp::Reverse;

/// The messages in a good order; those that start together form a round. The chunk of a message is its place in `messages`.
///
/// - `messages`: the hop of each message.
pub fn exchange(network: &Network, messages: &[usize]) -> Vec<Round> {
    let links = |message: usize| network.hops[messages[message]].links.iter().copied();
    let mut left = vec![0u64; network.busy.len()];
    (0..messages.len()).flat_map(links).for_each(|link| left[link] += network.busy[link]);
    let devices = network.devices();
    let distance = |message: usize| {
        let hop = &network.hops[messages[message]];
        (hop.to + devices - hop.from) % devices
    };
    let mut waiting: Vec<usize> = (0..messages.len()).collect();
    waiting.sort_by_key(|message| (distance(*message), *message));
    let mut free = vec![0u64; network.busy.len()];
    let mut sent = vec![false; messages.len()];
    let mut starts: Vec<(u64, usize, usize)> = Vec::with_capacity(messages.len());
    let mut now = 0;
    while !waiting.is_empty() {
        let is_free = |free: &[u64], message: usize| links(message).all(|link| free[link] <= now);
        let most = |message: usize| links(message).map(|link| left[link]).max().unwrap_or(0);
        let mut ready: Vec<(Reverse<u64>, usize)> = (0..waiting.len())
            .filter(|place| is_free(&free, waiting[*place]))
            .map(|place| (Reverse(most(waiting[place])), place))
            .collect();
        ready.sort_unstable();
        for (_, place) in ready {
            let message = waiting[place];
            if is_free(&free, message) {
                sent[message] = true;
                for link in links(message) {
                    free[link] = now + network.busy[link];
                    left[link] -= network.busy[link];
                }
                starts.push((now, message, messages[message]));
            }
        }
        waiting.retain(|message| !sent[*message]);
        let next = free.iter().copied().filter(|time| *time > now).min();
        now = next.unwrap_or(now);
    }
    network.in_rounds(starts)
}
