"""A cache of an installed package that the program switched on, and that keeps a graph: to be switched off there."""

from __future__ import annotations

from graphdoc.evidence import OlderEdge
from graphdoc.finding import Remedy
from graphdoc.program.installed import Switch, keepers_of, switches_of
from graphdoc.program.keeping_statements import kept_name
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import place, where


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
        for deed in keepers_of(program.packages, producer.stack, kept_name(holder)):
            switches = switches_of(program.sources, deed)
            if switches:
                return switches
    return []
