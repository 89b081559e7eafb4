"""Text and source on their way into HTML: code between backticks, and the words of Python in their colours."""

from __future__ import annotations

import keyword
import tokenize
import warnings
from collections.abc import Iterator, Sequence
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


# What the words of a Python source are, for the page's colours: Python's own tokenizer tells, no parser.

Word = tuple[int, int, str]
"""Of a line: the first character from 0, the last one exclusive, and ``keyword``, ``string``, ``number`` or
``comment``."""

_KINDS = {tokenize.STRING: "string", tokenize.NUMBER: "number", tokenize.COMMENT: "comment"}
_OPENS = {getattr(tokenize, name, -1) for name in ("FSTRING_START", "TSTRING_START")} - {-1}
_CLOSES = {getattr(tokenize, name, -1) for name in ("FSTRING_END", "TSTRING_END")} - {-1}
"""From Python 3.12 on a formatted string is several tokens. It is one here, as before."""


def words(lines: Sequence[str]) -> dict[int, list[Word]]:
    """The coloured words of these lines, by line from 1, in order; up to the first that is no Python."""
    found: dict[int, list[Word]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from 3.12 on the tokenizer warns of escapes that mean nothing
        spans = list(_spans(lines))
    for (line, column), (last, end), kind in spans:
        for number in range(line, last + 1):
            begin = column if number == line else 0
            found.setdefault(number, []).append((begin, end if number == last else len(lines[number - 1]), kind))
    return found


def _spans(lines: Sequence[str]) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    # Half a surrogate raises SystemError in some releases (3.12.1, 3.13.0); what stands for it is as long.
    rest = (line.encode("utf-8", "replace").decode().replace("\0", " ") for line in lines)
    opened: list[tuple[int, int]] = []
    try:
        for token in tokenize.generate_tokens(lambda: next(rest, None) or ""):
            if token.type == tokenize.ERRORTOKEN:
                return
            if token.type in _OPENS:
                opened.append(token.start)
            elif token.type in _CLOSES:
                start = opened.pop()
                if not opened:
                    yield start, token.end, "string"
            elif not opened and token.type in _KINDS:
                yield token.start, token.end, _KINDS[token.type]
            elif not opened and token.type == tokenize.NAME and keyword.iskeyword(token.string):
                yield token.start, token.end, "keyword"
    except (tokenize.TokenError, SyntaxError, ValueError):
        return


def coloured(text: str, words: Sequence[Word], first: int = 0, last: int | None = None) -> str:
    """A part of a line as HTML, each word in a ``span`` of its kind; the words are counted in the line."""
    last = len(text) if last is None else last
    out, at = [], first
    for begin, end, kind in words:
        begin, end = max(begin, at), min(end, last)
        if begin < end:
            out += [escape(text[at:begin]), f"<span class={kind}>{escape(text[begin:end])}</span>"]
            at = end
    return "".join([*out, escape(text[at:last])])
