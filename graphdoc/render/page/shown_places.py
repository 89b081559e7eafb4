"""Places in the page: the shown lines of the source, and what points at each of them."""

from __future__ import annotations

from graphdoc.model import Report, Span
from graphdoc.render.page.syntax import Word, words
from graphdoc.render.text import flat, split_lines
from graphdoc.shapes import Box

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
