//! One program at many sizes, meshes and machines.

use crate::compiler::{self, Options, Spelling};
use crate::diag::{Diagnostics, Severity};
use crate::dtype::DType;
use crate::expect;
use crate::parallel::in_parallel;
use crate::plan::{Plan, StepOp};
use crate::program::Program;
use crate::syntax::{self, Extent, SetError, StatementKind};
use crate::topology::{Hardware, Topology};
use crate::units::{Bytes, Time};
use itertools::Itertools;

/// A point of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Sizes of dims and axes that override the written ones.
    pub sizes: Vec<(String, Extent)>,
    /// Hardware that overrides the program's.
    pub hardware: Option<Hardware>,
}

impl Point {
    /// The options of a compilation at this point.
    pub(crate) fn options(&self, options: &Options) -> Options {
        let hardware = self.hardware.clone().or_else(|| options.hardware.clone());
        Options { hardware, ..options.clone() }
    }
}

/// Figures of a plan at a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Number of devices.
    pub devices: usize,
    /// Name of the profile.
    pub hardware: String,
    /// Time of the whole schedule, in seconds; of the steps in sequence without overlap.
    pub time: f64,
    /// Exposed communication: time in which no device computes, in seconds.
    pub exposed: f64,
    /// Compute time of a device, in seconds.
    pub compute: f64,
    /// Communication time of the steps in sequence, in seconds.
    pub communication: f64,
    /// Time of the products at peak rate over the total time.
    pub utilisation: f64,
    /// Bytes received by the device that receives the most.
    pub received: Bytes,
    /// Peak memory of a device.
    pub held: Bytes,
    /// Layouts chosen for holes, as written.
    pub filled: Vec<String>,
    /// Whether the plan is optimal in sequence.
    pub is_optimal: bool,
    /// Number of failed expectations.
    pub broken: usize,
}

/// Figures at a point, or the reason why there is no plan.
pub type Outcome = Result<Figures, String>;

/// All combinations of values, the last name varying fastest.
///
/// - `hardware`: machines; empty for the one of the program.
pub fn points(values: &[(String, Vec<Extent>)], hardware: &[Hardware]) -> Vec<Point> {
    let named =
        |(name, values): &(String, Vec<Extent>)| values.iter().map(|value| (name.clone(), value.clone())).collect_vec();
    // The product of no lists is one empty combination.
    let sizes = values.iter().map(named).multi_cartesian_product().collect_vec();
    let machines = || {
        let none = if hardware.is_empty() { Some(None) } else { None };
        hardware.iter().cloned().map(Some).chain(none)
    };
    let at = |sizes: Vec<(String, Extent)>| machines().map(move |hardware| Point { sizes: sizes.clone(), hardware });
    sizes.into_iter().flat_map(at).collect()
}

/// Number of devices of a program at a point; `None` if the program is invalid there.
///
/// # Errors
/// If a name of the point is neither a dim nor an axis.
pub fn devices(source: &str, spelling: Spelling, point: &Point) -> Result<Option<usize>, SetError> {
    let (program, _) = compiler::check_with(source, &point.sizes, spelling, point.hardware.as_ref())?;
    Ok(program.map(|program| program.mesh.device_count()))
}

/// The mesh axes of a program, as far as they can be parsed.
pub fn axes(source: &str, spelling: Spelling) -> Vec<String> {
    let (ast, _) = match spelling {
        Spelling::Exact => syntax::parse(source),
        Spelling::Lenient => syntax::parse_lenient(source),
    };
    let meshes = ast.statements.iter().filter_map(|statement| match &statement.kind {
        StatementKind::Mesh { axes, .. } => Some(axes),
        _ => None,
    });
    meshes.flatten().map(|axis| axis.name.node.clone()).collect()
}

/// Plans a program at some points, in parallel.
///
/// - `done`: called after each point.
///
/// # Errors
/// If a name of a point is neither a dim nor an axis.
pub fn sweep(
    source: &str,
    spelling: Spelling,
    options: &Options,
    points: &[Point],
    done: impl Fn() + Sync,
) -> Result<Vec<Outcome>, SetError> {
    let at = |point: &Point| {
        if options.budget.is_interrupted() {
            return Ok(Err("interrupted before it was planned".to_owned()));
        }
        let checked = compiler::check_with(source, &point.sizes, spelling, point.hardware.as_ref());
        let found = checked.map(|(program, found)| match program {
            Some(program) => planned(&program, point, options).map_err(|found| first(&found)),
            None => Err(first(&found)),
        });
        done();
        found
    };
    in_parallel(points.iter().collect(), at).into_iter().collect()
}

/// A size at which a program changes between communication-bound and compute-bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The other sizes, and the machine.
    pub point: Point,
    /// The name of the varied size.
    pub name: String,
    /// The smallest size beyond the crossing.
    pub size: u64,
    /// Whether the program is compute-bound from there on.
    pub computes: bool,
}

/// Finds crossings by bisection between neighbouring points that differ only in the last size, one per pair of points on
/// different sides.
///
/// # Errors
/// If a name of a point is neither a dim nor an axis.
pub fn crossings(
    source: &str,
    spelling: Spelling,
    options: &Options,
    points: &[Point],
    outcomes: &[Outcome],
) -> Result<Vec<Crossing>, SetError> {
    let computes = |figures: &Figures| figures.compute >= figures.communication;
    let at = |point: &Point| -> Result<Option<bool>, SetError> {
        let found = sweep(source, spelling, options, std::slice::from_ref(point), || {})?;
        Ok(found.first().and_then(|found| found.as_ref().ok()).map(computes))
    };
    let split = |point: &Point| {
        let mut others = point.clone();
        match others.sizes.pop()? {
            (name, Extent::Size(size)) => Some((others, (name, size))),
            // There is nothing between two axes.
            (_, Extent::Axis(_)) => None,
        }
    };
    // By what is the same, in their order.
    let mut lines: Vec<(Point, Vec<(u64, bool)>)> = Vec::new();
    let mut name = String::new();
    for (point, outcome) in points.iter().zip(outcomes) {
        let (Some((others, (own, size))), Ok(figures)) = (split(point), outcome) else { continue };
        name = own;
        match lines.iter_mut().find(|(known, _)| *known == others) {
            Some((_, line)) => line.push((size, computes(figures))),
            None => lines.push((others, vec![(size, computes(figures))])),
        }
    }
    let mut found = Vec::new();
    for (others, mut line) in lines {
        line.sort_unstable();
        for ((mut low, before), (mut high, after)) in line.into_iter().tuple_windows() {
            let mut is_found = before != after;
            while is_found && high - low > 1 {
                let middle = low + (high - low) / 2;
                let mut point = others.clone();
                point.sizes.push((name.clone(), Extent::Size(middle)));
                match at(&point)? {
                    Some(side) if side == before => low = middle,
                    Some(_) => high = middle,
                    None => is_found = false,
                }
            }
            if is_found {
                found.push(Crossing { point: others.clone(), name: name.clone(), size: high, computes: after });
            }
        }
    }
    Ok(found)
}

fn planned(program: &Program, point: &Point, options: &Options) -> Result<Figures, Diagnostics> {
    let options = point.options(options);
    let topology = compiler::machine(program, &options)?;
    let plan = compiler::plan(program, &topology, &options)?;
    Ok(figures(&plan, &compiler::machine_as_planned(&plan, &topology)))
}

/// The figures of a plan on its machine.
pub fn figures(plan: &Plan, topology: &Topology) -> Figures {
    let (totals, time) = (plan.totals(), plan.time());
    let seconds = |time: Time| topology.scale.seconds(time);
    let products = plan.ids().filter(|id| matches!(plan.step(*id).op, StepOp::Product { .. }));
    let least = |id| {
        let step = plan.step(id);
        let flops = step.flops.saturating_mul(u128::from(plan.times(id)));
        let unit = DType::computing(plan.operands(id).into_iter().map(|operand| plan.step(operand).layout.dtype));
        flops as f64 / topology.hardware.flops(unit.unwrap_or(step.layout.dtype)).per_second() as f64
    };
    // An empty sum of floats is -0.0.
    let ideal = products.map(least).fold(0.0, |sum, time| sum + time);
    let whole = seconds(time);
    let holes = plan.filled.iter().map(|filled| plan.array(filled.input));
    Figures {
        devices: plan.program.mesh.device_count(),
        hardware: topology.hardware.name.clone(),
        time: whole,
        exposed: seconds(time.saturating_sub(totals.compute)),
        compute: seconds(totals.compute),
        communication: seconds(totals.communication),
        utilisation: if whole > 0.0 { ideal / whole } else { 0.0 },
        received: totals.received(),
        held: plan.overlap.whole.map_or(totals.peak(), |whole| whole.peak),
        filled: holes.collect(),
        is_optimal: plan.is_optimal(),
        broken: expect::judge(plan, topology, None).iter().count(),
    }
}

/// The most severe diagnostic.
fn first(found: &Diagnostics) -> String {
    let worst = found.iter().find(|found| found.severity == Severity::Error).or_else(|| found.iter().next());
    worst.map_or_else(|| "the program is invalid".to_owned(), |found| format!("{}: {}", found.code, found.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::Overlapping;
    use crate::costs::CostModel;

    const SOURCE: &str =
        "mesh {X: 4} on tpu_v5e\ndims {B: 64, D: 512, F: 512}\nA: bf16[B_X, D]\nW: bf16[D_X, F]\nC = A * W\n";

    fn sizes(all: &[u64]) -> Vec<Extent> {
        all.iter().map(|size| Extent::Size(*size)).collect()
    }

    #[test]
    fn points_are_all_combinations() {
        let values = [("B".to_owned(), sizes(&[1, 2])), ("X".to_owned(), sizes(&[4, 8, 16]))];
        let found = points(&values, &[]);
        let pairs: Vec<Vec<u64>> =
            found.iter().map(|point| point.sizes.iter().map(|(_, n)| n.size()).collect()).collect();
        assert_eq!(pairs, [[1, 4], [1, 8], [1, 16], [2, 4], [2, 8], [2, 16]]);
        let machines = ["tpu_v5e", "h100"].map(|name| Hardware::named(name).expect("shipped"));
        assert_eq!(points(&values, &machines).len(), 12);
        assert_eq!(points(&[], &[]).len(), 1);
    }

    /// Each figure equals that of the plan of the text with these sizes.
    #[test]
    fn figures_are_those_of_the_written_program() {
        let options = Options { overlap: Overlapping::None, ..Options::default() };
        let values = [("B".to_owned(), sizes(&[64, 4096])), ("X".to_owned(), sizes(&[2, 4]))];
        let points = points(&values, &[]);
        let found = sweep(SOURCE, Spelling::Exact, &options, &points, || {}).expect("known names");
        for (point, found) in points.iter().zip(found) {
            let [(_, rows), (_, size)] = point.sizes.as_slice() else { panic!("two sizes") };
            let text = SOURCE.replace("B: 64", &format!("B: {rows}")).replace("X: 4", &format!("X: {size}"));
            let program = compiler::check(&text).0.expect("a right program");
            let written = planned(&program, &Point { sizes: Vec::new(), hardware: None }, &options).expect("a plan");
            assert_eq!(found, Ok(written));
        }
    }

    /// The book's threshold for a gathered weight: per device, `B / X > C / W` with link rate `W` and compute rate `C`.
    #[test]
    fn a_crossing_is_where_the_book_has_it() {
        let source = "mesh {X: 16} on tpu_v5e\ndims {B: 64, D: 8192, F: 8192}\nA: bf16[B_X, D]\nW: bf16[D_X, F]\n\
                      C[B_X, F] = A * W\n";
        let options = Options { costs: CostModel::Book, overlap: Overlapping::None, ..Options::default() };
        let points = points(&[("B".to_owned(), sizes(&[1 << 12, 1 << 15, 1 << 18]))], &[]);
        let outcomes = sweep(source, Spelling::Exact, &options, &points, || {}).expect("known names");
        let found = crossings(source, Spelling::Exact, &options, &points, &outcomes).expect("known names");
        let [crossing] = found.as_slice() else { panic!("{found:?}") };
        assert!(crossing.computes && crossing.name == "B");
        // Gathered in time 2*D*F / 9e10, computed in time 2*B*D*F / X / 1.97e14.
        let expected = 16.0 * 1.97e14 / 9e10;
        assert!((crossing.size as f64 / expected - 1.0).abs() < 0.02, "{} {expected}", crossing.size);
    }

    #[test]
    fn what_has_no_plan_says_why() {
        let point = |name: &str, size| Point { sizes: vec![(name.to_owned(), Extent::Size(size))], hardware: None };
        let source = format!("{SOURCE}limit memory 100kB\n");
        let options = Options::default();
        let found = sweep(&source, Spelling::Exact, &options, &[point("B", 1 << 20)], || {}).expect("a known name");
        assert!(found[0].as_ref().is_err_and(|why| why.starts_with("limit-exceeded: ")), "{found:?}");
        assert!(sweep(&source, Spelling::Exact, &options, &[point("Q", 1)], || {}).is_err());
    }
}
