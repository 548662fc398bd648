//! A program for JAX whose collectives XLA chooses: the layouts of the plan as constraints.

use super::{Module, dense, text};
use crate::plan::{Plan, StepId};
use crate::program::ValueId;
use std::collections::HashMap;
use std::fmt::Write as _;

/// The module; `name` is the file of the program and `source` its text.
///
/// Every array that has a name is constrained to the layout that the plan leaves it in. Open sums have no word there;
/// such arrays are left to XLA, and so are those that are padded.
pub fn constraints(plan: &Plan, name: &str, source: &str) -> String {
    let module = Module::new(plan, name, source);
    let mut text = module.head("the layouts of its plan; XLA chooses the collectives");
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
        format!("\n\ndef constrained(mesh, {parameters}):\n    \"\"\"Whole arrays in, whole arrays out.\"\"\"\n{body}");
    // What does not divide is left whole.
    let spec =
        |input| if module.padded(input).is_some() { "P()".to_owned() } else { module.spec(module.layout(input)) };
    let shardings = module.inputs.iter().map(|input| format!("NamedSharding(mesh, {})", spec(input)));
    write!(
        text,
        "\n\ndef spread(mesh, {parameters}):\n    \"\"\"The inputs in their layouts.\"\"\"\n    \
         shardings = {}\n    return jax.device_put(({parameters},), shardings)\n",
        text::tuple(shardings)
    )
    .expect("a string takes all");
    text
}
