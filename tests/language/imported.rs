//! Imports StableHLO modules as programs: models compute the same as in JAX, and unsupported operations are refused
//! at their place.
//!
//! The models need Python with JAX, which `.ci/install` provides.

use crate::common::sets;
use crate::common::tools::pythons;
use proptest::prelude::*;
use shardc::compiler::{self, Options};
use shardc::diag::Severity;
use shardc::import;
use std::path::Path;
use std::process::Command;

pub(crate) const MESH: &str = "sdy.mesh @mesh = <[\"X\"=4, \"Y\"=2]>\n";

/// The program of a module with a mesh of 4 x 2.
fn program(functions: &str) -> String {
    let module = format!("module @m {{\n{MESH}{functions}\n}}\n");
    import::program(&module, &import::Options::default()).unwrap_or_else(|found| panic!("{found}\n{module}")).text
}

/// The code and message with which a module is refused.
fn refusal(functions: &str) -> (String, String) {
    let module = format!("module @m {{\n{MESH}{functions}\n}}\n");
    let found = import::program(&module, &import::Options::default()).expect_err(functions);
    let first = found.iter().next().expect("a finding");
    assert!(first.span().range().end <= module.len(), "{found}");
    (first.code.clone(), first.message.clone())
}

/// Checks and plans an imported program.
pub(crate) fn compiled(source: &str) {
    let (program, found) = compiler::check(source);
    assert_eq!(found.count(Severity::Error), 0, "{found}\n{source}");
    let program = program.unwrap_or_else(|| panic!("{found}\n{source}"));
    compiler::compile(&program, &Options::default()).unwrap_or_else(|error| panic!("{error}\n{source}"));
}

#[test]
fn models_compute_what_jax_computes() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("imported");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = root.join("tests/imported/check.py");
    for (number, python) in pythons().into_iter().enumerate() {
        let mut command = Command::new(python);
        command.arg(&script).arg(env!("CARGO_BIN_EXE_shardc")).arg(folder.join(number.to_string()));
        command.env("SHARDC", env!("CARGO_BIN_EXE_shardc")).env("PYTHONPATH", root.join("python"));
        if !sets::are_full() {
            command.arg("--part");
        }
        // A newer JAX prints the same as the older one, except for a few operations.
        if number > 0 {
            command.args(["mamba2", "vocab_loss"]);
        }
        let done = command.output().expect("Python starts");
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{told}{}", String::from_utf8_lossy(&done.stderr));
        assert!(told.lines().count() >= 2 && told.lines().all(|line| line.ends_with(": equal")), "{told}");
    }
}

#[test]
fn the_python_package_plans_functions() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imported/package.py");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    for python in pythons() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(python);
        let done = command
            .arg(&script)
            .arg(folder.path())
            .env("SHARDC", env!("CARGO_BIN_EXE_shardc"))
            .env("PYTHONPATH", &sources)
            .output();
        let done = done.expect("Python starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

/// Functions that execute plans have the arguments and results of the models.
#[test]
fn planned_functions_compute_what_models_do() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (number, python) in pythons().into_iter().enumerate() {
        let mut command = Command::new(python);
        command.arg(root.join("tests/imported/back.py"));
        command.env("SHARDC", env!("CARGO_BIN_EXE_shardc")).env("PYTHONPATH", root.join("python"));
        let names: &[&str] = match number {
            0 if sets::are_full() => &[],
            0 => &["gpt2", "decode", "vocab_loss"],
            _ => &["vocab_loss"],
        };
        command.args(names);
        let done = command.output().expect("Python starts");
        let told = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{told}{}", String::from_utf8_lossy(&done.stderr));
        assert!(told.lines().count() >= 1 && told.lines().all(|line| line.ends_with(": equal")), "{told}");
    }
}

/// Functions constrained to the layouts of their plans compute the same, and XLA moves no more bytes for them.
#[test]
fn constrained_functions_compute_what_models_do() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (number, python) in pythons().into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(python);
        command.arg(root.join("tests/imported/constrain.py")).arg(env!("CARGO_BIN_EXE_shardc")).arg(folder.path());
        command.env("SHARDC", env!("CARGO_BIN_EXE_shardc")).env("PYTHONPATH", root.join("python"));
        match number {
            0 if sets::are_full() => {}
            0 => drop(command.args(["microbatches", "mlp", "mixtral"])),
            _ => drop(command.args(["microbatches", "mlp", "vocab_loss"])),
        }
        let done = command.output().expect("Python starts");
        let told = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{told}{}", String::from_utf8_lossy(&done.stderr));
        assert!(told.lines().count() >= 3 && told.lines().all(|line| line.ends_with(": equal")), "{told}");
    }
}

/// The audit of modules partitioned by XLA agrees with a count in Python.
#[test]
fn audits_count_what_xla_moves() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (number, python) in pythons().into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(python);
        command.arg(root.join("tests/imported/audit.py")).arg(env!("CARGO_BIN_EXE_shardc")).arg(folder.path());
        command.env("SHARDC", env!("CARGO_BIN_EXE_shardc")).env("PYTHONPATH", root.join("python"));
        // All of them by the older XLA.
        if number > 0 && !sets::are_full() {
            command.args(["mamba2", "vocab_loss"]);
        }
        let done = command.output().expect("Python starts");
        let told = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && told.ends_with("equal\n"), "{told}{}", String::from_utf8_lossy(&done.stderr));
    }
}

/// The commands of `docs/import.md`.
#[test]
fn the_example_of_the_docs_runs() {
    let guide = include_str!("../../docs/import.md");
    let python_code =
        guide.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a Python example");
    for python in pythons() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = |command: &mut Command| {
            let done = command.current_dir(folder.path()).output().expect("it starts");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8_lossy(&done.stdout).into_owned()
        };
        run(Command::new(python).args(["-c", python_code]));
        for line in guide.lines().filter(|line| line.starts_with("shardc ")) {
            let told = run(Command::new(env!("CARGO_BIN_EXE_shardc")).args(line.split(' ').skip(1)));
            assert!(line.contains("import") || told.contains("ReduceScatter_{model,B}"), "{told}");
        }
    }
}

/// The example of `docs/audit.md`. `SHARDC_BOOK=write` updates the table.
#[test]
fn the_audit_of_the_docs_is_what_is_printed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/audit.md");
    let guide = std::fs::read_to_string(&path).expect("the page");
    let block = |from: &str| guide.split_once(from).and_then(|(_, rest)| rest.split("```").next()).expect("a block");
    let shown = block("<!-- audit -->\n```text\n");
    for python in pythons() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("step.py"), block("```python\n")).expect("a script");
        let done = Command::new(python).arg("step.py").current_dir(folder.path()).output().expect("Python starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let line = guide.lines().find(|line| line.starts_with("shardc audit")).expect("a command");
        let mut command = Command::new(env!("CARGO_BIN_EXE_shardc"));
        let done = command.args(line.split(' ').skip(1)).current_dir(folder.path()).output().expect("it starts");
        let told = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        if std::env::var("SHARDC_BOOK").is_ok_and(|mode| mode == "write") {
            std::fs::write(
                &path,
                guide.replace(&format!("-->\n```text\n{shown}```"), &format!("-->\n```text\n{told}```")),
            )
            .expect("the page");
            return;
        }
        assert_eq!(told, shown);
    }
}

#[test]
fn a_product_is_one_statement() {
    let pretty = "func.func public @main(%arg0: tensor<8x16xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{\"X\"}, {}]>} loc(\"x\"), \
        %arg1: tensor<16x32xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"Y\"}]>} loc(\"w\")) -> (tensor<8x32xbf16>) {\n\
        %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x16xbf16>, tensor<16x32xbf16>) -> tensor<8x32xbf16>\n\
        return %0 : tensor<8x32xbf16>\n}";
    let generic = pretty.replace(
        "stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]",
        "\"stablehlo.dot_general\"(%arg0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], \
         rhs_contracting_dimensions = [0]>}>",
    );
    let expected = "mesh {X: 4, Y: 2} on tpu_v5e\ndims {B: 8, S: 32, D: 16}\n\nx: bf16[B_X, D]\nw: bf16[D, S_Y]\n\
                    out[B, S]_? = x * w\noutput out\n";
    assert_eq!(program(pretty), expected);
    assert_eq!(program(&generic), expected);
    compiled(expected);
}

/// Sums and products of 8-bit numbers have 32 bits, unless the module rounds them; extremes begin at the ends of the
/// dtype.
#[test]
fn eight_bits_are_what_the_module_says() {
    let text = program(
        "func.func @main(%arg0: tensor<8x16xf8E4M3FN>, %arg1: tensor<16x32xf8E4M3FN>, %arg2: tensor<8x16xui8>, \
         %arg3: tensor<8x16xi32>) -> (tensor<8x32xf32>, tensor<8xui8>, tensor<8xui8>, tensor<8xi32>) {\n\
         %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x16xf8E4M3FN>, tensor<16x32xf8E4M3FN>) -> tensor<8x32xf32>\n\
         %c = stablehlo.constant dense<0> : tensor<ui8>\n\
         %1 = stablehlo.reduce(%arg2 init: %c) applies stablehlo.add across dimensions = [1] : (tensor<8x16xui8>, tensor<ui8>) -> tensor<8xui8>\n\
         %2 = stablehlo.reduce(%arg2 init: %c) applies stablehlo.maximum across dimensions = [1] : (tensor<8x16xui8>, tensor<ui8>) -> tensor<8xui8>\n\
         %d = stablehlo.constant dense<1000> : tensor<i32>\n\
         %3 = stablehlo.reduce(%arg3 init: %d) applies stablehlo.maximum across dimensions = [1] : (tensor<8x16xi32>, tensor<i32>) -> tensor<8xi32>\n\
         return %0, %1, %2, %3 : tensor<8x32xf32>, tensor<8xui8>, tensor<8xui8>, tensor<8xi32>\n}",
    );
    let lines: Vec<&str> = text.lines().collect();
    let has = |parts: [&str; 2]| lines.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(has(["f8e4m3[", ""]) && has([": u8[", "= sum_"]) && has([", 1000)", "max_"]), "{text}");
    assert!(
        lines.iter().any(|line| line.contains("= max_") && !line.contains(": u8") && !line.contains("1000")),
        "{text}"
    );
    compiled(&text);
}

/// The halves of a dim become a dim of size two, and the product of a square matrix with itself renames one side.
#[test]
fn reshapes_slices_and_repeated_dims_become_dims() {
    let halves = "func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {\n\
        %0 = stablehlo.slice %arg0 [0:8, 0:8] : (tensor<8x16xf32>) -> tensor<8x8xf32>\n\
        %1 = stablehlo.slice %arg0 [0:8, 8:16] : (tensor<8x16xf32>) -> tensor<8x8xf32>\n\
        %2 = stablehlo.negate %1 : tensor<8x8xf32>\n\
        %3 = stablehlo.concatenate %2, %0, dim = 1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x16xf32>\n\
        return %3 : tensor<8x16xf32>\n}";
    let square = "func.func @main(%arg0: tensor<16x16xf32>) -> tensor<16x16xf32> {\n\
        %0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>\n\
        %1 = stablehlo.dot_general %arg0, %0, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>\n\
        %2 = stablehlo.add %1, %0 : tensor<16x16xf32>\n\
        return %2 : tensor<16x16xf32>\n}";
    let text = program(halves);
    assert!(text.contains("where(iota_") && text.contains("== 0, -"), "{text}");
    compiled(&text);
    let text = program(square);
    assert!(text.contains("rename_{"), "{text}");
    compiled(&text);
}

#[test]
fn what_cannot_be_said_is_refused() {
    let function = |line: &str| {
        format!(
            "func.func @main(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {{\n{line}\nreturn %0 : tensor<8x8xf32>\n}}"
        )
    };
    let unsupported = [
        (
            "%0 = stablehlo.convolution(%arg0, %arg0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>",
            "stablehlo.convolution",
        ),
        ("%0 = stablehlo.custom_call @cu(%arg0) : (tensor<8x8xf32>) -> tensor<8x8xf32>", "custom_call"),
        ("%0 = stablehlo.convert %arg0 : (tensor<8x8xf32>) -> tensor<8x8xui2>", "`ui2`"),
        ("%0 = stablehlo.convert %arg0 : (tensor<8x8xf32>) -> tensor<8x8xf8E4M3FNUZ>", "`f8E4M3FNUZ`"),
        ("%0 = stablehlo.constant dense<\"0x00010203\"> : tensor<8x8xf32>", "constants"),
        ("%0 = func.call @nowhere(%arg0) : (tensor<8x8xf32>) -> tensor<8x8xf32>", "not in the module"),
        ("%0 = func.call @main(%arg0) : (tensor<8x8xf32>) -> tensor<8x8xf32>", "too deep"),
        (
            "%0 = stablehlo.while(%a = %arg0) : tensor<8x8xf32>\ncond {\n%c = stablehlo.constant dense<true> : tensor<i1>\n\
          stablehlo.return %c : tensor<i1>\n} do {\nstablehlo.return %a : tensor<8x8xf32>\n}",
            "fixed number of iterations",
        ),
    ];
    for (line, said) in unsupported {
        let (code, message) = refusal(&function(line));
        assert_eq!(code, "import-unsupported", "{message}");
        assert!(message.contains(said), "{message}");
    }
    let unreadable = [
        "%0 = stablehlo.add %arg0, %arg1 : tensor<8x8xf32>",
        "%0 = stablehlo.add %arg0, %arg0 : tensor<?x8xf32>",
        "%0 = stablehlo.add %arg0, %arg0 : (tensor<8x8xf32>",
        "%0 = \"stablehlo.add\"(%arg0, %arg0 : tensor<8x8xf32>",
        "%0 = stablehlo.constant dense<0.0 : tensor<8x8xf32>",
        "§",
    ];
    for line in unreadable {
        assert_eq!(refusal(&function(line)).0, "import-unreadable", "{line}");
    }
    let options = import::Options::default();
    let without_mesh = import::program(
        "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\nreturn %a : tensor<8xf32>\n}",
        &options,
    );
    assert_eq!(
        without_mesh.expect_err("no mesh").iter().next().map(|first| first.code.as_str()),
        Some("import-no-mesh")
    );
}

/// Deep nesting, doubling calls and long constants end quickly.
#[test]
fn hostile_modules_are_refused() {
    let deep = "(".repeat(200_000);
    assert_eq!(refusal(&deep).0, "import-unreadable");
    let nested = format!("func.func @main() {{\n{}", "%0 = \"a.b\"() ({\n".repeat(50_000));
    assert_eq!(refusal(&nested).0, "import-unreadable");
    let mut doubling = String::new();
    for level in 0..40 {
        let name = if level == 39 { "main".to_owned() } else { format!("f{level}") };
        let call = |result: &str| match level {
            0 => format!("%{result} = stablehlo.negate %a : tensor<8xf32>\n"),
            _ => format!("%{result} = func.call @f{}(%a) : (tensor<8xf32>) -> tensor<8xf32>\n", level - 1),
        };
        doubling += &format!(
            "func.func @{name}(%a: tensor<8xf32>) -> tensor<8xf32> {{\n{}{}return %x : tensor<8xf32>\n}}\n",
            call("x"),
            call("y")
        );
    }
    assert_eq!(refusal(&doubling).0, "import-too-large");
    let long = format!(
        "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {{\n%0 = stablehlo.constant dense<\"{}\"> : tensor<8388608xf32>\n\
         return %a : tensor<8xf32>\n}}",
        "0x00000000".repeat(1 << 20)
    );
    assert_eq!(refusal(&long).0, "import-unsupported");
}

const SMALL: &str = "module @m {\nsdy.mesh @mesh = <[\"X\"=4, \"Y\"=2]>\nfunc.func public @main(%arg0: tensor<8x16xf32> \
    {sdy.sharding = #sdy.sharding<@mesh, [{\"X\"}, {}]>} loc(\"x\"), %arg1: tensor<3x16x16xf32>) -> (tensor<8x16xf32>) {\n\
    %c = stablehlo.constant dense<0> : tensor<i32>\n\
    %0:3 = stablehlo.while(%w = %arg1, %i = %c, %x = %arg0) : tensor<3x16x16xf32>, tensor<i32>, tensor<8x16xf32>\ncond {\n\
    %n = stablehlo.constant dense<3> : tensor<i32>\n%1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n\
    stablehlo.return %1 : tensor<i1>\n} do {\n%z = stablehlo.constant dense<0> : tensor<i32>\n\
    %1 = stablehlo.dynamic_slice %w, %i, %z, %z, sizes = [1, 16, 16] : (tensor<3x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x16xf32>\n\
    %2 = stablehlo.reshape %1 : (tensor<1x16x16xf32>) -> tensor<16x16xf32>\n\
    %3 = stablehlo.dot_general %x, %2, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>\n\
    %s = stablehlo.slice %3 [0:8, 4:12] : (tensor<8x16xf32>) -> tensor<8x8xf32>\n\
    %p = stablehlo.pad %s, %f, low = [0, 4], high = [0, 4], interior = [0, 0] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x16xf32>\n\
    %o = stablehlo.constant dense<1> : tensor<i32>\n%4 = stablehlo.add %i, %o : tensor<i32>\n\
    stablehlo.return %w, %4, %p : tensor<3x16x16xf32>, tensor<i32>, tensor<8x16xf32>\n}\n\
    return %0#2 : tensor<8x16xf32>\n}\n}\n";

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    /// Damaged modules are imported to a program that is checked, or refused; nothing panics.
    #[test]
    fn damaged_modules_are_refused_or_imported(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..12, prop::sample::select(vec![
            "", "%x", "8", "16", "3", "-1", "0", "tensor<8x16xf32>", "tensor<f32>", "stablehlo.add", "{", "}", "(", ")", "[", "]", "x", "1", ",", "\n",
            "#1", "transpose", "reshape", "i32", "bf16", "dims = [1, 0]", "\"Y\"", "18446744073709551615",
        ])), 1..4)
    ) {
        let whole = SMALL.replace("%o = ", "%f = stablehlo.constant dense<0.0> : tensor<f32>\n%o = ")
            .replace("%p = stablehlo.pad %s, %f", "%g = stablehlo.constant dense<0.0> : tensor<f32>\n%p = stablehlo.pad %s, %g");
        let mut text = whole;
        for (at, length, put) in cuts {
            let start = at.index(text.len());
            let end = (start + length).min(text.len());
            text.replace_range(start..end, put);
        }
        survived(&text);
    }
}

/// Reads a text as a module in both modes, and checks what it becomes.
pub(crate) fn survived(text: &str) {
    for is_opaque in [false, true] {
        if let Ok(imported) = import::program(text, &import::Options { is_opaque, ..import::Options::default() }) {
            let _ = compiler::check(&imported.text);
        }
    }
}

#[test]
fn a_loop_over_stacked_weights_declares_them_in_its_body() {
    let module = SMALL.replace(
        "%p = stablehlo.pad %s, %f",
        "%g = stablehlo.constant dense<0.0> : tensor<f32>\n%p = stablehlo.pad %s, %g",
    );
    let imported = import::program(&module, &import::Options::default()).unwrap_or_else(|found| panic!("{found}"));
    assert!(imported.text.contains("repeat 3 {\n    arg1: f32["), "{}", imported.text);
    assert!(imported.arguments[1].is_per_iteration && !imported.arguments[0].is_per_iteration);
    compiled(&imported.text);
}
