//! Modules written by hand: groups, loops, asynchronous collectives, and places.

use super::{Kind, Module, Move, Place, priced, read};
use crate::compiler::{self, Options};
use crate::costs::CostModel;

/// A module of 8 devices with these lines in its entry.
fn module(before: &str, entry: &str) -> Module {
    let text = format!(
        "HloModule jit_f, is_scheduled=true, num_partitions=8\n\nFileNames\n1 \"/home/me/model.py\"\n2 \"/x/other.py\"\n\n\
         FileLocations\n1 {{file_name_id=1 function_name_id=1 line=11 end_line=11 column=2 end_column=2}}\n\
         2 {{file_name_id=2 function_name_id=1 line=7 end_line=8 column=2 end_column=2}}\n\n\
         StackFrames\n1 {{file_location_id=1 parent_frame_id=1}}\n2 {{file_location_id=2 parent_frame_id=1}}\n\n\
         {before}\nENTRY %main (p: f32[16]) -> f32[16] {{\n{entry}\n}}\n"
    );
    read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn only(entry: &str) -> Move {
    let [one] = <[Move; 1]>::try_from(module("", entry).moves).expect("one collective");
    one
}

#[test]
fn groups_have_three_forms() {
    let groups = |written: &str| {
        only(&format!("  %r = f32[16]{{0}} all-reduce(%p), replica_groups={written}, to_apply=%add")).groups
    };
    let pairs = vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]];
    assert_eq!(groups("{{0,1},{2,3},{4,5},{6,7}}"), pairs);
    assert_eq!(groups("[4,2]<=[8]"), pairs);
    assert_eq!(groups("{}"), [[0, 1, 2, 3, 4, 5, 6, 7]]);
    assert_eq!(groups("[2,4]<=[4,2]T(1,0)"), [[0, 2, 4, 6], [1, 3, 5, 7]]);
    // Of a mesh of 2 x 2 x 2 the groups along its first and last axis.
    assert_eq!(groups("[2,4]<=[2,2,2]T(1,0,2)"), [[0, 1, 4, 5], [2, 3, 6, 7]]);
    // Newer modules name axes of a mesh, or parts of them.
    let sorted = |written: &str| {
        let mut groups = groups(written);
        groups.sort();
        groups
    };
    assert_eq!(sorted("mesh['a'=4,'b'=2] {'b'}"), pairs);
    assert_eq!(sorted("mesh['a'=4,'b'=2] {'a','b'}"), [[0, 1, 2, 3, 4, 5, 6, 7]]);
    assert_eq!(sorted("mesh['a'=4,'b'=2] {'a':(1)2}"), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    assert_eq!(sorted("mesh['a'=4,'b'=2] {'a':(2)2}"), [[0, 2], [1, 3], [4, 6], [5, 7]]);
    assert_eq!(sorted("mesh['a'=2,'c'=1,'b'=4], device_ids=([4,2]T(1,0)) {'a'}"), pairs);
    assert_eq!(sorted("mesh['a'=2,'b'=4], device_ids=(7,6,5,4,3,2,1,0) {'a'}"), [[4, 0], [5, 1], [6, 2], [7, 3]]);
    for wrong in [
        "[2,2]<=[4]",
        "[4,2]<=[8]T(1,0)",
        "[8]<=[8]",
        "{{0,1},{2,9}}",
        "{{0,x}}",
        "mesh['a'=8]",
        "mesh['a'=8] {'b'}",
        "mesh['a'=4] {'a'}",
        "mesh['a'=8] {'a':(3)2}",
    ] {
        let text = format!(
            "HloModule m, num_partitions=8\nENTRY %e () -> f32[] {{\n  %r = f32[1] all-reduce(%p), replica_groups={wrong}\n}}\n"
        );
        assert!(read(&text).is_err(), "{wrong}");
    }
}

#[test]
fn results_of_all_forms_are_measured() {
    let bytes = |line: &str| {
        let found = only(line);
        (found.kind, found.bytes)
    };
    let rest = "replica_groups=[4,2]<=[8], dimensions={0}";
    for (line, kind, size) in [
        ("f32[16,128]{1,0:T(8,128)} all-gather(%p)", Kind::AllGather, 8192),
        ("(bf16[16]{0}, f32[4]{0}, /*index=2*/pred[]) all-reduce(%p, %q, %r)", Kind::AllReduce, 32 + 16 + 1),
        ("s4[9]{0} all-to-all(%p)", Kind::AllToAll, 5),
        ("f8e4m3fn[16]{0} reduce-scatter(%p)", Kind::ReduceScatter, 16),
        // The start of an AllGather returns its operand, too; that of an AllReduce does not.
        ("(f32[8]{0}, f32[16]{0}) all-gather-start(%p)", Kind::AllGather, 64),
        ("((f32[8]{0}, f32[1]{0}), (f32[16]{0}, f32[2]{0})) all-gather-start(%p, %q)", Kind::AllGather, 72),
        ("f32[16]{0} all-reduce-start(%p)", Kind::AllReduce, 64),
    ] {
        assert_eq!(bytes(&format!("  ROOT %x.1 = {line}, {rest}")), (kind, size), "{line}");
    }
    let shift =
        "  %x = (f32[8]{0}, f32[8]{0}, u32[], u32[]) collective-permute-start(%p), source_target_pairs={{0,1},{1,0}}";
    assert_eq!(bytes(shift), (Kind::Permute, 32));
    assert_eq!(module("", "  %x = f32[8]{0} all-gather-done(%p)\n  %y = f32[8]{0} add(%p, %x)").moves, []);
}

/// Loops within loops multiply; what is never called does not count; calls that double do not take time.
#[test]
fn loops_repeat_what_is_in_them() {
    let line = "  %r = f32[16]{0} all-reduce(%p), replica_groups={}, to_apply=%add";
    let while_of = |body: &str, trips: &str| {
        format!("  %w = (s32[]) while(%t), condition=%c, body=%{body}, backend_config={{{trips}}}\n")
    };
    let known = |n: u64| format!("\"known_trip_count\":{{\"n\":\"{n}\"}},\"x\":1");
    let computation = |name: &str, lines: &str| format!("%{name} (p: f32[]) -> f32[] {{\n{lines}\n}}\n\n");
    let inner =
        computation("inner", line) + &computation("outer", &while_of("inner", &known(3))) + &computation("dead", line);
    let times = |before: &str, entry: &str| module(before, entry).moves.iter().map(|one| one.times).collect::<Vec<_>>();
    assert_eq!(times(&inner, &while_of("outer", &known(5))), [15]);
    assert_eq!(times(&inner, &(while_of("outer", "") + line)), [3, 1]);
    let called = "  %a = f32[16]{0} call(%p), to_apply=%inner\n  %b = f32[16]{0} fusion(%p), kind=kLoop, calls=%inner\n  \
                  %c = f32[16]{0} conditional(%p, %q, %r), branch_computations={%inner, %outer}";
    assert_eq!(times(&inner, called), [1 + 1 + 1 + 3]);
    let mut doubling = computation("c0", line);
    for depth in 1..100 {
        let call = format!("  %a = f32[] call(%p), to_apply=%c{}\n", depth - 1);
        doubling += &computation(&format!("c{depth}"), &(call.clone() + &call));
    }
    assert_eq!(times(&doubling, "  %a = f32[] call(%p), to_apply=%c99"), [u64::MAX]);
}

#[test]
fn collectives_know_their_lines() {
    let place = |metadata: &str| {
        only(&format!("  %r = f32[16]{{0}} all-reduce(%p), replica_groups={{}}, metadata={{{metadata}}}")).place
    };
    let at = |file: &str, line| Some(Place { file: file.to_owned(), line });
    assert_eq!(place("op_name=\"jit(f)/dot\" stack_frame_id=2"), at("other.py", 7));
    assert_eq!(place("op_name=\"a\" source_file=\"/home/a b/model.py\" source_line=12"), at("model.py", 12));
    assert_eq!(place("op_name=\"a\" stack_frame_id=9"), None);
    assert_eq!(place("op_name=\"a\""), None);
}

/// Groups are named by the axes that they are groups of, and cost what the same collective costs in a program.
#[test]
fn prices_are_those_of_programs() {
    let machine = "mesh {X: 2, Y: 4} on tpu_v5e\n";
    let source = format!("{machine}A: f32[8]\noutput A\n");
    let program = compiler::check(&source).0.expect("a program");
    for costs in [CostModel::Exact, CostModel::Bytes] {
        let options = Options { costs, ..Options::default() };
        let topology = compiler::machine(&program, &options).expect("a machine");
        let paid = |line: &str| {
            let found = priced(&module("", line), machine, &topology, &options).expect("prices");
            (found[0].name.clone(), found[0].received.0, found[0].seconds)
        };
        let written = |statements: &str| {
            let source = format!("{machine}dims {{N: 65536, G: 4}}\n{statements}");
            let program = compiler::check(&source).0.unwrap_or_else(|| panic!("{source}"));
            let options = Options { overlap: compiler::Overlapping::None, ..options.clone() };
            let plan = compiler::plan(&program, &topology, &options).expect("a plan");
            (plan.totals().received().0, Some(topology.scale.seconds(plan.totals().communication)))
        };
        for (line, name, statements) in [
            ("f32[65536]{0} all-gather(%p), replica_groups=[2,4]<=[8]", "AllGather_Y", "A: f32[N_Y]\nB[N] = A"),
            ("f32[65536]{0} all-gather(%p), replica_groups=[4,2]<=[2,4]T(1,0)", "AllGather_X", "A: f32[N_X]\nB[N] = A"),
            (
                "f32[65536]{0} all-reduce(%p), replica_groups={}",
                "AllReduce_XY",
                "A: f32[N]{U_XY}\nB[N] = AllReduce_XY(A)",
            ),
            (
                "f32[16384]{0} reduce-scatter(%p), replica_groups=[2,4]<=[8]",
                "ReduceScatter_Y",
                "A: f32[N]{U_Y}\nB[N_Y] = A",
            ),
            ("f32[65536]{0} all-to-all(%p), replica_groups=[2,4]<=[8]", "AllToAll_Y", "A: f32[G_Y, N]\nB[G, N_Y] = A"),
        ] {
            let (received, seconds) = written(statements);
            assert_eq!(paid(&format!("  %r = {line}")), (name.to_owned(), received, seconds), "{line}");
        }
        // One step up the line of Y: the ends do not meet, so no message takes more than one hop.
        let shift = "{{0,1},{1,2},{2,3},{4,5},{5,6},{6,7}}";
        let (name, received, seconds) =
            paid(&format!("  %r = f32[65536]{{0}} collective-permute(%p), source_target_pairs={shift}"));
        assert_eq!((name.as_str(), received), ("Permute", 65536 * 4));
        let expected = 65536.0 * 4.0 / 45e9;
        assert!((seconds.expect("a time") - expected).abs() < 1e-6, "{seconds:?} {expected}");
        // Groups of other devices than those of an axis have bytes, but no time; groups of one do not communicate.
        let (name, received, seconds) =
            paid("  %r = f32[65536]{0} all-gather(%p), replica_groups={{0,1,2,7},{3,4,5,6}}");
        assert_eq!((name.as_str(), received, seconds), ("AllGather of 4", 65536 * 3, None));
        let alone = module("", "  %r = f32[64]{0} all-gather(%p), replica_groups=[8,1]<=[8]");
        assert_eq!(priced(&alone, machine, &topology, &options), Ok(Vec::new()));
    }
}

/// What is cut or changed anywhere is read or refused, without a panic.
#[test]
fn damaged_modules_are_refused() {
    let text = "HloModule jit_f, num_partitions=8\n\nFileNames\n1 \"a.py\"\n\n%b (p: f32[]) -> f32[] {\n  %r = (f32[8]{0}, f32[8]) \
                all-gather-start(%p), replica_groups=[2,4]<=[4,2]T(1,0), metadata={op_name=\"x\" stack_frame_id=1}\n}\n\n\
                ENTRY %e (p: f32[]) -> f32[] {\n  %w = f32[] while(%p), body=%b, backend_config={\"known_trip_count\":{\"n\":\"8\"}}\n  \
                %s = f32[4]{0} collective-permute(%p), source_target_pairs={{0,1},{1,2}}\n}\n";
    assert_eq!(read(text).expect("a module").moves.len(), 2);
    for end in 0..text.len() {
        read(&text[..end]).ok();
        for other in ["{", "}", "(", ")", "[", "]", ",", "=", "9", " ", "\n", "%", ""] {
            read(&format!("{}{other}{}", &text[..end], &text[end + 1..])).ok();
        }
    }
    assert!(read("").is_err() && read("module @m {\n}\n").is_err());
}
