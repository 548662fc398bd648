//! Schedules of one shift.

use shardc::dtype::DType;
use shardc::einsum::Einsum;
use shardc::function::Function;
use shardc::layout::{DimId, Sharding};
use shardc::mesh::{Axes, Mesh};
use shardc::schedule::methods::Shifted;
use shardc::schedule::{Array, ArrayId, Builder, Dense, Output, Schedule};
use shardc::shift::Shift;
use shardc::span::Span;

/// Extents of the blocks of a shift.
pub const EXTENTS: [u64; 2] = [4, 2];

/// A shift of an array whose dims are sharded by these axes.
pub fn shifted(mesh: Mesh, axes: [Axes; 2], shift: Shift, closed: bool) -> Schedule {
    let sharding = Sharding { dims: axes.to_vec(), ..Sharding::default() };
    let extents: Vec<u64> = axes.iter().zip(EXTENTS).map(|(axes, extent)| axes.group_size(&mesh) * extent).collect();
    let mut schedule = Schedule::new(mesh);
    let ids = [DimId(0), DimId(1)];
    let einsum = Einsum::new(&[ids.to_vec()], &ids);
    let moved = Dense::Map { function: Function::Shift(shift), operands: vec![ArrayId(0)], einsum };
    for (name, definition) in [("x", Dense::INPUT), ("y", moved)] {
        schedule.arrays.push(Array {
            name: name.to_owned(),
            dtype: DType::I64,
            dims: vec!["S".to_owned(), "D".to_owned()],
            extents: extents.clone(),
            valid: extents.clone(),
            definition,
        });
    }
    let mut builder = Builder::new(&mut schedule, 0, Span::default());
    let given = builder.input(ArrayId(0), sharding.clone());
    let recipe = Shifted { axes: axes[shift.dim()], shift, closed };
    let value = recipe.emit(&mut builder, given);
    schedule.outputs.push(Output { value, array: ArrayId(1), sharding });
    schedule
}
