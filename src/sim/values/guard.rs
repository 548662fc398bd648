//! Estimates the memory and time of a run before anything is allocated.

use super::error::RunError;
use crate::memory;
use crate::schedule::view::lengths;
use crate::schedule::{Dense, OpId, OpKind, Region, Schedule, Verified, verify};

/// Maximum memory of a run in bytes: inputs, the dense computation and the blocks of all devices together.
pub const MOST_BYTES: u128 = 8 << 30;
/// Maximum arithmetic of a run: a few minutes of one core.
pub const MOST_FLOPS: u128 = 1 << 45;
/// Maximum number of blocks of a run: operations times devices.
pub const MOST_BLOCKS: u128 = 1 << 26;
/// Bytes that a block takes in addition to its elements: its view, and its entry in the lists.
const BLOCK_OVERHEAD: u128 = 256;

/// Requirements of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Upper bound of the peak memory in bytes.
    pub bytes: u128,
    /// Floating-point operations of the dense computation and of all devices.
    pub flops: u128,
    /// Operations times devices.
    pub blocks: u128,
}

/// Maximum memory of a run on this system: less than [`MOST_BYTES`] if the system provides less, because a failed
/// allocation would abort the process without a message.
pub(super) fn most_bytes() -> u128 {
    memory::allowed().map_or(MOST_BYTES, |allowed| MOST_BYTES.min(u128::from(allowed)))
}

/// The requirements of a well-formed schedule, including the dense computation. Saturates.
pub fn need(schedule: &Schedule) -> Need {
    let bytes = |extents: &[u64], size: u64| {
        extents.iter().fold(u128::from(size), |product, extent| product.saturating_mul(u128::from(*extent)))
    };
    let arrays = schedule.arrays.iter().map(|array| bytes(&array.extents, array.dtype.stored()));
    let arrays = arrays.fold(0, u128::saturating_add);
    // A product widens its operands and its result to at most 8 bytes per element, one device at a time.
    let scratch = schedule.arrays.iter().map(|array| bytes(&array.extents, 8)).max().unwrap_or(0).saturating_mul(3);
    let scratch = scratch
        .saturating_add(dense_formulas(schedule).map(|(_, elements)| elements.saturating_mul(8)).max().unwrap_or(0));
    let devices = schedule.mesh.device_count() as u128;
    Need {
        bytes: arrays.saturating_add(scratch).saturating_add(most_live(schedule, &bytes)),
        flops: flops(schedule, devices),
        blocks: devices.saturating_mul(schedule.operations.node_count() as u128),
    }
}

/// Peak bytes of the blocks of all devices.
fn most_live(schedule: &Schedule, bytes: &impl Fn(&[u64], u64) -> u128) -> u128 {
    let deaths = buffer_deaths(schedule);
    let devices = schedule.mesh.device_count() as u128;
    let mut dying: Vec<u128> = vec![0; deaths.len() + 1];
    let (mut live, mut most) = (0u128, 0u128);
    for id in schedule.ids() {
        let operation = schedule.operation(id);
        let block = bytes(&operation.extents, operation.dtype.stored());
        // Slices and shuffles share buffers; members of a group share the gathered block. The check of an assembled
        // block for gaps, or the widening of a sum, temporarily takes one block of one device.
        let own = match &operation.kind {
            OpKind::Input { sharding, array } if !sharding.open.is_empty() => {
                let array = schedule.array(*array);
                let whole = bytes(&array.extents, array.dtype.stored());
                whole.saturating_mul(u128::from(sharding.open.group_size(&schedule.mesh)))
            }
            // A padded input is copied once.
            OpKind::Input { array, .. } => {
                let array = schedule.array(*array);
                if array.valid == array.extents { 0 } else { bytes(&array.extents, array.dtype.stored()) }
            }
            OpKind::Shuffle { .. } => 0,
            OpKind::Slice { view, region } if keeps_dims(view, region, &operation.extents) => 0,
            OpKind::AllGather { axes, .. } | OpKind::SwitchSum { axes, .. } => {
                block.saturating_mul(devices / u128::from(schedule.mesh.group_size(axes.iter().copied()).max(1)))
            }
            _ => block.saturating_mul(devices),
        };
        let own = own.saturating_add(devices * BLOCK_OVERHEAD);
        live = live.saturating_add(own);
        most = most.max(live.saturating_add(block.saturating_mul(8)));
        let death = &mut dying[deaths[id.index()]];
        *death = death.saturating_add(own);
        live = live.saturating_sub(dying[id.index()]);
    }
    most
}

/// Whether a slice has the dims of its region except those of length 1. Then it is a strided view; otherwise it may
/// be a copy.
fn keeps_dims(view: &[u64], region: &Region, extents: &[u64]) -> bool {
    let dims = lengths(view, region).into_iter().filter(|length| *length != 1);
    dims.eq(extents.iter().copied().filter(|extent| *extent != 1))
}

/// The operation after which each value's buffers are free: the last use of the value, or of one that shares them.
fn buffer_deaths(schedule: &Schedule) -> Vec<usize> {
    let mut deaths: Vec<usize> = schedule.ids().map(OpId::index).collect();
    for output in &schedule.outputs {
        deaths[output.value.index()] = schedule.operations.node_count();
    }
    let order: Vec<OpId> = schedule.ids().collect();
    for user in order.into_iter().rev() {
        // The sum of a single present block is that block.
        let shares = !matches!(
            schedule.operation(user).kind,
            OpKind::Assemble { .. }
                | OpKind::AllGather { .. }
                | OpKind::SwitchSum { .. }
                | OpKind::MatMul { .. }
                | OpKind::Reduce { .. }
        );
        let own = if shares { deaths[user.index()] } else { user.index() };
        for operand in schedule.operands(user) {
            deaths[operand.index()] = deaths[operand.index()].max(own);
        }
    }
    deaths
}

fn flops(schedule: &Schedule, devices: u128) -> u128 {
    let dense = schedule.arrays.iter().map(|array| match &array.definition {
        Dense::Product { operands, einsum } => einsum.flops(&operands.map(|id| schedule.array(id).extents.clone())),
        Dense::Input { .. } | Dense::Reduce { .. } | Dense::Map { .. } | Dense::Kernel { .. } => 0,
    });
    let local = schedule.ids().map(|id| match &schedule.operation(id).kind {
        OpKind::MatMul { einsum } => {
            let extents = schedule.operands(id).into_iter().map(|operand| schedule.operation(operand).extents.clone());
            einsum.flops(&extents.collect::<Vec<_>>()).saturating_mul(devices)
        }
        _ => 0,
    });
    // On a device a formula is at most the whole one.
    let formulas = dense_formulas(schedule).map(|(flops, _)| flops.saturating_mul(1 + devices));
    dense.chain(local).chain(formulas).fold(0, u128::saturating_add)
}

/// Operations and elements of the formulas of declared kernels on whole arrays.
fn dense_formulas(schedule: &Schedule) -> impl Iterator<Item = (u128, u128)> + '_ {
    schedule.arrays.iter().filter_map(|array| match &array.definition {
        Dense::Kernel { kernel, operands } => {
            let extents = operands.iter().map(|id| schedule.array(*id).extents.clone()).collect();
            kernel.formula.as_ref().map(|formula| formula.work(extents))
        }
        Dense::Input { .. } | Dense::Product { .. } | Dense::Reduce { .. } | Dense::Map { .. } => None,
    })
}

/// Refuses schedules that are malformed or that need too much memory or time.
///
/// # Errors
/// [`RunError::Malformed`], [`RunError::NoNumbers`] or [`RunError::TooLarge`].
pub fn check(schedule: &Schedule) -> Result<Verified<'_>, RunError> {
    let verified = verify(schedule)?;
    let kernels = schedule.arrays.iter().filter_map(|array| match &array.definition {
        Dense::Kernel { kernel, .. } if kernel.formula.is_none() => Some(kernel),
        Dense::Kernel { .. } => None,
        Dense::Input { .. } | Dense::Product { .. } | Dense::Reduce { .. } | Dense::Map { .. } => None,
    });
    let operations = schedule.operations.node_weights().filter_map(|operation| match &operation.kind {
        OpKind::Kernel(kernel) if kernel.formula.is_none() => Some(kernel),
        _ => None,
    });
    if let Some(kernel) = kernels.chain(operations).next() {
        return Err(RunError::NoNumbers { kernel: kernel.name.clone() });
    }
    let need = need(schedule);
    let too_large = |need: String, most: String| Err(RunError::TooLarge { need, most });
    if need.bytes > most_bytes() {
        return too_large(gibibytes(need.bytes), gibibytes(most_bytes()));
    }
    if need.flops > MOST_FLOPS {
        return too_large(format!("{} FLOPs", need.flops), format!("{MOST_FLOPS} FLOPs"));
    }
    if need.blocks > MOST_BLOCKS {
        return too_large(format!("{} blocks", need.blocks), format!("{MOST_BLOCKS} blocks"));
    }
    Ok(verified)
}

/// Formats bytes as `1.5 GiB`.
fn gibibytes(bytes: u128) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}
