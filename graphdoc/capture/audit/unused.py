"""Losses, and terms of losses, whose gradients nobody uses.

A generator's loss on detached images trains the discriminator alone, whose optimizer clears those gradients before it
steps; the step behind the loss is the generator's, and finds nothing. Told from the graph of the looked-at calls, from
who steps, and from what is cleared. A second run sees where the values were cut off.
"""

from __future__ import annotations

import sys
from sys import _getframe
from typing import TYPE_CHECKING, Any

import torch._C as torch_c

from graphdoc.capture import event_stacks
from graphdoc.capture.audit.terms import TermWatch
from graphdoc.capture.code_places import shown_file
from graphdoc.capture.facts import grad_fn_of, parameters_of, storage_of, user_frames
from graphdoc.capture.frames import frames_of, optimizer_functions, site_of
from graphdoc.capture.names import Census
from graphdoc.capture.number_facts import numbers_of
from graphdoc.capture.parts import Part
from graphdoc.capture.quiet import Unseen
from graphdoc.capture.search_roots import roots_of
from graphdoc.capture.summands import terms_of
from graphdoc.evidence import Sign

if TYPE_CHECKING:
    from graphdoc.capture.audit import Audit
    from graphdoc.capture.cut_records import Record
    from graphdoc.capture.journal import Entry, Noted, Seen


MOST_LOOKS = 16
"""Backward calls whose terms are walked through."""
MOST_TERMS = 20
MOST_WAITING = 20
LAST = 40
"""Steps of an optimizer after which nothing is waited for any more."""
ENOUGH = 2
"""Calls whose gradients were cleared before they were used."""


class Term:
    """One term of a loss: the ids of the leaves behind it, and the cuts behind its constants where those are seen."""

    def __init__(self, position: int, leaves: frozenset[int], cuts: list[Record]) -> None:
        self.position, self.leaves, self.cuts = position, leaves, cuts


class _Waiting:
    """A term that passes by the optimizer which has stepped for its loss, until it is known who uses it."""

    def __init__(self, seen: Seen, noted: Noted, term: Term, mine: frozenset[int], whole: bool) -> None:
        self.optimizer, self.noted, self.term, self.mine, self.whole = seen.id, noted, term, mine, whole
        self.key = (seen.id, site_of(event_stacks.stack_of_seen(noted[3])), term.position)


class Unused:
    """``suspect-unused`` asks for a second run, which tells ``cut-off`` (the whole loss passes by its optimizer, whose
    parameters have never had a gradient) or ``cut-term`` (a term of it does) by ``Losses.tell_cut``."""

    def __init__(self, audit: Audit, watch: TermWatch | None) -> None:
        self._audit, self._watch = audit, watch
        self._looks = 0
        self._calls: list[tuple[Noted, list[Term]]] = []
        """The looked-at calls since the latest step."""
        self._waiting: list[_Waiting] = []
        self._held: set[int] = set()
        """Ids of the parameters of optimizers that have stepped."""
        self._counts: dict[Any, int] = {}
        self._used: set[Any] = set()
        self._found: list[Sign] = []

    def called(self, noted: Noted, outputs: Any, leaves: dict[int, Any]) -> None:
        """A backward call is about to run."""
        self._settle(leaves)
        terms: list[Term] = []
        if self._looks < MOST_LOOKS:
            self._looks += 1
            terms = self._terms([grad_fn_of(t) for t in outputs if hasattr(t, "grad_fn")])
        self._calls.append((noted, terms))

    def _terms(self, roots: list[Any]) -> list[Term]:
        found = []
        for position, node in enumerate(terms_of(roots)[:MOST_TERMS]):
            part = Part(node)
            cuts = self._watch.cuts_behind(part.nodes.values()) if self._watch is not None else []
            found.append(Term(position, frozenset(part.leaves), cuts))
        return found

    def _settle(self, leaves: dict[int, Any]) -> None:
        """Another call reaches what such a term has reached: were its gradients cleared before?"""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            common = [leaves[i] for i in one.term.leaves if i in leaves]
            if not common:
                self._waiting.append(one)
            elif self._is_clear(common[0]):
                self._confirm(one)
            else:
                self._used.add(one.key)

    def _is_clear(self, parameter: Any) -> bool:
        with Unseen(self._audit.torch, self._audit.witness.anomaly, None), self._audit.torch.no_grad():
            grad = parameter.grad
            if grad is None:
                return True
            numbers = numbers_of(grad) if grad.device.type != "cuda" else None
            return numbers is not None and not bool(numbers.any())

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped."""
        calls, self._calls = self._calls, []
        if seen.steps > LAST:
            self._waiting.clear()
        if not calls and not self._waiting:
            return
        every = parameters_of(optimizer)
        mine = frozenset(id(p) for p in every if p.requires_grad)
        self._held.update(mine)
        for one in self._waiting:
            if one.term.leaves & mine:
                self._used.add(one.key)
        self._waiting = [one for one in self._waiting if one.key not in self._used]
        if len(calls) != 1 or not mine or len(self._waiting) >= MOST_WAITING:
            return
        noted, terms = calls[0]
        whole = bool(terms) and not any(t.leaves & mine for t in terms)
        if whole and any(p.grad is not None or self._audit.journal.with_grad.get(id(p)) for p in every):
            return  # it uses what another call has left
        for term in terms:
            one = _Waiting(seen, noted, term, mine, whole)
            if term.leaves and not term.leaves & mine and one.key not in self._used:
                self._waiting.append(one)

    def _confirm(self, one: _Waiting) -> None:
        if one.key in self._used or not one.term.leaves <= self._held:
            return
        self._counts[one.key] = self._counts.get(one.key, 0) + 1
        if self._counts[one.key] < ENOUGH:
            return
        if self._watch is None:
            if not self._found:
                stack = frames_of(event_stacks.stack_of_seen(one.noted[3]), self._audit.witness.cwd)
                sign = Sign("suspect-unused", stack, event=one.noted[0], optimizer=one.optimizer, weak=True)
                sign.count = ENOUGH
                self._found.append(sign)
            return
        record = next((r for r in one.term.cuts if r.behind & one.mine), None)
        if record is not None:
            kind = "cut-off" if one.whole else "cut-term"
            behind = frozenset().union(*(r.behind for r in one.term.cuts)) & one.mine
            self._audit.losses.tell_cut(one.noted, kind, record, behind)

    def signs(self) -> list[Sign]:
        return self._found


# Gradients that the program keeps while they are the parameter's own: what clears or adds to one changes both.

MOST_SEARCHES = 6


class Aliases:
    """``grad-aliased``: ``stack`` is the backward call that is about to add to what is kept; ``facts["kept"]`` says
    under which names, in which functions and lines."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._searches = 0
        self._found: dict[Any, Sign] = {}
        self._alone: tuple[int, int] | None = None
        """What ``_references`` counts for a gradient that nobody else keeps."""

    def called(self, noted: Noted, leaves: dict[int, Any]) -> None:
        """A backward call is about to run and will add to the gradients of these leaves."""
        if self._searches >= MOST_SEARCHES or all(p.grad is None for p in leaves.values()):
            return
        shared: dict[Any, Any] = {}
        with Unseen(self._audit.torch, self._audit.witness.anomaly, None):
            try:
                alone = self._alone = self._alone or _references(_alone(self._audit.torch))
                for p in leaves.values():
                    if p.grad is not None and any(n > m for n, m in zip(_references(p), alone, strict=True)):
                        shared[storage_of(p.grad)] = p
            except (AttributeError, RuntimeError, TypeError, NotImplementedError):
                return  # gradients that are no plain tensors
        if shared:
            self._searches += 1
            self._search(noted, shared)

    def _search(self, noted: Noted, shared: dict[Any, Any]) -> None:
        """Under which names of the functions that are running the shared gradients are kept."""
        audit, frame = self._audit, _getframe(1)
        with Unseen(audit.torch, audit.witness.anomaly, frame):
            running = user_frames(frame)
            cwd = audit.witness.cwd
            lines = {(f.f_code.co_qualname, shown_file(f.f_code.co_filename, cwd)): f.f_lineno for f in running}
            census = Census(roots_of(running), audit.torch)
            kept: dict[tuple[str, str, str], dict[str, Any]] = {}
            owned = {id(p) for p in shared.values()}
            for ident in census.tensor_paths:
                tensor = census.tensors[ident]
                parameter = shared.get(storage_of(tensor))
                if parameter is None or ident in owned:
                    continue
                for holder in census.holders(ident, True, audit.witness.cwd):
                    line = lines.get((holder.function, holder.file))
                    if line is None or len(holder.steps) == 1:
                        continue  # a single name is most often what a loop has left behind
                    at = kept.setdefault((holder.base, holder.function, holder.file), {"line": line, "parameters": []})
                    name = census.parameter_names.get(id(parameter))
                    if name and name not in at["parameters"]:
                        at["parameters"].append(name)
        if not kept:
            return
        audit.snapshot()
        raw = event_stacks.stack_of_seen(noted[3])
        for (name, function, file), at in kept.items():
            sign = self._found.get((name, function, file))
            if sign is None:
                sign = self._found[(name, function, file)] = Sign(
                    "grad-aliased", frames_of(raw, audit.witness.cwd), parameters=sorted(at["parameters"])
                )
                sign.facts = {"name": name, "function": function, "file": file, "line": at["line"]}
            sign.count += 1
            sign.event = noted[0]
        audit.tell_early()

    def signs(self) -> list[Sign]:
        return list(self._found.values())


def _references(parameter: Any) -> tuple[int, int]:
    """How many names there are for a parameter's gradient, and how many tensors share its memory."""
    grad = parameter.grad
    memory = torch_c._storage_Use_Count(grad.untyped_storage()._cdata)
    return sys.getrefcount(grad), int(memory)


def _alone(torch: Any) -> Any:
    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    return parameter


# Gradients that are cleared before each backward call, while several calls go by from one step to the next.

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
