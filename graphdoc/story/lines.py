"""One rule for lines and capitals: ``line 13`` where the program is one file, and a title begins small."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache

from graphdoc.finding import Finding
from graphdoc.story.wording import begins_small


def in_lines(text: str, files: Collection[str], *, sentence: bool = False) -> str:
    """The text with ``line 13`` for ``train.py:13`` where ``files``, those of the program, are one; ``lines 11 and 12``
    for several. With ``sentence`` the text begins with a capital."""
    names = [file.replace("\\", "/").rsplit("/", 1)[-1] for file in files]
    if len(names) != 1 or f"{names[0]}:" not in text:
        return text

    def called(match: re.Match[str]) -> str:
        numbers = re.findall(r"(?:^|:|, |and )(\d+)", match[0][len(names[0]) :])
        word = "lines" if len(numbers) > 1 else "line"
        before = text[: match.start()]
        begins = before.endswith((". ", "! ", "? ")) or (sentence and not before)
        listed = " and ".join(filter(None, [", ".join(numbers[:-1]), numbers[-1]]))
        return f"{word.capitalize() if begins else word} {listed}"

    return _place(names[0]).sub(called, text)


@lru_cache(maxsize=8)
def _place(name: str) -> re.Pattern[str]:
    """A place in this file, and those behind it in a list; none that stands in code or belongs to a longer path."""
    one = re.escape(name) + r":\d+(?!\d|:\d)"
    return re.compile(rf"(?<![\w/\\.`-]){one}(?:(?:, | and ){one}|, \d+(?=, \d| into\b))*")


def by_the_rules(finding: Finding, files: Collection[str]) -> Finding:
    """The finding with all of its words by the rules for lines and for capitals; ``files`` are those of the program."""
    return replace(
        finding,
        title=begins_small(in_lines(finding.title, files)),
        explanation=in_lines(finding.explanation, files, sentence=True),
        because=in_lines(finding.because, files),
        facts=tuple(in_lines(fact, files) for fact in finding.facts),
        spans=tuple(replace(s, label=in_lines(s.label, files)) for s in finding.spans),
    )
