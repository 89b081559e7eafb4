"""Which cuts of a patched program are the patch's own: those on lines, and in words, that the file does not have."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from graphdoc.capture.events.cut_records import frames_of_place

if TYPE_CHECKING:
    from graphdoc.capture.events.cut_records import Record
    from graphdoc.capture.whatif import WhatIf
    from graphdoc.evidence import Frame

_CUTS = ("detach", "no_grad", "inference_mode", "set_grad_enabled")
"""Words of which one may stand for another: what an author cuts off in one way, a patch may in another."""


class PatchedLines:
    """Empty where the program runs as it is on disk. A line that was only moved or indented is the program's."""

    def __init__(self, probe: WhatIf) -> None:
        self._probe = probe
        self._texts: dict[str, tuple[str, str]] = {}
        self._lines: dict[str, set[int]] = {}
        for path, old, new in _patches(probe.witness.out):
            known = Counter(line.strip() for line in old.splitlines())
            known.subtract(line.strip() for line in new.splitlines())
            lines = {number for number, line in enumerate(new.splitlines(), 1) if known[line.strip()] < 0}
            self._texts[path], self._lines[path] = (old, new), lines

    def places(self, found: dict[Any, Any]) -> list[Any]:
        """Of these places those at which the patch takes something out of the graph."""
        return [place for place, records in found.items() if self._lines and self._is_own(records[0])]

    def has(self, frames: list[Frame], word: str = "") -> bool:
        """Whether the user's innermost line is the patch's, which has such a word in more places than the file has."""
        own = next((f for f in reversed(frames) if f.user), None)
        path = os.path.realpath(os.path.join(self._probe.witness.cwd, own.file)) if own is not None else ""
        if own is None or max(own.line, own.end_line) not in self._lines.get(path, ()):
            return False
        old, new = self._texts[path]
        alike = _CUTS if word in _CUTS else (word,)
        return not word or sum(new.count(w) - old.count(w) for w in alike) > 0

    def _is_own(self, record: Record) -> bool:
        if not record.recording and record.switch is not None:
            return self.has(frames_of_place(record.switch, self._probe.witness.cwd), record.switch[0])
        return self.has(self._probe.frames(record.raw), record.op.strip("_"))


def _patches(out: str) -> Any:
    """The patched files: path, the text on disk, the text that runs."""
    try:
        with open(os.path.join(out, "patches.json"), encoding="utf-8") as file:
            patches = json.load(file)
        for path, text in patches.items():
            with open(path, encoding="utf-8", errors="replace") as file:
                yield os.path.realpath(path), file.read(), text
    except (OSError, ValueError):
        return
