//! Randomly damaged programs are parsed, checked and formatted: nothing panics, and formatting preserves the meaning.
//!
//! The same few thousand are part of every test run. `SHARDC_TEXTS=10000000 cargo test --release --test language soak
//! -- --nocapture` continues with ten million others on all processors, starting with text number `SHARDC_SEED`, and
//! prints the number of survivors; `SHARDC_SOAK=600` runs for ten minutes.

use crate::common::cpu_time::cpu_time;
use crate::common::frontend::{Reached, survive};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Programs in every test run.
const FIXED: usize = 3000;
/// Time limit for a program of this size, even without optimisation.
const LONGEST: Duration = Duration::from_secs(20);

/// Tokens to insert: every token of the notation, and a few others.
const WORDS: &str = "* · ⋅ @ *_J ·_{N,H} *_LOCAL \\cdot + - / = -> → \\to ( ) [ ] { } , : ; # ? _ . ' ’ _X _{X,Y} _{XY} {U_X} {MAX_X} \
    {SQUARE_ADD_X} I_? 128_X A B C A[I_X,J] [I,J] bf16 f32[I] int8 mesh dims output on using repeat expect limit 0 1 -1 1e-3 1e999 \
    99999999999999999999 18446744073709551615 AllGather_X ReduceScatter_{X,K} AllReduce AllToAll_{X->J} relu( softmax_T( \
    rename_{S->T}( f32( sum_J( ring line switch tpu_v5e é \u{FEFF} mesh{X:4} dims{I:8,J:4} A:bf16[I_X,J] output\u{A0}C";

/// Former failures: a label ended inside a byte-order mark; without braces, a name with `_` ended elsewhere.
const FOUND: [&str; 5] = [
    "mesh {X: 4 ring, Y: 2 ring}\ndims {I: 8, K: 8}\nS: bf16[I, K]{U_XY}\n\
     ReduceScatter_{Y,I\u{FEFF}}(S[I, K]{U_XY}) -> T[I_Y, K_X]\noutput T\n",
    "mesh {X: 4 ring}\ndims {D: 8, F: 8}\nW: bf16[F, D_X_{XY}]\nV: bf16[F, D_X_{X}]\n",
    "mesh {X: 4 ring, Y # why\r\n: 2} on tpu_v4p\nA: i64[I, J_X]\ndims {I: 16, J: 32,\n K: 24}\nB: i64[J_X, K]\n\
     A[I, J_X] *_LOCAL B[J_X, K] -> C[I, K]{U_X}\nAl_lReduce_X(C[I, K]{U_X}) -> C[I, K]\n",
    "mesh {c: 4} on furiosa\ndims {B: 4}\nIn: i8[B]{U_c}\n\
     ReduceScusingatter_{c,B\u{feff}}(In[B]{U_c}) -> Out[B_c] using furiosa_diagonal\n",
    "M: bool[S, T]\nmesh {X: 2 ring, Y: 2 ring} on tpu_v5e\ndims {N: 4, S: 8, T: 8, H: 4}\nq: f32[S, N_Y, H]\n\
     k: f32[T, N_Y, H]\nscores[N_Y, S, T] = 0.5 *output (q * k)\nP[N_Y, S, T] = softmax_T(scores)\n",
];

/// The texts to damage: all examples, and one with every form of a statement.
fn seeds() -> Vec<String> {
    let mut seeds = vec![
        "mesh {X: 4, # four\n  Y: 2 ring} on tpu_v5e\ndims {I: 8, J: 8, K: 8}\nA: bf16[I_X, J] # in\nB: int8[J, 128_{XY}]\n\
         C[I_X, K]{U_Y} = relu(A *_J B) + 2 * softmax_J(A)\nA[I_X] · B → D[I]\n\
         ReduceScatter_{Y,J} : A[I_X,J]{U_Y} -> A[I_X,J_Y]\n\n\n# out\noutput C,\n  D using ring; E = -A - (A / 2)\n"
            .to_owned(),
    ];
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let (inner, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        folders.extend(inner);
        let shards = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "shard"));
        seeds.extend(shards.map(|path| std::fs::read_to_string(path).expect("text")));
    }
    seeds[1..].sort();
    seeds
}

/// The last character boundary not after `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// A random character boundary.
fn place(random: &mut fastrand::Rng, text: &str) -> usize {
    boundary(text, random.usize(..=text.len()))
}

/// A program with one to five damages.
fn damaged(random: &mut fastrand::Rng, seeds: &[String], words: &[&str]) -> String {
    let mut text = seeds[random.usize(..seeds.len())].clone();
    for _ in 0..random.usize(1..=5) {
        let at = place(random, &text);
        let end = boundary(&text, at + random.usize(..12)).max(at);
        let other = &seeds[random.usize(..seeds.len())];
        let word = words[random.usize(..words.len())];
        match random.u8(..7) {
            0 => text.replace_range(at..end, ""),
            1 => text.replace_range(at..end, word),
            2 => text.insert_str(at, word),
            3 => text.insert_str(at, ["\n", " ", "\n\n\n", " # why\n", "\t", "\r\n"][random.usize(..6)]),
            4 => text.insert_str(at, &text[at..end].repeat(random.usize(1..40))),
            5 => text.insert_str(at, &other[place(random, other)..]),
            _ => {
                let mut lines: Vec<&str> = text.split('\n').collect();
                let (one, two) = (random.usize(..lines.len()), random.usize(..lines.len()));
                lines.swap(one, two);
                text = lines.join("\n");
            }
        }
        text.truncate(boundary(&text, 20_000));
    }
    text
}

/// As [`survive`], within the time limit; failing texts are printed.
#[expect(clippy::print_stderr, reason = "the text that fails is what one needs to see")]
fn holds(source: &str) -> Reached {
    // CPU time, so that the machine's load is irrelevant.
    let (start, busy) = (Instant::now(), || cpu_time(Path::new("thread-self")));
    let before = busy();
    let reached = catch_unwind(AssertUnwindSafe(|| survive(source))).unwrap_or_else(|panic| {
        eprintln!("does not survive: {source:?}");
        resume_unwind(panic)
    });
    let spent = busy().zip(before).map_or_else(|| start.elapsed(), |(after, before)| after.saturating_sub(before));
    assert!(spent < LONGEST, "too slow: {source:?}");
    reached
}

#[expect(clippy::print_stdout, reason = "a long run tells how far it came")]
#[test]
fn damaged_programs_are_survived() {
    let (seeds, words) = (seeds(), WORDS.split(' ').collect::<Vec<_>>());
    for seed in seeds.iter().map(String::as_str).chain(FOUND) {
        holds(seed);
    }
    let mut reached = [0usize; 3];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..FIXED {
        reached[holds(&damaged(&mut random, &seeds, &words)) as usize] += 1;
    }
    // Damage that always prevents parsing would test little.
    assert!(reached.iter().all(|count| *count > FIXED / 20), "{reached:?}");
    let (count, seconds) = (number("SHARDC_TEXTS"), number("SHARDC_SOAK"));
    if count.is_none() && seconds.is_none() {
        return;
    }
    // Each text depends only on its number, so that a failure can be reproduced.
    let first = number("SHARDC_SEED").unwrap_or_else(|| if count.is_some() { 0 } else { fastrand::u64(..1 << 40) });
    let last = count.map_or(u64::MAX, |count| first.saturating_add(count));
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (next, reached, failed) = (AtomicU64::new(first), reached.map(AtomicUsize::new), AtomicUsize::new(0));
    let work = || {
        while end.is_none_or(|end| Instant::now() < end) {
            let text = next.fetch_add(1, Ordering::Relaxed);
            if text >= last {
                return;
            }
            let source = damaged(&mut fastrand::Rng::with_seed(text), &seeds, &words);
            // A long run goes on behind a failure, which is printed.
            match catch_unwind(AssertUnwindSafe(|| holds(&source))) {
                Ok(place) => reached[place as usize].fetch_add(1, Ordering::Relaxed),
                Err(_) => failed.fetch_add(1, Ordering::Relaxed),
            };
            if (text - first + 1).is_multiple_of(100_000) {
                println!("{} texts", text - first + 1);
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let [nothing, syntax, program] = reached.map(AtomicUsize::into_inner);
    let all = nothing + syntax + program;
    println!("{all} programs survived: {nothing} unreadable, {syntax} readable, {program} legal");
    assert_eq!(failed.into_inner(), 0, "texts failed, shown above");
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
