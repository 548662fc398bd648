"""The Python package: a JAX function to a program, a plan and a report.

Run by `tests/language/imported.rs` on the sources, and by `.ci/wheel` on the package as it is installed.
"""

import os
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import models
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

page = shardc.report(program.text, Path(sys.argv[1]) / "page.html")
assert page.read_text().startswith("<!doctype html>")

try:
    shardc.check("mesh {X: 4} on tpu_v5e\nA: bf16[8_Q]\noutput A\n")
except shardc.Error as error:
    assert "unknown-axis" in str(error)
else:
    raise AssertionError("an unknown axis is an error")

other = shardc.jax.program(function, *arguments, mesh="x=2, y=4")
assert other.text.startswith("mesh {x: 2, y: 4}"), other.text
print("equal")
