//! A JAX program whose collectives XLA chooses: the layouts of the plan become constraints.

use super::{Input, Module, dense, text};
use crate::plan::{Plan, StepId};
use crate::program::ValueId;
use std::collections::HashMap;
use std::fmt::Write as _;

/// The module; `name` is the file of the program and `source` its text.
///
/// Every named array is constrained to its layout in the plan. Arrays with open sums cannot be expressed and are left
/// to XLA, as are padded arrays.
pub fn constraints(plan: &Plan, name: &str, source: &str) -> String {
    let module = Module::new(plan, name, source);
    let mut text = module.head("layouts of its plan; XLA chooses the collectives");
    text.push_str(&module.arrays());
    text.push_str(&function(&module));
    text
}

fn function(module: &Module<'_>) -> String {
    let (plan, program) = (module.plan, module.program());
    let own: HashMap<ValueId, StepId> = plan.own_layouts().into_iter().map(|id| (plan.step(id).value, id)).collect();
    let parameters = module.parameters();
    let constraint = |id: ValueId, value: &str| {
        let layout = &plan.step(*own.get(&id)?).layout;
        let is_padded = layout.dims.iter().any(|dim| dim.size > program.dims.size(dim.id));
        if is_padded || !layout.sharding.open.is_empty() {
            return None;
        }
        Some(format!("lax.with_sharding_constraint({value}, NamedSharding(mesh, {}))", module.spec(layout)))
    };
    let names = module.inputs.iter().map(|input| (input.value, input.name.clone())).collect();
    let body = dense::body(program, module.source, &names, &module.open(), &constraint);
    let mut text =
        format!("\n\ndef constrained(mesh, {parameters}):\n    \"\"\"Takes and returns whole arrays.\"\"\"\n{body}");
    // Dims that are not divisible are left unsharded.
    let spec = |input: &Input| match module.padded(input) {
        Some(_) => "P()".to_owned(),
        None => module.spec_of(input.times, module.layout(input)),
    };
    let shardings = module.inputs.iter().map(|input| format!("NamedSharding(mesh, {})", spec(input)));
    write!(
        text,
        "\n\ndef spread(mesh, {parameters}):\n    \"\"\"Shards the inputs.\"\"\"\n    \
         shardings = {}\n    return jax.device_put(({parameters},), shardings)\n",
        text::tuple(shardings)
    )
    .expect("a string takes all");
    text
}
