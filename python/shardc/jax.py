"""Programs of JAX functions.

    import shardc, shardc.jax
    program = shardc.jax.program(step, params, batch)      # arrays or jax.ShapeDtypeStruct, with shardings
    print(program.text)
    shardc.plan(program.text, hardware="tpu_v5p")
    shardc.jax.audit(step, params, batch).factor           # bytes that XLA moves over those of the plan
    led = jax.jit(shardc.jax.constrain(step, params, batch)) # the same function, with the layouts of the plan as constraints
    fast = jax.jit(shardc.jax.planned(step, params, batch)) # the same function, with the collectives of the plan

`python -m shardc.jax module:function` prints the program of `function()`, which returns a function and its arguments;
`python -m shardc.jax audit module:function` compares what XLA moves for it with the plan; `--suggest` adds the sharding
constraints that lead XLA to the plan.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable

import jax
from jax.extend.core import jaxpr_as_fun
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from . import Error, Plan, _jaxprs, _options, _run, binary
from . import plan as _plan
from ._layouts import Layout, Placed, dim_sizes, placed, spec_of

__all__ = [
    "Argument", "Audit", "Constrained", "Constraint", "Move", "Planned", "Program", "audit", "constrain", "planned", "program",
]


@dataclass(frozen=True)
class Argument:
    """An argument of the function as inputs of the program."""

    array: str
    """The name of the input."""
    per_iteration: bool
    """Whether row `k` is the input of iteration `k` of a `repeat`: `W`, `W.2`, `W.3` and so on."""


@dataclass(frozen=True)
class Program:
    """A program, and what it calls the leaves of the function's arguments and results."""

    text: str
    arguments: dict[int, Argument]
    """By the number of the leaf; leaves that the function does not use are missing."""
    results: list[str]


def program(
    function: Callable[..., Any],
    *arguments: Any,
    hardware: str | None = None,
    mesh: str | None = None,
    open: bool = False,
    opaque: bool = False,
) -> Program:
    """Makes a program of a function and the shapes, dtypes and shardings of its arguments.

    - `hardware`: the profile that the program names.
    - `mesh`: another mesh than that of the shardings, such as `"data=8, model=4"`; all layouts are then left to the plan.
    - `open`: layouts of arguments without a sharding are left to the plan; by default they are replicated.
    - `opaque`: operations that the language lacks, such as sorts and convolutions, are declared as kernels; by default they
      are errors.

    Raises `shardc.Error` for operations that cannot be imported.
    """
    lowered = (function if hasattr(function, "lower") else jax.jit(function)).lower(*arguments)
    options = _options({"on": hardware, "mesh": mesh, "open": open, "opaque": opaque})
    output = _run(["import", "-", *options, "--format", "json"], lowered.as_text(debug_info=True))
    document = json.loads(output)
    inputs = [Argument(**argument) for argument in document["arguments"]]
    leaves = len(jax.tree.leaves(arguments))
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"]) if len(inputs) < leaves else range(leaves)
    return Program(document["program"], dict(zip(kept, inputs)), document["results"])


class Planned:
    """A function of the same arguments and results that executes the plan of its program."""

    program: Program
    """The program."""
    source: str
    """The module that executes its plan, as `shardc export --to jax` writes it."""
    mesh: jax.sharding.Mesh
    """The mesh that it runs on."""

    def __init__(
        self,
        program: Program,
        source: str,
        results: Any,
        mesh: jax.sharding.Mesh | None,
        kernels: dict[str, Callable[..., Any]] | None = None,
    ) -> None:
        self.program, self.source = program, source
        self._module: dict[str, Any] = {}
        exec(compile(source, "<shardc>", "exec"), self._module)  # noqa: S102 (what the command has written)
        self._module.get("KERNELS", {}).update(kernels or {})
        self._results, self._tree = jax.tree.flatten(results)
        self.mesh = mesh or self._module["make_mesh"]()

    def __call__(self, *arguments: Any) -> Any:
        leaves, inputs = jax.tree.leaves(arguments), self._module["INPUTS"]
        given = {}
        for number, argument in self.program.arguments.items():
            name = _named(argument.array, inputs)
            if name is not None:
                # Programs have no dims of size 1, and split dims where an operation does.
                given[name] = leaves[number].reshape(inputs[name][0])
        made = self._module["run"](self.mesh, *(given[name] for name in inputs))
        made = dict(zip(self._module["OUTPUTS"], made if isinstance(made, tuple) else (made,)))
        results = [made[_named(name, made)] for name in self.program.results]
        shaped = [array.reshape(result.shape) for array, result in zip(results, self._results, strict=True)]
        return jax.tree.unflatten(self._tree, shaped)


def _named(array: str, names: Any) -> str | None:
    """The name of an array in a module, where names that Python or the module need end with `_`."""
    return next((name for name in (array, array + "_") if name in names), None)


def planned(
    function: Callable[..., Any],
    *arguments: Any,
    mesh: jax.sharding.Mesh | None = None,
    kernels: dict[str, Callable[..., Any]] | None = None,
    **options: Any,
) -> Planned:
    """Makes a function of the same arguments and results that executes the plan of its program: compute and collectives of each
    device are those that `shardc plan` lists. It can be called, compiled by `jax.jit`, and differentiated.

    - `arguments`: as for `program`.
    - `mesh`: the mesh to run on; by default one of all devices.
    - `kernels`: functions of blocks for the kernels that `program` declares with `opaque=True`, by name.
    - `options`: those of `shardc plan`, such as `hardware="tpu_v5p"`.

    Raises `shardc.Error` for operations that cannot be imported.
    """
    made = program(function, *arguments, opaque=kernels is not None)
    source = _run(["export", "-", "--to", "jax", *_options(options)], made.text)
    return Planned(made, source, jax.eval_shape(function, *arguments), mesh, kernels)


@dataclass(frozen=True)
class Constraint:
    """A layout of the plan for the result or an operand of an equation."""

    source: str
    """`model.py:12`"""
    operation: str
    """`dot_general`"""
    operand: int | None
    """The number of the operand that is constrained; `None` for the result."""
    type: str
    """`f32[64,128]`"""
    sharding: NamedSharding = field(repr=False)

    def __str__(self) -> str:
        value = "result" if self.operand is None else f"operand {self.operand}"
        return f"{self.source}: {value} of {self.operation}: with_sharding_constraint({self.type}, {self.sharding.spec})"


class Constrained:
    """A function of the same arguments and results that constrains values to layouts of a plan; XLA chooses the collectives."""

    program: Program
    """The program that was planned; its arrays have the names of equations, `eqn12`."""
    plan: Plan
    """Its plan."""
    constraints: list[Constraint]
    """In the order of the function's jaxpr."""

    def __init__(
        self, name: str, program: Program, plan: Plan, constraints: list[Constraint], closed: Any, trees: tuple[Any, Any]
    ) -> None:
        # The name of the module that XLA compiles.
        self.__name__ = name
        self.program, self.plan, self.constraints = program, plan, constraints
        self._function, (self._arguments, self._results) = jaxpr_as_fun(closed), trees

    def __call__(self, *arguments: Any) -> Any:
        leaves, tree = jax.tree.flatten(arguments)
        if tree != self._arguments:
            raise TypeError(f"expected arguments {self._arguments}, found {tree}")
        return jax.tree.unflatten(self._results, self._function(*leaves))


def constrain(
    function: Callable[..., Any], *arguments: Any, mesh: Mesh | AbstractMesh | None = None, **options: Any
) -> Constrained:
    """Makes the same function with layouts of its plan as `jax.lax.with_sharding_constraint` on values, for `jax.jit`.

    Constrained are the operands and results of products, and the other values that the imported program names, in loops and
    calls, too. A value that stays an unreduced sum in the plan has no constraint, nor has one whose layout a `PartitionSpec`
    cannot express. Differentiate first: `constrain(jax.grad(loss), ..)`.

    - `arguments`: as for `program`.
    - `mesh`: the mesh of the constraints; by default that of the shardings of the arguments. Its axes are automatic.
    - `options`: those of `shardc plan`, such as `costs="bytes"`.

    Raises `shardc.Error` for operations that cannot be imported.
    """
    mesh = mesh or _mesh_of(arguments)
    if any(kind != AxisType.Auto for kind in mesh.axis_types):
        raise Error(f"constraints need automatic axes, and the mesh has {mesh.axis_types}")
    closed, results = jax.make_jaxpr(function, return_shape=True)(*arguments)
    named = jaxpr_as_fun(_jaxprs.named(closed))
    made = program(lambda *arguments: named(*jax.tree.leaves(arguments)), *arguments)
    # Each step whole, and in the order of the program: overlap changes neither layouts nor bytes.
    plan = _plan(made.text, **{"overlap": "none", **options})
    # The results of the function have names of their own.
    outputs = {id(variable): name for variable, name in zip(closed.jaxpr.outvars, made.results)}
    constrainer = _Constrainer(placed(plan), outputs, dim_sizes(made.text), mesh)
    rewritten = _jaxprs.rewritten(closed, constrainer.rewrite)
    trees = jax.tree.structure(arguments), jax.tree.structure(results)
    name = getattr(function, "__name__", "constrained")
    return Constrained(name, made, plan, constrainer.constraints, rewritten, trees)


class _Constrainer:
    """Adds the layouts of a plan to the equations of jaxprs."""

    def __init__(self, arrays: dict[str, Placed], outputs: dict[int, str], sizes: dict[str, int], mesh: Any) -> None:
        self.arrays, self.outputs, self.sizes, self.mesh = arrays, outputs, sizes, mesh
        self.constraints: list[Constraint] = []

    def rewrite(self, equations: _jaxprs.Numbered) -> list[Any]:
        """The equations of one jaxpr with their constraints."""
        found = {number: self.shardings(number, equation) for number, equation in equations}
        self.gather_before_broadcasts(equations, found)
        made: list[Any] = []
        for number, equation in equations:
            operands, results = found[number]
            self.note(equation, operands, results)
            made += _jaxprs.constrained(equation, operands, results) if operands or results else [equation]
        return made

    def shardings(self, number: int, equation: Any) -> tuple[dict[int, NamedSharding], list[NamedSharding]]:
        """Those of the operands of an equation, by their numbers, and of its result."""
        if len(equation.outvars) != 1:
            return {}, []
        [result] = equation.outvars
        array = self.arrays.get(_jaxprs.name_of(number)) or self.arrays.get(self.outputs.get(id(result), ""))
        if array is None:
            return {}, []
        results = [self.sharding(layout, result) for layout in array.reduced()]
        operands: dict[int, NamedSharding] = {}
        if equation.primitive.name == "dot_general":
            orders = [self.operands(layouts, equation) for layouts in (array.operands, array.operands[::-1])]
            operands = max(orders, key=len)
        return operands, [sharding for sharding in results if sharding is not None]

    def operands(self, layouts: list[Layout], equation: Any) -> dict[int, NamedSharding]:
        """The shardings of operands that have these layouts in this order, as far as they fit."""
        shardings = (self.sharding(layout, variable) for layout, variable in zip(layouts, equation.invars))
        return {number: sharding for number, sharding in enumerate(shardings) if sharding is not None}

    def sharding(self, layout: Layout, variable: Any) -> NamedSharding | None:
        spec = None if layout.is_open else spec_of(layout, variable.aval.shape, self.sizes, self.mesh.shape)
        return None if spec is None else NamedSharding(self.mesh, spec)

    def gather_before_broadcasts(self, equations: _jaxprs.Numbered, found: dict[int, Any]) -> None:
        """Constrains what is broadcast to an operand of a constrained result, such as a bias. Left alone, XLA gathers the
        operand after it has been broadcast."""
        broadcasts = {
            id(equation.outvars[0]): (number, equation)
            for number, equation in equations
            if equation.primitive.name == "broadcast_in_dim" and equation.invars[0].aval.ndim > 0
        }
        for number, equation in equations:
            _, results = found[number]
            for variable in equation.invars if results else ():
                if id(variable) in broadcasts and variable.aval.ndim == equation.outvars[0].aval.ndim:
                    at, broadcast = broadcasts[id(variable)]
                    found[at] = ({0: self.before(broadcast, results[-1])}, found[at][1])

    def before(self, broadcast: Any, sharding: NamedSharding) -> NamedSharding:
        """The sharding of the operand of a broadcast whose result has this one."""
        shape, spec = broadcast.invars[0].aval.shape, [*sharding.spec]
        dims = broadcast.params["broadcast_dimensions"]
        return NamedSharding(self.mesh, PartitionSpec(*(spec[dim] if size > 1 else None for dim, size in zip(dims, shape))))

    def note(self, equation: Any, operands: dict[int, NamedSharding], results: list[NamedSharding]) -> None:
        """Adds to the list of constraints."""
        both = [*operands.items(), *((None, sharding) for sharding in results[-1:])]
        for number, sharding in both:
            aval = (equation.outvars[0] if number is None else equation.invars[number]).aval
            source, name = _jaxprs.place_of(equation), equation.primitive.name
            self.constraints.append(Constraint(source, name, number, aval.str_short(short_dtypes=True), sharding))


def _mesh_of(arguments: Any) -> Mesh | AbstractMesh:
    """The mesh of the arguments' shardings."""
    shardings = (getattr(leaf, "sharding", None) for leaf in jax.tree.leaves(arguments))
    found = next((sharding.mesh for sharding in shardings if isinstance(sharding, NamedSharding)), None)
    if found is None:
        raise Error("no argument has a `NamedSharding`; pass `mesh`")
    return found


@dataclass(frozen=True)
class Move:
    """A collective, of the compiled module or of the plan; bytes and time are those of all repetitions."""

    name: str
    """`AllReduce_data`"""
    what: str
    """The bytes of its result, or the arrays of a plan: `A[I_X] -> A[I]`."""
    times: int
    """Repetitions, by the trip counts of the loops around it."""
    bytes_received: int
    """By the device that receives most."""
    time: float | None
    """Seconds on the links; `None` if its groups are not those of mesh axes."""
    source: str | None
    """`model.py:12`"""


@dataclass(frozen=True)
class Audit:
    """What XLA moves for a function, beside the plan of its program."""

    factor: float
    """Bytes that XLA moves over those of the plan; infinite if the plan moves none."""
    xla: list[Move]
    plan: list[Move]
    text: str = field(repr=False)
    """Both, line by line of the source, and the constraints."""
    constraints: list[Constraint] = field(default_factory=list)
    """With `suggest`: the layouts of the plan, as `constrain` sets them."""
    constrained_factor: float | None = None
    """With `suggest`: bytes that XLA moves with the constraints over those of the plan."""

    def __str__(self) -> str:
        return self.text


def audit(
    function: Callable[..., Any], *arguments: Any, hardware: str | None = None, suggest: bool = False, **options: Any
) -> Audit:
    """Compiles a function with XLA and compares what it moves with the plan of its program.

    - `suggest`: also lists the sharding constraints that lead XLA to the plan, and compiles the function with them.
    - `options`: those of `shardc audit`, such as `costs="exact"`; the default plans the fewest bytes.

    The devices may be forced: `XLA_FLAGS=--xla_force_host_platform_device_count=8`.

    Raises `shardc.Error` for operations that cannot be imported.
    """
    lowered = (function if hasattr(function, "lower") else jax.jit(function)).lower(*arguments)
    with tempfile.TemporaryDirectory() as folder:
        module, source = Path(folder) / "module.hlo", Path(folder) / "module.mlir"
        module.write_text(lowered.compile().as_text())
        source.write_text(lowered.as_text(debug_info=True))
        words = ["audit", str(module), "--program", str(source), *_options({"hardware": hardware, **options})]
        text = _run(words)
        document = json.loads(_run([*words, "--format", "json"]))
    xla, plan = (_moves(document[side]["collectives"]) for side in ("module", "plan"))
    found = Audit(_factor(document["module"], document["plan"]), xla, plan, text)
    if not suggest:
        return found
    planning = {"costs": "bytes", "hardware": hardware, **options}
    planning.pop("fail_above", None)
    constrained = constrain(function, *arguments, **planning)
    factor = _factor(_read(constrained, arguments, hardware), document["plan"])
    lines = "".join(f"  {constraint}\n" for constraint in constrained.constraints)
    text += f"\nwith these constraints, a device receives {factor:.2f}x the bytes of the plan:\n{lines}"
    return replace(found, text=text, constraints=constrained.constraints, constrained_factor=factor)


def _factor(module: dict[str, Any], plan: dict[str, Any]) -> float:
    """Bytes of a module over those of a plan."""
    moved, planned = (side["bytes_received_per_device"] for side in (module, plan))
    return moved / planned if planned else float("inf") if moved else 1.0


def _read(function: Callable[..., Any], arguments: Any, hardware: str | None) -> dict[str, Any]:
    """What `shardc audit` reads in the module that XLA compiles for a function."""
    axes = ", ".join(f"{axis}={size}" for axis, size in _mesh_of(arguments).shape.items())
    options = _options({"mesh": axes, "hardware": hardware, "format": "json"})
    module = jax.jit(function).lower(*arguments).compile().as_text()
    read: dict[str, Any] = json.loads(_run(["audit", "-", *options], module))["module"]
    return read


def _moves(collectives: list[dict[str, Any]]) -> list[Move]:
    return [
        Move(
            name=move["name"],
            what=move["what"],
            times=move["times"],
            bytes_received=move["bytes_received_per_device"],
            time=move.get("time_s"),
            source=move.get("source"),
        )
        for move in collectives
    ]


def main(words: list[str]) -> None:
    """`module:function` and options of `shardc import`, or `audit module:function` and options of `shardc audit`."""
    audits = words[:1] == ["audit"]
    words = words[1:] if audits else words
    if not words or ":" not in words[0]:
        sys.exit("usage: python -m shardc.jax [audit] MODULE:FUNCTION [--suggest] [OPTIONS of `shardc import` or `audit`]")
    sys.path.insert(0, "")
    module, name = words[0].split(":")
    function, *arguments = getattr(importlib.import_module(module), name)()
    if "--suggest" in words:
        words.remove("--suggest")
        print(audit(function, *arguments, suggest=True, **_keywords(words[1:])), end="")
        return
    lowered = jax.jit(function).lower(*arguments)
    if not audits:
        print(_run(["import", "-", *words[1:]], lowered.as_text(debug_info=True)), end="")
        return
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "module.mlir"
        source.write_text(lowered.as_text(debug_info=True))
        command = [binary(), "audit", "-", "--program", str(source), *words[1:]]
        # The command prints its own errors, and its exit status is that of the script.
        done = subprocess.run(command, input=lowered.compile().as_text(), text=True, check=False)
    sys.exit(done.returncode)


def _keywords(words: list[str]) -> dict[str, Any]:
    """`--costs exact --strict` as `costs="exact", strict=True`"""
    options: dict[str, Any] = {}
    for word, following in zip(words, [*words[1:], "--"]):
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            options[name.replace("-", "_")] = value or (True if following.startswith("--") else following)
    return options


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Error as error:
        sys.exit(str(error))
