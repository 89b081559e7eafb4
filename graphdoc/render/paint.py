"""Styled rows to a string: plain, or with ANSI colours."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoc.render.underlines import Row

# The 16 colours of every terminal, so that the user's own theme decides what they look like.
STYLES = {
    "": "",
    "code": "",
    "error": "bold bright_red",
    "warning": "bold yellow",
    "strong": "bold",
    "gutter": "bold bright_blue",
    "place": "",
    "primary": "bold bright_red",
    "secondary": "bold bright_blue",
    "note": "bold",
    "help": "bold bright_cyan",
    "verified": "bold green",
    "removed": "red",
    "added": "green",
    "removed-part": "bold red",
    "added-part": "bold green",
}


def plain(row: Row) -> str:
    """The row's text without trailing white space."""
    return "".join(text for text, _ in row).rstrip()


def paint(rows: Sequence[Row], *, color: bool) -> str:
    """All rows, each ended by a newline."""
    if not color:
        return "".join(f"{plain(row)}\n" for row in rows)
    from rich.color import ColorSystem
    from rich.style import Style

    styles = {name: Style.parse(words or "none") for name, words in STYLES.items()}
    lines = []
    for row in rows:
        pieces = [p for p in row if p[0]]
        while pieces and not pieces[-1][0].strip():
            pieces.pop()
        if pieces:
            pieces[-1] = (pieces[-1][0].rstrip(), pieces[-1][1])
        lines.append("".join(styles[s].render(t, color_system=ColorSystem.STANDARD) for t, s in pieces) + "\n")
    return "".join(lines)
