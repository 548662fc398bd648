//! What each device holds after each operation of a schedule, as text.
//!
//! An element is written by its coordinates, `A (I=1, J=2)`. A contribution to a sum also has the coordinates that tell it
//! from the others: those of the contracted dims, or of the axes along which the input is open. All contributions together
//! are the element of the sum.

use super::given::Given;
use crate::mesh::{DeviceId, Mesh};
use crate::schedule::OpId;
use crate::sim::proof::{Flaw, Held, holdings};
use itertools::Itertools;
use std::collections::BTreeSet;
use std::ops::Range;

/// Maximum number of devices that are listed.
pub const MOST_DEVICES: usize = 64;
/// Maximum number of contributions of a device that are listed one by one; more are written as ranges.
const MOST_ELEMENTS: u64 = 32;
/// Maximum number of ranges of a device.
const MOST_RANGES: usize = 16;

/// The contents of the results of some operations, in list order, each under its statement.
///
/// - `source`: the text of the schedule.
///
/// # Errors
/// As [`prove`](crate::sim::proof::prove).
pub fn contents(given: &Given, source: &str, values: &[OpId]) -> Result<String, Flaw> {
    let schedule = &given.schedule;
    let devices: Vec<DeviceId> = schedule.mesh.devices().collect();
    let wanted: BTreeSet<OpId> = values.iter().copied().collect();
    let found = holdings(schedule, &wanted, &devices)?;
    let places: Vec<String> = devices.iter().map(|device| place(&schedule.mesh, *device)).collect();
    let width = places.iter().map(String::len).max().unwrap_or_default();
    let value = |id: &OpId| {
        let blocks = found.get(id).map(Vec::as_slice).unwrap_or_default();
        let few = blocks.iter().flatten().all(|held| listed(held).is_some_and(|count| count <= MOST_ELEMENTS));
        let lines = blocks.iter().zip(&places).map(|(held, place)| {
            let text = match held.as_deref() {
                Some([]) => "nothing".to_owned(),
                Some(held) => block(held, few),
                None => "too many ranges".to_owned(),
            };
            format!("  {place:width$}  {text}\n")
        });
        format!("{}\n{}", given.statement(*id, source), lines.collect::<String>())
    };
    Ok(values.iter().map(value).join("\n"))
}

/// Formats the coordinates of a device: `chip 0`, or `X 0, Y 1`.
fn place(mesh: &Mesh, device: DeviceId) -> String {
    mesh.axis_ids().map(|axis| format!("{} {}", mesh.axis(axis).name, mesh.coordinate(device, axis))).join(", ")
}

/// Number of elements of a block, each as often as it has contributions; `None` if it is too large for a number.
fn listed(held: &[Held]) -> Option<u64> {
    let size = |ranges: &[Range<u64>]| {
        ranges.iter().try_fold(1u64, |size, range| size.checked_mul(range.end.saturating_sub(range.start)))
    };
    held.iter().try_fold(0u64, |count, held| {
        let parts = match held.contributions.is_all() {
            true => 1,
            false => held.contributions.boxes().try_fold(0u64, |sum, part| sum.checked_add(size(&part)?))?,
        };
        count.checked_add(size(&held.region)?.checked_mul(parts)?)
    })
}

/// Formats a block: its elements array by array.
///
/// - `few`: whether elements are listed one by one.
fn block(held: &[Held], few: bool) -> String {
    let arrays = held.iter().chunk_by(|held| &held.array);
    let arrays = arrays.into_iter().map(|(array, held)| {
        let held: Vec<&Held> = held.collect();
        let elements = match few {
            true => {
                let all = held.iter().flat_map(|held| elements(held)).sorted();
                let same = all.chunk_by(|(at, _)| at.clone());
                same.into_iter().map(|(_, parts)| parts.map(|(_, text)| text).join(" + ")).collect_vec()
            }
            false => held.iter().flat_map(|held| ranges(held)).collect_vec(),
        };
        match elements.len() {
            count if !few && count > MOST_RANGES => format!("{array}, {count} ranges"),
            _ => format!("{array} {}", elements.join(", ")),
        }
    });
    arrays.collect_vec().join("; ")
}

/// The elements of a box by their indices; contributions to the same element are added.
fn elements(held: &Held) -> Vec<(Vec<u64>, String)> {
    let points = |ranges: Vec<Range<u64>>| match ranges.is_empty() {
        true => vec![Vec::new()],
        false => ranges.into_iter().multi_cartesian_product().collect_vec(),
    };
    let parts: Vec<Vec<u64>> = held.contributions.boxes().flat_map(points).sorted().collect();
    let element = |at: Vec<u64>| {
        let word = |part: &Vec<u64>| {
            let values = part.iter().chain(&at).map(u64::to_string);
            coordinates(held, values)
        };
        let text = if held.contributions.is_all() { word(&Vec::new()) } else { parts.iter().map(word).join(" + ") };
        (at, text)
    };
    points(held.region.clone()).into_iter().map(element).collect()
}

/// The ranges of a box, one for each box of contributions.
fn ranges(held: &Held) -> Vec<String> {
    let range = |range: &Range<u64>| match range.end - range.start {
        1 => range.start.to_string(),
        _ => format!("{}..{}", range.start, range.end),
    };
    let word = |part: Vec<Range<u64>>| coordinates(held, part.iter().chain(&held.region).map(range));
    match held.contributions.is_all() {
        true => vec![word(Vec::new())],
        false => held.contributions.boxes().map(word).collect(),
    }
}

/// Formats `(A=1, B=2)`: the contributions first, then the element.
fn coordinates(held: &Held, values: impl Iterator<Item = String>) -> String {
    let parts = held.contributions.names().iter().map(|name| name.strip_prefix("axis ").unwrap_or(name));
    let names = parts.chain(held.dims.iter().map(String::as_str));
    format!("({})", names.zip(values).map(|(name, value)| format!("{name}={value}")).join(", "))
}
