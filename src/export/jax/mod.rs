//! A plan as a Python module for JAX: one `shard_map` function with the plan's own collectives, and the same program
//! without a mesh beside it.
//!
//! Words: <https://docs.jax.dev/en/latest/jax.lax.html#parallel-operators>, `shard_map`:
//! <https://docs.jax.dev/en/latest/notebooks/shard_map.html>. What JAX has no word for is made of what it has, as
//! [`words`](super::words) tells.

mod collective;
mod constraints;
mod dense;
mod device;
mod expression;
mod lines;
mod names;
mod rows;
mod text;

pub use constraints::constraints;

use super::words::{declared, given, padded, pieces};
use crate::dtype::DType;
use crate::escape;
use crate::function::Function;
use crate::layout::{Layout, Sharding};
use crate::plan::{Plan, StepId};
use crate::program::{Definition, Program, ValueId};
use itertools::Itertools;
use names::Names;
use std::collections::HashMap;
use std::fmt::Write as _;

/// What a module is to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// A script that makes inputs, runs, compares with the whole arrays, and prints the time.
    pub main: bool,
}

/// The module; `name` is the file of the program and `source` its text.
pub fn module(plan: &Plan, name: &str, source: &str, options: Options) -> String {
    let module = Module::new(plan, name, source);
    let mut text = module.head("the layouts and the collectives of its plan");
    text.push_str(&module.arrays());
    text.push_str(&module.device());
    text.push_str(&module.run());
    text.push_str(&module.dense());
    if options.main {
        text.push_str(&module.main());
    }
    text
}

/// An array that is handed in.
struct Input {
    step: StepId,
    value: ValueId,
    name: String,
    /// How many there are of it, in a body that is repeated.
    times: Option<u64>,
}

struct Module<'a> {
    plan: &'a Plan,
    name: &'a str,
    source: &'a str,
    inputs: Vec<Input>,
}

impl<'a> Module<'a> {
    fn new(plan: &'a Plan, name: &'a str, source: &'a str) -> Module<'a> {
        let mut names: Names<StepId> = Names::new();
        let inputs = given(plan).into_iter().map(|step| {
            let value = plan.step(step).value;
            let times = plan.body(step).map(|_| plan.times(step));
            Input { step, value, name: names.fix(&plan.program.name(value)), times }
        });
        Module { plan, name, source, inputs: inputs.collect() }
    }

    fn program(&self) -> &'a Program {
        &self.plan.program
    }

    fn layout(&self, input: &Input) -> &'a Layout {
        &self.plan.step(input.step).layout
    }

    fn parameters(&self) -> String {
        self.inputs.iter().map(|input| input.name.as_str()).join(", ")
    }

    fn head(&self, what: &str) -> String {
        let mesh = &self.program().mesh;
        let sizes = mesh.axes().iter().map(|axis| axis.size);
        let names = mesh.axes().iter().map(|axis| escape::python_string(&axis.name));
        let (sizes, names) = (text::tuple(sizes), text::tuple(names));
        let name = escape::python_text(self.name);
        let dtypes = self.program().values.iter().map(|value| value.dtype);
        let wide = dtypes.into_iter().any(|dtype| matches!(dtype, DType::I64 | DType::F64));
        let wide = if wide { "\njax.config.update(\"jax_enable_x64\", True)\n" } else { "" };
        let saturates = if self.saturates() { SATURATES } else { "" };
        format!(
            "\"\"\"{name} for JAX: {what}.\n\n\
             Written by shardc {version} from the program, which is checked and proven; change that one.\n\"\"\"\n\n\
             import jax\nimport jax.numpy as jnp\nfrom jax import lax\n\
             from jax.sharding import AxisType, NamedSharding, PartitionSpec as P\n{wide}\n\n\
             def make_mesh(devices=None):\n    \
             \"\"\"The mesh of the program: {devices} devices.\"\"\"\n    \
             types = (AxisType.Auto,) * {rank}\n    \
             return jax.make_mesh({sizes}, {names}, axis_types=types, devices=devices)\n{saturates}",
            version = env!("CARGO_PKG_VERSION"),
            devices = mesh.device_count(),
            rank = mesh.axes().len(),
        )
    }

    /// Whether a float becomes an integer.
    fn saturates(&self) -> bool {
        let program = self.program();
        program.values.iter().any(|value| {
            let Definition::Map { function: Function::Cast(to), operands } = &value.definition else { return false };
            !to.is_float() && *to != DType::Bool && program.value(operands[0]).dtype.is_float()
        })
    }

    fn spec(&self, layout: &Layout) -> String {
        text::spec(pieces(layout), &layout.sharding.dims, &self.program().mesh)
    }

    fn arrays(&self) -> String {
        let mut text = String::from(
            "\n\n# Shape, dtype and layout of each array; an open sum has its pieces in front.\nINPUTS = {\n",
        );
        for input in &self.inputs {
            let layout = self.layout(input);
            let times = input.times.map(|times| format!("  # {times} of them")).unwrap_or_default();
            let line = self.array(&input.name, layout);
            writeln!(text, "{line}{times}").expect("a string takes all");
        }
        text.push_str("}\nOUTPUTS = {\n");
        for (step, name) in self.plan.outputs.iter().zip(self.outputs()) {
            let line = self.array(&name, &self.plan.step(*step).layout);
            writeln!(text, "{line}").expect("a string takes all");
        }
        text.push_str("}\n");
        text
    }

    /// A name for each output: one array may be put out twice, and two may have no name.
    fn outputs(&self) -> Vec<String> {
        let mut names: Names<StepId> = Names::new();
        self.program().outputs.iter().map(|value| names.fix(&self.program().name(*value))).collect()
    }

    fn array(&self, name: &str, layout: &Layout) -> String {
        let (shape, dtype) = (text::tuple(declared(self.plan, layout)), text::dtype(layout.dtype));
        format!("    {}: ({shape}, {dtype}, {}),", escape::python_string(name), self.spec(layout))
    }

    fn device(&self) -> String {
        let parameters = self.inputs.iter().map(|input| (input.step, input.name.clone())).collect();
        let looks_up = if rows::rows(self.plan).is_empty() { "" } else { ROWS };
        format!(
            "{looks_up}\n\ndef device({}):\n    \"\"\"What each device does with its shards.\"\"\"\n{}",
            self.parameters(),
            device::body(self.plan, self.source, &parameters)
        )
    }

    fn run(&self) -> String {
        let parameters = self.parameters();
        let mut text =
            format!("\n\ndef run(mesh, {parameters}):\n    \"\"\"Whole arrays in, whole arrays out.\"\"\"\n");
        for input in &self.inputs {
            if let Some(padded) = self.padded(input) {
                writeln!(text, "    {} = {padded}", input.name).expect("a string takes all");
            }
        }
        let ins = self.inputs.iter().map(|input| self.spec(self.layout(input)));
        let outs: Vec<String> = self.plan.outputs.iter().map(|id| self.spec(&self.plan.step(*id).layout)).collect();
        let outs = match outs.as_slice() {
            [one] => one.clone(),
            many => text::tuple(many),
        };
        write!(
            text,
            "    in_specs = {}\n    out_specs = {outs}\n    \
             # The proof of the plan says more than the check of varying axes does.\n    \
             each = jax.shard_map(device, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)\n",
            text::tuple(ins)
        )
        .expect("a string takes all");
        let cuts: Vec<Option<String>> =
            self.plan.outputs.iter().map(|id| self.cut(&self.plan.step(*id).layout)).collect();
        if cuts.iter().all(Option::is_none) {
            writeln!(text, "    return each({parameters})").expect("a string takes all");
            return text;
        }
        let names: Vec<String> = (1..=cuts.len()).map(|number| format!("out_{number}")).collect();
        writeln!(text, "    {} = each({parameters})", names.join(", ")).expect("a string takes all");
        let cut = names.iter().zip(&cuts).map(|(name, cut)| format!("{name}{}", cut.as_deref().unwrap_or_default()));
        writeln!(text, "    return {}", cut.collect::<Vec<_>>().join(", ")).expect("a string takes all");
        text
    }

    /// An input with the padding that its layouts need.
    fn padded(&self, input: &Input) -> Option<String> {
        let layout = self.layout(input);
        let (declared, padded) = (declared(self.plan, layout), padded(self.plan, layout));
        let widths = text::tuple(padded.iter().zip(&declared).map(|(to, from)| format!("(0, {})", to - from)));
        let pad = |name: &str| format!("jnp.pad({name}, {widths})");
        let name = &input.name;
        (declared != padded).then(|| match input.times {
            Some(_) => format!("tuple({} for one in {name})", pad("one")),
            None => pad(name),
        })
    }

    /// What cuts the padding off.
    fn cut(&self, layout: &Layout) -> Option<String> {
        let (declared, padded) = (declared(self.plan, layout), padded(self.plan, layout));
        let end = |(place, size): (usize, &u64)| match pieces(layout) {
            Some(_) if place == 0 => ":".to_owned(),
            _ => format!(":{size}"),
        };
        (declared != padded).then(|| format!("[{}]", declared.iter().enumerate().map(end).join(", ")))
    }

    /// The layouts of the inputs that come in pieces.
    fn open(&self) -> HashMap<ValueId, Sharding> {
        let open = self.inputs.iter().filter(|input| pieces(self.layout(input)).is_some());
        open.map(|input| (input.value, self.layout(input).sharding.clone())).collect()
    }

    fn dense(&self) -> String {
        let parameters = self.inputs.iter().map(|input| (input.value, input.name.clone())).collect();
        format!(
            "\n\ndef dense({}):\n    \"\"\"The same of whole arrays, on one device.\"\"\"\n{}",
            self.parameters(),
            dense::body(self.program(), self.source, &parameters, &self.open(), &|_, _| None)
        )
    }

    /// Whether a function has no value, or an infinite one, for some numbers.
    fn is_partial(&self) -> bool {
        self.program().values.iter().any(|value| {
            let Definition::Map { function, .. } = &value.definition else { return false };
            function.facts().is_partial
        })
    }

    /// Up to which difference two ways to compute the same in floats are equal.
    fn tolerance(&self) -> &'static str {
        let mut dtypes = self.program().values.iter().map(|value| value.dtype);
        if dtypes.any(|dtype| matches!(dtype, DType::Bf16 | DType::F16)) { "0.05" } else { "1e-4" }
    }

    fn main(&self) -> String {
        let is_partial = self.is_partial();
        let mut inputs = String::new();
        for input in &self.inputs {
            let layout = self.layout(input);
            let shape = text::tuple(declared(self.plan, layout));
            let draw = match layout.dtype {
                DType::Bool => format!("random.integers(0, 2, {shape}) > 0"),
                dtype if dtype.is_float() && is_partial => format!("0.5 + random.random({shape})"),
                dtype if dtype.is_float() => format!("0.1 * random.standard_normal({shape})"),
                _ => format!("random.integers({}, 3, {shape})", if is_partial { 1 } else { -2 }),
            };
            let array = format!("jnp.asarray({draw}, dtype={})", text::dtype(layout.dtype));
            let value = match input.times {
                Some(times) => format!("tuple({array} for layer in range({times}))"),
                None => array,
            };
            writeln!(inputs, "    {} = {value}", input.name).expect("a string takes all");
        }
        let mut closed = String::new();
        for (place, id) in self.plan.outputs.iter().enumerate() {
            let layout = &self.plan.step(*id).layout;
            if pieces(layout).is_some() {
                let sum = expression::combined(layout.sharding.operator, &format!("outs[{place}]"), "0", layout.dtype);
                writeln!(closed, "    outs[{place}] = {sum}").expect("a string takes all");
            }
        }
        let outputs = self.outputs().iter().map(|name| escape::python_string(name)).join(", ");
        MAIN.replace("{devices}", &self.program().mesh.device_count().to_string())
            .replace("{parameters}", &self.parameters())
            .replace("{outputs}", &outputs)
            .replace("{inputs}", &inputs)
            .replace("{closed}", &closed)
            .replace("{tolerance}", self.tolerance())
    }
}

/// Floats that become integers.
const SATURATES: &str = "

def to_integer(x, dtype):
    \"\"\"The whole part; what is too large is the largest, what is no number is 0.\"\"\"
    least, most = jnp.iinfo(dtype).min, jnp.iinfo(dtype).max
    inside = jnp.where((x > least) & (x < most), x, 0).astype(dtype)
    return jnp.where(x >= most, most, jnp.where(x <= least, least, inside)).astype(dtype)
";

const ROWS: &str = "

def rows_of(table, numbers, places, axis):
    \"\"\"The rows with these numbers; 0 where the device has none of a number.\"\"\"
    at = numbers - places[0]
    inside = (at >= 0) & (at < table.shape[axis])
    taken = jnp.take(table, jnp.where(inside, at, 0), axis=axis)
    inside = inside.reshape((1,) * axis + inside.shape + (1,) * (table.ndim - axis - 1))
    return jnp.where(inside, taken, 0)
";

/// The script.
const MAIN: &str = r#"

def inputs(seed=0):
    """Random arrays, the same for the same seed."""
    import numpy as np

    random = np.random.default_rng(seed)
{inputs}    return {parameters},


def closed(outs):
    """The pieces of open sums put together."""
    outs = list(outs)
{closed}    return outs


def differences(found, wanted):
    """The largest one of each output, as a share of its largest element, and whether there may be none."""
    import numpy as np

    result = {}
    for name, one, other in zip([{outputs}], found, wanted):
        exact = bool(jnp.issubdtype(one.dtype, jnp.integer) or one.dtype == jnp.bool_)
        one, other = (np.asarray(x).astype(np.float64) for x in (one, other))
        assert one.shape == other.shape, f"{name}: {one.shape} instead of {other.shape}"
        away = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0, np.abs(one - other))
        size = np.abs(np.where(np.isfinite(other), other, 0)).max(initial=0)
        result[name] = (float(away.max(initial=0) / (size or 1)), exact)
    return result


def check(mesh, seed=0):
    """How far the results are from those of `dense`."""
    tupled = lambda found: found if isinstance(found, tuple) else (found,)
    given = tupled(inputs(seed))
    found = tupled(jax.jit(lambda *arrays: run(mesh, *arrays))(*given))
    return differences(closed(found), tupled(jax.jit(dense)(*given)))


def main():
    import time

    mesh = make_mesh(jax.devices()[:{devices}])
    found = check(mesh)
    call = jax.jit(lambda *arrays: run(mesh, *arrays))
    given = inputs()
    given = given if isinstance(given, tuple) else (given,)
    jax.block_until_ready(call(*given))
    start = time.perf_counter()
    jax.block_until_ready(call(*given))
    print(f"{(time.perf_counter() - start) * 1e6:.0f} us on {mesh.devices.size} devices")
    for name, (difference, exact) in found.items():
        is_right = difference == 0 if exact else difference < {tolerance}
        print(f"{name}: {'as' if is_right else 'NOT as'} without a mesh, {difference:.1e} off")
        if not is_right:
            raise SystemExit(1)


if __name__ == "__main__":
    import os

    # Where there are fewer devices, the host plays so many; it has to be told before JAX looks for devices.
    flags = os.environ.get("XLA_FLAGS", "")
    if "host_platform_device_count" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={devices}"
    main()
"#;
