//! Python syntax.

use crate::dtype::DType;
use crate::escape::python_string;
use crate::export::words::Generated;
use crate::mesh::{Axes, Mesh};
use crate::program::{Program, ValueId};
use itertools::Itertools;

/// A tuple: `(4, 2)`, `(4,)`.
pub(super) fn tuple<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.as_slice() {
        [one] => format!("({one},)"),
        many => format!("({})", many.join(", ")),
    }
}

/// Axes as a `lax` axis name: `"X"`, `("X", "Y")`.
pub(super) fn axes(axes: Axes, mesh: &Mesh) -> String {
    let names: Vec<String> = axes.iter().map(|axis| python_string(&mesh.axis(axis).name)).collect();
    match names.as_slice() {
        [one] => one.clone(),
        many => tuple(many),
    }
}

/// A partition spec: `P("X", None, ("Y", "Z"))`.
pub(super) fn spec<'a>(dims: impl IntoIterator<Item = &'a Axes>, mesh: &Mesh) -> String {
    let entry = |on: &Axes| if on.is_empty() { "None".to_owned() } else { axes(*on, mesh) };
    format!("P({})", dims.into_iter().map(entry).join(", "))
}

/// A dtype: `jnp.bfloat16`.
pub(super) fn dtype(dtype: DType) -> String {
    // `jnp.bool` is not in older versions.
    if dtype == DType::Bool { "jnp.bool_".to_owned() } else { format!("jnp.{}", dtype.numpy()) }
}

/// An array that each device makes by itself.
pub(super) fn generated(array: &Generated<'_>, program: &Program, id: ValueId) -> String {
    let value = program.value(id);
    let of = dtype(value.dtype);
    match array {
        Generated::Places(length) => format!("jnp.arange({length}, dtype={of})"),
        Generated::Table(table) => {
            let elements = table.elements().iter().join(", ");
            let shape = tuple(value.dims.iter().map(|dim| program.dims.size(dim.id)));
            format!("jnp.array([{elements}], dtype={of}).reshape({shape})")
        }
    }
}

/// A number that is converted to the array's dtype.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
pub(super) fn number(number: f64, of: DType) -> String {
    if of == DType::Bool {
        return if number == 0.0 { "False".to_owned() } else { "True".to_owned() };
    }
    if number.is_infinite() {
        return if number > 0.0 { "jnp.inf".to_owned() } else { "-jnp.inf".to_owned() };
    }
    if !of.is_float() && number.fract() == 0.0 && number.abs() < 9e15 {
        return format!("{}", number as i64);
    }
    format!("{number:?}")
}
