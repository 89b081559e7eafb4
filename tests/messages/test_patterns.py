"""The data beside the code: complete, well formed, and no pattern that a hostile text can hang."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from graphdoc.causes import all_causes
from graphdoc.messages.recognise import (
    Entry,
    by_word,
    compiled,
    entries,
    recognise,
    recognise_exception,
    wordings,
)

GROUPS = (
    "second-backward",
    "inplace",
    "no-grad",
    "higher-order",
    "misuse",
    "nonfinite",
    "distributed",
    "checkpoint",
    "compile",
    "other",
)


def test_each_entry_is_complete_and_recognised() -> None:
    for entry in entries():
        check(entry)


def check(entry: Entry) -> None:
    assert entry.kind in ("error", "warning")
    assert entry.group in GROUPS
    assert entry.exception and entry.family and entry.example
    assert entry.means.endswith(".") and "?" not in entry.means, "one plain sentence, never a question"
    assert "retain_graph=True" not in entry.means.split(".")[0].replace("`retain_graph=True` or", "")
    for wording in entry.wordings:
        assert len(wording.anchor) >= 10, f"nothing to look for in {wording.pattern!r}"
        assert wording.example
    matches = recognise(entry.example)
    assert entry.id in {m.id for m in matches} | {other for m in matches for other in m.also}
    for wording in entry.wordings:
        matches = recognise(wording.example)
        families = {m.family for m in matches}
        # Two entries can have the very same words; the first one of the file speaks for both.
        assert entry.family in families or any(entry.id in m.also for m in matches), wording.example
    assert recognise_exception(entry.exception, entry.example) is not None


def test_ids_are_unique() -> None:
    ids = [e.id for e in entries()]
    assert len(ids) == len(set(ids))
    assert len(ids) > 720


def test_the_causes_named_here_exist() -> None:
    """A slug that is written wrongly would never be found. Those of GD6 to GD8 may still be missing."""
    later = {
        "exploding-gradients",
        "parameters-never-reached",
        "gradient-leaks-into-target",
        "grad-aliased",
        "graph-grows",
        "zero-grad-missing",
        "step-missing",
        "optimizer-holds-stale-parameters",
        "stale-parameter-unseen",
        "straight-through-cancels",
    }
    later_kinds = ("nan-", "ddp-", "checkpoint-", "compile-")
    slugs = {cause.slug for cause in all_causes()}
    named = {slug for e in entries() for slug in e.causes if not slug.startswith(later_kinds)}
    assert named - later <= slugs


def test_every_repetition_is_bounded() -> None:
    outside_classes = re.compile(r"\[(?:\\.|[^\]\\])*\]|\\.")
    for entry, wording in wordings():
        bare = outside_classes.sub("x", wording.pattern)
        assert not re.search(r"[+*]", bare), f"{entry.id}: {wording.pattern}"
        assert not re.search(r",\}", bare), f"{entry.id}: {wording.pattern}"
        for tight in (False, True):
            compiled(wording.pattern, tight)


def test_every_wording_can_be_reached_by_its_word() -> None:
    index = by_word()
    assert sorted(i for found in index.values() for i in found) == list(range(len(wordings())))
    assert len(index.get("", ())) < 25, "too many anchors without a word of their own"


HOSTILE = """
import sys
from graphdoc.messages.recognise import wordings
from graphdoc.messages.recognise import recognise
for entry, wording in wordings():
    anchor = wording.anchor
    for filler in (" ", "a ", "x.y", "[1, ", "'a' ", "(1", "1 1", "::"):
        recognise((anchor + filler * 40) * 16, squeezed=False)
    half = wording.example[: len(wording.example) // 2]
    recognise((half + " ") * 30, squeezed=False)
for text in ("[" * 50_000, "\\x1b" * 50_000, "\\x1b[" * 50_000, "\\x1b]0;" * 20_000, " " * 200_000, "\\n> " * 50_000,
             "a b\\n" * 50_000, "> " * 100_000, "\\t \\n" * 50_000):
    recognise(text)
print("done")
"""


@pytest.mark.slow
def test_no_hostile_text_can_hang_a_pattern() -> None:
    """A catastrophic pattern needs hours for one of these; all of them together take some seconds."""
    done = subprocess.run([sys.executable, "-c", HOSTILE], capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr
