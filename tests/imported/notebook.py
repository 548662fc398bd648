"""The cell magic `%%shardc`, in IPython if it is installed, otherwise with the calls that the package makes.

    notebook.py
"""

import contextlib
import io
import sys
import types

try:
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils import capture
except ImportError:
    InteractiveShell = None

PROGRAM = "mesh {X: 4} on tpu_v5p\ndims {I: 64}\nA: bf16[I_X]\nB[I] = A\noutput B\n"
WRONG = PROGRAM.replace("I_X", "I_Q")


class Real:
    """IPython."""

    def __init__(self):
        self.shell = InteractiveShell.instance()
        self.shell.run_line_magic("load_ext", "shardc")

    def run(self, line, cell):
        """What a cell prints and displays, and its error."""
        with capture.capture_output() as captured:
            result = self.shell.run_cell(f"%%shardc {line}\n{cell}")
        pages = "".join(output.data.get("text/html", "") for output in captured.outputs)
        return captured.stdout + pages, str(result.error_in_exec or "")


class Stub:
    """A shell with the calls of IPython that the package makes."""

    def __init__(self):
        self.displayed = []
        error = types.ModuleType("IPython.core.error")
        error.UsageError = type("UsageError", (Exception,), {})
        display = types.ModuleType("IPython.display")
        display.HTML, display.display = str, self.displayed.append
        sys.modules |= {"IPython.core.error": error, "IPython.display": display}
        sys.modules |= {name: types.ModuleType(name) for name in ("IPython", "IPython.core")}
        import shardc

        shardc.load_ipython_extension(self)

    def register_magic_function(self, function, magic_kind, magic_name):
        assert (magic_kind, magic_name) == ("cell", "shardc")
        self.magic = function

    def run(self, line, cell):
        self.displayed.clear()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                self.magic(line, cell)
                error = ""
            except sys.modules["IPython.core.error"].UsageError as raised:
                error = str(raised)
        return printed.getvalue() + "".join(self.displayed), error


def main():
    shell = Real() if InteractiveShell else Stub()
    shown, error = shell.run("plan --hardware h100", PROGRAM)
    assert "AllGather_X" in shown and "h100" in shown and not error, shown + error
    shown, error = shell.run("time", PROGRAM)
    assert "proven" in shown and not error, shown + error
    shown, error = shell.run("report", PROGRAM)
    assert shown.startswith("<iframe") and "&lt;!doctype html&gt;" in shown and not error, shown[:200] + error
    shown, error = shell.run("plan", WRONG)
    assert "unknown-axis" in error, shown + error
    shown, error = shell.run("fly", PROGRAM)
    assert error.startswith("usage: %%shardc plan|report|time"), shown + error
    print("equal")


if __name__ == "__main__":
    main()
