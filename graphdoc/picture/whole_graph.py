"""The whole failing graph: operations by source line, parameters by module, the calls that spoiled it, and the edge at
which it failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from graphdoc.evidence import Event, Folded, Stale
from graphdoc.picture.canvas import Canvas
from graphdoc.picture.grouping import group, network
from graphdoc.program.spans import innermost_user
from graphdoc.shapes import Arrow, Box

MOST_CALLS = 3
"""Calls that are drawn beside the graph for what they released or overwrote: the latest."""


def draw_graph(canvas: Canvas, folded: Folded) -> None:
    """Put all of it on the canvas."""
    _Drawing(canvas, folded).draw()


class _Drawing:
    def __init__(self, canvas: Canvas, folded: Folded) -> None:
        self._canvas = canvas
        self._evidence = canvas.evidence
        self._folded = folded
        groups = _joined(folded, group(folded.parts, folded.edges))
        self._groups = groups
        self._homes = {p: i for i, members in enumerate(groups) for p in members}

    def draw(self) -> None:
        canvas, folded, homes = self._canvas, self._folded, self._homes
        fatal = {(homes[a], homes[b]) for a, b in self._fatal() if a in homes and b in homes}
        spoiled = {b for _, b in fatal} | {homes.get(self._home(self._evidence.failing), -1)}
        for number, members in enumerate(self._groups):
            canvas.boxes.append(canvas.box([folded.parts[p] for p in members], number in spoiled))
        edges: Counter[tuple[int, int]] = Counter()
        for tail, head, count in (e for e in folded.edges if len(e) == 3):
            if tail in homes and head in homes and homes[tail] != homes[head]:
                edges[homes[tail], homes[head]] += count
        for (tail, head), count in edges.items():
            canvas.arrows.append(Arrow(tail, head, "fatal" if (tail, head) in fatal else "gradient", count))
        call = self._evidence.failing_call
        if call is not None and folded.root in homes:
            canvas.arrows.append(Arrow(canvas.call(call, "the call that failed", True), homes[folded.root]))
        self._draw_releases()
        self._draw_writes()

    def _home(self, ident: int) -> int:
        """The part that a node of the evidence lies in, or -1."""
        return self._folded.homes[ident] if 0 <= ident < len(self._folded.homes) else -1

    def _fatal(self) -> Iterable[tuple[int, int]]:
        """The edges between parts by which the failing call went into what is gone; else those to where it failed."""
        parts = self._folded.parts
        crossing = [(self._home(c.consumer), self._home(c.producer)) for c in self._evidence.older_edges if c.dead]
        gone = [(a, b) for a, b in crossing if 0 <= b < len(parts) and (parts[b].released or parts[b].stale)]
        newest = [(a, b) for a, b in gone if 0 <= a < len(parts) and not parts[a].older] or gone
        if newest:
            return newest
        failing = self._home(self._evidence.failing)
        return [(e[0], e[1]) for e in self._folded.edges if len(e) == 3 and e[1] == failing]

    def _draw_releases(self) -> None:
        freed: dict[tuple[str, int], dict[int, tuple[Event, set[int]]]] = {}
        released = [(c.freed_by, self._home(c.producer)) for c in self._evidence.older_edges if c.dead]
        index = self._evidence.extras.get("freed_by")  # the call that released the very node at which it failed
        if isinstance(index, int):
            released.append((index, self._home(self._evidence.failing)))
        for index, part in released:
            event = self._evidence.event(index)
            if event is not None and part in self._homes and self._folded.parts[part].released:
                frame = innermost_user(event.stack)
                place = (frame.file, frame.line) if frame else ("", 0)
                freed.setdefault(place, {}).setdefault(event.index, (event, set()))[1].add(self._homes[part])
        for calls in sorted(freed.values(), key=max)[-MOST_CALLS:]:
            note = f"frees it, as {len(calls) - 1} earlier did" if len(calls) > 1 else "releases its graph"
            call = self._canvas.call(calls[max(calls)][0], note)
            heads = set().union(*(heads for _, heads in calls.values()))
            self._canvas.arrows += [Arrow(call, head, "freed") for head in sorted(heads)]

    def _draw_writes(self) -> None:
        boxes = self._canvas.boxes
        told: dict[tuple[str, int], list[tuple[int, str, Stale]]] = {}
        for stale in self._evidence.stale:
            part = self._home(stale.node)
            for write in stale.writes:
                frame = innermost_user(write.stack)
                if frame is not None and part in self._homes:
                    told.setdefault((frame.file, frame.line), []).append((self._homes[part], write.op, stale))
        for (file, line), writes in list(told.items())[:MOST_CALLS]:
            _, op, stale = writes[0]
            note = f"version {stale.current}, {stale.expected} expected" if stale.current != stale.expected else ""
            names = tuple(dict.fromkeys(s.tensor.name or "a saved tensor" for _, _, s in writes))
            boxes.append(Box(len(boxes), "write", op, note, file, line, parameters=names))
            heads = dict.fromkeys(home for home, _, _ in writes)
            self._canvas.arrows += [Arrow(len(boxes) - 1, head, "overwrites") for head in heads]


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
            key = (frozenset(above.get(i, ())), *part.owners, network(part.parameters[0]))
        joined.setdefault(key, []).extend(members)
    return list(joined.values())
