"""What is asked of one optimizer behind one of its steps: first the measure, then where what is missing was cut off."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from torch.autograd.graph import GradientEdge
from torch.nn import Module, Parameter
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from graphdoc.capture.audit.moved import print_of
from graphdoc.capture.graph.roots import tensor_roots
from graphdoc.capture.graph.summands import SUMS, Part, terms_of, top_of
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import site_of
from graphdoc.capture.second_run.births import tensors_in
from graphdoc.capture.tensors.facts import grad_fn_of, held_by, instances_of, is_hooked, steps_alone, storage_of
from graphdoc.capture.trials.reference import note_checkpoints, run_straight
from graphdoc.capture.whatif.calls_used import AsSaved, unused
from graphdoc.capture.whatif.cut_places import added, locate
from graphdoc.capture.whatif.functions import FunctionCheck, OnCopies, UncalledCheck, with_backward, with_own_backward
from graphdoc.capture.whatif.measure import (
    AGREES,
    ANOTHER,
    CANCELS,
    INDEPENDENT,
    MISSING,
    MOST_OWNERS,
    WRITTEN,
    ZEROS,
    Result,
    measure,
)
from graphdoc.capture.whatif.moves import size_of
from graphdoc.capture.whatif.uncut import Uncut
from graphdoc.capture.whatif.window import ForkWatch, Move, Target, answer_of
from graphdoc.evidence import UNREAD

if TYPE_CHECKING:
    from graphdoc.capture.whatif import WhatIf


def ask(probe: WhatIf, target: Target, steps: int) -> Generator[Move, Any, Any]:
    """The whole plan; what it finds is handed to ``probe.answers``."""
    owners = _owners(probe, target)
    yield from _going_back(probe, target)
    result = yield from measure(probe, target, owners)
    answers = probe.answers
    look = answers.measured(target, steps, result)
    if result.why == WRITTEN and (before := probe.before.get(id(target.optimizer))):
        answers.taken_back(target, (yield Move(watch=TakenBack(target, before))))
    if _suspected(probe, target, "taken"):  # does a step use each of the calls before it?
        answers.last_alone(target, (yield from unused(target)))
    if result.why or result.base is None:
        return
    wrong = yield from _functions(probe, target, look, result, owners)
    depends = _answered(result, *{a.answer for a in result.answers} - {INDEPENDENT})
    idle = answers.never_given(target, set(range(len(target.parameters))) - depends)
    if idle:
        answers.left_out(target, idle, (yield Move(watch=LeftOut(target, idle))))
    if result.left is not None:
        lost = next(a for a in result.answers if a.answer == CANCELS)
        answers.cancelled(target, set(lost.parameters), lost.jumps, result.left)
    missing, zero = _answered(result, MISSING), _answered(result, ZEROS)
    changed, calls = yield from recomputed(probe, target, result)
    answers.recomputed(target, changed, changed & (missing | zero), calls)
    if not (changed or wrong):
        yield from _written_over(probe, target, look, result)
    missing, zero = missing - changed, zero - changed
    if missing or zero:
        answers.ended(target, look, missing, zero, result.ends)
    answers.at_rest(target, result)
    ends: dict[str, Any] = {"reached": (), "shares": False, "ends": ()} if isinstance(result.ends, str) else result.ends
    missing = (missing - set(ends["reached"])) | answers.by_zero(target, zero, ends)
    if missing and ends["shares"]:
        answers.cut(target, look, missing, [], "the loss is computed from another leaf with their memory")
    elif missing:
        places, why = yield from locate(target, missing, result, probe.look)
        answers.cut(target, look, missing, places, why)
    if probe.adds and any(a.answer == AGREES and a.held for a in result.answers):
        found = yield from added(target, result, probe.look)
        if found is not None:
            answers.added(*found)
    if _suspected(probe, target, "beside"):
        beside = yield Move(watch=BesideLoss(target, result.base))
        answers.beside(target, answer_of(beside, []))
    if with_backward(target.torch):
        uncalled = yield Move(watch=UncalledCheck(target.torch))
        answers.uncalled(target, answer_of(uncalled, []))


def _going_back(probe: WhatIf, target: Target) -> Generator[Move, Any, None]:
    """Whether numbers that were seen to leave a graph and to go on in it take a part of a gradient with them."""
    audit = probe.witness.audit
    found = audit.losses.going_back if audit is not None and not probe.trial else {}
    base = (yield Move(first=True)) if found else ""
    if isinstance(base, dict):
        watch = Uncut(found.keys())
        changed, _ = yield from gradients_with(target, Result(base=base), watch, COUNTS, by_size=True)
        probe.answers.going_back(target, changed, [*found.values()])


def _written_over(probe: WhatIf, target: Target, look: dict[str, Any], result: Result) -> Generator[Move, Any, None]:
    """Whether the gradient is another one where Functions work on copies of what they are given; or else where backward
    reads what the forward has saved."""
    own, copied = with_own_backward(probe.witness.audit), set[int]()
    written = result.base is not None and result.base["written"]
    if own and _answered(result, MISSING, ZEROS, ANOTHER):
        copied, writing = yield from gradients_with(target, result, OnCopies(target.torch, own))
        probe.answers.written_over(target, copied, writing)
    if (written or _answered(result, ANOTHER)) and not (copied or probe.trial):
        saved = yield from gradients_with(target, result, AsSaved(target.torch), COUNTS)
        probe.answers.saved_over(target, look, *saved)


def _suspected(probe: WhatIf, target: Target, watch: str) -> bool:
    """Whether this watch of the audit has a sign of this optimizer."""
    audit = probe.witness.audit
    return audit is not None and any(s.optimizer == target.number for s in getattr(audit, watch).signs())


def _functions(
    probe: WhatIf, target: Target, look: dict[str, Any], result: Result, owners: list[list[int]]
) -> Generator[Move, Any, list[dict[str, Any]]]:
    """The Functions that give another gradient than their derivative, where one is; told besides: those in no loss."""
    another = bool(_answered(result, ANOTHER))
    if not another and (probe.trial or not with_own_backward(probe.witness.audit)):
        return []
    told = yield Move(watch=FunctionCheck(target.torch))
    met = answer_of(told, {"met": True, "wrong": [], "dropped": []})
    probe.answers.uncalled(target, met["dropped"], UNREAD)
    wrong: list[dict[str, Any]] = met["wrong"]
    for mine in owners[:MOST_OWNERS] if wrong and not another else ():
        # Few parameters among many count for little along the gradient of all.
        part = yield from measure(probe, target, [mine])
        result.answers += [a for a in part.answers if a.answer == ANOTHER]
    if result.base is None or not _answered(result, ANOTHER):
        return []
    if not another:
        look["answers"] = probe.answers.told(target, result)
    look["own"] = probe.hooked or met["met"]
    probe.answers.others(target, look, wrong)
    probe.answers.doubt_jumps(look, result.base["calls"])
    return wrong


def _owners(probe: WhatIf, target: Target) -> list[list[int]]:
    """The positions of the parameters by the module that holds them, as the program calls it; else each by itself."""
    names = probe.witness.audit.names if probe.witness.audit is not None else {}
    groups: dict[str, list[int]] = {}
    for i, p in enumerate(target.parameters):
        groups.setdefault(names.get(id(p), f"#{i}").rpartition(".")[0] or f"#{i}", []).append(i)
    return list(groups.values())


# Whether a checkpoint gives another gradient than what it runs: it runs it again for backward, when other things hold.

DIFFERENT = 0.05
"""By so much of a parameter's gradient the two differ."""
COUNTS = 1e-3
"""The part of the whole gradient from which on a difference counts; less may be rounding that cancels."""


MOST_CALLS = 60
"""Checkpoints of one step that are told."""


class Straight(ForkWatch):
    """A watch of one fork in which checkpoints run once what they are given. It tells the places of these calls, each
    with whether it would have been run again for backward."""

    def __init__(self) -> None:
        self._calls: list[tuple[stacks.Stack, bool]] = []

    def __enter__(self) -> None:
        from torch.utils import checkpoint

        run_straight(checkpoint)
        note_checkpoints(checkpoint, lambda again: self._calls.append((stacks.stack_here(3), again)))

    def told(self) -> list[tuple[list[dict[str, Any]], bool]]:
        return [(self.frames(raw), again) for raw, again in self._calls[:MOST_CALLS]]


def recomputed(probe: WhatIf, target: Target, result: Result) -> Generator[Move, Any, tuple[set[int], list[Any]]]:
    """Positions of the parameters whose gradient is another one where each checkpoint runs once what it is given, by
    losses that are the same bit for bit; with the places of the checkpoints, all of which run it again for backward."""
    if not (_answered(result, MISSING, ZEROS, ANOTHER) and probe.checkpoints):
        return set(), []
    changed, calls = yield from gradients_with(target, result, Straight())
    if not calls or not all(again for _, again in calls):
        return set(), []
    return changed, [frames for frames, _ in calls]


def _answered(result: Result, *kinds: str) -> set[int]:
    """The parameters of which one of these was measured."""
    return {i for a in result.answers if a.answer in kinds for i in a.parameters}


def gradients_with(
    target: Target, result: Result, watch: Any, least: float = DIFFERENT, by_size: bool = False
) -> Generator[Move, Any, tuple[set[int], Any]]:
    """Positions of the parameters whose gradient is another one, by such a part of it, in a fork with this watch, by
    losses that are the same bit for bit; with what the watch has told. ``by_size``: what a parameter gives to the whole
    is told by its own size too, which may have a unit."""
    if result.base is None:
        return set(), []
    sizes = [size_of(p) if by_size else 1.0 for p in target.parameters]
    calls = result.base["calls"]
    before = [[g.clone() for g in target.given.read(i)] for i in range(len(calls))]
    told = yield Move(first=True, watch=watch)
    after = [[g.clone() for g in target.given.read(i)] for i in range(len(calls))]
    for i, row in enumerate(before):
        target.given.write(i, row)  # the next question is about these as well
    if not isinstance(told, dict) or [c["value"] for c in told["calls"]] != [c["value"] for c in calls]:
        return set(), []
    found = set[int]()
    for old, new in zip(before, after, strict=True):
        lengths = [[n * float(g.double().norm()) for n, g in zip(sizes, gs, strict=True)] for gs in (old, new)]
        whole = COUNTS * max(sum(n * n for n in each) ** 0.5 for each in lengths)
        for i, (a, b) in enumerate(zip(old, new, strict=True)):
            if sizes[i] * float((a - b).norm()) > max(whole, *(least * each[i] for each in lengths)):
                found.add(i)
    return found, told["watch"]


# What a sum adds to a loss where the loss alone is differentiated: would it train anybody?

MOST_SUMS = 200
ALIKE, POINTS = 0.999, 0.9
"""The cosine from which on a gradient is that of a weight decay; and what is added to one points its way."""
LEAST = 1e-6
"""The part of the loss's gradient from which on another one counts."""


class BesideLoss(TorchFunctionMode, ForkWatch):
    """A watch of one step. It tells the sums that hold a loss and go into no call: ``stack`` is the sum, ``call``
    differentiates the loss, ``parameters`` are the positions of those that its other terms, differentiated by
    themselves, would train; these are ``weighed`` where one has a factor."""

    def __init__(self, target: Target, base: dict[str, Any]) -> None:
        super().__init__()
        self._torch, self._parameters = target.torch, target.parameters
        self._apart = set(base["written"]) | {i for i, p in enumerate(target.parameters) if is_hooked(p)}
        """Positions of those that the program itself writes to, or gives a gradient to."""
        self._given_by_calls = [target.given.read(i) for i in range(len(base["calls"]))]
        every = [(g, steps_alone(o)) for o in (target.optimizer, *target.others) for g in o.param_groups]
        self._decays = {id(p) for g, plain in every if plain and g.get("weight_decay") for p in held_by(g)}
        self._shrinks = {id(p) for g, plain in every if not plain for p in held_by(g)}
        """Those that a step of the program's own may keep small."""
        self._sums: list[Any] = []
        self._calls: dict[Any, tuple[Any, set[int]]] = {}
        """By what was differentiated: where, and which leaves that reaches."""
        self._through: set[Any] = set()
        self._left: dict[Any, tuple[Any, list[Any], Any]] = {}
        """By sum: the loss that it holds, its other terms, what they give."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        node = grad_fn_of(result) if type(result) is self._torch.Tensor else None
        if type(node).__name__ in SUMS and result.numel() == 1 and len(self._sums) < MOST_SUMS:
            self._sums.append(node)
        return result

    def began(self, outputs: Any) -> None:
        """A backward call begins: what it frees is differentiated now."""
        roots = [n for n in tensor_roots(outputs) if n is not None]
        at = self.frames(stacks.stack_here(3))
        self._calls.update({n: (at, Part(n).leaves) for n in roots})
        self._through.update(top_of(roots))
        self._differentiate()

    def _differentiate(self) -> None:
        """Of sums in each other the outermost."""
        inner = set[Any]()
        for node in reversed(self._sums):
            top = top_of([node]) if node not in inner else []
            loss = next((n for n in top if n in self._calls and n is not node), None)
            if loss is not None and node not in self._left:
                left = [t for t in terms_of([node]) if t not in self._through]
                self._left[node] = loss, left, self._given(node, left)
            inner.update(top)

    def _given(self, node: Any, terms: list[Any]) -> Any:
        """What these terms of a sum give to each parameter, and whether one of them is weighed."""
        edges, grad = [GradientEdge(t, 0) for t in terms], self._torch.autograd.grad
        try:
            factors = grad([GradientEdge(node, 0)], edges, retain_graph=True)
            gradients = grad(edges, self._parameters, factors, retain_graph=True, allow_unused=True)
        except RuntimeError:
            return None  # its graph has been freed, or lets nobody in (a reentrant checkpoint)
        return gradients, any(abs(float(f)) != 1.0 for f in factors)

    def told(self) -> list[dict[str, Any]]:
        self._differentiate()
        known = self._through.union(*(set(top_of([node])) - {node} for node in self._left))
        found = []
        for node, (loss, left, given) in self._left.items():
            rest = [t for t in left if t not in self._through]
            given = given if rest == left else self._given(node, rest)
            kept, (call, _) = stacks.stack_of(node), self._calls[loss]
            learning = self._learning(call, given[0]) if rest and given and node not in known else []
            if learning and kept is not None:
                stack = self.frames(kept)
                found.append({"stack": stack, "call": call, "parameters": learning, "weighed": given[1]})
        return found

    def _learning(self, call: Any, gradients: Any) -> list[int]:
        """The positions of those that such a gradient would train: none where the optimizer, or the program by its own
        hand, has it, or where a call elsewhere may stand for it."""
        given = {i: g for i, g in enumerate(gradients) if g is not None and i not in self._apart and bool(g.any())}
        elsewhere = {i for at, leaves in self._calls.values() if at != call for i in leaves}
        pairs = [(self._parameters[i], g) for i, g in given.items()]
        counts = any(p.grad is None or float(g.norm()) > LEAST * float(p.grad.norm()) for p, g in pairs)
        had = self._is_decay(pairs) or self._is_by_hand(given) or any(id(p) in elsewhere for p, _ in pairs)
        return [*given] if counts and not had else []

    def _is_decay(self, pairs: list[tuple[Any, Any]]) -> bool:
        """Whether such a gradient is that of a weight decay, which a step has for most of these or may have."""
        alike = [self._cosine(p, g) > ALIKE for p, g in pairs]
        held = sum(p.numel() for p, _ in pairs if id(p) in self._decays)
        if all(alike) and 2 * held > sum(p.numel() for p, _ in pairs):
            return True
        signs = (self._cosine(p.sign(), g) > ALIKE for p, g in pairs)
        return all(id(p) in self._shrinks for p, _ in pairs) and (all(alike) or all(signs))

    def _is_by_hand(self, given: dict[int, Any]) -> bool:
        """Whether the program has added it to what the calls gave: all that is in ``.grad`` besides points that way."""
        besides, wanted = list[Any](), list[Any]()
        for i, g in given.items():
            grad, along = self._parameters[i].grad, sum(row[i] for row in self._given_by_calls)
            if grad is None or not isinstance(along, self._torch.Tensor):
                return False
            size = along.dot(along).clamp(min=1e-30)
            for found, t in ((besides, grad), (wanted, g)):
                flat = t.detach().flatten().to(along)
                found.append(flat - along * (flat.dot(along) / size))
        return bool(wanted) and self._cosine(self._torch.cat(besides), self._torch.cat(wanted)) > POINTS

    def _cosine(self, one: Any, other: Any) -> float:
        return float(self._torch.nn.functional.cosine_similarity(one.flatten(), other.flatten(), 0))


# Where what parameters compute is left lying: the last results made of them, of which no loss is made.

MOST = 4
"""Results that are told."""


class LeftOut(TorchFunctionMode, ForkWatch):
    """A watch of one step: each result with a graph that is made of these parameters, until another is made of it.

    What is read as numbers may be meant for nothing else; a single number with a graph is most likely a loss, and who
    logs it does not train by it. One whose detached value goes into what has a graph is used there.
    """

    def __init__(self, target: Target, chosen: set[int]) -> None:
        super().__init__()
        self._leaves = {id(target.parameters[i]): i for i in chosen}
        self._ran: set[int] = set()
        """Modules whose forward has run."""
        self._others: dict[int, stacks.Stack] = {}
        """Where other parameters were read first."""
        self._together: dict[Any, set[int]] = {}
        """All that one place reads: a penalty reads every matrix."""
        self._made: dict[int, Any] = {}
        """All such results; what is kept cannot give its id to another."""
        self._last: dict[int, stacks.Stack] = {}
        self._constants: dict[int, tuple[Any, set[int]]] = {}
        """Results without a graph, each with those of the above that it is made of."""
        self._used: set[int] = set()
        self._read: set[int] = set()
        self._with_data: set[int] = set()
        """Parameters that were taken together with what is none: those of a layer, and no penalty's."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        every = {id(t): t for t in tensors_in((args, kwargs or {}))}
        self._with_data |= self._leaves.keys() & every.keys() if {*map(type, every.values())} - {Parameter} else set()
        ids = every.keys()
        given = ids & self._made.keys()  # any other tensor may end, and give its id to a result that nothing reads
        name = getattr(func, "__name__", "")
        if name in ("backward", "grad"):
            self._used |= given
        elif name != "__get__":
            self._read |= given
            for ident, t in every.items() if name not in _SHAPES else ():
                if type(t) is Parameter and ident not in self._leaves:
                    here = stacks.stack_here(2)
                    self._others.setdefault(ident, here)
                    self._together.setdefault(site_of(here), set()).add(ident)
        constant = set[int]().union(*(self._constants[i][1] for i in ids & self._constants.keys()))
        if given or constant or ids & self._leaves:
            for made in tensors_in(result):
                if made.grad_fn is None:
                    self._constants[id(made)] = made, given | constant
                    continue
                self._used |= constant  # what has a graph is made of its value: it is no number that is only logged
                if id(made) not in self._made and (given or ids & self._leaves):
                    for ident in given:
                        self._last.pop(ident, None)
                    self._made[id(made)] = made
                    self._last[id(made)] = stacks.stack_here(2)
        return result

    def __enter__(self) -> LeftOut:
        super().__enter__()  # type: ignore[no-untyped-call]
        register_module_forward_pre_hook(lambda module, _args: self._ran.add(id(module)))
        return self

    def _past(self) -> list[tuple[Any, list[int]]]:
        """Where a parameter of a module none of whose forwards runs is read, with the positions of those that lie in
        other parts of it: an adapter around a layer whose weight somebody takes by itself."""
        found = []
        ran = {id(p) for m in instances_of(Module) if id(m) in self._ran for p in m._parameters.values()}
        beside = {i: self._together[site_of(raw)] for i, raw in self._others.items()}
        others = {i for i, ids in beside.items() if len(ids) == 1 or ran.isdisjoint(ids)}
        for module in instances_of(Module):
            parts = [{id(p) for p in m._parameters.values() if p is not None} for m in module.modules()]
            whole = set[int]().union(*parts)
            read = [i for i in whole if i in others]
            idle = whole & self._leaves.keys()
            if not read or not idle or any(id(m) in self._ran for m in module.modules()):
                continue
            if not any(part & idle and not part.isdisjoint(read) for part in parts):
                at = self.frames(self._others[read[0]])
                found.append((len(whole), at, sorted(self._leaves[i] for i in idle)))
        return [(at, idle) for _, at, idle in sorted(found, key=lambda f: f[0])[:MOST]]

    def told(self) -> tuple[list[tuple[Any, list[int]]], list[tuple[list[dict[str, Any]], bool, bool]]]:
        """What is read past a forward; and the stacks of those of which nothing was made, as frames, with whether
        each is a single number, and whether these parameters are all that such a one can train."""
        left = [
            (raw, self._made[ident])
            for ident, raw in self._last.items()
            if ident not in self._used and (ident not in self._read or self._made[ident].numel() == 1)
        ]
        return self._past(), [
            (self.frames(raw), made.numel() == 1, made.numel() == 1 and self._is_theirs(made))
            for raw, made in left[:MOST]
        ]

    def _is_theirs(self, number: Any) -> bool:
        """Whether a number is computed from data by these parameters alone."""
        part = Part(grad_fn_of(number))
        return part.whole and part.leaves <= self._leaves.keys() and not part.leaves.isdisjoint(self._with_data)


# Who gives an optimizer's parameters their old numbers again between two steps, and whether anybody read the new.

_SHAPES = {"size", "dim", "numel", "nelement", "stride", "is_floating_point", "is_complex", "requires_grad_", "__len__"}
"""Functions that read no number."""
_OVERWRITES = {"copy_", "_foreach_copy_", "set_", "__set__", "__setitem__"}
"""What is written in place by another function is made of what was there."""


class TakenBack(TorchFunctionMode, ForkWatch):
    """A watch of one step: whether the parameters come back to what they were before the step (``before``, as
    ``print_of`` reads them), by which write, and whether their numbers were read by then. A forward with the new
    weights, a copy of them, a projection of them read them: the step was for that."""

    def __init__(self, target: Target, before: list[int]) -> None:
        super().__init__()
        self._tensor = target.torch.Tensor
        pairs = zip(target.parameters, before, strict=True)
        self._moved = [(p, b) for p, b in pairs if b and print_of(p) not in (0, b)]
        self._back = self._within = False
        # What reads parameters without an operation that a mode sees: TorchScript's interpreter, and NumPy in their
        # memory, which more than the parameter and the object that is asked here use then.
        uses, scripted = target.torch._C._storage_Use_Count, target.torch.jit.ScriptModule
        self._read = next(instances_of(scripted), None) is not None or any(
            int(uses(p.untyped_storage()._cdata)) > 2 for p, _ in self._moved
        )
        self._written: stacks.Stack | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [] if self._within or self._back else list(tensors_in((args, kwargs or {})))
        self._within, within = True, self._within
        memory = {storage_of(p) for p, _ in self._moved} if given else set()
        mine = [storage_of(t) in memory for t in given]
        self._within = within
        result = func(*args, **(kwargs or {}))
        if not any(mine):
            return result
        name = getattr(func, "__name__", "")
        into = len(list(tensors_in(args[:1])))
        if name in _OVERWRITES and all(mine[:into]) and not any(mine[into:]):
            self._written = stacks.stack_here(2)
            self._within = True
            self._back = all(print_of(p) == b for p, b in self._moved)
            self._within = False
        elif name not in _SHAPES and name != "__get__":
            self._read |= not (isinstance(result, self._tensor) and storage_of(result) in memory)  # a view
        return result

    def told(self) -> Any:
        """Where they were written last, if that has given them their old numbers and nobody had read the new ones."""
        return self.frames(self._written) if self._back and not self._read else []
