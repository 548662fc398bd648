//! Tables of measurements: CSV with a line of names, and what the programs of nccl-tests print.

use crate::collective::CollectiveKind;
use csv::StringRecord;
use std::collections::BTreeSet;
use thiserror::Error;

/// What a collective took.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// Which.
    pub kind: CollectiveKind,
    /// How many devices took part.
    pub devices: u32,
    /// Whether elements are floats, which switches may add.
    pub is_float: bool,
    /// Bytes of the logical array: of an AllGather what each device has afterwards, of a ReduceScatter and an AllReduce
    /// what each has before, of an AllToAll what all have together.
    pub bytes: u64,
    /// How long it took.
    pub microseconds: f64,
}

/// What a matrix product took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// What is summed over.
    pub k: u64,
    /// Bytes of an element of the operands.
    pub element: u64,
    /// Bytes of an element of the result.
    pub result: u64,
    /// How long it took.
    pub microseconds: f64,
}

/// A table that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// A column is missing.
    #[error("there is no column `{wanted}`; there are {known}")]
    NoColumn {
        /// The name, with others that it may have.
        wanted: String,
        /// Those that there are.
        known: String,
    },
    /// A field is none.
    #[error("line {line}: `{found}` is not {wanted}")]
    Field {
        /// Counted from 1.
        line: u64,
        /// What stands there.
        found: String,
        /// What should.
        wanted: &'static str,
    },
    /// It is not CSV.
    #[error("{0}")]
    Csv(String),
    /// Nothing is left.
    #[error("no line has {0}")]
    Nothing(String),
    /// The output of nccl-tests does not say what was measured.
    #[error("the output does not say {0}")]
    Unsaid(&'static str),
}

/// Only lines that have these values in these columns.
pub type Only = [(String, String)];

/// Lines with their numbers, counted from 1.
type Records = Vec<(u64, StringRecord)>;

/// The names that a column may have.
const KIND: [&str; 2] = ["collective", "kind"];
const DEVICES: [&str; 3] = ["devices", "ranks", "gpus"];
const BYTES: [&str; 2] = ["bytes", "array_bytes"];
const TIME: [&str; 2] = ["us", "microseconds"];

/// Reads a table of collectives.
///
/// # Errors
/// If it is not one, or no line is left.
pub fn collectives(text: &str, only: &Only) -> Result<Vec<Collective>, TableError> {
    if text.lines().any(|line| line.trim_start().starts_with("# nccl-tests") || line.contains("Collective test")) {
        return nccl_tests(text);
    }
    let (columns, records) = records(text, only)?;
    let [kind, devices, bytes, time] = [&KIND[..], &DEVICES, &BYTES, &TIME].map(|names| column(&columns, names));
    let (kind, devices, bytes, time) = (kind?, devices?, bytes?, time?);
    let dtype = column(&columns, &["dtype", "type"]).ok();
    let row = |(line, record): &(u64, StringRecord)| {
        let field = |place: usize| record.get(place).unwrap_or("").trim();
        let wrong = |place: usize, wanted| TableError::Field { line: *line, found: field(place).to_owned(), wanted };
        Ok(Collective {
            is_float: dtype.is_some_and(|place| is_float(field(place))),
            kind: kind_of(field(kind)).ok_or_else(|| wrong(kind, COLLECTIVES))?,
            devices: field(devices)
                .parse()
                .ok()
                .filter(|devices| (2..=1 << 20).contains(devices))
                .ok_or_else(|| wrong(devices, "a number of devices, two at least"))?,
            bytes: field(bytes).parse().map_err(|_| wrong(bytes, "a number of bytes"))?,
            microseconds: microseconds(field(time)).ok_or_else(|| wrong(time, "a time above 0 in microseconds"))?,
        })
    };
    records.iter().map(row).collect()
}

const COLLECTIVES: &str = "AllGather, ReduceScatter, AllReduce or AllToAll";

/// In any spelling: `all_gather`, `AllGather`, `all_gather_perf`.
fn kind_of(name: &str) -> Option<CollectiveKind> {
    let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect();
    match letters.to_ascii_lowercase().trim_end_matches("perf") {
        "allgather" => Some(CollectiveKind::AllGather),
        "reducescatter" => Some(CollectiveKind::ReduceScatter),
        "allreduce" => Some(CollectiveKind::AllReduce),
        "alltoall" => Some(CollectiveKind::AllToAll),
        _ => None,
    }
}

/// By the name of a type: `f16`, `bfloat16`, `half`, but `f8e4m3` is none that a switch adds.
fn is_float(dtype: &str) -> bool {
    let name = dtype.to_ascii_lowercase();
    ["f16", "f32", "f64", "bf16", "fp16", "fp32", "float", "bfloat16", "half", "double"].contains(&name.as_str())
}

fn microseconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|time: &f64| time.is_finite() && *time > 0.0)
}

/// Reads a table of products: `m`, `n`, `k`, the type of the operands in `dtype`, and the time. Results have two bytes.
///
/// # Errors
/// If it is not one, or no line is left.
pub fn products(text: &str, only: &Only) -> Result<Vec<Product>, TableError> {
    let (columns, records) = records(text, only)?;
    let [m, n, k, dtype, time] = [&["m"][..], &["n"], &["k"], &["dtype"], &TIME].map(|names| column(&columns, names));
    let (m, n, k, dtype, time) = (m?, n?, k?, dtype?, time?);
    let row = |(line, record): &(u64, StringRecord)| {
        let field = |place: usize| record.get(place).unwrap_or("").trim();
        let wrong = |place: usize, wanted| TableError::Field { line: *line, found: field(place).to_owned(), wanted };
        let extent = |place: usize| {
            let extent = field(place).parse().ok().filter(|extent| (1..=1 << 20).contains(extent));
            extent.ok_or_else(|| wrong(place, "an extent from 1 to 1048576"))
        };
        let element = element_of(field(dtype)).ok_or_else(|| wrong(dtype, "a type such as bf16, f8e4m3 or int8"))?;
        let microseconds = microseconds(field(time)).ok_or_else(|| wrong(time, "a time above 0 in microseconds"))?;
        Ok(Product { m: extent(m)?, n: extent(n)?, k: extent(k)?, element, result: 2, microseconds })
    };
    records.iter().map(row).collect()
}

/// Bytes of an element: the first number in the name of a type says its bits.
fn element_of(dtype: &str) -> Option<u64> {
    let digits: String = dtype.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|bits: &u64| [8, 16, 32, 64].contains(bits)).map(|bits| bits / 8)
}

/// The names of the columns, and each line that is asked for with its number.
fn records(text: &str, only: &Only) -> Result<(Vec<String>, Records), TableError> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(text.as_bytes());
    let wrong = |error: csv::Error| TableError::Csv(error.to_string());
    let columns: Vec<String> = reader.headers().map_err(wrong)?.iter().map(str::to_lowercase).collect();
    let only: Vec<(usize, &str)> = only
        .iter()
        .map(|(name, value)| Ok((column(&columns, &[name.to_lowercase().as_str()])?, value.as_str())))
        .collect::<Result<_, TableError>>()?;
    let mut records = Vec::new();
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        let line = record.position().map_or(0, csv::Position::line);
        if only.iter().all(|(place, value)| record.get(*place) == Some(value)) {
            records.push((line, record));
        }
    }
    if records.is_empty() {
        let wanted: Vec<String> = only.iter().map(|(place, value)| format!("{}={value}", columns[*place])).collect();
        let wanted = if wanted.is_empty() { "any figures".to_owned() } else { wanted.join(" and ") };
        return Err(TableError::Nothing(wanted));
    }
    Ok((columns, records))
}

/// The place of a column that has one of these names.
fn column(columns: &[String], names: &[&str]) -> Result<usize, TableError> {
    let place = columns.iter().position(|column| names.contains(&column.as_str()));
    place.ok_or_else(|| TableError::NoColumn { wanted: names.join("` or `"), known: columns.join(", ") })
}

/// What `all_reduce_perf` and its like print: the devices as `#  Rank  0 ..`, then lines with the bytes first and the
/// time of the call out of place sixth. The bytes of an AllToAll are there those of one device.
fn nccl_tests(text: &str) -> Result<Vec<Collective>, TableError> {
    let comments = || text.lines().filter_map(|line| line.trim_start().strip_prefix('#'));
    let kind = comments().filter(|line| line.contains("test starting") || line.contains("_perf"));
    let kind = kind.flat_map(str::split_whitespace).find_map(kind_of);
    let kind =
        kind.ok_or(TableError::Unsaid("which collective it is of, as `# Collective test starting: all_reduce_perf`"))?;
    let ranks: BTreeSet<&str> =
        comments().filter_map(|line| line.trim_start().strip_prefix("Rank")?.split_whitespace().next()).collect();
    let devices = u32::try_from(ranks.len()).ok().filter(|devices| *devices > 1);
    let devices = devices.ok_or(TableError::Unsaid("on which devices it ran, as `#  Rank  0 ..`, two at least"))?;
    let mut rows = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let Some(bytes) = fields.first().and_then(|field| field.parse::<u64>().ok()).filter(|bytes| *bytes > 0) else {
            continue;
        };
        let time = fields.get(5).copied().unwrap_or("");
        let wanted = "a time above 0 in microseconds";
        let microseconds =
            microseconds(time).ok_or_else(|| TableError::Field { line, found: time.to_owned(), wanted })?;
        let all = if kind == CollectiveKind::AllToAll { u64::from(devices) } else { 1 };
        let is_float = fields.get(2).is_some_and(|dtype| is_float(dtype));
        rows.push(Collective { kind, devices, is_float, bytes: bytes.saturating_mul(all), microseconds });
    }
    if rows.is_empty() { Err(TableError::Nothing("any figures".to_owned())) } else { Ok(rows) }
}
