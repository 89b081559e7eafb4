"""Losses, terms, sums and bounds of gradients that no step uses.

A generator's loss on detached images trains the discriminator alone, whose optimizer clears those gradients before it
steps; the step behind the loss is the generator's, and finds nothing. Or it trains a network of features that no
optimizer holds. Told from the graph of the looked-at calls, from who steps, and from what is cleared or never used. A
second run sees where the values were cut off.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from inspect import GEN_CREATED, getgeneratorstate
from itertools import islice
from sys import _getframe
from types import CodeType, GeneratorType
from typing import Any, NamedTuple

from torch.nn.utils import clip_grad

from graphdoc.capture.audit.growing import values_at_hand
from graphdoc.capture.audit.watch import ENOUGH, FEW, OFTEN, Early, EngineCall, Sparse, Watch
from graphdoc.capture.events.cut_records import Record
from graphdoc.capture.events.journal import Entry, Noted, Seen
from graphdoc.capture.graph.summands import SUMS, Part, terms_of, top_of
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import is_user_file, lines_of
from graphdoc.capture.places.frames import made_at, site_of
from graphdoc.capture.tensors.facts import grad_fn_of, parameters_of
from graphdoc.capture.tensors.number_facts import has_memory, is_zero
from graphdoc.evidence import Frame, Sign

MOST_LOOKS = 16
"""Backward calls whose terms are walked through."""
MOST_TERMS = 20
MOST_WAITING = 20
LAST = 40
"""Steps of an optimizer after which nothing is waited for any more."""


class Term(NamedTuple):
    """One term of a loss: the ids of the leaves behind it, and the cuts behind its constants where those are seen."""

    position: int
    leaves: frozenset[int]
    cuts: list[Record]


class _Waiting:
    """A term that passes by the optimizer which has stepped for its loss, until it is known who uses it."""

    def __init__(self, seen: Seen, noted: Noted, term: Term, mine: frozenset[int], whole: bool) -> None:
        self.optimizer, self.noted, self.term, self.mine, self.whole = seen.id, noted, term, mine, whole
        self.key = (seen.id, site_of(stacks.stack_of_seen(noted[3])), term.position)
        self.left = set(term.leaves)
        """Those whose gradients may be used yet: not seen cleared since."""


class Unused(Watch):
    """``suspect-unused`` asks for a second run, which tells ``cut-off`` (the whole loss passes by its optimizer, whose
    parameters have never had a gradient) or ``cut-term`` (a term of it does) by ``Losses.tell_cut``. ``passed-by``: the
    whole loss (``stack``) trains ``parameters`` alone, which no optimizer holds, and ``optimizer`` steps for it: all
    that it holds is another optimizer's as well."""

    def set_up(self) -> None:
        self._watch = self._audit.losses.watch
        self._calls: list[tuple[Noted, list[Term]]] = []
        """The looked-at calls since the latest step."""
        self._waiting: list[_Waiting] = []
        self._held: set[int] = self._journal.living.forgetting(set())
        """Ids of the parameters of optimizers that have stepped."""
        self._used: set[Any] = set()
        self._idle: set[int] = self._journal.living.forgetting(set())
        """Ids of what backward calls reach again and again and nobody trains."""
        self._untrained: set[int] = self._journal.living.forgetting(set())
        """Those of the term that was told."""

    def called(self, call: EngineCall) -> None:
        self._settle(call.leaves)
        roots = call.roots if self._may_look(MOST_LOOKS) else []
        terms = []
        for position, part in enumerate(map(Part, terms_of(roots)[:MOST_TERMS] if roots else ())):
            cuts = self._watch.cuts_behind(part.nodes.values()) if self._watch is not None else []
            terms.append(Term(position, frozenset(part.leaves), cuts))
        self._calls.append((call.noted, terms))

    def _settle(self, leaves: dict[int, Any]) -> None:
        """Another call reaches some of what such a term has reached: which of their gradients were cleared before, or
        are those of what nobody trains?"""
        waiting, self._waiting = self._waiting, []
        again = {i for one in waiting for i in one.left if i in leaves}
        idle = self._audit.unheld.idle(again - self._held) if not self._found else set()
        self._idle |= idle
        grads = ((i, leaves[i].grad) for i in again)
        over = idle | {i for i, g in grads if g is None or (g.device.type != "cuda" and is_zero(g))}
        for one in waiting:
            one.left -= over
            if one.left:
                self._waiting.append(one)
            else:
                self._confirm(one)

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        calls, self._calls = self._calls, []
        if seen.steps > LAST:
            self._waiting.clear()
        if not calls and not self._waiting:
            return
        every = parameters_of(optimizer)
        mine = frozenset(id(p) for p in every if p.requires_grad)
        self._held.update(mine)
        for one in self._waiting:
            if one.left & mine:
                self._used.add(one.key)
        self._waiting = [one for one in self._waiting if one.key not in self._used]
        if len(calls) != 1 or not mine or len(self._waiting) >= MOST_WAITING:
            return
        noted, terms = calls[0]
        whole = bool(terms) and not any(t.leaves & mine for t in terms)
        had = {} if self._journal.is_double(seen) else self._journal.with_grad
        if whole and any(p.grad is not None or had.get(id(p)) for p in every):
            return  # it uses what another call has left
        for term in terms:
            one = _Waiting(seen, noted, term, mine, whole)
            if term.leaves and not term.leaves & mine and one.key not in self._used:
                self._waiting.append(one)

    def _confirm(self, one: _Waiting) -> None:
        known = one.key not in self._used and one.term.leaves <= self._held | self._idle
        if not known or not self._often(one.key, OFTEN):
            return
        untrained = one.term.leaves - self._held
        journal = self._journal
        stepping = journal.optimizers.get(one.optimizer)
        if one.whole and untrained == one.term.leaves and stepping is not None and journal.is_double(stepping):
            if not self._found:
                self._untrained |= untrained
                self._report(self._sign("passed-by", one.noted, None, untrained, optimizer=one.optimizer, count=OFTEN))
            return
        if self._watch is None:
            if not self._found:
                sign = self._sign_at("suspect-unused", one.noted, optimizer=one.optimizer, count=OFTEN, weak=True)
                self._found.append(sign)
                self._untrained |= untrained
            return
        record = next((r for r in one.term.cuts if r.behind & one.mine), None)
        if record is not None:
            kind = "cut-off" if one.whole else "cut-term"
            behind = frozenset().union(*(r.behind for r in one.term.cuts)) & one.mine
            self._audit.losses.tell_cut(one.noted, kind, record, behind, not one.term.leaves <= self._held)

    def signs(self) -> list[Sign]:
        """What was found, unless an optimizer has been given it since."""
        return [] if self._untrained & self._journal.held() else self._found


# Sums that hold a loss and are never differentiated: what is added there trains nobody.

FIRST, LATEST = 2, 4
"""Steps of an optimizer before which the running functions' sums are looked at."""
MOST_CALLS = 2_000
MOST_LEFT = 4
"""Terms of one sum that are walked through."""


class BesideLoss(Early):
    """``suspect-beside``, weak: ``stack`` is the sum, ``optimizer`` has stepped by the loss alone, and no later call
    goes through the sum or its other terms. A second run differentiates these."""

    def set_up(self) -> None:
        self._roots: list[int] = []
        """Sequence numbers of what was differentiated."""
        self._known: dict[int, int] = {}
        """By optimizer: how many of them there were at its latest step."""
        self._through: set[int] = set()
        """Those of all that was added up in it."""
        self._seen: dict[Any, tuple[set[Any], Sign]] = {}
        """By the place of the sum: the places of its other terms too."""
        self._lines: set[Any] = set()
        """The places of all these calls."""
        self._made: list[stacks.Stack] = []
        """Where what the latest of them differentiated was made."""

    def began(self, call: EngineCall) -> None:
        optimizers = self._journal.optimizers.values()
        looks = len(self._roots) < MOST_CALLS and not (optimizers and all(seen.steps > LATEST for seen in optimizers))
        if not looks and not self._seen:
            return
        roots = [n for n in call.roots if n is not None]
        top = top_of(roots)
        made = _places(top) if self._seen else set()
        # The turn of a sum, or of one of its other terms, may come: a weight that grows from zero.
        self._seen = {at: kept for at, kept in self._seen.items() if at not in made and kept[0].isdisjoint(made)}
        line = site_of(stacks.stack_of_seen(call.noted[3]))
        if self._seen and line not in self._lines:
            # A line of its own, which runs now and then, may make the term anew.
            reached = set[int]().union(*(Part(n).leaves for n in roots))
            own = {seen.id for seen in optimizers if not reached.isdisjoint(seen.parameters)}
            self._seen = {at: kept for at, kept in self._seen.items() if kept[1].optimizer not in own}
        self._lines.add(line)
        if looks:
            self._roots += [n._sequence_nr() for n in roots]
            self._made = [kept for n in roots if (kept := stacks.stack_of(n)) is not None]
            self._through |= {n._sequence_nr() for n in top}

    asked = began

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped: which sums of what it was differentiated for are at hand?"""
        before, self._known[seen.id] = self._known.get(seen.id, 0), len(self._roots)
        audit = self._audit
        if not FIRST <= seen.steps <= LATEST or before == len(self._roots):
            return
        mine = set(self._roots[before:])
        for value, of_list in values_at_hand(audit.running(), audit.torch):
            node = None if of_list or value.numel() != 1 else grad_fn_of(value)
            left = self._lost(node, mine) if node is not None else []
            kept = stacks.stack_of(node) if left else None
            if kept is not None:
                through = [n for n in top_of([node]) if n._sequence_nr() in self._through]
                self._seen.setdefault(site_of(kept), (_places(left) - _places(through), self._sign_of(kept, seen)))
        for kept in self._made if seen.steps == LATEST else ():
            code = next((c for c in kept.raw[::2] if isinstance(c, CodeType) and is_user_file(c.co_filename)), None)
            if code is None or code.co_name == "<module>":
                continue  # the variables of a module are still there, and were looked at
            line = self._line(kept)
            if line and sum_in_text(code.co_filename, line[0]["line"]):
                self._seen.setdefault(str(line), (set(), self._sign_of(kept, seen)))

    def _sign_of(self, kept: stacks.Stack, seen: Seen) -> Sign:
        return self._sign_at("suspect-beside", kept, optimizer=seen.id, count=seen.steps, weak=True)

    def _lost(self, node: Any, mine: set[int]) -> list[Any]:
        """The terms of this sum that lead to parameters and that no call goes through; none where the sum holds none
        of these losses, or is part of one."""
        own = type(node).__name__ in SUMS and node._sequence_nr() not in self._through
        if not own or mine.isdisjoint(n._sequence_nr() for n in top_of([node])):
            return []
        held = self._journal.held()
        left = (t for t in terms_of([node]) if t._sequence_nr() not in self._through)
        return [t for t in islice(left, MOST_LEFT) if not Part(t).leaves.isdisjoint(held)]

    def signs(self) -> list[Sign]:
        return [sign for _, sign in self._seen.values()]


def sum_in_text(file: str, line: int) -> bool:
    """Whether the function around a line adds to what is bound there, and takes nothing but the number of that sum,
    which is gone when the function has ended."""
    try:
        parts = list(ast.walk(ast.parse("".join(lines_of(file)))))
    except (SyntaxError, ValueError):
        return False
    inside = [n for n in parts if isinstance(n, ast.FunctionDef) and n.lineno <= line <= (n.end_lineno or 0)]
    parts = list(ast.walk(inside[-1])) if inside else []
    bound = [n for n in parts if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    names = {ast.unparse(n.targets[0]) for n in bound if n.lineno <= line <= (n.end_lineno or 0)}
    sums = [n for n in bound if isinstance(n.value, ast.BinOp) and n.lineno > line]
    added = {
        ast.unparse(n.targets[0]) for n in sums if names & {i.id for i in ast.walk(n.value) if type(i) is ast.Name}
    }
    numbers = {n.value for n in parts if isinstance(n, ast.FormattedValue)}
    numbers |= {n.value for n in parts if isinstance(n, ast.Attribute) and n.attr in ("item", "detach")}
    numbers |= {
        a for n in parts if isinstance(n, ast.Call) and ast.unparse(n.func) in ("float", "print") for a in n.args
    }
    reads = {n: n.id for n in parts if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    as_number = {name for n, name in reads.items() if n in numbers}
    return bool(added & as_number - names - {name for n, name in reads.items() if n not in numbers})


def _places(nodes: list[Any]) -> set[Any]:
    """Where these were made, as far as that was kept."""
    return {made_at(n) for n in nodes} - {None}


# Calls that bound the gradients, and whether any step uses what they bound.

EACH = 6
"""Calls that are looked at from each place."""
MOST = 40
"""Calls that are looked at in all."""
_FUNCTIONS = ("_clip_grads_with_norm_", "clip_grad_value_")
"""Of ``torch.nn.utils.clip_grad``; the first one does the work of ``clip_grad_norm_`` (PyTorch 2.6 and later)."""


def _given(parameters: Any, torch: Any) -> list[Any] | tuple[Any, ...] | None:
    """The parameters that a call is given, with nothing taken from an iterator: one of ``Module.parameters()`` that
    has not begun still holds its module, one that has ended holds nothing. None where that cannot be known."""
    if isinstance(parameters, list | tuple):
        return parameters
    if type(parameters) is not GeneratorType:
        return None
    if parameters.gi_frame is None:
        return []
    own, known = torch.nn.Module.parameters, parameters.gi_frame.f_locals
    fresh = parameters.gi_code is own.__code__ and getgeneratorstate(parameters) == GEN_CREATED
    return list(own(known["self"], known["recurse"])) if fresh else None


@dataclass(frozen=True)
class _Clip:
    """One call: where, between which events, the calls of scalers before it, whether it found gradients, whether it had
    to bound them, as far as that is known without waiting for a GPU, and a step of theirs if the latest backward call
    has run one for each of their optimizers."""

    raw: stacks.Stack
    index: int
    ids: set[int]
    scaler: list[Any]
    found: bool
    bounds: bool
    within: Entry | None


class Clips(Sparse):
    """``clip-unused``: ``stack`` is the call that bounds, ``other`` the call that it has to change places with or stand
    in front of; ``facts["how"]`` is ``after-step``, ``in-backward`` (``other`` is a step that a hook has made while
    backward ran), ``others-step`` (``other`` uses gradients of other parameters),
    ``nobodys`` (those that it bounds have no gradient, and no optimizer),
    ``before-backward`` or ``before-unscale``; ``facts["bounds"]`` whether any of the calls had something to bound,
    ``facts["early"]`` whether the first one found no gradient: it stands in front of backward. Or ``nothing-given``:
    the call has no parameters to bound, while ``other`` steps; the source has to tell why."""

    def set_up(self) -> None:
        self._clips: list[_Clip] = []
        self._within: dict[int, int] = {}
        """By optimizer: the latest call of backward that has run a step of it, in a hook."""
        self._over = self._judged = False
        for name in _FUNCTIONS:
            self._audit.witness.watch(clip_grad, name, "calls that bound gradients", before=self._note)

    def _note(self, parameters: Any, bound: Any, norm: Any, *_: Any) -> None:
        """The gradients of these parameters are about to be bounded."""
        if self._over:
            return
        audit = self._audit
        every = [parameters] if isinstance(parameters, audit.torch.Tensor) else _given(parameters, audit.torch)
        if every is None or math.isinf(float(bound)):
            return  # what is only measured
        with audit.unseen():
            found = any(p.grad is not None for p in every)
            plain = isinstance(norm, audit.torch.Tensor) and norm.is_cpu and has_memory(norm)
            known = float(norm) if found and plain else None
        here = stacks.stack_of_frame(_getframe(2))  # _note < PyTorch's function
        ids = {id(p) for p in every}
        scaler, found = list(audit.witness.scaler.calls), found and known != 0.0
        bounds = not found or known is None or known > float(bound)
        clip = _Clip(here, audit.journal.count, ids, scaler, found, bounds, self._step_within(self._owners(ids)))
        self._clips.append(clip)
        self._over = len(self._clips) >= MOST or all(len(calls) >= EACH for calls in self._by_place())

    def _owners(self, ids: set[int]) -> set[int]:
        """The optimizers that have stepped one of these parameters (ids)."""
        return {s.id for s in self._journal.optimizers.values() if not ids.isdisjoint(s.parameters)}

    def _in_backward(self) -> bool:
        """Whether a backward call runs what happens now: in its own thread, or in one of a device, which calls none."""
        journal, running = self._journal, self._audit.witness.calls.running
        here = journal.here.number
        if not running or any(thread == here for *_, thread in running):
            return bool(running)
        return all(e.thread != here for e in journal.entries() if e.kind == "backward")

    def _step_within(self, owners: set[int]) -> Entry | None:
        """A step of one of these, where the latest backward call has run steps of them all."""
        latest = self._audit.witness.calls.latest
        every = bool(owners) and all(self._within.get(o) == latest for o in owners)
        return self._journal.latest("step", max(owners)) if every else None

    def of_nobody(self, loose: set[int], alone: bool = True) -> tuple[list[Frame], set[int], int] | None:
        """A call that bounds gradients of these alone again and again, or of others too, their ids, and the optimizer
        that steps behind it; None where there is none."""
        mine = [c for c in self._clips if c.found and c.ids & loose and (c.ids <= loose) is alone]
        mine = [c for c in mine if c.ids == mine[-1].ids]
        if len(mine) < FEW or not (alone or mine[-1].bounds):  # a bound that is never reached changes nothing
            return None
        after = (e for e in self._journal.entries() if e.index >= mine[0].index and e.kind == "step")
        step = next(after, None)
        return (self._frames(mine[-1].raw), mine[-1].ids & loose, step.optimizer) if step is not None else None

    # -- the end -------------------------------------------------------------------------------------------------

    def signs(self) -> list[Sign]:
        if not self._found and not self._judged and len(self._clips) >= ENOUGH:
            self._judge()
        return self._found

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        """An optimizer has stepped; once there is enough to judge by, while the program's names are there."""
        if not self._over and self._in_backward():
            self._within[seen.id] = self._audit.witness.calls.latest
        if self._over and not self._found and not self._judged:
            self._judge()
            if self._found:
                self._audit.tell_early()

    def _by_place(self) -> list[list[_Clip]]:
        places: dict[Any, list[_Clip]] = {}
        for clip in self._clips:
            places.setdefault((*map(id, clip.raw.raw[::2]), *clip.raw.raw[1::2]), []).append(clip)
        return list(places.values())

    def _judge(self) -> None:
        self._judged = self._over
        entries = self._journal.entries()
        for clips in self._by_place():
            if len(clips) < ENOUGH:
                continue
            seen = [self._how(clip, entries) for clip in clips]
            if seen[-1] is None:  # the call that decides has not come yet
                seen.pop()
            if not seen:
                continue
            if seen[0] is None or (seen[0][0] != "nothing-given" and not any(c.ids for c in clips[1:])):
                seen = seen[1:]
            hows = {how[0] if how is not None else "" for how in seen}
            if len(hows) == 1 and seen[-1] is not None and seen[-1][0]:
                self._tell(clips, *seen[-1])

    def _how(self, clip: _Clip, entries: list[Entry]) -> tuple[str, Entry | None] | None:
        """What keeps this call from having an effect, and the call that it is about; "" for nothing."""
        before = [e for e in entries if e.index < clip.index]
        after = [e for e in entries if e.index >= clip.index]
        step = next((e for e in after if e.kind == "step"), None)
        if not clip.ids:
            return ("nothing-given", step) if step is not None else None
        owners = self._owners(clip.ids)
        if clip.within is not None and not clip.found:
            return "in-backward", clip.within
        if not owners:
            return self._how_of_nobody(clip, before, step) if step is not None and not clip.found else None
        # A call before any of theirs may be an earlier training's: what it reached is not known of each.
        first = next((e.index for e in entries if e.optimizer in owners), clip.index)
        last = next((e for e in reversed(before) if e.index >= first and e.concerns(owners, clip.ids)), None)
        following = next((e for e in after if e.concerns(owners, clip.ids)), None)
        if last is None or following is None:
            return None
        if last.kind == "step" and following.kind == "zero_grad":
            # The step for which the call may have been meant: backward has run for it since, and it comes before these
            # are cleared. All networks may be bounded in front of each step.
            others = step if step is not None and step.index < following.index else None
            mine = self._used_by(others) if others is not None else set()
            since = [e for e in before if e.index > last.index and e.kind == "backward"]
            if others is None or not any(e.reaches and e.reaches & mine for e in since):
                return ("in-backward", clip.within) if clip.within is not None else ("after-step", last)
            beside = [c for c in self._clips if last.index < c.index <= others.index]
            return ("", None) if any(c.ids & mine for c in beside) else ("others-step", others)
        if not clip.found and following.kind == "backward" and following.reaches is not None:
            then = next((e for e in after if e.kind in ("step", "zero_grad") and e.optimizer in owners), None)
            return ("before-backward", following) if then is not None and then.kind == "step" else ("", None)
        if last.kind == "backward" and following.kind == "step" and self._is_scaled(last, clip):
            return "before-unscale", following
        return "", None

    def _used_by(self, step: Entry) -> set[int]:
        return {i for s in self._journal.optimizers.values() if s.id == step.optimizer for i in s.parameters}

    def _how_of_nobody(self, clip: _Clip, before: list[Entry], step: Entry) -> tuple[str, Entry | None]:
        """The same where no optimizer has one of these parameters: a copy of the network, and none has a gradient. The
        call stands between a backward call and the step that uses its gradients, which nothing else bounds."""
        mine = self._used_by(step)
        last = next((e for e in reversed(before) if e.kind == "step" or (e.reaches or set()) & mine), None)
        start = last.index if last is not None else 0
        bounded = any(c.ids & mine for c in self._clips if start <= c.index <= step.index)
        return ("nobodys", step) if last is not None and last.kind == "backward" and not bounded else ("", None)

    def _is_scaled(self, backward: Entry, clip: _Clip) -> bool:
        """Whether a scaler steps behind this call and has not unscaled in front of it."""
        unscaled = any(kind == "unscale_" and index > backward.index for kind, _, index, _, _ in clip.scaler)
        calls = self._audit.witness.scaler.calls
        return not unscaled and any(kind == "step" and index == clip.index for kind, _, index, _, _ in calls)

    def _tell(self, clips: list[_Clip], how: str, about: Entry | None) -> None:
        clip, bounds = clips[-1], any(c.bounds for c in clips)
        sign = self._sign("clip-unused", clip.raw, about, clip.ids)
        sign.optimizer = min(self._owners(clip.ids), default=about.optimizer if about is not None else -1)
        sign.event, sign.count = clip.index, ENOUGH
        sign.facts = {"how": how, "bounds": bounds, "early": not clips[0].found}
        self._found.append(sign)
