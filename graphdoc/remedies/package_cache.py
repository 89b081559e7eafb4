"""A cache of an installed package that the program switched on, and that keeps a graph: to be switched off there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphdoc.evidence import Frame, OlderEdge, Package
from graphdoc.evidence.lookup import package_of
from graphdoc.finding import Remedy
from graphdoc.program.installed import Deed, Switch, switches_of
from graphdoc.program.keeping_statements import kept_name
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, place, where


def without_cache(program: Program, reuse: Reuse) -> list[Remedy]:
    """The user's arguments by which a package keeps these values for later passes, given as off; none where a value is
    kept otherwise."""
    found: dict[tuple[int, int], Switch] = {}
    for c in reuse.carries:
        switches = _switches(program, c)
        if not switches:
            return []
        found.update({s.frame.start[1:]: s for s in switches})
    if not found:
        return []
    first = next(iter(found.values()))
    edits = [
        {"kind": "set_keyword", "args": {"place": place(s.call), "name": s.name, "value": "False"}}
        for s in found.values()
    ]
    shown = " and ".join(dict.fromkeys(where(s.frame) for s in found.values()))
    return [
        Remedy(
            "several",
            f"leave out the cache: {first.name}=False, at {shown}",
            "unsafe",
            "Each pass computes it from the weights of now.",
            {"edits": edits},
        )
    ]


def _switches(program: Program, carry: OlderEdge) -> list[Switch]:
    """What the user gave to let a package keep this value."""
    producer = program.node(carry.producer)
    if producer is None:
        return []
    for holder in carry.tensor.holders:
        for deed in _keeping(program.packages, producer.stack, kept_name(holder)):
            switches = switches_of(program.sources, deed)
            if switches:
                return switches
    return []


def _keeping(packages: list[Package], stack: list[Frame], name: str) -> Iterator[Deed]:
    """Where the package's functions that were under way keep something on an attribute of this name."""
    for frame in reversed(stack):
        package = None if frame.user else package_of(packages, frame.file)
        if package is None:
            continue
        for number, line in package.sources.get(frame.file, {}).items():
            if re.search(rf"\bself\.{re.escape(name)}\s*=[^=]", line):
                at = Frame(frame.file, int(number), 1, int(number), 1, frame.function, False)
                yield Deed(package, at, innermost_user(stack))
