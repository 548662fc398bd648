//! Split axes, if they give a better plan than whole axes.
//!
//! An axis of 8 may split one dim by 2 and another by 4, and a part of a longer axis may be exchanged with a shorter
//! one. So the program is planned again on the mesh of prime parts, for plans that are cheaper than the plan with
//! whole axes. Both meshes have the same devices with the same numbers.
//!
//! The book's formulas give each part its own links, so every gather would appear faster part by part. Cost models with
//! this property do not support split axes.

use super::goal::rank;
use super::problem::{Problem, Solve, Unplanned};
use super::reshard::SearchOptions;
use super::{Allowed, Budget, LowerBound, Plan};
use crate::layout::Sharding;
use crate::mesh::{Axes, AxisSet, Mesh};
use crate::program::{Definition, ExpectationKind, Program, Wanted};

/// Plans a program; axes are split if that is cheaper.
///
/// # Errors
/// If planning fails.
pub(super) fn plan(problem: Problem<'_>, solve: Solve<'_>) -> Result<Plan, Unplanned> {
    let Problem { program, costs, options } = problem;
    let whole = solve(problem)?;
    let pinned = program.values.iter().any(|value| value.pin.is_some());
    let figure = |plan: &Plan| {
        let (over, (first, second, _)) = rank(plan, costs.objective());
        (over, first, second)
    };
    // If the plan violates limits, any improvement counts; equal plans are compared by the tie breaker.
    let (over, first, _) = figure(&whole);
    let most = if over > 0 { u128::MAX } else { first };
    let is_tried = !pinned && options.allowed == Allowed::Moves && !options.budget.is_over();
    let Some(program) = in_parts(program).filter(|_| is_tried) else { return Ok(whole) };
    let Some(costs) = costs.seen_as(&program.mesh) else { return Ok(whole) };
    let options = SearchOptions { most: most.min(options.most), ..options };
    match solve(Problem { program: &program, costs: costs.as_ref(), options }) {
        Ok(found) if figure(&found) < figure(&whole) => Ok(Plan { in_parts: true, ..found }),
        // If all plans with split axes were searched, none is better than the plan with whole axes.
        Ok(found) if found.is_optimal() => Ok(Plan { in_parts: true, ..whole }),
        // A mesh of parts has the plans with whole axes, too.
        Ok(found) => Ok(Plan { with_split_axes: Some(found.lower_bound), ..whole }),
        Err(Unplanned { left_out: None, .. }) => Ok(Plan { in_parts: true, ..whole }),
        Err(Unplanned { left_out: Some(left_out), .. }) => {
            let bound = left_out.of_both(LowerBound { time: whole.totals().time(), received: whole.received() });
            Ok(Plan { with_split_axes: Some(bound), ..whole })
        }
    }
}

/// The program on the mesh of the prime parts of its axes; `None` if no axis can be split, or there are too many parts.
pub(super) fn in_parts(program: &Program) -> Option<Program> {
    let (mesh, parts) = program.mesh.cut(&parts(program)?)?;
    Some(cut(program, mesh, &parts))
}

/// The sizes of the parts of each axis; `None` if no axis can be split.
fn parts(program: &Program) -> Option<Vec<Vec<u32>>> {
    let mesh = &program.mesh;
    let primes: Vec<Vec<u32>> = mesh.axes().iter().map(|axis| primes(axis.size)).collect();
    let count: usize =
        mesh.axes().iter().zip(&primes).filter(|(axis, _)| axis.size > 1).map(|(_, parts)| parts.len()).sum();
    let is_split = primes.iter().any(|parts| parts.len() > 1);
    (is_split && count <= Budget::MOST_PARTS).then_some(primes)
}

/// The prime factors of a size in ascending order; 1 for size 1.
fn primes(mut size: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut prime = 2;
    while size > 1 && prime * prime <= size {
        if size.is_multiple_of(prime) {
            found.push(prime);
            size /= prime;
        } else {
            prime += 1;
        }
    }
    if size > 1 || found.is_empty() {
        found.push(size);
    }
    found
}

/// The program on the mesh in which each axis has these parts.
fn cut(program: &Program, mesh: Mesh, parts: &[Axes]) -> Program {
    let mut program = program.clone();
    let list = |axes: Axes| axes.iter().flat_map(|axis| parts[axis.index()].iter()).collect::<Axes>();
    let set = |axes: AxisSet| list(axes.in_order()).set();
    let sharding = |from: &Sharding| Sharding {
        dims: from.dims.iter().map(|axes| list(*axes)).collect(),
        open: set(from.open),
        operator: from.operator,
    };
    for value in &mut program.values {
        match &mut value.wanted {
            Wanted::Exact(wanted) => *wanted = sharding(wanted),
            Wanted::Partly(dims) => dims.iter_mut().flatten().for_each(|axes| *axes = list(*axes)),
            Wanted::Free => {}
        }
        if let Definition::Collective { collective, from, .. } = &mut value.definition {
            *from = sharding(from);
            *collective = collective.mapped(&list, &sharding);
        }
    }
    for expectation in &mut program.expectations {
        if let ExpectationKind::Collectives { moves, .. } = &mut expectation.kind {
            for wanted in moves {
                wanted.axes = wanted.axes.map(set);
                wanted.onto.iter_mut().for_each(|(axes, _)| *axes = set(*axes));
            }
        }
    }
    program.mesh = mesh;
    program
}

#[cfg(test)]
mod tests {
    use super::primes;
    use crate::compiler::{self, Options, Overlapping, Resharding};
    use crate::costs::CostModel;
    use crate::plan::{Budget, Plan};
    use itertools::Itertools;

    /// With small limits, searches of split axes are cut short. Then nothing is claimed that the whole search refutes.
    #[test]
    fn short_searches_of_split_axes_claim_nothing_false() {
        let (mut whole_alone, mut bounded, mut complete) = (0, 0, 0);
        // With primes as extents, only `B` and `H` can be sharded, each over a part of an axis.
        let cases = [("X: 4", "S: 512, K: 128", "S_X, D"), ("X: 8", "S: 509, K: 127", "S, D_X")];
        for (mesh, extents, layout) in cases {
            let source = format!(
                "mesh {{{mesh}}} on tpu_v5p\ndims {{B: 2, D: 4096, H: 2, {extents}}}\nx: bf16[B, {layout}]\n\
                 Wq: bf16[D_X, H, K]\nWk: bf16[D_X, H, K]\nWo: bf16[H, K, D_X]\nq[B, S, H, K]_? = x * Wq\n\
                 k[B, S, H, K]_? = x * Wk\na = relu(q) .* k\no[B, S, D]_? = a * Wo\ny = o + x\noutput y\noutput a\n"
            );
            let planned = |parts: u64| -> Plan {
                let budget = Budget::default().divided_by(parts);
                let (overlap, reshard) = (Overlapping::None, Resharding::Chains);
                let options = Options {
                    budget,
                    costs: CostModel::Bytes,
                    overlap,
                    reshard,
                    as_written: true,
                    ..Options::default()
                };
                let program = compiler::check(&source).0.expect("a program");
                let topology = compiler::machine(&program, &options).expect("a machine");
                compiler::plan(&program, &topology, &options).expect("a plan")
            };
            let received = |plan: &Plan| plan.totals().received();
            let best = received(&planned(1));
            for parts in [1, 30, 1_000, 30_000] {
                let plan = planned(parts);
                let claimed = plan.is_optimal() && plan.in_parts;
                assert!(!claimed || received(&plan) == best, "{parts}: a better plan\n{source}");
                let bound = if plan.in_parts { Some(plan.lower_bound) } else { plan.with_split_axes };
                let least = bound.unwrap_or_default().received;
                assert!(least <= best, "{parts}: a bound of {least} above {best}\n{source}");
                whole_alone += usize::from(plan.is_optimal() && !plan.in_parts);
                bounded += usize::from(plan.with_split_axes.is_some() && least.0 > 0);
                complete += usize::from(claimed);
            }
        }
        assert!(whole_alone > 0 && bounded > 0 && complete > 0, "{whole_alone} {bounded} {complete}");
    }

    #[test]
    fn sizes_are_products_of_primes() {
        for size in 1..200 {
            let found = primes(size);
            assert_eq!(found.iter().product::<u32>(), size);
            assert!(
                found.iter().tuple_windows().all(|(a, b)| a <= b)
                    && found.iter().all(|prime| primes(*prime).len() == 1)
            );
        }
    }
}
