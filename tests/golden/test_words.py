"""The sentences of the golden reports: short enough to be understood at first reading.

``too_long.txt`` has those that are not yet. It may only get shorter: what is mended leaves it, and nothing comes in.
``GRAPHDOC_BLESS=1`` takes out what is mended.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LIST = HERE / "too_long.txt"
MOST_WORDS = 25
MOST_CHARACTERS = 80
"""Of a title, with ten for each name: how long a name is, its program says."""
NESTED = re.compile(r"\b(?:that|which|whose|who|whom)\b[^,;:()]*\b(?:that|which|whose|who|whom)\b")
"""A relative clause within another one: the reader holds two things before the verb of the first comes."""
NAME = "`…`"
NAMES = re.compile(rf"{NAME}(?: \(N \w+\))?(?:(?:, | and |, and ){NAME}(?: \(N \w+\))?)*")


def kind(sentence: str) -> str:
    """The sentence without what differs from program to program: names, lists of names, numbers."""
    named = re.sub(r"`[^`]*`", NAME, sentence)
    return NAMES.sub(NAME, re.sub(r"\d[\d.,e+#-]*", "N", named))


def sentences(text: str) -> list[str]:
    """What stands between full stops and semicolons."""
    return [part.strip() for part in re.split(r"(?<=[.!?:])\s+(?=[A-Z`])|; |\n", text) if part.strip()]


def texts(report: dict[str, Any]) -> Iterator[str]:
    """All prose of a report but titles."""
    yield from [*report["notes"], *report["left_out"]]
    for told in report["diagnoses"]:
        yield from [told["explanation"], told["because"], *told["facts"]]
        yield from (span["label"] for span in told["spans"])
        for fix in told["fixes"]:
            yield from [fix["title"], fix["note"]]


@cache
def reports() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((HERE / "reports").rglob("*.json"))]


def too_long() -> set[str]:
    """What goes beyond the bounds, one line for each kind of sentence."""
    titles = {kind(told["title"]) for report in reports() for told in report["diagnoses"]}
    said = {kind(one) for report in reports() for text in texts(report) for one in sentences(text)}
    long = {f"title: {one}" for one in titles if len(one.replace(NAME, "x" * 10)) > MOST_CHARACTERS}
    return long | {f"sentence: {one}" for one in said if len(one.split()) > MOST_WORDS}


def test_no_sentence_is_too_long_but_those_that_were() -> None:
    found, known = too_long(), set(LIST.read_text().splitlines())
    assert not found - known, "shorten these: a sentence has at most 25 words, a title at most 80 characters"
    if os.environ.get("GRAPHDOC_BLESS"):
        LIST.write_text("".join(f"{line}\n" for line in sorted(found & known)))
        known &= found
    assert not known - found, "these are mended: take them out (GRAPHDOC_BLESS=1 does)"


def test_no_relative_clause_stands_in_another() -> None:
    said = {kind(one) for report in reports() for text in texts(report) for one in sentences(text)}
    assert not [one for one in said if NESTED.search(one)]


def test_no_report_tells_of_a_fault_of_graphdoc() -> None:
    assert not [note for report in reports() for note in report["notes"] if note.startswith("the recogniser of")]


def test_bounds_are_seen() -> None:
    long = "the loss " * 13
    assert NESTED.search("a step that uses what the call that failed has freed")
    assert not NESTED.search("a step that uses the sum, which the call has freed")
    assert len(kind(long).split()) > MOST_WORDS
    assert kind("`a`, `b` and `net.*` (4 parameters) at version 20") == f"{NAME} at version N"
    assert sentences("One. Two; three: `x` is 1.5 long") == ["One.", "Two", "three:", "`x` is 1.5 long"]
