//! Imports operations that the language lacks as declared kernels: `shardc import --opaque`. What the declarations say is compared with
//! JAX, which `.ci/install` provides.

use crate::common::sets;
use crate::common::tools::pythons;
use crate::imported::{MESH, compiled, survived};
use proptest::prelude::*;
use shardc::import;
use std::path::Path;
use std::process::Command;

const OPAQUE: import::Options = import::Options { mesh: None, hardware: None, is_open: false, is_opaque: true };

fn module(functions: &str) -> String {
    format!("module @m {{\n{MESH}{functions}\n}}\n")
}

/// A module of a function of `x: f32[8, 16]`, sharded on both dims, `i: i32[8, 16]` and `s: f32[]`, which returns `%0` of this type.
fn function(lines: &str, result: &str) -> String {
    module(&format!(
        "func.func @main(%x: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{\"X\"}}, {{\"Y\"}}]>}} loc(\"x\"), \
         %i: tensor<8x16xi32> loc(\"i\"), %s: tensor<f32> loc(\"s\")) -> {result} {{\n{lines}\nreturn %0 : {result}\n}}"
    ))
}

/// The program of a module, which is refused without the option, with a help that names it.
fn program(module: &str) -> String {
    let found = import::program(module, &import::Options::default()).expect_err(module);
    let first = found.iter().next().expect("a finding");
    assert_eq!(first.code, "import-unsupported", "{found}");
    assert!(
        first.help.as_ref().is_some_and(|help| help.contains("`shardc import --opaque` declares it as a kernel")),
        "{found}"
    );
    let text = import::program(module, &OPAQUE).unwrap_or_else(|found| panic!("{found}\n{module}")).text;
    compiled(&text);
    text
}

/// The message and the help with which a module is refused, whatever the option says.
fn refusal(module: &str) -> String {
    let [without, with] = [import::Options::default(), OPAQUE].map(|options| {
        let found = import::program(module, &options).expect_err(module);
        let first = found.iter().next().expect("a finding");
        assert!(first.span().range().end <= module.len(), "{found}");
        format!("{}: {}\n{}", first.code, first.message, first.help.clone().unwrap_or_default())
    });
    assert_eq!(without, with);
    assert!(!with.contains("declares it"), "{with}");
    with
}

/// The lines that declare kernels, with the comments above them.
fn declarations(text: &str) -> Vec<&str> {
    text.lines().skip_while(|line| !line.is_empty()).skip(1).take_while(|line| !line.is_empty()).collect()
}

#[test]
fn kernels_are_what_jax_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (number, python) in pythons().into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(python);
        command.arg(root.join("tests/imported/opaque.py")).arg(env!("CARGO_BIN_EXE_shardc")).arg(folder.path());
        match number {
            _ if sets::are_full() => {}
            0 => drop(command.arg("--every=3")),
            _ => drop(command.args(["sort_pairs", "convolution", "rfft", "cholesky", "scatter"])),
        }
        let done = command.output().expect("Python starts");
        let told = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{told}{}", String::from_utf8_lossy(&done.stderr));
        assert!(told.lines().count() >= 5 && told.lines().all(|line| line.ends_with(": equal")), "{told}");
    }
}

const SORT: &str = "%0 = \"stablehlo.sort\"(%x) <{dimension = 1 : i64, is_stable = true}> ({\n\
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n%c = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n\
    stablehlo.return %c : tensor<i1>\n}) : (tensor<8x16xf32>) -> tensor<8x16xf32>";

/// Calls that compute the same are calls of one kernel, whatever their values are called; other comparisons are another kernel.
#[test]
fn equal_operations_share_a_kernel() {
    let again = SORT
        .replace("%0 =", "%1 =")
        .replace("(%x)", "(%0)")
        .replace("%a", "%p")
        .replace("%b", "%q")
        .replace("%c", "%r");
    let falling = SORT.replace("%0 =", "%2 =").replace("(%x)", "(%1)").replace("LT", "GT");
    let lines = format!(
        "{}\n{again}\n{falling}\n%0 = stablehlo.negate %2 : tensor<8x16xf32>",
        SORT.replace("%0 =", "%7 =").replace("%0", "%7")
    );
    let text = program(&function(&lines.replace("(%0)", "(%7)"), "tensor<8x16xf32>"));
    let declared = declarations(&text);
    assert_eq!(
        declared,
        [
            "kernel sort(a[B, S]) -> f32[B, S], shard B, flops 4*B*S",
            "kernel sort_2(a[B, S]) -> f32[B, S], shard B, flops 4*B*S",
        ],
        "{text}"
    );
    assert_eq!(text.matches("= sort(").count(), 2, "{text}");
}

/// The dims of a declaration are in the order of the operation, also where its operand is a transposed array, and dims that only the
/// result has are shared by calls.
#[test]
fn operands_are_in_the_order_of_the_operation() {
    let lines = "%1 = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x16xf32>) -> tensor<16x8xf32>\n\
        %2 = \"other.half\"(%1) {axis = 0 : i64} : (tensor<16x8xf32>) -> tensor<5x8xf32>\n\
        %3 = stablehlo.negate %1 : tensor<16x8xf32>\n\
        %4 = \"other.half\"(%3) {axis = 0 : i64} : (tensor<16x8xf32>) -> tensor<5x8xf32>\n\
        %0 = stablehlo.add %2, %4 : tensor<5x8xf32>";
    let text = program(&function(lines, "tensor<5x8xf32>"));
    let [note, declared] = declarations(&text)[..] else { panic!("{text}") };
    assert_eq!(note, "# flops unknown, counted as 0");
    let (parameter, result) = declared.split_once(") -> f32").expect("a result");
    assert!(parameter.starts_with("kernel other_half(a[") && !declared.contains("shard"), "{text}");
    let dims = |text: &str| {
        text.split_once('[').expect("dims").1.trim_end_matches(']').split(", ").map(str::to_owned).collect::<Vec<_>>()
    };
    let (from, to) = (dims(parameter), dims(result));
    assert!(text.contains(&format!("x: f32[{}_X, {}_Y]", from[1], from[0])), "{text}");
    assert!(!to.iter().any(|dim| from.contains(dim)), "nothing is known of them: {text}");
    assert_eq!(text.matches("other_half(").count(), 3, "{text}");
}

#[test]
fn several_results_are_several_kernels() {
    let pair = SORT
        .replace("%0 =", "%1:2 =")
        .replace("(%x)", "(%x, %i)")
        .replace("%b: tensor<f32>", "%b: tensor<f32>, %d: tensor<i32>, %e: tensor<i32>")
        .replace(
            ": (tensor<8x16xf32>) -> tensor<8x16xf32>",
            ": (tensor<8x16xf32>, tensor<8x16xi32>) -> (tensor<8x16xf32>, tensor<8x16xi32>)",
        );
    let one = format!("{pair}\n%0 = stablehlo.negate %1#1 : tensor<8x16xi32>");
    let text = program(&function(&one, "tensor<8x16xi32>"));
    let expected = [
        "# result 2 of 2, at the cost of the whole operation",
        "kernel sort(a[B, S], b[B, S]) -> i32[B, S], shard B, flops 4*B*S",
    ];
    assert_eq!(declarations(&text), expected, "{text}");
    let both = format!(
        "{pair}\n%2 = stablehlo.convert %1#1 : (tensor<8x16xi32>) -> tensor<8x16xf32>\n%0 = stablehlo.add %1#0, %2 : tensor<8x16xf32>"
    );
    assert_eq!(declarations(&program(&function(&both, "tensor<8x16xf32>"))).len(), 4);

    let state = "%state, %0 = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8x16xui32>)";
    let draws = module(&format!(
        "func.func @main(%k: tensor<2xui64>) -> tensor<8x16xui32> {{\n{state}\nreturn %0 : tensor<8x16xui32>\n}}"
    ));
    let text = program(&draws);
    assert_eq!(declarations(&text)[1], "kernel rng_bit_generator(a[D]) -> u32[B, S]", "{text}");
    let tuple = "%1 = stablehlo.custom_call @solve.v2(%x, %s) {has_side_effect = false} : (tensor<8x16xf32>, tensor<f32>) -> tuple<tensor<8x16xf32>, tensor<4xf32>>\n\
        %0 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<8x16xf32>, tensor<4xf32>>) -> tensor<4xf32>";
    let expected = [
        "# result 2 of 2, at the cost of the whole operation; flops unknown, counted as 0",
        "kernel custom_solve_v2(a[S, D], b[]) -> f32[B]",
    ];
    assert_eq!(declarations(&program(&function(tuple, "tensor<4xf32>"))), expected);
}

/// Random numbers are drawn by one kernel for each operation, and on no shard alone.
#[test]
fn random_numbers_do_not_depend_on_the_layout() {
    let draw = |name: &str| {
        format!(
            "%{name} = stablehlo.rng %a, %b, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<8x16xf32>\n"
        )
    };
    let lines = format!(
        "%a = stablehlo.constant dense<0.0> : tensor<f32>\n%b = stablehlo.constant dense<1.0> : tensor<f32>\n\
         %n = stablehlo.constant dense<[8, 16]> : tensor<2xi64>\n{}{}%0 = stablehlo.add %1, %2 : tensor<8x16xf32>",
        draw("1"),
        draw("2")
    );
    let text = program(&function(&lines, "tensor<8x16xf32>"));
    assert_eq!(text.matches("kernel rng").count(), 2, "{text}");
    assert!(!text.contains("shard "), "{text}");
}

/// Each elementwise function by its name: names of the language are not taken, and all dims stay sharded.
#[test]
fn names_of_kernels_are_free() {
    let rules = include_str!("../../src/import/rules.rs");
    let words = |name: &str| -> Vec<&str> {
        let list =
            rules.split_once(&format!("const {name}")).and_then(|(_, rest)| rest.split("];").next()).expect("a list");
        list.split('"').skip(1).step_by(2).collect()
    };
    assert!(words("ELEMENTWISE").len() > 60);
    for word in words("ELEMENTWISE") {
        let dtype = if matches!(word, "and" | "or" | "not" | "xor" | "divide" | "power") { "i32" } else { "f32" };
        let text = function(&format!("%0 = stablehlo.{word} %x, %x, %x, %x : tensor<8x16xf32>"), "tensor<8x16xf32>");
        let text = program(&text.replace("f32>", &format!("{dtype}>")));
        assert!(text.replace(",\n    ", ", ").contains(", shard B, S, flops B*S\n"), "{text}");
    }
    // Names of the language, of dims, of axes, of collectives, and none at all.
    let other = [
        "softmax",
        "take",
        "scatter",
        "one_hot",
        "rename",
        "sum_B",
        "B",
        "X",
        "AllGather_X",
        "repeat",
        "kernel",
        "f32",
        "T2",
        "-",
        "custom",
    ];
    for word in words("MOVES").into_iter().chain(other) {
        let line = |name: &str| format!("%0 = \"{name}\"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>");
        if other.contains(&word) {
            program(&function(&line(word), "tensor<8x16xf32>"));
        }
        program(&function(&line(&format!("x.{word}")), "tensor<8x16xf32>"));
        let call = format!("%0 = stablehlo.custom_call @\"{word}\"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>");
        assert!(program(&function(&call, "tensor<8x16xf32>")).contains("kernel custom_"));
    }
    let long =
        format!("%0 = stablehlo.custom_call @{}(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>", "long_".repeat(40_000));
    assert!(program(&function(&long, "tensor<8x16xf32>")).len() < 1000);
}

/// A dim that a kernel reads whole is not padded: a sharding that does not divide it is left to the plan.
#[test]
fn kernels_read_no_padding() {
    let constrained = |axes: &str| {
        let lines = format!(
            "%1 = sdy.sharding_constraint %x <@mesh, [{axes}]> : tensor<8x16xf32>\n{}",
            SORT.replace("(%x)", "(%1)")
        );
        let text = function(&lines, "tensor<8x16xf32>").replace("[{\"X\"}, {\"Y\"}]", "[{\"Y\"}, {}]");
        program(&text.replace("8x16", "6x6"))
    };
    assert!(constrained("{\"X\"}, {}").contains("[B_X, S] = x"), "each row is sorted alone");
    assert!(constrained("{}, {\"X\"}").contains("[B, S_?] = x"));
}

#[test]
fn what_is_no_local_computation_is_refused() {
    let tensor = "tensor<8x16xf32>";
    let captured = SORT.replace("%a, %b, FLOAT", "%a, %s, FLOAT");
    let five = "%0 = stablehlo.custom_call @f(%x, %x, %x, %x, %x) : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>";
    let cases: [(&str, &str); 14] = [
        (
            "%0 = stablehlo.custom_call @f(%x) {has_side_effect = true} : (tensor<8x16xf32>) -> tensor<8x16xf32>",
            "side effects",
        ),
        ("%0 = stablehlo.custom_call @f() : () -> tensor<8x16xf32>", "has an operand"),
        (five, "at most 4 operands"),
        (&captured, "reads values from outside"),
        (
            "%0 = \"other.map\"(%x) ({\n^bb0(%a: tensor<f32>):\nother.return %a : tensor<f32>\n}) : (tensor<8x16xf32>) -> tensor<8x16xf32>",
            "region",
        ),
        ("%0 = \"stablehlo.all_reduce\"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>", "all_reduce"),
        ("%0 = \"stablehlo.if\"(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>", "stablehlo.if"),
        ("%0 = func.call @nowhere(%x) : (tensor<8x16xf32>) -> tensor<8x16xf32>", "not in the module"),
        ("%0 = stablehlo.convert %x : (tensor<8x16xf32>) -> tensor<8x16xui2>", "`ui2`"),
        (
            "%t = \"other.token\"(%x) : (tensor<8x16xf32>) -> !other.token\n%0 = \"other.f\"(%t) : (!other.token) -> tensor<8x16xf32>",
            "token",
        ),
        ("%0 = stablehlo.custom_call @f(%x) : (tensor<8x16xf32>) -> tensor<0x16xf32>", "without elements"),
        ("%0 = stablehlo.cholesky %x, lower = true : (tensor<8x16xf32>) -> tensor<16x8xf32>", "do not match"),
        (
            "%0 = stablehlo.convolution(%x, %x) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>",
            "do not match",
        ),
        ("%0 = stablehlo.constant dense<\"0x0001\"> : tensor<8x16xf32>", "constants"),
    ];
    for (line, said) in cases {
        let told = refusal(&function(line, tensor));
        assert!(told.starts_with("import-unsupported") && told.contains(said), "{told}");
    }
    for line in [
        "%0 = \"other.f\"(%x) : (tensor<8x16xf32>) -> tensor<?x16xf32>",
        "%0 = \"other.f\"(%nothing) : (tensor<8x16xf32>) -> tensor<8x16xf32>",
    ] {
        assert!(refusal(&function(line, tensor)).starts_with("import-unreadable"));
    }
    // Complex numbers stay inside.
    let complex = "%0 = stablehlo.fft %x, type = RFFT, length = [16] : (tensor<8x16xf32>) -> tensor<8x9xcomplex<f32>>";
    let found = import::program(&function(complex, "tensor<8x9xcomplex<f32>>"), &OPAQUE).expect_err("a complex result");
    assert!(found.to_string().contains("complex<f32>"), "{found}");
}

/// Calls of calls of an operation with long attributes and a long name are read once.
#[test]
fn long_attributes_are_read_once() {
    let mut functions = String::new();
    for level in 0..15 {
        let name = if level == 14 { "main".to_owned() } else { format!("f{level}") };
        let call = |result: &str, operand: &str| match level {
            0 => format!(
                "%{result} = stablehlo.custom_call @f(%{operand}) {{backend_config = \"{}\"}} : (tensor<8xf32>) -> tensor<8xf32>\n",
                "x".repeat(1 << 20)
            ),
            _ => format!("%{result} = func.call @f{}(%{operand}) : (tensor<8xf32>) -> tensor<8xf32>\n", level - 1),
        };
        functions += &format!(
            "func.func @{name}(%a: tensor<8xf32>) -> tensor<8xf32> {{\n{}{}return %y : tensor<8xf32>\n}}\n",
            call("x", "a"),
            call("y", "x")
        );
    }
    let text = import::program(&module(&functions), &OPAQUE).unwrap_or_else(|found| panic!("{found}")).text;
    assert_eq!((text.matches("\nkernel ").count(), text.matches("= custom_f(").count()), (1, 1 << 15));
}

/// The example of `docs/import.md`. `SHARDC_BOOK=write` updates it.
#[test]
fn the_kernel_of_the_docs_is_what_is_imported() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/import.md");
    let guide = std::fs::read_to_string(&path).expect("the page");
    let block = |from: &str| guide.split_once(from).and_then(|(_, rest)| rest.split("```").next()).expect("a block");
    let shown = block("<!-- shardc import block.mlir --opaque -->\n```text\n");
    let text = program(block("<!-- block.mlir -->\n```text\n"));
    if std::env::var("SHARDC_BOOK").is_ok_and(|mode| mode == "write") {
        let before = "--opaque -->\n```text\n";
        std::fs::write(&path, guide.replace(&format!("{before}{shown}```"), &format!("{before}{text}```")))
            .expect("the page");
        return;
    }
    assert_eq!(text, shown);
}

/// Operations of each rule.
const MANY: &str = "func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"X\"}, {}]>}, %i: tensor<8x2xi32>, \
    %w: tensor<3x3x4x8xf32>) -> (tensor<8x16xf32>, tensor<4x16xf32>) {\n\
    %z = stablehlo.constant dense<0.0> : tensor<f32>\n\
    %1:2 = \"stablehlo.sort\"(%x, %x) <{dimension = 1 : i64}> ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):\n\
    %l = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return %l : tensor<i1>\n}) \
    : (tensor<8x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)\n\
    %2 = stablehlo.reshape %1#0 : (tensor<8x16xf32>) -> tensor<2x4x4x4xf32>\n\
    %3 = stablehlo.convolution(%2, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], \
    pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} \
    : (tensor<2x4x4x4xf32>, tensor<3x3x4x8xf32>) -> tensor<2x4x4x8xf32>\n\
    %4 = stablehlo.fft %3, type = RFFT, length = [4, 8] : (tensor<2x4x4x8xf32>) -> tensor<2x4x4x5xcomplex<f32>>\n\
    %5 = stablehlo.transpose %4, dims = [0, 2, 1, 3] : (tensor<2x4x4x5xcomplex<f32>>) -> tensor<2x4x4x5xcomplex<f32>>\n\
    %6 = stablehlo.fft %5, type = IRFFT, length = [8] : (tensor<2x4x4x5xcomplex<f32>>) -> tensor<2x4x4x8xf32>\n\
    %7 = \"stablehlo.reduce_window\"(%6, %z) <{padding = dense<[[0, 0], [1, 0], [0, 0], [0, 0]]> : tensor<4x2xi64>, window_dimensions = \
    array<i64: 1, 2, 1, 2>, window_strides = array<i64: 1, 1, 1, 2>}> ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n\
    %l = stablehlo.multiply %a, %b : tensor<f32>\nstablehlo.return %l : tensor<f32>\n}) : (tensor<2x4x4x8xf32>, tensor<f32>) -> tensor<2x4x4x4xf32>\n\
    %8 = stablehlo.reshape %7 : (tensor<2x4x4x4xf32>) -> tensor<8x16xf32>\n\
    %9 = \"stablehlo.gather\"(%8, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], \
    start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 16>}> : (tensor<8x16xf32>, tensor<8x2xi32>) -> tensor<8x16xf32>\n\
    %10 = \"stablehlo.triangular_solve\"(%11, %9) <{left_side = true, lower = true}> : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>\n\
    %12 = stablehlo.custom_call @f(%10, %z) {mhlo.frontend_attributes = {num_batch_dims = \"0\"}} : (tensor<8x16xf32>, tensor<f32>) -> tensor<4x16xf32>\n\
    return %10, %12 : tensor<8x16xf32>, tensor<4x16xf32>\n}";

/// `MANY` with the matrix that it solves for.
fn many() -> String {
    let product = "%11 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x8xf32>\n";
    module(&MANY.replace("%10 = ", &format!("{product}%10 = ")))
}

#[test]
fn kernels_follow_kernels() {
    let text = program(&many());
    assert_eq!(text.matches("\nkernel ").count(), 8, "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Damaged modules are imported to a program that is checked, or refused; nothing panics.
    #[test]
    fn damaged_operations_are_refused_or_imported(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..12, prop::sample::select(vec![
            "", "%x", "%i", "%w", "8", "16", "-1", "0", "99", "18446744073709551615", "tensor<8x16xf32>", "tensor<f32>", "complex<f32>",
            "tuple<tensor<8x16xf32>>", "tensor<4x2xcomplex<f64>>", "stablehlo.sort", "chlo.top_k", "f.g", "@f", "{", "}", "(", ")", "[", "]",
            ",", "\n", "b", "f", "o", "RFFT", "dense<1>", "array<i64: 2, 1>", "[[1, 1], [0, 0]]", "\"x\"", "i1", "x",
        ])), 1..4)
    ) {
        let mut text = many();
        for (at, length, put) in cuts {
            let start = at.index(text.len());
            let end = (start + length).min(text.len());
            text.replace_range(start..end, put);
        }
        survived(&text);
    }
}
