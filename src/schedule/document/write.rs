//! Conversion of a schedule to JSON.

use super::{
    ArrayDocument, AxisDocument, CutDocument, DefinitionDocument, Document, MeshDocument, OpDocument,
    OperationDocument, OutputDocument, RouteDocument, SCHEMA, ShardingDocument, SourcesDocument, ViewDocument,
};
use crate::layout::Sharding;
use crate::mesh::{Axes, Axis, AxisId, Mesh};
use crate::schedule::{Array, CoordMap, Cut, Dense, OpId, OpKind, Output, Region, Route, Schedule, Sources, words};
use crate::supply::Supply;

pub(super) fn document(schedule: &Schedule) -> Document {
    let mesh = &schedule.mesh;
    let output = |output: &Output| OutputDocument {
        value: number(output.value),
        array: output.array.0,
        sharding: sharding(mesh, &output.sharding),
    };
    Document {
        schema: SCHEMA.to_owned(),
        mesh: mesh_document(mesh),
        arrays: schedule.arrays.iter().map(array).collect(),
        operations: schedule.ids().map(|id| operation(schedule, id)).collect(),
        kernels: schedule.kernels.iter().map(|kernel| kernel.iter().copied().map(number).collect()).collect(),
        outputs: schedule.outputs.iter().map(output).collect(),
        assertions: schedule.assertions.iter().map(output).collect(),
    }
}

fn mesh_document(mesh: &Mesh) -> MeshDocument {
    let axis = |axis: &Axis| AxisDocument {
        name: axis.name.clone(),
        size: axis.size,
        wiring: axis.wiring.map(|wiring| wiring.to_string()),
        over: axis.over.clone(),
    };
    let view = |(whole, parts): (&Axis, Axes)| ViewDocument { axis: axis(whole), parts: names(mesh, parts.iter()) };
    MeshDocument { axes: mesh.axes().iter().map(axis).collect(), views: mesh.views().map(view).collect() }
}

fn number(id: OpId) -> u32 {
    u32::try_from(id.index()).expect("ids have 32 bits")
}

fn array(array: &Array) -> ArrayDocument {
    ArrayDocument {
        name: array.name.clone(),
        dtype: array.dtype.to_string(),
        dims: array.dims.clone(),
        extents: array.extents.clone(),
        valid: (array.valid != array.extents).then(|| array.valid.clone()),
        definition: match &array.definition {
            Dense::Input { supply: Supply::Held } => DefinitionDocument::Input,
            Dense::Input { supply: Supply::Donated } => DefinitionDocument::DonatedInput,
            Dense::Input { supply: Supply::Counted } => DefinitionDocument::Iota,
            Dense::Input { supply: Supply::Table(table) } => DefinitionDocument::Table(table.elements().to_vec()),
            Dense::Product { operands, einsum } => {
                DefinitionDocument::Product { operands: operands.map(|operand| operand.0), einsum: einsum.to_string() }
            }
            Dense::Reduce { operator, operand, einsum } => DefinitionDocument::Reduce {
                operator: operator.to_string(),
                operand: operand.0,
                einsum: einsum.to_string(),
            },
            Dense::Kernel { kernel, operands } => DefinitionDocument::Call {
                kernel: words::kernel_text(kernel),
                operands: operands.iter().map(|operand| operand.0).collect(),
            },
            Dense::Map { function, operands, einsum } => DefinitionDocument::Map {
                function: function.to_string(),
                operands: operands.iter().map(|operand| operand.0).collect(),
                einsum: einsum.to_string(),
            },
        },
    }
}

fn names(mesh: &Mesh, axes: impl IntoIterator<Item = AxisId>) -> Vec<String> {
    axes.into_iter().map(|axis| mesh.axis(axis).name.clone()).collect()
}

fn sharding(mesh: &Mesh, sharding: &Sharding) -> ShardingDocument {
    ShardingDocument {
        dims: sharding.dims.iter().map(|axes| names(mesh, axes.iter())).collect(),
        open: names(mesh, sharding.open.iter()),
        operator: (!sharding.open.is_empty()).then(|| sharding.operator.to_string()),
        root: sharding.root(mesh).filter(|root| *root > 0),
    }
}

fn operation(schedule: &Schedule, id: OpId) -> OperationDocument {
    let operation = schedule.operation(id);
    OperationDocument {
        op: kind(&schedule.mesh, &operation.kind),
        operands: schedule.operands(id).into_iter().map(number).collect(),
        dtype: operation.dtype.to_string(),
        extents: operation.extents.clone(),
        step: operation.step,
        method: operation.method.map(str::to_owned),
        span: [operation.span.start, operation.span.end],
    }
}

fn kind(mesh: &Mesh, kind: &OpKind) -> OpDocument {
    match kind {
        OpKind::Input { array, sharding: spread } => {
            OpDocument::Input { array: array.0, sharding: sharding(mesh, spread) }
        }
        OpKind::Slice { view, region: kept } => OpDocument::Slice { view: view.clone(), region: region(mesh, kept) },
        OpKind::Shuffle { sources: from, route } => OpDocument::Shuffle {
            sources: sources(mesh, from),
            route: match route {
                Route::Hops(hops) => RouteDocument::Hops(*hops),
                Route::Shortest => RouteDocument::Shortest,
            },
        },
        OpKind::Add { operator } => OpDocument::Add { operator: operator.to_string() },
        OpKind::Assemble { view, places, zeros } => OpDocument::Assemble {
            zeros: *zeros,
            view: view.clone(),
            places: places.iter().map(|place| region(mesh, place)).collect(),
        },
        OpKind::AllGather { axes, dim } => OpDocument::AllGather {
            axes: names(mesh, axes.iter().copied()),
            dim: u32::try_from(*dim).unwrap_or(u32::MAX),
        },
        OpKind::SwitchSum { axes, operator } => {
            OpDocument::SwitchSum { axes: names(mesh, axes.iter().copied()), operator: operator.to_string() }
        }
        OpKind::MatMul { einsum } => OpDocument::MatMul { einsum: einsum.to_string() },
        OpKind::Reduce { operator, einsum } => {
            OpDocument::Reduce { operator: operator.to_string(), einsum: einsum.to_string() }
        }
        OpKind::Map { function, einsum } => {
            OpDocument::Map { function: function.to_string(), einsum: einsum.to_string() }
        }
        OpKind::Kernel(kernel) => OpDocument::Call { kernel: words::kernel_text(kernel) },
        OpKind::Shift { shift, length, block } => OpDocument::Shift {
            dim: u32::from(shift.dim),
            by: shift.by,
            wraps: shift.wraps,
            length: *length,
            block: cut(mesh, &Cut::At(block.clone())),
        },
        OpKind::Mask { axes } => OpDocument::Mask { axes: names(mesh, axes.iter().copied()) },
        OpKind::Reshape => OpDocument::Reshape {},
        OpKind::Fill { dim, valid, with, block } => OpDocument::Fill {
            dim: u32::try_from(*dim).unwrap_or(u32::MAX),
            valid: *valid,
            with: with.word().to_owned(),
            block: cut(mesh, &Cut::At(block.clone())),
        },
    }
}

fn region(mesh: &Mesh, region: &Region) -> Vec<CutDocument> {
    region.iter().map(|part| cut(mesh, part)).collect()
}

fn cut(mesh: &Mesh, cut: &Cut) -> CutDocument {
    match cut {
        Cut::Whole => CutDocument::Whole,
        Cut::Range { start, end } => CutDocument::Range([*start, *end]),
        Cut::At(CoordMap::Affine { terms, constant, modulo }) => CutDocument::Affine {
            terms: terms.iter().map(|(axis, factor)| (mesh.axis(*axis).name.clone(), *factor)).collect(),
            constant: *constant,
            modulo: *modulo,
        },
        Cut::At(CoordMap::Table { axes, entries }) => {
            CutDocument::Table { axes: names(mesh, axes.iter().copied()), entries: entries.clone() }
        }
    }
}

fn sources(mesh: &Mesh, sources: &Sources) -> SourcesDocument {
    match sources {
        Sources::Shift { axes, by, wrap } => {
            SourcesDocument::Shift { axes: names(mesh, axes.iter()), by: *by, wrap: *wrap }
        }
        Sources::Table { axes, entries } => {
            SourcesDocument::Table { axes: names(mesh, axes.iter().copied()), entries: entries.clone() }
        }
    }
}
