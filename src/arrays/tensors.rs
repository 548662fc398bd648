//! Safetensors files: several named arrays. <https://github.com/huggingface/safetensors>

use super::{ArrayError, Wanted};
use crate::dtype::DType;
use crate::sim::values::Tensor;
use safetensors::tensor::{Dtype, Metadata, TensorView};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use std::io::{Read, Seek, SeekFrom};

/// Maximum header length, as defined by the format.
const MOST_HEADER: u64 = 100_000_000;

/// The key of the metadata entry, which no array may have.
pub const RESERVED: &str = "__metadata__";

/// Reads one array of a file, without reading the others. Without a key, the array called `name` is read, or the only
/// one.
///
/// # Errors
/// If the array is missing, dtype or extents differ from the expected ones, or the file is damaged, truncated or too
/// long.
pub fn read_safetensors(
    file: &mut (impl Read + Seek),
    key: Option<&str>,
    name: &str,
    wanted: Wanted<'_>,
) -> Result<Tensor, ArrayError> {
    let length = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let mut start = [0; 8];
    file.read_exact(&mut start).map_err(|_| malformed("the header is truncated"))?;
    let header = u64::from_le_bytes(start);
    if header > MOST_HEADER || header > length - 8 {
        return Err(malformed(format!("the header length is {header} bytes, the file has {length}")));
    }
    let mut text = Vec::new();
    file.take(header).read_to_end(&mut text)?;
    let metadata: Metadata =
        serde_json::from_slice(&text).map_err(|error| malformed(format!("invalid header: {error}")))?;
    let (promised, found) = (metadata.data_len() as u64, length - 8 - header);
    if promised != found {
        return Err(ArrayError::Length { promised, found });
    }
    let keys = metadata.offset_keys();
    let key = match (key, &keys[..]) {
        (Some(key), _) => key,
        (None, [only]) if only != name => only,
        (None, _) => name,
    };
    let Some(info) = metadata.info(key) else {
        let known = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
        return Err(ArrayError::NoKey { key: key.to_owned(), known });
    };
    if info.dtype != dtype_of(wanted.dtype) {
        return Err(wanted.other_dtype(info.dtype));
    }
    wanted.check_extents(&info.shape.iter().map(|extent| *extent as u64).collect::<Vec<u64>>())?;
    let (from, to) = (info.data_offsets.0 as u64, info.data_offsets.1 as u64);
    file.seek(SeekFrom::Start(8 + header + from))?;
    let mut bytes = Vec::new();
    file.take(to - from).read_to_end(&mut bytes)?;
    wanted.check_range(&bytes)?;
    Tensor::from_le_bytes(wanted.dtype, wanted.extents, &bytes)
        .ok_or(ArrayError::Length { promised: to - from, found: bytes.len() as u64 })
}

/// Writes a file of these arrays.
///
/// # Errors
/// If two arrays have one name.
pub fn write_safetensors(arrays: &[(&str, &Tensor)]) -> Result<Vec<u8>, ArrayError> {
    if arrays.iter().any(|(name, _)| *name == RESERVED) {
        return Err(malformed(format!("`{RESERVED}` is a reserved key")));
    }
    if let Some((twice, _)) = arrays
        .iter()
        .enumerate()
        .find_map(|(place, own)| arrays[..place].iter().any(|(other, _)| other == &own.0).then_some(own))
    {
        return Err(malformed(format!("two arrays have the key `{twice}`")));
    }
    let stored = arrays.iter().map(|(_, array)| {
        let shape = array.extents().iter().map(|extent| usize::try_from(*extent).unwrap_or(usize::MAX)).collect();
        (shape, array.to_le_bytes())
    });
    let stored: Vec<(Vec<usize>, Vec<u8>)> = stored.collect();
    let views = arrays.iter().zip(&stored).map(|((name, array), (shape, bytes))| {
        Ok((*name, TensorView::new(dtype_of(array.dtype()), shape.clone(), bytes)?))
    });
    let views: Result<Vec<(&str, TensorView<'_>)>, _> = views.collect();
    let wrong = |error: safetensors::SafeTensorError| malformed(error.to_string());
    safetensors::serialize(views.map_err(wrong)?, None).map_err(wrong)
}

fn malformed(problem: impl Into<String>) -> ArrayError {
    ArrayError::Malformed { format: "safetensors", problem: problem.into() }
}

fn dtype_of(dtype: DType) -> Dtype {
    let name: StrDeserializer<'_, serde::de::value::Error> = dtype.safetensors().into_deserializer();
    Dtype::deserialize(name).expect("the format has every dtype")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn array(dtype: DType) -> Tensor {
        Tensor::from_integers(dtype, &[2, 3], &[1, 0, -1, 5, -7, 9]).expect("six elements")
    }

    #[test]
    fn every_dtype_comes_back_and_cut_files_are_refused() {
        let arrays: Vec<(String, Tensor)> = DType::ALL.iter().map(|dtype| (dtype.to_string(), array(*dtype))).collect();
        let named: Vec<(&str, &Tensor)> = arrays.iter().map(|(name, array)| (name.as_str(), array)).collect();
        let file = write_safetensors(&named).expect("a file");
        let read = |file: &[u8], key: Option<&str>, name: &str, dtype| {
            read_safetensors(&mut Cursor::new(file), key, name, Wanted { dtype, extents: &[2, 3] })
        };
        for (name, array) in &arrays {
            let back = read(&file, Some(name), "other", array.dtype()).expect("an array");
            assert_eq!(back.to_f64s(), array.to_f64s());
            assert!(read(&file, None, name, array.dtype()).is_ok());
        }
        for cut in 0..file.len() {
            assert!(read(&file[..cut], Some("f32"), "f32", DType::F32).is_err(), "{cut}");
        }
        assert!(read(&[file.clone(), vec![0]].concat(), Some("f32"), "f32", DType::F32).is_err());
        let found = read(&file, Some("x"), "f32", DType::F32).unwrap_err().to_string();
        assert!(found.starts_with("no array `x` in the file; arrays are ") && found.contains("bf16"), "{found}");
        let found = read(&file, Some("f16"), "f16", DType::Bf16).unwrap_err().to_string();
        assert!(found.contains("expected elements of bf16, found `F16`"), "{found}");
        assert!(write_safetensors(&[named[0], named[0]]).is_err());
    }

    #[test]
    fn the_only_array_needs_no_key() {
        let array = array(DType::I8);
        let file = write_safetensors(&[("layer.0", &array)]).expect("a file");
        let wanted = Wanted { dtype: DType::I8, extents: &[2, 3] };
        assert!(read_safetensors(&mut Cursor::new(&file), None, "W", wanted).is_ok());
        let other = Wanted { dtype: DType::I8, extents: &[3, 2] };
        let found = read_safetensors(&mut Cursor::new(&file), None, "W", other).unwrap_err().to_string();
        assert_eq!(found, "expected shape [3, 2], found [2, 3]");
    }

    #[test]
    fn hostile_headers_are_refused_without_allocating() {
        let wanted = Wanted { dtype: DType::I8, extents: &[2, 3] };
        let with = |header: &str| {
            let length = (header.len() as u64).to_le_bytes();
            Cursor::new([&length[..], header.as_bytes()].concat())
        };
        let huge = r#"{"W":{"dtype":"I8","shape":[1000000000000000000,1000000],"data_offsets":[0,1]}}"#;
        for header in [huge, "{", "[]", r#"{"W":{"dtype":"I8","shape":[2,3],"data_offsets":[6,0]}}"#] {
            assert!(read_safetensors(&mut with(header), None, "W", wanted).is_err(), "{header}");
        }
        for length in [u64::MAX, 1 << 40, 9] {
            assert!(read_safetensors(&mut Cursor::new(length.to_le_bytes()), None, "W", wanted).is_err());
        }
    }
}
