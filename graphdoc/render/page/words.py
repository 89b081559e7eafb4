"""Text of the program's and of ours on its way into HTML: escaped, one line, code between backticks."""

from __future__ import annotations

from html import escape

from graphdoc.render.text import flat


def prose(text: str) -> str:
    """Escaped text in which what stands between backticks is code."""
    parts = escape(flat(text)).split("`")
    if len(parts) % 2 == 0:  # an odd backtick stays what it is
        parts[-2:] = ["`".join(parts[-2:])]
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def element(tag: str, text: str) -> str:
    """The text in an element of its own."""
    return f"<{tag}>{prose(text)}</{tag}>"
