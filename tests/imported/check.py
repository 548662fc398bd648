"""Imports the models beside this file and compares what they compute with JAX.

    check.py BINARY FOLDER [--write] [NAME..]

For each model: writes its StableHLO text to FOLDER, runs `BINARY import` and `BINARY check` on it, gives the program and
the jitted function the same inputs, and compares all results. `--write` only writes the modules, at their real sizes as
well. Prints one line for each model; the exit code is 1 if one differs.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np

import models


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


def plain(array):
    """Without dims of size 1, which programs do not have."""
    return np.asarray(array).reshape([size for size in array.shape if size > 1])


def compared(binary, name, folder):
    path, function, arguments, most = module_of(name, "small", folder)
    program = folder / f"{name}.shard"
    start = time.time()
    told = subprocess.run([binary, "import", path, "-o", program, "--format", "json"], capture_output=True, text=True)
    if told.returncode != 0:
        return f"not imported:\n{told.stdout}{told.stderr}"
    document = json.loads(told.stdout)
    data = inputs_of(name, arguments, most)
    kept = models.lowered(name, "small")[0]._lowering.compile_args["kept_var_idx"]
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
    expected = jax.tree.leaves(jax.jit(function)(*data))
    worst = 0.0
    for number, want in enumerate(expected):
        got, want = np.load(folder / f"{name}.out{number}.npy"), plain(np.asarray(want))
        got = got.reshape(want.shape)
        scale = max(1e-30, float(np.abs(want).max()))
        # Propagates NaN, which `max` would drop.
        worst = np.maximum(worst, np.abs(got - want).max() / scale)
    if not worst < 2e-5:
        return f"differs by {worst:.1e} of its largest element"
    return None


def main():
    binary, folder, *names = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write = "--write" in names
    names = [name for name in names if name != "--write"] or list(models.MODELS)
    bad = 0
    for name in names:
        if write:
            for size in ("small", "real"):
                module_of(name, size, folder)
            continue
        wrong = compared(binary, name, folder)
        print(f"{name}: {wrong or 'equal'}", flush=True)
        bad += wrong is not None
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
