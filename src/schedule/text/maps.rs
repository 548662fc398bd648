//! Parsing of maps: vectors and formulas.
//!
//! A short vector that is the rank plus a constant, on a ring or a line, is parsed as a shift, since formulas are printed as
//! vectors on small groups.

use super::error::TextError;
use super::grammar::Rule;
use super::names::axis_of;
use super::{Part, Read, Reader};
use crate::mesh::{Axes, AxisId};
use crate::schedule::display::MOST_ENTRIES;
use crate::schedule::{CoordMap, Cut, Region, Route, Sources};

/// A vector whose entries are the rank plus a constant.
#[derive(Clone, Copy)]
struct Shift {
    by: i64,
    wrap: bool,
}

/// The shift with these entries; with `below`, results at or above the number of ranks mean none.
fn shift_of(entries: &[Option<u64>], below: bool) -> Option<Shift> {
    let n = i64::try_from(entries.len()).ok()?;
    let at = |rank: usize| i64::try_from(rank).ok();
    let first = entries.iter().position(Option::is_some)?;
    let by = i64::try_from(entries[first]?).ok()?.checked_sub(at(first)?)?;
    let [wrapped, straight] = [true, false].map(|wrap| {
        let fits = |(rank, entry): (usize, &Option<u64>)| {
            let sum = at(rank)?.checked_add(by)?;
            let sum = if wrap { sum.rem_euclid(n) } else { sum };
            let wanted = u64::try_from(sum).ok().filter(|_| !below || sum < n);
            (wanted == *entry).then_some(())
        };
        entries.iter().enumerate().all(|rank| fits(rank).is_some())
    });
    (straight || wrapped).then_some(Shift { by, wrap: !straight })
}

impl<'a> Reader<'a> {
    pub(super) fn region(&self, part: &Part<'a>) -> Read<Region> {
        part.all(Rule::cut).map(|cut| self.cut(&cut)).collect()
    }

    fn cut(&self, part: &Part<'a>) -> Read<Cut> {
        match part.inner().next() {
            Some(range) if range.rule() == Rule::range => match range.extents()?.as_slice() {
                [start, end] => Ok(Cut::Range { start: *start, end: *end }),
                _ => Ok(Cut::Whole),
            },
            Some(map) if map.rule() == Rule::coordinate_map => self.map(&map).map(Cut::At),
            _ => Ok(Cut::Whole),
        }
    }

    /// Parses `(3,0,1,2) over X`, `(x+1) mod 16`, `4x+y`, `-`.
    pub(super) fn map(&self, part: &Part<'a>) -> Read<CoordMap> {
        let Some(map) = part.inner().next() else { return Ok(absent()) };
        match map.rule() {
            Rule::vector => {
                let axes = match part.find(Rule::over_axes).and_then(|over| over.find(Rule::axes)) {
                    Some(axes) => self.axes(&axes)?,
                    // The one axis goes without saying.
                    None => self.mesh().axis_ids().collect(),
                };
                let entries = entries(&map)?;
                let short = entries.len() <= MOST_ENTRIES && self.is_group(&axes, entries.len());
                Ok(match shift_of(&entries, false).filter(|_| short) {
                    Some(Shift { by, wrap }) => CoordMap::along(self.mesh(), axes.into_iter().collect(), by, wrap),
                    None => CoordMap::Table { axes, entries },
                })
            }
            Rule::none => Ok(absent()),
            _ => self.formula(&map),
        }
    }

    /// Whether the axes are distinct and their group has this size.
    fn is_group(&self, axes: &[AxisId], size: usize) -> bool {
        let set: Axes = axes.iter().copied().collect();
        set.set().len() == axes.len() && set.group_size(self.mesh()) == size as u64
    }

    /// Parses `(x+1) mod 16` or `4x+y`.
    fn formula(&self, part: &Part<'a>) -> Read<CoordMap> {
        let (sum, modulo) = match part.rule() {
            Rule::modular => (part.find(Rule::sum), part.find(Rule::number)),
            _ => (Some(part.clone()), None),
        };
        let (mut terms, mut constant, mut minus) = (Vec::new(), 0i64, false);
        for piece in sum.iter().flat_map(|sum| sum.inner()) {
            let mut term = piece.clone();
            match piece.rule() {
                Rule::sign => {
                    minus = piece.text() == "-";
                    continue;
                }
                Rule::first => {
                    minus = piece.find(Rule::sign).is_some_and(|sign| sign.text() == "-");
                    term = piece.find(Rule::term).unwrap_or(piece);
                }
                _ => {}
            }
            let number: Option<i64> = term.find(Rule::number).map(|number| number.number()).transpose()?;
            let signed = |number: i64| if minus { -number } else { number };
            match term.find(Rule::axis_name) {
                Some(name) => {
                    let axis =
                        name.known("a coordinate, such as `x` along axis X", axis_of(self.mesh(), name.text()))?;
                    terms.push((axis, signed(number.unwrap_or(1))));
                }
                None => {
                    let sum = constant.checked_add(signed(number.unwrap_or_default()));
                    constant = sum.ok_or_else(|| TextError::number(term.text(), term.span()))?;
                }
            }
        }
        Ok(CoordMap::Affine { terms, constant, modulo: modulo.map(|number| number.number()).transpose()? })
    }

    /// Parses the sources and the route of a shuffle.
    pub(super) fn shuffle(&self, part: &Part<'a>) -> Read<(Sources, Route)> {
        let route = match part.find(Rule::hops) {
            Some(hops) => Route::Hops(hops.number()?),
            None => Route::Shortest,
        };
        let list = part.find(Rule::axes).map(|axes| self.axes(&axes)).transpose()?.unwrap_or_default();
        let axes: Axes = list.iter().copied().collect();
        let Some(from) = part.inner().next() else {
            return Ok((Sources::Table { axes: list, entries: Vec::new() }, route));
        };
        if from.rule() != Rule::vector {
            let map = self.formula(&from)?;
            return match &map {
                CoordMap::Affine { constant, modulo, .. }
                    if map == CoordMap::along(self.mesh(), axes, *constant, modulo.is_some()) =>
                {
                    Ok((Sources::Shift { axes, by: *constant, wrap: modulo.is_some() }, route))
                }
                CoordMap::Affine { .. } | CoordMap::Table { .. } => Err(TextError::Formula { at: from.span().into() }),
            };
        }
        let entries = entries(&from)?;
        // Hops lead along a run, and a table has none.
        let run = self.mesh().runs(axes).len() == 1 && entries.len() <= MOST_ENTRIES;
        let may_be = (run || route != Route::Shortest) && self.is_group(&list, entries.len());
        let shift = shift_of(&entries, true).filter(|_| may_be);
        if let Some(Shift { by, wrap }) = shift {
            return Ok((Sources::Shift { axes, by, wrap }, route));
        }
        let narrow = |entry: Option<u64>| {
            let narrow = entry.map(u32::try_from).transpose();
            narrow.map_err(|_| TextError::number(from.text(), from.span()))
        };
        let entries = entries.into_iter().map(narrow).collect::<Read<_>>()?;
        Ok((Sources::Table { axes: list, entries }, route))
    }
}

/// A map without indices.
fn absent() -> CoordMap {
    CoordMap::Table { axes: Vec::new(), entries: vec![None] }
}

/// Parses `(3,0,-,2)`.
fn entries(part: &Part<'_>) -> Read<Vec<Option<u64>>> {
    let entry = |entry: Part<'_>| if entry.text() == "-" { Ok(None) } else { entry.number().map(Some) };
    part.all(Rule::entry).map(entry).collect()
}
