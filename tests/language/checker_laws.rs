//! Properties of all small programs, compared with independent implementations.

use crate::right::{GROUND, check_text, explain, verify};

/// Contraction agrees with an einsum over the written dims, for every choice of dims of three small arrays.
#[test]
fn contraction_agrees_with_counting() {
    let names = ["I", "J", "K"];
    let subset =
        |mask: usize| names.iter().enumerate().filter(move |(bit, _)| mask >> bit & 1 == 1).map(|(_, name)| *name);
    let text = |mask: usize| subset(mask).collect::<Vec<_>>().join(", ");
    for [a, b, c] in (1..8usize).flat_map(|a| (1..8).flat_map(move |b| (1..8).map(move |c| [a, b, c]))) {
        let body = format!("C[{}] = A[{}] * B[{}]", text(c), text(a), text(b));
        let (program, diagnostics) = check_text(&format!("{GROUND}{body}"));
        let missing = c & !(a | b) != 0;
        let lost = (a ^ b) & !c != 0;
        assert_eq!(program.is_none(), missing || lost, "{}", explain(&body));
        assert_eq!(diagnostics.has_errors(), program.is_none());
        if let Some(program) = program {
            let einsum = program.einsum(program.outputs[0]);
            assert_eq!(einsum.contracted().len(), (a & b & !c).count_ones() as usize, "{body}");
        }
    }
}

/// A local product agrees with the product of local shards, for every pair of layouts over two axes.
#[test]
fn local_products_agree_with_brute_force() {
    let marks = ["", "_X", "_Y"];
    let all = (0..3usize.pow(5)).map(|code| [0, 1, 2, 3, 4].map(|place| code / 3usize.pow(place) % 3));
    for [i, j, j2, k, open] in all {
        let sum = |open: usize| if open == 0 { String::new() } else { format!("{{U{}}}", marks[open]) };
        let a = format!("A[I{}, J{}]{}", marks[i], marks[j], sum(open));
        let b = format!("B[J{}, K{}]", marks[j2], marks[k]);
        let (program, _) = check_text(&format!("{GROUND}C = {a} *_LOCAL {b}"));
        let distinct = |list: &[usize]| {
            let list: Vec<usize> = list.iter().copied().filter(|axis| *axis > 0).collect();
            list.iter().enumerate().all(|(at, axis)| !list[..at].contains(axis))
        };
        let legal = distinct(&[i, j, open]) && distinct(&[j2, k]) && j == j2 && distinct(&[i, k, j, open]);
        assert_eq!(program.is_some(), legal, "{a} *_LOCAL {b}");
        if let Some(program) = program {
            let mut axes: Vec<&str> =
                [j, open].iter().filter(|axis| **axis > 0).map(|axis| &marks[*axis][1..]).collect();
            axes.sort_unstable();
            let sum = if axes.is_empty() { String::new() } else { format!("{{U_{}}}", axes.concat()) };
            let expected = format!("C: bf16[I{}, K{}]{sum} = local product", marks[i], marks[k]);
            assert!(program.to_string().contains(&expected), "{program}\n{expected}");
        }
    }
}

#[test]
fn long_programs_are_read_in_time() {
    let chain = ["A"; 4000].join(" * ");
    let deep = ["A"; 190].join(" + ");
    let lines = "C = C + A\n".repeat(5_000);
    let source = format!("{GROUND}A: bf16[I]\nB[I] = {chain}\nD = {deep}\nC = relu(A)\n{lines}");
    let (program, _) = check_text(&source);
    assert!(program.is_some());
    let (_, diagnostics) = check_text(&format!("{GROUND}A: bf16[I]\nB = {}", ["A"; 5000].join(" + ")));
    assert!(diagnostics.has_errors());
}

/// Random programs: no panic, and programs that check satisfy the invariants.
#[test]
fn random_programs_keep_the_invariants() {
    const PARTS: &[&str] = &[
        "A",
        "B",
        "C",
        "D",
        "A[I_X, J]",
        "B[J, K_Y]",
        "C[I, K]",
        "C[I_X, K]{U_Y}",
        "D[16_X, 2048]",
        "E[I_?, J_?]",
        "[I, J]{MAX_X}",
        "2",
        "0",
        "0.5",
        "A[I_XY, J_Z]",
        "F[J_X, L]{U_XYZ}",
        "i8[J, I]",
        "i4[I_X, J]",
        "u8[I_X, J]",
        "f8e4m3[I, J]",
        "bool[I, J]",
        "bool[I_X]",
    ];
    const TARGETS: &[&str] =
        &["P", "Q", "A", "B[J, K]", "C[I, K]", "C[I, K]{U_X}", "C: f32[I_X, K_Y]", "D[K, I]", "E[I_?]", "G[L]"];
    const CALLS: &[&str] = &[
        "relu",
        "-",
        "f32",
        "i8",
        "u4",
        "softmax_J",
        "rename_{J->J2}",
        "AllGather_X",
        "AllReduce",
        "AllReduce_Y",
        "ReduceScatter_{X,I}",
        "ReduceScatter_{X,I,Y,K}",
        "AllToAll_{X,J}",
        "AllGather",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    fn pick<'a>(random: &mut fastrand::Rng, list: &[&'a str]) -> &'a str {
        list[random.usize(..list.len())]
    }
    fn expr(random: &mut fastrand::Rng, depth: usize) -> String {
        match random.u8(..if depth == 0 { 2 } else { 6 }) {
            5 => {
                let call = pick(random, &["max", "min", "where", "and", "or"]);
                let count = random.usize(1..4);
                let arguments: Vec<String> = (0..count).map(|_| expr(random, depth - 1)).collect();
                format!("{call}({})", arguments.join(", "))
            }
            0 | 1 => pick(random, PARTS).to_owned(),
            2 => format!("{}({})", pick(random, CALLS), expr(random, depth - 1)),
            _ => {
                let op = pick(random, &[" * ", " + ", " - ", " / ", " *_J ", " *_LOCAL "]);
                format!("({}){op}({})", expr(random, depth - 1), expr(random, depth - 1))
            }
        }
    }
    let mut passed = 0;
    for _ in 0..6000 {
        let lines: Vec<String> = (0..random.usize(1..4))
            .map(|_| format!("{} = {}", pick(&mut random, TARGETS), expr(&mut random, 2)))
            .collect();
        let (program, diagnostics) = check_text(&format!("{GROUND}{}", lines.join("\n")));
        assert_eq!(program.is_none(), diagnostics.has_errors(), "{}", lines.join("\n"));
        if let Some(program) = program {
            passed += 1;
            verify(&program);
        }
    }
    assert!(passed > 50, "{passed}");
}
