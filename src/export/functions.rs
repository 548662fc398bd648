//! The unary and binary functions, one by one, in JAX and in StableHLO.

use super::stablehlo::emit::{Emitter, Number, Tensor};
use crate::function::{Binary, Unary};

/// A unary function as a jax.numpy expression.
pub(super) fn jax(unary: Unary, a: &str) -> String {
    match unary {
        Unary::Neg => format!("-{a}"),
        Unary::Relu => format!("jax.nn.relu({a})"),
        Unary::Gelu => format!("jax.nn.gelu({a}, approximate=True)"),
        Unary::Exp => format!("jnp.exp({a})"),
        Unary::Tanh => format!("jnp.tanh({a})"),
        Unary::Sin => format!("jnp.sin({a})"),
        Unary::Cos => format!("jnp.cos({a})"),
        Unary::Sigmoid => format!("jax.nn.sigmoid({a})"),
        Unary::Silu => format!("jax.nn.silu({a})"),
        Unary::Sqrt => format!("jnp.sqrt({a})"),
        Unary::Rsqrt => format!("lax.rsqrt({a})"),
        Unary::Abs => format!("jnp.abs({a})"),
        Unary::Log => format!("jnp.log({a})"),
        Unary::Square => format!("jnp.square({a})"),
        Unary::Recip => format!("1 / {a}"),
        Unary::Not => format!("~{a}"),
    }
}

/// A unary function as StableHLO operations.
pub(super) fn stablehlo(emit: &mut Emitter, unary: Unary, a: &Tensor) -> Tensor {
    let number = |emit: &mut Emitter, c: f64| emit.constant(Number::Is(c), &a.shape, a.dtype);
    match unary {
        Unary::Neg => emit.same("negate", &[a]),
        Unary::Relu => {
            let zero = number(emit, 0.0);
            emit.same("maximum", &[a, &zero])
        }
        Unary::Gelu => {
            let square = emit.same("multiply", &[a, a]);
            let cube = emit.same("multiply", &[&square, a]);
            let share = number(emit, 0.044715);
            let bent = emit.same("multiply", &[&share, &cube]);
            let sum = emit.same("add", &[a, &bent]);
            let root = number(emit, (2.0 / std::f64::consts::PI).sqrt());
            let scaled = emit.same("multiply", &[&root, &sum]);
            let tanh = emit.same("tanh", &[&scaled]);
            let one = number(emit, 1.0);
            let shifted = emit.same("add", &[&one, &tanh]);
            let half = number(emit, 0.5);
            let half = emit.same("multiply", &[&half, a]);
            emit.same("multiply", &[&half, &shifted])
        }
        Unary::Exp => emit.same("exponential", &[a]),
        Unary::Tanh => emit.same("tanh", &[a]),
        Unary::Sin => emit.same("sine", &[a]),
        Unary::Cos => emit.same("cosine", &[a]),
        Unary::Sigmoid => emit.same("logistic", &[a]),
        Unary::Silu => {
            let share = emit.same("logistic", &[a]);
            emit.same("multiply", &[a, &share])
        }
        Unary::Sqrt => emit.same("sqrt", &[a]),
        Unary::Rsqrt => emit.same("rsqrt", &[a]),
        // `abs` is not defined for unsigned integers.
        Unary::Abs if a.dtype.is_unsigned() => a.clone(),
        Unary::Abs => emit.same("abs", &[a]),
        Unary::Log => emit.same("log", &[a]),
        Unary::Square => emit.same("multiply", &[a, a]),
        Unary::Recip => {
            let one = number(emit, 1.0);
            emit.same("divide", &[&one, a])
        }
        Unary::Not => emit.same("not", &[a]),
    }
}

/// A binary function as a jax.numpy expression.
pub(super) fn jax_binary(binary: Binary, a: &str, b: &str) -> String {
    match binary {
        Binary::Add => format!("{a} + {b}"),
        Binary::Sub => format!("{a} - {b}"),
        Binary::Mul => format!("{a} * {b}"),
        Binary::Div => format!("{a} / {b}"),
        Binary::Larger => format!("jnp.maximum({a}, {b})"),
        Binary::Smaller => format!("jnp.minimum({a}, {b})"),
    }
}

/// The StableHLO operation of a binary function.
pub(super) fn stablehlo_binary(binary: Binary) -> &'static str {
    match binary {
        Binary::Add => "add",
        Binary::Sub => "subtract",
        Binary::Mul => "multiply",
        Binary::Div => "divide",
        Binary::Larger => "maximum",
        Binary::Smaller => "minimum",
    }
}
