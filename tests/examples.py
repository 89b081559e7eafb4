"""The examples of the causes: whole small programs, each a file under tests/causes/examples/SLUG.

A sick one really fails and is recognised as its cause. It ends in ``# told at: LINE``, the text of the line that a
reader should be sent to, and ``# fails: MESSAGE``, a part of the message with which it ends (left out where nothing
crashes). A healthy one has neither, and is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from graphdoc.causes.base import Cause

FOLDER = Path(__file__).resolve().parent / "causes" / "examples"
_FOOT = re.compile(r"\n# told at: (?P<line>[^\n]+)\n(?:# fails: (?P<fails>[^\n]+)\n)?\Z")


@dataclass(frozen=True)
class Example:
    """A program; ``line`` and ``fails`` are empty for a healthy one."""

    name: str
    code: str
    fails: str = ""
    line: str = ""


@cache
def examples(slug: str) -> tuple[Example, ...]:
    """All examples of a cause, by name."""
    found = []
    for path in sorted((FOLDER / slug).glob("*.py")):
        text = path.read_text(encoding="utf-8")
        foot = _FOOT.search(text)
        code = text[: foot.start()] if foot else text
        found.append(Example(path.stem, code, foot["fails"] or "" if foot else "", foot["line"] if foot else ""))
    return tuple(found)


def sick(cause: Cause) -> list[Example]:
    """The programs that have this fault."""
    return [e for e in examples(cause.slug) if e.line]


def healthy(cause: Cause) -> list[Example]:
    """The look-alikes that do not have it."""
    return [e for e in examples(cause.slug) if not e.line]


def at_every_save(pairs: Sequence[tuple[Cause, Example]]) -> list[Any]:
    """The pairs as parameters of a test: the shortest example of each cause is run at every save, all of them in CI.
    To load what torch.compile needs takes seconds: such examples are run in CI alone."""
    shortest = {cause.slug: example for cause, example in sorted(pairs, key=lambda pair: -len(pair[1].code))}
    chosen = [e for e in shortest.values() if "torch.compile" not in e.code]
    return [
        pytest.param(c, e, id=f"{c.slug}-{e.name}", marks=() if e in chosen else pytest.mark.slow) for c, e in pairs
    ]


def last_exception(stderr: str) -> str:
    """The exception of a traceback: its type and message, without the frames."""
    lines = stderr.splitlines()
    start = max((i for i, line in enumerate(lines) if re.match(r"[A-Za-z_][\w.]*(Error|Exception): ", line)), default=0)
    return "\n".join(lines[start:])
