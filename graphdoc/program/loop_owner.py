"""Who runs the loop: a line of the user's that hands it to an installed package, which calls the user's code back."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from graphdoc.evidence import Cut, Event, Evidence, Frame, Node, Package, SourceTexts
from graphdoc.evidence.lookup import package_of
from graphdoc.program.loops import loop_of
from graphdoc.program.tensors import reached
from graphdoc.source.module import Source
from graphdoc.source.places import Place


def driver_of(evidence: Evidence) -> Frame | None:
    """The user's line below which a package ran both the forward pass and its backward: ``trainer.fit(…)``; or None."""
    if not evidence.packages:
        return None
    event = evidence.failing_call
    stack = event.stack if event is not None else evidence.raised.stack if evidence.raised is not None else []
    at = next((i for i in range(len(stack) - 1, -1, -1) if stack[i].user), -1)
    if at < 0 or not any(evidence.package(f.file) for f in stack[at + 1 :]):
        return None
    line = stack[at]
    made = _made_for(evidence.cuts, evidence.events, evidence.nodes, event)
    if made:
        return line if all(any(is_at(f, line) for f in stack) for stack in made) else None
    return None if _takes_tensor(evidence.sources, evidence.extras, line) else line


def _made_for(cuts: list[Cut], events: list[Event], graph: list[Node], event: Event | None) -> list[list[Frame]]:
    """The stacks of what was computed for the failing call: since the last one before it, as far as that is known.

    A package that is only asked to run backward may compute a little itself, such as a loss scaled by a number.
    """
    last = max(
        (
            e.sequence
            for e in events
            if event is not None and e.index < event.index and e.kind in ("backward", "grad", "step")
        ),
        default=-1,
    )
    nodes = [n for n in graph if any(f.user for f in n.stack)]
    fresh = [n.stack for n in nodes if n.sequence >= last]
    return (fresh or [n.stack for n in nodes]) + [c.stack for c in cuts if c.stack]


def _takes_tensor(sources: SourceTexts, extras: dict[str, Any], line: Frame) -> bool:
    """Whether the line hands over a tensor that the program holds by name: ``accelerator.backward(loss)``.

    So does a container with tensors that carry gradients (``np.sum(layers, 0)``); one of data alone may be a loader.
    """
    source = Source(line.file, sources.get(line.file, ""))
    node: ast.AST | None = source.node_expression(Place.of(line)) or source.node_statement(Place.of(line))
    known = {t.path for t in reached(extras)}
    known |= {t.path.partition("[")[0] for t in reached(extras) if t.requires_grad}
    read = {ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute)} if node else set()
    return bool(known & read)


def is_at(frame: Frame, place: Any) -> bool:
    """Whether a frame, a span or the arguments of a remedy name this very place."""

    def get(name: str) -> Any:
        return place.get(name) if isinstance(place, Mapping) else getattr(place, name, None)

    return frame.start == (get("file"), get("line"), get("column"))


def inside(driver: Frame | None, stack: Sequence[Frame]) -> list[Frame]:
    """The user's frames of a stack below the driving line, outermost first; all of them where no package drives.

    The first is in the function that the package calls, for each batch or at each event.
    """
    users = [f for f in stack if f.user]
    if driver is None:
        return users
    at = next((i for i in range(len(users) - 1, -1, -1) if is_at(users[i], driver)), -1)
    return users[at + 1 :]


def once_a_batch(driver: Frame | None, sources: SourceTexts, stack: Sequence[Frame], frame: Frame) -> bool:
    """Whether a place of a stack stands in the function that a package calls for each batch, and in no loop there."""
    if driver is None or loop_of(sources, frame) is not None:
        return False
    users = inside(driver, stack)
    return bool(users) and is_at(users[0], frame)


def caller_of(packages: list[Package], stack: Sequence[Frame], frame: Frame) -> str:
    """The package that calls a function of the user's: ``lightning 2.6.6``; empty where none does."""
    at = next((i for i, f in enumerate(stack) if f is frame), 0)
    for above in reversed(stack[:at]):
        package = package_of(packages, above.file)
        if above.user:
            return ""
        if package is not None:
            return package.told
    return ""


def names_place(value: Any, line: Frame, exact: bool = False) -> bool:
    """Whether the arguments of a remedy name a place that covers this line, or with ``exact`` this expression."""
    if isinstance(value, Mapping):
        if exact:
            return is_at(line, value) or any(names_place(v, line, exact) for v in value.values())
        first, last = value.get("line"), value.get("end_line") or value.get("line")
        if value.get("file") == line.file and isinstance(first, int) and isinstance(last, int):
            return first <= line.line <= last
        return any(names_place(v, line) for v in value.values())
    return isinstance(value, list | tuple) and any(names_place(v, line, exact) for v in value)
