"""A command on a terminal of its own, as somebody sees it who sits there and may press Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

COLUMNS = "100"
LONGEST = 240.0


@dataclass(frozen=True)
class Seen:
    """``status`` is minus the signal's number where one ended it. ``screen`` is all that came, with the codes that take
    lines back; ``out`` what was written to stdout, which is a file."""

    status: int
    screen: str
    out: str

    @property
    def stays(self) -> str:
        """What is left on the screen where lines are taken back: of a terminal's codes those that rich does that by."""
        lines = [""]
        for piece in re.split(r"(\r|\n|\x1b\[[?\d]*[A-Za-z])", self.screen):
            if piece == "\n":
                lines.append("")
            elif piece == "\x1b[1A":
                lines.pop()
            elif piece == "\x1b[2K":
                lines[-1] = ""
            elif not piece.startswith(("\r", "\x1b")):
                lines[-1] += piece
        return "\n".join(lines)


def on_terminal(words: list[str], folder: Path, interrupt_at: bytes = b"", **variables: str) -> Seen:
    """Run ``python -m graphdoc WORDS`` with stderr on a terminal; Ctrl-C is pressed there when ``interrupt_at`` is to
    be read. Nothing of what it has started is alive when this returns, or the test fails."""
    mark = f"SEEN_ON_TERMINAL={folder}"
    out = folder.parent / f"{folder.name}.out"
    away = ("GITHUB", "GRAPHDOC", "CI", "FORCE_COLOR")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(away)}
    environment |= {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": COLUMNS, "OMP_NUM_THREADS": "1", **variables}
    environment |= dict([mark.split("=", 1)])
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.execve(sys.executable, [sys.executable, "-m", "graphdoc", *words], environment)
    screen, pressed, limit = b"", not interrupt_at, time.monotonic() + LONGEST
    while time.monotonic() < limit:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            part = os.read(terminal, 65536)
        except OSError:  # EIO: Linux's way to say that nobody has the other side open
            part = b""
        if not part:
            break
        screen += part
        if not pressed and interrupt_at in screen:
            pressed = True
            os.write(terminal, b"\x03")
    else:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    limit = time.monotonic() + 2
    while (left := _alive(mark)) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not left, f"still alive: {left}"
    return Seen(status, screen.decode(errors="replace"), out.read_text())


def _alive(mark: str) -> list[str]:
    """The processes that have this variable."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
        except OSError:
            continue
    return found
