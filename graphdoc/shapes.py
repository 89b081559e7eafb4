"""What a picture is made of: boxes and arrows, the calls of the run in order, curves. Plain data, no format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["operations", "parameters", "call", "write", "gap", "value"]
State = Literal["live", "released", "stale"]
Way = Literal["gradient", "fatal", "freed", "overwrites", "broken", "carries"]


@dataclass(frozen=True)
class Box:
    """One box of the graph.

    ``file`` and ``line`` (from 1) are where it lies in the user's source; empty and 0 for one that has no place there.
    ``last`` is the last line of one that stands for several lines, 0 for the others.
    ``text`` is its first line where that is no source line, ``note`` the last; ``ops`` counts the nodes by name.
    ``nodes`` says how many nodes it stands for, ``optimizers`` are the ids of those that hold the parameters, empty for
    none. ``older`` tells what was made before the latest backward call, ``fatal`` where it failed.
    """

    id: int
    kind: Kind
    text: str = ""
    note: str = ""
    file: str = ""
    line: int = 0
    ops: tuple[tuple[str, int], ...] = ()
    nodes: int = 0
    state: State = "live"
    older: bool = False
    fatal: bool = False
    optimizers: tuple[int, ...] = ()
    parameters: tuple[str, ...] = ()
    last: int = 0


@dataclass(frozen=True)
class Arrow:
    """From one box to another, the way gradients go, for ``count`` edges of the graph; or from a call to its effect."""

    tail: int
    head: int
    way: Way = "gradient"
    count: int = 1


@dataclass(frozen=True)
class Moment:
    """One call of the run. ``kind``: forward, backward, grad, step, write, or another call's own name.

    ``iteration`` counts the calls of its place from 0, ``number`` those of its kind from 1; -1 where that is not known.
    ``made`` is how many nodes a forward recorded. ``skipped`` calls before it are not in the journal.
    """

    kind: str
    file: str = ""
    line: int = 0
    iteration: int = -1
    number: int = -1
    optimizer: int = -1
    made: int = 0
    text: str = ""
    failed: bool = False
    skipped: int = 0


@dataclass(frozen=True)
class Curve:
    """A number by backward call: points (call from 1, value). ``marked`` is the call at which it went wrong, or 0."""

    title: str
    points: tuple[tuple[int, float], ...]
    marked: int = 0


@dataclass(frozen=True)
class Picture:
    """What a page draws. ``before`` sums up the calls before ``moments``; ``gaps`` say what was not recorded."""

    boxes: tuple[Box, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    optimizers: tuple[tuple[int, str], ...] = ()
    moments: tuple[Moment, ...] = ()
    before: tuple[tuple[str, int], ...] = ()
    curves: tuple[Curve, ...] = ()
    nodes: int = 0
    gaps: tuple[str, ...] = ()
