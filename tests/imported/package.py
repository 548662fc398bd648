"""The Python package: a JAX function to a program, a plan, its time and a report; and the package as a command.

Run by `tests/language/imported.rs` on the sources, and by `.ci/packages` on the package as it is installed.
"""

import os
import subprocess
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import models
import numpy as np
import shardc
import shardc.jax

function, arguments, _ = models.llama_8b("small")
program = shardc.jax.program(function, *arguments, hardware="tpu_v5p")
assert program.results == ["out"]
assert program.arguments[2].array == "layers_g1" and program.arguments[2].per_iteration
assert " on tpu_v5p" in program.text

plan = shardc.plan(program.text, overlap="none")
assert 0 < plan.bound <= plan.time and plan.bytes_received > 0
assert {step.op for step in plan.collectives} >= {"AllReduce"}, plan.collectives
slower = shardc.plan(program.text, overlap="none", set={"F": 2**16}, hardware="tpu_v5e")
assert slower.time > plan.time

timing = shardc.time(program.text, overlap="none")
assert isinstance(timing, shardc.Timing) and 0 < timing.bound <= timing.makespan
assert abs(timing.makespan - plan.time) < 1e-9 + 0.01 * plan.time, (timing.makespan, plan.time)
assert 0 < timing.compute < timing.makespan and timing.exposed == timing.makespan - timing.compute
assert {links.axis for links in timing.links} >= {"model"} and timing.busiest_link.startswith("model")
assert all(0 <= engine.utilisation <= 1 for engine in timing.engines)

path = Path(sys.argv[1]) / "page.html"
page = shardc.report(program.text, path, overlap="none")
assert page.path == path and os.fspath(page) == str(path) and Path(page) == path
assert page.read_text().startswith("<!doctype html>")
assert page.timing.makespan == timing.makespan

wrong = "mesh {X: 4} on tpu_v5e\nA: bf16[8_Q]\noutput A\n"
for command in (shardc.check, shardc.plan, shardc.time, lambda text: shardc.report(text, path)):
    try:
        command(wrong)
    except shardc.Error as error:
        assert "unknown-axis" in str(error)
    else:
        raise AssertionError("an unknown axis is an error")



def ranked(x, w):
    """The largest products first."""
    return -jax.lax.sort(-(x @ w), dimension=1)


sharded = [models.spec((16, 32), "data", dtype=np.float32), models.spec((32, 64), None, "model", dtype=np.float32)]
try:
    shardc.jax.program(ranked, *sharded)
except shardc.Error as error:
    assert "--opaque" in str(error), error
else:
    raise AssertionError("the language has no sort")
made = shardc.jax.program(ranked, *sharded, opaque=True)
assert "kernel sort(a[B, S]) -> f32[B, S], shard B, flops 6*B*S\n" in made.text, made.text
planned = shardc.jax.planned(ranked, *sharded, kernels=dict(sort=jax.lax.sort))
random = np.random.default_rng(0)
data = [random.integers(-4, 5, leaf.shape).astype(leaf.dtype) for leaf in sharded]
assert np.array_equal(jax.jit(planned)(*data), ranked(*data))

other = shardc.jax.program(function, *arguments, mesh="x=2, y=4")
assert other.text.startswith("mesh {x: 2, y: 4}"), other.text

def command(*words):
    """Runs `python -m shardc.jax` beside this file."""
    folder = Path(__file__).parent
    return subprocess.run([sys.executable, "-m", "shardc.jax", *words], cwd=folder, capture_output=True, text=True)


done = command("mlp:example", "--on", "tpu_v5p")
assert done.returncode == 0, done.stderr
assert done.stdout.startswith("mesh {data: 4, model: 2} on tpu_v5p\n"), done.stdout
assert shardc.plan(done.stdout).bytes_received > 0
done = command("audit", "mlp:example")
assert done.returncode == 0 and "by XLA, a device receives" in done.stdout, done.stdout + done.stderr
done = command("audit", "mlp:example", "--suggest", "--costs", "bytes")
assert done.returncode == 0, done.stderr
assert "mlp.py:13: result of dot_general: with_sharding_constraint(" in done.stdout, done.stdout
done = command("mlp:example", "--nothing")
assert done.returncode != 0 and "Traceback" not in done.stderr and "--nothing" in done.stderr, done.stderr
done = command()
assert done.returncode != 0 and done.stderr.startswith("usage: python -m shardc.jax"), done.stderr

done = subprocess.run([sys.executable, Path(__file__).with_name("notebook.py")], capture_output=True, text=True)
assert done.returncode == 0, done.stderr
print("equal")
