//! Meshes in JAX notation: `jax.make_mesh(axis_shapes=(4, 2), axis_names=('X', 'Y'))`.

use super::build::{Builder, Result, find};
use super::error::SyntaxError;
use super::grammar::Rule;
use super::{AxisDecl, SizeExpr};
use crate::span::{Span, Spanned};
use pest::iterators::Pair;

/// Nested tuples of numbers.
struct Grid {
    /// The length of each level, outermost first.
    shape: Vec<usize>,
    /// The numbers in text order.
    numbers: Vec<Spanned<u64>>,
}

impl Builder {
    /// The axes of a call.
    pub(super) fn mesh_call(&self, pair: Pair<'_, Rule>) -> Result<Vec<AxisDecl>> {
        let shape = find(pair.clone(), Rule::mesh_shape).expect("a call has a shape");
        let of_devices = find(shape.clone(), Rule::shape_key).is_some_and(|key| key.as_str() == "devices");
        let grid = find(shape, Rule::grid).expect("a shape is a grid");
        let at = self.span(&grid);
        let grid = self.grid(grid)?;
        let sizes = if of_devices { devices(&grid, at)? } else { sizes(grid, at)? };
        let names = find(pair, Rule::axis_names).expect("a call has names");
        let place = self.span(&names);
        let names = names.into_inner().filter(|part| part.as_rule() == Rule::quoted);
        let names = names.map(|name| self.declared(Some(name))).collect::<Result<Vec<_>>>()?;
        if names.len() != sizes.len() {
            return Err(flaw(format!("expected {} axis names, found {}", sizes.len(), names.len()), place));
        }
        let axis = |(name, size)| AxisDecl { name, size, more: Vec::new(), wiring: None, over: None };
        Ok(names.into_iter().zip(sizes).map(axis).collect())
    }

    fn grid(&self, pair: Pair<'_, Rule>) -> Result<Grid> {
        let at = self.span(&pair);
        let items = pair.into_inner().filter(|part| matches!(part.as_rule(), Rule::grid | Rule::integer));
        let (mut count, mut inner, mut numbers) = (0, None, Vec::new());
        for item in items {
            let item = match item.as_rule() {
                Rule::grid => self.grid(item)?,
                _ => Grid { shape: Vec::new(), numbers: vec![self.integer(&item)?] },
            };
            if inner.get_or_insert_with(|| item.shape.clone()) != &item.shape {
                return Err(flaw("the rows of the mesh differ in length".to_owned(), at));
            }
            count += 1;
            numbers.extend(item.numbers);
        }
        let shape = std::iter::once(count).chain(inner.unwrap_or_default()).collect();
        Ok(Grid { shape, numbers })
    }
}

/// A shape, `(4, 2)`.
fn sizes(grid: Grid, at: Span) -> Result<Vec<SizeExpr>> {
    match grid.shape.len() {
        1 => Ok(grid.numbers.into_iter().map(|size| SizeExpr::number(size.node, size.span)).collect()),
        _ => Err(flaw("a shape is a list of sizes".to_owned(), at)),
    }
}

/// A device array, `((0, 1), (2, 3))`, in device order.
fn devices(grid: &Grid, at: Span) -> Result<Vec<SizeExpr>> {
    match grid.numbers.iter().zip(0u64..).find(|(device, place)| device.node != *place) {
        Some((device, place)) => {
            Err(flaw(format!("expected device {place}, found device {}", device.node), device.span))
        }
        None => Ok(grid.shape.iter().map(|size| SizeExpr::number(*size as u64, at)).collect()),
    }
}

fn flaw(why: String, at: Span) -> SyntaxError {
    SyntaxError::MeshShape { why, at: at.into() }
}
