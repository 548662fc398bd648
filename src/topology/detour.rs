//! Detours around failed links.

use super::hop::{Hop, Link, LinkSide};
use super::{SwitchKind, Topology};
use crate::mesh::{AxisId, DeviceId, Wiring};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of hops over networks between nodes, then of all hops.
type Length = (u32, u32);

/// A step to a neighbour.
struct Step {
    axis: AxisId,
    side: LinkSide,
    to: DeviceId,
}

/// A route, if there is one.
type Detour = Option<Arc<[Hop]>>;

/// The detours found so far: each takes a search over all devices, and a schedule takes the same ones many times.
#[derive(Debug, Default)]
pub(super) struct Detours(Mutex<FxHashMap<(DeviceId, DeviceId), Detour>>);

impl Clone for Detours {
    /// Without any: the clone may get other links.
    fn clone(&self) -> Detours {
        Detours::default()
    }
}

impl Detours {
    fn get(&self, ends: (DeviceId, DeviceId), find: impl FnOnce() -> Option<Vec<Hop>>) -> Detour {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(ends).or_insert_with(|| find().map(Arc::from)).clone()
    }
}

impl Topology {
    /// [`Topology::found_detour`], found once.
    pub(super) fn detour(&self, from: DeviceId, to: DeviceId) -> Option<Arc<[Hop]>> {
        self.detours.get((from, to), || self.found_detour(from, to))
    }

    /// The shortest route on working links: with the fewest hops between nodes, then the fewest hops; ties are broken hop by
    /// hop by axis, up before down, nearer coordinates of a full mesh and lower ones of a switch first. `None` if there is no route.
    fn found_detour(&self, from: DeviceId, to: DeviceId) -> Option<Vec<Hop>> {
        let left = self.lengths_to(to);
        let mut at = from;
        let mut hops = Vec::new();
        left[at.index()]?;
        while at != to {
            let step = self.steps(at).into_iter().find(|step| {
                let rest = left[step.to.index()].map(|rest| self.longer(rest, step.axis));
                rest.is_some() && rest == left[at.index()]
            })?;
            self.push_hops(at, &step, &mut hops);
            at = step.to;
        }
        Some(hops)
    }

    /// Two devices without a route from the first to the second, if any.
    pub(super) fn cut(&self) -> Option<(DeviceId, DeviceId)> {
        let first = DeviceId(0);
        let away = self.lengths_to(first).iter().position(Option::is_none);
        if let Some(away) = away.and_then(|index| u32::try_from(index).ok()) {
            return Some((DeviceId(away), first));
        }
        let mut reached = vec![false; self.machine.device_count()];
        let mut open = vec![first];
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut reached[at.index()], true) {
                open.extend(self.steps(at).into_iter().map(|step| step.to));
            }
        }
        let lost = reached.iter().position(|reached| !reached).and_then(|index| u32::try_from(index).ok());
        lost.map(|index| (first, DeviceId(index)))
    }

    /// Distance of each device to `to`; `None` if it cannot reach it.
    fn lengths_to(&self, to: DeviceId) -> Vec<Option<Length>> {
        let mut lengths: Vec<Option<Length>> = vec![None; self.machine.device_count()];
        let mut open = BTreeSet::from([((0, 0), to)]);
        while let Some((length, at)) = open.pop_first() {
            if lengths[at.index()].is_some() {
                continue;
            }
            lengths[at.index()] = Some(length);
            for before in self.steps_into(at) {
                if lengths[before.to.index()].is_none() {
                    open.insert((self.longer(length, before.axis), before.to));
                }
            }
        }
        lengths
    }

    fn longer(&self, (between, hops): Length, axis: AxisId) -> Length {
        (between + u32::from(self.axes[axis.index()].network > 0), hops + 1)
    }

    /// The neighbours that a device can send to.
    fn steps(&self, at: DeviceId) -> Vec<Step> {
        let mut steps = self.neighbours(at);
        steps.retain(|step| !self.is_down(Link { axis: step.axis, side: step.side, device: at }));
        steps
    }

    /// The neighbours that can send to a device.
    fn steps_into(&self, at: DeviceId) -> Vec<Step> {
        let mut steps = self.neighbours(at);
        steps.retain(|step| {
            let side = match step.side {
                LinkSide::Up => LinkSide::Down,
                LinkSide::Down => LinkSide::Up,
                LinkSide::Out | LinkSide::In => LinkSide::Out,
                LinkSide::Ahead(by) => LinkSide::Ahead(self.machine.axis(step.axis).size - by),
                LinkSide::Cable(number) => LinkSide::Cable(number),
            };
            !self.is_down(Link { axis: step.axis, side, device: step.to })
        });
        steps
    }

    /// The neighbours of a device, ignoring failures.
    fn neighbours(&self, at: DeviceId) -> Vec<Step> {
        let mut steps = Vec::new();
        for axis in self.machine.axis_ids() {
            match self.axes[axis.index()].wiring {
                Wiring::Switch => {
                    // All devices on the switch, at the first of its axes.
                    let on: Vec<AxisId> = self.shared_by(axis).collect();
                    let ranks = 0..self.machine.group_size(on.iter().copied());
                    let others = ranks.map(|rank| self.machine.with_rank(at, on.iter().copied(), rank));
                    let others = others.filter(|other| *other != at);
                    steps.extend(others.map(|to| Step { axis, side: LinkSide::Out, to }));
                }
                Wiring::Ring | Wiring::Line | Wiring::Full | Wiring::Fabric => {
                    let links = self.sides(axis).map(|side| Link { axis, side, device: at });
                    let links = links.filter(|link| self.exists(*link));
                    steps.extend(links.map(|link| Step { axis, side: link.side, to: self.end(link) }));
                }
            }
        }
        steps
    }

    /// Number of hops: one, or two through a store-and-forward switch.
    fn push_hops(&self, at: DeviceId, step: &Step, hops: &mut Vec<Hop>) {
        let (axis, to) = (step.axis, Some(step.to));
        let link = self.link_id(Link { axis, side: step.side, device: at });
        let port = self.link_id(Link { axis, side: LinkSide::In, device: step.to });
        match (step.side, self.axes[axis.index()].switch) {
            (LinkSide::Out, SwitchKind::CutThrough) => hops.push(Hop { axis, link, also: Some(port).into(), to }),
            (LinkSide::Out, SwitchKind::StoreAndForward) => {
                hops.push(Hop { axis, link, also: None.into(), to: None });
                hops.push(Hop { axis, link: port, also: None.into(), to });
            }
            (LinkSide::Up | LinkSide::Down | LinkSide::In | LinkSide::Ahead(_) | LinkSide::Cable(_), _) => {
                hops.push(Hop { axis, link, also: None.into(), to });
            }
        }
    }
}
