"""``%load_ext graphdoc``: an autograd error in a cell is followed by the diagnosis; ``%graphdoc fix`` mends the cell.

The whole session is observed from the moment at which the extension is loaded (or torch comes, if that is later): what
one cell makes, another one uses. A session cannot be run again, so nothing is tried.
"""

from __future__ import annotations

import atexit
import sys
from types import FrameType
from typing import Any

from graphdoc.capture.places import code_places
from graphdoc.doors.piece import Failed, Pieces, here, tell_cell
from graphdoc.launch import Request

_NAME = "_graphdoc_notebook"
_BODIES = ("<timed exec>", "<timed eval>", "<magic-timeit>")
"""What ``%%time`` and ``%%timeit`` call the code that they compile, in each cell (IPython/core/magics/execution.py)."""
_USAGE = "%graphdoc fix: the last failed cell as the first fix has it; %graphdoc show: its report once more"


def load(shell: Any) -> None:
    """Start observing the session of this IPython shell; a second time does nothing."""
    if getattr(shell, _NAME, None) is None:
        setattr(shell, _NAME, Notebook(shell))


def unload(shell: Any) -> None:
    """Leave the session as it was."""
    notebook = getattr(shell, _NAME, None)
    if notebook is not None:
        notebook.close()
        setattr(shell, _NAME, None)


class Notebook:
    """One session: tells what its cells are called, and looks at how each of them has ended."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.pieces = Pieces(here())
        self.last: Failed | None = None
        self._raw: dict[str, str] = {}
        """What was typed, by what IPython has made of it, where these are not the same."""
        self._bodies: dict[str, tuple[int, str]] = {}
        """Of each cell that a magic runs, by what IPython has made of it: the lines above the code, and the text."""
        self._cell = ""
        """The cell that was met last on the stack."""
        code_places.sessions.append(self)
        shell.events.register("pre_run_cell", self.before)
        shell.events.register("post_run_cell", self.after)
        shell.register_magic_function(self.magic, "line", "graphdoc")
        self.pieces.begin()
        atexit.register(self.pieces.close)

    def close(self) -> None:
        """Observe nothing more."""
        atexit.unregister(self.pieces.close)
        self.shell.events.unregister("pre_run_cell", self.before)
        self.shell.events.unregister("post_run_cell", self.after)
        self.pieces.close()
        code_places.sessions.remove(self)

    def name_of(self, code_name: str) -> str:
        """The cell that a code object comes from, as IPython's own tracebacks call it; empty for all other code."""
        if self.is_body(code_name):
            return self._running() or code_name
        told = self.shell.compile.format_code_name(code_name)
        return str(told[1]) if told else ""

    def _running(self) -> str:
        """The cell that is under way: the next one on the stack, or the last one that was."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            told = self.shell.compile.format_code_name(frame.f_code.co_filename)
            if told:
                self._cell = str(told[1])
                break
            frame = frame.f_back
        return self._cell

    def is_body(self, code_name: str) -> bool:
        """Whether code has the name that a magic gives to what it compiles."""
        return code_name in _BODIES

    def body_of(self, text: str) -> tuple[int, str] | None:
        """For a cell that begins with a magic for time: the lines down to it, and the cell with it as a comment."""
        return self._bodies.get(text.rstrip())

    def before(self, info: Any) -> None:
        """A cell is about to run: remember what was typed, should IPython make something else of it."""
        try:
            made = getattr(info, "transformed_cell", None) or self.shell.transform_cell(info.raw_cell)
            if made.splitlines() != info.raw_cell.splitlines():
                self._raw[made] = info.raw_cell
                self._remember_body(made, info.raw_cell)
        except Exception as e:
            self.pieces.troubles.append(f"{type(e).__name__}: {e}")

    def _remember_body(self, made: str, raw: str) -> None:
        """A cell under ``%%time``: its lines as Python has them, in their places."""
        lines = raw.splitlines()
        at = next((i for i, line in enumerate(lines) if line.strip()), 0)
        if not lines or not lines[at].startswith("%%time"):  # %%timeit as well
            return
        at = (
            next((i for i, line in enumerate(lines) if i > at and line.strip()), at + 1) - 1
        )  # IPython drops blank lines
        body = "\n".join(lines[at + 1 :]) + "\n"
        plain = self.shell.transform_cell(body)
        head = "\n".join(f"# {line}" if line.strip() else "" for line in lines[: at + 1]) + "\n"
        text = head + (plain if len(plain.splitlines()) == len(body.splitlines()) else body)
        self._bodies[made.rstrip()] = (at + 1, text)
        self._raw[text] = raw

    def after(self, result: Any) -> None:
        """A cell has ended, by an exception or without one."""
        try:
            error = result.error_in_exec
            error = error if isinstance(error, Exception) else None
            failed = self.pieces.part_ended(error, Request([], "command", cwd=self.pieces.cwd), tell_cell)
            if failed is not None:
                self.last = failed
                self._show()
        except Exception as e:
            self.pieces.troubles.append(f"{type(e).__name__}: {e}")
        for line in self.pieces.troubles:
            print(f"graphdoc: {line}")
        self.pieces.troubles.clear()

    def magic(self, line: str) -> None:
        """What ``%graphdoc`` does."""
        word = line.strip()
        if word not in ("fix", "show"):
            print(_USAGE)
        elif self.last is None:
            print("graphdoc: no cell has failed by a fault of the graph since the extension was loaded")
        elif word == "show":
            self._show()
        else:
            self._fix(self.last)

    def _show(self) -> None:
        from IPython.display import display

        if self.last is not None:
            told = self.last.told
            shown = {"text/plain": told.text, "text/html": told.html}
            display(shown, raw=True)  # type: ignore[no-untyped-call,unused-ignore]

    def _fix(self, failed: Failed) -> None:
        """Print the mended cells, and offer the last of them as the next input."""
        if not failed.told.cells:
            print(f"graphdoc: there is no patch for a cell here; `graphdoc fix --no-verify {failed.folder}` says more")
            return
        print(f"graphdoc: {failed.told.fix}")
        for name, text in failed.told.cells.items():
            mended = self._as_typed(name, text)
            print(f"# {name}, mended\n{mended}")
            self.shell.set_next_input(mended.rstrip("\n"), replace=False)

    def _as_typed(self, name: str, text: str) -> str:
        """The lines that the fix leaves alone as they were typed: ``%timeit`` and not what IPython has made of it."""
        made = code_places.text_of(name) or ""
        raw = self._raw.get(made, made)
        before, after = made.splitlines(), raw.splitlines()
        if len(before) != len(after):
            return text
        typed = dict(zip(before, after, strict=True))
        return "".join(typed.get(line, line) + "\n" for line in text.splitlines())
