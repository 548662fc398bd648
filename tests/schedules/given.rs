//! Schedules given as text or JSON: their proofs, errors and times.
//!
//! The outputs in `docs/schedules.md` are generated here: `INSTA_UPDATE=always cargo test --test schedules given`
//! writes them into the page.

use crate::common::process::{self, fed, text};
use crate::common::{compile, files_of};
use shardc::compiler::{self, Options};
use shardc::diag::Diagnostics;
use shardc::report::contents;
use shardc::report::given::Given;
use shardc::schedule::{OpKind, Schedule, Sources, Unread, from_json, from_text, is_schedule, to_json};
use shardc::sim::{clock, proof, values};
use shardc::span::LineIndex;
use shardc::topology::Topology;
use shardc::units::Rate;
use std::path::{Path, PathBuf};
use std::process::Output;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn example(name: &str) -> String {
    std::fs::read_to_string(root().join("examples/schedules").join(name)).expect("an example")
}

/// The schedule, or its diagnostics.
fn found(source: &str) -> Result<(Schedule, Topology), Diagnostics> {
    let written = from_text(source).map_err(|unread| match unread {
        Unread::Text(found) | Unread::Malformed(found) => found,
    })?;
    let given = Given { schedule: written.schedule, places: Some(written.places) };
    let topology = compiler::machine_of(&given.schedule, &Options::default()).expect("a machine");
    compiler::prove(&given.schedule, &topology).map_err(|flaw| given.flaw(&flaw))?;
    Ok((given.schedule, topology))
}

fn right(source: &str) -> (Schedule, Topology) {
    found(source).unwrap_or_else(|found| panic!("{found:?}\n{source}"))
}

/// The code, line and message of the only error.
fn wrong(source: &str) -> String {
    let found = found(source).err().unwrap_or_else(|| panic!("this is right:\n{source}"));
    let index = LineIndex::new(source);
    let line = |found: &shardc::diag::Diagnostic| {
        let (line, column) = index.line_column(source, found.span().start);
        format!("{line}:{column} {}: {}", found.code, found.message)
    };
    found.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn shardc(arguments: &[&str], input: &str) -> Output {
    fed(&mut process::shardc(root(), arguments), input)
}

/// Schedules named as wrong are refused; the others are proven, timed, compute the dense result, and are read back
/// unchanged in all formats.
#[test]
fn schedules_written_by_hand() {
    let examples = files_of("examples/schedules", "schedule");
    assert!(examples.len() >= 4);
    for path in examples {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let source = std::fs::read_to_string(&path).expect("an example");
        assert!(is_schedule(&source) && source.starts_with("# "), "{name}");
        if name.starts_with("wrong_") {
            assert!(wrong(&source).contains("proof-"), "{name}");
            continue;
        }
        let (schedule, topology) = right(&source);
        let timing = clock::run(&schedule, &topology).expect("a time");
        let written = schedule.to_string();
        let read = from_text(&written).expect("the text form").schedule;
        let document = from_json(&to_json(&schedule)).expect("the JSON form");
        for again in [read, document] {
            assert_eq!(again.to_string(), written, "{name}");
            assert_eq!(clock::run(&again, &topology).as_ref(), Ok(&timing), "{name}");
            proof::prove(&again).unwrap_or_else(|flaw| panic!("{name}: {flaw}"));
        }
        let inputs = values::inputs(&schedule, 1).expect("small");
        let dense = values::dense(&schedule, &inputs).expect("small");
        let run = values::run(&schedule, &inputs).expect("small");
        assert!(values::compare(&schedule, &inputs, &dense, &run).expect("comparable").equal, "{name}");
    }
}

/// G29: the vectors equal those of the description.
#[test]
fn g29_as_it_is_described() {
    let (schedule, _) = right(&example("furiosa_reduce_scatter.schedule"));
    let by_method =
        compile(&std::fs::read_to_string(root().join("examples/furiosa/reduce_scatter.shard")).expect("it"));
    let shuffles = |schedule: &Schedule| -> Vec<Vec<u32>> {
        let sources = schedule.ids().filter_map(|id| match &schedule.operation(id).kind {
            OpKind::Shuffle { sources, .. } => Some(sources.clone()),
            _ => None,
        });
        let all = |sources: Sources| {
            schedule.mesh.devices().filter_map(|at| Some(sources.of(&schedule.mesh, at)?.0)).collect()
        };
        sources.map(all).collect()
    };
    assert_eq!(shuffles(&schedule), [[1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]);
    assert_eq!(shuffles(&schedule), shuffles(&by_method.schedule));
}

/// The listing of one value: chip by chip, without names of chips and arrays.
fn listed(source: &str, value: &str) -> Vec<String> {
    let written = from_text(source).expect("a schedule");
    let given = Given { schedule: written.schedule, places: Some(written.places) };
    let id = given.named(value).expect("a value of this name");
    let text = contents::contents(&given, source, &[id]).expect("it is right");
    let mut lines = text.lines();
    assert!(lines.next().is_some_and(|line| line.starts_with(&format!("%{value} = "))), "{text}");
    let chips = lines.enumerate().map(|(chip, line)| {
        let line = line.strip_prefix(&format!("  chip {chip}  ")).unwrap_or_else(|| panic!("{text}"));
        line.split_once(' ').expect("an array").1.to_owned()
    });
    chips.collect()
}

/// G29: T0 to T3 of the ReduceScatter hold what the description lists chip by chip, row and column.
#[test]
fn g29_tensors_by_name() {
    let source = example("furiosa_tensors.schedule");
    let described = [
        [(0, 0), (1, 1), (2, 2), (3, 3)],
        [(1, 0), (2, 1), (3, 2), (0, 3)],
        [(2, 0), (3, 1), (0, 2), (1, 3)],
        [(3, 0), (0, 1), (1, 2), (2, 3)],
    ];
    for (k, chips) in described.iter().enumerate() {
        let expected = chips.map(|(a, b)| format!("(A={a}, B={b})"));
        assert_eq!(listed(&source, &format!("T{k}")), expected);
        assert_eq!(listed(&source, &format!("R{k}")), expected, "a contribution to the sum over A");
    }
    assert_eq!(listed(&source, "S1"), ["(A=0, B=3)", "(A=1, B=0)", "(A=2, B=1)", "(A=3, B=2)"]);
    assert_eq!(listed(&source, "Out"), [0, 1, 2, 3].map(|b| format!("(B={b})")));
}

/// The tensors of the AllReduce: the whole row of each chip, rotated. The parts of an open sum are named by the coordinate of their
/// device along the axis.
#[test]
fn the_rotated_tensors_by_name() {
    let text = "\
        mesh {chip: 4 switch}\n\
        array In: i8[B 4] = input\n\
        %T0 = input In[B]{U_chip} : i8[4]\n\
        %T1 = shuffle (1,2,3,0) via chip %T0 : i8[4]\n\
        %T2 = shuffle (2,3,0,1) via chip %T0 : i8[4]\n\
        %T3 = shuffle (3,0,1,2) via chip %T0 : i8[4]\n\
        %two = add sum %T0, %T1 : i8[4]\n\
        %all = add sum %T0, %T1, %T2, %T3 : i8[4]\n\
        output %all = In[B]\n";
    for k in 0..4 {
        let row = |chip: usize| (0..4).map(move |b| format!("(chip={}, B={b})", (chip + k) % 4));
        let expected: Vec<String> = (0..4).map(|chip| row(chip).collect::<Vec<_>>().join(", ")).collect();
        assert_eq!(listed(text, &format!("T{k}")), expected);
    }
    assert_eq!(listed(text, "two")[3].split(", (chip=0, B=1)").next(), Some("(chip=0, B=0) + (chip=3, B=0)"));
    assert_eq!(listed(text, "all")[2], "(B=0), (B=1), (B=2), (B=3)");
}

/// Many elements are listed as ranges; many devices are refused.
#[test]
fn contents_of_large_blocks() {
    let ring = example("ring_all_gather.schedule");
    let show = |arguments: &[&str], input: &str| {
        let output = shardc(&[&["show", "-"], arguments].concat(), input);
        (text(&output.stdout), text(&output.stderr), output.status.code())
    };
    let (shown, _, status) = show(&["two"], &ring);
    assert_eq!(status, Some(0));
    assert!(shown.starts_with("%two = shuffle (3,0,1,2) via X+1 %one : bf16[16, 512]\n"), "{shown}");
    assert!(shown.contains("  X 0  A (I=32..48, J=0..512)\n  X 1  A (I=48..64, J=0..512)\n"), "{shown}");
    let (shown, _, _) = show(&[], &ring);
    assert_eq!(shown.lines().filter(|line| line.starts_with('%')).count(), 5);
    // One element, the sum of a million products.
    let sum = "\
        mesh {X: 4 ring}\n\
        array A: bf16[K 4194304] = input\n\
        array C: bf16[] = A * A by a,a->\n\
        %0 = input A[K_X] : bf16[1048576]\n\
        %1 = mat_mul a,a-> %0, %0 : bf16[]\n\
        output %1 = C[]{U_X}\n";
    let (shown, error, status) = show(&["1"], sum);
    assert!(shown.ends_with("  X 3  C (K=3145728..4194304)\n"), "{status:?} {shown} {error}");
    let (_, error, status) = show(&["three_"], &ring);
    assert!(error.contains("did you mean `%three`") && status == Some(2), "{error}");
    let large = "mesh {X: 128}\narray A: bf16[I 128] = input\n%0 = input A[I_X] : bf16[1]\noutput %0 = A[I_X]\n";
    let (_, error, status) = show(&[], large);
    assert!(error.contains("the contents of 128 devices are too many to list") && status == Some(2), "{error}");
    let (_, error, status) = show(&["--format", "json"], &ring);
    assert!(error.contains("no JSON form") && status == Some(2), "{error}");
}

/// G34: the bytes of one port plus 5 pieces; within 1 % of 6 hops of 1 us plus the bytes.
#[test]
fn g34_from_corner_to_corner() {
    let (schedule, topology) = right(&example("point_to_point.schedule"));
    let timing = clock::run(&schedule, &topology).expect("a time");
    let (one_way, pieces) = (Rate::new(45_000_000_000).expect("a rate"), 128);
    let piece = topology.scale.at_rate(8 * 128 * 8192 * 2 / 2 / pieces, one_way);
    assert_eq!(timing.makespan, piece * (128 + 5));
    let seconds = topology.scale.seconds(timing.makespan);
    assert!((seconds / 192.4e-6 - 1.0).abs() < 0.01, "{seconds}");
}

#[test]
fn flaws_are_told_in_the_names_of_the_text() {
    insta::assert_snapshot!(wrong(&example("wrong_ring_all_reduce.schedule")), @"14:1 proof-counted-twice: %sum4 on d0 (X 0): A[I 0..8] is counted twice: operands 0 and 1 share a contribution");
    let ring = example("ring_all_gather.schedule");
    let cases = [
        ("%two at [(2,3,0,1)", "%two at [(1,2,3,0)"),
        ("via X+1 %own", "via X+2 %own"),
        ("via X+1 %own", "via Y+1 %own"),
        ("%own = input", "%one = input"),
        ("A[I, J]", "A[I, K]"),
        ("output %all = A[I, J]", "output %everything = A[I, J]"),
        ("%one : bf16[16, 512]", "%one : bf16[16, 51]"),
        ("shuffle (3,0,1,2) via X+1 %two", "shuffle (3,0,1,2 via X+1 %two"),
        ("mesh {X: 4 ring}", "mesh {X: 0}"),
        ("mesh {X: 4 ring}", ""),
        ("array A: bf16", "array A: bf17"),
    ];
    let report: Vec<String> = cases
        .iter()
        .map(|(from, to)| {
            assert!(ring.contains(from), "{from}");
            format!("{to}\n  {}", wrong(&ring.replacen(from, to, 1)).replace('\n', "\n  "))
        })
        .collect();
    insta::assert_snapshot!(report.join("\n"), @r"
    %two at [(1,2,3,0)
      10:1 proof-filled-twice: %all on d0 (X 0): operands 2 and 3 overlap at [1..2, 0..16, 0..512]
    via X+2 %own
      7:1 schedule-malformed: `%one` is malformed: 2 hops do not lead to the sources of the shuffle
    via Y+1 %own
      7:30 schedule-word: `Y` is not an axis of the mesh
    %one = input
      7:1 schedule-twice: `%one` is defined twice
      11:5 schedule-word: `%own` is not a value defined above
    A[I, K]
      17:16 schedule-dims: the dims of `A` are `[I, J]`
    output %everything = A[I, J]
      17:8 schedule-word: `%everything` is not a value defined above
    %one : bf16[16, 51]
      8:1 schedule-malformed: `%two` is malformed: expected extents [16, 512] from the operands, found [16, 51]
    shuffle (3,0,1,2 via X+1 %two
      9:27 schedule-syntax: unexpected `via`
    mesh {X: 0}
      3:1 schedule-mesh: the mesh is empty or too large: at most 15 axes and 1048576 devices

      4:1 schedule-syntax: a schedule must begin with its mesh
    array A: bf17
      4:10 schedule-word: `bf17` is not an element type such as `bf16`
    ");
}

/// A reshape keeps the elements and their order: what is sliced out of it has the rows of the array, or the schedule is refused.
#[test]
fn reshapes_keep_elements_in_order() {
    let source = |flat: u64, first: &str, second: &str| {
        format!(
            "mesh {{X: 2 ring}}\narray A: i32[I 4, J 3] = input\n%0 = input A[I_X, J] : i32[2, 3]\n\
             %1 = reshape %0 : i32[{flat}]\n%2 = slice [{first}] %1 : i32[3]\n%3 = slice [{second}] %1 : i32[3]\n\
             %4 = assemble %2 at [0..3], %3 at [3..6] : i32[6]\n%5 = reshape %4 : i32[2, 3]\noutput %5 = A[I_X, J]\n"
        )
    };
    let proved = |text: &str| shardc(&["prove", "-"], text);
    let right = proved(&source(6, "0..3", "3..6"));
    assert_eq!(right.status.code(), Some(0), "{}", text(&right.stderr));
    for (wrong, says) in [
        (source(7, "0..3", "3..6"), "a reshape from [2, 3] to [7] changes"),
        (source(6, "3..6", "0..3"), "proof-wrong-place"),
        (source(6, "0..3", "2..5"), "proof-wrong-place"),
    ] {
        let output = proved(&wrong);
        assert_eq!(output.status.code(), Some(1), "{wrong}");
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
    }
}

/// Texts with one to three changes: those that can be read are proven or refused, and proven ones can be timed and
/// compute the dense result; nothing panics.
#[test]
fn damaged_schedules_never_panic() {
    let words = "0 1 2 3 4 7 16 64 -1 - ( ) [ ] , : % %0 %own %one %two X Y XY {X,Y} I J A via over of dim at + input slice \
        shuffle add assemble all_gather mat_mul reduce map fill sum max relu ab->ab ab->ba a->a i32 bf16 (1,0) (0,1,2,3) \
        (3,0,1,2) (-,0,1,2) (x+1) x-1 mod 0..2 {U_X} {MAX_X} ring line switch output array step";
    let words: Vec<&str> = words.split_whitespace().collect();
    let page = std::fs::read_to_string(root().join("docs/schedules.md")).expect("the page");
    let names = ["ring_all_gather.schedule", "furiosa_reduce_scatter.schedule", "wrong_ring_all_reduce.schedule"];
    let shown = page.split("```schedule\n").skip(1).filter_map(|rest| rest.split("```").next());
    let seeds: Vec<String> = names.iter().map(|name| example(name)).chain(shown.map(str::to_owned)).collect();
    let mut random = fastrand::Rng::with_seed(11);
    let (mut read, mut proven) = (0, 0);
    for _ in 0..5000 {
        let mut text = seeds[random.usize(..seeds.len())].clone();
        for _ in 0..random.usize(1..=3) {
            // Usually a word is replaced by another one, so that many texts can still be read.
            let starts: Vec<usize> = text.match_indices([' ', ',', '(', '[']).map(|(at, _)| at + 1).collect();
            let at = starts[random.usize(..starts.len())];
            let length = text[at..].find([' ', ',', ')', ']', '\n']).unwrap_or(0);
            let end = if random.u32(..8) == 0 { (at + random.usize(..30)).min(text.len()) } else { at + length };
            text.replace_range(at..end, words[random.usize(..words.len())]);
        }
        let Ok(written) = from_text(&text) else { continue };
        read += 1;
        assert_eq!(
            from_text(&written.schedule.to_string()).expect("it was read").schedule.to_string(),
            written.schedule.to_string()
        );
        let Ok((schedule, topology)) = found(&text) else { continue };
        proven += 1;
        clock::run(&schedule, &topology).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let inputs = values::inputs(&schedule, 3).expect("small");
        let dense = values::dense(&schedule, &inputs).expect("small");
        let run = values::run(&schedule, &inputs).expect("small");
        let numerics = values::compare(&schedule, &inputs, &dense, &run).expect("comparable");
        assert!(numerics.equal || numerics.within, "{text}");
    }
    assert!(read > 300 && proven > 200, "{read} read, {proven} proven");
}

#[test]
fn the_command_ends_by_what_is_wrong() {
    let wrong = shardc(&["prove", "examples/schedules/wrong_ring_all_reduce.schedule"], "");
    assert_eq!((wrong.status.code(), text(&wrong.stdout)), (Some(1), String::new()));
    assert!(text(&wrong.stderr).contains("schedule:14:1"), "{}", text(&wrong.stderr));
    let ring = example("ring_all_gather.schedule");
    let right = shardc(&["prove", "-"], &ring);
    assert_eq!(right.status.code(), Some(0), "{}", text(&right.stderr));
    assert!(text(&right.stdout).contains("%all is A[I, J]"));
    for (what, input, code, says) in [
        ("malformed", ring.replace("[16, 512]", "[16, 511]"), 1, "schedule-malformed"),
        ("unreadable", ring.replace("via", "over"), 2, "is not a schedule"),
        ("a program", "mesh {X: 2}\ndims {I: 4}\nA: bf16[I_X]\n".to_owned(), 2, "is not a schedule"),
        ("half a document", "{\"schema\": ".to_owned(), 2, "<stdin>:1:10"),
        ("nothing", String::new(), 2, "a schedule must begin with its mesh"),
    ] {
        let output = shardc(&["prove", "-"], &input);
        assert_eq!(output.status.code(), Some(code), "{what}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(says), "{what}: {}", text(&output.stderr));
    }
    let strict = shardc(&["time", "-", "--strict"], &ring);
    assert_eq!(strict.status.code(), Some(2));
    assert!(text(&strict.stderr).contains("`--strict` applies to programs"));
}

/// Text and JSON of a compiled schedule are accepted by the command.
#[test]
fn what_is_compiled_can_be_given_back() {
    let file = "examples/book/case3.shard";
    let [plain, json] = ["text", "json"]
        .map(|format| text(&shardc(&["compile", file, "--emit", "schedule", "--format", format], "").stdout));
    let document = |input: &str, command: &str| -> serde_json::Value {
        let output = shardc(&[command, "-", "--format", "json"], input);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_str(&text(&output.stdout)).expect("JSON")
    };
    for command in ["prove", "time", "run"] {
        let (from_text, from_json) = (document(&plain, command), document(&json, command));
        assert_eq!(from_text, from_json, "{command}");
        assert_eq!(from_text["proof"]["proven"], true, "{command}");
        assert_eq!(from_text["time"].is_null(), command == "prove");
        assert_eq!(
            from_text["numerics"]["equal"],
            if command == "run" { true.into() } else { serde_json::Value::Null }
        );
    }
    let program: serde_json::Value =
        serde_json::from_str(&text(&shardc(&["time", file, "--format", "json"], "").stdout)).expect("JSON");
    // A schedule does not name the machine of its program.
    let timed = text(&shardc(&["time", "-", "--hardware", "tpu_v4p", "--format", "json"], &plain).stdout);
    let timed: serde_json::Value = serde_json::from_str(&timed).expect("JSON");
    assert_eq!(timed["time"]["makespan_s"], program["time"]["makespan_s"]);
}

/// Every schedule of the page is correct, and the printed report is real.
#[test]
fn the_page_is_true() {
    let path = root().join("docs/schedules.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let mut pieces: Vec<String> = page.split("```").map(str::to_owned).collect();
    let mut schedules = 0;
    for piece in pieces.iter_mut().skip(1).step_by(2) {
        let (info, inside) = piece.split_once('\n').expect("a fence ends its line");
        if info == "schedule" {
            right(inside);
            schedules += 1;
        }
        if let Some(file) = info.strip_prefix("text report=") {
            let output = shardc(&["prove", file], "");
            *piece = format!("{info}\n$ shardc prove {file}\n{}", text(&output.stderr));
        }
    }
    assert_eq!(schedules, 2);
    let made = pieces.join("```");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, &made).expect("the page is written");
    } else {
        assert_eq!(made, page, "docs/schedules.md is old");
    }
}
