//! The text form and the document.

use super::*;
use crate::einsum::Einsum;
use crate::function::{ByNumber, Function, Scalar, Unary};
use crate::layout::DimId;
use crate::mesh::Axes;
use crate::schedule::{Cut, DocumentError, OpKind, Operation, Sources, Unread, from_json, from_text, to_json};
use proptest::prelude::*;

fn assert_round_trip(schedule: &Schedule) {
    verify(schedule).unwrap();
    let json = to_json(schedule);
    let again = from_json(&json).unwrap();
    assert_eq!(again.mesh, schedule.mesh);
    assert_eq!((&again.arrays, &again.outputs), (&schedule.arrays, &schedule.outputs));
    assert_eq!(again.ids().count(), schedule.ids().count());
    for id in schedule.ids() {
        assert_eq!(again.operation(id), schedule.operation(id));
        assert_eq!(again.operands(id), schedule.operands(id));
    }
    assert_eq!(to_json(&again), json);
    assert_text_round_trip(schedule);
}

/// The text form is read as the schedule that it is of: it is written the same, and every map says the same.
fn assert_text_round_trip(schedule: &Schedule) {
    let text = schedule.to_string();
    let written = from_text(&text).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
    let again = written.schedule;
    assert_eq!(again.to_string(), text);
    assert_eq!((&again.mesh, &again.arrays, &again.outputs), (&schedule.mesh, &schedule.arrays, &schedule.outputs));
    for id in schedule.ids() {
        let (new, old) = (again.operation(id), schedule.operation(id));
        assert_eq!((&new.dtype, &new.extents, new.step, new.method), (&old.dtype, &old.extents, old.step, old.method));
        assert_eq!(again.operands(id), schedule.operands(id));
        assert_same(&schedule.mesh, &new.kind, &old.kind);
        let place = &written.places.operations[id.index()];
        assert_eq!(place.name, format!("%{}", id.index()));
        assert!(place.span.text(&text).starts_with(&place.name));
    }
}

/// Operations do the same, by maps that may be written otherwise.
fn assert_same(mesh: &Mesh, new: &OpKind, old: &OpKind) {
    let table = |map: &CoordMap| mesh.devices().map(|device| map.at(mesh, device)).collect::<Vec<_>>();
    let regions = |new: &[Cut], old: &[Cut]| {
        assert_eq!(new.len(), old.len());
        for pair in new.iter().zip(old) {
            match pair {
                (Cut::At(new), Cut::At(old)) => assert_eq!(table(new), table(old)),
                (new, old) => assert_eq!(new, old),
            }
        }
    };
    match (new, old) {
        (OpKind::Slice { view, region }, OpKind::Slice { view: old_view, region: old_region }) => {
            assert_eq!(view, old_view);
            regions(region, old_region);
        }
        (OpKind::Assemble { view, places, .. }, OpKind::Assemble { view: old_view, places: old_places, .. }) => {
            assert_eq!((view, places.len()), (old_view, old_places.len()));
            places.iter().zip(old_places).for_each(|(new, old)| regions(new, old));
        }
        (OpKind::Shuffle { sources, route }, OpKind::Shuffle { sources: old_sources, route: old_route }) => {
            assert_eq!(route, old_route);
            let all = |sources: &Sources| mesh.devices().map(|device| sources.of(mesh, device)).collect::<Vec<_>>();
            assert_eq!(all(sources), all(old_sources));
        }
        (OpKind::Fill { dim, valid, with, block }, OpKind::Fill { dim: d, valid: v, with: w, block: b }) => {
            assert_eq!((dim, valid, with), (d, v, w));
            assert_eq!(table(block), table(b));
        }
        (new, old) => assert_eq!(new, old),
    }
}

/// A product, functions, a table, an absence: one of everything.
fn mixed() -> Schedule {
    let (mut schedule, value) = build(&meshes(4)[1], &[1, 4], Task::Gather { dim: 1 }, Method::BidirectionalRingPair);
    let axes = [0, 1].map(AxisId::new);
    let dims = |ids: &[u32]| ids.iter().copied().map(DimId).collect::<Vec<_>>();
    let product = Einsum::new(&[dims(&[0, 1]), dims(&[2, 1])], &dims(&[2, 0]));
    let turned = Einsum::new(&[dims(&[0, 1])], &dims(&[1, 0]));
    let arrays = [
        (vec![8, 8], Dense::Product { operands: [ArrayId(0); 2], einsum: product.clone() }),
        (
            vec![4, 8],
            Dense::Map { function: Function::Unary(Unary::Neg), operands: vec![ArrayId(0)], einsum: turned.clone() },
        ),
    ];
    for (extents, definition) in arrays {
        let dims = vec!["I".to_owned(), "J".to_owned()];
        schedule.arrays.push(Array {
            name: "B".into(),
            dtype: DType::I64,
            dims,
            valid: extents.clone(),
            extents,
            definition,
        });
    }
    let input = schedule.ids().next().unwrap();
    let mut builder = Builder::new(&mut schedule, 2, Span::new(9, 20));
    let kept = builder.all_gather_kept(axes.to_vec(), input, 0);
    let square = builder.mat_mul([kept, kept], product, DType::I64);
    let turn = builder.map(Function::ByNumber(ByNumber::Scale, Scalar(-0.5)), &[kept], turned.clone());
    let cast = builder.map(Function::Cast(DType::F32), &[turn], turned.clone());
    builder.map(Function::Softmax { dim: 1 }, &[cast], turned);
    let negated = builder.map(Function::Unary(Unary::Neg), &[kept], Einsum::new(&[dims(&[0, 1])], &dims(&[1, 0])));
    let table = CoordMap::Table { axes: vec![axes[1]], entries: vec![None, Some(2)] };
    builder.slice(value, vec![1, 4, 4], vec![Cut::Whole, Cut::At(table), Cut::Range { start: 1, end: 3 }]);
    super::super::methods::permute(&mut builder, vec![axes[1]], value, vec![Some(1), None]);
    for (value, array) in [(square, 1), (negated, 2)] {
        schedule.outputs.push(Output { value, array: ArrayId(array), sharding: Sharding::replicated(2) });
    }
    schedule
}

#[test]
fn documents_round_trip() {
    assert_round_trip(&mixed());
    for n in SIZES {
        for mesh in meshes(n) {
            for method in Method::ALL {
                let e = u64::from(n);
                let operator = Operator::Max;
                assert_round_trip(&build(&mesh, &[3, e], Task::Reduce { operator }, method).0);
                assert_round_trip(&build(&mesh, &[3, e], Task::Exchange { from: 0, to: 1 }, method).0);
            }
        }
    }
}

#[test]
fn the_text_form() {
    let (mut schedule, value) =
        build(&meshes(4)[0], &[4, 2], Task::Scatter { dim: 0, operator: Operator::Sum }, Method::FuriosaDiagonal);
    schedule.outputs.push(Output { value, array: ArrayId(0), sharding: private(&[], 2) });
    insta::assert_snapshot!(schedule, @r##"
    mesh {X: 4}
    array A: i64[D0 16, D1 2] = input
    step 0
    %0 = input A[D0_X, D1] : i64[4, 2]
    %1 = slice (0,1,2,3) dim 0 of [4, 1, 2] %0 : i64[1, 2] using furiosa_diagonal
    %2 = slice (3,0,1,2) dim 0 of [4, 1, 2] %0 : i64[1, 2] using furiosa_diagonal
    %3 = shuffle (1,2,3,0) via X %2 : i64[1, 2] using furiosa_diagonal
    %4 = slice (2,3,0,1) dim 0 of [4, 1, 2] %0 : i64[1, 2] using furiosa_diagonal
    %5 = shuffle (2,3,0,1) via X %4 : i64[1, 2] using furiosa_diagonal
    %6 = slice (1,2,3,0) dim 0 of [4, 1, 2] %0 : i64[1, 2] using furiosa_diagonal
    %7 = shuffle (3,0,1,2) via X %6 : i64[1, 2] using furiosa_diagonal
    %8 = add sum %1, %3, %5, %7 : i64[1, 2] using furiosa_diagonal
    output %8 = A[D0, D1]
    "##);
    let axis = AxisId::new(0);
    let mut line = Schedule::new(Mesh::of(&[("X", 3), ("data", 9)]));
    line.arrays = schedule.arrays.clone();
    let mut builder = Builder::new(&mut line, 4, Span::default());
    let input = builder.input(ArrayId(0), Sharding::replicated(2));
    let all = super::super::methods::all_gather(&mut builder, Method::Line, axis, input, 0);
    super::super::methods::all_reduce(&mut builder, Method::FuriosaRotation, AxisId::new(1), all, Operator::Max);
    builder.slice_block(all, 0, 16, CoordMap::rotated(AxisId::new(1), -2, 9));
    insta::assert_snapshot!(line, @r##"
    mesh {X: 3, data: 9}
    array A: i64[D0 16, D1 2] = input
    step 4
    %0 = input A[D0, D1] : i64[16, 2]
    %1 = shuffle (-,0,1) via X+1 %0 : i64[16, 2] using line
    %2 = shuffle (1,2,-) via X-1 %0 : i64[16, 2] using line
    %3 = shuffle (-,0,1) via X+1 %1 : i64[16, 2] using line
    %4 = shuffle (1,2,-) via X-1 %2 : i64[16, 2] using line
    %5 = assemble of [3, 16, 2] %0 at [(0,1,2) over X, :, :], %1 at [(-,0,1) over X, :, :], %2 at [(1,2,3) over X, :, :], %3 at [(-,-,0) over X, :, :], %4 at [(2,3,4) over X, :, :] : i64[48, 2] using line
    %6 = shuffle (data+1) mod 9 via data %5 : i64[48, 2] using furiosa_rotation
    %7 = shuffle (data+2) mod 9 via data %5 : i64[48, 2] using furiosa_rotation
    %8 = shuffle (data+3) mod 9 via data %5 : i64[48, 2] using furiosa_rotation
    %9 = shuffle (data+4) mod 9 via data %5 : i64[48, 2] using furiosa_rotation
    %10 = shuffle (data+5) mod 9 via data %5 : i64[48, 2] using furiosa_rotation
    %11 = shuffle (data+6) mod 9 via data %5 : i64[48, 2] using furiosa_rotation
    %12 = shuffle (data+7) mod 9 via data %5 : i64[48, 2] using furiosa_rotation
    %13 = shuffle (data+8) mod 9 via data %5 : i64[48, 2] using furiosa_rotation
    %14 = add max %5, %6, %7, %8, %9, %10, %11, %12, %13 : i64[48, 2] using furiosa_rotation
    %15 = slice (data-2) mod 9 dim 0 of [16, 3, 2] %5 : i64[3, 2]
    "##);
    insta::assert_snapshot!(mixed(), @r##"
    mesh {X: 4, Y: 2}
    array A: i64[D0 8, D1 4] = input
    array B: i64[I 8, J 8] = A * A by ab,cb->ca
    array B@2: i64[I 4, J 8] = neg A by ab->ba
    step 0
    %0 = input A[D0_XY, D1] : i64[1, 4]
    %1 = slice [:, 0..2] %0 : i64[1, 2] using bidirectional_ring_pair
    %2 = slice [:, 2..4] %0 : i64[1, 2] using bidirectional_ring_pair
    %3 = shuffle (3,0,1,2) via X+1 %1 : i64[1, 2] using bidirectional_ring_pair
    %4 = shuffle (1,2,3,0) via X-1 %2 : i64[1, 2] using bidirectional_ring_pair
    %5 = shuffle (3,0,1,2) via X+1 %3 : i64[1, 2] using bidirectional_ring_pair
    %6 = shuffle (1,2,3,0) via X-1 %4 : i64[1, 2] using bidirectional_ring_pair
    %7 = shuffle (3,0,1,2) via X+1 %5 : i64[1, 2] using bidirectional_ring_pair
    %8 = shuffle (1,2,3,0) via X-1 %6 : i64[1, 2] using bidirectional_ring_pair
    %9 = assemble of [1, 4, 4] %0 at [:, (0,1,2,3) over X, :], %3 at [:, (3,0,1,2) over X, 0..2], %4 at [:, (1,2,3,0) over X, 2..4], %5 at [:, (2,3,0,1) over X, 0..2], %6 at [:, (2,3,0,1) over X, 2..4], %7 at [:, (1,2,3,0) over X, 0..2], %8 at [:, (3,0,1,2) over X, 2..4] : i64[1, 16] using bidirectional_ring_pair
    step 2
    %10 = all_gather over XY dim 0 %0 : i64[8, 4]
    %11 = mat_mul ab,cb->ca %10, %10 : i64[8, 8]
    %12 = map scale(-0.5) ab->ba %10 : i64[4, 8]
    %13 = map cast(f32) ab->ba %12 : f32[8, 4]
    %14 = map softmax(1) ab->ba %13 : f32[4, 8]
    %15 = map neg ab->ba %10 : i64[4, 8]
    %16 = slice [:, (-,2) over Y, 1..3] of [1, 4, 4] %9 : i64[1, 2]
    %17 = shuffle (1,-) via Y %9 : i64[1, 16] using direct
    output %11 = B[I, J]
    output %15 = B@2[I, J]
    "##);
}

/// The document with one piece of text replaced.
fn refused(from: &str, to: &str) -> String {
    let json = to_json(&mixed());
    assert!(json.contains(from), "{from} in {json}");
    match from_json(&json.replacen(from, to, 1)) {
        Ok(_) => panic!("`{to}` for `{from}` is taken"),
        Err(error) => {
            let code = miette::Diagnostic::code(&error).map(|code| code.to_string()).unwrap_or_default();
            format!("{code}: {error}")
        }
    }
}

#[test]
fn broken_documents_are_refused_with_words() {
    let cases = [
        ("\"size\":4", "\"size\":1000000000"),
        ("\"size\":4", "\"size\":99999999999999999999"),
        ("\"name\":\"Y\"", "\"name\":\"X\""),
        ("shardc.schedule/1", "shardc.plan/1"),
        ("\"wrap\":true", "\"wrap\":true,\"way\":1"),
        ("\"by\":-1", "\"by\":-9223372036854775808"),
        ("\"by\":-1", "\"by\":-2"),
        ("\"hops\":1", "\"hops\":1000000000000"),
        ("\"extents\":[8,4]", "\"extents\":[18446744073709551615,18446744073709551615]"),
        ("\"extents\":[8,4]", "\"extents\":[0,4]"),
        ("\"extents\":[1,4]", "\"extents\":[2,4]"),
        ("\"dtype\":\"i64\"", "\"dtype\":\"int65\""),
        ("ab,cb->ca", "ab,cb->cd"),
        ("ab,cb->ca", "aa,ab->bb"),
        ("\"operands\":[0]", "\"operands\":[7000000]"),
        ("\"operands\":[0]", "\"operands\":[]"),
        ("\"range\":[1,3]", "\"range\":[3,1]"),
        ("\"view\":[1,4,4]", "\"view\":[1,3,4]"),
        ("\"modulo\":4", "\"modulo\":0"),
        ("\"entries\":[null,2]", "\"entries\":[null,2,3]"),
        ("\"entries\":[1,null]", "\"entries\":[1,1]"),
        ("\"entries\":[1,null]", "\"entries\":[2,null]"),
        ("\"method\":\"direct\"", "\"method\":\"magic\""),
        ("\"array\":1", "\"array\":11"),
        ("\"array\":2", "\"array\":1"),
        ("{\"axes\":[\"X\",\"Y\"],\"dim\":0}", "{\"axes\":[\"X\",\"X\"],\"dim\":0}"),
        ("{\"axes\":[\"X\",\"Y\"],\"dim\":0}", "{\"axes\":[\"X\",\"Y\"],\"dim\":9}"),
        ("softmax(1)", "softmax(2)"),
        ("cast(f32)", "cast(f33)"),
    ];
    let report: Vec<String> = cases.iter().map(|(from, to)| format!("{to}\n  {}", refused(from, to))).collect();
    insta::assert_snapshot!(report.join("\n"), @r##"
    "size":1000000000
      schedule-mesh: the mesh is empty or too large: at most 15 axes and 1048576 devices
    "size":99999999999999999999
      schedule-syntax: invalid schedule: invalid type: floating point `1e+20`, expected u32 at line 1 column 85
    "name":"X"
      schedule-word: operation %0: `Y` is not an axis of the mesh
    shardc.plan/1
      schedule-schema: unknown schema `shardc.plan/1`, expected `shardc.schedule/1`
    "wrap":true,"way":1
      schedule-syntax: invalid schedule: unknown field `way`, expected one of `axes`, `by`, `wrap` at line 1 column 1002
    "by":-9223372036854775808
      schedule-malformed: operation %3: the sources of a shuffle are not a partial permutation of the group
    "by":-2
      schedule-malformed: operation %3: 1 hops do not lead to the sources of the shuffle
    "hops":1000000000000
      schedule-malformed: operation %3: 1000000000000 hops do not lead to the sources of the shuffle
    "extents":[18446744073709551615,18446744073709551615]
      schedule-malformed: array 0: the extents [18446744073709551615, 18446744073709551615] are empty, too many or too large
    "extents":[0,4]
      schedule-malformed: array 0: the extents [0, 4] are empty, too many or too large
    "extents":[2,4]
      schedule-malformed: operation %0: expected extents [1, 4] from the operands, found [2, 4]
    "dtype":"int65"
      schedule-word: array 0: `int65` is not an element type
    ab,cb->cd
      schedule-word: array 1: `ab,cb->cd` is not an einsum such as `ab,bc->ac`
    aa,ab->bb
      schedule-malformed: array 1: the indices of the einsum do not match
    "operands":[7000000]
      schedule-malformed: array 2: unknown array 7000000
    "operands":[]
      schedule-malformed: array 2: expected 1 operands, found 0
    "range":[3,1]
      schedule-malformed: operation %16: a region is outside of the view [1, 4, 4]
    "view":[1,3,4]
      schedule-malformed: operation %9: the view [1, 3, 4] does not refine the extents [1, 16]
    "modulo":0
      schedule-malformed: operation %9: a coordinate map has too large numbers or a table of the wrong length
    "entries":[null,2,3]
      schedule-malformed: operation %16: a coordinate map has too large numbers or a table of the wrong length
    "entries":[1,1]
      schedule-malformed: operation %17: the sources of a shuffle are not a partial permutation of the group
    "entries":[2,null]
      schedule-malformed: operation %17: the sources of a shuffle are not a partial permutation of the group
    "method":"magic"
      schedule-word: operation %17: `magic` is not a method
    "array":11
      schedule-malformed: output 0: unknown array 11
    "array":1
      schedule-malformed: output 1: expected extents [8, 8] from the operands, found [4, 8]
    {"axes":["X","X"],"dim":0}
      schedule-malformed: operation %10: an axis is unknown or used twice
    {"axes":["X","Y"],"dim":9}
      schedule-malformed: operation %10: unknown dim 9
    softmax(2)
      schedule-malformed: operation %14: unknown dim 2
    cast(f33)
      schedule-word: operation %13: `cast(f33)` is not a function
    "##);
}

#[test]
fn deep_and_long_documents_are_refused() {
    assert!(matches!(from_json(&"[".repeat(1_000_000)), Err(DocumentError::Syntax(_))));
    assert!(matches!(from_json(""), Err(DocumentError::Syntax(_))));
    assert!(matches!(from_json(&" ".repeat(crate::schedule::MOST_TEXT + 1)), Err(DocumentError::TooLarge { .. })));
}

/// Schedules that come from code and not from a document are checked as well.
#[test]
fn malformed_schedules_made_by_hand() {
    let base = mixed();
    let x = AxisId::new(0);
    let like = |kind: OpKind| Operation { kind, ..base.operation(OpId::new(0)).clone() };
    let unknown = AxisId::new(14);
    let same = Einsum { operands: vec![vec![0, 1]], result: vec![0, 1] };
    let map = |function| OpKind::Map { function, einsum: same.clone() };
    let kinds = [
        OpKind::Shuffle { sources: Sources::Shift { axes: unknown.into(), by: 1, wrap: true }, route: Route::Shortest },
        OpKind::Shuffle { sources: Sources::Table { axes: vec![x, x], entries: vec![] }, route: Route::Shortest },
        OpKind::AllGather { axes: vec![unknown], dim: 0 },
        OpKind::Slice { view: vec![], region: vec![] },
        OpKind::Slice { view: vec![u64::MAX; 3], region: vec![Cut::Whole; 3] },
        OpKind::Shuffle { sources: Sources::Shift { axes: Axes::NONE, by: 0, wrap: true }, route: Route::Shortest },
        OpKind::Add { operator: Operator::And },
        map(Function::Unary(Unary::Exp)),
        map(Function::Unary(Unary::Not)),
        map(Function::ByNumber(ByNumber::Scale, Scalar(f64::NAN))),
    ];
    for kind in kinds {
        let mut schedule = base.clone();
        schedule.push(like(kind.clone()), &[OpId::new(0)]);
        assert!(verify(&schedule).is_err(), "{kind:?}");
    }
    let mut fine = base.clone();
    fine.push(like(map(Function::Unary(Unary::Neg))), &[OpId::new(0)]);
    assert!(verify(&fine).is_ok());
}

/// Numbers at which something may give way.
const NUMBERS: [&str; 10] =
    ["0", "1", "-1", "3", "64", "1048577", "4294967296", "9223372036854775807", "18446744073709551615", "null"];

/// The places of the numbers of a document.
fn numbers(json: &str) -> Vec<std::ops::Range<usize>> {
    let is_digit = |at: usize| json.as_bytes()[at].is_ascii_digit();
    let starts = (1..json.len()).filter(|at| is_digit(*at) && !is_digit(at - 1));
    starts.map(|start| start..(start..json.len()).find(|at| !is_digit(*at)).unwrap_or(json.len())).collect()
}

/// What may stand where something else stood.
const PIECES: [&str; 22] = [
    "",
    "",
    "0",
    "-1",
    "18446744073709551616",
    "%0",
    "%left",
    "(",
    ")",
    "[",
    "]",
    "{X,Y}",
    "XY",
    ":",
    "..",
    "-",
    "mod 4",
    "\n",
    "#",
    "\"",
    "step 7\n",
    "@2",
];

/// A text is read, or refused at places within it.
fn survives(text: &str) {
    match from_text(text) {
        Ok(written) => assert_round_trip(&written.schedule),
        Err(Unread::Text(found) | Unread::Malformed(found)) => {
            assert!(!found.is_empty());
            for found in found.iter() {
                assert!(!found.labels.is_empty() && found.code.starts_with("schedule-"), "{found:?}");
                assert!(found.labels.iter().all(|label| text.get(label.span.range()).is_some()), "{found:?}\n{text}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// What is taken is well-formed enough to be printed and written again; the rest is refused, nothing panics.
    #[test]
    fn changed_documents_never_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), 0..NUMBERS.len()), 1..3)) {
        let mut json = to_json(&mixed());
        for (place, number) in edits {
            let numbers = numbers(&json);
            json.replace_range(place.get(&numbers).clone(), NUMBERS[number]);
        }
        if let Ok(schedule) = from_json(&json) {
            assert_round_trip(&schedule);
        }
    }

    #[test]
    fn cut_documents_never_panic(start in any::<prop::sample::Index>(), length in 1usize..40) {
        let json = to_json(&mixed());
        let start = start.index(json.len());
        let end = (start + length).min(json.len());
        let cut = [&json[..start], &json[end..]].concat();
        if let Ok(schedule) = from_json(&cut) {
            assert_round_trip(&schedule);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The same of the text form: numbers, words and signs changed, and pieces cut out or doubled.
    #[test]
    fn changed_texts_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, 0..PIECES.len()), 1..4)
    ) {
        let mut text = mixed().to_string();
        for (place, length, piece) in edits {
            let start = place.index(text.len());
            text.replace_range(start..(start + length).min(text.len()), PIECES[piece]);
        }
        survives(&text);
    }

    /// Numbers alone, so that most texts can be read.
    #[test]
    fn texts_with_other_numbers_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..NUMBERS.len()), 1..3)
    ) {
        let mut text = mixed().to_string();
        for (place, number) in edits {
            let numbers = numbers(&text);
            text.replace_range(place.get(&numbers).clone(), NUMBERS[number]);
        }
        survives(&text);
    }
}
