"""Compares the bytes that XLA's partitioner moves for the models beside this file with those of our plans.

    xla.py BINARY FOLDER [--effort N] [NAME..]

For each model at its real size: compiles it by XLA for 8 forced host devices, counts the bytes that a device receives in
all collectives of the compiled module, loops included, and plans the imported program with `--costs bytes` and with the
default. `least` is the lower bound of the former: its search has excluded all plans with fewer bytes, also with split axes.
Bytes of XLA are those of ideal algorithms: an AllGather of `n` devices receives `(n - 1) / n` of its result.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import check
import models

SIZES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}
COLLECTIVES = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")


def bytes_of(text):
    """Bytes of all arrays in the type of a result."""
    total = 0
    for dtype, dims in re.findall(r"\b(pred|bf16|[suf]\d+)\[([\d,]*)\]", text):
        size = SIZES[dtype]
        for dim in dims.split(","):
            size *= int(dim or 1)
        total += size
    return total


def group_size(line):
    found = re.search(r"replica_groups=\[(\d+),(\d+)\]", line)
    if found:
        return int(found[2])
    found = re.search(r"replica_groups=mesh\[(.*?)\].*? \{(.*?)\}", line)
    if found:
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", found[1]))
        size = 1
        for name, part in re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", found[2]):
            size *= int(part or sizes[name])
        return size
    found = re.search(r"replica_groups=\{\{([\d,]*)\}", line)
    return len(found[1].split(",")) if found else 8


def moved(text):
    """Bytes that a device receives while the module runs once."""
    bodies, name = {}, None
    for line in text.splitlines():
        start = re.match(r"(?:ENTRY )?%?([\w.-]+) \(.*\{$", line)
        if start:
            name = start[1]
            bodies[name] = []
            if line.startswith("ENTRY"):
                entry = name
        elif name and line.startswith("  "):
            bodies[name].append(line)

    def of(name):
        total = 0
        for line in bodies.get(name, []):
            found = re.match(r"\s*(?:ROOT )?%?[\w.-]+ = (.*?) ([\w-]+)\(", line)
            if not found:
                continue
            result, kind = found[1], found[2].removesuffix("-start")
            if kind in COLLECTIVES:
                n, size = group_size(line), bytes_of(result)
                total += {
                    "all-gather": size * (n - 1) / n,
                    "all-reduce": 2 * size * (n - 1) / n,
                    "reduce-scatter": size * (n - 1),
                    "all-to-all": size * (n - 1) / n,
                    "collective-permute": size,
                }[kind]
            times = re.search(r'"known_trip_count":\{"n":"(\d+)"', line)
            for called in re.findall(r"(?:body|to_apply|calls)=%?([\w.-]+)", line):
                total += of(called) * (int(times[1]) if times else 1)
        return total

    return of(entry)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("names", nargs="*", default=[name for name in models.MODELS if name != "operations"])
    arguments.add_argument("--effort", default="1")
    arguments = arguments.parse_args()
    binary, folder = arguments.binary, arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    print("| model | XLA, GB | `--costs bytes`, GB | default, GB | least, GB | XLA / `--costs bytes` | XLA / least |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in arguments.names:
        path = check.module_of(name, "real", folder)[0]
        compiled = models.lowered(name, "real")[0].compile()
        program = folder / f"{name}_real.shard"
        subprocess.run([binary, "import", path, "--on", "tpu_v5p", "-o", program], check=True)
        fewest, least = received(binary, program, "--costs", "bytes", "--effort", arguments.effort)
        fastest, _ = received(binary, program)
        theirs = moved(compiled.as_text())
        figures = " | ".join(f"{figure / 1e9:.4f}" for figure in (theirs, fewest, fastest, least))
        ratios = " | ".join(f"{theirs / bytes:.2f}" if bytes else "-" for bytes in (fewest, least))
        print(f"| {name} | {figures} | {ratios} |", flush=True)


def received(binary, program, *options):
    """Bytes that a device receives in our plan, and the lower bound over all plans."""
    output = subprocess.run([binary, "plan", program, *options, "--format", "json"], capture_output=True, text=True)
    if output.returncode != 0:
        return float("nan"), float("nan")
    plan = json.loads(output.stdout)
    bound = plan["optimal"].get("with_split_axes", plan["optimal"])
    return plan["totals"]["bytes_received_per_device"], bound["lower_bound_received_bytes"]


if __name__ == "__main__":
    main()
