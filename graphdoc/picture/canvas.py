"""What every drawing of a graph is put together from: boxes, arrows, and what is grouped into one box."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from graphdoc.evidence import Event, Evidence, Frame, Part
from graphdoc.program.calls_in_order import DIFFERENTIATING, Journal
from graphdoc.program.optimizer_places import Owners
from graphdoc.program.spans import innermost, innermost_user
from graphdoc.shapes import Arrow, Box, Kind, State, Way

# Which parts of a folded graph become one box: by source line, and more coarsely where that is too many.

MOST_OPERATIONS = 36
MOST_PARAMETERS = 12
"""Boxes of each kind: more than a reader can follow are folded again."""

LEVELS = 6
Key = tuple[object, ...]
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def group(parts: Sequence[Part], edges: Sequence[Sequence[int]] = ()) -> list[list[int]]:
    """The parts of each box, by index, in the order in which they are met.

    What lies behind something released or stale is kept apart from what the same line has made since; other iterations
    of one line are one box.
    """
    behind = _behind(parts, edges)
    made = [i for i, p in enumerate(parts) if not p.parameters]
    held = [i for i, p in enumerate(parts) if p.parameters]
    by_line = _finest(made, MOST_OPERATIONS, {i: _line_keys(parts[i], i in behind) for i in made})
    by_module = _finest(held, MOST_PARAMETERS, {i: _module_keys(parts[i]) for i in held})
    return sorted([*by_line, *by_module], key=min)


def _finest(members: Sequence[int], most: int, keys: Mapping[int, tuple[Key, ...]]) -> list[list[int]]:
    """The finest grouping with at most ``most`` groups; the coarsest there is where none has so few."""
    groups: dict[Key, list[int]] = {}
    for level in range(LEVELS):
        groups = {}
        for i in members:
            groups.setdefault(keys[i][level], []).append(i)
        if len(groups) <= most:
            break
    return list(groups.values())


def network(name: str) -> str:
    """What a reader calls the module of a parameter: without the numbers of a sequence, ``policy.net`` of
    ``policy.net.0.weight``."""
    module = name.rpartition(".")[0]
    return re.sub(r"(\.\d+)+$", "", module)


def _behind(parts: Sequence[Part], edges: Sequence[Sequence[int]]) -> set[int]:
    """The older parts that something released or stale leads to."""
    following: dict[int, list[int]] = {}
    for edge in edges:
        if len(edge) == 3:
            following.setdefault(edge[0], []).append(edge[1])
    todo = [i for i, p in enumerate(parts) if p.released or p.stale]
    seen = set(todo)
    while todo:
        for i in following.get(todo.pop(), ()):
            if i not in seen:
                seen.add(i)
                todo.append(i)
    return {i for i in seen if 0 <= i < len(parts) and parts[i].older}


def _line_keys(part: Part, behind: bool) -> tuple[Key, ...]:
    """From the lines that lead to it to its own line and its function; what is gone stays apart."""
    gone = ("stale" if part.stale else "released" if part.released else "live", behind)
    if not part.stack:
        return ((gone,),) * LEVELS
    lines = [(f.file, f.line) for f in part.stack]
    inner = part.stack[-1]
    return (
        (gone, *lines),
        (gone, *lines[-2:]),
        (gone, *lines[-1:]),
        (gone, inner.file, inner.function),
        (gone, inner.file),
        (gone,),
    )


def _module_keys(part: Part) -> tuple[Key, ...]:
    """From its module to that with numbers alike (``layers.*``) and fewer of its names; the optimizers always count."""
    module = part.parameters[0].rpartition(".")[0]
    names = _NUMBER.sub("*", module).split(".")
    return tuple((*told, "|", *part.owners) for told in ([module], names, names[:3], names[:2], names[:1], []))


# What every drawing of a graph is put together from: boxes for calls, places and parameters, and the arrows.


class Canvas:
    """A drawing of one evidence in the making. ``gaps`` says what it would take and the evidence does not hold."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.journal = Journal(evidence.events, Owners(evidence.optimizers), evidence.sources)
        self.about = frozenset(n for s in evidence.signs for n in s.parameters)
        """Parameters that what was seen in a run that went on is about."""
        self.boxes: list[Box] = []
        self.arrows: list[Arrow] = []
        self.gaps: list[str] = []

    def call(self, event: Event, note: str, fatal: bool = False) -> int:
        """A box for a call of the program; its id."""
        number = self.journal.number(event)
        text = f"{event.kind} #{number}" if number else event.kind
        return self.place("call", text, note, innermost_user(event.stack), fatal)

    def place(self, kind: Kind, text: str, note: str, frame: Frame | None, fatal: bool = False) -> int:
        """A box for something at a place of the program; its id."""
        place = (frame.file, frame.line) if frame else ("", 0)
        self.boxes.append(Box(len(self.boxes), kind, text, note, *place, fatal=fatal))
        return len(self.boxes) - 1

    def latest_call(self) -> Event | None:
        """The call that failed; without one the last that had been made when something was seen."""
        failed = self.evidence.failing_call
        if failed is not None:
            return failed
        limit = max((s.event for s in self.evidence.signs), default=1 << 60)
        calls = [e for e in self.evidence.events if e.kind in DIFFERENTIATING and e.index <= limit]
        return calls[-1] if calls else None

    def parameters(self, tail: int, names: Iterable[str], way: Way = "gradient") -> None:
        """Boxes for these parameters, by network and by owner, each with an arrow from ``tail``."""
        held = {p.name: p.owners for p in self.evidence.parameters}
        for optimizer in self.evidence.optimizers:
            for name in optimizer.parameters:
                held.setdefault(name, [optimizer.id])
        modules: dict[tuple[object, ...], Part] = {}
        for name in names:
            owners = held.get(name, [])
            key = (network(name), name in self.about, *owners)
            part = modules.setdefault(key, Part(owners=owners, stale=0))
            part.nodes += 1
            part.parameters.append(name)
        parts = list(modules.values())
        for members in group(parts):
            box = self.box([parts[p] for p in members])
            self.boxes.append(box)
            self.arrows.append(Arrow(tail, box.id, way, box.nodes))

    def box(self, parts: Sequence[Part], fatal: bool = False) -> Box:
        """The next box, for these parts of the graph; it is not put down yet."""
        names = tuple(dict.fromkeys(n for p in parts for n in p.parameters))
        nodes = sum(p.nodes for p in parts)
        if names:
            owners = tuple(sorted({o for p in parts for o in p.owners}))
            count = sum(max(p.nodes, len(p.parameters)) for p in parts)
            return Box(
                len(self.boxes),
                "parameters",
                common(names),
                f"{count} parameter{'s' if count > 1 else ''}",
                nodes=nodes,
                optimizers=owners,
                parameters=names,
                fatal=fatal or not self.about.isdisjoint(names),
            )
        ops: Counter[str] = Counter()
        for part in parts:
            ops.update(part.ops)
        frames = [f for f in (innermost(p.stack) for p in parts) if f is not None]
        files = {f.file for f in frames}
        lines = sorted({f.line for f in frames}.union(*(p.lines for p in parts))) if len(files) == 1 else []
        functions = list(dict.fromkeys(f.function for f in frames))
        several = (
            functions[0].replace("<module>", "top level") if len(functions) == 1 else f"{len(functions)} functions"
        )
        return Box(
            len(self.boxes),
            "operations",
            "operations without a place" if not frames else several if len(lines) != 1 else "",
            self._iterations(parts),
            frames[0].file if lines else "",
            lines[0] if lines else 0,
            tuple((short(op), n) for op, n in ops.most_common()),
            nodes,
            state_of(parts),
            all(p.older for p in parts),
            fatal,
            last=lines[-1] if len(lines) > 1 else 0,
        )

    def _iterations(self, parts: Sequence[Part]) -> str:
        """Only where the failing call is one of several."""
        call = self.evidence.failing_call
        first = min((p.first for p in parts if p.first >= 0), default=-1)
        last = max((p.last for p in parts), default=-1)
        if first < 0 or last < 0 or call is None or not call.occurrence:
            return ""
        return f"iteration {first}" if first == last else f"iterations {first} to {last}"


def state_of(parts: Sequence[Part]) -> State:
    """Stale or released where any node of theirs is."""
    return "stale" if any(p.stale for p in parts) else "released" if any(p.released for p in parts) else "live"


def short(op: str) -> str:
    """``Addmm`` of ``AddmmBackward0``."""
    name = op.rpartition("::")[2]
    head, found, tail = name.rpartition("Backward")
    return head if found and head and (not tail or tail.isdigit()) else name


def common(names: Sequence[str]) -> str:
    """What parameters have in common: their module (``policy.net.0.*``, ``blocks.*.attention.*`` of many blocks), or
    the name of a single one."""
    if len(names) == 1:
        return names[0]
    split = [n.split(".") for n in names]
    shared: list[str] = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1 and not all(part.isdecimal() for part in parts):
            break
        shared.append(parts[0] if len(set(parts)) == 1 else "*")
    while shared and shared[-1] == "*":
        shared.pop()
    if shared:
        return ".".join([*shared, "*"])
    modules = list(dict.fromkeys(n.partition(".")[0] for n in names))
    return ", ".join(modules[:2]) + (f" and {len(modules) - 2} more" if len(modules) > 2 else "")
