"""Compares model programs with their NumPy references.

    check.py BINARY [NAME..]

For each NAME.shard beside this file: makes seeded inputs, runs `BINARY check` and `BINARY run`, and compares every
saved output with `reference.NAME`. Prints one line per program; the exit code is 1 if one differs.
"""

import re
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import float8
import reference

HERE = Path(__file__).parent

# Relative and absolute tolerance of each dtype; the absolute one is scaled by the largest expected element.
TOLERANCE = {"float64": (1e-9, 1e-10), "float32": (2e-4, 2e-5), "float16": (2e-2, 4e-3), "bfloat16": (2e-2, 6e-3)}
NUMPY = {"f64": "f8", "f32": "f4", "f16": "f2", "bool": "?"}
NUMPY |= {f"{kind}{8 * size}": f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)}
# 4-bit integers have a byte each in files.
NUMPY |= {"i4": "i1", "u4": "u1"}


def read_bf16(array):
    return (array.view("u2").astype("u4") << 16).view("f4")


def write_bf16(array):
    bits = np.ascontiguousarray(array, "f4").view("u4").astype("u8")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")


def write(array, dtype):
    """An array as it is stored."""
    if dtype == "bf16":
        return write_bf16(array)
    return float8.encode(array, dtype) if dtype in float8.FORMATS else array.astype(NUMPY[dtype])


def read(array, dtype):
    if dtype == "bf16":
        return read_bf16(array)
    return float8.decode(array, dtype) if dtype in float8.FORMATS else array


def read_sizes(source):
    """Returns the size of each dim, in the order of declaration."""
    sizes = {}
    for block in re.findall(r"dims\s*\{(.*?)\}", source, re.S):
        for item in re.split(r"[,\n]", re.sub(r"#.*", "", block)):
            if not item.strip():
                continue
            name, value = re.split(r"[:=]", item, maxsplit=1)
            value = re.sub(r"\b(\d+)k\b", r"(\1*1024)", value).replace("/", "//")
            sizes[name.strip()] = eval(value, {}, sizes)
    return sizes


def shape_of(dims, sizes):
    """Returns the shape that `B_X, S, 4_Y` stands for."""
    shape = []
    for dim in re.split(r",\s*(?![^{]*\})", dims) if dims.strip() else []:
        known = [d for d in sizes if dim.strip() == d or dim.strip().startswith(d + "_")]
        shape.append(sizes[max(known, key=len)] if known else int(dim.split("_")[0]))
    return tuple(shape)


def read_inputs(source, sizes):
    """Returns dtype and shape of each input; an input of a `repeat` has a name for each iteration, `W`, `W.2`, .."""
    inputs = {}
    counts = []
    for line in source.splitlines():
        line = line.split("#")[0]
        repeat = re.match(r"\s*repeat (\w+)", line)
        if repeat:
            counts.append(sizes.get(repeat[1]) or int(repeat[1]))
        elif line.strip() == "}" and counts:
            counts.pop()
        found = re.match(r"\s*([\w']+)\s*:\s*(bool|bf16|f8e\dm\d|[fiu]\d+)\[(.*?)\](?!\s*=)", line)
        if not found or re.search(r"\]\S*\s*=", line):
            continue
        name, dtype, dims = found.groups()
        shape = shape_of(dims, sizes)
        # The iterations of inner bodies are spelled out first, `x.1`, `x.2`; those of the outermost are `x`, `x.2`.
        names = [name]
        for count in reversed(counts[1:]):
            names = [f"{n}.{k}" for k in range(1, count + 1) for n in names]
        for iteration in range(counts[0] if counts else 1):
            for n in names:
                inputs[n if iteration == 0 else f"{n}.{iteration + 1}"] = (dtype, shape)
    return inputs


def make_inputs(name, signature, sizes):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    special = reference.INPUTS.get(name, {})
    inputs = {}
    for key, (dtype, shape) in signature.items():
        if key.split(".")[0] in special:
            value = np.asarray(special[key.split(".")[0]](rng, shape, SimpleNamespace(**sizes), inputs))
        elif dtype == "bool":
            value = rng.random(shape) < 0.5
        elif dtype.startswith("i"):
            value = rng.integers(-8, 9, shape)
        elif dtype.startswith("u"):
            value = rng.integers(0, 17, shape)
        else:
            value = rng.standard_normal(shape) * (0.3 if len(shape) > 1 else 1.0)
        assert value.shape == shape, f"input {key}: expected {shape}, got {value.shape}"
        inputs[key] = read(write(value, dtype), dtype)
    return inputs


def call(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def check(binary, name):
    file = HERE / f"{name}.shard"
    source = file.read_text()
    sizes = read_sizes(source)
    # A dim of several, `N = K*G`, is stored as its parts.
    merged = re.search(r"dims\s*\{[^}]*=", source)
    signature = read_inputs(source, sizes)
    code, out, err = call(binary, "check", file)
    if code:
        return f"check fails\n{out}{err}"
    code, program, err = call(binary, "compile", file, "--emit", "program")
    parts = dict(re.findall(r"^\s*%\d+ (\S+): \w+\[(.*?)\].* = (?:donated )?input", program, re.M))
    parts = {key.split(".")[0]: dims for key, dims in parts.items()}
    declared = sorted(parts)
    found = sorted({key.split(".")[0] for key in signature})
    if declared != found:
        return f"the program has the inputs {declared}, found {found}"
    inputs = make_inputs(name, signature, sizes)
    expected = getattr(reference, name)({k: v.copy() for k, v in inputs.items()}, SimpleNamespace(**sizes))
    outputs = len(re.findall(r"^output (.*)$", program, re.M)[-1].split())
    if outputs != len(expected):
        return f"the program has {outputs} outputs, the reference {len(expected)}"
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        arguments = []
        for key, value in inputs.items():
            data = write(value, signature[key][0])
            data = data.reshape(shape_of(parts[key.split(".")[0]], sizes))
            np.save(folder / f"in_{key}.npy", data)
            arguments += ["--input", f"{key}={folder}/in_{key}.npy"]
        for key in expected:
            arguments += ["--save", f"{key}={folder}/out_{key}.npy"]
        code, out, err = call(binary, "run", file, *arguments)
        if code:
            return f"run fails\n{out}{err}"
        if "proven" not in out:
            return f"not proven\n{out}{err}"
        worst = 0.0
        for key, want in expected.items():
            got = np.load(folder / f"out_{key}.npy")
            want = np.asarray(want)
            kind = got.dtype.name
            if got.dtype.kind == "V":
                got, kind = read_bf16(got), "bfloat16"
            if got.size == want.size and merged:
                got = got.reshape(want.shape)
            if got.shape != want.shape:
                return f"{key}: shape {got.shape}, the reference has {want.shape}"
            if kind not in TOLERANCE:
                if not np.array_equal(got, want):
                    return f"{key}: {np.count_nonzero(got != want)} of {got.size} elements differ"
                continue
            relative, absolute = TOLERANCE[reference.PRECISION.get(name, kind)]
            finite = np.isfinite(want)
            scale = max(1e-30, np.abs(want[finite]).max(initial=0))
            if not np.allclose(got, want, rtol=relative, atol=absolute * scale, equal_nan=True):
                wrong = ~np.isclose(got, want, rtol=relative, atol=absolute * scale, equal_nan=True)
                where = tuple(int(i) for i in np.argwhere(wrong)[0])
                return (f"{key}: {np.count_nonzero(wrong)} of {got.size} elements differ; at {where} "
                        f"{got[where]} instead of {want[where]}")
            worst = max(worst, float(np.abs(got[finite].astype("f8") - want[finite]).max(initial=0) / scale))
    return worst


def main():
    binary = Path(sys.argv[1]).resolve()
    names = sys.argv[2:] or sorted(p.stem for p in HERE.glob("*.shard"))
    failed = []
    for name in names:
        start = time.time()
        try:
            result = check(binary, name)
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
        took = time.time() - start
        if isinstance(result, float):
            print(f"ok    {name}: max relative error {result:.1e}, {took:.2f} s", flush=True)
        else:
            failed.append(name)
            print(f"FAIL  {name}: {result}", flush=True)
    print(f"{len(names) - len(failed)} of {len(names)} programs agree with their references")
    if failed:
        print("failed:", " ".join(failed))
    sys.exit(bool(failed))


main()
