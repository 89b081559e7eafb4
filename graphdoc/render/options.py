"""How wide a stream's terminal is, and whether it wants colour and can open links."""

from __future__ import annotations

import os
from typing import TextIO

from graphdoc.render import DEFAULT_WIDTH, MAX_WIDTH, MIN_WIDTH

_LINKING = frozenset({"iTerm.app", "WezTerm", "ghostty", "Hyper", "Tabby", "rio"})
_LINKING_TERMS = frozenset({"xterm-kitty", "alacritty", "foot", "foot-extra", "wezterm", "xterm-ghostty", "contour"})
_FIRST_VTE = 5000  # GNOME's terminal widget, 0.50
CI_WIDTH = 120  # a job's log has no terminal to measure, and its viewers are wide


def terminal_options(stream: TextIO) -> tuple[int, bool]:
    """``(width, color)`` for a report written to ``stream``.

    ``COLUMNS`` decides the width where it is a number, then the terminal itself; the result lies between 80 and 160
    cells. ``NO_COLOR`` (not empty) beats ``FORCE_COLOR`` (not empty), which beats ``TERM=dumb`` and everything else;
    without them only a terminal gets colour. Never raises for a closed or detached stream.
    """
    tty = _is_terminal(stream)
    return max(MIN_WIDTH, min(MAX_WIDTH, _width(stream, tty))), _color(tty)


def opens_links(stream: TextIO) -> bool:
    """Whether the stream is a terminal that is known to open OSC 8 links; no pipe ever is.

    ``FORCE_HYPERLINK`` (0 or 1, as other programs read it) decides for a terminal. VS Code's needs none: it finds the
    places in the text by itself, and goes to the line, which a link to a file does not promise.
    """
    if not (_is_terminal(stream) and _color(True)):
        return False
    if os.environ.get("FORCE_HYPERLINK"):
        return os.environ["FORCE_HYPERLINK"] != "0"
    if os.environ.get("CI") or os.environ.get("TMUX") or os.environ.get("TERM", "").startswith("screen"):
        return False
    vte = os.environ.get("VTE_VERSION", "")
    return (
        os.environ.get("TERM_PROGRAM", "") in _LINKING
        or os.environ.get("TERM", "") in _LINKING_TERMS
        or any(os.environ.get(name) for name in ("WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM"))
        or (vte.isascii() and vte.isdigit() and int(vte[:9]) >= _FIRST_VTE)
    )


def _width(stream: TextIO, tty: bool) -> int:
    columns = os.environ.get("COLUMNS", "").strip()
    if columns.isascii() and columns.isdigit() and int(columns[:9]) > 0:
        return int(columns[:9])
    if tty:
        try:
            measured = os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError):
            measured = 0
        if measured > 0:  # some pseudo-terminals of CI services say 0
            return measured
    return CI_WIDTH if os.environ.get("CI") else DEFAULT_WIDTH


def _color(tty: bool) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return tty and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # replaced by an object that is no file, or closed
        return False
