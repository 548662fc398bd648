//! How near the methods come to the bounds: `docs/methods.md`, and what is aimed at.
//!
//! `SHARDC_METHODS=write cargo test --test clock method_table` writes the document, the name of a machine or of a
//! collective instead of `write` only its rows. Without it small machines are timed anew and must agree with what is
//! written.

mod rows;

use crate::common::step_methods;
use itertools::iproduct;
use rows::{KINDS, Machine, SIZES, families};
use shardc::compiler::{self, Options};
use shardc::report::step_bound;
use shardc::sim::clock;
use std::fmt::Write as _;

/// One line of the table.
struct Row {
    text: String,
    /// Time over bound.
    ratio: f64,
}

/// Times one collective.
///
/// # Panics
/// If it takes less than its bound.
fn row(machine: &Machine, kind: &str, size: usize) -> Row {
    let source = machine.program(kind, size);
    let (program, found) = compiler::check(&source);
    let program = program.unwrap_or_else(|| panic!("{found:?}\n{source}"));
    let compiled =
        compiler::preview(&program, &Options::default()).unwrap_or_else(|found| panic!("{found:?}\n{source}"));
    let step = crate::common::first_collective(&compiled);
    let (plan, topology) = (&compiled.plan, &compiled.topology);
    let makespan = clock::run(&compiled.schedule, topology).expect("a time").makespan;
    let certificate = step_bound(plan, step, topology);
    let bound = certificate.bound;
    assert!(makespan >= bound.time(), "{kind} on {} beats its bound\n{source}", machine.name);
    let ratio = makespan.ratio(bound.time());
    let bound_by_bytes = bound.bandwidth >= bound.latency * 100;
    let place = KINDS.iter().position(|known| *known == kind).expect("one of the kinds");
    let target = match machine.targets[place].filter(|_| bound_by_bytes) {
        Some(target) if ratio <= target + ROUNDING => format!("{target:.2}"),
        Some(target) => format!("{target:.2}, not yet"),
        None => String::new(),
    };
    let text = format!(
        "| {} | {kind} | {} | {} | {} | {} | {ratio:.3} | {target} | {} |",
        machine.name,
        SIZES[size],
        step_methods(&compiled.schedule, step),
        topology.scale.show(makespan),
        topology.scale.show(bound.time()),
        certificate.words().unwrap_or_default(),
    );
    Row { text, ratio }
}

/// A ratio of 1.00 is meant rounded.
const ROUNDING: f64 = 0.005;

const HEAD: &str = "\
# Methods against their bounds

What `shardc` chooses for each collective over all axes of a machine, how long it takes on the simulated links, and
what no schedule can beat. Made by `SHARDC_METHODS=write cargo test --test clock method_table`.

V, the whole array, is one byte an element. With n devices it has 4n rows of 1 column (*small*), 4n of 256 (*middle*)
or 16n of 4096 · 4099 (*large*); for an AllToAll the columns are rounded up to a multiple of n. The *cut* is what the bound
counts: links that carry all this cannot be done sooner. A target is set where bytes take at least a hundred times as
long as hops; *not yet* marks those that are missed.

What stays above its bound by more than 5 %, and why:

";

/// A row as it is written.
struct Cells<'a> {
    machine: &'a str,
    kind: &'a str,
    size: &'a str,
    ratio: f64,
    target: &'a str,
}

/// Of which rows something is true.
type Holds = fn(&Cells<'_>) -> bool;

/// Why a ratio is above 1.05 where nothing is aimed at, and of which rows that is true.
const REASONS: [(&str, Holds); 7] = [
    (
        "Between *small* and *large* hops and bytes both take their time, and the bound counts the larger of the two; what\n  \
         is scattered and gathered pays the hops twice, of which the bound counts one way.",
        |row| row.size == "middle" && !row.machine.contains("switch") && !row.machine.contains("nodes"),
    ),
    (
        "Over a switch few bytes go in about log2 n rounds, a sum in twice as many, and in a network of nodes in those of\n  \
         both levels. The bound counts one hop, as if a device could send to all others at once.",
        |row| row.size != "large" && (row.machine.contains("switch") || row.machine.contains("nodes")),
    ),
    (
        "A small exchange on a torus less a cable goes straight, each message by itself, and those that pass the gap make\n  \
         a detour; so does a large one, which loads the links beside the gap (1.76).",
        |row| row.kind == "AllToAll" && row.machine.ends_with("less a cable"),
    ),
    (
        "On a torus less a cable trees that are packed for bytes are deeper than the shortest ways, and sums of few bytes go\n  \
         axis by axis, around the gap.",
        |row| row.size != "large" && row.machine.ends_with("less a cable"),
    ),
    (
        "An AllReduce on an 8x16 mesh of which one axis wraps (1.25) scatters and gathers, so that the inner links of the\n  \
         line are idle in turns. Trees for it are packed for up to 64 devices; it has 128.",
        |row| row.kind == "AllReduce" && row.machine.starts_with("8x16"),
    ),
    (
        "An AllReduce on a line of 256 (1.06) needs 5100 chunks for 1.05, and a broadcast around a ring of 256 (1.06) or on a\n  \
         32x32 torus (1.12) more than it has: more operations than the proof takes.",
        |row| match row.kind {
            "AllReduce" => row.machine == "line of 256",
            "Broadcast" => ["line of 256", "ring of 256", "32x32 torus"].contains(&row.machine),
            _ => false,
        },
    ),
    (
        "A broadcast over the 8960 devices of 16x20x28 is scattered and gathered, which takes about twice the bound: its\n  \
         trees would be too deep to be proven.",
        |row| row.kind == "Broadcast" && row.machine == "16x20x28 torus",
    ),
];

/// The document, with the rows of all machines anew, or of those of one name.
fn document(asked: &str, written: &str) -> String {
    let mut text = HEAD.to_owned();
    for (reason, _) in REASONS {
        writeln!(text, "- {reason}").expect("a string");
    }
    text.push_str(
        "\nThe collectives here go over all axes. A gather that leaves an axis idle can borrow its links (`using idle_axis`),\n\
         which halves the time of one along one of two rings (`tests/schedules/idle.rs`). That is not chosen by itself: what\n\
         runs a plan in JAX or NCCL has no such gather, and the axis may be busy with another collective.\n",
    );
    for family in families() {
        write!(text, "\n## {}\n\n", family.title).expect("a string");
        text.push_str("| machine | collective | V | method | time | bound | ratio | target | cut |\n");
        text.push_str("| --- | --- | --- | --- | ---: | ---: | ---: | --- | --- |\n");
        for machine in &family.machines {
            for kind in KINDS {
                if ![machine.name.as_str(), kind, "write"].contains(&asked) {
                    let own = format!("| {} | {kind} |", machine.name);
                    written.lines().filter(|line| line.starts_with(&own)).for_each(|line| {
                        writeln!(text, "{line}").expect("a string");
                    });
                    continue;
                }
                for size in 0..SIZES.len() {
                    writeln!(text, "{}", row(machine, kind, size).text).expect("a string");
                }
            }
        }
    }
    text
}

/// What is written is what comes out, for machines of up to 16 devices; and the targets that are marked as reached are.
#[test]
fn the_document_is_true() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/methods.md");
    if let Ok(asked) = std::env::var("SHARDC_METHODS") {
        let written = std::fs::read_to_string(path).unwrap_or_default();
        std::fs::write(path, document(&asked, &written)).expect("a writable tree");
    }
    let text = std::fs::read_to_string(path).expect("docs/methods.md");
    let written: Vec<&str> = text.lines().collect();
    let families = families();
    let small: Vec<_> =
        families.iter().flat_map(|family| &family.machines).filter(|machine| machine.devices <= 16).collect();
    let check = |machine| {
        for (kind, size) in KINDS.iter().flat_map(|kind| (0..SIZES.len()).map(move |size| (kind, size))) {
            let row = row(machine, kind, size);
            assert!(row.ratio >= 1.0);
            assert!(written.contains(&row.text.as_str()), "write docs/methods.md anew, for:\n{}", row.text);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let (small, check) = (&small, &check);
            scope.spawn(move || small.iter().skip(worker).step_by(workers).for_each(|machine| check(machine)));
        }
    });
}

/// Every machine has all its rows; no ratio is below 1, no target is missed, and every other one has a reason.
#[test]
fn targets_are_kept_and_the_rest_has_a_reason() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/methods.md")).expect("a document");
    let mut rows =
        text.lines().filter(|line| line.starts_with("| ") && !line.contains("---") && !line.contains("| V |"));
    for (machine, kind, size) in iproduct!(families().iter().flat_map(|family| &family.machines), KINDS, SIZES) {
        let row = rows.next().unwrap_or_else(|| panic!("no row for {kind} on {}", machine.name));
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert_eq!([cells[1], cells[2], cells[3]], [&machine.name, kind, size], "{row}");
        let ratio = cells[7].parse().unwrap_or_else(|_| panic!("{row}"));
        let cells = Cells { machine: cells[1], kind, size, ratio, target: cells[8] };
        assert!(cells.ratio >= 1.0, "a bound is beaten: {row}");
        let aimed: Option<f64> =
            (!cells.target.is_empty()).then(|| cells.target.parse().unwrap_or_else(|_| panic!("missed: {row}")));
        assert!(aimed.is_none_or(|target| cells.ratio <= target + ROUNDING), "missed: {row}");
        let explained = aimed.is_some() || cells.ratio <= 1.05 || REASONS.iter().any(|(_, holds)| holds(&cells));
        assert!(explained, "no reason: {row}");
    }
    assert_eq!(rows.next(), None, "one row too many");
    for (reason, _) in REASONS {
        assert!(text.contains(reason), "write docs/methods.md anew, for: {reason}");
    }
}
