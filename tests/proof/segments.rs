//! Proofs in segments: equal layers are followed once, assertions are checked, and none is used in its own proof.
#![allow(missing_docs)]

use crate::common::{compile_by, programs, short_name};
use shardc::compiler::{self, Options, Overlapping};
use shardc::schedule::{Schedule, from_text};
use shardc::sim::proof::{Flaw, Proof, prove, prove_uncollapsed};

/// Layers under FSDP and tensor parallelism: the gathers of activations and of weights rotate their common dim differently.
fn layers(count: u64, overlap: Overlapping) -> Schedule {
    let source = format!(
        "mesh {{X: 4 ring, Y: 4 ring}} on tpu_v5p\ndims {{B: 4096, D: 1024, F: 4096}}\nx: bf16[B_X, D_Y]\n\
         repeat {count} {{\nV: bf16[D_X, F_Y]\nW: bf16[F_Y, D_X]\nh = relu(x * V)\nx[B_X, D_Y] = h * W\n}}\noutput x\n"
    );
    compile_by(&source, &Options { overlap, ..Options::default() }).schedule
}

fn proven(schedule: &Schedule) -> Proof {
    prove(schedule).unwrap_or_else(|flaw| panic!("{flaw}\n{schedule}"))
}

#[test]
fn equal_layers_are_followed_once() {
    for overlap in [Overlapping::None, Overlapping::Auto] {
        let [four, twelve] = [4, 12].map(|count| proven(&layers(count, overlap)));
        assert!(four.segments > 0 && twelve.operations > 2 * four.operations, "{four:?}");
        assert_eq!((four.segments, four.pieces), (twelve.segments, twelve.pieces));
    }
    // Each segment has its own symmetry. As a whole, the layers have none.
    let parted = layers(1, Overlapping::None);
    assert_eq!(proven(&parted).followed, 1);
    assert_eq!(proven(&Schedule { assertions: Vec::new(), ..parted }).followed, 16);
}

/// What the compiler asserts is enough to prove what follows.
#[test]
fn no_schedule_is_followed_as_a_whole() {
    let mut count = 0;
    for path in ["examples", "tests/corpus/small"].into_iter().flat_map(programs) {
        let source = std::fs::read_to_string(&path).expect("a program");
        let Some(program) = compiler::check(&source).0 else { continue };
        let Ok(compiled) = compiler::preview(&program, &Options::default()) else { continue };
        if !compiled.schedule.assertions.is_empty() {
            count += 1;
            assert!(compiled.proof.segments > 0, "{}", short_name(&path));
        }
    }
    assert!(count > 80, "{count} programs");
}

const GROUND: &str = "mesh {X: 2 ring}\narray A: i32[I 8] = input\n%a = input A[I] : i32[8]\n";

fn flaw(text: &str) -> Flaw {
    let schedule = from_text(&format!("{GROUND}{text}")).expect("well-formed").schedule;
    let flaw = prove(&schedule).expect_err("it is wrong");
    assert_eq!(Some(&flaw), prove_uncollapsed(&schedule).err().as_ref());
    flaw
}

/// Halves in the wrong order, each asserted by means of the other.
#[test]
fn assertions_do_not_prove_each_other() {
    let halves = "%right = slice [0..4] %a : i32[4]\n%wrong = slice [4..8] %a : i32[4]\n";
    let (one, other) = (
        "%v = assemble %wrong at [0..4], %wrong at [4..8] : i32[8]\nassert %v = A[I]\n",
        "%w = assemble %wrong at [0..4], %right at [4..8] : i32[8]\nassert %w = A[I]\n",
    );
    for text in [format!("{one}{other}"), format!("{other}{one}"), one.to_owned(), other.to_owned()] {
        for output in ["%v", "%w"].into_iter().filter(|output| text.contains(&format!("{output} ="))) {
            assert!(
                matches!(flaw(&format!("{halves}{text}output {output} = A[I]\n")), Flaw::WrongPlace { .. }),
                "{text}"
            );
        }
    }
}

/// What is absent on a device, where another value takes its place, does not belong to the asserted value there.
#[test]
fn absent_parts_are_not_taken_as_given() {
    let text = "%half = slice [0..4] %a : i32[4]\n%rest = slice [4..8] %a : i32[4]\n\
                %up = shuffle (-,0) via X+1 %half : i32[4]\n%down = shuffle (1,-) via X-1 %half : i32[4]\n\
                %v = assemble %up at [0..4], %down at [0..4], %rest at [4..8] : i32[8]\nassert %v = A[I]\n\
                %w = assemble %up at [0..4], %rest at [4..8] : i32[8]\noutput %w = A[I]\n";
    assert!(matches!(flaw(text), Flaw::Unfilled { .. }));
}

/// A false assertion is refused where nothing depends on it, too.
#[test]
fn assertions_are_checked() {
    let sum = "array B: i32[I 8] = add A, A by a,a->a\n";
    let swapped = "%s = slice [4..8] %a : i32[4]\n%t = slice [0..4] %a : i32[4]\n\
                   %u = assemble %s at [0..4], %t at [4..8] : i32[8]\nassert %u = A[I]\noutput %a = A[I]\n";
    assert!(matches!(flaw(swapped), Flaw::WrongPlace { .. }));
    let text = format!(
        "{}%a = input A[I] : i32[8]\nassert %a = B[I]\noutput %a = A[I]\n",
        GROUND.replace("%a = input A[I] : i32[8]\n", sum)
    );
    let schedule = from_text(&text).expect("well-formed").schedule;
    assert!(matches!(prove(&schedule), Err(Flaw::WrongArray { .. })));
}

const MAPPED: &str = "mesh {X: 2 ring}\narray A: f32[I 4] = input\narray B: f32[I 4] = input\n\
                      array R: f32[I 4] = relu A by a->a\n%a = input A[I] : f32[4]\n%r = map relu a->a %a : f32[4]\n\
                      assert %r = R[I]\n";

/// What leads to no assertion and no output is followed, too.
#[test]
fn unused_operations_are_followed() {
    for unused in [
        "%d = assemble of [8] %a at [0..4] : f32[8]\n",
        "%d = assemble of [4] %a at [0..4], %a at [0..4] : f32[4]\n",
        "%s = slice [(0,-) over X,:] of [1,4] %a : f32[4]\n%d = all_gather over X dim 0 %s : f32[8]\n",
        "%d = add sum %a, %a : f32[4]\n",
        "%d = add sum %r, %r : f32[4]\n%e = map relu a->a %d : f32[4]\n",
        "%d = shift dim 0 by 1 of 4, block (1,1) %a : f32[4]\n",
        "%d = fill least dim 0 from 2 on, block (1,1) %a : f32[4]\n",
    ] {
        let schedule = from_text(&format!("{MAPPED}{unused}output %r = R[I]\n")).expect("well-formed").schedule;
        let flaw = prove(&schedule).expect_err(unused);
        assert_eq!(Some(&flaw), prove_uncollapsed(&schedule).err().as_ref(), "{unused}");
    }
}

/// A value that only one device has is checked on that device.
#[test]
fn assertions_about_one_device_are_checked() {
    for place in [0, 1] {
        let text = format!("{MAPPED}assert %a = B[I]{{ROOT_X={place}}}\noutput %r = R[I]\n");
        let schedule = from_text(&text).expect("well-formed").schedule;
        assert!(matches!(prove(&schedule), Err(Flaw::WrongArray { .. })), "{text}");
    }
}

/// Where segments have many operations or arrays in common, the whole is followed.
#[test]
fn segments_are_not_much_larger_than_the_schedule() {
    let asserted = "assert %s = S[I]\n".repeat(9);
    let text = format!(
        "mesh {{X: 2 ring}}\narray A: f32[I 4] = input\narray R: f32[I 4] = relu A by a->a\n\
         array S: f32[I 4] = relu R by a->a\n%a = input A[I] : f32[4]\n%r = map relu a->a %a : f32[4]\n\
         %s = map relu a->a %r : f32[4]\n%t = map relu a->a %s : f32[4]\n{asserted}output %s = S[I]\n"
    );
    assert_eq!(proven(&from_text(&text).expect("well-formed").schedule).segments, 0);
    let mut text = "mesh {X: 2 ring}\narray T0: f32[I 4, J 4] = input\n".to_owned();
    let (mut asserted, most) = (String::new(), 60);
    for place in 1..=most {
        text += &format!("array T{place}: f32[I 4, J 4] = identity T{} by ab->ba\n", place - 1);
        if place % 2 == 0 {
            asserted += &format!("assert %a = T{place}[I, J]\n");
        }
    }
    text += &format!("%a = input T0[I, J] : f32[4,4]\n{asserted}output %a = T{most}[I, J]\n");
    assert_eq!(proven(&from_text(&text).expect("well-formed").schedule).segments, 0);
}
