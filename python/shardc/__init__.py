"""Plans sharded programs: the cheapest communication for the layouts of a model.

    import shardc
    program = "mesh {X: 4} on tpu_v5p\\ndims {I: 64}\\nA: bf16[I_X]\\nB[I] = A\\n"
    plan = shardc.plan(program)
    plan.time, plan.bytes_received, [step.op for step in plan.steps]
    shardc.time(program).makespan, shardc.report(program, "report.html")

`shardc.jax` makes programs of JAX functions. The package runs the command `shardc`: the one that the environment variable
`SHARDC` names, else the one that was installed with the package, else the one on the search path.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Engine", "Error", "Links", "Plan", "Report", "Step", "Timing", "check", "plan", "report", "time"]


class Error(Exception):
    """The diagnostics of `shardc`, as printed."""


@dataclass(frozen=True)
class Step:
    """A step of a plan."""

    op: str
    """`AllGather`, `Product`, `Map`"""
    axes: list[str]
    """The mesh axes that it communicates along."""
    operands: list[str]
    """`["A[I_X]"]`"""
    result: str
    """`A[I]`"""
    method: str | None
    """How a collective is scheduled."""
    time: float
    """Seconds."""
    bytes_received: int
    """By the device that receives most."""
    times: int
    """Iterations of the `repeat` that it is in; time and bytes are those of one."""


@dataclass(frozen=True)
class Plan:
    """A plan of a program; all amounts are those of one device."""

    time: float
    """Seconds, one step after the other."""
    bound: float
    """Lower bound, in seconds."""
    bytes_received: int
    peak_bytes: int
    steps: list[Step]
    document: dict[str, Any] = field(repr=False)
    """The whole JSON document, as `docs/report.schema.json` describes it."""

    @property
    def collectives(self) -> list[Step]:
        """The steps that communicate."""
        return [step for step in self.steps if step.bytes_received > 0]


@dataclass(frozen=True)
class Links:
    """The links along a mesh axis."""

    axis: str
    bytes_per_link: int
    """On the link that carries most."""
    busy: float
    """Seconds, of the link that is busy longest."""


@dataclass(frozen=True)
class Engine:
    """An engine of a device: `compute`."""

    name: str
    busy: float
    """Seconds, on the device where it is busy longest."""
    utilisation: float
    """Its part of the makespan, from 0 to 1."""


@dataclass(frozen=True)
class Timing:
    """The simulated execution of a program's plan, in seconds."""

    makespan: float
    """From the start of the first step to the end of the last one."""
    bound: float
    """Lower bound of the makespan."""
    busiest_link: str | None
    """`model: (0,0)->(0,1)`"""
    links: list[Links]
    engines: list[Engine]
    document: dict[str, Any] = field(repr=False)
    """The whole JSON document, as `docs/report.schema.json` describes it."""

    @property
    def compute(self) -> float:
        """Seconds that the compute engine is busy."""
        return max((engine.busy for engine in self.engines if engine.name == "compute"), default=0.0)

    @property
    def exposed(self) -> float:
        """Seconds of communication that no computation hides: the makespan without `compute`."""
        return max(0.0, self.makespan - self.compute)


@dataclass(frozen=True)
class Report(os.PathLike[str]):
    """An HTML report; it stands for its path where a path is expected, as in `open(report)`."""

    path: Path
    timing: Timing
    """The figures of the program that it shows."""

    def __fspath__(self) -> str:
        return str(self.path)

    def read_text(self) -> str:
        """The HTML text."""
        return self.path.read_text(encoding="utf-8")


def binary() -> str:
    """The command that is run."""
    own = Path(sysconfig.get_path("scripts")) / ("shardc.exe" if os.name == "nt" else "shardc")
    found = os.environ.get("SHARDC") or (str(own) if own.exists() else shutil.which("shardc"))
    if not found:
        raise Error("command `shardc` not found; install it, or name it in the environment variable SHARDC")
    return found


def _run(arguments: list[str], text: str | None = None) -> str:
    done = subprocess.run([binary(), *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Error(done.stderr.strip() or done.stdout.strip() or f"shardc ended with status {done.returncode}")
    return done.stdout


def _options(options: dict[str, Any]) -> list[str]:
    """`hardware="h100"` as `--hardware h100`, `strict=True` as `--strict`, `set=dict(B=8)` as `--set B=8`."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, dict):
            for key, size in value.items():
                words += [option, f"{key}={size}"]
        elif value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, str(value)]
    return words


def check(program: str) -> None:
    """Checks a program; raises `Error` with its diagnostics."""
    _run(["check", "-"], program)


def plan(program: str, **options: Any) -> Plan:
    """Plans a program, with the options of `shardc plan`: `plan(text, hardware="h100", overlap="none", set=dict(B=8))`."""
    document = json.loads(_run(["plan", "-", *_options(options), "--format", "json"], program).splitlines()[0])
    totals = document["totals"]
    steps = [
        Step(
            op=step["op"],
            axes=step["axes"],
            operands=step["operands"],
            result=step["result"],
            method=step["method"],
            time=step["time_s"],
            bytes_received=step["bytes_received_per_device"],
            times=step["times"],
        )
        for step in document["steps"]
    ]
    return Plan(
        time=totals["time_s"],
        bound=totals["bound_s"],
        bytes_received=totals["bytes_received_per_device"],
        peak_bytes=totals["peak_bytes_per_device"],
        steps=steps,
        document=document,
    )


def time(program: str, **options: Any) -> Timing:
    """Plans, proves and simulates a program, with the options of `shardc time`: `time(text, hardware="h100")`."""
    document = json.loads(_run(["time", "-", *_options(options), "--format", "json"], program).splitlines()[0])
    figures = document["time"]
    return Timing(
        makespan=figures["makespan_s"],
        bound=figures["bound_s"],
        busiest_link=figures["busiest_link"],
        links=[Links(links["axis"], links["bytes_per_link"], links["busy_s"]) for links in figures["links"]],
        engines=[Engine(engine["name"], engine["busy_s"], engine["utilisation"]) for engine in figures["engines"]],
        document=document,
    )


def report(program: str, path: str | Path, **options: Any) -> Report:
    """Writes the HTML report of a program, with the options of `shardc report`, and returns its path and figures."""
    _run(["report", "-", "-o", str(path), *_options(options)], program)
    return Report(Path(path), time(program, **options))


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext shardc`: makes `%%shardc plan`, `%%shardc report` and `%%shardc time` cell magics."""
    from ._notebook import register

    register(shell)
