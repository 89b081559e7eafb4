"""What is asked of one optimizer behind one of its steps: first the measure, then where what is missing was cut off."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from graphdoc.capture.whatif.beside import BesideLoss
from graphdoc.capture.whatif.cut_places import Held, added, locate
from graphdoc.capture.whatif.dying import Dying
from graphdoc.capture.whatif.functions import FunctionCheck
from graphdoc.capture.whatif.left_out import LeftOut
from graphdoc.capture.whatif.measure import AGREES, ANOTHER, CANCELS, INDEPENDENT, MISSING, WRITTEN, ZEROS, measure
from graphdoc.capture.whatif.taken_back import TakenBack
from graphdoc.capture.whatif.uncalled import UncalledCheck, with_backward
from graphdoc.capture.whatif.window import Move, Target

if TYPE_CHECKING:
    from graphdoc.capture.whatif import WhatIf


class Watching:
    """What the forks of one look can be made to see or to hold."""

    def __init__(self, probe: WhatIf, target: Target) -> None:
        self._probe = probe
        self._target = target
        self.looks_across = not probe.trial
        self.cut_before = probe.answers.needs_cuts(target)

    def holding(self, kept: Any) -> Held | None:
        """Keep what leaves the graph (of None), or hold it at what was kept; None where nothing does."""
        return self._probe.look.holding(kept)

    def holding_as_written(self, kept: Any) -> Held | None:
        """Hold what the program as it is written keeps out of the graph, without a patch's own cuts."""
        look = self._probe.look
        return look.holding(kept, set(look.found) - set(self._probe.patched.places(look.found)))

    def cuts_by_patch(self) -> bool:
        """Whether there are such."""
        return bool(self._probe.patched.places(self._probe.look.found))

    def dying(self, chosen: set[int], least: float = 0.0) -> Dying:
        """See at which nodes the gradient of these parameters ends, or is no more than this part of what was given."""
        return Dying(self._target, chosen, self._probe.witness.cwd, least)


def ask(probe: WhatIf, target: Target, steps: int) -> Generator[Move, Any, Any]:
    """The whole plan; what it finds is handed to ``probe.answers``."""
    owners = _owners(probe, target)
    result = yield from measure(target, owners, Watching(probe, target))
    answers = probe.answers
    look = answers.measured(target, steps, result)
    if result.why == WRITTEN and (before := probe.before(target.optimizer)):
        watch = TakenBack(target, before, probe.witness.cwd)
        answers.taken_back(target, (yield Move(watch=watch)))
    if result.why or result.base is None:
        return
    if any(a.answer == ANOTHER for a in result.answers):
        told = yield Move(watch=FunctionCheck(target.torch, probe.witness.cwd))
        met: dict[str, Any] = {"met": True, "wrong": []} if isinstance(told, str) else told["watch"]
        look["own"] = probe.hooked or met["met"]
        answers.others(target, look, met["wrong"])
        answers.doubt_jumps(look, result.base["calls"])
    depends = {i for a in result.answers if a.answer != INDEPENDENT for i in a.parameters}
    idle = answers.never_given(target, set(range(len(target.parameters))) - depends)
    if idle:
        answers.left_out(target, idle, (yield Move(watch=LeftOut(target, idle, probe.witness.cwd))))
    if result.left is not None:
        lost = next(a for a in result.answers if a.answer == CANCELS)
        answers.cancelled(target, set(lost.parameters), lost.jumps, result.left)
    missing = {i for a in result.answers if a.answer == MISSING for i in a.parameters}
    zero = {i for a in result.answers if a.answer == ZEROS for i in a.parameters}
    ends = result.ends
    if missing or zero:
        answers.ended(target, look, missing, zero, ends)
        if not isinstance(ends, str):
            missing -= set(ends["reached"])
    if missing and not isinstance(ends, str) and ends["shares"]:
        answers.cut(target, look, missing, [], "the loss is computed from another leaf with their memory")
    elif missing:
        places, why = yield from locate(target, missing, result, probe.look)
        answers.cut(target, look, missing, places, why)
    if probe.adds and any(a.answer == AGREES and a.held for a in result.answers):
        found = yield from added(target, result, probe.look, probe.witness.cwd)
        if found is not None:
            answers.added(*found)
    audit = probe.witness.audit
    if audit is not None and any(sign.optimizer == target.number for sign in audit.beside.signs()):
        beside = yield Move(watch=BesideLoss(target, result.base["written"], probe.witness.cwd))
        answers.beside(target, [] if isinstance(beside, str) else beside["watch"])
    if with_backward(target.torch):
        uncalled = yield Move(watch=UncalledCheck(target.torch, probe.witness.cwd))
        answers.uncalled(target, [] if isinstance(uncalled, str) else uncalled["watch"])


def _owners(probe: WhatIf, target: Target) -> list[list[int]]:
    """The positions of the parameters by the module that holds them, as the program calls it; else each by itself."""
    names = probe.witness.audit.names if probe.witness.audit is not None else {}
    groups: dict[str, list[int]] = {}
    for i, p in enumerate(target.parameters):
        groups.setdefault(names.get(id(p), f"#{i}").rpartition(".")[0] or f"#{i}", []).append(i)
    return list(groups.values())
