"""What every drawing of a graph is put together from: boxes for calls, places and parameters, and the arrows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from graphdoc.evidence import Event, Evidence, Frame, Part
from graphdoc.picture.grouping import group, network
from graphdoc.program.calls_in_order import DIFFERENTIATING, Journal
from graphdoc.program.owners import Owners
from graphdoc.program.spans import innermost, innermost_user
from graphdoc.shapes import Arrow, Box, Kind, State, Way


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
