"""``%load_ext graphdoc``: an autograd error in a cell is followed by the diagnosis; ``%graphdoc fix`` mends the cell.

The whole session is observed from the moment at which the extension is loaded (or torch comes, if that is later): what
one cell makes, another one uses. A session cannot be run again, so nothing is tried.
"""

from __future__ import annotations

import atexit
from typing import Any

from graphdoc.capture import cells
from graphdoc.doors.piece import Failed, Pieces, here
from graphdoc.doors.telling import tell_cell
from graphdoc.launch import Request

_NAME = "_graphdoc_notebook"
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
        cells.called.append(self.name_of)
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
        cells.called.remove(self.name_of)

    def name_of(self, code_name: str) -> str:
        """The cell that a code object comes from, as IPython's own tracebacks call it; empty for all other code."""
        told = self.shell.compile.format_code_name(code_name)
        return str(told[1]) if told else ""

    def before(self, info: Any) -> None:
        """A cell is about to run: remember what was typed, should IPython make something else of it."""
        try:
            made = getattr(info, "transformed_cell", None) or self.shell.transform_cell(info.raw_cell)
            if made.splitlines() != info.raw_cell.splitlines():
                self._raw[made] = info.raw_cell
        except Exception as e:
            self.pieces.troubles.append(f"{type(e).__name__}: {e}")

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
        made = cells.text_of(name) or ""
        raw = self._raw.get(made, made)
        before, after = made.splitlines(), raw.splitlines()
        if len(before) != len(after):
            return text
        typed = dict(zip(before, after, strict=True))
        return "".join(typed.get(line, line) + "\n" for line in text.splitlines())
