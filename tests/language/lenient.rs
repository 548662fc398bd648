//! Lenient syntax: its meaning is the strict program that is reported.

use shardc::compiler::{self, Spelling};
use shardc::diag::{Diagnostics, Severity};
use shardc::program::Program;
use shardc::syntax;

const GROUND: &str = "mesh {X: 2, Y: 2} on tpu_v5e\ndims {I: 8, J: 16, K: 4, B: 4, D: 8, E: 8, F: 4}\n";

fn read(source: &str, spelling: Spelling) -> (Option<Program>, Diagnostics) {
    compiler::check_with(source, &[], spelling, None).expect("no sizes to set")
}

/// Lenient statements, and their strict equivalents.
const PAIRS: &[(&str, &str)] = &[
    (
        r"\[\begin{equation*} \mathbf{A}[I_X, J] \cdot \mathbf{B}[J, K_Y] \rightarrow \mathbf{C}[I_X, K_Y] \end{equation*}\]",
        "A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]",
    ),
    (
        r"\[\textbf{AllGather}_X[I, J_X] \rightarrow \mathbf{A}[I, J]\] \[\mathbf{A}[I, J] \cdot \mathbf{B}[J, K] \rightarrow \mathbf{C}[I, K]\]",
        "AllGather_X([I, J_X]) -> A[I, J]\nA[I, J] * B[J, K] -> C[I, K]",
    ),
    (r"\[\textbf{AllGather}_{XY}(A[I_{XY}, J]) \rightarrow A[I, J]\]", "AllGather_{XY}(A[I_XY, J]) -> A[I, J]"),
    (r"\(A[I_{XY}, J] \rightarrow A[I_Y, J]\)", "A[I_XY, J] -> A[I_Y, J]"),
    (
        r"\[\textbf{A}[I, J_X] \cdot_\text{LOCAL} \textbf{B}[J_X, K] \rightarrow C[I, K] \{\ U_X \}\]",
        "A[I, J_X] *_LOCAL B[J_X, K] -> C[I, K]{U_X}",
    ),
    (
        r"\[\begin{align*} A[I, J_X] \cdot_\text{LOCAL} B[J_X, K] \rightarrow &\ C[I, K] \{ U_X \} \\ \textbf{AllReduce}_X C[I, K] \{ U_X \} \rightarrow &\ C[I, K] \end{align*}\]",
        "A[I, J_X] *_LOCAL B[J_X, K] -> C[I, K]{U_X}\nAllReduce_X(C[I, K]{U_X}) -> C[I, K]",
    ),
    (
        r"\[\begin{align*} \textbf{ReduceScatter}_{Y,J} : A[I_X,J] \{U_Y\} \rightarrow &\ A[I_X, J_Y] \\ \textbf{AllGather}_Y : A[I_X, J_Y] \rightarrow &\ A[I_X, J] \end{align*}\]",
        "ReduceScatter_{Y,J}(A[I_X, J]{U_Y}) -> A[I_X, J_Y]\nAllGather_Y(A[I_X, J_Y]) -> A[I_X, J]",
    ),
    ("AllGatherY([EY, F]) → [E, F]", "AllGather_Y([E_Y, F]) -> [E, F]"),
    ("AllGatherXY([B, DXY]) -> [B, D]", "AllGather_{XY}([B, D_XY]) -> [B, D]"),
    ("AllGatherXY([B, DXY])", "AllGather_{XY}([B, D_XY])"),
    ("AllGatherX B[B_X, D] -> C[B, D]", "AllGather_X(B[B_X, D]) -> C[B, D]"),
    (
        "A: bf16[I, J]{UX}\nAllReduceX(A[I, J]{ UX }) -> C[I, J]",
        "A: bf16[I, J]{U_X}\nAllReduce_X(A[I, J]{U_X}) -> C[I, J]",
    ),
    (
        "A[I, JX] *_LOCAL B[JX, K] -> C[I, K]{UX}\nReduceScatter_{X,K} C[I, K]{UX} -> D[I, KX]",
        "A[I, J_X] *_LOCAL B[J_X, K] -> C[I, K]{U_X}\nReduceScatter_{X,K}(C[I, K]{U_X}) -> D[I, K_X]",
    ),
    ("A: f32[I]{MAXXY}\nC[I] = A", "A: f32[I]{MAX_XY}\nC[I] = A"),
    ("A: bf16[I, J]{ROOTX}\nBroadcastX(A)", "A: bf16[I, J]{ROOT_X}\nBroadcast_X(A)"),
    ("A: int8[IX, JY]\nC[I, JXY] = 2 * A", "A: int8[I_X, J_Y]\nC[I, J_XY] = 2 * A"),
    ("C = relu(A[IX, J]) * AllGatherX(B[J, KX])", "C = relu(A[I_X, J]) * AllGather_X(B[J, K_X])"),
    (r"$A[I_{\textcolor{red}{X}}, J]$ + A[I_X, J] -> C", "A[I_X, J] + A[I_X, J] -> C"),
    (r"$A[I_X, J, \ldots]$ -> C", "A[I_X, J, ...] -> C"),
    (
        "A[I, J_X] *_LOCAL B[J_X, K] → C[I, K] {U_X}\nReduceScatter_X,K(C[I, K] {U_X}) → C[I, K_X]",
        "A[I, J_X] *_LOCAL B[J_X, K] -> C[I, K]{U_X}\nReduceScatter_{X,K}(C[I, K]{U_X}) -> C[I, K_X]",
    ),
    (
        "C: bf16[I, K]{U_X}\nReduceScatter_X,K C[I, K]{U_X} -> D[I, K_X]",
        "C: bf16[I, K]{U_X}\nReduceScatter_{X,K}(C[I, K]{U_X}) -> D[I, K_X]",
    ),
    // Alternatives in one display: the cases of the book that need no communication.
    (
        r"\[\begin{align*} \mathbf{A}[I, J] \cdot \mathbf{B}[J, K] \rightarrow &\ \mathbf{C}[I, K] \\ \mathbf{A}[I_X, J] \cdot \mathbf{B}[J, K] \rightarrow &\ \mathbf{C}[I_X, K]\\ \mathbf{A}[I, J] \cdot \mathbf{B}[J, K_Y] \rightarrow &\ \mathbf{C}[I, K_Y]\\ \mathbf{A}[I_X, J] \cdot \mathbf{B}[J, K_Y] \rightarrow &\ \mathbf{C}[I_X, K_Y] \end{align*}\]",
        "A[I, J] * B[J, K] -> C[I, K]\nA_2[I_X, J] * B[J, K] -> C_2[I_X, K]\nA_3[I, J] * B_2[J, K_Y] -> C_3[I, K_Y]\nA_4[I_X, J] * B_2[J, K_Y] -> C_4[I_X, K_Y]",
    ),
    (
        "A[I_X, J] * B[J, K] → C[I_X, K]\nA[I, J_X] -> A[I, J]",
        "A[I_X, J] * B[J, K] -> C[I_X, K]\nA_2[I, J_X] -> A_2[I, J]",
    ),
];

/// Lines without declarations, and those that are assumed.
#[test]
fn missing_declarations_are_assumed() {
    for (page, declared) in [
        (
            r"\[A[I_X, J] \cdot B[J, K_Y] \rightarrow C[I_X, K_Y]\]",
            "mesh {X: 4, Y: 4} on tpu_v5e\ndims {I: 1024, J: 1024, K: 1024}",
        ),
        ("AllGatherXY([B, DXY])", "mesh {X: 4, Y: 4} on tpu_v5e\ndims {B: 1024, D: 1024}"),
        (
            "x[batch_data, D] * W[D, F] -> y[batch_data, F]",
            "mesh {data: 4} on tpu_v5e\ndims {batch: 1024, D: 1024, F: 1024}",
        ),
        ("A[I, J] -> B[I, J]", "mesh {X: 4} on tpu_v5e\ndims {I: 1024, J: 1024}"),
        ("mesh {X: 8} on tpu_v5p\nA[I_X] -> B[I]", "dims {I: 1024}"),
        ("dims {I: 64}\nA[I_X] -> B[I]", "mesh {X: 4} on tpu_v5e"),
    ] {
        let (program, found) = read(page, Spelling::Lenient);
        assert!(program.is_some(), "{page} {found:?}");
        let said = |line: &str| found.iter().any(|found| found.message.ends_with(&format!("assumed `{line}`")));
        assert!(declared.lines().all(said), "{page} {found:?}");
        assert!(read(page, Spelling::Exact).0.is_none(), "{page}");
        // Written out, it is read without the option.
        let strict = written_out(page);
        let (same, found) = read(&strict, Spelling::Exact);
        assert_eq!(same.map(|same| same.to_string()), program.map(|program| program.to_string()), "{strict} {found:?}");
    }
    // A misspelt declaration is an error, not a missing one.
    for page in ["mesh {X: }\nA[I_X] -> B[I]", "dims {I: 64}\nmesh {X: 4}\nA[I_X] -> B[K]"] {
        assert!(read(page, Spelling::Lenient).0.is_none(), "{page}");
    }
}

/// A text with all its readings.
fn written_out(page: &str) -> String {
    let (_, mut found) = syntax::parse_lenient(page);
    found.retain(|found| found.code == "lenient-reading");
    shardc::advice::apply_all(page, &found)
}

/// All readings written into the text: it is the strict program.
#[test]
fn readings_are_written_out() {
    for (page, strict) in PAIRS {
        let written = written_out(&format!("{GROUND}{page}\n"));
        let (again, left) = syntax::parse(&written);
        assert!(!left.has_errors(), "{written}{left:?}");
        let (meant, _) = syntax::parse(&format!("{GROUND}{strict}\n"));
        assert_eq!(again.to_string(), meant.to_string(), "{page}");
    }
}

/// The same program apart from source positions: printed without spans.
#[test]
fn what_is_read_is_what_is_meant() {
    for (seed, strict) in PAIRS {
        let (lenient, told) = read(&format!("{GROUND}{seed}\n"), Spelling::Lenient);
        let (meant, found) = read(&format!("{GROUND}{strict}\n"), Spelling::Exact);
        let lenient = lenient.unwrap_or_else(|| panic!("{seed}\n{told:?}"));
        assert_eq!(lenient.to_string(), meant.unwrap_or_else(|| panic!("{found:?}")).to_string(), "{seed}");
        let told = told.iter().filter(|found| found.code == "lenient-reading").count();
        assert!(told > 0 && found.iter().all(|found| found.severity == Severity::Note), "{seed}");
        // Lenient syntax is refused without the option.
        let (_, found) = read(&format!("{GROUND}{seed}\n"), Spelling::Exact);
        assert!(found.iter().all(|found| found.code != "lenient-reading"));
    }
}

/// The reported equivalent is at the statement's position, and has the same meaning.
#[test]
fn what_is_told_is_true() {
    for (seed, _) in PAIRS {
        let source = format!("{GROUND}{seed}\n");
        let (ast, diagnostics) = syntax::parse_lenient(&source);
        assert!(!diagnostics.has_errors(), "{diagnostics:?}");
        let strict = ast.to_string();
        let (again, found) = syntax::parse(&strict);
        assert!(found.is_empty(), "{strict}\n{found:?}");
        assert_eq!(again.to_string(), strict);
        for found in diagnostics.iter() {
            let text = found.help.as_deref().and_then(|help| help.strip_prefix("write `")).expect("a spelling");
            let place = found.span().text(&source);
            let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            assert!(strict.contains(text.trim_end_matches('`').trim()), "{text}\n{strict}");
            assert!(place.len() > 1 && letters(place).contains(&letters(text)[..1]), "{place} {text}");
        }
    }
}

/// Errors point into the original text.
#[test]
fn errors_keep_their_places() {
    let source = format!("{GROUND}\\[\\mathbf{{A}}[I_X, J] \\cdot \\textbf{{B}}[J, K_Q] \\to C[I, K]\\]\n");
    let (_, found) = read(&source, Spelling::Lenient);
    let error = found.iter().find(|found| found.severity == Severity::Error).expect("an axis that is not there");
    assert_eq!((error.code.as_str(), error.span().text(&source)), ("unknown-axis", "Q"));
}

/// Strict programs are unchanged.
#[test]
fn strict_programs_stay() {
    for folder in ["examples/book", "tests/corpus/small"] {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let source = std::fs::read_to_string(&path).expect("a program");
            let (exact, lenient) = (syntax::parse(&source), syntax::parse_lenient(&source));
            assert_eq!(exact, lenient, "{}", path.display());
        }
    }
    let dims = "mesh {X: 2} on tpu_v5e\ndims {IX: 4, I: 4}\nA: bf16[IX]\nC = relu(A)\n";
    assert_eq!(syntax::parse(dims), syntax::parse_lenient(dims));
}
