"""Writing reports, to the files that were asked for, the terminal and GitHub Actions; and the line shown until then."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from graphdoc.documents import read_regular
from graphdoc.errors import UsageError
from graphdoc.project import inside

if TYPE_CHECKING:
    from rich.live import Live

    from graphdoc.model import Report


# Which file a ``--report FORMAT[:FILE]`` goes to, and what it may replace there.

_SOURCES = (".py", ".pyi", ".pyw", ".pyx", ".ipynb")


@dataclass(frozen=True)
class Wanted:
    """One ``--report``: a format, and the file it goes to (None: stderr).

    ``project`` is the folder of the settings that name it, None where the user has typed it himself. Settings may be a
    stranger's: their file lies in that folder, hidden nowhere, and replaces nothing but a report.
    """

    format: str
    file: Path | None = None
    project: Path | None = None

    def refusal(self, sources: Iterable[str] = ()) -> str:
        """Why nothing is written there, or an empty string. ``sources`` are files of the program: what a user types
        himself replaces any file but such a one, and Python's."""
        if self.file is None:
            return ""
        if self.project is not None:
            return _led_out(self.file, self.project) or ("" if _replaceable(self.file) else "graphdoc did not write it")
        same = self.file.suffix in _SOURCES or any(_same(self.file, source) for source in sources)
        return "it is a source file" if same and self.file.is_file() and not _replaceable(self.file) else ""


def parse_reports(values: Sequence[str], project: Path | None = None, sources: Iterable[str] = ()) -> list[Wanted]:
    """Read the values of ``--report``, or those of settings in the folder ``project``.

    Raises:
        UsageError: a format does not exist, the file's folder does not, or a report must not be written there.
    """
    wanted = []
    for value in values:
        name, _, file = value.partition(":")
        check_format(name)
        if "\0" in file or (file and not Path(file).absolute().parent.is_dir()):
            raise UsageError(f"--report {value}: the folder {Path(file).parent} does not exist")
        one = Wanted(name, Path(file) if file else None, project if file else None)
        why = one.refusal(sources)
        if why:
            raise UsageError(f"--report {value}: {file} cannot be written, because {why}")
        wanted.append(one)
    return wanted


def check_format(name: str) -> None:
    """Raises UsageError for a format that does not exist."""
    from graphdoc.render import FORMATS

    if name not in FORMATS:
        raise UsageError(f"unknown report format {name!r}; the formats are {', '.join(FORMATS)}")


def _led_out(file: Path, project: Path) -> str:
    if not inside(file, project):
        return f"it lies outside {project}"
    below = os.path.relpath(os.path.realpath(file), os.path.realpath(project))
    return "a part of its path begins with a dot" if any(p.startswith(".") for p in below.split(os.sep)) else ""


def _replaceable(file: Path) -> bool:
    """Whether there is nothing at this place, an empty file, or a report."""
    from graphdoc.render import HEAD, is_report

    try:
        data = read_regular(file, HEAD)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return not data or is_report(data.decode("utf-8", "replace"))


def _same(file: Path, source: str) -> bool:
    try:
        return os.path.samefile(file, source)
    except (OSError, ValueError):
        return False


# Writing reports: those that were asked for, the terminal's, and GitHub Actions' when we run there.

FORMATS_HELP = "json, sarif, github, gitlab, markdown, html or svg"
REPORT_HELP = f"Write a report as well: {FORMATS_HELP}, to stderr or FILE; may be given several times."


def say(line: str) -> None:
    """One line of our own on stderr."""
    from graphdoc.render.text import flat

    if sys.stderr is not None:  # closed by whoever started us
        put(f"graphdoc: {flat(line)}\n", sys.stderr)


def show(report: Report, fmt: str, stream: TextIO | None, told: Report | None = None) -> None:
    """Write the report to ``stream`` in one format, as wide and as coloured as the stream can take; of one that follows
    ``told`` only what it adds."""
    from graphdoc.render import render
    from graphdoc.render.options import opens_links, terminal_options

    width, color = terminal_options(stream) if stream is not None else (None, False)
    links = stream is not None and opens_links(stream)
    put(render(report, fmt, width=width, color=color, links=links, told=told), stream, styled=color)


def put(text: str, stream: TextIO | None, *, styled: bool = False) -> None:
    """Write text to a stream whose encoding may not know all of its characters.

    All that a terminal would obey is spelled out, but newlines and tabs; ``styled`` text has been through that and has
    our own colours since.

    Raises:
        UsageError: it is stdout, and whoever started us has closed it, or it takes nothing more; a closed stderr takes
            nothing.
    """
    from graphdoc.render.text import harmless

    if stream is None:  # Python has none for a stream that was closed when it started
        if sys.stdout is None and sys.stderr is not None:
            raise UsageError("standard output is closed")
        return
    if not styled:
        text = harmless(text)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    with writing_to(stream):
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()


@contextmanager
def writing_to(stream: TextIO) -> Iterator[None]:
    """While something is written to a stream.

    Raises:
        UsageError: it is stdout and takes nothing more: the disk is full, say.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as e:
        if stream is not sys.stdout:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # the exit flushes once more
        raise UsageError(f"cannot write to standard output: {e.strerror or e}") from e


def write_reports(report: Report, wanted: Sequence[Wanted]) -> None:
    """Write each report that was asked for; one that cannot be written costs a line on stderr, not the others."""
    from graphdoc.files import write_whole
    from graphdoc.render import is_report, render

    for one in wanted:
        if one.file is None:
            show(report, one.format, sys.stderr)
            continue
        why = one.refusal(report.sources)
        if why:
            say(f"cannot write {one.file}: {why}")
            continue
        text = render(report, one.format)
        if text and not is_report(text):  # notes alone: the next run is to know whose file it is
            text = f"graphdoc: no diagnosis\n\n{text}"
        try:
            write_whole(one.file, text.encode("utf-8", "backslashreplace"))
        except OSError as e:
            say(f"cannot write {one.file}: {e.strerror or e}")


def tell_github(report: Report, wanted: Sequence[Wanted]) -> None:
    """On GitHub Actions: annotations in the job's log and the story in its summary."""
    if os.environ.get("GITHUB_ACTIONS") != "true" or (report.observed.complete and not report.diagnoses):
        return
    if not any(one.format == "github" and one.file is None for one in wanted):
        show(report, "github", sys.stderr)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        from graphdoc.render import render

        try:
            with open(summary, "a", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(render(report, "markdown"))
        except OSError as e:
            say(f"cannot write the step summary: {e.strerror or e}")


# What a user sees for as long as graphdoc runs a program by itself.


_PAUSE = 0.1
"""Seconds between two looks at how far a run has come."""


class Waiting:
    """One line on a terminal, with what is run, for how many seconds by now and how far it has come. Elsewhere a line
    of its own for each run, and none for what comes of time. Use as a context manager.

    ``most`` are the seconds that all of it may take.
    """

    def __init__(self, most: float = 0.0) -> None:
        self._began, self._most = 0.0, most
        self._line = ""
        self._how_far: Callable[[], object] = str
        self._live: Live | None = None
        self._looked = 0.0
        self._looking = threading.Lock()

    def __enter__(self) -> Waiting:
        if is_terminal():
            from graphdoc.launch.isolation import Stop

            Stop.waiting = self._tick
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if is_terminal():
            from graphdoc.launch.isolation import Stop

            Stop.waiting = None
        self._clear()

    def announce(self, line: str, how_far: object = "", most: float = 0.0, what: str = "looking closer") -> None:
        """Say in a line of its own what is run, and wait for ``what`` that is; ``str`` of ``how_far`` tells how far it
        has come, and ``most`` are the seconds that it may take."""
        say(line)
        if is_terminal():
            self._began, self._most = 0.0, most
            self.tell(what, how_far.__str__)

    def tell(self, line: str, how_far: Callable[[], object] = str) -> None:
        """What is waited for now; nothing any more where that is empty. ``how_far`` is asked again and again."""
        self._began = self._began or time.monotonic()
        self._line, self._how_far, self._looked = line, how_far, 0.0
        if not line:
            self._clear()
        elif is_terminal():
            self._tick()
        else:
            say(line)

    def _tick(self) -> None:
        """Called many times a second, by each thread that waits for a run."""
        now = time.monotonic()
        if not self._line or now - self._looked < _PAUSE or not self._looking.acquire(blocking=False):
            return
        try:
            self._looked = now
            self._draw(now)
        finally:
            self._looking.release()

    def _draw(self, now: float) -> None:
        from rich.text import Text

        from graphdoc.render.text import flat

        head, colon, rest = flat(self._line).partition(": ")
        most = f" of {self._most:.0f}" if self._most else ""
        far = ", ".join(filter(None, (f"{int(now - self._began)}{most} s", str(self._how_far()))))
        words = f"{head}, {far} (Ctrl-C stops it){colon}{rest}"
        if self._live is None:
            self._live = _begin()
        turning = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if (sys.stderr.encoding or "").lower().startswith("utf") else "-\\|/"
        mark = turning[int(now / _PAUSE) % len(turning)]
        self._live.update(Text(f"{mark} {words}", no_wrap=True, overflow="ellipsis"), refresh=True)

    def _clear(self) -> None:
        with self._looking:
            if self._live is not None:
                self._live.stop()
                self._live = None


def _begin() -> Live:
    """A line at the end of the terminal that goes away when it is stopped."""
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stderr, highlight=False)
    live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
    live.start()
    console.show_cursor(True)  # Ctrl-Z would leave the shell without one
    return live


def is_terminal() -> bool:
    """Whether somebody watches stderr on a terminal that can take a line back; what CI services give out is a log."""
    plain = os.environ.get("CI") or os.environ.get("TERM", "") in ("dumb", "unknown")
    return sys.stderr is not None and sys.stderr.isatty() and not plain
