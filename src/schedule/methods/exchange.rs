//! Direct exchanges: AllToAll and permutations, each message on its own route.

use super::super::{Builder, CoordMap, OpId, Region, Route, Sources};
use super::Method;
use super::place::{Place, halves, length};
use crate::mesh::{Axes, AxisId, DeviceId, Mesh};
use itertools::Itertools;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Moves a run of axes from dim `from` to dim `to`: local `[F, T] -> [n·F, T/n]`.
///
/// Device d receives block d along `to` from every device, concatenated along `from` in rank order. The two dims differ
/// and the extent of `to` divides by the length of the run.
pub fn all_to_all(
    builder: &mut Builder<'_>,
    method: Method,
    axes: impl Into<Axes>,
    value: OpId,
    from: usize,
    to: usize,
) -> OpId {
    let axes = axes.into();
    all_to_all_over(builder, &[(axes, method)], value, from, Destination { dim: to, order: axes })
}

/// The destination of an exchange's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The destination dim.
    pub dim: usize,
    /// The order of axes on it, major first.
    pub order: Axes,
}

impl Destination {
    /// The runs of the axes before the exchange, split where the order after it separates them.
    pub fn runs(&self, mesh: &Mesh, axes: Axes) -> Vec<Axes> {
        let mut runs: Vec<Axes> = Vec::new();
        for run in mesh.runs(axes) {
            for (place, axis) in run.iter().enumerate() {
                match runs.last_mut().filter(|_| place > 0) {
                    Some(run)
                        if run.last().is_some_and(|last| self.rank(axis.into()) == self.rank(last.into()) + 1) =>
                    {
                        *run = run.with(axis);
                    }
                    Some(_) | None => runs.push(Axes::one(axis)),
                }
            }
        }
        runs
    }

    /// The number of axes that end up major to those of a run.
    pub fn rank(&self, run: Axes) -> usize {
        self.order.iter().take_while(|axis| !run.contains(*axis)).count()
    }
}

/// Moves several runs of axes, major first, from dim `from` to another one, the minor one first.
///
/// To end up in the requested order, a run takes blocks from the middle of the dim: after those of the runs that will be
/// major to it and are not exchanged yet.
pub fn all_to_all_over(
    builder: &mut Builder<'_>,
    runs: &[(Axes, Method)],
    value: OpId,
    from: usize,
    to: Destination,
) -> OpId {
    let mut value = value;
    for (place, (axes, method)) in runs.iter().enumerate().rev() {
        let before = runs[..place].iter().filter(|(other, _)| to.rank(*other) < to.rank(*axes));
        let major = builder.mesh().group_size(before.flat_map(|(axes, _)| axes.iter()));
        let (from, to) = (Place::new(*axes, from), Place { axes: *axes, dim: to.dim, major });
        value = Exchange { method: *method, from, to }.build(&mut builder.by(method.name()), value);
    }
    value
}

/// Moves all axes at once: each device sends every other one its block, the farthest first.
pub fn all_to_all_at_once(builder: &mut Builder<'_>, axes: Axes, value: OpId, from: usize, to: Destination) -> OpId {
    let builder = &mut builder.by(Method::Direct.name());
    let mesh = builder.mesh().clone();
    let n = axes.group_size(&mesh);
    let (source, target) = (Place::new(axes, from), Place::new(to.order, to.dim));
    let mut extents = builder.extents(value).to_vec();
    extents[to.dim] /= n;
    let sizes: Vec<u64> = axes.iter().map(|axis| mesh.size(axis)).collect();
    let offsets = sizes.iter().map(|size| 0..*size).multi_cartesian_product();
    let hops = |offset: &Vec<u64>| offset.iter().zip(&sizes).map(|(by, size)| *by.min(&(size - by))).sum::<u64>();
    let mut pieces = Vec::new();
    for offset in offsets.sorted_by_key(|offset| std::cmp::Reverse(hops(offset))) {
        let ahead = turned(&mesh, axes, to.order, &offset, false);
        let slot = CoordMap::Table { axes: to.order.iter().collect(), entries: ahead.into_iter().map(Some).collect() };
        let mut block = target.slot(builder, value, slot, None);
        let behind = turned(&mesh, axes, axes, &offset, true);
        if hops(&offset) > 0 {
            let entries = behind.iter().map(|rank| u32::try_from(*rank).ok()).collect();
            block = builder.shuffle(block, Sources::Table { axes: axes.iter().collect(), entries }, Route::Shortest);
        }
        let slot = CoordMap::Table { axes: axes.iter().collect(), entries: behind.into_iter().map(Some).collect() };
        pieces.push((block, source.region(&extents, slot, None)));
    }
    extents[from] *= n;
    let view = source.view(&extents, n);
    builder.assemble(extents, view, pieces)
}

/// For each rank in `order`, the rank of the device that far ahead, or behind, along the axes.
fn turned(mesh: &Mesh, axes: Axes, order: Axes, offset: &[u64], back: bool) -> Vec<u64> {
    let image = |rank: u64| {
        let device = mesh.with_rank(DeviceId(0), order.iter(), rank);
        let image = axes.iter().zip(offset).fold(device, |image, (axis, by)| {
            let (size, at) = (mesh.size(axis), u64::from(mesh.coordinate(image, axis)));
            let to = if back { at + size - by } else { at + by } % size;
            mesh.with_coordinate(image, axis, u32::try_from(to).expect("axes are shorter"))
        });
        mesh.rank(image, order.iter())
    };
    (0..order.group_size(mesh)).map(image).collect()
}

/// One stage of an AllToAll, along one axis.
pub(super) struct Exchange {
    pub(super) method: Method,
    /// The places of received blocks.
    pub(super) from: Place,
    /// The places of sent blocks.
    pub(super) to: Place,
}

/// Limit on the ring length for separate even and odd devices, which breaks symmetry.
const LONGEST_BY_PARITY: u64 = 64;

/// Limit on the ring length for link-by-link methods, whose operations grow with its square.
const LONGEST_BY_LINKS: u64 = 64;

/// The methods for an exchange around a ring of more than two, the default first.
pub(super) fn on_ring(n: u64) -> Vec<Method> {
    // On an odd ring there is no antipode.
    let halves = n.is_multiple_of(2).then_some(Method::DirectHalves);
    // Elsewhere the antipodes of even devices are odd, and as many go one way as the other only on average.
    let parity = (n.is_multiple_of(4) && n <= LONGEST_BY_PARITY).then_some(Method::DirectParity);
    // With three all are neighbours.
    let bundled = (n > 3).then_some(Method::Bundled);
    let by_links = (n > 3 && n <= LONGEST_BY_LINKS).then_some(Method::LinkByLink);
    halves.into_iter().chain([Method::Direct]).chain(bundled).chain(by_links).chain(parity).collect()
}

/// Blocks that travel the same number of links.
struct Message {
    /// The distance up to the source device.
    by: i64,
    /// Links, towards higher coordinates if positive; `None` for the shorter way.
    hops: Option<i64>,
    /// The half of each block, if halved.
    half: Option<usize>,
    /// Restricts the senders, by the remainder of their rank by 2.
    parity: Option<u64>,
}

impl Exchange {
    /// Adds the operations of the stage.
    pub(super) fn build(&self, builder: &mut Builder<'_>, value: OpId) -> OpId {
        let axes = self.from.axes;
        let n = axes.group_size(builder.mesh());
        if n == 1 {
            return value;
        }
        let mut extents = builder.extents(value).to_vec();
        extents[self.to.dim] /= n;
        let here = CoordMap::along(builder.mesh(), axes, 0, false);
        let own = self.to.slot(builder, value, here.clone(), None);
        let mut pieces = vec![(own, self.from.region(&extents, here, None))];
        match self.method {
            Method::Line | Method::LinkByLink => pieces.extend(self.forwarded(builder, value, &extents)),
            Method::LineBundled => pieces.extend(self.bundled_on_line(builder, value, &extents)),
            Method::Bruck => pieces.extend(self.in_rounds(builder, value, &extents)),
            Method::Bundled if n > 3 => pieces.extend(self.bundled(builder, value, &extents)),
            _ => pieces.extend(self.sent(builder, value, &extents)),
        }
        extents[self.from.dim] *= n;
        let view = self.from.view(&extents, n);
        builder.assemble(extents, view, pieces)
    }

    /// Sends each message directly, the farthest first, to avoid waiting for them at the end.
    fn sent(&self, builder: &mut Builder<'_>, value: OpId, extents: &[u64]) -> Vec<(OpId, Region)> {
        let axes = self.from.axes;
        let halves = halves(&self.from.shard_view(extents));
        let mut pieces = Vec::new();
        for message in self.messages(length(builder, axes), halves.is_some()) {
            let part = message.half.zip(halves.as_ref()).map(|(half, parts)| &parts[half]);
            let slot = |builder: &Builder<'_>, shift| CoordMap::along(builder.mesh(), axes, shift, true);
            let sent = match message.parity {
                Some(parity) => of_parity(builder.mesh(), axes, -message.by, parity),
                None => slot(builder, -message.by),
            };
            let block = self.to.slot(builder, value, sent, None);
            let block = self.from.cut(builder, block, part);
            let sources = Sources::Shift { axes, by: message.by, wrap: true };
            let arrived = builder.shuffle(block, sources, message.hops.map_or(Route::Shortest, Route::Hops));
            pieces.push((arrived, self.from.region(extents, slot(builder, message.by), part)));
        }
        pieces
    }

    /// Sends each block separately from neighbour to neighbour. A link serves blocks from near that go far first, and
    /// blocks from afar that have nearly arrived last, so no link idles and the last blocks wait little. If a block's link
    /// time is at least the hop latency, only one hop of latency shows around a ring, and two along a line.
    fn forwarded(&self, builder: &mut Builder<'_>, value: OpId, extents: &[u64]) -> Vec<(OpId, Region)> {
        let axes = self.from.axes;
        let n = length(builder, axes);
        let wraps = self.method == Method::LinkByLink;
        let halves = halves(&self.from.shard_view(extents));
        // On a ring the antipode is as far both ways round.
        let half = |distance: i64, sign: i64| match &halves {
            Some([up, down]) if wraps && 2 * distance == n => Some(if sign > 0 { up } else { down }),
            _ => None,
        };
        let goes = |distance: i64, sign: i64| match n.cmp(&(2 * distance)) {
            _ if !wraps => true,
            Ordering::Less => false,
            Ordering::Equal => halves.is_some() || sign > 0,
            Ordering::Greater => true,
        };
        let ways = |distance: i64| [1, -1].map(|sign| (distance, sign)).into_iter().filter(|(d, s)| goes(*d, *s));
        let mut moving: BTreeMap<(i64, i64), OpId> = BTreeMap::new();
        for (distance, sign) in (1..n).flat_map(ways) {
            let slot = CoordMap::along(builder.mesh(), axes, sign * distance, wraps);
            let block = self.to.slot(builder, value, slot, None);
            let block = self.from.cut(builder, block, half(distance, sign));
            moving.insert((distance, sign), block);
        }
        let steps = (1..n).flat_map(|link| (link..n).flat_map(ways).map(move |way| (link, way)));
        // What it has behind it, less what is before it.
        let order = |(link, (distance, _)): &(i64, (i64, i64))| (2 * link - distance, *link);
        let mut pieces = Vec::new();
        for (link, (distance, sign)) in steps.sorted_by_key(order) {
            let sources = Sources::Shift { axes, by: -sign, wrap: wraps };
            let block = builder.shuffle(moving[&(distance, sign)], sources, Route::Hops(sign));
            moving.insert((distance, sign), block);
            if distance == link {
                let slot = CoordMap::along(builder.mesh(), axes, -sign * distance, wraps);
                pieces.push((block, self.from.region(extents, slot, half(distance, sign))));
            }
        }
        pieces
    }

    /// By decreasing distance. On an axis of 2 there is only one way.
    fn messages(&self, n: i64, can_halve: bool) -> Vec<Message> {
        let plain = |by| Message { by, hops: None, half: None, parity: None };
        let halves = self.method == Method::DirectHalves && can_halve && n > 2;
        let by_parity = self.method == Method::DirectParity && n > 2;
        let at = |far: i64| match 2 * far == n {
            // Both halves come from the antipode; the shift says the way round.
            true if halves => {
                let half = |(half, hops): (usize, i64)| Message {
                    by: -hops,
                    hops: Some(hops),
                    half: Some(half),
                    parity: None,
                };
                [(0, far), (1, -far)].map(half).into_iter().collect()
            }
            // What even devices send goes up, what odd ones send goes down.
            true if by_parity => {
                let from = |(parity, hops): (u64, i64)| Message {
                    by: -hops,
                    hops: Some(hops),
                    half: None,
                    parity: Some(parity),
                };
                [(0, far), (1, -far)].map(from).into_iter().collect()
            }
            true => vec![plain(far)],
            false => vec![plain(far), plain(n - far)],
        };
        (1..=n / 2).rev().flat_map(at).collect()
    }
}

/// The map `(rank + shift) mod n` for ranks with this remainder by 2.
fn of_parity(mesh: &Mesh, axes: Axes, shift: i64, parity: u64) -> CoordMap {
    let n = axes.group_size(mesh);
    let shift = shift.rem_euclid(i64::try_from(n).expect("fewer than 2^20 devices")).unsigned_abs();
    let entries = (0..n).map(|rank| (rank % 2 == parity).then_some((rank + shift) % n)).collect();
    CoordMap::Table { axes: axes.iter().collect(), entries }
}

/// In each group of the axes, major first, rank r receives the whole block of rank `sources[r]`.
pub fn permute(builder: &mut Builder<'_>, axes: Vec<AxisId>, value: OpId, sources: Vec<Option<u32>>) -> OpId {
    let builder = &mut builder.by(Method::Direct.name());
    builder.shuffle(value, Sources::Table { axes, entries: sources }, Route::Shortest)
}
