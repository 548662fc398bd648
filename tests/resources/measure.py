"""Measures the memory and time of each command on the programs of the repository.

    measure.py BINARY [FOLDER..]

Runs each command on all programs under the folders (`examples` and `tests/models` by default), and prints one row for each
command: how many programs it accepts, the most memory that a process held, the most that it held for each byte printed beyond
64 MB, the most processor time, and the program of each of these.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / "examples", ROOT / "tests/models"]
COMMANDS = [
    "check", "fmt --check", "plan", "plan --alternatives", "plan --format json", "plan --costs bytes", "show",
    "compile --emit schedule", "compile --emit schedule --format json", "report --output page.html", "time", "run",
    "export --to trace", "export --to timeline", "export --to schedule-dot", "export --to jax", "export --to stablehlo",
    "export --to jax-constraints",
]
# What a process holds before it prints, and the output from which its memory is compared with it.
BASE, LARGE = 64e6, 1e6


def measured(binary, command, program, folder):
    """Whether it succeeds, and its memory, output and processor seconds."""
    out = folder / "out"
    with open(out, "wb") as file:
        words = [binary, *command.split(), str(program)]
        process = subprocess.Popen(words, stdout=file, stderr=subprocess.DEVNULL, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
    printed = sum(path.stat().st_size for path in folder.iterdir())
    for path in folder.iterdir():
        path.unlink()
    return status == 0, usage.ru_maxrss * 1024, printed, usage.ru_utime + usage.ru_stime


def main():
    binary, *folders = sys.argv[1:]
    programs = sorted(path for folder in map(Path, folders or FOLDERS) for path in folder.resolve().rglob("*.shard"))
    print("| command | programs | memory, MB | of | memory per byte beyond 64 MB | seconds | of |")
    print("| --- | ---: | ---: | --- | ---: | ---: | --- |")
    for command in COMMANDS:
        rows = []
        for program in programs:
            with tempfile.TemporaryDirectory() as folder:
                succeeds, *figures = measured(str(Path(binary).resolve()), command, program, Path(folder))
            if succeeds:
                rows.append((program.stem, *figures))
        if not rows:
            print(f"| `{command}` | 0 | | | | | |")
            continue
        heaviest, longest = max(rows, key=lambda row: row[1]), max(rows, key=lambda row: row[3])
        multiples = [max(memory - BASE, 0) / printed for _, memory, printed, _ in rows if printed > LARGE]
        shown = f"{max(multiples):.1f}" if multiples else "-"
        figures = f"{heaviest[1] / 1e6:.0f} | {heaviest[0]} | {shown} | {longest[3]:.2f} | {longest[0]}"
        print(f"| `{command}` | {len(rows)} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
