"""A piece of a program that runs already, observed and told of by itself: a test, a cell, a block of code.

Nothing is kept from one piece to the next: each has its own journal, and what was made before it is unknown to it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphdoc import capture
from graphdoc.capture.process.ours import chain_of, is_ours, text_of
from graphdoc.launch import Ended, Request, as_environment, recorded, running_program, troubles
from graphdoc.launch.folders import new_run, release, temporary_run
from graphdoc.launch.hook._graphdoc_waiting import Watch, is_awaited, is_executed
from graphdoc.launch.keep import keep
from graphdoc.launch.scratch import make_scratch, remove_scratch, scratch

# The report of a kept run, made by ``python -m graphdoc show`` in a process of its own.


LONGEST = 180.0
"""Seconds that a report may take, with a second run of the program."""


@dataclass(frozen=True)
class Told:
    """``text`` is the report as on a terminal, ``codes`` those of its diagnoses, best first.

    ``place`` is the first place to go to, as ``train.py:12``; ``notes`` what is said of a fault without a diagnosis;
    ``trouble`` a line on why there is no report. For a notebook, ``html`` is the report once more, and ``cells`` the
    new text of each cell that the first fix changes, ``fix`` what it is.
    """

    text: str = ""
    codes: tuple[str, ...] = ()
    place: str = ""
    notes: tuple[str, ...] = ()
    trouble: str = ""
    html: str = ""
    fix: str = ""
    cells: Mapping[str, str] = field(default_factory=dict)


def tell(folder: Path, rerun: bool = False) -> Told:
    """The report of the run in ``folder``. ``rerun`` runs the program once more where that tells more. Never raises."""
    with scratch() as place:
        answer = place / "report.json"
        words = ["show", str(folder), "--report", f"json:{answer}", *(["--rerun"] if rerun else [])]
        text, trouble = ask("graphdoc", words)
        try:
            document = json.loads(answer.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return Told(trouble=trouble or "there is no report")
    return _told(text, document)


def tell_cell(folder: Path, _: bool = False) -> Told:
    """The same for a cell of a notebook, which cannot be run again. Never raises."""
    text, trouble = ask("graphdoc.doors.cells", [str(folder)])
    try:
        answer = json.loads(text)
    except ValueError:
        return Told(trouble=trouble or "there is no report")
    told = _told(answer["text"], answer["report"])
    return replace(told, html=answer["html"], fix=answer["fix"], cells=answer["cells"])


def _told(text: str, document: dict[str, Any]) -> Told:
    diagnoses = document["diagnoses"]
    first = re.search(r"^ *--> (.+:\d+):\d+$", text, re.MULTILINE) if diagnoses else None
    place = first[1] if first is not None else ""
    return Told(text, tuple(d["code"] for d in diagnoses), place, tuple(document["notes"]))


def ask(module: str, words: list[str]) -> tuple[str, str]:
    """What ``python -m MODULE`` says to these words on stdout, and the last line of its stderr if it failed."""
    environment = as_environment(Request(words), None)
    environment.update(NO_COLOR="1", COLUMNS="100", PYTHONIOENCODING="utf-8", PYTHONWARNINGS="ignore")
    # What lies in the user's folder is none of our modules. `graphdoc` itself sees to that, and hands its options on.
    safe = [] if module == "graphdoc" else ["-P"]
    try:
        done = subprocess.run(
            [sys.executable, *safe, "-m", module, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST,
        )
    except (OSError, subprocess.SubprocessError) as e:
        return "", f"no report could be made: {e}"
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return done.stdout.decode("utf-8", "replace"), said[-1] if said and done.returncode else ""


MODE = "observe:nan-off:no-audit"
"""Failures alone: what a run that ends well has silently failed to train shows over a whole run, not in a piece."""

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphdoc.capture.witness import Witness

    Tell = Callable[[Path, bool], Told]


@dataclass(frozen=True)
class Failed:
    """A piece that failed by a fault of the graph: what is said about it, and the folder that its run is kept in."""

    told: Told
    folder: Path


class Pieces:
    """Observes one piece after another, never two at once, and keeps those that failed by a fault of the graph.

    Without torch there is nothing to observe: a piece that imports it is observed from that moment on. Where the whole
    process is observed already (``graphdoc run -m pytest``), nothing is done here.
    """

    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.troubles: list[str] = []
        """Lines about what could not be done; the user's own result stands whatever happens here."""
        self._scratch: Path | None = None
        self._witness: Witness | None = None
        self._open = False
        self._begun = 0.0
        self._held: list[Path] = []

    def begin(self) -> None:
        """Observe what runs from now on as a piece of its own."""
        self.passed()
        self._open, self._begun = True, time.monotonic()
        if is_executed(sys.modules.get("torch")):
            self._observe()
        elif not is_awaited() and not capture.disabled():
            Watch(self._observe, lambda: None, capture.reloaded)

    def passed(self) -> None:
        """The piece is over, and no exception has left it: what was seen is forgotten."""
        witness, self._witness = self._witness, None
        self._open = False
        if witness is not None:
            witness.undo()
            capture.forget()
            self._clear()

    def failed(self, error: BaseException, request: Request, *, rerun: bool, tell: Tell = tell) -> Failed | None:
        """The piece has ended by this exception, whose traceback still has its frames.

        ``request`` starts the piece alone, in a process of its own, for ``graphdoc fix``; with ``rerun`` it is started
        now where a second look tells more. None where the fault is not one of the graph.
        """
        if self._witness is None or not _may_be_the_graphs(error):
            self.passed()
            return None
        witness, self._witness = self._witness, None
        self._open = False
        witness.finish(error)
        capture.forget()
        return self._kept(request, rerun, tell)

    def part_ended(self, error: BaseException | None, request: Request, tell: Tell = tell) -> Failed | None:
        """A part of the piece (a cell) has ended, by this exception if there is one; the piece goes on."""
        if self._witness is None:
            return None
        error = error if error is not None and _may_be_the_graphs(error) else None
        self._witness.went_on(error)
        try:
            return self._kept(request, False, tell) if error is not None else None
        finally:
            self._clear()

    def _kept(self, request: Request, rerun: bool, tell: Tell) -> Failed | None:
        """What is said about the failure that was just seen, and its run kept; None where the graph is not at fault."""
        scratch = self._folder()
        try:
            ended = Ended(1, seconds=time.monotonic() - self._begun)
            ended.evidence, ended.troubles = recorded(scratch), troubles(scratch)
            keep(scratch, request, ended, rerun=rerun).save()
            told = tell(scratch, rerun)
            self.troubles += [line for line in [*ended.troubles, told.trouble] if line]
            if not told.codes and not told.notes:
                return None
            folder = self._place()
            for file in scratch.iterdir():
                shutil.move(file, folder / file.name)
            ended.evidence = recorded(folder)
            keep(folder, request, ended, rerun=rerun).save()
            named = os.path.relpath(folder, self.cwd)  # in the commands of the report
            return Failed(replace(told, text=told.text.replace(str(scratch), named)), folder)
        finally:
            self._clear()

    def _clear(self) -> None:
        """Forget what was left by the piece so far."""
        for file in self._folder().iterdir():
            file.unlink(missing_ok=True)

    def close(self) -> None:
        """No piece follows."""
        self.passed()
        for folder in self._held:
            release(folder)
        if self._scratch is not None:
            remove_scratch(self._scratch)

    def _observe(self) -> None:
        if self._open:
            self._witness = capture.begin(str(self._folder()), MODE)

    def _folder(self) -> Path:
        """Where the piece that runs leaves what was seen: no folder of the user's, for most pieces do not fail."""
        if self._scratch is None or not self._scratch.is_dir():
            self._scratch = make_scratch()
        return self._scratch

    def _place(self) -> Path:
        """The folder of a new run, held until the end; elsewhere if ``.graphdoc`` cannot be made here."""
        try:
            folder = new_run(Path(self.cwd))
            self._held.append(folder)
            return folder
        except OSError as e:
            folder = temporary_run()
            self.troubles.append(f"no run can be kept in {self.cwd} ({e.strerror or e}): it is in {folder}")
            return folder


def _may_be_the_graphs(error: BaseException) -> bool:
    """At a glance, so that no failed assertion waits for a report: autograd's words, or a None where a gradient was."""
    texts = [text_of(e) for e in chain_of(error)]
    return any(map(is_ours, chain_of(error))) or any("grad" in text.lower() or "NoneType" in text for text in texts)


def here() -> str:
    """The working directory; the root of the file system where it has been deleted."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


# A block as a piece, ``with graphdoc.observe():``, for programs that neither ``graphdoc run`` nor GRAPHDOC_OBSERVE can
# reach: a service, an embedded interpreter, a trainer that somebody else starts. The report goes to stderr.


@contextmanager
def observe() -> Iterator[None]:
    """Observe the block. Its exception is not changed; where the process is observed already, nothing is done.

    What the block did not make itself is told of, its places are not known. ``graphdoc fix`` runs the whole program
    again to try a fix, if it was started as a script or a module.
    """
    watching = Pieces(here())
    watching.begin()
    try:
        yield
    except Exception as error:
        tell_failure(watching, error)
        raise
    finally:
        watching.close()


def tell_failure(watching: Pieces, error: BaseException) -> None:
    """Say on stderr what is known of the exception that has ended the piece. Never raises."""
    try:
        kind, words = running_program()
        failed = watching.failed(error, Request(words, kind, cwd=watching.cwd), rerun=False)
        lines = [f"graphdoc: {line}" for line in watching.troubles]
        if failed is not None:
            lines += [failed.told.text.rstrip(), f"graphdoc: kept in {failed.folder}: `graphdoc fix` works on it"]
        if lines and sys.stderr is not None:
            print(*lines, sep="\n", file=sys.stderr)
    except Exception as e:
        if sys.stderr is not None:
            print(f"graphdoc: {type(e).__name__}: {e}", file=sys.stderr)
