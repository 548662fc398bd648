"""Runs modules for JAX and tells what they do: `python drive.py FOLDER`, a line of JSON for each module.

Of each: the collectives of the lowered program, with their groups and the bytes of their operands, and how far its
results are from those of whole arrays.
"""

import importlib.util
import itertools
import json
import os
import pathlib
import re
import sys
import traceback

os.environ["JAX_PLATFORMS"] = "cpu"
# Code that runs once need not be good.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=64 --xla_backend_optimization_level=0"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402
from jax import lax  # noqa: E402
from jax._src.interpreters import mlir  # noqa: E402
from jax._src.lib import _jax, xla_client  # noqa: E402
from jax._src.lib.mlir import ir  # noqa: E402
from jax._src.sharding_impls import GSPMDSharding  # noqa: E402

KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute", "collective_broadcast")
BITS = {"i1": 8, "f8E4M3FN": 8, "f8E5M2": 8, "bf16": 16, "f16": 16, "f32": 32, "f64": 64}
BITS |= {f"{sign}{bits}": bits for sign in ("i", "ui") for bits in (4, 8, 16, 32, 64)}
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "i32": "int32", "i64": "int64"}


def operand_bytes(value):
    """Of a tensor type, as its text says: `tensor<8x16xbf16>`."""
    *extents, dtype = str(value.type).removeprefix("tensor<").removesuffix(">").split("x")
    count = 1
    for extent in extents:
        count *= int(extent)
    return (count * BITS[dtype] + 7) // 8


def device_groups(attribute, meshes):
    """The groups of a collective: written out, or, from JAX 0.12 on, by the axes of a mesh that span them."""
    text = str(attribute)
    if "replica_group_mesh_axes" not in text:
        rows, columns = attribute.type.shape
        flat = [int(x) for x in attribute]
        return [flat[row * columns : (row + 1) * columns] for row in range(rows)]
    mesh = meshes[re.search(r"mesh = @(\w+)", text).group(1)]
    # No axis is split: a part of one would have more to it than its name.
    spanned = [list(mesh).index(name) for name in re.findall(r'axis_ref<name = "(\w+)">', text)]
    assert len(spanned) == text.count("axis_ref")
    sizes = list(mesh.values())
    devices = numpy.arange(numpy.prod(sizes)).reshape(sizes)
    devices = numpy.moveaxis(devices, spanned, range(-len(spanned), 0))
    members = numpy.prod(devices.shape[devices.ndim - len(spanned) :])
    return devices.reshape(-1, members).tolist()


def iterations(loop):
    """Of a `lax.scan`, whose counter starts at 0: what the counter is compared with."""
    (comparison,) = (inner for inner in loop.regions[0].blocks[0].operations if inner.operation.name == "stablehlo.compare")
    return int(ir.DenseIntElementsAttr(comparison.operands[1].owner.attributes["value"])[0])


def collectives(module):
    """What `main` does, through all functions that it calls."""
    functions, meshes = {}, {}
    for operation in module.body.operations:
        if operation.operation.name not in ("func.func", "sdy.mesh"):
            continue
        name = str(operation.attributes["sym_name"]).strip('"')
        if operation.operation.name == "func.func":
            functions[name] = operation
        else:
            axes = re.findall(r'"(\w+)"=(\d+)', str(operation.attributes["mesh"]))
            meshes[name] = {axis: int(size) for axis, size in axes}

    found = []

    def walk(operation):
        name = operation.operation.name
        if name in ("func.call", "call"):
            walk(functions[str(operation.attributes["callee"]).strip('@"')])
            return
        kind = name.removeprefix("stablehlo.")
        if kind in KINDS:
            key = "source_target_pairs" if kind == "collective_permute" else "replica_groups"
            groups = device_groups(operation.attributes[key], meshes)
            found.append({"kind": kind, "groups": groups, "bytes": operand_bytes(operation.operands[0])})
            return
        times = iterations(operation) if kind == "while" else 1
        for _ in range(times):
            for region in operation.regions:
                for block in region.blocks:
                    for inner in block.operations:
                        walk(inner)

    walk(functions["main"])
    return found


def threshold(z):
    """That of sparsemax: what exceeds it in a row adds up to 1."""
    falling = -lax.sort(-z)
    total, count = jnp.cumsum(falling, axis=1), jnp.arange(1, z.shape[1] + 1)
    kept = jnp.sum(1 + count * falling > total, axis=1, keepdims=True)
    return ((jnp.take_along_axis(total, kept - 1, axis=1) - 1) / kept)[:, 0]


def convolution(x, w):
    """A convolution of images along their second and third dim."""
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


# The declared kernels without a reference.
KERNELS = {"threshold": threshold, "convolution": convolution, "sort": lax.sort}


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if hasattr(module, "KERNELS"):
        module.KERNELS.update(KERNELS)
    return module


def with_kernels(text):
    """A module of StableHLO with functions in place of the custom calls of declared kernels."""
    functions = []

    def called(match):
        name, operands, types, result = match.groups()
        shapes = []
        for of in re.findall(r"tensor<(\S+?)>", types):
            *extents, dtype = of.split("x")
            shapes.append(jax.ShapeDtypeStruct([int(extent) for extent in extents], DTYPES[dtype]))
        module = str(jax.jit(KERNELS[name]).lower(*shapes).compiler_ir("stablehlo"))
        own, prefix = module[module.index("func.func") : module.rindex("}")], f"{name}_{len(functions)}"
        own = re.sub(r"@(\w+)", rf"@{prefix}_\1", own).replace("func.func public", "func.func private")
        functions.append(own)
        return f"func.call @{prefix}_main({operands}) : ({types}) -> {result}"

    text = re.sub(r'stablehlo\.custom_call @"(\w+)"\((.*?)\) : \((.*?)\) -> (tensor<\S+>)', called, text)
    end = text.rindex("}")
    return text[:end] + "\n".join(functions) + text[end:]


def tupled(arrays):
    return arrays if isinstance(arrays, tuple) else (arrays,)


class Program:
    """The Python module of a program, its inputs, and what is to come out."""

    def __init__(self, path):
        self.module = loaded(path)
        # From the host they are cut without a program being compiled for it.
        self.given = [numpy.asarray(one) for one in tupled(self.module.inputs())]
        head = path.read_text().partition("OUTPUTS = {")[0].partition("INPUTS = {")[2]
        self.is_stacked = ["# one for each iteration" in line for line in head.strip().splitlines()[:-1]]
        self.wanted = [numpy.asarray(one) for one in tupled(jax.jit(self.module.dense)(*self.given))]
        devices = next(int(word) for word in self.module.make_mesh.__doc__.split() if word.isdigit())
        self.mesh = self.module.make_mesh(jax.devices()[:devices])

    def lowered(self):
        """The module itself: lowered, and run."""
        lowered = jax.jit(lambda *arrays: self.module.run(self.mesh, *arrays)).lower(*self.given)
        found = collectives(lowered.compiler_ir("stablehlo"))
        outs = self.module.closed(tupled(lowered.compile()(*self.given)))
        return {"collectives": found, "differences": self.module.differences(outs, self.wanted)}

    def constrained(self, module):
        """The module of constraints."""
        placed = module.spread(self.mesh, *self.given)
        outs = tupled(jax.jit(lambda *arrays: module.constrained(self.mesh, *arrays))(*placed))
        return {"collectives": [], "differences": self.module.differences(outs, self.wanted)}

    def executed(self, text):
        """A module of StableHLO: parsed, compiled for its mesh, and run."""
        text = with_kernels(text)
        with mlir.make_ir_context():
            module = ir.Module.parse(text)
            assert module.operation.verify()
            found = collectives(module)
            devices = tuple(self.mesh.devices.flat)
            options = xla_client.CompileOptions()
            options.num_replicas, options.num_partitions = 1, len(devices)
            build = options.executable_build_options
            build.num_replicas, build.num_partitions = 1, len(devices)
            build.use_spmd_partitioning, build.use_shardy_partitioner = True, True
            places = numpy.arange(len(devices)).reshape(1, len(devices))
            build.device_assignment = xla_client.DeviceAssignment.create(places)
            executable = devices[0].client.compile_and_load(module, _jax.DeviceList(devices), options)
        shardings = [GSPMDSharding(devices, one) for one in executable.get_parameter_shardings()]
        given = arguments(self.given, self.is_stacked)
        placed = [jax.device_put(*pair) for pair in zip(given, shardings, strict=True)]
        pieces = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
        manual = "sdy.manual_computation" in text
        # What stays an open sum is in pieces, where devices are spoken of.
        outputs = self.module.OUTPUTS.values() if manual else [(one.shape, None, None) for one in self.wanted]
        outs = [
            jax.make_array_from_single_device_arrays(shape, GSPMDSharding(devices, sharding), shards)
            for (shape, _, _), shards, sharding in zip(outputs, pieces, executable.get_output_shardings(), strict=True)
        ]
        outs = self.module.closed(outs) if manual else outs
        return {"collectives": found if manual else [], "differences": self.module.differences(outs, self.wanted)}


def arguments(given, is_stacked):
    """What a spelled-out module is called with: the weights of one iteration after those of the one before."""
    found = []
    for stacked, group in itertools.groupby(zip(given, is_stacked, strict=True), lambda one: one[1]):
        arrays = [array for array, _ in group]
        found += [one for iteration in zip(*arrays, strict=True) for one in iteration] if stacked else arrays
    return found


def answer(program, path):
    if path.suffix == ".mlir":
        return program.executed(path.read_text())
    if path.name.endswith(".constraints.py"):
        return program.constrained(loaded(path))
    return program.lowered()


def main():
    folder = pathlib.Path(sys.argv[1])
    stems = sorted({path.name.split(".")[0] for path in folder.glob("*.py")})
    for stem in stems:
        program = Program(folder / f"{stem}.py")
        for path in sorted(folder.glob(f"{stem}.*")):
            if path.suffix not in (".py", ".mlir"):
                continue
            try:
                found = answer(program, path)
            except Exception:  # the test tells which module it was
                found = {"error": traceback.format_exc(limit=-6)}
            print(json.dumps({"name": path.name, **found}), flush=True)
        jax.clear_caches()


main()
