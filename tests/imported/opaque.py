"""Imports operations that the language lacks as kernels, and checks what their declarations say with JAX.

    opaque.py BINARY FOLDER [--every=N | NAME..]

Each case is one operation. Its module is refused without `--opaque`, by a message that names the option, and imported with it; the
program is checked, planned, proven and timed. Then the rule of each kernel is tested: for each dim that the declaration leaves
sharded, the operation on shards of the operands gives the shards of the result, or results that add up to it. For each other dim of
a tensor that the operation knows, it does not. Last, the plan runs on 8 forced devices with the operation as the kernel, and gives
what the operation gives on whole arrays. With `--every=N`, every N-th case runs. Prints one line for each case; the exit code
is 1 if one differs.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

MESH = jax.make_mesh((4, 2), ("X", "Y"), axis_types=(AxisType.Auto,) * 2)
f32, i32, u32 = jnp.float32, jnp.int32, jnp.uint32


def spec(shape, *axes, dtype=f32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, P(*axes)))


def conv(strides, padding, **options):
    return lambda x, w: lax.conv_general_dilated(
        x, w, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options
    )


def pooled(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 1), (1, 2, 1), "VALID")


def pooled_wide(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 1), (1, 2, 1), "SAME")


def argmax(x):
    """The variadic reduction of `jnp.argmax`."""
    return lax.argmax(x, 1, i32)


def rows(table, places):
    """Rows of a table by two of its dims at once."""
    numbers = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0, 1), start_index_map=(0, 1))
    return lax.gather(table, places, numbers, (1, 1, table.shape[2]), mode="clip")


def picked(table, places):
    """Pieces of rows, one for each batch."""
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(1, 2), collapsed_slice_dims=(), start_index_map=(1,), operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
    )
    return lax.gather(table, places[:, None], numbers, (1, 3, table.shape[2]), mode="clip")


def written(table, places, updates):
    """Rows of a table that are replaced."""
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    return lax.scatter(table, places[:, None], updates, numbers, mode="clip")


def batch_written(table, places, updates):
    numbers = lax.ScatterDimensionNumbers((), (1,), (1,), operand_batching_dims=(0,), scatter_indices_batching_dims=(0,))
    return lax.scatter_mul(table, places[:, None], updates, numbers, mode="clip")


def select_and_scatter(x, source):
    """The gradient of a maximum over windows."""
    return jax.vjp(pooled, x)[1](source)[0]


def solved(left_side):
    return lambda a, b: lax.linalg.triangular_solve(a, b, left_side=left_side, lower=True)


def parts(x):
    """Complex numbers as arrays of their real and imaginary parts, as kernels have them."""
    return jnp.stack([jnp.real(x), jnp.imag(x)], -1)


def whole(x):
    return lax.complex(x[..., 0], x[..., 1])


def definite(x):
    """Positive definite matrices."""
    return x @ jnp.swapaxes(x, 1, 2) + 6 * jnp.eye(x.shape[1])


def elementwise(function, *dtypes):
    return Case(function, [spec((8, 16), "X", "Y", dtype=dtype) for dtype in dtypes])


@dataclass
class Case:
    """An operation, or a function of several operations with what their kernels compute."""

    function: Callable[..., Any]
    arguments: list[jax.ShapeDtypeStruct]
    kernels: dict[str, Callable[..., Any]] | None = None
    platform: str | None = None
    """The platform whose modules have the operation, if not all do."""
    is_known: bool = True
    """Whether the import knows the operation, so that each dim that is not sharded must not be."""


SQUARE = [spec((8, 6, 6), "X")]
FFT = dict(
    rfft=lambda x: parts(jnp.fft.rfft(x)),
    fft=lambda x: parts(jnp.fft.fft(whole(x))),
    irfft=lambda x: jnp.fft.irfft(whole(x)),
    real=lambda x: x[..., 0],
    imag=lambda x: x[..., 1],
    complex=lambda x, y: jnp.stack([x, y], -1),
    multiply=lambda x, y: parts(whole(x) * whole(y)),
)

BITS = dict(
    and_=jnp.bitwise_and,
    bitcast=lambda x: lax.bitcast_convert_type(x, f32),
    divide=lax.div,
    erf_inv=lax.erf_inv,
    or_=jnp.bitwise_or,
    remainder=lax.rem,
    shift_left=lax.shift_left,
    shift_right_logical=lax.shift_right_logical,
    xor=jnp.bitwise_xor,
)

CASES = dict(
    sort=Case(lambda x: lax.sort(x, dimension=1), [spec((8, 16), "X", "Y")]),
    sort_first=Case(lambda x: lax.sort(x, dimension=0), [spec((8, 16), "X")]),
    sort_pairs=Case(
        lambda x, y: lax.sort((x, y), dimension=1, num_keys=1), [spec((8, 16), "X", "Y"), spec((8, 16), dtype=i32)]
    ),
    top_k=Case(lambda x: lax.top_k(x, 17), [spec((8, 40), "X", "Y")]),
    convolution=Case(conv((1, 1), "SAME"), [spec((8, 6, 6, 4), "X", None, None, "Y"), spec((3, 3, 4, 8))]),
    convolution_strided=Case(
        conv((2, 1), "VALID"), [spec((8, 9, 6, 4), "X"), spec((3, 2, 4, 8), None, None, None, "Y")]
    ),
    convolution_grouped=Case(
        conv((1, 1), "SAME", feature_group_count=2), [spec((8, 6, 6, 4), "X"), spec((3, 3, 2, 8))]
    ),
    convolution_batches=Case(
        conv((1, 1), "SAME", batch_group_count=2), [spec((8, 6, 6, 4), None, "Y"), spec((3, 3, 4, 6))]
    ),
    rfft=Case(lambda x: jnp.abs(jnp.real(jnp.fft.rfft(x))), [spec((8, 6, 16), "X", "Y")], FFT),
    fft=Case(lambda x: jnp.imag(lax.fft(lax.complex(x, x * x), "FFT", (16,))), [spec((8, 16), "X", "Y")], FFT),
    irfft=Case(
        lambda x: jnp.fft.irfft((1 + 2j) * lax.complex(x, -x).T.reshape(9, 2, 4).transpose(1, 2, 0)), [spec((8, 9), "X")], FFT
    ),
    cholesky=Case(
        lambda x: lax.linalg.cholesky(definite(x), symmetrize_input=False),
        SQUARE,
        dict(cholesky=lambda x: lax.linalg.cholesky(x, symmetrize_input=False)),
        platform="tpu",
    ),
    solve_left=Case(solved(True), [spec((8, 6, 6), "X"), spec((8, 6, 4), "X", None, "Y")], platform="tpu"),
    solve_right=Case(solved(False), [spec((8, 6, 6), "X"), spec((8, 4, 6), "X", "Y")], platform="tpu"),
    custom_call=Case(
        lambda x: lax.linalg.householder_product(x, x[:, 0]),
        SQUARE,
        dict(custom_lapack_sorgqr_ffi=lax.linalg.householder_product),
        is_known=False,
    ),
    argmax=Case(argmax, [spec((8, 16), "X", "Y")], dict(reduce=lambda x, x_0, y, y_0: argmax(x))),
    product=Case(lambda x: x.prod(1), [spec((8, 16), "X", "Y")]),
    pool=Case(pooled, [spec((8, 8, 4), "X", None, "Y")]),
    pool_wide=Case(pooled_wide, [spec((8, 8, 4), "X", None, "Y")]),
    running_log_sum=Case(lambda x: lax.cumlogsumexp(x, 0), [spec((8, 16), "X", "Y")]),
    select_and_scatter=Case(select_and_scatter, [spec((8, 8, 4), "X", None, "Y"), spec((8, 4, 4), "X", None, "Y")]),
    gather=Case(rows, [spec((8, 6, 16), None, None, "Y"), spec((8, 2), "X", dtype=i32)]),
    gather_batched=Case(picked, [spec((8, 6, 16), "X", None, "Y"), spec((8,), "X", dtype=i32)]),
    scatter=Case(written, [spec((8, 16), None, "Y"), spec((4,), "X", dtype=i32), spec((4, 16), "X", "Y")]),
    scatter_batched=Case(batch_written, [spec((8, 6), "X"), spec((8,), "X", dtype=i32), spec((8,), "X")]),
    divide=elementwise(lax.div, i32, i32),
    remainder=elementwise(lax.rem, i32, i32),
    divided_by_number=elementwise(lambda x: lax.div(x, i32(3)), i32),
    shift=elementwise(lax.shift_right_arithmetic, i32, i32),
    popcnt=elementwise(lax.population_count, u32),
    xor=elementwise(lax.bitwise_xor, u32, u32),
    clz=elementwise(lax.clz, i32),
    bitcast=elementwise(lambda x: lax.bitcast_convert_type(x, u32), f32),
    bitcast_wide=Case(lambda x: lax.bitcast_convert_type(x, jnp.uint8), [spec((8, 6), "X", "Y")]),
    floor=elementwise(lax.floor, f32),
    erf=elementwise(lax.erf, f32),
    atan2=elementwise(lax.atan2, f32, f32),
    normal=Case(lambda key: jax.random.normal(key, (8, 16)), [spec((2,), dtype=u32)], BITS),
    floor_divide=Case(lambda x, y: x // 3 + (x - y) % 5 - y, [spec((8, 16), "X", dtype=i32)] * 2, BITS),
    reshape=Case(lambda x: x.reshape(12, 8), [spec((8, 12), "X")], is_known=False),
)


@dataclass
class Kernel:
    """A declaration."""

    name: str
    parameters: list[list[str]]
    result: list[str]
    sharded: list[str]
    number: int
    """Of the result of the operation."""
    numbers: dict[int, float]
    """Operands that are numbers, by their places."""

    @property
    def word(self):
        """The name of the operation."""
        word = re.sub(r"_\d+$", "", self.name)
        return re.sub(r"^op_(.*)", r"\1_", word)

    def filled(self, operands):
        """The operands with those that are numbers."""
        all = list(operands)
        for place, number in sorted(self.numbers.items()):
            all.insert(place, np.asarray(number).astype(operands[0].dtype))
        return all


def kernels_of(text):
    found = []
    lines = re.sub(r",\n\s+", ", ", text).splitlines()
    for above, line in zip(["", *lines], lines):
        declared = re.match(r"kernel (\w+)\((.*)\) -> \w+\[(.*?)\](?:, shard (.*?))?(?:, flops .*)?$", line)
        if declared:
            name, parameters, result, sharded = declared.groups()
            dims = lambda listed: [dim for dim in listed.split(", ") if dim]
            several = re.match(r"# result (\d+) of", above)
            number = int(several[1]) - 1 if several else 0
            parameters = [dims(own) for own in re.findall(r"\w+\[(.*?)\]", parameters)]
            numbers = {int(at) - 1: float(of) for at, of in re.findall(r"operand (\d+) is ([^;]+)", above)}
            found.append(Kernel(name, parameters, dims(result), dims(sharded or ""), number, numbers))
    return found


def shell(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def data_of(argument, name, random):
    if "solve" in name and argument.shape[1] == argument.shape[-1]:
        return np.tril(random.standard_normal(argument.shape) + 4 * np.eye(argument.shape[-1])).astype(np.float32)
    if argument.dtype == i32:
        return random.integers(1, 6, argument.shape).astype(np.int32)
    if argument.dtype == u32:
        return random.integers(0, 2**32, argument.shape, np.uint32)
    return random.standard_normal(argument.shape).astype(np.float32)


def are_equal(one, other):
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    is_float = np.issubdtype(one.dtype, np.floating)
    return np.allclose(one, other, 1e-4, 1e-4 * np.abs(other).max()) if is_float else np.array_equal(one, other)


def on_shards(kernel, function, operands, dim):
    """What the operation gives on shards along a dim, put together."""
    sizes = [shape[own.index(dim)] for own, shape in zip(kernel.parameters, map(np.shape, operands)) if dim in own]
    count = next(count for count in range(2, 100) if sizes[0] % count == 0)
    split = [
        np.split(np.asarray(operand), count, own.index(dim)) if dim in own else [operand] * count
        for own, operand in zip(kernel.parameters, operands)
    ]
    results = [np.asarray(function(*shards)) for shards in zip(*split)]
    return np.concatenate(results, kernel.result.index(dim)) if dim in kernel.result else sum(results[1:], results[0])


def wrong_rule(kernel, function, operands, is_known):
    """What is wrong with the dims that a declaration leaves sharded."""
    dims = dict.fromkeys(dim for own in kernel.parameters for dim in own)
    expected = function(*operands)
    for dim in dims:
        try:
            is_right = are_equal(on_shards(kernel, function, operands, dim), expected)
        except (IndexError, TypeError, ValueError):
            is_right = False
        if is_right != (dim in kernel.sharded) and (is_known or not is_right):
            return f"{dim} of {kernel}: shards are {'right' if is_right else 'wrong'}"
    return None


def compared(binary, folder, name):
    case = CASES[name]
    module, program = folder / f"{name}.mlir", folder / f"{name}.shard"
    traced = jax.jit(case.function).trace(*case.arguments)
    lowered = traced.lower(lowering_platforms=(case.platform,)) if case.platform else traced.lower()
    module.write_text(lowered.as_text(debug_info=True))
    status, output = shell(binary, "import", module)
    if status == 0 or "import-unsupported" not in output or "--opaque" not in output:
        return f"not refused:\n{output}"
    for command in (["import", module, "--opaque", "-o", program], ["check", program], ["plan", program]):
        status, output = shell(binary, *command)
        if status != 0:
            return f"{command[0]}:\n{output}"
    text = program.read_text()
    kernels = kernels_of(text)
    status, output = shell(binary, "time", program)
    claims = [kernel.name for kernel in kernels if f"`{kernel.name}`" not in output]
    if status != 0 or "proven" not in output or "taken as declared" not in output or claims or not kernels:
        return f"not proven: {claims}\n{output}"
    status, output = shell(binary, "run", program)
    if status == 0 or "has no definition to compute its numbers with" not in output:
        return f"run has numbers:\n{output}"

    def of(kernel):
        if case.kernels:
            function = case.kernels[kernel.word]
            return lambda *operands: function(*kernel.filled(operands))
        return lambda *operands: jax.tree.leaves(case.function(*operands))[kernel.number]

    random = np.random.default_rng(0)
    data = [data_of(argument, name, random) for argument in case.arguments]
    plain = [array.reshape([size for size in array.shape if size > 1]) for array in data]
    expected = jax.tree.leaves(jax.jit(case.function)(*data))
    expected = [array.reshape([size for size in array.shape if size > 1]) for array in expected]
    # What the kernels get on whole arrays. The module may turn on numbers of 64 bits.
    seen = {}
    status, source = shell(binary, "export", "--to", "jax", program)
    exported = {}
    exec(compile(source, name, "exec"), exported)
    for kernel in kernels:
        def called(*operands, kernel=kernel, function=of(kernel)):
            seen.setdefault(kernel.name, operands)
            return function(*operands)

        exported["KERNELS"][kernel.name] = called
    inputs = [array.reshape(shape) for array, (shape, *_) in zip(plain, exported["INPUTS"].values(), strict=True)]
    for way in ("dense", "run"):
        got = exported["dense"](*inputs) if way == "dense" else exported["run"](exported["make_mesh"](), *inputs)
        got = [got[name] for name in exported["OUTPUTS"]] if isinstance(got, dict) else got
        got = got if isinstance(got, tuple) else (got,)
        for one, other in zip(got, expected, strict=True):
            if not are_equal(np.asarray(one).reshape(other.shape), other):
                return f"{way} differs\n{text}"
        if way == "dense":
            operands = {name: [np.asarray(operand) for operand in own] for name, own in seen.items()}
    for kernel in kernels:
        wrong = wrong_rule(kernel, of(kernel), operands[kernel.name], case.is_known)
        if wrong is not None:
            return wrong
    return None


def main():
    binary, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    bad = 0
    names = sys.argv[3:]
    if names and names[0].startswith("--every="):
        names = list(CASES)[:: int(names[0].removeprefix("--every="))]
    for name in names or CASES:
        wrong = compared(binary, folder, name)
        jax.config.update("jax_enable_x64", False)
        print(f"{name}: {wrong or 'equal'}", flush=True)
        bad += wrong is not None
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
