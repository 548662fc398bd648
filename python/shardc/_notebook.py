"""The cell magic of notebooks, which `%load_ext shardc` loads.

    %%shardc plan --hardware h100
    mesh {X: 4} on tpu_v5p
    ..

`plan` and `time` print what the command prints, `report` shows the page in the notebook; options are those of the command.
"""

from __future__ import annotations

import html
import shlex
import tempfile
from pathlib import Path
from typing import Any

from . import Error, _run

COMMANDS = ("plan", "report", "time")


def register(shell: Any) -> None:
    """Makes `%%shardc` a cell magic of an IPython shell."""
    shell.register_magic_function(shardc, magic_kind="cell", magic_name="shardc")


def shardc(line: str, cell: str) -> None:
    """Runs `shardc plan`, `shardc report` or `shardc time` on the program in a cell."""
    from IPython.core.error import UsageError  # type: ignore[import-not-found]
    from IPython.display import HTML, display  # type: ignore[import-not-found]

    command, *options = shlex.split(line) or [""]
    if command not in COMMANDS:
        raise UsageError(f"usage: %%shardc {'|'.join(COMMANDS)} [OPTIONS]")
    try:
        if command == "report":
            display(HTML(frame(page(cell, options))))
        else:
            print(_run([command, "-", *options], cell), end="")
    except Error as error:
        # Printed as it is, without a traceback.
        raise UsageError(str(error)) from None


def page(program: str, options: list[str]) -> str:
    """The HTML report of a program."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        _run(["report", "-", "-o", str(path), *options], program)
        return path.read_text(encoding="utf-8")


def frame(page: str) -> str:
    """A page in a frame, where its styles and scripts do not touch those of the notebook."""
    return f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: 45em; border: 0"></iframe>'
