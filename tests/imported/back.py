"""Calls functions that execute the plans of the models beside this file, and compares with the models.

    back.py [NAME..]

Each model at its small size, on 8 forced devices, under `jax.jit`, with arguments and results of the same trees. Prints one line
for each model; the exit code is 1 if one differs.
"""

import sys

import check  # forces the devices
import jax
import models
import numpy as np
import shardc.jax


def compared(name):
    _, function, arguments, most = models.lowered(name, "small")
    data = check.inputs_of(name, arguments, most)
    planned = shardc.jax.planned(function, *arguments, overlap="none")
    got = jax.jit(planned)(*data)
    expected = jax.jit(function)(*data)
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    worst = 0.0
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype, (name, one.shape, one.dtype, other.shape, other.dtype)
        one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
        worst = np.maximum(worst, np.abs(one - other).max() / max(1e-30, np.abs(other).max()))
    return None if worst < 2e-5 else f"differs by {worst:.1e} of its largest element"


def main():
    bad = 0
    for name in sys.argv[1:] or models.MODELS:
        wrong = compared(name)
        print(f"{name}: {wrong or 'equal'}", flush=True)
        bad += wrong is not None
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
