//! Collectives as StableHLO operations on the shards of all devices.

use super::emit::{Emitter, Number, Tensor, list};
use crate::dtype::DType;
use crate::export::words::Word;
use crate::mesh::{Axes, AxisId, DeviceId, Mesh};
use itertools::Itertools;

/// Emits the operations of a word.
pub(super) fn word(emit: &mut Emitter, word: &Word, x: &Tensor, mesh: &Mesh) -> Tensor {
    let size = |axes: &Axes| axes.group_size(mesh);
    let scaled = |dim: usize, by: u64, down: bool| -> Vec<u64> {
        let extents = x.shape.iter().enumerate();
        let scale = |extent: u64| if down { extent / by } else { extent * by };
        extents.map(|(place, extent)| if place == dim { scale(*extent) } else { *extent }).collect()
    };
    match word {
        Word::Rearrange { cut, order, extents } => {
            let cut = emit.reshape(x, cut);
            let ordered = emit.transpose(&cut, order);
            emit.reshape(&ordered, extents)
        }
        Word::AllGather { axes, dim } => {
            let (channel, groups) = (emit.channel(), groups(*axes, mesh));
            let attributes = format!("all_gather_dim = {dim} : i64, {channel}, {groups}, use_global_device_ids");
            emit.general("all_gather", x, &attributes, None, &scaled(*dim, size(axes), false))
        }
        Word::ReduceScatter { axes, dim, operator } => {
            let (channel, groups) = (emit.channel(), groups(*axes, mesh));
            let attributes = format!("{channel}, {groups}, scatter_dimension = {dim} : i64, use_global_device_ids");
            emit.general("reduce_scatter", x, &attributes, Some(*operator), &scaled(*dim, size(axes), true))
        }
        Word::AllReduce { axes, operator } => {
            let attributes = format!("{}, {}, use_global_device_ids", emit.channel(), groups(*axes, mesh));
            emit.general("all_reduce", x, &attributes, Some(*operator), &x.shape)
        }
        Word::AllToAll { axes, split, join } => {
            let (channel, groups, size) = (emit.channel(), groups(*axes, mesh), size(axes));
            let attributes = format!(
                "{channel}, concat_dimension = {join} : i64, {groups}, split_count = {size} : i64, split_dimension = {split} : i64"
            );
            let mut to = x.shape.clone();
            to[*split] /= size;
            to[*join] *= size;
            emit.general("all_to_all", x, &attributes, None, &to)
        }
        Word::Permute { axes, pairs } => permuted(emit, x, *axes, pairs, mesh),
        Word::Shift { axes, dim, parts } => {
            let mut rows = Vec::new();
            for part in parts {
                let own = emit.rows(x, *dim, &part.rows);
                rows.push(match &part.sent {
                    None => own,
                    Some(pairs) if pairs.is_empty() => emit.constant(Number::Is(0.0), &own.shape, own.dtype),
                    Some(pairs) => permuted(emit, &own, *axes, pairs, mesh),
                });
            }
            emit.concatenated(&rows.iter().collect::<Vec<_>>(), *dim, &x.shape)
        }
        Word::Own { axes, dim, length } => {
            let start = start(emit, *axes, *length, mesh);
            let zero = emit.constant(Number::Is(0.0), &[], DType::I64);
            let starts = (0..x.shape.len()).map(|place| if place == *dim { &start } else { &zero });
            let operands: Vec<&Tensor> = std::iter::once(x).chain(starts).collect();
            let mut to = x.shape.clone();
            to[*dim] = *length;
            emit.typed("dynamic_slice", &operands, &format!("sizes = {}", list(&to)), (&to, x.dtype))
        }
        Word::OnlyOn { rank, axes } => {
            let place = start(emit, *axes, 1, mesh);
            let own = emit.constant(Number::Is(*rank as f64), &[], DType::I64);
            let has_it = emit.compare("EQ", &place, &own);
            let zeros = emit.constant(Number::Is(0.0), &x.shape, x.dtype);
            emit.select(&has_it, x, &zeros)
        }
        Word::Square => emit.same("multiply", &[x, x]),
        Word::Over(n) => {
            let n = emit.constant(Number::Is(*n as f64), &x.shape, x.dtype);
            emit.same("divide", &[x, &n])
        }
        Word::Fold(operator) => emit.reduce(*operator, x, &[0]),
    }
}

/// Each block sent to one other device of its group, by position; zeros on devices that get none.
fn permuted(emit: &mut Emitter, x: &Tensor, axes: Axes, pairs: &[(u64, u64)], mesh: &Mesh) -> Tensor {
    let at = |group: &[u32], place: u64| usize::try_from(place).ok().and_then(|place| group.get(place)).copied();
    let devices = members(axes, mesh);
    let pairs: Vec<String> = devices
        .iter()
        .cartesian_product(pairs)
        .map(|(group, (from, to))| list([*from, *to].map(|place| at(group, place).unwrap_or_default())))
        .collect();
    let (channel, count, pairs) = (emit.channel(), pairs.len(), list(&pairs));
    let attributes = format!("{channel}, source_target_pairs = dense<{pairs}> : tensor<{count}x2xi64>");
    emit.general("collective_permute", x, &attributes, None, &x.shape)
}

/// The rank of a device in its group, times `length`.
pub(super) fn start(emit: &mut Emitter, axes: Axes, length: u64, mesh: &Mesh) -> Tensor {
    let id = emit.fresh();
    emit.line(&format!("{id} = stablehlo.partition_id : tensor<ui32>"));
    let wide = emit.fresh();
    emit.line(&format!("{wide} = stablehlo.convert {id} : (tensor<ui32>) -> tensor<i64>"));
    let device = Tensor { name: wide, shape: Vec::new(), dtype: DType::I64 };
    let number = |emit: &mut Emitter, n: u64| emit.constant(Number::Is(n as f64), &[], DType::I64);
    let mut place: Option<Tensor> = None;
    for axis in axes.iter() {
        let (stride, size) = (u64::from(mesh.stride(axis)), mesh.size(axis));
        let above = if stride == 1 {
            device.clone()
        } else {
            let stride = number(emit, stride);
            emit.same("divide", &[&device, &stride])
        };
        let size = number(emit, size);
        let coordinate = emit.same("remainder", &[&above, &size]);
        place = Some(match place {
            None => coordinate,
            Some(major) => {
                let scaled = emit.same("multiply", &[&major, &size]);
                emit.same("add", &[&scaled, &coordinate])
            }
        });
    }
    let place = place.unwrap_or_else(|| number(emit, 0));
    if length == 1 {
        return place;
    }
    let length = number(emit, length);
    emit.same("multiply", &[&place, &length])
}

/// The groups spanned by the axes, each in rank order.
fn members(axes: Axes, mesh: &Mesh) -> Vec<Vec<u32>> {
    let own: Vec<AxisId> = axes.iter().collect();
    let is_first = |device: &DeviceId| own.iter().all(|axis| mesh.coordinate(*device, *axis) == 0);
    let group =
        |first: DeviceId| (0..axes.group_size(mesh)).map(|rank| mesh.with_rank(first, axes.iter(), rank).0).collect();
    mesh.devices().filter(is_first).map(group).collect()
}

fn groups(axes: Axes, mesh: &Mesh) -> String {
    let groups = members(axes, mesh);
    let members = groups.first().map_or(0, Vec::len);
    let text = list(groups.iter().map(list));
    format!("replica_groups = dense<{text}> : tensor<{}x{members}xi64>", groups.len())
}
