"""Constrains models to the layouts of their plans: they compute the same, and XLA moves fewer bytes.

    constrain.py BINARY FOLDER [--table] [NAME..]

Each function at its small size on 8 forced devices, compared with itself without constraints; then its bytes at the real
size. `--table` prints the bytes of all of them instead. One line for each function; the exit code is 1 if one differs, or
moves more than without constraints.

Bytes are those that `shardc audit` reads in the modules that XLA compiles, with ReduceScatters as XLA forms them for TPUs and
GPUs.
"""

import json
import subprocess
import sys
from pathlib import Path

import check  # forces the devices
import jax
import jax.numpy as jnp
import mlp
import models
import numpy as np
import scatter
import shardc
import shardc.jax
from audit import microbatches


def accumulated(size):
    """A gradient accumulated over microbatches."""
    rows = 64 if size == "small" else 4096
    w, xs = models.spec((256, 256)), models.spec((8, rows, 256), None, "data")
    return microbatches(8, w.sharding), (w, xs), 0


def sequence_parallel(size):
    """An MLP whose rows are sharded over both axes outside of it."""
    function, *arguments = mlp.example()
    return function, tuple(arguments), 0


FUNCTIONS = dict(microbatches=accumulated, mlp=sequence_parallel, **models.MODELS)

# Those of which a plan is found within seconds at the real size, and is better than what XLA does alone.
TESTED = ("microbatches", "mlp", "mixtral", "vit", "t5", "dlrm", "mixer", "vocab_loss")


def differs(name):
    """What is wrong with the constrained function at its small size."""
    function, arguments, most = FUNCTIONS[name]("small")
    constrained = shardc.jax.constrain(function, *arguments, costs="bytes")
    if not constrained.constraints:
        return "has no constraints"
    data = check.inputs_of(name, arguments, most)
    got, expected = (jax.jit(each)(*data) for each in (constrained, function))
    if jax.tree.structure(got) != jax.tree.structure(expected):
        return "has other results"
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return f"has {one.shape} {one.dtype} for {other.shape} {other.dtype}"
        one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
        worst = np.abs(one - other).max() / max(1e-30, np.abs(other).max())
        if not worst < 2e-5:
            return f"differs by {worst:.1e} of its largest element"
    return None


def received(binary, folder, text):
    """Bytes that a device receives in a module."""
    path = folder / "module.hlo"
    path.write_text(text)
    command = [binary, "audit", path, "--mesh", "data=4, model=2", "--format", "json"]
    output = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(output.stdout)["module"]["bytes_received_per_device"]


def moved(binary, folder, name):
    """Bytes of XLA alone, with constraints, of the plan, and of both modules as they are compiled for CPUs."""
    function, arguments, _ = FUNCTIONS[name]("real")
    constrained = shardc.jax.constrain(function, *arguments, costs="bytes")
    plan = constrained.plan.bytes_received
    texts = [jax.jit(each).lower(*arguments).compile().as_text() for each in (function, constrained)]
    alone, better = (received(binary, folder, scatter.formed(text)) for text in texts)
    return alone, better, plan, *(received(binary, folder, text) for text in texts)


def row(name, sizes):
    """A row of the table in `docs/audit.md`."""
    return f"| {name} | {' | '.join(f'{size / 1e6:.2f}' for size in sizes)} |"


def table(binary, folder, names):
    print("| model | XLA alone, MB | XLA constrained, MB | plan, MB | compiled for CPUs: alone, MB | constrained, MB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in names:
        print(row(name, moved(binary, folder, name)), flush=True)


def explicit_axes_are_refused():
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    x = jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data")))
    try:
        shardc.jax.constrain(lambda x: x @ x, x)
    except shardc.Error as error:
        assert "automatic axes" in str(error), error
    else:
        raise AssertionError("explicit axes have no constraints")


def main():
    binary, folder, *names = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if "--table" in names:
        table(binary, folder, [name for name in names if name != "--table"] or FUNCTIONS)
        return
    explicit_axes_are_refused()
    bad = 0
    for name in names or TESTED:
        wrong = differs(name)
        if wrong is None:
            sizes = moved(binary, folder, name)
            alone, better, *_ = sizes
            wrong = None if better <= alone else f"{better} bytes, {alone} without constraints"
            page = Path(__file__).parents[2] / "docs" / "audit.md"
            # The table is that of one version of JAX.
            if jax.__version__ == "0.10.2" and row(name, sizes) not in page.read_text().splitlines():
                wrong = f"not in {page}: {row(name, sizes)}"
        print(f"{name}: {wrong or 'equal'}", flush=True)
        bad += wrong is not None
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
