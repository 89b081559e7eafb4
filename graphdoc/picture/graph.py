"""The boxes and arrows of the failing graph: operations by source line, parameters by module, the calls that spoiled
it, and the edge at which it failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from graphdoc.evidence import Event, Evidence, Folded, Frame, Part
from graphdoc.picture.grouping import group
from graphdoc.picture.shapes import Arrow, Box, Kind, State, Way
from graphdoc.program.journal import DIFFERENTIATING, Journal
from graphdoc.program.owners import Owners
from graphdoc.program.spans import innermost, innermost_user

MOST_CALLS = 3
"""Calls that are drawn beside the graph for what they released or overwrote: the latest."""


class Graph:
    """Reads the picture of one evidence. ``gaps`` says what it would take and the evidence does not hold."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._journal = Journal(evidence.events, Owners(evidence.optimizers), evidence.sources)
        self.boxes: list[Box] = []
        self.arrows: list[Arrow] = []
        self.gaps: list[str] = []
        if evidence.folded is not None and evidence.folded.parts:
            self._draw(evidence.folded)
        elif evidence.cuts:
            self._draw_cuts()
        else:
            self._draw_reach()

    # -- the whole graph ---------------------------------------------------------------------------------------------

    def _draw(self, folded: Folded) -> None:
        evidence = self._evidence
        groups = _joined(folded, group(folded.parts))
        homes = {p: i for i, members in enumerate(groups) for p in members}
        fatal = {(homes[a], homes[b]) for a, b in self._fatal(folded) if a >= 0 and b >= 0}
        spoiled = {b for _, b in fatal} | {homes[p] for p in self._failing(folded)}
        for members in groups:
            parts = [folded.parts[p] for p in members]
            self.boxes.append(self._box(len(self.boxes), parts, len(self.boxes) in spoiled))
        edges: Counter[tuple[int, int]] = Counter()
        for tail, head, count in (e for e in folded.edges if len(e) == 3):
            if tail in homes and head in homes and homes[tail] != homes[head]:
                edges[homes[tail], homes[head]] += count
        for (tail, head), count in edges.items():
            self.arrows.append(Arrow(tail, head, "fatal" if (tail, head) in fatal else "gradient", count))
        call = evidence.event(evidence.failing_event)
        if call is not None and folded.root in homes:
            self.arrows.append(Arrow(self._call(call, "the call that failed", True), homes[folded.root]))
        self._draw_releases(folded, homes)
        self._draw_writes(folded, homes)

    def _box(self, ident: int, parts: Sequence[Part], fatal: bool) -> Box:
        names = tuple(dict.fromkeys(n for p in parts for n in p.parameters))
        nodes = sum(p.nodes for p in parts)
        stale, released = sum(p.stale for p in parts), sum(p.released for p in parts)
        state: State = "stale" if stale else "released" if released else "live"
        if names:
            owners = tuple(sorted({o for p in parts for o in p.owners}))
            count = sum(max(p.nodes, len(p.parameters)) for p in parts)
            told = f"{count} parameter{'s' if count > 1 else ''}"
            return Box(ident, "parameters", common(names), told, nodes=nodes, optimizers=owners, parameters=names)
        ops: Counter[str] = Counter()
        for part in parts:
            ops.update(part.ops)
        frame = innermost(parts[0].stack)
        first = min((p.first for p in parts if p.first >= 0), default=-1)
        last = max((p.last for p in parts), default=-1)
        return Box(
            ident,
            "operations",
            "" if frame else "operations without a place",
            self._iterations(first, last),
            frame.file if frame else "",
            frame.line if frame else 0,
            tuple((short(op), n) for op, n in ops.most_common()),
            nodes,
            state,
            any(p.older for p in parts),
            fatal,
        )

    def _iterations(self, first: int, last: int) -> str:
        """Only where the failing call is one of several."""
        call = self._evidence.event(self._evidence.failing_event)
        if first < 0 or last < 0 or call is None or not call.occurrence:
            return ""
        return f"iteration {first}" if first == last else f"iterations {first} to {last}"

    def _failing(self, folded: Folded) -> set[int]:
        """The part of the node that failed."""
        ident = self._evidence.failing
        part = folded.homes[ident] if 0 <= ident < len(folded.homes) else -1
        return {part} if 0 <= part < len(folded.parts) else set()

    def _fatal(self, folded: Folded) -> Iterable[tuple[int, int]]:
        """The edges between parts by which the failing call went into what is gone."""

        def home(ident: int) -> int:
            part = folded.homes[ident] if 0 <= ident < len(folded.homes) else -1
            return part if part < len(folded.parts) else -1

        failing = home(self._evidence.failing)
        crossing = [(home(c.consumer), home(c.producer)) for c in self._evidence.carries if c.dead]
        newest = [(a, b) for a, b in crossing if a >= 0 and not folded.parts[a].older] or crossing
        if newest:
            return newest
        return [(e[0], e[1]) for e in folded.edges if len(e) == 3 and e[1] == failing]

    # -- what spoiled it ---------------------------------------------------------------------------------------------

    def _draw_releases(self, folded: Folded, homes: dict[int, int]) -> None:
        freed: dict[tuple[str, int], dict[int, set[int]]] = {}
        for carry in self._evidence.carries:
            home = folded.homes[carry.producer] if 0 <= carry.producer < len(folded.homes) else -1
            event = self._evidence.event(carry.freed_by)
            frame = innermost_user(event.stack) if event is not None else None
            if carry.dead and event is not None and home in homes and folded.parts[home].released:
                place = (frame.file, frame.line) if frame else ("", 0)
                freed.setdefault(place, {}).setdefault(event.index, set()).add(homes[home])
        for calls in sorted(freed.values(), key=max)[-MOST_CALLS:]:
            latest = self._evidence.event(max(calls))
            if latest is not None:
                more = f", as {len(calls) - 1} earlier calls did" if len(calls) > 1 else ""
                call = self._call(latest, "releases its graph" + more)
                self.arrows += [Arrow(call, home, "freed") for home in sorted(set().union(*calls.values()))]

    def _draw_writes(self, folded: Folded, homes: dict[int, int]) -> None:
        told: dict[tuple[str, int], dict[int, str]] = {}
        ops: dict[tuple[str, int], str] = {}
        for stale in self._evidence.stale:
            home = folded.homes[stale.node] if 0 <= stale.node < len(folded.homes) else -1
            for write in stale.writes:
                frame = innermost_user(write.stack)
                if frame is not None and home in homes:
                    name = stale.tensor.name or "a saved tensor"
                    label = f"{name}: version {stale.current}, {stale.expected} expected"
                    told.setdefault((frame.file, frame.line), {}).setdefault(homes[home], label)
                    ops[frame.file, frame.line] = write.op
        for (file, line), heads in list(told.items())[:MOST_CALLS]:
            labels = list(dict.fromkeys(heads.values()))
            note = labels[0] + (f" (and {len(labels) - 1} more)" if len(labels) > 1 else "")
            box = Box(len(self.boxes), "write", ops[file, line], note, file, line)
            self.boxes.append(box)
            self.arrows += [Arrow(box.id, home, "overwrites") for home in heads]

    def _call(self, event: Event, note: str, fatal: bool = False) -> int:
        frame = innermost_user(event.stack)
        number = self._journal.number(event)
        text = f"{event.kind} #{number}" if number else event.kind
        place = (frame.file, frame.line) if frame else ("", 0)
        self.boxes.append(Box(len(self.boxes), "call", text, note, *place, fatal=fatal))
        return len(self.boxes) - 1

    # -- without a graph ---------------------------------------------------------------------------------------------

    def _draw_cuts(self) -> None:
        """The chain of gradients and where it ends; what lies between the boxes is not kept."""
        call = self._evidence.event(self._evidence.failing_event) or self._last_call()
        top = self._call(call, "has no graph to follow", True) if call is not None else -1
        for cut in self._evidence.cuts[:MOST_CALLS]:
            at, before = innermost_user(cut.stack), innermost_user(cut.before)
            gap = self._place("gap", cut.op, f"the graph ends here: {cut.reason}", at, True)
            if top >= 0:
                self.arrows.append(Arrow(top, gap, "broken"))
            below = gap
            if before is not None and (at is None or (before.file, before.line) != (at.file, at.line)):
                below = self._place("operations", short(cut.before_op), "still had a graph", before)
                self.arrows.append(Arrow(gap, below, "broken"))
            self._draw_parameters(below, cut.behind, "broken")
        self.gaps.append("There is no graph behind this call: drawn is where it was cut.")

    def _draw_reach(self) -> None:
        """What a call led to, where nothing of the graph between was kept."""
        evidence = self._evidence
        call = evidence.event(evidence.failing_event) or self._last_call()
        if call is None:
            return
        reaches = self._journal.reaches(call)
        named = sorted({n for s in evidence.signs for n in s.parameters})
        if not reaches and not named:
            self.gaps.append("What lies behind this call was not recorded.")
            return
        top = self._call(call, "the call looked at", evidence.raised is not None)
        self._draw_parameters(top, reaches or named)
        self.gaps.append("The operations between the call and the parameters were not recorded: the run went on.")

    def _last_call(self) -> Event | None:
        signs = [s.event for s in self._evidence.signs]
        limit = max(signs, default=1 << 60)
        calls = [e for e in self._evidence.events if e.kind in DIFFERENTIATING and e.index <= limit]
        return calls[-1] if calls else None

    def _place(self, kind: Kind, text: str, note: str, frame: Frame | None, fatal: bool = False) -> int:
        place = (frame.file, frame.line) if frame else ("", 0)
        box = Box(len(self.boxes), kind, text, note, *place, fatal=fatal)
        self.boxes.append(box)
        return box.id

    def _draw_parameters(self, tail: int, names: Iterable[str], way: Way = "gradient") -> None:
        held = {p.name: p.owners for p in self._evidence.parameters}
        for o in self._evidence.optimizers:
            for name in o.parameters:
                held.setdefault(name, [o.id])
        modules: dict[tuple[str, tuple[int, ...]], Part] = {}
        for name in names:
            owners = held.get(name, [])
            part = modules.setdefault((name.rpartition(".")[0], tuple(owners)), Part(owners=owners))
            part.nodes += 1
            part.parameters.append(name)
        parts = list(modules.values())
        for members in group(parts):
            box = self._box(len(self.boxes), [parts[p] for p in members], False)
            self.boxes.append(box)
            self.arrows.append(Arrow(tail, box.id, way, box.nodes))


def short(op: str) -> str:
    """``Addmm`` of ``AddmmBackward0``."""
    name = op.rpartition("::")[2]
    head, found, tail = name.rpartition("Backward")
    return head if found and head and (not tail or tail.isdigit()) else name


def common(names: Sequence[str]) -> str:
    """What parameters have in common: their module (``policy.net.0.*``), or the name of a single one."""
    if len(names) == 1:
        return names[0]
    split = [n.split(".") for n in names]
    shared: list[str] = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    if shared:
        return ".".join([*shared, "*"])
    modules = list(dict.fromkeys(n.partition(".")[0] for n in names))
    return ", ".join(modules[:2]) + (f" and {len(modules) - 2} more" if len(modules) > 2 else "")


def _joined(folded: Folded, groups: list[list[int]]) -> list[list[int]]:
    """The groups, those of one owner's parameters joined that the same groups lead to: the layers of one network."""
    homes = {p: i for i, members in enumerate(groups) for p in members}
    above: dict[int, set[int]] = {}
    for edge in folded.edges:
        if len(edge) == 3 and edge[0] in homes and edge[1] in homes:
            above.setdefault(homes[edge[1]], set()).add(homes[edge[0]])
    joined: dict[tuple[object, ...], list[int]] = {}
    for i, members in enumerate(groups):
        part = folded.parts[members[0]]
        key: tuple[object, ...] = (i,)
        if part.parameters:
            key = (frozenset(above.get(i, ())), *part.owners, "of", part.parameters[0].partition(".")[0])
        joined.setdefault(key, []).extend(members)
    return list(joined.values())
