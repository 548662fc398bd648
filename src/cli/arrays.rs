//! `--input`, `--save` and `--save-shards`: arrays of a run from files and to files.

use super::{Failure, files, input};
use crate::arrays::{self, ArrayError, Wanted};
use crate::mesh::DeviceId;
use crate::schedule::{Array, ArrayId, Schedule};
use crate::sim::values::{self, Inputs, Run, Tensor};
use clap::Args;
use std::collections::BTreeMap;
use std::io::Seek;
use std::path::{Path, PathBuf};

/// Options for array files.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Arrays {
    /// Read an input from a NumPy or safetensors file; in safetensors under the name of the array
    #[arg(long, value_name = "NAME=FILE[:KEY]", value_parser = stored)]
    input: Vec<Stored>,
    /// Write an output to `.npy` or `.safetensors`; several outputs may share a `.safetensors` file
    #[arg(long, value_name = "NAME=FILE[:KEY]", value_parser = stored)]
    save: Vec<Stored>,
    /// Write the shards of an output to a new folder, as `d0.npy`, `d1.npy`, ..
    #[arg(long, value_name = "NAME=FOLDER", value_parser = stored)]
    save_shards: Vec<Stored>,
}

/// An array name and its file.
#[derive(Clone, Debug)]
struct Stored {
    name: String,
    /// The file as written; text after a `:` may be a key.
    place: String,
}

/// Parses `A=a.npy` or `B=w.safetensors:layer.0`.
fn stored(text: &str) -> Result<Stored, String> {
    match text.split_once('=').map(|(name, place)| (name.trim(), place.trim())) {
        Some((name, place)) if !name.is_empty() && !place.is_empty() => {
            Ok(Stored { name: name.to_owned(), place: place.to_owned() })
        }
        _ => Err("expected an array and a file, such as `A=a.npy` or `B=w.safetensors:layer.0`".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Npy,
    Safetensors,
}

impl Stored {
    /// The file, its format, and the key in it.
    fn file(&self) -> Result<(&Path, Kind, Option<&str>), Failure> {
        let kind = |path: &str| match Path::new(path).extension()?.to_str()? {
            "npy" => Some(Kind::Npy),
            "safetensors" => Some(Kind::Safetensors),
            _ => None,
        };
        if let Some(kind) = kind(&self.place) {
            return Ok((Path::new(&self.place), kind, None));
        }
        let keyed = self.place.match_indices(':').find_map(|(at, _)| {
            let (path, key) = (&self.place[..at], &self.place[at + 1..]);
            Some((Path::new(path), kind(path)?, Some(key)))
        });
        match keyed {
            Some((path, Kind::Npy, Some(_))) => {
                Err(Failure::Call(format!("`{}` holds a single unnamed array; leave out the key", input::shown(path))))
            }
            Some(keyed) => Ok(keyed),
            None => Err(Failure::Call(format!("`{}` has neither the extension `.npy` nor `.safetensors`", self.place))),
        }
    }

    fn failed(&self, path: &Path, error: &ArrayError, more: &str) -> Failure {
        Failure::Call(format!("cannot read input `{}` from `{}`: {error}{more}", self.name, input::shown(path)))
    }
}

impl Arrays {
    /// Checks names and file formats before anything is computed.
    pub(super) fn check(&self, schedule: &Schedule) -> Result<(), Failure> {
        for stored in &self.input {
            stored.file()?;
            declared(schedule, &stored.name)?;
        }
        if let Some(twice) = twice(&self.input) {
            return Err(Failure::Call(format!("`--input` is given twice for `{twice}`")));
        }
        for stored in self.save.iter().chain(&self.save_shards) {
            output(schedule, &stored.name)?;
        }
        let mut taken: Vec<(&Path, Option<&str>)> = Vec::new();
        for stored in &self.save {
            let (path, kind, key) = stored.file()?;
            let key = (kind == Kind::Safetensors).then(|| key.unwrap_or(&stored.name));
            if key == Some(arrays::RESERVED) {
                return Err(Failure::Call(format!(
                    "`--save`: `{}` is a reserved key in .safetensors files; write another key, `{}={}:KEY`",
                    arrays::RESERVED,
                    stored.name,
                    input::shown(path)
                )));
            }
            if taken.contains(&(path, key)) {
                return Err(Failure::Call(format!("`--save` writes two arrays to `{}`", stored.place)));
            }
            taken.push((path, key));
        }
        Ok(())
    }

    /// Reads the given inputs. An input inside a `repeat` is the same array in all iterations, or stacked along a first dim.
    pub(super) fn read(&self, schedule: &Schedule) -> Result<Inputs, Failure> {
        let mut inputs = Inputs::new();
        for stored in &self.input {
            let (path, kind, key) = stored.file()?;
            let (id, array) = declared(schedule, &stored.name)?;
            let mut file = std::fs::File::open(path).map_err(|error| stored.failed(path, &error.into(), ""))?;
            let mut read = |extents: &[u64]| {
                let wanted = Wanted { dtype: array.dtype, extents };
                file.rewind()?;
                match kind {
                    Kind::Npy => arrays::read_npy(&mut file, wanted),
                    Kind::Safetensors => arrays::read_safetensors(&mut file, key, &stored.name, wanted),
                }
            };
            let own = |name: &str| self.input.iter().any(|stored| stored.name == name);
            let others: Vec<ArrayId> =
                iterations(schedule, &stored.name).filter(|(_, array)| !own(&array.name)).map(|(id, _)| id).collect();
            let whole = read(&array.valid);
            // One part of an open sum for each device.
            if let (Some(count), true) = (values::parts_of_input(schedule, id), others.is_empty())
                && matches!(whole, Err(ArrayError::Extents { .. }))
            {
                let parts = read(&[&[count], &array.valid[..]].concat()).map_err(|error| {
                    let sum = array.valid.as_slice();
                    stored.failed(path, &error, &format!(" (or {sum:?}, for the sum of all parts)"))
                })?;
                inputs.insert(id, parts);
                continue;
            }
            if others.is_empty() || !matches!(whole, Err(ArrayError::Extents { .. })) {
                let whole = whole.map_err(|error| stored.failed(path, &error, ""))?;
                inputs.extend(others.into_iter().chain([id]).map(|id| (id, whole.clone())));
                continue;
            }
            let count = others.len() as u64 + 1;
            let stack = [&[count], &array.valid[..]].concat();
            let stack = read(&stack).map_err(|error| {
                stored.failed(path, &error, &format!(" (or {:?}, for all iterations)", array.valid))
            })?;
            inputs.extend(std::iter::once(id).chain(others).zip(stack.unstacked()));
        }
        Ok(inputs)
    }

    /// Writes the requested outputs. Each file and each folder is written completely or not at all.
    pub(super) fn write(&self, schedule: &Schedule, run: &Run) -> Result<(), Failure> {
        let mut together: BTreeMap<&Path, Vec<(&str, Tensor)>> = BTreeMap::new();
        let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        for stored in &self.save {
            let (path, kind, key) = stored.file()?;
            let gathered = run.gather(output(schedule, &stored.name)?);
            let array = gathered.map_err(|error| Failure::Call(error.to_string()))?.array;
            match kind {
                Kind::Npy => files.push((path.to_owned(), arrays::write_npy(&array))),
                Kind::Safetensors => together.entry(path).or_default().push((key.unwrap_or(&stored.name), array)),
            }
        }
        for (path, named) in &together {
            let named: Vec<(&str, &Tensor)> = named.iter().map(|(name, array)| (*name, array)).collect();
            let bytes = arrays::write_safetensors(&named);
            let bytes =
                bytes.map_err(|error| Failure::Call(format!("cannot write `{}`: {error}", input::shown(path))))?;
            files.push(((*path).to_owned(), bytes));
        }
        for (path, bytes) in &files {
            files::write(path, bytes)?;
        }
        for stored in &self.save_shards {
            let blocks = (0..).map(DeviceId).zip(run.blocks(output(schedule, &stored.name)?));
            let shards = blocks.filter_map(|(device, block)| Some((device, arrays::write_npy(block.as_ref()?))));
            let shards: Vec<(DeviceId, Vec<u8>)> = shards.collect();
            let files = shards.iter().map(|(device, bytes)| (format!("{device}.npy"), &bytes[..]));
            files::write_folder(Path::new(&stored.place), files)?;
        }
        Ok(())
    }
}

fn twice(all: &[Stored]) -> Option<&str> {
    let again = all.iter().enumerate().find(|(place, own)| all[..*place].iter().any(|other| other.name == own.name));
    again.map(|(_, own)| own.name.as_str())
}

/// Finds an input by name.
fn declared<'s>(schedule: &'s Schedule, name: &str) -> Result<(ArrayId, &'s Array), Failure> {
    let inputs = || (0..).map(ArrayId).zip(&schedule.arrays).filter(|(_, array)| array.definition.is_given());
    inputs()
        .find(|(_, array)| array.name == name)
        .ok_or_else(|| input::unknown("input", name, inputs().map(|(_, array)| array.name.as_str())))
}

/// The arrays of the iterations after the first of an input inside a `repeat`: `W.2`, `W.3`, ..
fn iterations<'s>(schedule: &'s Schedule, name: &str) -> impl Iterator<Item = (ArrayId, &'s Array)> {
    (2..).map_while(move |iteration| {
        let own = format!("{name}.{iteration}");
        (0..).map(ArrayId).zip(&schedule.arrays).find(|(_, array)| array.definition.is_given() && array.name == own)
    })
}

/// Finds an output by name.
fn output(schedule: &Schedule, name: &str) -> Result<usize, Failure> {
    let names = || schedule.outputs.iter().map(|output| schedule.array(output.array).name.as_str());
    names().position(|own| own == name).ok_or_else(|| input::unknown("output", name, names()))
}
