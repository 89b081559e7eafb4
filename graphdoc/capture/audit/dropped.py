"""Calls of ``detach()`` whose result is dropped: the value goes on into the loss with its graph."""

from __future__ import annotations

import dis
from sys import _getframe
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from graphdoc.capture import node_stacks, stacks, walk
from graphdoc.capture.audit.watch import Watch
from graphdoc.capture.code_places import is_user_file, position
from graphdoc.capture.frames import users_line
from graphdoc.capture.quiet import Unseen
from graphdoc.capture.roots import tensor_roots
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Noted

MOST_LOOKS = 2
"""Losses whose functions are searched for such a call; only where there is one are more looked at."""
OFTEN = 2
"""Losses in which the same is seen before it is told."""
MOST_LOSSES = 8

_CALLS = frozenset({"CALL", "CALL_METHOD", "CALL_FUNCTION"})
_QUIET = frozenset({"PRECALL", "PUSH_NULL", "NOP", "CACHE"})
_ADDS = frozenset({"AddBackward0", "SubBackward0", "NegBackward0", "SumBackward0", "MeanBackward0"})
_SCALES = frozenset({"MulBackward0", "DivBackward0"})
"""Linear in what they are given: where one factor alone has a graph."""


class Drop(NamedTuple):
    """``name.detach()`` as a statement of its own. ``value`` is the extent of what was bound to the name before, by the
    instruction ``bound``; ``at`` is the call's instruction."""

    code: CodeType
    name: str
    at: int
    bound: int
    value: tuple[int, int, int, int]


class Dropped(Watch):
    """``detach-dropped``: ``stack`` is such a call, ``other`` where the value goes on, ``parameters`` those behind it
    that an optimizer holds; ``facts["name"]``. All of them are in the loss by another way too, so that the value may be
    a constant; where it is the only way, a leftover is more likely."""

    def __init__(self, audit: Audit) -> None:
        super().__init__(audit)
        self._drops: dict[int, list[Drop]] = {}
        """By the id of the code, which the drop or this table keeps."""
        self._codes: list[CodeType] = []
        self._counts: dict[Drop, int] = {}

    def called(self, noted: Noted, outputs: Any) -> None:
        """A backward call that is looked at is about to run."""
        some = any(self._drops.values())
        if self._found or self._has_looked(MOST_LOSSES if some else MOST_LOOKS):
            return
        self._looks += 1
        audit = self._audit
        with Unseen(audit.torch, audit.witness.anomaly, _getframe(1)):
            roots = tensor_roots(outputs)
            order = walk.walk(roots, walk.DEEP - 1)
            made = [node_stacks.stack_of(f.node) for f in order]
            drops = self._drops_of({id(m.chain): m for m in made if m is not None})
            raws = [m.raw if m is not None else [] for m in made] if drops else []
            for drop in drops:
                used = self._is_leak(order, raws, drop)
                if used is not None:
                    self._note(noted, drop, raws[used[0]], used[1])

    def _drops_of(self, made: dict[int, stacks.Stack]) -> list[Drop]:
        """The drops in the functions that made a graph, of which each has a chain of calls for all its nodes."""
        found: dict[Drop, None] = {}
        for stack in made.values():
            for code in stack.raw[::2]:
                if isinstance(code, CodeType):
                    if id(code) not in self._drops:
                        self._codes.append(code)
                        self._drops[id(code)] = _drops(code)
                    found.update(dict.fromkeys(self._drops[id(code)]))
        return list(found)

    def _is_leak(self, order: walk.Graph, raws: list[Any], drop: Drop) -> tuple[int, set[int]] | None:
        """The node that takes the value after the drop, and the parameters behind it; None where the value is no
        constant that was meant: the loss has to reach every parameter without it. A term of the loss is none, which
        would do nothing as a constant."""
        places = [_within(raw, drop.code) for raw in raws]
        inside = {n for n, at in enumerate(places) if at is not None and _lies_in(position(drop.code, at), drop.value)}
        if not inside or len(order) >= walk.DEEP - 1:
            return None
        taken: dict[int, int] = {}
        for number, found in enumerate(order):
            at = places[number]
            if number not in inside and at is not None and not drop.bound <= at <= drop.at:
                taken.update((f, number) for f in found.following if f in inside)
        roots = set(range(len(order))) - {f for found in order for f in found.following}
        if inside & _terms(order, roots):
            return None
        without = _leaves(order, roots or {0}, set(taken))
        behind = _leaves(order, set(taken), set())
        mine = behind & self._audit.journal.held()
        if not mine or not behind <= without:
            return None
        return next(iter(taken.values())), mine

    def _note(self, noted: Noted, drop: Drop, used: Any, mine: set[int]) -> None:
        self._counts[drop] = self._counts.get(drop, 0) + 1
        if self._counts[drop] < OFTEN or self._found:
            return
        audit = self._audit
        audit.snapshot()
        at = next(i for i in range(0, len(used), 2) if used[i] is drop.code)
        sign = Sign("detach-dropped", self._frames([drop.code, drop.at, *used[at + 2 :]]), self._frames(used))
        sign.parameters, sign.event, sign.count = audit.named(mine), noted[0], OFTEN
        call = self._call(noted)
        sign.facts = {"name": drop.name, "backward": users_line(call)}
        self._report(sign)


def _within(raw: Any, code: CodeType) -> int | None:
    """The instruction of the innermost call of this code in a stack."""
    return next((raw[i + 1] for i in range(0, len(raw), 2) if raw[i] is code), None)


def _lies_in(place: tuple[int, int, int, int], whole: tuple[int, int, int, int]) -> bool:
    """Whether an extent (line, column, end line, end column) lies within another."""
    return whole[:2] <= place[:2] and place[2:] <= whole[2:]


def _terms(order: walk.Graph, roots: set[int]) -> set[int]:
    """The nodes whose values a loss is a weighted sum of, on the way to each as well."""
    todo, terms = list(roots), set(roots)
    while todo:
        found = order[todo.pop()]
        if found.op in _ADDS or (found.op in _SCALES and len(found.following) == 1):
            todo += (n for n in found.following if n not in terms)
            terms.update(found.following)
    return terms


def _leaves(order: walk.Graph, starts: set[int], left: set[int]) -> set[int]:
    """Ids of the leaves that these nodes lead to, but for what is ``left`` out."""
    todo = [n for n in starts if n not in left]
    seen, leaves = set(todo), set()
    while todo:
        found = order[todo.pop()]
        if found.leaf is not None:
            leaves.add(id(found.leaf))
        following = [n for n in found.following if n not in seen and n not in left]
        seen.update(following)
        todo += following
    return leaves


def _drops(code: CodeType) -> list[Drop]:
    """Such calls in a function of the user's, in a straight line from where the name was bound."""
    if "detach" not in code.co_names or not is_user_file(code.co_filename):
        return []
    steps = [i for i in dis.get_instructions(code) if i.opname not in _QUIET]
    found = []
    for n in range(1, len(steps) - 2):
        if steps[n].argval != "detach" or steps[n].opname not in ("LOAD_METHOD", "LOAD_ATTR"):
            continue
        if steps[n + 1].opname not in _CALLS or steps[n + 1].arg or steps[n + 2].opname != "POP_TOP":
            continue
        name = _last(steps[n - 1].argval)
        bound = next((m for m in range(n - 1, 0, -1) if _binds(steps[m], name)), 0)
        straight = not any("JUMP" in s.opname or s.opname == "FOR_ITER" for s in steps[bound : n + 1])
        if not steps[n - 1].opname.startswith(("LOAD_", "STORE_FAST_LOAD")) or not bound or not straight:
            continue
        if any(s.is_jump_target for s in steps[bound + 1 : n + 1]) or steps[bound - 1].opname.startswith("UNPACK"):
            continue
        value = position(code, steps[bound - 1].offset)
        found.append(Drop(code, name, steps[n + 1].offset, steps[bound].offset, value))
    return found


def _binds(step: dis.Instruction, name: str) -> bool:
    if not step.opname.startswith("STORE_") or step.opname in ("STORE_ATTR", "STORE_SUBSCR"):
        return False
    return name in (step.argval if isinstance(step.argval, tuple) else (step.argval,))


def _last(name: Any) -> Any:
    """Of two names in one instruction (Python 3.13 and later) the one that is read last."""
    return name[-1] if isinstance(name, tuple) and name else name
