"""Compares what `shardc audit` reads in modules that XLA has partitioned with a count of its own.

    audit.py BINARY FOLDER [NAME..]

For the models beside this file at their small sizes: the bytes that a device receives, by collectives of ideal algorithms,
as `xla.py` counts them. Then the waste that a training step is known for, by the package: gradients that every microbatch
sums over the devices.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import models
import shardc.jax
import xla
from jax import lax


def counted(binary, folder, name):
    text = models.lowered(name, "small")[0].compile().as_text()
    path = folder / f"{name}.hlo"
    path.write_text(text)
    command = [binary, "audit", path, "--mesh", "data=4, model=2", "--format", "json"]
    output = subprocess.run(command, capture_output=True, text=True, check=True)
    ours, theirs = json.loads(output.stdout)["module"]["bytes_received_per_device"], xla.moved(text)
    # Arrays that do not divide are padded.
    assert theirs <= ours <= 1.1 * theirs + 64, (name, ours, theirs)
    print(f"{name}: {ours}")


def microbatches(count, sharding):
    """A gradient accumulated over microbatches: XLA sums it over `data` in each, once would do."""

    def loss(w, x):
        return jnp.sum((x @ w) ** 2)

    def step(w, xs):
        add = lambda total, x: (total + jax.grad(loss)(w, x), None)
        total, _ = lax.scan(add, jnp.zeros_like(w), xs)
        return lax.with_sharding_constraint(w - 0.1 * total, sharding)

    return step


def suggests_constraints():
    """Of a loss, the constraints of the plan let XLA move about its bytes, and name the lines of the products."""
    _, function, arguments, _ = models.lowered("vocab_loss", "real")
    audit = shardc.jax.audit(function, *arguments, suggest=True)
    assert audit.factor > 3 and audit.constrained_factor < 1.1, (audit.factor, audit.constrained_factor)
    products = [constraint for constraint in audit.constraints if constraint.operation == "dot_general"]
    assert len(products) >= 6 and all(constraint.source.startswith("models.py:") for constraint in products), products
    assert {constraint.operand for constraint in products} == {None, 0, 1}
    assert "with_sharding_constraint(f32[8192,128256], P('data', 'model'))" in str(audit).replace("PartitionSpec", "P"), audit


def main():
    binary, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[3:] or models.MODELS:
        counted(binary, folder, name)
    mesh = models.mesh
    spec = lambda *axes: jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
    whole = jax.ShapeDtypeStruct((256, 256), jnp.float32, sharding=spec())
    batches = jax.ShapeDtypeStruct((8, 4096, 256), jnp.float32, sharding=spec(None, "data"))
    audit = shardc.jax.audit(microbatches(8, spec()), whole, batches)
    [move] = audit.xla
    assert (move.name, move.times) == ("AllReduce_data", 8), move
    assert move.source.startswith("audit.py:"), move
    assert move.bytes_received == 8 * 2 * 256 * 256 * 4 * 3 // 4, move
    # The plan sums them once, and scatters and gathers with both axes.
    assert all(move.times == 1 for move in audit.plan), audit.plan
    assert audit.factor >= 8, audit
    assert not audit.constraints and audit.constrained_factor is None
    suggests_constraints()
    print("equal")


if __name__ == "__main__":
    main()
