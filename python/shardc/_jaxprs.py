"""Rewrites jaxprs: names equations so that the arrays of an imported program have these names, and constrains layouts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn
from jax.sharding import Sharding

Numbered = list[tuple[int, Any]]
"""The equations of one jaxpr with their numbers; those in loops, branches and calls are counted, too."""


def rewritten(closed: ClosedJaxpr, rewrite: Callable[[Numbered], list[JaxprEqn]]) -> ClosedJaxpr:
    """The jaxpr with the equations that `rewrite` makes of its own ones, and of those of each jaxpr inside of it."""
    made: ClosedJaxpr = _rewritten(closed, rewrite, itertools.count())
    return made


def _rewritten(value: Any, rewrite: Callable[[Numbered], list[JaxprEqn]], numbers: Iterator[int]) -> Any:
    """A parameter of an equation with the jaxprs in it rewritten."""
    # Newer versions of JAX have one class for both.
    if isinstance(value, ClosedJaxpr) and value.jaxpr is not value:
        return value.replace(jaxpr=_rewritten(value.jaxpr, rewrite, numbers))
    if isinstance(value, (tuple, list)) and any(isinstance(item, (ClosedJaxpr, Jaxpr)) for item in value):
        return type(value)(_rewritten(item, rewrite, numbers) for item in value)
    if not isinstance(value, Jaxpr):
        return value
    equations: Numbered = []
    for equation in value.eqns:
        number = next(numbers)
        params = {name: _rewritten(param, rewrite, numbers) for name, param in equation.params.items()}
        equations.append((number, equation.replace(params=params)))
    return value.replace(eqns=rewrite(equations))


def name_of(number: int) -> str:
    """The name of the array that is the result of an equation."""
    return f"eqn{number}"


def named(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with each equation in a scope of its own, from which an imported program takes the name of its array."""

    def rename(equations: Numbered) -> list[JaxprEqn]:
        scopes = ((equation, source_info_util.new_name_stack(name_of(number))) for number, equation in equations)
        return [equation.replace(source_info=equation.source_info.replace(name_stack=scope)) for equation, scope in scopes]

    return rewritten(closed, rename)


def constrained(equation: JaxprEqn, operands: Mapping[int, Sharding], results: Sequence[Sharding]) -> list[JaxprEqn]:
    """An equation with operands constrained, by their numbers, and its only result constrained one time after the other."""
    before: list[JaxprEqn] = []
    after: list[JaxprEqn] = []
    variables = list(equation.invars)
    for number, sharding in operands.items():
        added, _, variable = _constraint(variables[number], sharding)
        before.append(added.replace(invars=[variables[number]], source_info=equation.source_info))
        variables[number] = variable
    equation = equation.replace(invars=variables)
    result = equation.outvars
    for sharding in reversed(results):
        added, variable, _ = _constraint(result[0], sharding)
        after.insert(0, added.replace(outvars=result, source_info=equation.source_info))
        result = [variable]
    return [*before, equation.replace(outvars=result), *after]


def _constraint(like: Any, sharding: Sharding) -> tuple[JaxprEqn, Any, Any]:
    """An equation that constrains a variable, with new variables of the type of `like` as its operand and its result."""
    # A new function each time: traces of the same one share their variables.
    traced = jax.make_jaxpr(lambda x: jax.lax.with_sharding_constraint(x, sharding))(like.aval).jaxpr
    return traced.eqns[0], traced.invars[0], traced.outvars[0]


def place_of(equation: JaxprEqn) -> str:
    """The place of the source that an equation comes from: `model.py:12`."""
    place = source_info_util.summarize(equation.source_info).split(" ")[0]
    path, _, position = place.partition(":")
    return f"{path.rsplit('/', 1)[-1]}:{position.split(':')[0]}" if position else "?"
