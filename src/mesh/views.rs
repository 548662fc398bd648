//! Split axes: `axis R = {Q: 4, P: 4}`.
//!
//! The parts replace the axis, major first, so device numbers do not change. The whole axis is wired: neighbours along the
//! minor part are adjacent, neighbours along a more major part are several links apart.

use super::{Axes, Axis, AxisId, AxisSet, Mesh, strides};
use std::fmt;
use std::ops::Range;

/// A machine axis and the positions of its parts in the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// The machine axis.
    whole: Axis,
    /// Positions of its parts, major first.
    parts: Range<usize>,
}

/// An axis split by the compiler, and the positions of its parts in the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    name: String,
    parts: Range<usize>,
}

impl Mesh {
    /// Splits axes into parts of these sizes, major first, named `X1`, `X2`. Also returns the new axes of each axis. An
    /// axis with a single size is not split.
    ///
    /// `None` if [`Mesh::split`] returns `None`.
    pub fn cut(&self, sizes: &[Vec<u32>]) -> Option<(Mesh, Vec<Axes>)> {
        let mut mesh = self.clone();
        let mut parts = vec![Axes::NONE; self.axes.len()];
        for (place, sizes) in sizes.iter().enumerate().rev() {
            if sizes.len() > 1 {
                let name = &self.axes[place].name;
                // A name that is taken gets more of what makes it one's own.
                let known = |name: &str| mesh.axis_named(name).or(self.axis_named(name)).is_some();
                let taken = |mark: &str| (1..=sizes.len()).any(|n| known(&format!("{name}{mark}{n}")));
                let mark = ["", "_", "__", "___"].into_iter().find(|mark| !taken(mark))?;
                let named = (1..).zip(sizes).map(|(n, size)| (format!("{name}{mark}{n}"), *size)).collect::<Vec<_>>();
                mesh = mesh.split(AxisId::new(place), &named)?;
            }
        }
        let mut at = 0;
        for (place, sizes) in sizes.iter().enumerate() {
            let range = at..at + sizes.len();
            at = range.end;
            parts[place] = range.clone().map(AxisId::new).collect();
            if sizes.len() > 1 {
                mesh.cut.push(Cut { name: self.axes[place].name.clone(), parts: range });
            }
        }
        Some((mesh, parts))
    }

    /// The mesh with every part of an axis under its own name, even if all parts occur together.
    pub fn spelled_out(self) -> Mesh {
        Mesh { cut: Vec::new(), ..self }
    }

    /// The axis whose parts these axes begin with, all and in order, and their number.
    pub(super) fn whole_at(&self, axes: &[AxisId]) -> Option<(&str, usize)> {
        let begins = |cut: &&Cut| {
            axes.len() >= cut.parts.len()
                && axes.iter().map(|axis| axis.index()).take(cut.parts.len()).eq(cut.parts.clone())
        };
        self.cut.iter().find(begins).map(|cut| (cut.name.as_str(), cut.parts.len()))
    }

    /// Whether the compiler has split an axis.
    pub fn is_split(&self) -> bool {
        !self.cut.is_empty()
    }

    /// The axes split by the compiler, by name, with their parts, major first.
    pub fn cuts(&self) -> impl Iterator<Item = (&str, Axes)> {
        self.cut.iter().map(|cut| (cut.name.as_str(), cut.parts.clone().map(AxisId::new).collect()))
    }

    /// Splits an axis into one or more parts, major first, each with a name and a size. Parts of parts are parts of the
    /// axis.
    ///
    /// `None` if the sizes do not multiply to the size of the axis, or there are too many axes.
    pub fn split(&self, axis: AxisId, parts: &[(String, u32)]) -> Option<Mesh> {
        let size = parts.iter().try_fold(1u64, |size, (_, part)| size.checked_mul(u64::from(*part)))?;
        if parts.is_empty() || size != self.size(axis) || self.axes.len() + parts.len() - 1 > Mesh::MOST_AXES {
            return None;
        }
        let (mut mesh, place, more) = (self.clone(), axis.index(), parts.len() - 1);
        let part = |(name, size): &(String, u32)| Axis { name: name.clone(), size: *size, wiring: None, over: None };
        let whole = mesh.axes.splice(place..=place, parts.iter().map(part)).next()?;
        mesh.strides = strides(&mesh.axes);
        let inside = mesh.views.iter().any(|view| view.parts.contains(&place));
        for view in &mut mesh.views {
            view.parts.start += if view.parts.start > place { more } else { 0 };
            view.parts.end += if view.parts.end > place { more } else { 0 };
        }
        if !inside {
            mesh.views.push(View { whole, parts: place..place + parts.len() });
            mesh.views.sort_by_key(|view| view.parts.start);
        }
        Some(mesh)
    }

    /// The mesh in which these adjacent axes, in order, are the parts of a machine axis.
    ///
    /// `None` if they are not adjacent, are parts already, or their sizes do not multiply to the size of the axis.
    pub fn joined(&self, parts: &[AxisId], whole: Axis) -> Option<Mesh> {
        let start = parts.first()?.index();
        let range = start..start + parts.len();
        let neighbours = parts.iter().map(|axis| axis.index()).eq(range.clone());
        let known = range.clone().all(|place| place < self.axes.len() && self.view(place).is_none());
        let fits = neighbours && known && self.group_size(parts.iter().copied()) == u64::from(whole.size);
        let mut mesh = self.clone();
        mesh.views.push(View { whole, parts: range });
        mesh.views.sort_by_key(|view| view.parts.start);
        fits.then_some(mesh)
    }

    /// The split machine axes and their parts, major first.
    pub fn views(&self) -> impl Iterator<Item = (&Axis, Axes)> {
        self.views.iter().map(|view| (&view.whole, view.parts.clone().map(AxisId::new).collect()))
    }

    /// The mesh of the machine: no axis is split, and devices have the same numbers.
    pub fn machine(&self) -> Mesh {
        let mut axes = Vec::new();
        for (place, axis) in self.axes.iter().enumerate() {
            match self.view(place) {
                None => axes.push(axis.clone()),
                Some(view) if view.parts.start == place => axes.push(view.whole.clone()),
                Some(_) => {}
            }
        }
        Mesh::on(axes)
    }

    /// The axis of the [machine](Mesh::machine) that contains an axis.
    pub fn physical(&self, axis: AxisId) -> AxisId {
        let before = self.views.iter().map(|view| {
            let earlier = (axis.index() + 1).clamp(view.parts.start + 1, view.parts.end) - view.parts.start;
            earlier - 1
        });
        let hidden: usize = before.sum();
        AxisId::new(axis.index() - hidden)
    }

    /// The axes of the same machine axis, including this one, major first.
    pub fn siblings(&self, axis: AxisId) -> Axes {
        let parts = self.view(axis.index()).map_or(axis.index()..axis.index() + 1, |view| view.parts.clone());
        parts.map(AxisId::new).collect()
    }

    /// The axes of the same machine axis, for each axis.
    pub fn with_siblings(&self, axes: AxisSet) -> AxisSet {
        axes.iter().fold(axes, |all, axis| all.union(self.siblings(axis).set()))
    }

    /// Number of machine links between neighbours on an axis: the product of its more minor parts.
    pub fn links_apart(&self, axis: AxisId) -> u32 {
        let minor = self.siblings(axis).iter().filter(|other| *other > axis);
        minor.map(|other| self.axis(other).size).product()
    }

    /// Splits a list of axes wherever it does not continue with the next minor part of the same machine axis.
    ///
    /// The devices along one of these runs form one ring or line, with [`Mesh::links_apart`] of its last axis.
    pub fn runs(&self, axes: Axes) -> Vec<Axes> {
        let mut runs: Vec<Axes> = Vec::new();
        for axis in axes.iter() {
            let goes_on = |last: AxisId| {
                last < axis && self.physical(last) == self.physical(axis) && {
                    (last.index() + 1..axis.index()).all(|between| self.axes[between].size == 1)
                }
            };
            match runs.last_mut().filter(|run| run.last().is_some_and(goes_on)) {
                Some(run) => *run = run.with(axis),
                None => runs.push(Axes::one(axis)),
            }
        }
        runs
    }

    /// The submesh of these axes; all parts of a split axis are kept. Also returns the axes in the order of their new ids.
    pub fn only(&self, axes: AxisSet) -> (Mesh, Vec<AxisId>) {
        let kept: Vec<AxisId> = self.with_siblings(axes).iter().collect();
        let place = |old: usize| kept.iter().position(|axis| axis.index() == old);
        let view = |view: &View| {
            let start = place(view.parts.start)?;
            Some(View { whole: view.whole.clone(), parts: start..start + view.parts.len() })
        };
        let views = self.views.iter().filter_map(view).collect();
        let axes = kept.iter().map(|axis| self.axis(*axis).clone()).collect();
        (Mesh { views, ..Mesh::on(axes) }, kept)
    }

    fn view(&self, place: usize) -> Option<&View> {
        self.views.iter().find(|view| view.parts.contains(&place))
    }
}

impl fmt::Display for Mesh {
    /// Formats `{X: 4, Y: 2 ring}` or `{R: 16 ring = {Q: 4, P: 4}}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = |f: &mut fmt::Formatter<'_>, places: Range<usize>| {
            places.clone().try_for_each(|place| {
                let comma = if place > places.start { ", " } else { "" };
                write!(f, "{comma}{}", self.axes[place])
            })
        };
        f.write_str("{")?;
        for (place, axis) in self.axes.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            match self.view(place) {
                None => write!(f, "{comma}{axis}")?,
                Some(view) if view.parts.start == place => {
                    write!(f, "{comma}{} = {{", view.whole)?;
                    parts(f, view.parts.clone())?;
                    f.write_str("}")?;
                }
                Some(_) => {}
            }
        }
        f.write_str("}")
    }
}

impl fmt::Display for Axis {
    /// Formats `Y: 2 ring`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.size)?;
        self.wiring.iter().try_for_each(|wiring| write!(f, " {wiring}"))?;
        self.over.iter().try_for_each(|network| write!(f, " over {network}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::DeviceId;

    fn named(parts: &[(&str, u32)]) -> Vec<(String, u32)> {
        parts.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect()
    }

    fn split(mesh: &Mesh, axis: &str, parts: &[(&str, u32)]) -> Option<Mesh> {
        mesh.split(mesh.axis_named(axis)?, &named(parts))
    }

    /// Replica groups along an axis.
    fn groups(mesh: &Mesh, axis: &str) -> Vec<Vec<u32>> {
        let axis = mesh.axis_named(axis).unwrap();
        let leaders = mesh.devices().filter(|device| mesh.coordinate(*device, axis) == 0);
        let member = |device, rank| mesh.with_coordinate(device, axis, rank).0;
        leaders.map(|device| (0..mesh.axis(axis).size).map(|rank| member(device, rank)).collect()).collect()
    }

    /// G33: of 16 replicas in groups of 4, the orthogonal ones are {0,4,8,12}.. and the consecutive ones {0..3}...
    /// In general, with m = N/k: orthogonal {g, g+m, .., g+(k-1)m}, consecutive {gk, .., gk+k-1}.
    #[test]
    fn g33_orthogonal_and_consecutive_groups() {
        for n in 1..=24u32 {
            for k in (1..=n).filter(|k| n.is_multiple_of(*k)) {
                let m = n / k;
                let ring = Mesh::of(&[("R", n)]);
                let orthogonal = split(&ring, "R", &[("Q", k), ("P", m)]).unwrap();
                let expected: Vec<Vec<u32>> = (0..m).map(|g| (0..k).map(|i| g + i * m).collect()).collect();
                assert_eq!(groups(&orthogonal, "Q"), expected);
                let consecutive = split(&ring, "R", &[("Q", m), ("P", k)]).unwrap();
                let expected: Vec<Vec<u32>> = (0..m).map(|g| (g * k..(g + 1) * k).collect()).collect();
                assert_eq!(groups(&consecutive, "P"), expected);
            }
        }
        let sixteen = split(&Mesh::of(&[("R", 16)]), "R", &[("Q", 4), ("P", 4)]).unwrap();
        assert_eq!(groups(&sixteen, "Q")[..2], [[0, 4, 8, 12], [1, 5, 9, 13]]);
        assert_eq!(groups(&sixteen, "P")[..2], [[0, 1, 2, 3], [4, 5, 6, 7]]);
    }

    #[test]
    fn parts_stand_where_the_axis_stood() {
        let mesh = Mesh::of(&[("X", 2), ("R", 12), ("Y", 3)]);
        let once = split(&mesh, "R", &[("Q", 2), ("P", 6)]).unwrap();
        let twice = split(&once, "P", &[("S", 3), ("T", 2)]).unwrap();
        let both = split(&twice, "Y", &[("V", 3), ("W", 1)]).unwrap();
        assert_eq!(both.to_string(), "{X: 2, R: 12 = {Q: 2, S: 3, T: 2}, Y: 3 = {V: 3, W: 1}}");
        assert_eq!(both.machine(), mesh);
        let ids: Vec<AxisId> = both.axis_ids().collect();
        let physical = |mesh: &Mesh| mesh.axis_ids().map(|axis| mesh.physical(axis).index()).collect::<Vec<_>>();
        assert_eq!((physical(&mesh), physical(&both)), (vec![0, 1, 2], vec![0, 1, 1, 1, 2, 2]));
        assert_eq!(ids.iter().map(|axis| both.links_apart(*axis)).collect::<Vec<_>>(), [1, 6, 2, 1, 1, 1]);
        let names = |axes: &[Axes]| axes.iter().map(|axes| axes.names(&both)).collect::<Vec<_>>();
        let list = |names: &str| names.chars().filter_map(|c| both.axis_named(&c.to_string())).collect::<Axes>();
        assert_eq!(names(&both.runs(list("QSTX"))), ["QST", "X"]);
        assert_eq!(names(&both.runs(list("SQTVW"))), ["S", "Q", "T", "VW"]);
        let (part, kept) = both.only(AxisSet::one(ids[2]));
        assert_eq!((part.to_string().as_str(), kept.len()), ("{R: 12 = {Q: 2, S: 3, T: 2}}", 3));
    }

    /// Devices keep their numbers, and the coordinate on the machine is the rank along the parts.
    #[test]
    fn the_devices_keep_their_numbers() {
        let mesh = split(&Mesh::of(&[("X", 2), ("R", 6)]), "R", &[("Q", 3), ("P", 2)]).unwrap();
        let machine = mesh.machine();
        for device in (0..12).map(DeviceId) {
            for axis in mesh.axis_ids() {
                let rank = mesh.rank(device, mesh.siblings(axis).iter());
                assert_eq!(rank, u64::from(machine.coordinate(device, mesh.physical(axis))));
            }
        }
    }

    #[test]
    fn all_parts_of_a_cut_axis_go_by_its_name() {
        let mesh = Mesh::of(&[("X", 4), ("Y", 2), ("X1", 6)]);
        let (cut, parts) = mesh.cut(&[vec![2, 2], vec![2], vec![3, 2]]).unwrap();
        assert_eq!(cut.machine(), mesh);
        assert_eq!(cut.to_string(), "{X: 4 = {X_1: 2, X_2: 2}, Y: 2, X1: 6 = {X11: 3, X12: 2}}");
        let names = |axes: &[usize]| axes.iter().map(|axis| AxisId::new(*axis)).collect::<Axes>().names(&cut);
        assert_eq!(names(&[0, 1, 2]), "XY");
        assert_eq!(names(&[1, 0]), "{X_2,X_1}");
        assert_eq!(names(&[2, 3, 4]), "{Y,X1}");
        assert_eq!(names(&[0]), "X_1");
        assert_eq!(parts[2].names(&cut), "X1");
        assert_eq!(mesh.cut(&[vec![3, 2], vec![2], vec![6]]), None);
    }

    #[test]
    fn sizes_that_do_not_multiply_to_the_axis() {
        let mesh = Mesh::of(&[("R", 12)]);
        assert_eq!(split(&mesh, "R", &[("Q", 2), ("P", 5)]), None);
        assert_eq!(split(&mesh, "R", &[]), None);
        assert_eq!(split(&mesh, "R", &[("Q", u32::MAX), ("P", u32::MAX)]), None);
    }
}
