//! NumPy files. <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>

use super::{ArrayError, Wanted, payload};
use crate::dtype::DType;
use crate::sim::values::Tensor;
use py_literal::Value;
use std::io::{Read, Seek};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Maximum header length, as in NumPy. Headers of plain arrays have about a hundred bytes.
const MOST_HEADER: usize = 10_000;
/// Alignment of the data in bytes.
const ALIGNMENT: usize = 64;

/// A parsed header.
struct Header {
    /// Byte order, kind and size, such as `<f4`.
    descr: String,
    column_major: bool,
    shape: Vec<u64>,
}

/// Reads an array; big-endian and column-major files are supported.
///
/// # Errors
/// If dtype or extents differ from the expected ones, or the file is damaged, truncated or too long.
pub fn read_npy(file: &mut (impl Read + Seek), wanted: Wanted<'_>) -> Result<Tensor, ArrayError> {
    let header = header(file)?;
    let big = byte_order(&header.descr, wanted.dtype).ok_or_else(|| wanted.other_dtype(&header.descr))?;
    wanted.check_extents(&header.shape)?;
    if header.column_major && header.shape != wanted.extents {
        return Err(malformed("the array is column-major; merged dims need row-major order"));
    }
    let mut bytes = payload(file, wanted)?;
    if !header.descr.contains('V') {
        wanted.check_range(&bytes)?;
    }
    if big {
        let size = usize::try_from(wanted.dtype.stored()).unwrap_or(1);
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    let mut extents = wanted.extents.to_vec();
    if header.column_major {
        extents.reverse();
    }
    let stored = Tensor::from_le_bytes(wanted.dtype, &extents, &bytes);
    let stored = stored.ok_or_else(|| malformed("the size overflows"))?;
    Ok(if header.column_major { stored.transposed() } else { stored })
}

/// Writes an array, row-major and little-endian.
pub fn write_npy(array: &Tensor) -> Vec<u8> {
    let shape: String = array.extents().iter().map(|extent| format!("{extent}, ")).collect();
    let shape = if array.extents().len() == 1 { shape.trim_end() } else { shape.trim_end_matches(", ") };
    let text = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({shape}), }}", array.dtype().npy());
    let length = (MAGIC.len() + 4 + text.len() + 1).next_multiple_of(ALIGNMENT) - MAGIC.len() - 4;
    let mut file = [MAGIC, &[1, 0][..]].concat();
    file.extend(u16::try_from(length).expect("sixty dims make a short header").to_le_bytes());
    file.extend(format!("{text:<width$}\n", width = length - 1).bytes());
    array.append_le_bytes(&mut file);
    file
}

/// Whether elements with this type name are big-endian; `None` if they have another dtype.
fn byte_order(found: &str, wanted: DType) -> Option<bool> {
    let mut letters = found.chars();
    let big = match letters.next()? {
        '<' | '|' | '=' => false,
        '>' => true,
        _ => return None,
    };
    let own = letters.as_str();
    let expected = &wanted.npy()[1..];
    // NumPy lacks bf16, fp8 and 4-bit integers: they are raw bytes, or integers. `f1` is written by ml_dtypes.
    let as_integers = if wanted.is_float() || wanted.is_unsigned() { "u" } else { "i" };
    let is_raw = expected.starts_with('V')
        && (own == format!("{as_integers}{}", wanted.stored()) || wanted == DType::F8E5M2 && own == "f1");
    (is_raw || own == expected && !(big && own.starts_with('V'))).then_some(big)
}

fn malformed(problem: impl Into<String>) -> ArrayError {
    ArrayError::Malformed { format: ".npy", problem: problem.into() }
}

/// Reads the header; the data follows.
fn header(file: &mut impl Read) -> Result<Header, ArrayError> {
    let short = |_| malformed("the header is truncated");
    let mut start = [0; 8];
    file.read_exact(&mut start).map_err(short)?;
    if !start.starts_with(MAGIC) {
        return Err(malformed("wrong magic number"));
    }
    let length = match start[6..] {
        [1, 0] => {
            let mut length = [0; 2];
            file.read_exact(&mut length).map_err(short)?;
            usize::from(u16::from_le_bytes(length))
        }
        [2 | 3, 0] => {
            let mut length = [0; 4];
            file.read_exact(&mut length).map_err(short)?;
            usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX)
        }
        [major, minor, ..] => return Err(malformed(format!("unknown version {major}.{minor}"))),
        [..] => unreachable!("eight bytes were read"),
    };
    if length > MOST_HEADER {
        return Err(malformed(format!("the header has {length} bytes; the limit is {MOST_HEADER}")));
    }
    let mut text = vec![0; length];
    file.read_exact(&mut text).map_err(short)?;
    let text = String::from_utf8(text).map_err(|_| malformed("the header is not text"))?;
    let value: Value = text.trim().parse().map_err(|_| malformed("the header is not a Python dictionary"))?;
    parsed(&value).ok_or_else(|| malformed("the header lacks `descr`, `fortran_order` or `shape`"))
}

fn parsed(header: &Value) -> Option<Header> {
    let fields = header.as_dict()?;
    let field = |name: &str| {
        let own = fields.iter().find(|(key, _)| key.as_string().is_some_and(|key| key == name));
        own.map(|(_, value)| value)
    };
    // Record types have lists here; no array of a program does.
    let descr = field("descr")?;
    let descr = descr.as_string().cloned().unwrap_or_else(|| descr.to_string());
    let shape = field("shape")?.as_tuple()?.iter().map(|extent| u64::try_from(extent.as_integer()?).ok());
    Some(Header { descr, column_major: field("fortran_order")?.as_boolean()?, shape: shape.collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn every_dtype_and_shape_comes_back() {
        for dtype in DType::ALL {
            for extents in [&[][..], &[6], &[2, 3], &[1, 2, 3]] {
                let count = usize::try_from(extents.iter().product::<u64>()).expect("small");
                let array = Tensor::from_integers(dtype, extents, &[1, 0, -1, 5, -7, 9][..count]).expect("it fits");
                let file = write_npy(&array);
                assert_eq!((file.len() as u64 - array.elements() * dtype.stored()) % 64, 0);
                let back = read_npy(&mut Cursor::new(&file), Wanted { dtype, extents }).expect("an array");
                assert_eq!((back.to_f64s(), back.extents()), (array.to_f64s(), extents.to_vec()));
                for cut in 0..file.len() {
                    assert!(read_npy(&mut Cursor::new(&file[..cut]), Wanted { dtype, extents }).is_err(), "{cut}");
                }
            }
        }
    }

    /// A file with this header and these bytes.
    fn file(header: &str, bytes: &[u8]) -> Cursor<Vec<u8>> {
        let length = u16::try_from(header.len()).expect("short").to_le_bytes();
        Cursor::new([&MAGIC[..], &[1, 0], &length[..], header.as_bytes(), bytes].concat())
    }

    #[test]
    fn column_major_and_big_endian_files_are_turned() {
        let wanted = Wanted { dtype: DType::I32, extents: &[2, 3] };
        let columns: Vec<u8> = [1u8, 4, 2, 5, 3, 6].iter().flat_map(|n| [0, 0, 0, *n]).collect();
        let header = "{'shape': (2, 3), 'fortran_order': True, \"descr\": '>i4'}\n";
        let array = read_npy(&mut file(header, &columns), wanted).expect("an array");
        assert_eq!(array.to_i64s(), [1, 2, 3, 4, 5, 6]);
        let bf16 = Wanted { dtype: DType::Bf16, extents: &[2] };
        for (descr, bytes) in
            [("<u2", [0x80, 0x3f, 0, 0xc0]), (">u2", [0x3f, 0x80, 0xc0, 0]), ("<V2", [0x80, 0x3f, 0, 0xc0])]
        {
            let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}");
            assert_eq!(read_npy(&mut file(&header, &bytes), bf16).expect("an array").to_f64s(), [1.0, -2.0]);
        }
        let fp8 = [
            (DType::F8E4M3, "|V1", Some([0x38, 0xC0])),
            (DType::F8E4M3, "|u1", Some([0x38, 0xC0])),
            (DType::F8E5M2, "<V1", Some([0x3C, 0xC0])),
            (DType::F8E5M2, "<f1", Some([0x3C, 0xC0])),
            (DType::F8E4M3, "<f1", None),
            (DType::F8E5M2, "|i1", None),
            (DType::U8, "|V1", None),
            (DType::I4, "|u1", None),
            (DType::U4, "|i1", None),
        ];
        for (dtype, descr, bytes) in fp8 {
            let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}");
            let found = read_npy(&mut file(&header, &bytes.unwrap_or_default()), Wanted { dtype, extents: &[2] });
            assert_eq!(found.ok().map(|array| array.to_f64s()), bytes.map(|_| vec![1.0, -2.0]), "{dtype} {descr}");
        }
        let small = [
            (DType::I4, "|V1", [0x07_u8, 0x0F], Ok([7_i64, -1])),
            (DType::I4, "<V1", [0xF8, 0x08], Ok([-8, -8])),
            (DType::I4, "|i1", [0x07, 0xFF], Ok([7, -1])),
            (DType::I4, "|i1", [0x07, 0x08], Err("numbers of i4, from -8 to 7, found 8")),
            (DType::I4, "|i1", [0xF7, 0x00], Err("numbers of i4, from -8 to 7, found -9")),
            (DType::U4, "|V1", [0x07, 0x0F], Ok([7, 15])),
            (DType::U4, "|u1", [0x00, 0x0F], Ok([0, 15])),
            (DType::U4, "|u1", [0x00, 0x10], Err("numbers of u4, from 0 to 15, found 16")),
        ];
        for (dtype, descr, bytes, expected) in small {
            let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2,), }}");
            let found = read_npy(&mut file(&header, &bytes), Wanted { dtype, extents: &[2] });
            match (found, expected) {
                (Ok(found), Ok(numbers)) => assert_eq!(found.to_i64s(), numbers, "{dtype} {descr}"),
                (found, Err(words)) => assert!(found.unwrap_err().to_string().ends_with(words), "{dtype} {descr}"),
                (Err(error), Ok(_)) => panic!("{dtype} {descr}: {error}"),
            }
        }
    }

    #[test]
    fn what_is_hostile_or_of_another_type_is_refused() {
        let wanted = Wanted { dtype: DType::F32, extents: &[2] };
        let refused = |header: &str, bytes: &[u8]| read_npy(&mut file(header, bytes), wanted).unwrap_err().to_string();
        let plain =
            |descr: &str, shape: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}");
        let cases = [
            (plain("'<f8'", "(2,)"), "elements of f32, found `<f8`"),
            (plain("'<u2'", "(2,)"), "found `<u2`"),
            (plain("[('a', '<f4')]", "(2,)"), "elements of f32, found"),
            (plain("'<f4'", "(3,)"), "shape [2], found [3]"),
            (plain("'<f4'", "(1000000000000000000, 1000)"), "found [1000000000000000000, 1000]"),
            (plain("'<f4'", "(99999999999999999999999999, 1)"), "lacks"),
            (plain("'<f4'", "(-1,)"), "lacks"),
            (plain("'<f4'", "2"), "lacks"),
            ("{}".to_owned(), "lacks"),
            ("(".repeat(9_000), "not a Python dictionary"),
            (plain("'<f4'", "(2,)"), "expected 8 bytes of elements by the header, found 7"),
        ];
        for (header, problem) in cases {
            let found = refused(&header, &[0; 7]);
            assert!(found.contains(problem), "{found}");
        }
        let long = [&MAGIC[..], &[2, 0, 255, 255, 255, 255][..]].concat();
        let found = read_npy(&mut Cursor::new(long), wanted).unwrap_err().to_string();
        assert!(found.contains("the header has 4294967295 bytes"), "{found}");
    }
}
