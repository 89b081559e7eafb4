"""What a user sees for as long as graphdoc runs a program by itself."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from graphdoc.cli.output import say

if TYPE_CHECKING:
    from rich.live import Live

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
