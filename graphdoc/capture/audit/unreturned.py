"""Parameters that a loss reaches through a custom Function alone, and that have no gradient after its backward.

A Function's backward may return None for an input: nothing is raised, and what lies there never learns. Told from the
steps of an optimizer that finds `.grad` None though a backward call has reached the parameter; only then is a graph
walked. What the backward returns, its source has to tell.
"""

from __future__ import annotations

import weakref
from collections.abc import Container
from types import CodeType
from typing import TYPE_CHECKING, Any

from graphdoc.capture import event_stacks, functions, node_stacks, stacks, walk
from graphdoc.capture.code_places import shown_file
from graphdoc.capture.facts import grad_fn_of, parameters_of
from graphdoc.capture.frames import frames_of
from graphdoc.capture.quiet import Unseen
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted, Seen

ENOUGH = 3
"""Steps that find no gradient of a parameter which was reached since the step before."""
MOST_LOOKS = 3
MOST_NODES = 4000


class Unreturned:
    """``unreturned``: ``stack`` is where the Function was applied, ``other`` the backward call, ``parameters`` those
    that are reached through it alone and have no gradient; ``facts["functions"]`` tells of it as ``extras`` would."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._looks = 0
        self._reached: dict[int, int] = {}
        """How often a parameter had been reached at the latest step of its optimizer."""
        self._without: dict[int, int] = {}
        self._wanting: dict[int, tuple[Seen, weakref.ref[Any]]] = {}
        self._found: list[tuple[Seen, Sign]] = []

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        reached, had = self._audit.reached, self._audit.journal.with_grad
        for p in parameters_of(optimizer):
            ident = id(p)
            if p.grad is not None or not p.requires_grad or had.get(ident):
                self._without.pop(ident, None)
                self._wanting.pop(ident, None)
            elif reached.get(ident, 0) > self._reached.get(ident, 0):
                self._reached[ident] = reached[ident]
                self._without[ident] = self._without.get(ident, 0) + 1
                if self._without[ident] == ENOUGH:
                    self._wanting[ident] = seen, weakref.ref(p)

    def called(self, noted: Noted, outputs: Any, leaves: dict[int, Any]) -> None:
        """A backward call that is looked at is about to run."""
        wanted = {i: ref() for i, (_, ref) in self._wanting.items() if i in leaves}
        if self._found or self._looks >= MOST_LOOKS or not any(p is not None for p in wanted.values()):
            return
        self._looks += 1
        audit = self._audit
        with Unseen(audit.torch, audit.witness.anomaly, None):
            roots = [grad_fn_of(t) for t in outputs if hasattr(t, "grad_fn")]
            order = walk.walk(roots, MOST_NODES)
            if len(order) < MOST_NODES:
                self._look(noted, order, [f.number for f in order if f.node in roots], wanted)

    def _look(self, noted: Noted, order: list[walk.Found], roots: list[int], wanted: dict[int, Any]) -> None:
        """Each Function of the user's is a wall: what is reached around it has another reason to have no gradient."""
        own = {
            f.number: (cls, code)
            for f in order
            if isinstance(cls := getattr(type(f.node), "_forward_cls", None), type)
            and (code := functions.backward_code(cls)) is not None
        }
        lost: dict[tuple[type, CodeType], set[int]] = {}
        for cls in dict.fromkeys(own.values()):
            its = [n for n, other in own.items() if other == cls]
            lost[cls] = _reached_from(order, its, own) & {*wanted}
        around = _reached_from(order, [n for n in roots if n not in own], own)
        for cls, idents in lost.items():
            idents -= around.union(*(found for other, found in lost.items() if other != cls))
            if idents:
                self._tell(noted, cls, [order[n].node for n, other in own.items() if other == cls], idents)

    def _tell(self, noted: Noted, cls: tuple[type, CodeType], nodes: list[Any], lost: set[int]) -> None:
        audit, cwd, code = self._audit, self._audit.witness.cwd, cls[1]
        kept = node_stacks.kept_in(nodes[0])
        made = frames_of(kept, cwd) if isinstance(kept, stacks.Stack) else []
        file = shown_file(code.co_filename, cwd)
        told = functions.described(*cls, nodes[0], file, made)
        for node in nodes:
            functions.count_inputs(told, node)
        audit.snapshot()
        seen = self._wanting[min(lost)][0]
        sign = Sign("unreturned", made, frames_of(event_stacks.stack_of_seen(noted[3]), cwd), optimizer=seen.id)
        sign.parameters = sorted(audit.names[i] for i in lost if i in audit.names)
        sign.event = noted[0]
        sign.facts = {"functions": [told], "backward": {"file": file, "line": code.co_firstlineno}}
        self._found.append((seen, sign))
        audit.tell_early()

    def signs(self) -> list[Sign]:
        for seen, sign in self._found:
            sign.count = seen.steps
        return [sign for _, sign in self._found]


def _reached_from(order: list[walk.Found], starts: list[int], walls: Container[int]) -> set[int]:
    """The ids of the leaves below these nodes that no wall stands before; the nodes themselves are none."""
    todo, met, found = [*starts], {*starts}, set()
    while todo:
        number = todo.pop()
        if number in walls and number not in starts:
            continue
        if order[number].leaf is not None:
            found.add(id(order[number].leaf))
        following = [m for m in order[number].following if m not in met]
        met.update(following)
        todo += following
    return found
