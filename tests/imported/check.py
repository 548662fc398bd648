"""Imports the models beside this file and compares what they compute with JAX.

    check.py BINARY FOLDER [--write | --times | --part] [NAME..]

For each model: writes its StableHLO text to FOLDER, runs `BINARY import` and `BINARY check` on it, gives the program and
the jitted function the same inputs, and compares all results. Those in `EXACT` run again with only products, sums and
maxima, on small integers: all results have to be equal bit for bit. Then the layouts of a function on a mesh with explicit
axes are compared with those of its program. Prints one line for each comparison; the exit code is 1 if one
differs. With `--part`, few models run on integers. `--write` only writes the modules, at their real sizes as well, and
`--times` also imports and plans these, and prints the processor seconds of both.
"""

import contextlib
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from unittest import mock

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np

import models

# Models of which all functions that round have stand-ins that do not, and the part of their numbers that is not 0: few
# enough that `f32` holds all sums exactly.
EXACT = dict(
    gpt2=0.3, llama_8b=0.4, llama_70b=0.4, decode=0.4, train=0.2, mixtral=0.4, vit=0.2, t5=0.4, dlrm=0.4, mamba2=0.4,
    mixer=0.4, vocab_loss=0.4, operations=0.4,
)

# Those that are compared with `--part`.
PART = ["train", "mixtral"]

# Results of `operations` that round.
ROUNDED = ("expm1", "power")


@contextlib.contextmanager
def stand_ins():
    """Models without functions that round: norms only scale, activations are maxima, and factors are quarters."""
    relu = lambda x: jnp.maximum(x, 0)
    with contextlib.ExitStack() as stack:
        for name in ("softmax", "silu", "gelu", "sigmoid"):
            stack.enter_context(mock.patch.object(jax.nn, name, relu))
        for name in ("exp", "log"):
            stack.enter_context(mock.patch.object(jnp, name, relu))
        stack.enter_context(mock.patch.object(jnp, "sqrt", lambda x: jnp.where(x > 0, 1.0, 2.0)))
        stack.enter_context(mock.patch.object(jax.nn, "logsumexp", lambda x, axis: relu(x).sum(axis)))
        stack.enter_context(mock.patch.object(models, "ADAM", (0.5, 0.75, 0.25, 0.5)))
        stack.enter_context(mock.patch.object(models, "layer_norm", lambda x, scale, bias: x * scale + bias))
        stack.enter_context(mock.patch.object(models, "rms_norm", lambda x, scale: x * scale))
        stack.enter_context(mock.patch.object(models, "rope", turned))
        yield


def turned(x, start=0):
    """`models.rope` with the same angle everywhere."""
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([-b, a], -1)


def module_of(name, size, folder):
    lowered, function, arguments, most = models.lowered(name, size)
    path = folder / f"{name}_{size}.mlir"
    path.write_text(lowered.as_text(debug_info=True))
    return path, function, arguments, most


def data_of(leaf, most, random):
    if jnp.issubdtype(leaf.dtype, jnp.integer):
        return random.integers(0, most, leaf.shape).astype(leaf.dtype)
    return (random.integers(-4, 5, leaf.shape) / 8).astype(leaf.dtype)


def inputs_of(name, arguments, most):
    random = np.random.default_rng(0)
    data = jax.tree.map(lambda leaf: data_of(leaf, most, random), arguments)
    squares = models.SQUARES.get(name)
    if squares is None:
        return data
    positive = jax.tree.map(lambda array: np.abs(array) + np.float32(0.125), data[squares])
    return (*data[:squares], positive, *data[squares + 1 :])


def integers_of(name, arguments, most):
    """Small integers."""
    random = np.random.default_rng(0)

    def integers(leaf):
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            return random.integers(0, most, leaf.shape).astype(leaf.dtype)
        return (random.integers(-1, 2, leaf.shape) * (random.random(leaf.shape) < EXACT[name])).astype(leaf.dtype)

    return jax.tree.map(integers, arguments)


def plain(array):
    """Without dims of size 1, which programs do not have."""
    return np.asarray(array).reshape([size for size in array.shape if size > 1])


def computed(binary, folder, name, lowered, data):
    """The results of the imported program, or a text that says why there are none."""
    path, program = folder / f"{name}.mlir", folder / f"{name}.shard"
    path.write_text(lowered.as_text(debug_info=True))
    output = subprocess.run([binary, "import", path, "-o", program, "--format", "json"], capture_output=True, text=True)
    if output.returncode != 0:
        return f"not imported:\n{output.stdout}{output.stderr}"
    document = json.loads(output.stdout)
    kept = lowered._lowering.compile_args["kept_var_idx"]
    command = [binary, "run", program]
    given = [array for number, array in enumerate(jax.tree.leaves(data)) if number in kept]
    for argument, array in zip(document["arguments"], given, strict=True):
        rows = enumerate(array, 1) if argument["per_iteration"] else [(1, array)]
        for number, row in rows:
            input_name = argument["array"] if number == 1 else f"{argument['array']}.{number}"
            np.save(folder / f"{name}.{input_name}.npy", plain(row))
            command += ["--input", f"{input_name}={folder}/{name}.{input_name}.npy"]
    for number, result in enumerate(document["results"]):
        command += ["--save", f"{result}={folder}/{name}.out{number}.npy"]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        return f"did not run:\n{ran.stdout[-800:]}{ran.stderr[-3000:]}"
    return [np.load(folder / f"{name}.out{number}.npy") for number in range(len(document["results"]))]


def compared(binary, name, folder):
    lowered, function, arguments, most = models.lowered(name, "small")
    data = inputs_of(name, arguments, most)
    results = computed(binary, folder, name, lowered, data)
    if isinstance(results, str):
        return results
    worst = 0.0
    for got, want in zip(results, jax.tree.leaves(jax.jit(function)(*data)), strict=True):
        want = plain(np.asarray(want))
        scale = max(1e-30, float(np.abs(want).max()))
        # Propagates NaN, which `max` would drop.
        worst = np.maximum(worst, np.abs(got.reshape(want.shape) - want).max() / scale)
    return None if worst < 2e-5 else f"differs by {worst:.1e} of its largest element"


def compared_exactly(binary, name, folder):
    with stand_ins():
        function, arguments, most = models.MODELS[name]("small")
        data = integers_of(name, arguments, most)
        results = computed(binary, folder, f"{name}_exact", jax.jit(function).lower(*arguments), data)
        expected = jax.tree_util.tree_leaves_with_path(jax.jit(function)(*data))
    if isinstance(results, str):
        return results
    is_zero = True
    for got, (path, want) in zip(results, expected, strict=True):
        want = plain(np.asarray(want))
        if any(name in jax.tree_util.keystr(path) for name in ROUNDED):
            continue
        if not np.array_equal(got.reshape(want.shape), want):
            return f"{jax.tree_util.keystr(path)} differs by {np.abs(got.reshape(want.shape) - want).max()}"
        is_zero &= not want.any()
    return "has no result but 0" if is_zero else None


def layouts_differ():
    """What differs between the layouts of a program and the types that JAX gives to arguments and results of its function
    on a mesh with explicit axes."""
    import shardc.jax
    from shardc import _layouts

    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    P = jax.sharding.PartitionSpec
    types = {}

    def block(params, x):
        types["arguments"] = [jax.typeof(leaf) for leaf in jax.tree.leaves((params, x))]
        hidden = jax.nn.relu(x @ params["up"])
        summed = jnp.einsum("bsf,fd->bsd", hidden, params["down"], out_sharding=P("data", None, None))
        results = dict(summed=summed, hidden=hidden, turned=hidden.transpose(2, 0, 1), split=hidden.reshape(8, 16, 4, 32))
        types["results"] = [jax.typeof(leaf) for leaf in jax.tree.leaves(results)]
        return results

    spec = lambda shape, *axes: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=jax.sharding.NamedSharding(mesh, P(*axes)))
    params = dict(up=spec((64, 128), None, "model"), down=spec((128, 64), "model", None))
    with jax.set_mesh(mesh):
        made = shardc.jax.program(block, params, spec((8, 16, 64), "data", None, None))
    names = [made.arguments[number].array for number in range(3)], made.results
    for name, type in zip([*names[0], *names[1]], types["arguments"] + types["results"], strict=True):
        written = re.search(rf"^{name}(?:: \w+)?\[(.*?)\]", made.text, re.MULTILINE)[1]
        _, layout = _layouts._array(f"{name}[{written}]", mesh.axis_names)
        ours = _layouts.spec_of(layout, type.shape, _layouts.dim_sizes(made.text), mesh.shape)
        theirs = P(*type.sharding.spec, *[None] * (len(type.shape) - len(type.sharding.spec)))
        if ours != theirs:
            return f"{name}: {ours}, in JAX {theirs}"
    return None


def seconds(command, out):
    """The processor time of a command, whose output goes to a file."""
    spent = lambda usage: usage.ru_utime + usage.ru_stime
    before = spent(resource.getrusage(resource.RUSAGE_CHILDREN))
    with open(out, "w") as file:
        subprocess.run(command, stdout=file, stderr=subprocess.DEVNULL, check=True)
    return spent(resource.getrusage(resource.RUSAGE_CHILDREN)) - before


def times(binary, name, folder):
    """The processor seconds of importing and planning a model at its real size."""
    module_of(name, "real", folder)
    path = folder / f"{name}_real.mlir"
    program = path.with_suffix(".shard")
    imported = seconds([binary, "import", path], program)
    planned = seconds([binary, "plan", program], path.with_suffix(".plan"))
    return f"imported in {imported:.2f} s, planned in {planned:.2f} s"


def main():
    binary, folder, *names = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write, timed, part = (option in names for option in ("--write", "--times", "--part"))
    names = [name for name in names if not name.startswith("--")] or list(models.MODELS)
    if write:
        for name in names:
            for size in ("small", "real"):
                module_of(name, size, folder)
        return
    if timed:
        for name in names:
            print(f"{name}: {times(binary, name, folder)}", flush=True)
        return
    comparisons = {name: lambda name=name: compared(binary, name, folder) for name in names}
    exact = [name for name in names if name in (PART if part else EXACT)]
    comparisons |= {f"{name}, exact": lambda name=name: compared_exactly(binary, name, folder) for name in exact}
    comparisons["layouts"] = layouts_differ
    bad = 0
    for name, comparison in comparisons.items():
        wrong = comparison()
        print(f"{name}: {wrong or 'equal'}", flush=True)
        bad += wrong is not None
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
