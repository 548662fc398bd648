//! Names with `_`, names of numbers and of functions.

use itertools::Itertools;
use shardc::compiler::{self, Options};
use shardc::program::Program;

fn program(source: &str) -> Program {
    let (program, found) = compiler::check(source);
    program.unwrap_or_else(|| panic!("{source}\n{found:?}"))
}

/// For any declared dims and axes, each dim over each axis is read as written, or the declaration is refused.
#[test]
fn every_reading_is_the_one_that_is_written() {
    let (dims, axes) = (["d", "d_x", "d_x_y", "d_m"], ["x", "y", "m", "x_y", "m_x"]);
    let (mut read, mut refused) = (0, 0);
    for dims in dims.iter().powerset().filter(|dims| !dims.is_empty()) {
        for axes in axes.iter().powerset().filter(|axes| !axes.is_empty()) {
            let sizes = |names: &[&&str]| names.iter().map(|name| format!("{name}: 2")).join(", ");
            let ground = format!("mesh {{{}}} on tpu_v5p\ndims {{{}}}\n", sizes(&axes), sizes(&dims));
            let layouts = dims.iter().cartesian_product(&axes).map(|(dim, axis)| (**dim, **axis)).collect_vec();
            // The number of ways to read a dim with an axis.
            let is_clear = layouts.iter().all(|(dim, axis)| {
                let text = format!("{dim}_{axis}");
                let ways = layouts.iter().filter(|(dim, axis)| format!("{dim}_{axis}") == text).count();
                ways == 1 && !dims.iter().any(|dim| ***dim == *text)
            });
            let found = compiler::check(&format!("{ground}A: f32[{}]\noutput A", dims[0])).1;
            let is_refused = found.iter().any(|found| found.code == "underscore-in-name");
            assert!(is_clear || is_refused, "{ground}");
            if is_refused {
                refused += 1;
                continue;
            }
            for (dim, axis) in layouts {
                let shown = |text: &str| {
                    let program = program(&format!("{ground}A: f32[{text}]\noutput A"));
                    let id = program.outputs[0];
                    let sharding = match &program.value(id).wanted {
                        shardc::program::Wanted::Exact(sharding) => sharding.clone(),
                        other => panic!("{other:?}"),
                    };
                    (program.dims.name(program.value(id).dims[0].id), sharding)
                };
                assert_eq!(shown(&format!("{dim}_{axis}")), shown(&format!("{dim}_{{{axis}}}")), "{ground}");
                read += 1;
            }
        }
    }
    assert!(read > 500 && refused > 50, "{read} {refused}");
}

/// Computed numbers equal literal ones.
#[test]
fn numbers_are_those_that_are_written_out() {
    let ground = "mesh {X: 2} on tpu_v5p\ndims {H: 16, S: 1k, N = H*S}\nA: f32[H_X]\n";
    for (text, number) in [
        ("A / sqrt(H)", "A * 0.25"),
        ("H ** -0.5 * A", "0.25 * A"),
        ("A * (1 / H)", "A * 0.0625"),
        ("A / S + S", "A / 1024 + 1024"),
        ("A - N", "A - 16384"),
        ("A * 2 ** 10", "A * 1024"),
        ("A * -2 ** 2", "A * -4"),
        ("A + square(3) - abs(-1)", "A + 9 - 1"),
        ("max(A, sqrt(H))", "max(A, 4)"),
        ("A ** 2", "square(A)"),
        ("A ** 0.5", "sqrt(A)"),
        ("A ** -0.5", "rsqrt(A)"),
        ("A ** -1", "recip(A)"),
        ("A ** 4", "square(square(A))"),
        ("A ** 3", "square(A) .* A"),
    ] {
        let values = |text: &str| {
            let program = program(&format!("{ground}C = {text}\noutput C"));
            program.values.into_iter().map(|value| value.definition).collect_vec()
        };
        assert_eq!(values(text), values(number), "{text}");
    }
    let named = format!("{ground}half = 1 / 2\nquarter = half ** 2\nC = quarter * A\noutput C");
    let plain = format!("{ground}C = 0.25 * A\noutput C");
    assert_eq!(program(&named).values[1].definition, program(&plain).values[1].definition);
}

/// A call equals the function's body with the arguments inserted.
#[test]
fn a_call_is_its_body_written_out() {
    let ground = "mesh {X: 4, Y: 2} on tpu_v5p\ndims {B: 64, D: 128, F: 256, G: 512}\nx: bf16[B_X, D]\nV: bf16[D, F_Y]\n\
                  W: bf16[F_Y, D]\nT: bf16[D_Y, G]\nU: bf16[G, D]\n";
    for (functions, calls, written) in [
        ("def f(a) {\nreturn relu(a)\n}", "y = f(x)", "y = relu(x)"),
        ("def f(a, b) {\nreturn a * b\n}", "y[B, F]_? = f(x, V)\nz = f(x, T)", "y[B, F]_? = x * V\nz = x * T"),
        (
            "def mlp(a[M, K], up[K, N], down) {\nh = gelu(a * up)\nreturn h * down + a\n}",
            "y = mlp(x, V, W)\nz[B_X, D] = mlp(y, T, U)",
            "h = gelu(x * V)\ny = h * W + x\nk = gelu(y * T)\nz[B_X, D] = k * U + y",
        ),
        (
            "def norm(a[M, N], eps) {\nreturn a .* rsqrt(sum_N(a ** 2) / N + eps)\n}\ndef twice(a) {\nb = norm(a, 1e-6)\n\
             return norm(b, 0.5)\n}",
            "y = twice(x)\nz = norm(V, 2)",
            "b = x .* rsqrt(sum_D(square(x)) / 128 + 1e-6)\ny = b .* rsqrt(sum_D(square(b)) / 128 + 0.5)\n\
             z = V .* rsqrt(sum_F(square(V)) / 256 + 2)",
        ),
        (
            "def many(a) {\nrepeat 3 {\na[B_X, D] = tanh(a)\n}\nreturn a\n}",
            "y = many(x)",
            "a = x\nrepeat 3 {\na[B_X, D] = tanh(a)\n}\ny = a",
        ),
    ] {
        let compiled = [format!("{ground}{functions}\n{calls}\n"), format!("{ground}{written}\n")].map(|source| {
            let program = program(&source);
            compiler::compile(&program, &Options::default()).unwrap_or_else(|found| panic!("{source}\n{found:?}"))
        });
        let [called, plain] = compiled.each_ref().map(|compiled| {
            let definitions = compiled.schedule.arrays.iter().map(|array| array.definition.clone()).collect_vec();
            (definitions, compiled.schedule.operations.node_count(), compiled.plan.totals().time())
        });
        assert_eq!(called, plain, "{functions}");
    }
}
