//! Tables of measurements: CSV with a header line, and the output of nccl-tests.

use crate::collective::CollectiveKind;
use crate::dtype::DType;
use crate::topology::{Heads, Tokens};
use csv::StringRecord;
use std::collections::BTreeSet;
use thiserror::Error;

/// The measured time of a collective.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// Kind of collective.
    pub kind: CollectiveKind,
    /// Number of devices.
    pub devices: u32,
    /// Whether elements are floats, which a switch may reduce.
    pub is_float: bool,
    /// Bytes of the logical array: for an AllGather the result on each device, for a ReduceScatter and an AllReduce
    /// the operand on each device, for an AllToAll the total of all devices.
    pub bytes: u64,
    /// Measured time.
    pub microseconds: f64,
}

/// The measured time of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product {
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// Length of the contracted dim.
    pub k: u64,
    /// Bytes per element of the operands.
    pub element: u64,
    /// Whether the operands are floats.
    pub is_float: bool,
    /// Bytes per element of the result.
    pub result: u64,
    /// Measured time.
    pub microseconds: f64,
}

/// The measured time of an attention kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attended {
    /// The heads of all sequences, with as many keys as queries, causal.
    pub heads: Heads,
    /// Bytes of the queries, keys, values and the result, of two per element.
    pub bytes: u64,
    /// Measured time.
    pub microseconds: f64,
}

/// The measured times of an exchange with experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dispatched {
    /// The tokens and their experts.
    pub tokens: Tokens,
    /// Measured time of the dispatch in microseconds.
    pub dispatch_us: f64,
    /// Measured time of the combination in microseconds.
    pub combine_us: f64,
}

/// The reason why a table cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// A column is missing.
    #[error("missing column `{wanted}`; columns are {known}")]
    NoColumn {
        /// The name, with its alternatives.
        wanted: String,
        /// The columns of the table.
        known: String,
    },
    /// A field does not parse.
    #[error("line {line}: `{found}` is not {wanted}")]
    Field {
        /// Line number from 1.
        line: u64,
        /// The text found.
        found: String,
        /// Expected content.
        wanted: &'static str,
    },
    /// The file is not CSV.
    #[error("{0}")]
    Csv(String),
    /// No row matches the filters.
    #[error("no line has {0}")]
    Nothing(String),
    /// The output of nccl-tests does not name the collective or dtype.
    #[error("the nccl-tests output does not name {0}")]
    Unsaid(&'static str),
}

/// Filter: lines must have these values in these columns.
pub type Only = [(String, String)];

/// A line with its number, from 1.
struct Record {
    line: u64,
    fields: StringRecord,
}

impl Record {
    /// The text in a column.
    fn field(&self, place: usize) -> &str {
        self.fields.get(place).unwrap_or("").trim()
    }

    /// The figure in a column.
    ///
    /// # Errors
    /// If the text is not `wanted`.
    fn read<T>(&self, place: usize, parse: impl Fn(&str) -> Option<T>, wanted: &'static str) -> Result<T, TableError> {
        let found = self.field(place);
        parse(found).ok_or_else(|| TableError::Field { line: self.line, found: found.to_owned(), wanted })
    }
}

/// Accepted names of each column.
const KIND: [&str; 2] = ["collective", "kind"];
const DEVICES: [&str; 3] = ["devices", "ranks", "gpus"];
const BYTES: [&str; 2] = ["bytes", "array_bytes"];
const TIME: [&str; 2] = ["us", "microseconds"];

/// Reads a table of collectives.
///
/// # Errors
/// If the table is invalid, or no line matches.
pub fn collectives(text: &str, only: &Only) -> Result<Vec<Collective>, TableError> {
    if text
        .lines()
        .any(|line| line.trim_start().starts_with("# nccl-tests") || line.trim_start().starts_with("# nThread"))
    {
        return nccl_tests(text);
    }
    let (columns, records) = records(text, only)?;
    let [kind, devices, bytes, time] = [&KIND[..], &DEVICES, &BYTES, &TIME].map(|names| column(&columns, names));
    let (kind, devices, bytes, time) = (kind?, devices?, bytes?, time?);
    some(&records, only)?;
    let dtype = column(&columns, &["dtype", "type"]).ok();
    let row = |record: &Record| {
        let count = |text: &str| text.parse().ok().filter(|devices| (2..=1 << 20).contains(devices));
        Ok(Collective {
            is_float: dtype.is_some_and(|place| is_float(record.field(place))),
            kind: record.read(kind, kind_of, COLLECTIVES)?,
            devices: record.read(devices, count, "a number of devices, at least 2")?,
            bytes: record.read(bytes, |text| text.parse().ok(), "a number of bytes")?,
            microseconds: record.read(time, microseconds, MICROSECONDS)?,
        })
    };
    records.iter().map(row).collect()
}

const COLLECTIVES: &str = "AllGather, ReduceScatter, AllReduce or AllToAll";
const MICROSECONDS: &str = "a time above 0 in microseconds";

/// Parses a collective in any spelling: `all_gather`, `AllGather`, `all_gather_perf`.
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

/// Whether a type name is a float that a switch can reduce: `f16`, `bfloat16`, `half`, but not `f8e4m3`.
fn is_float(dtype: &str) -> bool {
    let name = dtype.to_ascii_lowercase();
    ["f16", "f32", "f64", "bf16", "fp16", "fp32", "float", "bfloat16", "half", "double"].contains(&name.as_str())
}

fn microseconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|time: &f64| time.is_finite() && *time > 0.0)
}

/// Reads a table of products: `m`, `n`, `k`, the operand type in `dtype`, and the time. Results have two bytes per
/// element.
///
/// # Errors
/// If the table is invalid, or no line matches.
pub fn products(text: &str, only: &Only) -> Result<Vec<Product>, TableError> {
    let (columns, records) = records(text, only)?;
    let [m, n, k, dtype, time] = [&["m"][..], &["n"], &["k"], &["dtype"], &TIME].map(|names| column(&columns, names));
    let (m, n, k, dtype, time) = (m?, n?, k?, dtype?, time?);
    some(&records, only)?;
    let row = |record: &Record| {
        let extent = |place: usize| {
            let extent = |text: &str| text.parse().ok().filter(|extent| (1..=1 << 20).contains(extent));
            record.read(place, extent, "an extent from 1 to 1048576")
        };
        let element = record.read(dtype, element_of, "a dtype such as bf16, f8e4m3 or int8")?;
        let microseconds = record.read(time, microseconds, MICROSECONDS)?;
        let is_float = !record.field(dtype).to_ascii_lowercase().contains("int");
        Ok(Product { m: extent(m)?, n: extent(n)?, k: extent(k)?, element, is_float, result: 2, microseconds })
    };
    records.iter().map(row).collect()
}

/// Reads a table of causal attention kernels on 16-bit floats: the sequences in `batch`, the tokens of each in `seq`,
/// `heads`, `kv_heads`, `head_dim`, and the time.
///
/// # Errors
/// If the table is invalid, or no line matches.
pub fn attention(text: &str, only: &Only) -> Result<Vec<Attended>, TableError> {
    let (columns, records) = records(text, only)?;
    let names = [&["batch"][..], &["seq"], &["heads"], &["kv_heads"], &["head_dim"], &TIME];
    let [batch, sequence, heads, groups, width, time] = names.map(|names| column(&columns, names));
    let (batch, sequence, heads, groups, width, time) = (batch?, sequence?, heads?, groups?, width?, time?);
    some(&records, only)?;
    let row = |record: &Record| {
        let extent = |place: usize| {
            let extent = |text: &str| text.parse::<u64>().ok().filter(|extent| (1..=1 << 20).contains(extent));
            record.read(place, extent, "an extent from 1 to 1048576")
        };
        let (batch, sequence, width) = (extent(batch)?, extent(sequence)?, extent(width)?);
        let (queries, groups) = (extent(heads)?, extent(groups)?);
        let heads =
            Heads { heads: batch.saturating_mul(queries), queries: sequence, keys: sequence, width, is_causal: true };
        let rows = batch.saturating_mul(sequence).saturating_mul(2 * (queries + groups));
        let bytes = DType::Bf16.bytes(rows.saturating_mul(width));
        Ok(Attended { heads, bytes, microseconds: record.read(time, microseconds, MICROSECONDS)? })
    };
    records.iter().map(row).collect()
}

/// Reads a table of exchanges with experts: the tokens of a device, the elements of a row in `hidden`, the experts of
/// a token in `topk`, all experts, the devices (or nodes of [`DEVICES_OF_A_NODE`] devices), and both times.
///
/// # Errors
/// If the table is invalid, or no line matches.
pub fn experts(text: &str, only: &Only) -> Result<Vec<Dispatched>, TableError> {
    let (columns, records) = records(text, only)?;
    let names = [["tokens"], ["hidden"], ["topk"], ["experts"], ["dispatch_us"], ["combine_us"]];
    let [tokens, width, chosen, experts, dispatch, combine] = names.map(|names| column(&columns, &names));
    let (tokens, width, chosen, experts, dispatch, combine) = (tokens?, width?, chosen?, experts?, dispatch?, combine?);
    let (devices, each) = match (column(&columns, &DEVICES), column(&columns, &["nodes"])) {
        (Ok(devices), _) => (devices, 1),
        (Err(_), Ok(nodes)) => (nodes, DEVICES_OF_A_NODE),
        (Err(missing), Err(_)) => return Err(missing),
    };
    some(&records, only)?;
    let row = |record: &Record| {
        let count = |place: usize| {
            let count = |text: &str| text.parse().ok().filter(|count| (1..=1 << 24).contains(count));
            record.read(place, count, "a number from 1 to 16777216")
        };
        let tokens = Tokens {
            devices: each * count(devices)?,
            tokens: count(tokens)?,
            width: count(width)?,
            chosen: count(chosen)?,
            experts: count(experts)?,
        };
        if tokens.chosen > tokens.experts {
            let (found, wanted) = (record.field(chosen).to_owned(), "a number of experts of a token");
            return Err(TableError::Field { line: record.line, found, wanted });
        }
        let time = |place: usize| record.read(place, microseconds, MICROSECONDS);
        Ok(Dispatched { tokens, dispatch_us: time(dispatch)?, combine_us: time(combine)? })
    };
    records.iter().map(row).collect()
}

/// Devices of a node in tables that count nodes.
pub const DEVICES_OF_A_NODE: u64 = 8;

/// Bytes per element: the first number in a type name is its bits.
fn element_of(dtype: &str) -> Option<u64> {
    let digits: String = dtype.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().ok().filter(|bits: &u64| [8, 16, 32, 64].contains(bits)).map(|bits| bits / 8)
}

/// The column names, and each matching line with its number.
fn records(text: &str, only: &Only) -> Result<(Vec<String>, Vec<Record>), TableError> {
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
            records.push(Record { line, fields: record });
        }
    }
    Ok((columns, records))
}

/// Checks that at least one line matches.
fn some(records: &[Record], only: &Only) -> Result<(), TableError> {
    if !records.is_empty() {
        return Ok(());
    }
    let wanted: Vec<String> = only.iter().map(|(column, value)| format!("{column}={value}")).collect();
    Err(TableError::Nothing(if wanted.is_empty() { "any figures".to_owned() } else { wanted.join(" and ") }))
}

/// Index of a column with one of these names.
fn column(columns: &[String], names: &[&str]) -> Result<usize, TableError> {
    let place = columns.iter().position(|column| names.contains(&column.as_str()));
    place.ok_or_else(|| TableError::NoColumn { wanted: names.join("` or `"), known: columns.join(", ") })
}

/// Reads the output of `all_reduce_perf` and similar programs: devices as `#  Rank  0 ..`, then lines with the bytes
/// in the first field and the out-of-place time in the sixth. For AllToAll, the bytes are those of one device.
fn nccl_tests(text: &str) -> Result<Vec<Collective>, TableError> {
    let comments = || text.lines().filter_map(|line| line.trim_start().strip_prefix('#'));
    let kind = comments().filter(|line| line.contains("test starting") || line.contains("_perf"));
    let kind = kind.flat_map(str::split_whitespace).find_map(kind_of);
    let kind =
        kind.ok_or(TableError::Unsaid("the collective, such as `# Collective test starting: all_reduce_perf`"))?;
    let ranks: BTreeSet<&str> =
        comments().filter_map(|line| line.trim_start().strip_prefix("Rank")?.split_whitespace().next()).collect();
    let devices = u32::try_from(ranks.len()).ok().filter(|devices| *devices > 1);
    let devices = devices.ok_or(TableError::Unsaid("the devices, such as `#  Rank  0 ..`, at least 2"))?;
    let mut rows = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let Some(bytes) = fields.first().and_then(|field| field.parse::<u64>().ok()).filter(|bytes| *bytes > 0) else {
            continue;
        };
        let time = fields.get(5).copied().unwrap_or("");
        let wanted = MICROSECONDS;
        let microseconds =
            microseconds(time).ok_or_else(|| TableError::Field { line, found: time.to_owned(), wanted })?;
        let all = if kind == CollectiveKind::AllToAll { u64::from(devices) } else { 1 };
        let is_float = fields.get(2).is_some_and(|dtype| is_float(dtype));
        rows.push(Collective { kind, devices, is_float, bytes: bytes.saturating_mul(all), microseconds });
    }
    if rows.is_empty() { Err(TableError::Nothing("any figures".to_owned())) } else { Ok(rows) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "System, Collective, dtype, GPUs, bytes, us\n# a comment\na, all_gather, f16, 8, 1024, 9.5\n\
        b, AllToAll, i8, 4, 4096, 12\n";

    #[test]
    fn columns_have_any_order_and_spelling() {
        let rows = collectives(TABLE, &[]).expect("a table");
        let first =
            Collective { kind: CollectiveKind::AllGather, devices: 8, is_float: true, bytes: 1024, microseconds: 9.5 };
        assert_eq!((rows.len(), &rows[0]), (2, &first));
        let only = [("system".to_owned(), "b".to_owned())];
        assert_eq!(collectives(TABLE, &only).expect("a line").len(), 1);
        let rows = products("m,n,k,dtype,us\n1,2,3,fp8,4.5\n", &[]).expect("a table");
        assert_eq!(rows, [Product { m: 1, n: 2, k: 3, element: 1, is_float: true, result: 2, microseconds: 4.5 }]);
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        let message = |text: &str| collectives(text, &[]).expect_err("no table").to_string();
        assert!(
            message("collective,devices,us\n").contains("missing column `bytes` or `array_bytes`"),
            "{}",
            message("a\n")
        );
        assert_eq!(
            message("collective,devices,bytes,us\nallgather,8,1,1\nscan,8,1,1\n"),
            "line 3: `scan` is not AllGather, ReduceScatter, AllReduce or AllToAll"
        );
        for (line, wanted) in [
            ("allgather,1,8,1", "a number of devices, at least 2"),
            ("allgather,2,many,1", "a number of bytes"),
            ("allgather,2,8,nan", "a time above 0 in microseconds"),
            ("allgather,2,8,-1", "a time above 0 in microseconds"),
            ("allgather,2,8,0", "a time above 0 in microseconds"),
        ] {
            let found = message(&format!("collective,devices,bytes,us\n{line}\n"));
            assert!(found.starts_with("line 2: ") && found.ends_with(wanted), "{found}");
        }
        assert_eq!(message("collective,devices,bytes,us\n"), "no line has any figures");
        let only = [("system".to_owned(), "c".to_owned())];
        assert_eq!(collectives(TABLE, &only).expect_err("no line").to_string(), "no line has system=c");
        assert!(products("m,n,k,dtype,us\n0,1,1,bf16,1\n", &[]).is_err());
        assert!(products("m,n,k,dtype,us\n1,1,1,half,1\n", &[]).is_err());
    }

    #[test]
    fn tokens_and_their_experts_are_read() {
        let table = "nodes,hidden,tokens,topk,experts,dispatch_us,combine_us\n1,2048,4,8,128,32.4,38.5\n";
        let tokens = Tokens { devices: 8, tokens: 4, width: 2048, chosen: 8, experts: 128 };
        let rows = [Dispatched { tokens, dispatch_us: 32.4, combine_us: 38.5 }];
        assert_eq!(experts(table, &[]).as_deref(), Ok(&rows[..]));
        let of_devices = table.replace("nodes", "devices").replace("\n1,", "\n8,");
        assert_eq!(experts(&of_devices, &[]).as_deref(), Ok(&rows[..]));
        let message = |from: &str, to: &str| experts(&table.replace(from, to), &[]).expect_err("no table").to_string();
        assert!(message("nodes,", "n,").contains("missing column `devices` or `ranks` or `gpus`"));
        assert_eq!(message(",8,128", ",8,7"), "line 2: `8` is not a number of experts of a token");
        assert_eq!(message(",8,128", ",8,0"), "line 2: `0` is not a number from 1 to 16777216");
        assert_eq!(message("38.5", "0"), "line 2: `0` is not a time above 0 in microseconds");
    }

    #[test]
    fn what_nccl_tests_print_is_read() {
        let text = "# Collective test starting: alltoall_perf\n# nThread 1 nGpus 2 minBytes 8 maxBytes 16\n\
            # Using devices\n#  Rank  0 Group  0 Pid 1 on a device  0 [0x0f] NVIDIA H100\n\
            #  Rank  1 Group  0 Pid 1 on a device  1 [0x2d] NVIDIA H100\n\
            #       size         count      type   redop    root     time   algbw   busbw #wrong     time\n\
            #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)\n\
            \x20          0             0     float    none      -1     5.00    0.00    0.00      0     5.01\n\
            \x20       1024           256     float    none      -1    11.25    0.09    0.09      0    11.10\n\
            # Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.1\n";
        let rows = collectives(text, &[]).expect("a table");
        let of =
            Collective { kind: CollectiveKind::AllToAll, devices: 2, is_float: true, bytes: 2048, microseconds: 11.25 };
        assert_eq!(rows, [of]);
        let without_ranks: String =
            text.lines().filter(|line| !line.contains("Rank")).map(|line| format!("{line}\n")).collect();
        assert!(
            collectives(&without_ranks, &[]).expect_err("no devices").to_string().contains("does not name the devices")
        );
    }
}
