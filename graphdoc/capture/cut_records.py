"""What is kept of an operation whose result has no graph, and how such records lead back from one to the next."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable
from itertools import count
from typing import Any

from graphdoc.capture import legacy_variable, stacks
from graphdoc.capture.frames import site_of
from graphdoc.capture.switches import Place

MOST_FOLLOWED = 50_000
_NUMBERS = count()
NEAR = 20
"""Records behind a conversion whose values are taken to have left with it."""
DRAWS = {"sample", "sample_n", "multinomial", "normal", "bernoulli", "poisson"}


class Origin:
    """Where something that has a graph was made; kept instead of the tensor, so that nothing is kept alive."""

    __slots__ = ("op", "raw")

    def __init__(self, op: str, raw: stacks.Stack | list[Any]) -> None:
        self.op, self.raw = op, raw


class Record:
    """One result without a graph: the operation that made it and what went in."""

    __slots__ = (
        "converted",
        "counted",
        "depth",
        "element_dims",
        "enabled",
        "event",
        "frozen",
        "inputs",
        "integral",
        "leaves",
        "listed",
        "loose",
        "nested",
        "number",
        "numbers",
        "op",
        "origins",
        "raw",
        "recording",
        "switch",
    )

    def __init__(self, op: str, raw: stacks.Stack, event: int) -> None:
        self.op = op
        self.raw = raw
        self.recording = True
        self.enabled = True
        self.switch: Place | None = None
        self.integral = False
        self.inputs: list[Record] = []
        self.counted: list[Record] = []  # those of the inputs of which whole numbers went in
        self.origins: list[Origin] = []
        self.leaves: tuple[weakref.ref[Any], ...] = ()
        self.frozen: list[int] = []
        self.converted = False  # numbers were made of it, or an array
        self.listed = False
        self.nested = False
        self.element_dims = 0
        self.loose = False
        self.numbers = False
        self.depth = 0
        self.event = event
        self.number = next(_NUMBERS)

    @property
    def place(self) -> tuple[str, Any]:
        """The operation and where it stands: the same for what one expression makes again and again."""
        return self.op, site_of(self.raw)

    @property
    def behind(self) -> frozenset[int]:
        """The ids of the leaves behind what went in, as far as they live: a later tensor may get that of a dead one."""
        return frozenset(id(leaf) for ref in self.leaves if (leaf := ref()) is not None)


def left_by(record: Record, converted: bool, recent: list[Record]) -> None:
    """Note a conversion or a detach of what has a graph, or a conversion of what was drawn from it: what comes of the
    number is not seen. What a conversion was given may have been detached before."""
    left: Record | None = record
    if converted:
        for r in records_behind([record], NEAR):
            r.converted = True
    if not record.origins:
        left = _draw_behind(record) if converted else None
    if left is not None and left not in recent[-1:]:
        recent.append(left)
        del recent[:-200]


def _draw_behind(record: Record) -> Record | None:
    """The random draw, from what has a graph, whose number leaves its tensor here."""
    near = records_behind(record.inputs, NEAR)
    return next((r for r in near if r.origins and r.op in DRAWS), None)


def viewed(tensor: Any) -> Any:
    """What a view that was made without recording looks into: it requires gradients, and has no ``grad_fn``."""
    base = tensor._base if tensor.grad_fn is None else None
    return base if base is not None and base.requires_grad else tensor


def apart(records: Iterable[Record]) -> list[tuple[Record, list[Record]]]:
    """The first record of each place and operation, with all of them."""
    known: dict[Any, list[Record]] = {}
    for r in records:
        known.setdefault(r.place, []).append(r)
    return [(same[0], same) for same in known.values()]


def records_behind(starts: list[Record], most: int = MOST_FOLLOWED) -> list[Record]:
    """The records that these were made from, nearest first."""
    chain = list(starts)
    seen = {id(r) for r in starts}
    for record in chain:
        if len(chain) >= most:
            break
        for r in record.inputs:
            if id(r) not in seen:
                seen.add(id(r))
                chain.append(r)
    return chain


def with_a_slope(starts: list[Record]) -> set[int]:
    """The ids of the records of which more than whole numbers went into these: the others, indices of a maximum say,
    would leave them without a graph in any case."""
    chain = list(starts)
    seen = {id(r) for r in starts}
    for record in chain:
        counted = Counter(map(id, record.counted))
        for r in record.inputs:
            if counted[id(r)]:
                counted[id(r)] -= 1
            elif id(r) not in seen and len(chain) < MOST_FOLLOWED:
                seen.add(id(r))
                chain.append(r)
    return seen


def counted_out(chain: list[Record], record: Record) -> Record | None:
    """The operation by whose whole numbers alone a record goes into what ``chain`` leads back from, nearest first."""
    upper: dict[int, list[Record]] = {}
    for r in chain:
        for made in r.inputs:
            upper.setdefault(id(made), []).append(r)
    made_of = {id(record)}
    todo = [record]
    for r in todo:
        new = [u for u in upper.get(id(r), ()) if id(u) not in made_of]
        made_of |= {id(u) for u in new}
        todo += new
    return next((c for r in chain for c in r.counted if id(c) in made_of), None)


def is_nothing(name: str, args: Any, result: Any) -> bool:
    """Whether an operation has given back what it was given, unwritten: ``x.to(device)`` of what is there."""
    return bool(args) and result is args[0] and not name.endswith("_") and name != legacy_variable.NAME
