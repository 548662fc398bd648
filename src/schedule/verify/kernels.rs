//! Verification of kernels.

use super::Flaw;
use crate::fusion;
use crate::schedule::{OpId, Schedule};
use std::collections::BTreeSet;

/// The first invalid kernel.
pub(super) fn check(schedule: &Schedule) -> Result<(), (usize, Flaw)> {
    if schedule.kernels.is_empty() {
        return Ok(());
    }
    let nodes = schedule.fusion_nodes();
    let mut seen = BTreeSet::new();
    for (place, kernel) in schedule.kernels.iter().enumerate() {
        let members: BTreeSet<usize> = kernel.iter().map(|id| id.index()).collect();
        let is_local = |at: &usize| nodes.get(*at).is_some_and(|node| node.role.is_some());
        let mut done = BTreeSet::new();
        let is_next = |id: &OpId| {
            let at = id.index();
            let is_done = |operand: &usize| !members.contains(operand) || done.contains(operand);
            let is_next = is_local(&at) && seen.insert(at) && nodes[at].operands.iter().all(is_done);
            done.insert(at);
            is_next
        };
        let is_kernel = kernel.len() > 1 && kernel.iter().all(is_next) && fusion::is_convex(&nodes, &members);
        if !is_kernel {
            return Err((place, Flaw::Kernel));
        }
    }
    Ok(())
}
