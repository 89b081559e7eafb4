"""Gradients that are never cleared, cleared too early, or kept while clearing changes them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from itertools import pairwise, takewhile
from typing import Any

import torch._C as torch_c

from graphdoc.capture.audit.watch import ENOUGH, FEW, Early, EngineCall, Sparse, Watch
from graphdoc.capture.events.journal import Entry, Noted, Seen
from graphdoc.capture.places import stacks
from graphdoc.capture.places.code_places import is_user_file, shown_file
from graphdoc.capture.places.frames import optimizer_functions, plain, site_of
from graphdoc.capture.tensors.access_paths import roots_of
from graphdoc.capture.tensors.facts import has_gradient, is_hooked, parameters_of, storage_of
from graphdoc.capture.tensors.living import Ref
from graphdoc.capture.tensors.names import Census
from graphdoc.capture.tensors.number_facts import numbers_of, some_of
from graphdoc.evidence import Holder, Sign

LAST = 8
"""Steps of an optimizer after which it is looked at no more."""
MOST_SAMPLED = 3
"""Parameters whose gradient is followed."""
MOST_ELEMENTS = 4096


class _Followed:
    """What is known of one optimizer: its gradients as its latest step left them, and what has happened since."""

    def __init__(self) -> None:
        self.left: dict[int, tuple[Any, int, int, float]] = {}
        """By parameter: a reference, the identity of its gradient, its version and a sum over it."""
        self.reached: set[int] = set()
        """Of these, those that a backward call has reached since."""
        self.thrown: stacks.Stack | None = None
        """Where gradients were thrown away since the latest backward call that reached them."""
        self.backward: Noted | None = None
        self.sane: set[int] = set()
        """Parameters that a backward call has found without a gradient after a step."""
        self.calls: set[int] = set()
        """The backward calls that have reached it since its gradients were thrown away."""
        self.used = False
        """Whether another optimizer has stepped with gradients of that backward call: what is left was its own."""
        self.previous = -1
        self.healthy = False
        self.kept = self.lost = self.idle = 0
        """Steps that used what earlier ones had used, that found everything thrown away, that no backward preceded."""
        self.fed: list[Noted] = []
        """The backward calls of which its gradients are made."""
        self.own: set[Any] = set()
        """The places of those that led to its first step."""
        self.leaked: list[int] = []
        """The steps that used what another optimizer's loss had left as well."""
        self.spent: list[Noted] = []
        """The backward calls whose gradients the latest step used, and that were the last that it was made of."""
        self.after: dict[int, Any] = {}
        """What it left of a few gradients, by parameter."""
        self.again: list[tuple[int, Noted, Noted]] = []
        """The steps that used what the step before had used: with a call of that one, and the first of its own."""
        self.twice = False
        """Whether these were told."""
        self.cleared: stacks.Stack | None = None

    def always(self, steps: int) -> bool:
        """Whether each of so many steps was one of those that count."""
        return not self.healthy and steps - self.idle == (self.lost or self.kept + 1)


class Clearing(Sparse):
    """``never-cleared``: each step uses the gradients of all backward calls so far. ``stack`` is the first backward
    call of an iteration, ``other`` the step; ``facts["closure"]`` tells that the step calls it, ``facts["between"]``
    that another optimizer's loss reaches the parameters between two steps, ``facts["own"]`` that nothing but the
    parameters keeps those that are followed, ``facts["clear"]`` what clears other parameters of this optimizer alone.
    ``cleared-early``: each step finds no
    gradient. ``stack`` is the call of ``zero_grad`` between backward and step, ``other`` the backward call,
    ``facts["first"]`` the step where the first one came before any backward call. ``added-twice``: two backward
    calls on one loss, ``other`` and ``stack``, and a step that uses the sum. ``left-over``: each step but the first
    uses what a call, ``other``, has left by whose gradients another optimizer has stepped; ``stack`` is the first
    call of its own, ``facts["clear"]`` the place that clears, ``facts["step"]`` that of the step. ``used-twice``:
    between steps that begin anew, a step, ``facts["step"]``, uses what ``stack`` has added to the gradients of
    ``other``, by which the step before was made; ``facts["one"]``: both are the same line, and ``facts["clear"]`` is
    outside of its loop; ``facts["others"]``: another optimizer is cleared for that call and steps by it."""

    def set_up(self) -> None:
        self._followed: dict[int, _Followed] = {}
        self._latest: Noted | None = None
        self._root: tuple[tuple[int, int, int], Noted] | None = None
        """The latest backward call on one number since gradients were cleared or used, by its root."""
        self._again: tuple[Noted, Noted, set[int]] | None = None
        """Two calls on one root that have both added to these parameters."""
        self._doubled = 0

    def called(self, call: EngineCall) -> None:
        first = call.outputs[0] if len(call.outputs) == 1 and not call.inputs else None
        whole = isinstance(first, self._audit.torch.Tensor) and first.numel() == 1  # on one number, for all behind it
        leaves = {id(t): t for t in call.inputs if id(t) in call.leaves} if call.inputs else call.leaves
        self._latest = call.noted
        self._compare_roots(call.noted, leaves, whole)
        for seen in self._journal.optimizers.values():
            followed = self._followed.get(seen.id)
            if followed is None:
                continue
            if followed.left and not followed.healthy:
                self._compare(followed, leaves)
            if not seen.parameters or any(i in leaves for i in seen.parameters):
                followed.backward, followed.thrown, followed.used = call.noted, None, False
                followed.calls.add(call.noted[0])
                if seen.steps < LAST:
                    self._feed(followed, seen, call.noted, leaves)

    def _feed(self, followed: _Followed, seen: Seen, noted: Noted, leaves: dict[int, Any]) -> None:
        """A call is about to add to these gradients, or to begin them anew."""
        some = [leaves[i] for i in seen.parameters if i in leaves][:MOST_SAMPLED]
        states = {id(p): self._state(p) for p in some}
        if all(known is None or known[2] == 0.0 for known in states.values()):
            followed.fed.clear()
            followed.after.clear()
        elif not followed.fed and any(k != followed.after.get(i) for i, k in states.items() if k is None or k[2]):
            followed.after.clear()
        followed.fed.append(noted)

    def _compare_roots(self, noted: Noted, leaves: dict[int, Any], whole: bool) -> None:
        sequence, _, output, _, how, _ = noted[5] or (-1, "", -1, (), (False, False), None)
        root = (sequence, output, noted[6])
        if not whole or sequence < 0 or how[1]:
            self._root = self._again = None
        elif self._root is None or self._root[0] != root:
            self._root, self._again = (root, noted), None
        else:
            held = self._journal.held() or leaves.keys()  # before the first step none may be known
            states = {i: self._state(leaves[i]) for i in sorted(held & leaves.keys())[:MOST_SAMPLED]}
            added = {i for i, known in states.items() if known is not None and known[2] > 0.0}
            self._again = (self._root[1], noted, added) if added else None

    def _compare(self, followed: _Followed, leaves: dict[int, Any]) -> None:
        for ident, (ref, its, version, total) in followed.left.items():
            p = leaves.get(ident)
            if p is None or ref() is not p:
                continue
            known = self._state(p)
            first = ident not in followed.reached
            followed.reached.add(ident)
            if known is None or known[2] == 0.0:
                followed.sane.add(ident)
            elif first and known != (its, version, total):
                followed.healthy = True
        followed.sane.update(i for i, p in leaves.items() if p.grad is None)
        for ident in followed.sane & followed.left.keys():
            del followed.left[ident]
            followed.reached.discard(ident)

    def _state(self, parameter: Any) -> tuple[int, int, float] | None:
        """Identity, version and sum of magnitudes of a gradient; None where there is none, or none that can be read."""
        grad = parameter.grad
        if type(grad) is not self._audit.torch.Tensor or grad.is_inference() or (numbers := numbers_of(grad)) is None:
            return None
        return id(grad), grad._version, float(some_of(numbers, MOST_ELEMENTS).abs().double().sum())

    def zeroed(self, optimizer: Any, seen: Seen, raw: stacks.Stack) -> None:
        self._root = self._again = None
        followed = self._followed.setdefault(seen.id, _Followed())
        followed.cleared = raw
        if followed.reached:  # what a backward call has added to is thrown away before the next step
            followed.healthy = True
        if not followed.used and has_gradient(optimizer):
            followed.backward = followed.backward or self._latest
            followed.thrown = raw
        followed.calls.clear()

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        again, self._root, self._again = self._again, None, None
        if again is not None and any(id(p) in again[2] for p in parameters_of(optimizer)):
            self._doubled += 1
            if self._doubled == FEW:
                first, second, added = again
                self._report(self._sign("added-twice", second, first, added, optimizer=seen.id, count=FEW))
        if seen.steps > LAST:
            self._uses(seen)
            return
        followed = self._followed.get(seen.id)
        if followed is None:
            followed = self._followed[seen.id] = _Followed()
        if seen.steps == LAST:
            self._uses(seen)
            followed.left.clear()
            return
        every = parameters_of(optimizer)
        mine = [p for p in every if p.grad is not None]
        if mine:
            self._uses(seen)
        self._judge(followed, seen, mine, every)
        self._judge_sources(followed, seen, every)
        followed.previous = self._journal.count
        followed.left.clear()
        followed.reached.clear()
        if followed.healthy or not mine:
            return
        rest = [p for p in mine if id(p) not in followed.sane]
        some = [rest[0], rest[len(rest) // 2], rest[-1]][:MOST_SAMPLED] if rest else []
        # Which are cleared and which are not has to be told of each.
        for p in rest if followed.sane and followed.kept + 1 in (FEW, ENOUGH) else some:
            known = self._state(p)
            if known is not None and known[2] > 0.0:
                followed.left[id(p)] = (Ref(p), *known)

    def _uses(self, seen: Seen) -> None:
        """This optimizer has used the gradients of backward calls: what those left with the others is not theirs."""
        mine = self._followed.get(seen.id)
        for ident, other in self._followed.items():
            own = mine is not None and other.backward is not None and other.backward[0] not in mine.calls
            if ident != seen.id and not own:
                other.used = True

    def _judge(self, followed: _Followed, seen: Seen, mine: list[Any], every: list[Any]) -> None:
        for p in mine:  # what the program puts there itself, and no call reaches, tells nothing of the others
            if id(p) in followed.left.keys() - followed.reached and id(p.grad) != followed.left[id(p)][1]:
                del followed.left[id(p)]
        left = followed.left
        if followed.sane:
            for ident in left.keys() - followed.reached:
                del left[ident]
        if any(id(p) in left and id(p.grad) != left[id(p)][1] for p in mine):
            # Another tensor than the one that the step before has left: backward adds into that one, but for a call
            # that is to make a graph of its own (torch/csrc/autograd/functions/accumulate_grad.h).
            followed.healthy = followed.healthy or not any(e.create_graph for e in self._since(followed))
        if mine and followed.left and not followed.healthy and len(followed.reached) == len(followed.left):
            followed.kept += 1
            self._so_often(followed.kept, seen, lambda: self._never(followed, seen, mine))
        elif mine and followed.left:
            followed.healthy = True
        thrown = followed.thrown
        lost = not mine and thrown is not None and followed.backward is not None
        if lost and thrown is not None and "wrapper" in optimizer_functions(thrown):
            lost = False  # a step that is made of another's clears when it is done
        followed.lost = followed.lost + 1 if lost else 0
        followed.idle += not mine and followed.backward is None
        if lost and followed.lost == seen.steps - followed.idle:
            self._so_often(followed.lost, seen, lambda: self._lost(followed, seen, every))
        if mine:
            followed.thrown = None

    def _judge_sources(self, followed: _Followed, seen: Seen, every: list[Any]) -> None:
        """Whether this step has used what another optimizer's loss has left, and that one steps in turn with this:
        after one step of this, or each time after the same few."""
        fed, followed.fed = followed.fed, []
        calls = [e for e in self._since(followed) if e.kind == "backward"]
        # Not all calls are looked at: fewer of a line that several optimizers share than of others. Those before the
        # first step may be of another training.
        if seen.steps > 1 and any(e.reaches is None for e in calls):
            followed.spent, followed.after = [], {}
            return
        self._judge_spent(followed, seen, fed, every)
        if seen.steps == 1:
            ids = set(map(id, every))
            followed.own = {site_of(e.raw) for e in calls if e.may_reach(ids)}
            return
        sites = [site_of(stacks.stack_of_seen(noted[3])) for noted in fed]
        first = next((n for n, site in enumerate(sites) if site in followed.own), 0)
        if not first or not {*sites[first:]} <= followed.own:
            return
        foreign, mine = fed[first - 1], fed[first]
        steps = [e for e in self._journal.entries(foreign[0]) if e.kind == "step" and e.index < mine[0]]
        others = {e.optimizer for e in steps} - {seen.id}
        reached: Collection[int] = (foreign[5][5] if foreign[5] else None) or ()
        known = self._journal.optimizers.values()
        if not any(i in reached for o in known if o.id in others for i in o.parameters):
            return
        followed.leaked.append(seen.steps)
        turn = followed.leaked[0] - 1
        regular = all(step == n * turn + 1 for n, step in enumerate(followed.leaked, 1))
        if regular and len(followed.leaked) == (ENOUGH - 1 if turn < 3 else FEW) and followed.cleared is not None:
            facts = {"clear": self._facts(followed.cleared), "step": self._facts(self._latest_step(seen))}
            told = {"optimizer": seen.id, "count": len(followed.leaked), "facts": facts}
            self._report(self._sign("left-over", mine, foreign, map(id, every), **told))

    def _since(self, followed: _Followed) -> list[Entry]:
        return self._journal.entries(followed.previous)

    def _judge_spent(self, followed: _Followed, seen: Seen, fed: list[Noted], every: list[Any]) -> None:
        """Whether this step has used what the step before it had, which was made of another call, and the steps do so
        in turn: the ones begin anew, and the others add to what those have left."""
        spent, followed.spent = followed.spent, fed or followed.spent
        if fed and spent and followed.after:
            followed.again.append((seen.steps, spent[-1], fed[0]))
        followed.after = {id(p): s for p in every[:MOST_SAMPLED] if (s := self._state(p)) is not None and s[2]}
        places = {tuple(site_of(stacks.stack_of_seen(n[3])) for n in two) for _, *two in followed.again}
        if len(followed.again) < FEW or followed.cleared is None or len(places) != 1:
            return
        steps, one = [n for n, *_ in followed.again], len({*places.pop()}) == 1
        # Of one line, in rounds of as many steps, the first of each begins anew; of two lines in turn, every second.
        begun = steps == [*range(2, steps[-1] - 1), steps[-1]]
        if not (begun if one else len(steps) == FEW and steps[1] - steps[0] >= FEW) or followed.twice:
            return
        followed.twice = True
        _, other, own = followed.again[-1]
        facts = {"clear": self._facts(followed.cleared), "step": self._facts(self._latest_step(seen)), "one": one}
        # The call may be for another optimizer alone, which is cleared for it and steps by it.
        since = [e for e in self._journal.entries(other[0]) if e.optimizer != seen.id]
        cleared = {e.optimizer for e in since if e.kind == "zero_grad" and e.index < own[0]}
        facts["others"] = any(e.kind == "step" and e.index > own[0] and e.optimizer in cleared for e in since)
        told = {"optimizer": seen.id, "event": fed[0][0], "count": len(steps), "facts": facts}
        self._report(self._sign("used-twice", own, other, map(id, every), **told))

    # -- telling -------------------------------------------------------------------------------------------------

    def signs(self) -> list[Sign]:
        return [*self._found, *self._at_end(lambda seen: self._followed[seen.id].always(seen.steps))]

    def _never(self, followed: _Followed, seen: Seen, mine: list[Any]) -> Sign | None:
        audit = self._audit
        since = self._since(followed)
        others = [i for i, e in enumerate(since) if e.kind == "step" and e.optimizer != seen.id]
        ids = {*followed.left} if followed.sane else {id(p) for p in mine}
        own = [e for e in since[others[-1] + 1 if others else 0 :] if e.kind == "backward"]
        # Where all optimizers step behind one backward call, that call is everybody's.
        own = own or [e for e in since if e.kind == "backward" and e.may_reach(ids)][-1:]
        if not own or since[-1].kind != "step":
            return None
        reached = (i for i in ids if own[0].may_reach({i}))
        sign = self._sign("never-cleared", own[0], since[-1], reached, optimizer=seen.id)
        places = {e.place for e in own}
        sign.facts = {
            "closure": bool(optimizer_functions(own[0].raw)),
            "between": any(
                e.kind == "backward" and e.place not in places and e.may_reach(ids) for e in audit.journal.entries()
            ),
            "own": all(_is_alone(p, audit.torch) for p in mine if id(p) in followed.left),
        }
        if followed.sane and followed.cleared is not None:
            sign.facts["clear"] = self._facts(followed.cleared)
        return sign

    def _lost(self, followed: _Followed, seen: Seen, every: list[Any]) -> Sign:
        sign = self._sign("cleared-early", followed.thrown, followed.backward, map(id, every), optimizer=seen.id)
        if followed.idle and not followed.own:  # the first step of all came before any backward call
            sign.facts = {"first": self._facts(self._latest_step(seen))}
        return sign


# Gradients that the program keeps while they are the parameter's own: what clears or adds to one changes both.

MOST_SEARCHES = 6
DEEPEST, MOST_ITEMS = 5, 2_000
"""Of what optimizers keep."""


class Aliases(Watch):
    """``grad-aliased``: ``stack`` is the backward call that is about to add to what is kept; ``facts`` say under which
    name (or ``facts["entry"]``), in which function and line, or in an optimizer of which ``facts["class"]`` of the
    program's own."""

    def set_up(self) -> None:
        self._searches = 0
        self._alone: tuple[int, int] | None = None
        """What ``_references`` counts for a gradient that nobody else keeps."""

    def called(self, call: EngineCall) -> None:
        if self._searches >= MOST_SEARCHES or all(p.grad is None for p in call.leaves.values()):
            return
        shared: dict[Any, Any] = {}
        try:
            alone = self._alone = self._alone or _references(_alone(self._audit.torch))
            for p in call.leaves.values():
                if p.grad is not None and any(n > m for n, m in zip(_references(p), alone, strict=True)):
                    shared[storage_of(p.grad)] = p
        except (AttributeError, RuntimeError, TypeError, NotImplementedError):
            return  # gradients that are no plain tensors
        if shared:
            self._searches += 1
            self._search(call.noted, shared)

    def _search(self, noted: Noted, shared: dict[Any, Any]) -> None:
        """Under which names of the functions that are running the shared gradients are kept."""
        audit, running = self._audit, self._audit.running()
        cwd = audit.witness.cwd
        lines = {(f.f_code.co_qualname, shown_file(f.f_code.co_filename, cwd)): f.f_lineno for f in running}
        census = Census(roots_of(running), audit.torch)
        kept: dict[tuple[str, str, str], dict[str, Any]] = {}
        owned = {id(p) for p in shared.values()}
        for ident in census.tensor_paths:
            parameter = shared.get(storage_of(census.tensors[ident])) if ident not in owned else None
            for holder in census.holders(ident, True, cwd) if parameter is not None else ():
                line = lines.get((holder.function, holder.file))
                if line is not None and len(holder.steps) > 1:  # a single name is what a loop has left behind
                    at = kept.setdefault((holder.base, holder.function, holder.file), {"line": line, "of": set()})
                    at["of"].add(id(parameter))
                    entry = _entry(holder)
                    at["entry"] = entry if at.get("entry", entry) == entry else ""
        for cls, file, name, parameter in self._within_optimizers(shared):
            at = kept.setdefault((name, "", file), {"line": 0, "of": set(), "class": cls})
            at["of"].add(id(parameter))
        if not kept:
            return
        audit.snapshot()
        for (name, function, file), at in kept.items():
            sign = self._kept.get((name, function, file))
            if sign is None:
                names = sorted(census.parameter_names[i] for i in at.pop("of") if census.parameter_names.get(i))
                facts = {"name": name, "function": function, "file": file, **at}
                sign = self._sign_at("grad-aliased", noted, parameters=names, facts=facts)
                self._kept[name, function, file] = sign
            sign.count += 1
            sign.event = noted[0]
        audit.tell_early()

    def _within_optimizers(self, shared: dict[Any, Any]) -> Iterator[tuple[str, str, str, Any]]:
        """The class of each optimizer of the program's own that keeps a shared gradient, its file, the attribute or the
        key of its state, and the parameter."""
        for seen in self._journal.optimizers.values():
            for optimizer in seen.known():
                file = getattr(sys.modules.get(type(optimizer).__module__), "__file__", None)
                if not isinstance(file, str) or not is_user_file(file):
                    continue
                state = {k: v for k, v in vars(optimizer).items() if k != "param_groups"}
                for name, tensor in _named_within(state, "", self._audit.torch.Tensor):
                    if (parameter := shared.get(storage_of(tensor))) is not None:
                        yield type(optimizer).__name__, shown_file(file, self._audit.witness.cwd), name, parameter


def _entry(holder: Holder) -> str:
    """The container below the base of a path that only written keys lead to: ``held['kept']``; empty for the base."""
    keys = list(takewhile(lambda s: s.kind == "key", holder.steps[1 + holder.base.count(".") : -1]))
    return holder.base + "".join(f"[{s.key}]" for s in keys) if keys else ""


def _named_within(value: Any, name: str, tensor: type, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tensors in dicts and lists, with the last text among the keys that lead to each."""
    if isinstance(value, tensor):
        yield name, value
    elif isinstance(value, dict | list | tuple) and depth < DEEPEST:
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in list(inner)[:MOST_ITEMS]:
            yield from _named_within(item, key if isinstance(key, str) else name, tensor, depth + 1)


def _references(parameter: Any) -> tuple[int, int]:
    """How many names there are for a parameter's gradient, and how many tensors share its memory."""
    grad = parameter.grad
    memory = torch_c._storage_Use_Count(grad.untyped_storage()._cdata)
    return sys.getrefcount(grad), int(memory)


def _is_alone(parameter: Any, torch: Any) -> bool:
    try:
        return _references(parameter) == _references(_alone(torch))
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False  # a gradient that is no plain tensor


def _alone(torch: Any) -> Any:
    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    return parameter


# Gradients that are cleared before each backward call, while several calls go by from one step to the next.

AT = 3
"""The step of an optimizer at which its calls so far are read."""
EACH, OFTEN = 8, 128
"""Later ones: every eighth up to this, and then those whose number is a power of two."""


class Collecting(Watch):
    """``cleared-while-collecting``: between two steps, and the first may have been another one, the same place has
    cleared ``optimizer`` (``stack``) and the same place has called backward (``other``), in turn and
    ``facts["calls"]`` times; ``facts["uneven"]``: at most so often, and more than once before ``count`` of these steps.
    ``facts["step"]`` are the user's frames of the step, ``facts["hooked"]`` tells that a parameter has a hook, and
    ``facts["others"]`` that it is cleared of what calls of other places give it as well. Weak: the source has to tell
    whether the calls between were to add up."""

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        steps = seen.steps
        due = steps == AT or (not steps % EACH if steps <= OFTEN else not steps & (steps - 1))
        if not due:
            return
        mine = set(seen.parameters)
        entries = [e for e in self._journal.together() if e.kind == "step" or e.concerns({seen.id}, mine)]
        ends = [n for n, e in enumerate(entries) if e.kind == "step" and e.optimizer == seen.id]
        # Another optimizer's step between its calls shows that each of them is used: two that take turns, say.
        rounds = [_without_ends(entries[a + 1 : b]) for a, b in pairwise(ends)]
        lengths = [len(one) // 2 for one in rounds]
        several = [n for n in lengths if n > 1]
        uneven = {*lengths} != {*several} or len({*several}) > 1
        if len(several) < (ENOUGH if uneven else AT - 1) or not all(map(_in_turn, rounds)):
            return
        every, at = [e for one in rounds for e in one], [entries[n] for n in ends]
        zeros, calls = every[::2], every[1::2]
        if any(len({e.place for e in some}) != 1 for some in (zeros, calls, at)) or optimizer_functions(calls[-1].raw):
            return  # or a closure
        sign = next((s for s in self._found if s.optimizer == seen.id), None)
        if sign is None:
            sign = self._sign("cleared-while-collecting", zeros[-1], calls[-1], optimizer=seen.id, weak=True)
            sign.facts["step"] = plain(f for f in self._frames(at[-1]) if f.user)
            self._found.append(sign)
        hooked = any(map(is_hooked, parameters_of(optimizer)))
        sign.event, sign.count = calls[-1].index, len(several)
        # What a call reaches is not known of each of them.
        others = {e.place for e in entries[ends[0] : ends[-1]] if e.reaches is not None} - {calls[-1].place}
        sign.facts |= {"calls": max(several), "uneven": uneven, "hooked": hooked, "others": bool(others)}


def _in_turn(entries: list[Any]) -> bool:
    """Whether these clear and call backward in turn, the one first and the other last."""
    return bool(entries) and [e.kind for e in entries] == ["zero_grad", "backward"] * (len(entries) // 2)


def _without_ends(entries: list[Any]) -> list[Any]:
    """Without the steps of others before the first call and behind the last one, what is cleared once more, and the
    calls of another place that are cleared before the next one of this, with the steps that use them."""
    calls = [n for n, e in enumerate(entries) if e.kind != "step"]
    own = entries[calls[0] : calls[-1] + 1] if calls else []
    kept: list[Any] = []
    for e in own:
        if e.kind == "zero_grad":
            since = [*takewhile(lambda k: k.kind != "zero_grad" and k.place != own[-1].place, reversed(kept))]
            if any(k.kind == "backward" for k in since):
                del kept[-len(since) :]
            if kept and kept[-1].kind == "zero_grad":
                kept.pop()
        kept.append(e)
    return kept


class Taken(Early):
    """``suspect-taken``, weak: what a backward call had given was gone when the next one before the same step began,
    and ``optimizer`` had not been cleared: somebody keeps the gradients elsewhere, or loses them."""

    def set_up(self) -> None:
        self._reached: set[int] = set()
        """Leaves of the calls since the latest step."""
        self._latest = -1
        self._gone = False

    def called(self, call: EngineCall) -> None:
        again = next((p for i, p in call.leaves.items() if i in self._reached), None)
        cleared = self._journal.latest("zero_grad")
        if again is not None and again.grad is None and (cleared is None or cleared.index < self._latest):
            self._gone = True
        self._latest = call.noted[0]
        self._reached.update(call.leaves)

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        gone, self._gone = self._gone, False
        self._reached.clear()
        if gone and not self._found:
            self._found = [Sign("suspect-taken", optimizer=seen.id, count=1, weak=True)]


# Backward calls for one optimizer whose gradients are cleared each time before it steps, by those of another call.

ROUNDS = 6
"""The step of an optimizer at which the calls before it are judged."""


class Wasted(Early):
    """``thrown-away``: ``stack`` clears ``optimizer`` before any step could use what ``other`` has computed for it
    alone, ``count`` times and each time that it was called, once a step or more; ``facts["step"]`` is that step. An
    optimizer of a package may use the gradients outside of its step, and so does a hook: one of a parameter, or one
    that is hung in each pass, as those of other tensors are and those that a module has for its backward."""

    def set_up(self) -> None:
        self._hooks: dict[int, int] = {}
        """By optimizer: how many hooks had been hung, of any kind, at its first step."""

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        audit = self._audit
        hooks = audit.torch.utils.hooks.RemovableHandle.next_id
        if seen.steps == 1:
            self._hooks[seen.id] = hooks
        theirs = type(optimizer).__module__.startswith("torch.optim")
        if seen.steps != ROUNDS or not theirs or audit.witness.scaler.used:
            return
        every = parameters_of(optimizer)
        if hooks - self._hooks.get(seen.id, 0) >= ENOUGH - 1 or any(map(is_hooked, every)):
            return
        mine = {id(p) for p in every}
        fates: dict[Any, list[tuple[Entry, Entry | None, int]]] = {}
        waiting: list[Entry] = []
        rounds = 0
        for e in audit.journal.entries():
            if e.kind == "backward" and e.reaches and e.reaches <= mine:
                waiting.append(e)
            elif self._may_use(e, mine) if e.kind == "step" else e.kind == "zero_grad" and e.optimizer == seen.id:
                for call in waiting:
                    fates.setdefault(call.place, []).append((call, e if e.kind == "zero_grad" else None, rounds))
                waiting, rounds = [], rounds + (e.kind == "step" and e.optimizer == seen.id)
        for fate in fates.values():
            call, clear, _ = fate[-1]
            if clear is None or any(other is None for _, other, _ in fate) or optimizer_functions(call.raw):
                continue
            if len({r for _, _, r in fate}) >= ENOUGH:
                sign = self._sign("thrown-away", clear, call, mine, optimizer=seen.id, count=len(fate))
                sign.event, sign.facts = call.index, {"step": self._facts(self._latest_step(seen))}
                self._report(sign)
                return

    def _may_use(self, entry: Entry, mine: set[int]) -> bool:
        """Whether this step may use gradients of these parameters, or the call was for it: not one of PyTorch's own
        without them that has gradients of its own."""
        seen = self._journal.optimizers.get(entry.optimizer)
        other = seen.ref() if seen is not None else None
        if not type(other).__module__.startswith("torch.optim"):
            return True
        ids = {id(p) for p in parameters_of(other)}
        return bool(ids & mine) or not ids & self._journal.with_grad.keys()
