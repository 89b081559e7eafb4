"""The calls of a run in order: which came before, what stepped in between, and for which optimizers each call works."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from graphdoc.evidence import Event, Frame
from graphdoc.program.bindings import function_around
from graphdoc.program.owners import Owners
from graphdoc.program.spans import innermost_user
from graphdoc.source.module import Source, parsed
from graphdoc.source.paths import covers

Site = tuple[tuple[str, int, int], ...]

DIFFERENTIATING = ("backward", "grad")
_STEPS = re.compile(r"""([\w.\[\]'"]+)\.step\(\s*([\w.\[\]'"]*)""")
"""What is stepped, or handed to what steps (a scaler)."""


def site(stack: Sequence[Frame]) -> Site:
    """The user's frames of a stack as a key: the same key, the same place reached in the same way."""
    return tuple(f.start for f in stack if f.user)


class Journal:
    """The journal of a run. It is bounded: what fell out of it is not known, and the answers say so."""

    def __init__(self, events: Sequence[Event], owners: Owners, sources: Mapping[str, str]) -> None:
        self.events = events
        self.owners = owners
        self._sources = sources
        self._works_for: dict[int, frozenset[int]] = {}

    # -- order -------------------------------------------------------------------------------------------------------

    def between(self, first: Event, last: Event) -> list[Event]:
        """What was called behind ``first`` and before ``last``, as far as the journal holds it."""
        return [e for e in self.events if first.index < e.index < last.index]

    def is_complete(self, first: Event, last: Event) -> bool:
        """Whether the journal holds everything between the two."""
        return len(self.between(first, last)) == last.index - first.index - 1

    def steps_between(self, first: Event, last: Event) -> frozenset[int] | None:
        """Ids of the optimizers that stepped in between; None where none was seen and the journal has a gap there."""
        found = frozenset(e.optimizer for e in self.between(first, last) if e.kind == "step")
        return found if found or self.is_complete(first, last) else None

    def earlier(self, call: Event) -> Event | None:
        """The latest earlier call that started at the very same tensor."""
        before = (e for e in reversed(self.events) if e.index < call.index and e.kind in DIFFERENTIATING)
        return next((e for e in before if e.starts_with(call)), None)

    def number(self, call: Event) -> int | None:
        """``35`` for the 35th call of its kind in the run, or None where the journal lacks the first ones."""
        if self.events and self.events[0].index != 0:
            return None
        return sum(1 for e in self.events if e.kind == call.kind and e.index <= call.index)

    # -- whom a call works for ---------------------------------------------------------------------------------------

    def works_for(self, call: Event) -> frozenset[int]:
        """Ids of the optimizers that take what the call adds to the gradients; empty where that is not known.

        Those that step after it; for a call that failed those that did so after the last call of the same place, or
        that were set to zero just before it, or whose step is written behind it.
        """
        if call.index not in self._works_for:
            self._works_for[call.index] = frozenset(self._find(call))
        return self._works_for[call.index]

    def _find(self, call: Event) -> set[int]:
        found = self.steps_after(call)
        if found:
            return found
        zeroed = self.zeroed_before(call)
        if len(zeroed) == 1:
            return zeroed | self._gathering(call)
        mine = site(call.stack)
        before = [e for e in reversed(self.events) if e.index < call.index and e.kind == call.kind]
        found = next((s for e in before if site(e.stack) == mine and (s := self.steps_after(e))), set())
        return found or zeroed or self._written_after(call) | self._gathering(call)

    def _gathering(self, call: Event) -> set[int]:
        """Optimizers that were set to zero before an earlier call, have not stepped since, and whose step is the next
        thing written of them behind this call, or may be: they gather what the calls in between add."""
        last = {e.optimizer: e.kind for e in self.events if e.index < call.index and e.optimizer >= 0}
        cleared = [o for o, kind in last.items() if kind == "zero_grad"]
        return {o for o in cleared if self.written_behind(o, call) in ("step", "any step")}

    def steps_after(self, call: Event) -> set[int]:
        """Optimizers that step after this call, up to the next backward call that follows a step."""
        found: set[int] = set()
        for other in self.events:
            if other.index <= call.index:
                continue
            if other.kind == "step":
                found.add(other.optimizer)
            elif (other.kind == "backward" and found) or other.failed:
                break
        return found

    def zeroed_before(self, call: Event) -> set[int]:
        """Optimizers whose gradients were set to zero since the backward call or step before this call."""
        found: set[int] = set()
        for other in reversed(self.events):
            if other.index >= call.index:
                continue
            if other.kind == "zero_grad" and other.optimizer >= 0:
                found.add(other.optimizer)
            elif other.kind in ("backward", "step"):
                break
        return found

    def _written_after(self, call: Event) -> set[int]:
        """Optimizers whose ``step`` is written behind the call, in the function that makes it."""
        frame = innermost_user(call.stack)
        text = self._sources.get(frame.file) if frame is not None else None
        if frame is None or text is None:
            return set()
        around = Source(frame.file, text).enclosing_function(frame.line, frame.column or 1)
        lines = text.splitlines()[frame.line - 1 : around.place.end_line if around else None]
        found: set[int] = set()
        for path in (p for line in lines for m in _STEPS.finditer(line) for p in m.groups() if p):
            path = path.replace('"', "'")  # as the names of what was reached are spelled
            exact = {o.id for o in self.owners.optimizers if o.name == path}
            last = path.rsplit(".", 1)[-1]
            found |= exact or {o.id for o in self.owners.optimizers if o.name.rsplit(".", 1)[-1] == last}
        return found

    def written_behind(self, owner: int, call: Event) -> str:
        """What comes first behind a call in its function: the optimizer's ``step``, its ``zero_grad``, another call of
        ``backward``, or ``any step`` of what a loop or a caller hands out; empty where the function does none of
        them."""
        frame = innermost_user(call.stack)
        optimizer = next((o for o in self.owners.optimizers if o.id == owner), None)
        root = parsed(self._sources.get(frame.file, "")) if frame is not None else None
        if frame is None or root is None or optimizer is None or not optimizer.name:
            return ""
        names = {optimizer.name, optimizer.name.rsplit(".", 1)[-1]}
        scope = function_around(root, frame.line) or root
        calls = [
            n
            for n in ast.walk(scope)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.lineno > frame.line
        ]
        for found in sorted(calls, key=lambda n: (n.lineno, n.col_offset)):
            assert isinstance(found.func, ast.Attribute)
            method = found.func.attr
            if method == "backward":
                return method
            text = ast.unparse(found.func.value)
            if method in ("step", "zero_grad") and names & {text, text.rsplit(".", 1)[-1]}:
                return method
            if method == "step" and not found.args and text in _handed_out(scope, frame.line):
                return "any step"
        return ""

    # -- what calls started at ---------------------------------------------------------------------------------------

    def reaches(self, call: Event) -> list[str]:
        """The parameters that a call reaches; measured for the first calls of each place only."""
        if call.reaches:
            return call.reaches
        mine = site(call.stack)
        return next((e.reaches for e in self.events if e.reaches and site(e.stack) == mine), [])


def _handed_out(scope: ast.AST, line: int) -> set[str]:
    """The names that the loops of a function, or its callers, give a value; none of a loop around the line of the call,
    nor what it sets to zero of what its callers give: those are the ones for which it calls."""
    loops = [n.target for n in ast.walk(scope) if isinstance(n, ast.For | ast.AsyncFor) and not covers(n, line)]
    given = scope.args if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) else None
    cleared = {
        ast.unparse(n.func.value)
        for n in ast.walk(scope)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "zero_grad"
    }
    names = {n.id for t in loops for n in ast.walk(t) if isinstance(n, ast.Name)}
    return names | (
        {n.arg for n in ast.walk(given) if isinstance(n, ast.arg)} - cleared if given is not None else set()
    )
