//! Unrolling of repeats.
//!
//! Before, with a body that is planned once, and after, with one copy of its steps per iteration:
//!
//! ```text
//! %0 x = input                       %0 x = input
//! %1 x = carry %0        x 2         %1 W = input
//! %2 W = input           x 2         %2 x = product %0 %1
//! %3 x = product %1 %2   x 2         %3 W.2 = input
//!                                    %4 x = product %2 %3
//! ```
//!
//! Both have the same layouts and collectives; each unrolled step refers to its original step.

use super::{Filled, Plan, Step, StepId, StepOp};
use crate::program::{Definition, Program, Repeat, Value, ValueId};
use petgraph::graph::DiGraph;
use std::collections::BTreeMap;
use thiserror::Error;

/// Limit on the steps of an unrolled plan.
pub const MOST_STEPS: u64 = 4096;

/// An unrolled plan would be too long.
#[derive(Clone, Debug, PartialEq, Eq, Error, miette::Diagnostic)]
#[error("the program has {steps} steps with all repetitions, more than {most}", most = MOST_STEPS)]
#[diagnostic(code("repeat-too-long"), help("`shardc plan` still works; {}", way_out(*fits)))]
pub struct TooLong {
    steps: u64,
    /// Largest possible count of the longest repeat.
    fits: u64,
    #[label("repeated here")]
    span: miette::SourceSpan,
}

/// Unrolls the repeats of a plan.
///
/// # Errors
/// If there would be more than [`MOST_STEPS`] steps.
pub fn unroll(plan: &Plan) -> Result<Plan, TooLong> {
    // Carried values have no step of their own.
    let done = || plan.ids().filter(|id| plan.step(*id).op != StepOp::Carry);
    let steps = done().fold(0u64, |steps, id| steps.saturating_add(plan.times(id)));
    let repeats = plan.program.repeats.iter().enumerate();
    match repeats.max_by_key(|(_, repeat)| repeat.times) {
        Some((place, longest)) if steps > MOST_STEPS => {
            let others = done().filter(|id| plan.body(*id) != Some(place)).map(|id| plan.times(id));
            let others = others.fold(0, u64::saturating_add);
            let body = done().filter(|id| plan.body(*id) == Some(place)).count() as u64;
            let fits = MOST_STEPS.saturating_sub(others).checked_div(body).unwrap_or_default();
            Err(TooLong { steps, fits, span: longest.span.into() })
        }
        Some(_) | None => Ok(unrolled(plan, u64::MAX)),
    }
}

fn way_out(fits: u64) -> String {
    match fits {
        0 => "run or time it with fewer iterations".to_owned(),
        _ => format!("run or time it with `repeat {fits}` at most"),
    }
}

/// The plan with each body done once.
pub fn once(plan: &Plan) -> Plan {
    unrolled(plan, 1)
}

/// The plan with each body done at most this number of times.
pub fn at_most(plan: &Plan, times: u64) -> Plan {
    unrolled(plan, times)
}

fn unrolled(plan: &Plan, most: u64) -> Plan {
    let values = Values::new(&plan.program, most);
    let mut steps = Steps {
        plan,
        values: &values,
        image: Vec::new(),
        steps: DiGraph::new(),
        origins: Vec::new(),
        iterations: Vec::new(),
    };
    steps.image = vec![StepId::end(); plan.steps.node_count()];
    steps.spell_out();
    let kernels = steps.kernels();
    let (image, steps, origins) = (steps.image, steps.steps, steps.origins);
    let filled =
        plan.filled.iter().map(|filled| Filled { input: image[filled.input.index()], ..filled.clone() }).collect();
    Plan {
        outputs: plan.outputs.iter().map(|id| image[id.index()]).collect(),
        steps,
        program: values.program,
        origins,
        kernels,
        carried: Vec::new(),
        filled,
        ..plan.clone()
    }
}

/// The unrolled values of the program.
struct Values {
    program: Program,
    /// The images of each value, by iteration; a single one for values outside of bodies.
    images: Vec<Vec<ValueId>>,
    /// Number of iterations of each body.
    times: Vec<u64>,
}

impl Values {
    fn new(program: &Program, most: u64) -> Values {
        let empty = Program {
            values: Vec::new(),
            aliases: Vec::new(),
            outputs: Vec::new(),
            repeats: Vec::new(),
            ..program.clone()
        };
        let images = vec![Vec::new(); program.values.len()];
        let times = program.repeats.iter().map(|repeat| repeat.times.min(most)).collect();
        let mut values = Values { program: empty, images, times };
        let mut id = 0;
        while id < program.values.len() {
            let body = program.repeats.iter().position(|repeat| repeat.body.start == id);
            let Some((place, repeat)) = body.map(|place| (place, &program.repeats[place])) else {
                values.add(program, id, 0, None);
                id += 1;
                continue;
            };
            for iteration in 0..values.times[place] {
                repeat.body.clone().for_each(|id| values.add(program, id, iteration, Some(repeat)));
            }
            id = repeat.body.end;
        }
        values.program.outputs = program.outputs.iter().map(|id| values.last(*id)).collect();
        values
    }

    /// The latest image of a value.
    fn last(&self, id: ValueId) -> ValueId {
        *self.images[id.index()].last().expect("operands come before their users")
    }

    fn add(&mut self, program: &Program, id: usize, iteration: u64, repeat: Option<&Repeat>) {
        let value = &program.values[id];
        let carried = repeat.and_then(|repeat| repeat.carried.iter().find(|carried| carried.first.index() == id));
        let definition = match carried {
            Some(carried) if iteration > 0 => Definition::Move { operand: self.last(carried.last), written: false },
            Some(_) | None => self.with_images(&value.definition),
        };
        let again = iteration > 0 && value.definition.is_input();
        let name = value.name.as_ref().map(|name| match again {
            true => format!("{name}.{}", iteration + 1),
            false => name.clone(),
        });
        let image = ValueId(u32::try_from(self.program.values.len()).expect("a bounded number of values"));
        self.program.values.push(Value { name, definition, ..value.clone() });
        self.images[id].push(image);
    }

    fn with_images(&self, definition: &Definition) -> Definition {
        let image = |id: &ValueId| self.last(*id);
        match definition {
            Definition::Input { supply } => Definition::Input { supply: supply.clone() },
            Definition::Product { operands, local } => {
                Definition::Product { operands: operands.map(|id| image(&id)), local: *local }
            }
            Definition::Map { function, operands } => {
                Definition::Map { function: *function, operands: operands.iter().map(image).collect() }
            }
            Definition::Kernel { kernel, operands } => {
                Definition::Kernel { kernel: kernel.clone(), operands: operands.iter().map(image).collect() }
            }
            Definition::Reduce { operand, operator } => {
                Definition::Reduce { operand: image(operand), operator: *operator }
            }
            Definition::Move { operand, written } => Definition::Move { operand: image(operand), written: *written },
            Definition::Rename { operand } => Definition::Rename { operand: image(operand) },
            Definition::Collective { collective, from, operand } => {
                let (collective, from) = (collective.clone(), from.clone());
                Definition::Collective { collective, from, operand: image(operand) }
            }
        }
    }
}

struct Steps<'a> {
    plan: &'a Plan,
    values: &'a Values,
    /// The latest image of each step.
    image: Vec<StepId>,
    steps: DiGraph<Step, u32>,
    origins: Vec<StepId>,
    /// The iteration of each step.
    iterations: Vec<u64>,
}

impl Steps<'_> {
    /// The kernels of each iteration.
    fn kernels(&self) -> Vec<Vec<StepId>> {
        let kernel_of = |id: StepId| self.plan.kernels.iter().position(|kernel| kernel.contains(&id));
        let known: Vec<Option<usize>> = self.plan.ids().map(kernel_of).collect();
        let mut kernels: BTreeMap<(usize, u64), Vec<StepId>> = BTreeMap::new();
        for (id, (origin, iteration)) in self.steps.node_indices().zip(self.origins.iter().zip(&self.iterations)) {
            if let Some(kernel) = known[origin.index()] {
                kernels.entry((kernel, *iteration)).or_default().push(id);
            }
        }
        kernels.into_values().collect()
    }

    fn spell_out(&mut self) {
        let ids: Vec<StepId> = self.plan.ids().collect();
        let mut at = 0;
        while at < ids.len() {
            let Some(place) = self.plan.body(ids[at]) else {
                self.add(ids[at], 0);
                at += 1;
                continue;
            };
            // Values that the first iteration fetches from outside are among its steps, and are computed once.
            let last = ids.iter().rposition(|id| self.plan.body(*id) == Some(place)).unwrap_or(at);
            for iteration in 0..self.values.times[place] {
                let handed_on: Vec<StepId> = self.plan.carried.iter().map(|(_, end)| self.image[end.index()]).collect();
                for id in &ids[at..=last] {
                    let own = self.plan.body(*id) == Some(place);
                    let carried = self.plan.carried.iter().position(|(carry, _)| carry == id);
                    match carried {
                        Some(carried) if iteration > 0 => self.image[id.index()] = handed_on[carried],
                        Some(_) | None if own || iteration == 0 => self.add(*id, iteration),
                        Some(_) | None => {}
                    }
                }
            }
            at = last + 1;
        }
    }

    /// Adds a step of an iteration; values carried into the first one have no step.
    fn add(&mut self, id: StepId, iteration: u64) {
        let step = self.plan.step(id);
        let operands: Vec<StepId> = self.plan.operands(id).iter().map(|id| self.image[id.index()]).collect();
        if step.op == StepOp::Carry {
            self.image[id.index()] = operands[0];
            return;
        }
        let value = |id: ValueId| {
            let images = &self.values.images[id.index()];
            let iteration = usize::try_from(iteration).unwrap_or(usize::MAX);
            images[iteration.min(images.len() - 1)]
        };
        // After the body, a value is the one computed by the last iteration.
        let outside = |id: ValueId| *self.values.images[id.index()].last().expect("every value has an image");
        let (value, user) = match self.plan.body(id) {
            Some(_) => (value(step.value), value(step.user)),
            None if self.plan.program.body_of(step.user).is_some() => (outside(step.value), value(step.user)),
            None => (outside(step.value), outside(step.user)),
        };
        let new = self.steps.add_node(Step { value, user, ..step.clone() });
        for (place, operand) in (0..).zip(operands) {
            self.steps.add_edge(operand, new, place);
        }
        self.image[id.index()] = new;
        self.origins.push(id);
        self.iterations.push(iteration);
    }
}
