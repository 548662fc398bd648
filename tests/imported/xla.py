"""Compares the bytes that XLA's partitioner moves for the models beside this file with those of our plans.

    xla.py BINARY FOLDER [NAME..]

For each model at its real size: compiles it by XLA for 8 forced host devices, counts the bytes that a device receives in
all collectives of the compiled module, loops included, and plans the imported program with `--costs bytes` and with the
default. `fewest` says whether the search of the former has excluded all plans with fewer bytes. Bytes of XLA are those of ideal algorithms: an AllGather of `n` devices receives `(n - 1) / n` of its result.
"""

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
    binary, folder, *names = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    print("| model | XLA, GB | `--costs bytes`, GB | default, GB | XLA / `--costs bytes` | fewest |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for name in names or models.MODELS:
        path = check.module_of(name, "real", folder)[0]
        compiled = models.lowered(name, "real")[0].compile()
        program = folder / f"{name}_real.shard"
        subprocess.run([binary, "import", path, "--on", "tpu_v5p", "-o", program], check=True)
        (fewest, is_proven), (fastest, _) = (received(binary, program, costs) for costs in ("bytes", "exact"))
        theirs = moved(compiled.as_text())
        ratio = f"{theirs / fewest:.2f}" if fewest else "-"
        figures = " | ".join(f"{figure / 1e9:.4f}" for figure in (theirs, fewest, fastest))
        print(f"| {name} | {figures} | {ratio} | {'proven' if is_proven else 'open'} |", flush=True)


def received(binary, program, costs):
    """Bytes that a device receives in our plan, and whether it is proven optimal."""
    output = subprocess.run([binary, "plan", program, "--costs", costs, "--format", "json"], capture_output=True, text=True)
    if output.returncode != 0:
        return float("nan"), False
    plan = json.loads(output.stdout)
    return plan["totals"]["bytes_received_per_device"], plan["optimal"]["proven"]


if __name__ == "__main__":
    main()
