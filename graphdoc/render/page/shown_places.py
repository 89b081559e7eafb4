"""Places in the page: the shown lines of the source, and what points at each of them."""

from __future__ import annotations

import keyword
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from html import escape

from graphdoc.model import Report, Span
from graphdoc.render.text import flat, split_lines
from graphdoc.shapes import Box

# Text and source on their way into HTML: code between backticks, and the words of Python in their colours.


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


NEAR = 2
"""Lines shown above and below a place."""
MOST_LINES = 400
"""Lines of source in one page."""


class Places:
    """Which lines of which files a page shows, and the anchors of both ends of each link."""

    def __init__(self, report: Report) -> None:
        self._texts: dict[str, list[str]] = {f: split_lines(t) for f, t in report.sources.items()}
        self.spans: dict[tuple[str, int], list[Span]] = {}
        self.boxes: dict[tuple[str, int], list[Box]] = {}
        self.moments: dict[tuple[str, int], list[int]] = {}
        for diagnosis in report.diagnoses:
            for span in diagnosis.spans:
                self.spans.setdefault((span.file, span.line), []).append(span)
        for box in report.picture.boxes:
            self.boxes.setdefault((box.file, box.line), []).append(box)
        for number, moment in enumerate(report.picture.moments):
            self.moments.setdefault((moment.file, moment.line), []).append(number)
        places = [*self.spans, *self.boxes, *self.moments]
        self.files = [f for f in dict.fromkeys(file for file, _ in places) if f in self._texts]
        self._shown = self._windows(places)
        self._words = {f: words([f"{t}\n" for t in self._texts[f][: n[-1]]]) for f, n in self._shown.items() if n}

    def _windows(self, places: list[tuple[str, int]]) -> dict[str, list[int]]:
        shown: dict[str, set[int]] = {}
        count = 0
        for file, line in places:
            lines = self._texts.get(file, [])
            if not 0 < line <= len(lines) or count > MOST_LINES:
                continue
            here = shown.setdefault(file, set())
            count -= len(here)
            here.update(range(max(1, line - NEAR), min(len(lines), line + NEAR) + 1))
            count += len(here)
        return {file: sorted(lines) for file, lines in shown.items()}

    def shown(self, file: str) -> list[int]:
        """The lines of a file that the page shows, in order."""
        return self._shown.get(file, [])

    def text(self, file: str, line: int) -> str:
        """The text of a line; empty where it is not known."""
        lines = self._texts.get(file, [])
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def words(self, file: str, line: int) -> list[Word]:
        """The words of a line that the page shows in colour."""
        return self._words.get(file, {}).get(line, [])

    def anchor(self, file: str, line: int) -> str:
        """The id of a line that the page shows; empty for one that it does not."""
        return f"s{self.files.index(file)}-{line}" if line in self._shown.get(file, ()) else ""

    def name(self, file: str, line: int) -> str:
        """``line 12``, with the file's last name where several files are shown."""
        if not line:
            return ""
        if len(self.files) < 2:
            return f"line {line}"
        return f"{flat(file.replace(chr(92), '/').rpartition('/')[2])}:{line}"


def box_id(box: Box) -> str:
    """The id of a box."""
    return f"b{box.id}"


def moment_id(number: int) -> str:
    """The id of a call in the list of calls."""
    return f"m{number}"


def hue(optimizers: tuple[tuple[int, str], ...], ident: int) -> int:
    """The number of an optimizer's colour: 1 to 6, and 0 for none."""
    order = [i for i, _ in optimizers]
    return order.index(ident) % 6 + 1 if ident in order else 0
