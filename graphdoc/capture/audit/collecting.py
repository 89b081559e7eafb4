"""Gradients that are cleared before each backward call, while several calls go by from one step to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture.frames import frames_of, optimizer_functions
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.journal import Entry, Seen

AT = 4
"""The step of an optimizer at which its calls so far are read."""


class Collecting:
    """``cleared-while-collecting``: between two steps, and the first may have been another one, the same place has
    cleared ``optimizer`` (``stack``) and the same place has called backward (``other``), in turn and
    ``facts["calls"]`` times; ``facts["step"]`` is the place of the step. Weak: the source has to tell whether the calls
    between were to add up."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._found: list[Sign] = []

    def stepped(self, seen: Seen) -> None:
        """An optimizer has stepped."""
        if seen.steps != AT:
            return
        rounds, steps = self._rounds(seen)
        kinds = [[e.kind for e in one] for one in rounds[1:]]
        if len(kinds) != AT - 1 or len(kinds[0]) < 4 or any(k != kinds[0] for k in kinds):
            return
        if kinds[0] != ["zero_grad", "backward"] * (len(kinds[0]) // 2):
            return
        every = [e for one in rounds[1:] for e in one]
        zeros, calls = every[::2], every[1::2]
        if any(len({e.place for e in some}) != 1 for some in (zeros, calls, steps)):
            return
        if optimizer_functions(calls[-1].raw):
            return  # a closure
        audit, cwd = self._audit, self._audit.witness.cwd
        audit.snapshot()
        sign = Sign("cleared-while-collecting", frames_of(zeros[-1].raw, cwd), frames_of(calls[-1].raw, cwd))
        sign.optimizer, sign.event, sign.count, sign.weak = seen.id, calls[-1].index, AT - 1, True
        step = [f for f in frames_of(steps[-1].raw, cwd) if f.user][-1:]
        sign.facts = {"calls": len(kinds[0]) // 2, "step": [vars(f) for f in step]}
        self._found.append(sign)

    def _rounds(self, seen: Seen) -> tuple[list[list[Entry]], list[Entry]]:
        """The calls that led to each step of this optimizer, and the steps.

        Another optimizer's step between them shows that each call is used: two that take turns, say.
        """
        mine = set(seen.parameters)
        rounds: list[list[Any]] = [[]]
        steps = []
        for e in self._audit.journal.entries():
            if e.kind == "step" and e.optimizer == seen.id:
                steps.append(e)
                rounds.append([])
            elif _concerns(e, seen.id, mine):
                rounds[-1].append(e)
        return [_without_ends(one) for one in rounds[:-1]], steps

    def signs(self) -> list[Sign]:
        return self._found


def _concerns(entry: Any, optimizer: int, parameters: set[int]) -> bool:
    if entry.kind == "backward":
        return entry.reaches is None or bool(entry.reaches & parameters)
    return bool(entry.kind == "step" or (entry.kind == "zero_grad" and entry.optimizer == optimizer))


def _without_ends(entries: list[Any]) -> list[Any]:
    """Without the steps of others before the first call and behind the last one."""
    calls = [n for n, e in enumerate(entries) if e.kind != "step"]
    return entries[calls[0] : calls[-1] + 1] if calls else []
