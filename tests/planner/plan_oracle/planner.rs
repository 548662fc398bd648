//! Results of the planner, in the units of the oracle.

use super::price::{Model, Price, TICKS};
use shardc::compiler::{self, Options};
use shardc::costs::{self, CostModel, Unit};
use shardc::diag::Severity;
use shardc::plan::{self, Costs, Plan};
use shardc::program::Program;
use shardc::recipe::Lowering;
use shardc::sim::usage::Working;
use shardc::topology::Topology;
use shardc::units::Time;

/// The machine of a mesh.
pub struct Machine {
    topology: Topology,
}

/// The planner with one cost model on one machine.
pub struct Planner<'a> {
    topology: &'a Topology,
    costs: Box<dyn Costs + 'a>,
    model: Model,
}

impl Machine {
    pub fn new(mesh: &str) -> Machine {
        let program = checked(&format!("{mesh}\ndims {{I: 8}}\nA: bf16[I]\noutput A\n"));
        Machine { topology: compiler::machine(&program, &Options::default()).expect("a machine") }
    }

    pub fn planner(&self, model: Model) -> Planner<'_> {
        let costs = match model {
            Model::Book => CostModel::Book,
            Model::Bytes => CostModel::Bytes,
        };
        Planner { topology: &self.topology, costs: costs.on(&self.topology, Lowering::default()), model }
    }
}

impl Planner<'_> {
    /// The plan of a correct program.
    pub fn plan(&self, source: &str) -> Plan {
        let plan = plan::plan(&checked(source), self.costs.as_ref());
        plan.unwrap_or_else(|error| panic!("{error}\n{source}"))
    }

    /// Working memory of the single step of a program that moves an array.
    pub fn working(&self, source: &str) -> Working {
        let options = Options { costs: CostModel::Book, ..Options::default() };
        let plan = compiler::plan(&checked(source), self.topology, &options).expect("a plan");
        let steps: Vec<_> = plan.ids().filter(|id| plan.is_done(*id)).collect();
        let [step] = steps[..] else { panic!("one step\n{source}\n{plan}") };
        plan.step(step).usage.working.each[0]
    }

    /// The cost of a plan.
    pub fn price(&self, plan: &Plan) -> Price {
        let totals = plan.totals();
        let received = u128::from(totals.received().0);
        match self.model {
            Model::Book => Price(self.ticks(totals.time()), received),
            Model::Bytes => Price(received, totals.flops),
        }
    }

    /// Compares the plan of a program with the minimum cost, and with its own claims.
    pub fn agrees(&self, source: &str, least: Price) {
        let plan = self.plan(source);
        assert_eq!(self.price(&plan), least, "\n{source}\n{plan}");
        assert!(plan.is_optimal(), "\n{source}\n{plan}");
        // The bound is on time, which is not the objective when bytes are minimised.
        let time = plan.totals().time();
        match self.model {
            Model::Book => {
                assert_eq!(plan.lower_bound.time, time, "\n{source}\n{plan}");
                let floor = costs::floor(&plan, self.topology);
                assert!(floor.is_none_or(|floor| floor.time <= time), "\n{source}\n{plan}");
            }
            Model::Bytes => {
                assert!(plan.lower_bound.time <= time, "\n{source}\n{plan}");
                // Where sizes do not divide, a recipe receives more than the formulas say.
                let received: u64 = plan.ids().map(|id| plan.step(id).cost.received.0 * plan.times(id)).sum();
                assert_eq!(plan.lower_bound.received.0, received, "\n{source}\n{plan}");
                assert!(u128::from(received) >= least.0, "\n{source}\n{plan}");
            }
        }
    }

    /// Minimum busy time of a unit of the machine over all plans of a program, in ticks of the oracle.
    pub fn least_load(&self, source: &str, unit: Unit) -> u128 {
        let machine = CostModel::Book.machine(self.topology);
        let least =
            costs::least_load(&checked(source), &machine, (CostModel::Book, unit), false, plan::Budget::default());
        self.ticks(least.expect("few layouts").time)
    }

    /// Converts a time to ticks of the oracle, without loss.
    fn ticks(&self, time: Time) -> u128 {
        let own = self.topology.scale.picoseconds(1).ticks() * 1_000_000_000_000;
        assert_eq!(time.ticks() * TICKS % own, 0, "both tell the same times");
        time.ticks() * TICKS / own
    }
}

/// The codes of all errors of a program.
pub fn codes(source: &str) -> Vec<String> {
    let (_, diagnostics) = compiler::check(source);
    let errors = diagnostics.iter().filter(|found| found.severity == Severity::Error);
    errors.map(|found| found.code.clone()).collect()
}

fn checked(source: &str) -> Program {
    let (program, diagnostics) = compiler::check(source);
    program.unwrap_or_else(|| panic!("{diagnostics:?}\n{source}"))
}
