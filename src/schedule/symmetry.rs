//! Behaviour of coordinate maps under translation of all devices along an axis, from its end to its start.
//!
//! Affine maps are analysed by their factors, tables entry by entry.

use super::{CoordMap, Sources};
use crate::mesh::{AxisId, Mesh};

/// The change of a map's index when the device moves one step along an axis of n devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// No change.
    Fixed,
    /// Written as `(major * n + digit) * weight + minor`, the digit increases by one, from n - 1 to 0.
    Digit(u64),
}

impl Turn {
    /// The changed index, below `length`; `None` if the digit does not fit.
    fn of(self, index: u64, n: u64, length: u64) -> Option<u64> {
        match self {
            Turn::Fixed => Some(index),
            Turn::Digit(weight) => {
                let period = weight.checked_mul(n)?;
                let next = if index / weight % n + 1 == n { index - (n - 1) * weight } else { index + weight };
                length.is_multiple_of(period).then_some(next)
            }
        }
    }
}

impl CoordMap {
    /// The change of the index in a dim of this length, if it is the same for all devices. Whether a device has an index is
    /// then independent of its coordinate along the axis.
    pub fn turn(&self, mesh: &Mesh, axis: AxisId, length: u64) -> Option<Turn> {
        let n = mesh.size(axis);
        match self {
            CoordMap::Affine { terms, constant, modulo } => {
                let range = range(mesh, terms, *constant)?;
                let own = || terms.iter().filter(|(own, factor)| *own == axis && *factor != 0 && n > 1);
                let factor = match (own().next(), own().nth(1)) {
                    (None, _) => return Some(Turn::Fixed),
                    (Some((_, factor)), None) => *factor,
                    (Some(_), Some(_)) => return None,
                };
                match modulo {
                    Some(modulo) if !is_below(range, *modulo) => wrapped(factor, *modulo, n, length),
                    Some(_) | None => digit(mesh, terms, *constant, axis, factor, length),
                }
            }
            CoordMap::Table { axes, entries } => {
                if !axes.contains(&axis) || n == 1 {
                    return Some(Turn::Fixed);
                }
                let minor = mesh.group_size(axes.iter().copied().skip_while(|own| *own != axis).skip(1));
                let weights = [1, minor, length / n].into_iter().filter(|weight| *weight > 0);
                let turns = [Turn::Fixed].into_iter().chain(weights.map(Turn::Digit));
                let inside = |entry: &Option<u64>| entry.filter(|index| *index < length);
                let holds = |turn: &Turn| {
                    (0u64..).zip(entries).all(|(rank, entry)| {
                        let next = Turn::Digit(minor).of(rank, n, entries.len() as u64);
                        let next = next.and_then(|next| entries.get(usize::try_from(next).ok()?));
                        let turned = inside(entry).map(|index| turn.of(index, n, length));
                        match (turned, next.map(inside)) {
                            (None, Some(None)) => true,
                            (Some(Some(turned)), Some(Some(found))) => turned == found,
                            (None | Some(_), _) => false,
                        }
                    })
                };
                turns.into_iter().find(holds)
            }
        }
    }

    /// Whether every device has an index in a dim of this length.
    pub fn is_total(&self, mesh: &Mesh, length: u64) -> bool {
        match self {
            CoordMap::Affine { terms, constant, modulo } => range(mesh, terms, *constant).is_some_and(|range| {
                modulo.is_some_and(|modulo| (1..=length).contains(&modulo)) || is_below(range, length)
            }),
            CoordMap::Table { entries, .. } => entries.iter().all(|entry| entry.is_some_and(|index| index < length)),
        }
    }
}

/// Minimum and maximum of an affine map, before any modulo; `None` on overflow.
fn range(mesh: &Mesh, terms: &[(AxisId, i64)], constant: i64) -> Option<(i64, i64)> {
    let (mut least, mut most) = (i128::from(constant), i128::from(constant));
    let mut size = i128::from(constant).abs();
    for (axis, factor) in terms {
        let reach = i128::from(*factor) * i128::from(mesh.size(*axis) - 1);
        (least, most, size) = (least + reach.min(0), most + reach.max(0), size + reach.abs());
    }
    i64::try_from(size).ok()?;
    Some((i64::try_from(least).ok()?, i64::try_from(most).ok()?))
}

/// Whether a range lies between 0 and a limit.
fn is_below((least, most): (i64, i64), limit: u64) -> bool {
    least >= 0 && u64::try_from(most).is_ok_and(|most| most < limit)
}

/// For a sum modulo the length of the dim: it increases by the factor, if n steps wrap around.
fn wrapped(factor: i64, modulo: u64, n: u64, length: u64) -> Option<Turn> {
    let weight = u64::try_from(factor.rem_euclid(i64::try_from(modulo).ok()?)).ok()?;
    match weight {
        0 => Some(Turn::Fixed),
        _ if weight.checked_mul(n) == Some(modulo) && modulo == length => Some(Turn::Digit(weight)),
        _ => None,
    }
}

/// For a sum without modulo: the coordinate is a digit of it, if everything else is below its weight or above the digit.
fn digit(mesh: &Mesh, terms: &[(AxisId, i64)], constant: i64, axis: AxisId, factor: i64, length: u64) -> Option<Turn> {
    let weight = u64::try_from(factor).ok()?;
    let period = i64::try_from(weight.checked_mul(mesh.size(axis))?).ok()?;
    let mut minor = i128::from(constant.rem_euclid(period));
    for (other, factor) in terms.iter().filter(|(other, _)| *other != axis) {
        if factor % period != 0 {
            minor += i128::from(u64::try_from(*factor).ok()?) * i128::from(mesh.size(*other) - 1);
        }
    }
    let fits = minor < i128::from(weight) && length.is_multiple_of(u64::try_from(period).ok()?);
    fits.then_some(Turn::Digit(weight))
}

impl Sources {
    /// Whether sources commute with a step along the axis, for all devices; this includes which devices have a source.
    pub fn commutes(&self, mesh: &Mesh, axis: AxisId) -> bool {
        let n = mesh.size(axis);
        match self {
            Sources::Shift { axes, by, wrap } => {
                // A shift so far that it cannot be counted for some ranks does not apply to them.
                let counted = by.unsigned_abs() <= u64::from(u32::MAX);
                !axes.contains(axis) || n == 1 || *by == 0 || *wrap && axes.len() == 1 && counted
            }
            Sources::Table { axes, entries } => {
                if !axes.contains(&axis) || n == 1 {
                    return true;
                }
                let minor = mesh.group_size(axes.iter().copied().skip_while(|own| *own != axis).skip(1));
                let size = entries.len() as u64;
                let next = |rank: u64| Turn::Digit(minor).of(rank, n, size);
                (0u64..).zip(entries).all(|(rank, source)| {
                    let of_next = next(rank).and_then(|next| entries.get(usize::try_from(next).ok()?));
                    let next_of = source.map(|source| next(u64::from(source)));
                    match (of_next, next_of) {
                        (Some(None), None) => true,
                        (Some(Some(found)), Some(Some(wanted))) => u64::from(*found) == wanted,
                        (_, _) => false,
                    }
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::DeviceId;

    fn step(mesh: &Mesh, device: DeviceId, axis: AxisId) -> DeviceId {
        let next = (mesh.coordinate(device, axis) + 1) % mesh.axis(axis).size;
        mesh.with_coordinate(device, axis, next)
    }

    fn random_map(random: &mut fastrand::Rng, mesh: &Mesh) -> CoordMap {
        let mut axes: Vec<AxisId> = mesh.axis_ids().filter(|_| random.bool()).collect();
        random.shuffle(&mut axes);
        if random.u8(0..4) > 0 {
            let factors = [-3, -2, -1, 1, 1, 1, 2, 3, 4, 6, 12];
            let terms = axes.into_iter().map(|axis| (axis, factors[random.usize(0..factors.len())])).collect();
            let modulo = random.bool().then(|| [2, 3, 4, 6, 12, 24][random.usize(0..6)]);
            return CoordMap::Affine { terms, constant: random.i64(-13..13) * i64::from(random.bool()), modulo };
        }
        let size = mesh.group_size(axes.iter().copied());
        let shift = random.u64(0..size);
        let mut entries: Vec<Option<u64>> = (0..size).map(|rank| Some((rank + shift) % size)).collect();
        if random.bool() {
            entries[random.usize(0..usize::try_from(size).unwrap())] = random.bool().then(|| random.u64(0..size));
        }
        CoordMap::Table { axes, entries }
    }

    /// The computed change of a map holds on every device, and maps of methods have one.
    #[test]
    fn turns_hold_on_every_device() {
        let mesh = Mesh::of(&[("X", 3), ("Y", 2), ("Z", 4)]);
        let mut random = fastrand::Rng::with_seed(5);
        let mut turning = 0;
        for _ in 0..20_000 {
            let (map, length) = (random_map(&mut random, &mesh), [2, 3, 4, 6, 8, 12, 24][random.usize(0..7)]);
            let inside = |device| map.at(&mesh, device).filter(|index| *index < length);
            assert!(!map.is_total(&mesh, length) || mesh.devices().all(|device| inside(device).is_some()), "{map:?}");
            for axis in mesh.axis_ids() {
                let Some(turn) = map.turn(&mesh, axis, length) else { continue };
                turning += usize::from(turn != Turn::Fixed);
                for device in mesh.devices() {
                    let turned = inside(device).map(|index| turn.of(index, mesh.size(axis), length));
                    let found = inside(step(&mesh, device, axis));
                    assert_eq!(turned, found.map(Some), "{map:?} below {length}, {turn:?} along {axis:?}");
                }
            }
        }
        assert!(turning > 2000, "{turning} maps turn");
        let [x, y, z] = [0, 1, 2].map(AxisId::new);
        for shift in -5..5 {
            assert_eq!(CoordMap::rotated(z, shift, 4).turn(&mesh, z, 4), Some(Turn::Digit(1)));
        }
        let rank = CoordMap::rank(&mesh, &[x, y, z]);
        let turns = [x, y, z].map(|axis| rank.turn(&mesh, axis, 24));
        assert_eq!(turns, [8, 4, 1].map(|weight| Some(Turn::Digit(weight))));
        assert_eq!(CoordMap::shifted(x, -1).turn(&mesh, x, 3), None);
    }

    /// Sources commute with a step exactly if computed so, except for shifts along split axes.
    #[test]
    fn sources_commute_where_it_is_said() {
        let mesh = Mesh::of(&[("X", 3), ("Y", 2), ("Z", 4)]);
        let mut random = fastrand::Rng::with_seed(6);
        let mut commuting = 0;
        for _ in 0..5000 {
            let mut axes: Vec<AxisId> = mesh.axis_ids().filter(|_| random.bool()).collect();
            random.shuffle(&mut axes);
            let size = u32::try_from(mesh.group_size(axes.iter().copied())).unwrap();
            let sources = match (random.bool(), axes.as_slice()) {
                (true, [axis, ..]) => {
                    Sources::Shift { axes: (*axis).into(), by: random.i64(-4..5), wrap: random.bool() }
                }
                _ => {
                    let shift = random.u32(0..size);
                    let mut entries: Vec<Option<u32>> = (0..size).map(|rank| Some((rank + shift) % size)).collect();
                    if random.u8(0..3) == 0 {
                        random.shuffle(&mut entries);
                    }
                    Sources::Table { axes, entries }
                }
            };
            for axis in mesh.axis_ids() {
                let holds = mesh.devices().all(|device| {
                    let next = sources.of(&mesh, step(&mesh, device, axis));
                    next == sources.of(&mesh, device).map(|source| step(&mesh, source, axis))
                });
                let said = sources.commutes(&mesh, axis);
                assert!(holds || !said, "{sources:?} along {axis:?}");
                let idle = matches!(&sources, Sources::Shift { wrap: false, .. });
                assert!(said || !holds || idle, "{sources:?} along {axis:?}");
                commuting += usize::from(said);
            }
        }
        assert!(commuting > 5000);
    }
}
