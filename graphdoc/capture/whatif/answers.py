"""What was measured at the steps that were looked at, as signs: one for each optimizer, and one for what is missing."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from graphdoc import evidence
from graphdoc.capture.audit.deadends import ZERO
from graphdoc.capture.events.cut_records import NEAR, Record, is_users, records_behind
from graphdoc.capture.places.code_places import OURS, shown_file
from graphdoc.capture.places.frames import plain, site_of
from graphdoc.capture.second_run.cut_recorder import DETACHES
from graphdoc.capture.second_run.cuts import is_draw
from graphdoc.capture.tensors.facts import held_by, parameters_of
from graphdoc.capture.whatif.cut_places import is_said
from graphdoc.capture.whatif.measure import AGREES, ANOTHER, INDEPENDENT, MISSING, NOISE, ZEROS, Result
from graphdoc.capture.whatif.window import Target, answer_of
from graphdoc.evidence import Frame, Sign

if TYPE_CHECKING:
    from graphdoc.capture.whatif import WhatIf

ENOUGH = 2
"""Steps at which the same was measured before it is told."""
DEAD = "dead"
"""Under which the one sign is kept of a gradient that ends."""


class Answers:
    """``gradients``: ``optimizer``, ``facts["looks"]`` has the step and the answers of each look, ``facts["complete"]``
    that all looks which were planned have been made."""

    def __init__(self, probe: WhatIf) -> None:
        self._probe = probe
        self._signs: dict[int, Sign] = {}
        self._why = ""
        self._places: dict[Any, int] = {}
        """At how many steps the same places were met."""
        self._chosen = False
        """Whether a step used the gradients of another backward call than the last of several."""
        self._totals: dict[int, float] = probe.witness.journal.living.forgetting({})
        self._by_zero: set[int] = probe.witness.journal.living.forgetting(set())
        """Parameters that are in the graph of a loss, and there behind a factor of zero alone."""
        self._told: dict[str, Sign] = {}
        self.complete = False

    def refused(self, why: str) -> None:
        """Nothing can be measured in this program."""
        self._why = self._why or why

    def measured(self, target: Target, steps: int, result: Result) -> dict[str, Any]:
        """Keep the answers of one look."""
        sign = self._signs.setdefault(target.number, Sign(evidence.GRADIENTS, optimizer=target.number, weak=True))
        look: dict[str, Any] = {"step": steps + 1, "why": result.why, "alone": result.alone}
        look["answers"] = self.told(target, result)
        look["within"] = bool(result.base and result.base["within"])
        look["turned"] = bool(result.base and result.base["turned"])
        sign.facts.setdefault("looks", []).append(look)
        sign.count += 1
        if (audit := self._probe.witness.audit) is not None:
            known = (i for a in result.answers if a.answer not in (INDEPENDENT, NOISE) for i in a.parameters)
            audit.losses.measured.setdefault(target.number, set()).update(known)
        return look

    def told(self, target: Target, result: Result) -> list[dict[str, Any]]:
        """The answers, as they are kept."""
        names = self._names(target, range(len(target.parameters)))
        losses = {c["line"]: c["value"] for c in reversed((result.base or {"calls": []})["calls"])}
        found = []
        for answer in result.answers:
            file = shown_file(answer.file, self._probe.witness.cwd) if answer.file else ""
            mine = {"parameters": [names[i] for i in answer.parameters], "loss": losses.get(answer.line, 0.0)}
            found.append({**asdict(answer), **mine, "file": file})
        return found

    def needs_cuts(self, target: Target) -> bool:
        """Whether gradients were those of the loss with the program's own cuts held alone."""
        looks = self._signs[target.number].facts["looks"] if target.number in self._signs else []
        return any(a["held"] and a["answer"] == AGREES for look in looks for a in look["answers"])

    def others(self, target: Target, look: dict[str, Any], functions: list[dict[str, Any]]) -> None:
        """The gradient is another one, and the backward of these Functions gives another than their derivative."""
        look["functions"] = functions
        for function in functions:
            every = {n for a in look["answers"] if a["answer"] == ANOTHER for n in a["parameters"]}
            name = str(function["name"])
            told: dict[str, Any] = {"key": name, "name": name, "names": every, "functions": [function]}
            self._tell(evidence.OTHER_DERIVATIVE, target, function["made"], **told)

    def uncalled(self, target: Target, modules: list[dict[str, Any]], kind: str = "uncalled-backward") -> None:
        """These modules have a backward that nobody calls, and it would give another gradient; or these Functions
        (``UNREAD``) are in the graph of no loss."""
        for module in modules:
            name = str(module["name"])
            self._tell(kind, target, module["made"], (), name, name, functions=[module])

    @staticmethod
    def doubt_jumps(look: dict[str, Any], calls: list[dict[str, Any]]) -> None:
        """The gradient is that of PyTorch's own operations, which is right. A loss that is computed from a gradient
        jumps where a unit of a ReLU network is switched, and many small jumps are a slope that no gradient knows."""
        second = set() if look["own"] else {c["line"] for c in calls if c["second"]}
        for answer in look["answers"]:
            slope, given = answer["slope"], answer["gradient"]
            near = answer.get("across") or 0.5 < slope / (given or 1.0) < 2.0
            if answer["answer"] == ANOTHER and answer["line"] in second and near:
                answer["answer"] = NOISE

    def cost(self, number: int, forks: int, seconds: float, step: float) -> None:
        """What the latest look has cost: forks, their seconds, and those of the program's own step before it."""
        sign = self._signs.get(number)
        if sign is not None:
            sign.facts["looks"][-1]["cost"] = [forks, round(seconds, 3), round(step, 3)]

    def _names(self, target: Target, positions: Iterable[int]) -> dict[int, str]:
        audit = self._probe.witness.audit
        known = audit.names if audit is not None else {}
        return {i: known.get(id(target.parameters[i]), f"parameter {i}") for i in positions}

    def cut(self, target: Target, look: dict[str, Any], chosen: set[int], places: list[list[Record]], why: str) -> None:
        """A loss depends on these parameters by what these operations have given; or it is not known by what."""
        probe = self._probe
        audit = probe.witness.audit
        look["cut_why"] = why
        look["cuts"] = [{"op": rs[0].op, "frames": self._frames(rs[0].raw)[-1:]} for rs in places]
        look["cut_by_patch"] = bool(probe.patched.places({rs[0].place: rs for rs in places}))
        never = self.never_given(target, chosen)
        if any(r.recording and _is_a_copy(r) for *_, r in places) or audit is None:
            return  # somebody wanted one
        sums = audit.losses.watch.bypasses if audit.losses.watch is not None else ()
        around = [rs for rs in places if rs[-1].place in sums]  # ``bypassed`` tells of these
        told = {i for rs in around for r in rs for i in r.behind}
        never = {i for i in never if id(target.parameters[i]) not in told}
        places = [rs for rs in places if rs not in around]
        if not places or not never:
            return
        by_zero = {i for i in never if id(target.parameters[i]) in self._by_zero}
        # What goes on beside a number, but to a factor of zero, goes nowhere.
        wanted = not by_zero and all(audit.losses.is_wanted_as_number(rs[-1].place) for rs in places)
        # By what is not multiplied by zero at other times they learn, and not by what is detached.
        wanted |= bool(by_zero) and all(rs[-1].op in DETACHES and not rs[-1].converted for rs in places)
        if wanted or not self._again((target.number, frozenset(rs[0].place for rs in places))):
            return
        # The first run has looked for zeros in matrices alone.
        matrices = never - {i for i in by_zero if target.parameters[i].dim() < 2}
        facts = {
            "measured": _strongest(look, MISSING if any(a["answer"] == MISSING for a in look["answers"]) else ZEROS),
            # A package may do that on behalf of somebody who wants what it gives as it is.
            "said": all(is_said(r) or not _is_of_the_program(r, self._frames(r.raw)) for *_, r in places),
            "apart": self._apart(target, never) or self._is_on_top(target, never, places),
            "positions": self._positions(target, matrices or never),
            "zeros": bool(by_zero),
            "cleared": not by_zero and any(id(target.parameters[i]) in audit.reached for i in never),
        }
        behind = frozenset(id(target.parameters[i]) for i in never)
        sign = Sign("cut-off", optimizer=target.number, facts=facts)
        audit.losses.tell_measured(sign, [rs[-1] for rs in places], behind)

    def added(self, records: list[Record], sum_: list[dict[str, Any]]) -> None:
        """What this operation gives is added to a loss, and no gradient knows of it."""
        audit, frames = self._probe.witness.audit, self._frames(records[-1].raw)
        shown = audit.losses.watch.shown if audit is not None and audit.losses.watch is not None else ()
        if audit is None or records[-1].place in shown or not _is_of_the_program(records[-1], frames):
            return
        if self._again(("added", records[0].place)):
            audit.losses.tell_measured(Sign("constant-term", other=_frames(sum_)), records[-1:])

    def going_back(self, target: Target, changed: set[int], found: list[tuple[Record, frozenset[int]]]) -> None:
        """The gradient of these parameters is another one where numbers keep the graph that they have left."""
        audit, mine = self._probe.witness.audit, {id(target.parameters[i]) for i in changed}
        records = {site_of(r.raw)[:1]: r for r, behind in found if behind & mine}
        if audit is not None and records:
            behind = frozenset[int]().union(*(b for _, b in found)) & mine
            audit.losses.tell_measured(Sign("cut-term", facts={"inside": True}), [*records.values()], behind)

    def left_out(self, target: Target, idle: set[int], told: Any) -> None:
        """No loss depends on these parameters, although results with a graph are made of them."""
        past, results = answer_of(told, ([], []))
        for read, chosen in past:
            self._tell(evidence.READ_PAST, target, read, chosen, positions=self._positions(target, chosen))
        users = [f for frames, *_ in results for f in frames if f["user"]][-1:]
        if users:
            stack, number, alone = results[-1]
            facts: dict[str, Any] = {"positions": self._positions(target, idle), "apart": self._apart(target, idle)}
            facts |= {"number": number, "alone": alone}
            self._tell(evidence.LEFT_OUT, target, stack, idle, str(users), **facts)

    def beside(self, target: Target, sums: list[dict[str, Any]]) -> None:
        """These sums add to a loss what no call differentiates."""
        for found in sums:
            stack, call, weighed = found["stack"], found["call"], found["weighed"]
            key = f"{stack[-1:]} {call}"
            self._tell(evidence.BESIDE, target, stack, found["parameters"], key, other=_frames(call), weighed=weighed)

    def taken_back(self, target: Target, told: Any) -> None:
        """The parameters have the numbers again that they had before the step, and nobody has read those after it."""
        frames, step = answer_of(told, []), self._probe.witness.journal.latest("step", target.number)
        every = range(len(target.parameters))
        if frames and step is not None:
            self._tell(evidence.UNDONE, target, frames, every, other=self._probe.frames(step.raw))

    def last_alone(self, target: Target, told: dict[str, Any] | None) -> None:
        """A step uses the gradients of the last of several calls alone; of another one (empty), which may be the best
        of them, ends the matter."""
        self._chosen |= told == {}
        if told and not self._chosen:
            # Twice the last may be the best by chance.
            self._places.setdefault((target.number, evidence.LAST_ALONE, "x"), -1)
            step, every = self._probe.witness.journal.latest("step", target.number), range(len(target.parameters))
            facts = {"calls": told["calls"], "step": self._frames(step.raw) if step is not None else []}
            other = _frames(told["call"])
            self._tell(evidence.LAST_ALONE, target, told["taken"], every, "x", other=other, count=ENOUGH + 1, **facts)

    def recomputed(self, target: Target, changed: set[int], none: set[int], calls: list[Any]) -> None:
        """These checkpoints, run once, give another gradient: what they run again is something else."""
        places = {str([f for f in frames if f["user"]][-1:]): frames for frames in calls}
        if changed and len(places) == 1:
            self._tell(evidence.RECOMPUTED, target, calls[0], changed, str([*places]), none=none == changed)

    def written_over(self, target: Target, changed: set[int], functions: list[dict[str, Any]]) -> None:
        """This Function writes to what it is given; on copies of that, it gives another gradient."""
        if changed and len(functions) == 1:
            (function,) = functions
            key = f"{function['name']}.{function['side']}"
            self._tell(evidence.WRITTEN_OVER, target, function["written"], changed, key, functions=functions)

    def saved_over(self, target: Target, look: dict[str, Any], changed: set[int], places: list[dict[str, Any]]) -> None:
        """By what the forward has saved here, backward gives another gradient, by however little it differs."""
        names = set(self._names(target, changed).values())
        for answer in look["answers"]:
            if answer["answer"] == AGREES:
                answer["parameters"] = [n for n in answer["parameters"] if n not in names]
        if changed and places:
            self._tell(evidence.SAVED_OVER, target, places[0]["written"], changed, made=places[0]["made"])

    def ended(self, target: Target, look: dict[str, Any], missing: set[int], zero: set[int], told: Any) -> None:
        """A loss depends on these parameters, and what they are given is none or zero: it ends at these nodes."""
        told = told if isinstance(told, dict) else {"ends": [], "deep": False}
        ends = look["ends"] = told["ends"]
        look["deep"] = told["deep"]
        look["ends_in_patch"] = any(self._probe.patched.has(_frames(e["frames"])) for e in ends)
        never = missing | zero
        sums = [e for e in ends if e["how"] == "cancels" and e["frames"]]
        flat = [e for e in ends if e["how"] == "ends"]
        if not never or DEAD in self._told or not (sums or flat):
            return
        first = (sums or flat)[0]
        own = missing and not sums and all("function" in e and e["op"] == first["op"] for e in flat)
        if not sums and not own and any(e["op"] not in ZERO for e in flat):
            return  # an input at which a slope is zero by its value, or a backward that gives zeros
        missing = self.never_given(target, missing) if own else missing
        if own and not missing:
            return  # the program writes to them by itself
        kind = "unreturned" if own else "cancelled" if sums else "zero-derivative"
        facts = {
            "inner": [f for f in first.get("inner", ()) if f["user"]][-1:],
            "measured": _strongest(look, MISSING if own else ZEROS),
            "functions": [first["function"]] if own else [],
            "equal": bool(first.get("equal")),
        }
        self._tell_dead(kind, first, target, missing if own else never, first["op"], facts)

    def cancelled(self, target: Target, chosen: set[int], jumps: bool, told: Any) -> None:
        """No loss depends on these parameters: what they are given is what rounding leaves behind these nodes."""
        ends = [] if isinstance(told, str) else [e for e in told["ends"] if any(f["user"] for f in e["frames"])]
        if ends and DEAD not in self._told:
            facts = {"rounding": ends[0]["how"], "jumps": jumps}
            self._tell_dead("zero-derivative", ends[0], target, chosen, "", facts)

    def at_rest(self, target: Target, result: Result) -> None:
        """The losses depend on these parameters, all that there are, and have no slope where they are and stay. One
        that is zero has come to its end."""
        told, losses = result.ends, [c["value"] for c in (result.base or {"calls": []})["calls"]]
        rest = {i for a in result.answers if a.answer == AGREES and not a.gradient for i in a.parameters}
        ends = [e for e in told["ends"] if any(f["user"] for f in e["frames"])] if isinstance(told, dict) else []
        if ends and any(losses) and len(rest) == len(target.parameters) and DEAD not in self._told:
            self._tell_dead("zero-derivative", ends[0], target, rest, "at rest", {"rest": ends[0]["how"]})

    def _tell_dead(
        self, kind: str, end: dict[str, Any], target: Target, chosen: set[int], key: str, facts: dict[str, Any]
    ) -> None:
        """The gradient of these parameters ends at this node, and did so at a step before."""
        facts |= {"op": end["op"], "count": self._probe.steps.get(id(target.optimizer), 0)}
        self._tell(kind, target, end["frames"], chosen, f"{key} {end['frames'][-1:]}", DEAD, **facts)

    def _tell(
        self,
        kind: str,
        target: Target,
        stack: list[dict[str, Any]],
        chosen: Iterable[int] = (),
        key: str = "",
        name: str = "",
        other: list[Frame] | None = None,
        names: Iterable[str] = (),
        count: int = ENOUGH,
        **facts: Any,
    ) -> None:
        """Tell this of the parameters at these positions, or of these ``names``, beside the latest backward call, if
        the same, by its ``key`` or its place, has been met at a step before; one sign of each kind or ``name``."""
        if not self._again((target.number, kind, key or str(stack[-1:]))) or (name or kind) in self._told:
            return
        last = self._probe.witness.journal.latest("backward")
        if other is None:
            other = self._probe.frames(last.raw) if last is not None else []
        names = sorted(names or self._names(target, chosen).values())
        sign = Sign(kind, _frames(stack), other, None, names, target.number, count=count, facts=facts)
        self._told[name or kind] = sign

    def _rests(self, parameter: Any) -> bool:
        """Whether it has the values that it had at an earlier look: what the program writes to it is another way to
        train it."""
        total = float(parameter.detach().double().sum())
        return self._totals.setdefault(id(parameter), total) == total

    def _again(self, key: Any) -> bool:
        self._places[key] = self._places.get(key, 0) + 1
        return self._places[key] >= ENOUGH

    @property
    def undecided(self) -> bool:
        """Whether something was met at one step, and is told once it is met at another."""
        return bool(self._places) and max(self._places.values()) < ENOUGH

    def _frames(self, raw: Any) -> list[dict[str, Any]]:
        return plain(self._probe.frames(raw))

    def never_given(self, target: Target, chosen: set[int]) -> set[int]:
        """Those that have never been given any gradient, as far as steps were looked at, that nothing else writes to,
        and that are to move: their learning rate is not zero. Or none but zeros, by which an optimizer may let them
        decay."""
        had, groups = self._probe.witness.journal.with_grad, target.optimizer.param_groups
        known = {id(p) for group in groups if group.get("lr") == 0.0 for p in held_by(group)}
        known.update(i for i in map(id, target.parameters) if had.get(i))
        found = {i for i in chosen if id(p := target.parameters[i]) not in known and self._rests(p)}
        return found | {i for i in chosen if id(target.parameters[i]) in self._by_zero}

    def by_zero(self, target: Target, zero: set[int], told: dict[str, Any]) -> set[int]:
        """Of these, whose gradient is zero, those whose graph leads to products with zero alone. As a loss depends on
        them, it does so by another way."""
        ends = told["ends"]
        found = zero if ends and all(e.get("by_zero") for e in ends) else set[int]()
        self._by_zero |= {id(target.parameters[i]) for i in found}
        return found

    @staticmethod
    def _positions(target: Target, chosen: set[int]) -> list[int]:
        """Where they stand among all that the optimizer holds: the same in another run."""
        ids = {id(target.parameters[i]) for i in chosen}
        return [i for i, p in enumerate(parameters_of(target.optimizer)) if id(p) in ids]

    @staticmethod
    def _apart(target: Target, never: set[int]) -> bool:
        """Whether a group of the optimizer holds nothing that learns: somebody has handed these over by themselves."""
        ids = {id(target.parameters[i]) for i in never}
        groups = [{id(p) for p in held_by(group) if p.requires_grad} for group in target.optimizer.param_groups]
        return any(g and g <= ids for g in groups)

    def _is_on_top(self, target: Target, never: set[int], places: list[list[Record]]) -> bool:
        """Whether a ``detach`` ends what these compute of what parameters beside them have learned, or a graph was
        recorded from them to a block that records nothing. A network that is left as it was made, or that was loaded,
        gets data, or runs in such a block; or one of the same shapes learns beside it."""
        audit, had = self._probe.witness.audit, self._probe.witness.journal.with_grad
        idle = {id(target.parameters[i]) for i in never}
        learning = {i for p in target.parameters if (i := id(p)) not in idle and had.get(i)}
        if audit is None or idle & audit.unheld.brought:
            return False
        inside = records_behind([rs[-1] for rs in places], NEAR)
        handed = (r for r in inside if not r.recording and r.origins and all(o.op for o in r.origins))
        learned = any(r.recording and r.behind & learning for *_, r in places)
        shapes = {p.shape for p in target.parameters if id(p) in learning}
        alone = any(target.parameters[i].shape not in shapes for i in never)
        return (learned and alone) or any(r.behind & idle for r in handed)

    def signs(self) -> list[Sign]:
        """What there is to tell by now."""
        signs = list(self._signs.values())
        if self._why and not signs:
            signs = [Sign(evidence.GRADIENTS, weak=True, facts={"why": self._why, "looks": []})]
        for sign in signs:
            sign.facts["complete"] = self.complete
        return [*signs, *self._told.values()]


def _frames(told: list[dict[str, Any]]) -> list[Frame]:
    """A stack that a fork has told."""
    return [Frame(**f) for f in told]


def _is_of_the_program(record: Record, frames: list[dict[str, Any]]) -> bool:
    """Whether a line of the user's does this: by itself, or by switching recording off around it."""
    if not record.recording:
        return record.switch is not None and is_users(record.switch)
    return bool(frames) and bool(frames[-1]["user"])


def _is_a_copy(record: Record) -> bool:
    """Whether Python or torch does this: they cut only where a copy is asked for (``copy.deepcopy`` of a module), or a
    draw, which is none."""
    if is_draw(record):
        return False
    files = (str(code.co_filename) for code in record.raw.raw[::2])
    return next((f for f in files if not f.startswith(OURS)), "").startswith((copy.__file__, torch.__path__[0]))


def _strongest(look: dict[str, Any], kind: str) -> list[float]:
    """The slope of the loss that depends most on them, the loss, and whether it moves in steps alone."""
    found = [(a["slope"], a["loss"], a["jumps"]) for a in look["answers"] if a["answer"] == kind]
    return list(max(found, key=lambda f: abs(f[0]), default=(0.0, 0.0, False)))
