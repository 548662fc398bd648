//! Reading the collectives of a module that XLA has partitioned: the text that `jit(f).lower(..).compile().as_text()`
//! prints.
//!
//! Source of the format: the textual form of HLO (`xla/hlo/parser`). One line is one instruction; called computations stand
//! before those that call them.

use super::{AuditError, Kind, Move, Place};
use crate::span::Span;
use std::collections::{BTreeMap, HashMap};

/// Most devices of a module.
const MOST_DEVICES: u64 = 1 << 16;
/// Most collectives of a module.
const MOST_MOVES: usize = 1 << 16;

/// A partitioned module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Number of devices.
    pub devices: u64,
    /// The collectives, in the order of the text.
    pub moves: Vec<Move>,
}

/// A computation: its collectives, and the computations that it calls.
#[derive(Default)]
struct Computation<'a> {
    moves: Vec<Move>,
    /// The called computations and the number of times.
    calls: Vec<(&'a str, u64)>,
}

/// Reads the text of a module.
///
/// # Errors
/// If it is not a partitioned module, or a collective cannot be read.
pub fn read(text: &str) -> Result<Module, AuditError> {
    let head = text.lines().next().unwrap_or_default();
    if !head.trim_start().starts_with("HloModule") {
        return Err(AuditError::NoModule { at: Span::new(0, head.len()) });
    }
    let count = |name: &str| attribute(head, name).and_then(|count| count.parse::<u64>().ok()).unwrap_or(1);
    let devices = count("num_partitions").saturating_mul(count("replica_count"));
    if devices > MOST_DEVICES {
        return Err(AuditError::Unreadable {
            why: format!("it has {devices} devices, more than {MOST_DEVICES}"),
            at: Span::new(0, head.len()),
        });
    }
    let places = Places::of(text);
    let mut computations: Vec<(&str, Computation<'_>)> = Vec::new();
    let (mut entry, mut is_open, mut found, mut end) = (None, false, 0, 0);
    for line in text.split_inclusive('\n') {
        let start = end;
        end += line.len();
        let line = line.trim_end();
        if !line.starts_with([' ', '\t', '}']) && line.ends_with('{') && line.contains(['%', '(']) {
            let is_entry = line.starts_with("ENTRY");
            let name = line.trim_start_matches("ENTRY").trim_start().trim_start_matches('%');
            let name = name.split([' ', '(']).next().unwrap_or_default();
            entry = if is_entry { Some(name) } else { entry };
            computations.push((name, Computation::default()));
            is_open = true;
        } else if line.starts_with('}') {
            is_open = false;
        } else if is_open && let Some((_, computation)) = computations.last_mut() {
            let unreadable = |why| AuditError::Unreadable { why, at: Span::new(start, start + line.len()) };
            if let Some(instruction) = Instruction::of(line) {
                let moved = instruction.moved(devices, &places).map_err(unreadable)?;
                found += usize::from(moved.is_some());
                if found > MOST_MOVES {
                    return Err(unreadable(format!("it has more than {MOST_MOVES} collectives")));
                }
                computation.moves.extend(moved);
                instruction.calls(&mut computation.calls);
            }
        }
    }
    let entry = entry.ok_or(AuditError::NoModule { at: Span::new(0, head.len()) })?;
    Ok(Module { devices, moves: counted(computations, entry) })
}

/// The collectives with the number of times that they are done. Callers come after what they call.
fn counted(computations: Vec<(&str, Computation<'_>)>, entry: &str) -> Vec<Move> {
    let mut times: HashMap<&str, u64> = HashMap::from([(entry, 1)]);
    let mut moves = Vec::new();
    for (name, computation) in computations.into_iter().rev() {
        let own = times.get(name).copied().unwrap_or_default();
        for (called, often) in computation.calls {
            let sum = times.entry(called).or_default();
            *sum = sum.saturating_add(own.saturating_mul(often));
        }
        let own_moves = computation.moves.into_iter().rev();
        moves.extend(own_moves.filter(|_| own > 0).map(|one| Move { times: one.times.saturating_mul(own), ..one }));
    }
    moves.reverse();
    moves
}

/// An instruction: `%name = TYPE opcode(operands), attributes`.
struct Instruction<'a> {
    kind: &'a str,
    opcode: &'a str,
    /// Operands and attributes.
    rest: &'a str,
}

impl<'a> Instruction<'a> {
    fn of(line: &'a str) -> Option<Instruction<'a>> {
        let (_, right) = line.split_once(" = ")?;
        let end = if right.starts_with('(') { closing(right)? + 1 } else { right.find(' ')? };
        let (kind, right) = (right.get(..end)?, right.get(end..)?.trim_start());
        let (opcode, rest) = right.split_once('(')?;
        Some(Instruction { kind, opcode, rest })
    }

    /// The collective, if it is one. The second half of an asynchronous one is not counted again.
    fn moved(&self, devices: u64, places: &Places<'_>) -> Result<Option<Move>, String> {
        let opcode = self.opcode.trim_end_matches("-start");
        let Some(kind) = Kind::of(opcode) else { return Ok(None) };
        let mut arrays = arrays(self.kind);
        // The start of an AllGather or a permute returns its operands, too; some versions add scratch.
        let returns_operands = matches!(kind, Kind::AllGather | Kind::Permute) && opcode != self.opcode;
        if returns_operands {
            arrays.retain(|(dtype, _)| *dtype != "u32");
            arrays.drain(..arrays.len() / 2);
        }
        let bits: Vec<u64> = arrays.iter().map(|(dtype, _)| bits_of(dtype)).collect();
        let width = bits.iter().copied().max().unwrap_or(0).div_ceil(8).max(1);
        let bytes = arrays.iter().zip(&bits).map(|((_, elements), bits)| elements.saturating_mul(*bits).div_ceil(8));
        let bytes = bytes.fold(0u64, u64::saturating_add);
        let groups = match kind {
            Kind::Permute => pairs(self.attribute("source_target_pairs").ok_or("it has no pairs")?)?,
            _ => match self.rest.split_once("replica_groups=mesh[") {
                Some((_, mesh)) => groups_of_mesh(mesh, devices)?,
                None => groups(self.attribute("replica_groups").unwrap_or("{}"), devices)?,
            },
        };
        let is_known = |device: &u64| *device < devices;
        if !groups.iter().flatten().all(is_known) {
            return Err(format!("it names a device beyond the {devices} of the module"));
        }
        Ok(Some(Move { kind, bytes, width, groups, times: 1, place: places.place(self.rest) }))
    }

    /// The computations that it calls and the number of times. All branches of a conditional count.
    fn calls(&self, calls: &mut Vec<(&'a str, u64)>) {
        let names: &[&str] = match self.opcode {
            "while" => &["body"],
            "call" => &["to_apply", "calls"],
            "conditional" => &["true_computation", "false_computation", "branch_computations"],
            "fusion" | "async-start" => &["calls"],
            _ => return,
        };
        let trips = self.rest.split_once("\"known_trip_count\":{\"n\":\"").and_then(|(_, rest)| rest.split('"').next());
        let times = trips.and_then(|trips| trips.parse().ok()).unwrap_or(1);
        for value in names.iter().filter_map(|name| self.attribute(name)) {
            let called = value.trim_matches(['{', '}']).split(',');
            calls.extend(called.map(|name| (name.trim().trim_start_matches('%'), times)));
        }
    }

    fn attribute(&self, name: &str) -> Option<&'a str> {
        attribute(self.rest, name)
    }
}

/// The value of `name=value` in a list of attributes: up to a comma outside of brackets.
fn attribute<'a>(list: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = list;
    loop {
        let at = rest.find(name)?;
        let (before, value) = (rest.get(..at)?, rest.get(at + name.len()..)?);
        if let Some(value) = value.strip_prefix('=').filter(|_| before.ends_with([' ', ','])) {
            let mut depth = 0usize;
            let end = value.find(|letter| match letter {
                '{' | '[' | '(' => {
                    depth += 1;
                    false
                }
                '}' | ']' | ')' if depth > 0 => {
                    depth -= 1;
                    false
                }
                ',' | ' ' | '}' | ')' => depth == 0,
                _ => false,
            });
            return value.get(..end.unwrap_or(value.len()));
        }
        rest = value;
    }
}

/// The place of the parenthesis that closes the first one.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (place, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(place);
                }
            }
            _ => {}
        }
    }
    None
}

/// The arrays of a type, `f32[128,1024]{1,0}` or a tuple: dtypes and numbers of elements.
fn arrays(kind: &str) -> Vec<(&str, u64)> {
    let mut found = Vec::new();
    let mut rest = kind;
    while let Some(open) = rest.find('[') {
        let (before, behind) = rest.split_at(open);
        let start = before.rfind(|letter: char| !letter.is_ascii_alphanumeric()).map_or(0, |place| place + 1);
        let Some(end) = behind.find(']') else { break };
        let dims = behind[1..end].split(',').filter(|dim| !dim.is_empty());
        let size = |dim: &str| dim.trim_start_matches("<=").parse::<u64>().unwrap_or(1);
        found.push((&before[start..], dims.map(size).fold(1u64, u64::saturating_mul)));
        rest = &behind[end..];
    }
    found
}

/// Bits of an element of an HLO type, which are packed; 0 for tokens.
fn bits_of(dtype: &str) -> u64 {
    match dtype {
        "token" | "opaque" => 0,
        "pred" => 8,
        "bf16" => 16,
        "c64" => 64,
        "c128" => 128,
        _ => {
            let digits = dtype.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
            let digits = digits.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
            digits.parse().unwrap_or(32)
        }
    }
}

/// Replica groups: `{{0,1},{2,3}}`, `[2,4]<=[8]`, `[2,4]<=[4,2]T(1,0)`; `{}` is one group of all devices.
fn groups(text: &str, devices: u64) -> Result<Vec<Vec<u64>>, String> {
    let text = text.trim();
    if text == "{}" {
        return Ok(vec![(0..devices).collect()]);
    }
    if text.starts_with('{') {
        return lists(text);
    }
    let unknown = || format!("its groups `{text}` have an unknown form");
    let (shape, order) = text.split_once("<=").ok_or_else(unknown)?;
    let shape = numbers(shape.trim().trim_matches(['[', ']'])).ok_or_else(unknown)?;
    let (dims, transposed) = order.split_once('T').unwrap_or((order, ""));
    let dims = numbers(dims.trim().trim_matches(['[', ']'])).ok_or_else(unknown)?;
    let turns: Vec<u64> = match transposed {
        "" => (0..dims.len() as u64).collect(),
        _ => numbers(transposed.trim().trim_matches(['(', ')'])).ok_or_else(unknown)?,
    };
    let &[count, size] = shape.as_slice() else { return Err(unknown()) };
    let ids = transposed_ids(&dims, &turns, devices).filter(|_| count.checked_mul(size) == Some(devices));
    let size = usize::try_from(size).map_err(|_| unknown())?.max(1);
    Ok(ids.ok_or_else(unknown)?.chunks(size).map(<[u64]>::to_vec).collect())
}

/// The numbers of all devices in the shape `dims`, read with its dims in another order.
fn transposed_ids(dims: &[u64], turns: &[u64], devices: u64) -> Option<Vec<u64>> {
    let total = dims.iter().copied().fold(1u64, u64::saturating_mul);
    let mut sorted = turns.to_vec();
    sorted.sort_unstable();
    if total != devices || !sorted.into_iter().eq(0..dims.len() as u64) {
        return None;
    }
    let strides: Vec<u64> = (0..dims.len()).map(|dim| dims[dim + 1..].iter().product()).collect();
    let mut ids = vec![0u64];
    for turn in turns {
        let turn = usize::try_from(*turn).ok()?;
        let (extent, stride) = (*dims.get(turn)?, *strides.get(turn)?);
        ids = ids.iter().flat_map(|id| (0..extent).map(move |place| id + place * stride)).collect();
    }
    Some(ids)
}

/// Groups along axes of a mesh: `mesh['a'=4,'b'=2] {'b'}`, `mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'a':(2)2}`. The text
/// begins behind `mesh[`.
fn groups_of_mesh(text: &str, devices: u64) -> Result<Vec<Vec<u64>>, String> {
    let end = text.find('}').map_or(text.len(), |end| end + 1);
    let unknown = || format!("its groups `mesh[{}` have an unknown form", &text[..end]);
    let (axes, rest) = text[..end].split_once(']').ok_or_else(unknown)?;
    let (order, named) = rest.rsplit_once('{').ok_or_else(unknown)?;
    let named = named.trim_end_matches('}').split(',').map(str::trim).filter(|name| !name.is_empty());
    let named: Vec<&str> = named.collect();
    // Each axis in its parts: extent, and whether the groups are along it.
    let mut parts: Vec<(u64, bool)> = Vec::new();
    let mut known = 0;
    for axis in axes.split(',') {
        let (name, size) = axis.rsplit_once('=').ok_or_else(unknown)?;
        let size: u64 = size.parse().ok().filter(|size| *size > 0).ok_or_else(unknown)?;
        let own = named.iter().filter_map(|other| other.strip_prefix(name.trim())).collect::<Vec<_>>();
        known += own.len();
        match own.as_slice() {
            [] => parts.push((size, false)),
            [""] => parts.push((size, true)),
            [part] => {
                let (before, extent) =
                    part.strip_prefix(":(").and_then(|part| part.split_once(')')).ok_or_else(unknown)?;
                let numbers = before.parse::<u64>().ok().zip(extent.parse::<u64>().ok());
                let (before, extent) = numbers.filter(|(a, b)| *a > 0 && *b > 0).ok_or_else(unknown)?;
                let behind = size / before.saturating_mul(extent).max(1);
                if before.saturating_mul(extent).saturating_mul(behind) != size {
                    return Err(unknown());
                }
                parts.extend([(before, false), (extent, true), (behind, false)]);
            }
            _ => return Err(unknown()),
        }
    }
    if known != named.len() {
        return Err(unknown());
    }
    let order = order.trim_matches([',', ' ']);
    let ids: Vec<u64> = match order.strip_prefix("device_ids=(").and_then(|order| order.strip_suffix(')')) {
        None if order.is_empty() => (0..devices).collect(),
        None => return Err(unknown()),
        Some(order) => match order.strip_prefix('[') {
            None => numbers(order).ok_or_else(unknown)?,
            Some(order) => {
                let (dims, turns) = order.split_once(']').ok_or_else(unknown)?;
                let dims = numbers(dims).ok_or_else(unknown)?;
                let turns = match turns.strip_prefix("T(").and_then(|turns| turns.strip_suffix(')')) {
                    Some(turns) => numbers(turns).ok_or_else(unknown)?,
                    None => (0..dims.len() as u64).collect(),
                };
                transposed_ids(&dims, &turns, devices).ok_or_else(unknown)?
            }
        },
    };
    let total = parts.iter().map(|(extent, _)| *extent).fold(1u64, u64::saturating_mul);
    if total != devices || ids.len() as u64 != devices {
        return Err(unknown());
    }
    // Devices that agree in all other coordinates are a group.
    let mut groups: BTreeMap<Vec<u64>, Vec<u64>> = BTreeMap::new();
    for (place, id) in (0u64..).zip(ids) {
        let mut rest = place;
        let mut others = Vec::new();
        for (extent, is_along) in parts.iter().rev() {
            others.extend((!is_along).then_some(rest % extent));
            rest /= extent;
        }
        groups.entry(others).or_default().push(id);
    }
    Ok(groups.into_values().collect())
}

/// Pairs of source and target: `{{0,1},{1,2}}`.
fn pairs(text: &str) -> Result<Vec<Vec<u64>>, String> {
    let pairs = lists(text)?;
    match pairs.iter().all(|pair| pair.len() == 2) {
        true => Ok(pairs),
        false => Err(format!("its pairs `{text}` have an unknown form")),
    }
}

/// `{{0,1},{2,3}}`
fn lists(text: &str) -> Result<Vec<Vec<u64>>, String> {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let lists = inner.unwrap_or_default().split('}').map(|list| list.trim_matches([',', ' ', '{']));
    let lists: Option<Vec<Vec<u64>>> = lists.filter(|list| !list.is_empty()).map(numbers).collect();
    lists.filter(|lists| !lists.is_empty()).ok_or_else(|| format!("its groups `{text}` have an unknown form"))
}

fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split(',').map(|number| number.trim().parse().ok()).collect()
}

/// The tables of source places at the head of a module.
struct Places<'a> {
    /// Files by number, in quotes.
    files: HashMap<u64, &'a str>,
    /// File and line by number.
    locations: HashMap<u64, (u64, u64)>,
    /// The location of each stack frame.
    frames: HashMap<u64, u64>,
}

impl<'a> Places<'a> {
    fn of(text: &'a str) -> Places<'a> {
        let mut tables: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
        let mut table = None;
        // The tables end where the first computation begins.
        for line in text.lines().skip(1).take_while(|line| !line.trim_end().ends_with('{')) {
            match line.trim() {
                "" => table = None,
                name @ ("FileNames" | "FunctionNames" | "FileLocations" | "StackFrames") => table = Some(name),
                row => {
                    let entry = row.split_once(' ').and_then(|(id, entry)| Some((id.parse().ok()?, entry)));
                    if let (Some(name), Some(entry)) = (table, entry) {
                        tables.entry(name).or_default().push(entry);
                    }
                }
            }
        }
        let mut take = |name| tables.remove(name).unwrap_or_default().into_iter();
        let number = |entry: &str, name: &str| {
            let (_, value) = entry.split_once(name)?;
            value.split([' ', '}']).next()?.parse::<u64>().ok()
        };
        let files = take("FileNames").collect();
        let locations = take("FileLocations")
            .filter_map(|(id, entry)| Some((id, (number(entry, "file_name_id=")?, number(entry, " line=")?))));
        let locations = locations.collect();
        let frames = take("StackFrames").filter_map(|(id, entry)| Some((id, number(entry, "file_location_id=")?)));
        Places { files, locations, frames: frames.collect() }
    }

    /// The place in the metadata of an instruction.
    fn place(&self, rest: &str) -> Option<Place> {
        let (_, metadata) = rest.split_once("metadata={")?;
        let number = |name: &str| {
            let (_, value) = metadata.split_once(name)?;
            value.split([' ', '}']).next()?.parse::<u64>().ok()
        };
        let (file, line) = match number("stack_frame_id=") {
            Some(frame) => {
                let (file, line) = self.locations.get(self.frames.get(&frame)?)?;
                (*self.files.get(file)?, *line)
            }
            None => {
                let (_, file) = metadata.split_once("source_file=")?;
                (file.split(" source_").next()?.trim_end_matches('}'), number("source_line=")?)
            }
        };
        let file = file.trim_matches('"');
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        Some(Place { file: name.to_owned(), line })
    }
}
