"""The tensors that the program could reach when it failed: leaf or not, recorded or not, and which line made them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Frame
from graphdoc.program.spans import innermost

_MANGLED = re.compile(r"(?<!\w)_[A-Za-z]\w*?(__[A-Za-z0-9](?:\w*[A-Za-z0-9])?_?)(?!\w)")
"""A name of two underscores as Python keeps it for a class: ``_Trainer__weight`` for what is written ``__weight``
(Python's reference, section 6.2.1, private name mangling)."""


@dataclass(frozen=True)
class Reached:
    """One such tensor. ``path`` is how the program reaches it (``self.state[0]``), ``made`` the place of its node.

    ``op`` is the node's name, empty where it has none.
    """

    path: str
    function: str
    requires_grad: bool
    is_leaf: bool
    op: str
    dtype: str
    inference: bool
    made: Frame | None
    shape: tuple[int, ...] = ()


def reached(extras: dict[str, Any]) -> Iterator[Reached]:
    """Every tensor that was looked at, those near the failure first; damaged entries are left out."""
    told = extras.get("locals")
    for entry in told if isinstance(told, list) else []:
        if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
            continue
        yield Reached(
            _MANGLED.sub(r"\1", entry["path"]),
            str(entry.get("function", "")),
            bool(entry.get("requires_grad")),
            bool(entry.get("is_leaf")),
            str(entry.get("op", "")),
            str(entry.get("dtype", "")),
            bool(entry.get("inference")),
            innermost(frames(entry.get("made"))),
            tuple(n for n in entry.get("shape") or () if isinstance(n, int)),
        )


def tensor_named(extras: dict[str, Any], name: str) -> Reached | None:
    """The tensor that the program reaches under this very name, or None."""
    return next((t for t in reached(extras) if t.path == name), None) if name else None


def frames(value: object) -> list[Frame]:
    """Frames that were kept as plain dictionaries in ``Evidence.extras``."""
    known = Frame.__dataclass_fields__
    found = []
    for entry in value if isinstance(value, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("file"), str) and isinstance(entry.get("line"), int):
            found.append(Frame(**{k: v for k, v in entry.items() if k in known}))
    return found
