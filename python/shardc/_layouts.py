"""Layouts of a plan's arrays as `PartitionSpec`s of the tensors that they are."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jax.sharding import PartitionSpec

from . import Plan


@dataclass(frozen=True)
class Layout:
    """`A[I_X, J]{U_Y}`"""

    dims: tuple[tuple[str, tuple[str, ...]], ...]
    """Each dim with its mesh axes, the major one first."""
    is_open: bool
    """Whether it is an unreduced sum over some axes."""


@dataclass(frozen=True)
class Placed:
    """A named array of a plan."""

    layouts: list[Layout]
    """Those that it has one after the other."""
    operands: list[Layout]
    """Those of the operands of its product."""

    def reduced(self) -> list[Layout]:
        """The first layout that is not an open sum, after the layout of the partial sums if there are any.

        XLA reduces a product to the layout of the partial sums, and then takes a slice: together that is a ReduceScatter.
        """
        whole = next((layout for layout in self.layouts if not layout.is_open), None)
        if whole is None:
            return []
        first = Layout(self.layouts[0].dims, is_open=False)
        return [whole] if first == whole else [first, whole]


def dim_sizes(program: str) -> dict[str, int]:
    """The sizes of the dims that a program declares, `I: 64` and `IJ = I*J`."""
    declared = re.search(r"^dims \{(.*)\}", program, re.MULTILINE)
    text = declared[1] if declared else ""
    sizes = {name: int(size) for name, size in re.findall(r"(\w+): (\d+)", text)}
    products = {name: parts.split("*") for name, parts in re.findall(r"(\w+) = ([\w*]+)", text)}
    return sizes | {name: math.prod(sizes[part] for part in parts) for name, parts in products.items()}


def placed(plan: Plan) -> dict[str, Placed]:
    """The named arrays of a plan."""
    axes = {axis["name"] for axis in plan.document["mesh"]["axes"]}
    arrays: dict[str, Placed] = {}
    for step in plan.steps:
        name, layout = _array(step.result, axes)
        if name not in arrays:
            operands = [_array(text, axes)[1] for text in step.operands] if step.op == "MatMul" else []
            arrays[name] = Placed([], operands)
        arrays[name].layouts.append(layout)
    return arrays


def _array(text: str, axes: Iterable[str]) -> tuple[str, Layout]:
    """`A[I_X, J]{U_Y}`; an array without a name is written as its operation, `mul(A, ..)[I_X, J]`."""
    name, _, rest = text.rpartition("[")
    dims, _, sums = rest.partition("]")
    return name, Layout(tuple(_dim(dim, axes) for dim in re.findall(r"\w+(?:\{.*?\})?", dims)), sums != "")


def _dim(text: str, axes: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """`I`, `I_X`, `I_XY` or `I_{data,model}`"""
    name, _, written = text.partition("_")
    if written.startswith("{"):
        return name, tuple(written.strip("{}").split(","))
    return name, (written,) if written in axes else tuple(written)


def spec_of(layout: Layout, shape: Sequence[int], sizes: Mapping[str, int], axes: Mapping[str, int]) -> PartitionSpec | None:
    """The layout as that of a tensor, each dim of which is one or several dims of the program, or has size 1.

    The dims are those of the tensor in its order, or in any order if all orders of its shape mean the same. Returns `None`
    if the tensor's blocks are not those of a `PartitionSpec`, or not all of one size.
    """
    if any(axis not in axes for _, sharded in layout.dims for axis in sharded):
        return None  # An axis that the plan uses in parts.
    sized = [(sizes[name], sharded) for name, sharded in layout.dims]
    if _grouped(sized, shape) is not None:
        return _spec(sized, shape, axes)
    orders = itertools.permutations(sized) if len(sized) <= 6 else ()
    specs = {_spec(order, shape, axes) for order in orders if _grouped(order, shape) is not None}
    return specs.pop() if len(specs) == 1 else None


Sized = Sequence[tuple[int, tuple[str, ...]]]
"""Sizes of dims with their mesh axes."""


def _grouped(dims: Sized, shape: Sequence[int]) -> Sequence[Sized] | None:
    """The dims of a program that each dim of a tensor is made of, or `None` if their sizes do not fit."""
    rest = list(dims)
    groups: list[Sized] = []
    for size in shape:
        group: list[tuple[int, tuple[str, ...]]] = []
        product = 1
        while product < size and rest:
            product *= rest[0][0]
            group.append(rest.pop(0))
        if product != size:
            return None
        groups.append(group)
    return None if rest else groups


def _spec(dims: Sized, shape: Sequence[int], axes: Mapping[str, int]) -> PartitionSpec | None:
    """The spec of a tensor of dims that fit."""
    entries = []
    for size, group in zip(shape, _grouped(dims, shape) or (), strict=True):
        major, blocks = 1, 1
        for extent, sharded in group:
            # The blocks are contiguous only if all major dims are cut to single elements.
            if sharded and blocks != major:
                return None
            major *= extent
            for axis in sharded:
                blocks *= axes[axis]
        if size % blocks != 0:
            return None
        entry = tuple(axis for _, sharded in group for axis in sharded)
        entries.append(entry if len(entry) > 1 else entry[0] if entry else None)
    return PartitionSpec(*entries)
