"""Plain text for every format: neutralised control characters, cell widths, wrapping."""

from __future__ import annotations

import re

# What a terminal, a log viewer or a code reader could take for an order instead of a character: C0 and C1 controls,
# line separators, marks that turn the writing direction around, lone surrogates (which no stream can encode), the two
# that XML does not know, a joiner that joins nothing, and the first sign of ``##[error]`` and ``##vso[``, which
# GitHub's and Azure's runners obey wherever in a line they stand (IndexOf in ActionCommand.cs).
_HARMFUL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
    "|\u200d(?![^\x00-\x9f])"
    r"|#(?=#(?:\[|vso\[))"
)
_KEPT = "\t\n"
_NEWLINE = re.compile("\r\n|\r|\n")
# A word is what must stay on one line: quoted code counts as one word, so that a command can be copied.
_WORD = re.compile(r"(?:[^\s`]|`[^`]*`|`)+")


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def neutralise(text: str) -> str:
    """The same text with every control character spelled out (``\\x1b``), tabs and newlines included."""
    return _HARMFUL.sub(_escape, text)


def harmless(text: str) -> str:
    """The same, but newlines and tabs stay: text of several lines, on its way to a terminal or a log."""
    return _HARMFUL.sub(lambda match: match[0] if match[0] in _KEPT else _escape(match), text)


def statement(text: str) -> str:
    """One line that may stand at the beginning of a line of a job's log: GitHub takes ``::`` there for a command."""
    line = flat(text)
    return line.replace("::", "\\x3a:", 1) if line.startswith("::") else line


def shown(line: str, index: int) -> str:
    """What ``neutralise`` makes of one character of a line."""
    match = _HARMFUL.match(line, index)
    return _escape(match) if match else line[index]


def flat(text: str) -> str:
    """One line of harmless text: white space collapsed, control characters spelled out."""
    return neutralise(" ".join(text.split()))


def split_lines(text: str) -> list[str]:
    """Lines as Python's tokenizer counts them; ``str.splitlines`` would also split at form feeds."""
    return _NEWLINE.split(text)


def cells(text: str) -> int:
    """Width in terminal cells of neutralised text; wide characters count 2, combining ones 0."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def wrap(text: str, width: int, first: int | None = None) -> list[str]:
    """Lines of at most ``width`` cells (``first`` for the first one); white space is collapsed, a long word is cut.

    No line after the first starts with ``::``: GitHub's log would take that for a command.
    """
    lines = [""]
    for word in _WORD.findall(flat(text)):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        room = width if first is None or len(lines) > 1 else first
        if cells(joined) <= room:
            lines[-1] = joined
            continue
        lines += _chop(word, min(width, room))
        if not lines[0]:
            del lines[0]
    return [lines[0], *(statement(line) for line in lines[1:])]


def clip(text: str, limit: int) -> str:
    """At most ``limit`` characters, the last three being dots where something was left out."""
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."


def _chop(word: str, width: int) -> list[str]:
    pieces = [""]
    for char in word:
        if pieces[-1] and cells(pieces[-1] + char) > width:
            pieces.append("")
        pieces[-1] += char
    return pieces
