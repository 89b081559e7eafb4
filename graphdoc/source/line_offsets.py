"""A file's text as lines: offsets, line ends, indentation."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter

# Python ends a line at these three and at nothing else (str.splitlines also splits at form feeds and U+2028).
_LINE_END = re.compile(r"\r\n|\n|\r")


class Lines:
    """The lines of a text without byte order mark; all offsets in characters from 0, lines from 1."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        self._ends: list[int] = []
        counts: Counter[str] = Counter()
        for match in _LINE_END.finditer(text):
            self.starts.append(match.end())
            self._ends.append(match.start())
            counts[match.group()] += 1
        self._ends.append(len(text))
        self.newline = counts.most_common(1)[0][0] if counts else "\n"

    def __len__(self) -> int:
        return len(self.starts)

    def line_of(self, offset: int) -> int:
        return bisect_right(self.starts, offset)

    def start(self, line: int) -> int:
        return self.starts[line - 1]

    def end(self, line: int) -> int:
        """The offset behind the last character of a line, before its line end."""
        return self._ends[line - 1]

    def content(self, line: int) -> str:
        return self.text[self.start(line) : self.end(line)]

    def after(self, line: int) -> int:
        """The offset where the next line starts, or the end of the text."""
        return self.starts[line] if line < len(self.starts) else len(self.text)

    def offset(self, line: int, column: int) -> int | None:
        """The offset of a character, from line and column counted from 1; None where there is no such place."""
        if not 1 <= line <= len(self.starts) or column < 1:
            return None
        at = self.start(line) + column - 1
        return at if at <= self.end(line) else None

    def from_bytes(self, line: int, column: int) -> int:
        """The offset for the parser's position: ``column`` counts UTF-8 bytes from 0."""
        content = self.content(line)
        if not content.isascii():
            column = len(content.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))
        return self.start(line) + column

    def to_bytes(self, line: int, column: int) -> int:
        """UTF-8 bytes from 0 for a column in characters from 1."""
        head = self.content(line)[: column - 1]
        return column - 1 if head.isascii() else len(head.encode("utf-8", "surrogatepass"))
