"""The whole picture of one process's run: its graph or a sketch of it, its calls in order, its curves."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from graphdoc.evidence import Event, Evidence, Folded, Frame, Node, OlderEdge, Part, Stale
from graphdoc.program.bad_values import Trouble, trouble_of
from graphdoc.program.calls_in_order import DIFFERENTIATING, Journal
from graphdoc.program.optimizer_places import Owners
from graphdoc.program.spans import innermost, innermost_user
from graphdoc.shapes import Arrow, Box, Curve, Kind, Moment, Picture, Way

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
        lines = sorted({f.line for f in frames}) if len(files) == 1 else []
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
            ("stale" if any(p.stale for p in parts) else "released" if any(p.released for p in parts) else "live"),
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


# The whole picture of one process's run: its graph or a sketch of it, its calls in order, its curves.

# The numbers of a run that grew until they were no longer finite, step by step.


def curves(trouble: Trouble | None) -> tuple[Curve, ...]:
    """The norm of the gradients and the loss by backward call, as far as a second run has seen them."""
    if trouble is None:
        return ()
    history = trouble.history
    found = (
        _curve("norm of the gradients", ((call, norm) for call, _, norm in history if norm >= 0), trouble.iteration),
        _curve("size of the loss", ((call, abs(loss)) for call, loss, _ in history), trouble.iteration),
    )
    return tuple(curve for curve in found if curve is not None)


def _curve(title: str, points: Iterable[tuple[int, float]], marked: int) -> Curve | None:
    finite = tuple((call, value) for call, value in points if math.isfinite(value))
    return Curve(title, finite, marked) if len(finite) > 1 else None


# The calls of a run in order, with the forward passes between them: the last ones before the failure, and what led up
# to them in numbers.

MOST = 24
"""Calls that are told one by one."""


def moments(evidence: Evidence) -> tuple[tuple[Moment, ...], tuple[tuple[str, int], ...]]:
    """The moments, oldest first, and how often each kind of call was made before them."""
    certain = [] if evidence.raised is not None else [s.event for s in evidence.signs]
    last = _last(evidence.failing_event, certain, evidence.events)
    events = [e for e in evidence.events if e.index <= last]
    journal = Journal(evidence.events, Owners(evidence.optimizers), evidence.sources)
    told = events[-MOST:]
    found: list[Moment] = []
    before = events[: len(events) - len(told)]
    previous = before[-1] if before else None
    for event in told:
        made = event.sequence - (previous.sequence if previous else 0)
        skipped = event.index - (previous.index + 1 if previous else 0)
        if skipped > 0:
            found.append(Moment("gap", skipped=skipped))
        elif made > 0:
            found.append(Moment("forward", made=made))
        if event.index == last:
            # When a write was made is known only where what it spoils was made after the call before.
            made_before = previous.sequence if previous is not None else -1
            found += _writes([(s, evidence.node(s.node)) for s in evidence.stale], made_before)
        frame = innermost_user(event.stack)
        number = journal.number(event)
        found.append(
            Moment(
                event.kind,
                frame.file if frame else "",
                frame.line if frame else 0,
                event.occurrence,
                number if number is not None else -1,
                event.optimizer,
                text=_text(evidence.older_edges, evidence.stale, event),
                failed=event.failed or event.index == evidence.failing_event,
            )
        )
        previous = event
    return tuple(found), tuple(Counter(e.kind for e in before).most_common())


def _last(failing: int, told: list[int], events: list[Event]) -> int:
    """The index of the call at which it failed, or at which the signs that are ``told`` of were certain."""
    if failing >= 0:
        return failing
    return max(told) if told else max((e.index for e in events), default=-1)


def _text(carries: list[OlderEdge], stale_tensors: list[Stale], event: Event) -> str:
    """What a step wrote that was still needed, and what a call released."""
    stale = [s.tensor.name or "a saved tensor" for s in stale_tensors for w in s.writes if w.event == event.index]
    if stale:
        more = len(set(stale)) - 1
        return f"overwrites `{stale[0]}`" + (f" and {more} more" if more else "")
    if any(c.freed_by == event.index and c.dead for c in carries):
        return "releases what is needed again"
    return ""


def _writes(stale_tensors: list[tuple[Stale, Node | None]], since: int) -> list[Moment]:
    """The writes of the program's own to what a node has saved that was made since this number."""
    found: dict[tuple[str, int], Moment] = {}
    for stale, node in stale_tensors:
        if node is None or node.sequence < since:
            continue
        for write in stale.writes:
            frame = innermost_user(write.stack)
            if frame is not None and write.event < 0 and write.certain:
                text = f"`{write.op}` overwrites `{stale.tensor.name or 'a saved tensor'}`"
                found[frame.file, frame.line] = Moment("write", frame.file, frame.line, text=text)
    return list(found.values())


# What is drawn of a run whose graph was not kept: where a chain of gradients was cut, how a value that is not finite
# came, or which parameters a call led to.

MOST_CUTS = 3
MOST_VALUES = 8
_HOW = {
    "birth": "the first {}",
    "turn": "infinity turns into nan",
    "given": "was given {}",
    "constant": "the program writes {}",
    "empty": "nothing to compute from",
}


def draw_cuts(canvas: Canvas) -> None:
    """The call without a graph, the operations that cut it, and what lies behind them."""
    call = canvas.latest_call()
    top = canvas.call(call, "has no graph to follow", True) if call is not None else -1
    for cut in canvas.evidence.cuts[:MOST_CUTS]:
        at, before = innermost_user(cut.stack), innermost_user(cut.before)
        below = canvas.place("gap", cut.op, f"ends here: {cut.reason}", at, True)
        if top >= 0:
            canvas.arrows.append(Arrow(top, below, "broken"))
        if before is not None and (at is None or (before.file, before.line) != (at.file, at.line)):
            last = canvas.place("operations", short(cut.before_op), "still had a graph", before)
            canvas.arrows.append(Arrow(below, last, "broken"))
            below = last
        canvas.parameters(below, cut.behind, "broken")
    canvas.gaps.append("This call has no graph: drawn is where it was cut.")


def draw_values(canvas: Canvas) -> bool:
    """The operations that handed a value on which is not finite, from the first; whether there are any."""
    seen = canvas.evidence
    trouble = trouble_of(seen.signs, seen.sources, seen.raised, seen.packages)
    told = [b for b in trouble.chain if b.place is not None][-MOST_VALUES:] if trouble is not None else []
    if not told:
        return False
    above = -1
    for birth in told:
        note = _HOW.get(birth.kind, "{}").format(birth.shows or "a value that is not finite")
        box = canvas.place("value", short(birth.node) or birth.op, note, birth.place, birth is told[0])
        if above >= 0:
            canvas.arrows.append(Arrow(above, box, "carries"))
        above = box
    if trouble is not None and trouble.call:
        box = canvas.place("call", trouble.what, "first seen here", innermost_user(trouble.call))
        canvas.arrows.append(Arrow(above, box, "carries"))
    canvas.gaps.append("Drawn is the way of the value that is not finite; the graph itself was not kept.")
    return True


def draw_reach(canvas: Canvas) -> None:
    """What a call led to, where nothing of the graph between was kept."""
    call = canvas.latest_call()
    if call is None:
        return
    reaches = canvas.journal.reaches(call) or sorted(canvas.about)
    if not reaches:
        canvas.gaps.append("The graphs of the calls of this run were not recorded.")
        return
    failed = canvas.evidence.failing_event == call.index
    canvas.parameters(canvas.call(call, "the call that failed" if failed else "leads to these", failed), reaches)
    canvas.gaps.append("The operations between the call and the parameters were not recorded.")


# The whole failing graph: operations by source line, parameters by module, the calls that spoiled it, and the edge at
# which it failed.

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
        spoiled = {b for _, b in fatal} | {homes.get(self._folded.home(self._evidence.failing), -1)}
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

    def _fatal(self) -> Iterable[tuple[int, int]]:
        """The edges between parts by which the failing call went into what is gone; else those to where it failed."""
        parts, home = self._folded.parts, self._folded.home
        crossing = [(home(c.consumer), home(c.producer)) for c in self._evidence.older_edges if c.dead]
        gone = [(a, b) for a, b in crossing if 0 <= b < len(parts) and (parts[b].released or parts[b].stale)]
        newest = [(a, b) for a, b in gone if 0 <= a < len(parts) and not parts[a].older] or gone
        if newest:
            return newest
        failing = home(self._evidence.failing)
        return [(e[0], e[1]) for e in self._folded.edges if len(e) == 3 and e[1] == failing]

    def _draw_releases(self) -> None:
        freed: dict[tuple[str, int], dict[int, tuple[Event, set[int]]]] = {}
        released = [(c.freed_by, self._folded.home(c.producer)) for c in self._evidence.older_edges if c.dead]
        index = self._evidence.extras.get("freed_by")  # the call that released the very node at which it failed
        if isinstance(index, int):
            released.append((index, self._folded.home(self._evidence.failing)))
        for index, part in released:
            event = self._evidence.event(index)
            if event is not None and part in self._homes and self._folded.parts[part].released:
                frame = innermost_user(event.stack)
                place = (frame.file, frame.line) if frame else ("", 0)
                freed.setdefault(place, {}).setdefault(event.index, (event, set()))[1].add(self._homes[part])
        for calls in sorted(freed.values(), key=max)[-MOST_CALLS:]:
            before = len(calls) - 1
            also = f", like {before} calls before it" if before > 1 else ", like the call before it" if before else ""
            note = f"frees its graph{also}"
            call = self._canvas.call(calls[max(calls)][0], note)
            heads = set().union(*(heads for _, heads in calls.values()))
            self._canvas.arrows += [Arrow(call, head, "freed") for head in sorted(heads)]

    def _draw_writes(self) -> None:
        boxes = self._canvas.boxes
        told: dict[tuple[str, int], list[tuple[int, str, Stale]]] = {}
        for stale in self._evidence.stale:
            part = self._folded.home(stale.node)
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


# The whole picture of one process's run, made of its graph, its calls and its curves.


def picture_of(evidence: Evidence) -> Picture:
    """The picture of one process's run. What the Evidence does not hold is said in ``Picture.gaps``, not drawn."""
    canvas = Canvas(evidence)
    if evidence.folded is not None and evidence.folded.parts:
        draw_graph(canvas, evidence.folded)
    elif evidence.cuts:
        draw_cuts(canvas)
    elif not draw_values(canvas):
        draw_reach(canvas)
    told, before = moments(evidence)
    return Picture(
        boxes=tuple(canvas.boxes),
        arrows=tuple(canvas.arrows),
        optimizers=tuple((o.id, o.name or o.type) for o in evidence.optimizers),
        moments=told,
        before=before,
        curves=curves(trouble_of(evidence.signs, evidence.sources, evidence.raised, evidence.packages)),
        nodes=evidence.graph_size,
        gaps=tuple(canvas.gaps),
    )
