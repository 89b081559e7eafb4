"""The calls of a run in order: what came between, for which optimizers each works, which losses belong together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from graphdoc.evidence import Event, Evidence, Frame, SourceTexts
from graphdoc.program.bindings import (
    Flow,
    argument,
    call_at,
    everywhere,
    flow_into,
    frame_of,
    function_at,
    scope_at,
    text_of,
    tree,
)
from graphdoc.program.carried_names import Carried, carried
from graphdoc.program.optimizer_places import Owners
from graphdoc.program.spans import innermost_user, level_of, user_line
from graphdoc.source.module import Function, each, is_method_call
from graphdoc.source.paths import called, covers, words
from graphdoc.source.scopes import function_of

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

    def before(self, call: Event) -> Iterator[Event]:
        """What was called before this call, the latest first."""
        return (e for e in reversed(self.events) if e.index < call.index)

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
        return next((e for e in self.before(call) if e.kind in DIFFERENTIATING and e.starts_with(call)), None)

    def number(self, call: Event) -> int | None:
        """``35`` for the 35th call of its kind in the run, or None where that is not known."""
        before = [e for e in self.events if e.index <= call.index]
        if len(before) <= call.index:  # the journal has a gap
            return call.number or None
        return sum(e.kind == call.kind for e in before)

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
        before = [e for e in self.before(call) if e.kind == call.kind]
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
        for other in (e for e in self.events if e.index > call.index):
            if other.kind == "step":
                found.add(other.optimizer)
            elif (other.kind == "backward" and found) or other.failed:
                break
        return found

    def zeroed_before(self, call: Event) -> set[int]:
        """Optimizers whose gradients were set to zero since the backward call or step before this call."""
        found: set[int] = set()
        for other in self.before(call):
            if other.kind == "zero_grad" and other.optimizer >= 0:
                found.add(other.optimizer)
            elif other.kind in ("backward", "step"):
                break
        return found

    def _written_after(self, call: Event) -> set[int]:
        """Optimizers whose ``step`` is written behind the call, in the function that makes it."""
        frame = innermost_user(call.stack)
        if frame is None:
            return set()
        around = function_at(self._sources, frame)
        lines = self._sources.get(frame.file, "").splitlines()[frame.line - 1 : around.end_lineno if around else None]
        found: set[int] = set()
        for path in (p for line in lines for m in _STEPS.finditer(line) for p in m.groups() if p):
            found |= self.owners.called(path)
        return found

    def written_behind(self, owner: int, call: Event) -> str:
        """What comes first behind a call in its function: the optimizer's ``step``, its ``zero_grad``, another call of
        ``backward``, or ``any step`` of what a loop or a caller hands out; empty where the function does none of
        them."""
        frame = innermost_user(call.stack)
        optimizer = next((o for o in self.owners.optimizers if o.id == owner), None)
        if frame is None or optimizer is None or not optimizer.name:
            return ""
        scope = scope_at(self._sources, frame)
        calls = [n for n in each(scope, ast.Call) if is_method_call(n) and n.lineno > frame.line]
        for found in sorted(calls, key=lambda n: (n.lineno, n.col_offset)):
            method, text = found.func.attr, ast.unparse(found.func.value)
            if method == "backward" or (method in ("step", "zero_grad") and owner in self.owners.called(text)):
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
    loops = [n.target for n in each(scope, ast.For, ast.AsyncFor) if not covers(n, line)]
    given = scope.args if isinstance(scope, Function) else None
    cleared = {ast.unparse(n.func.value) for n in each(scope, ast.Call) if is_method_call(n, "zero_grad")}
    names = {n.id for t in loops for n in each(t, ast.Name)}
    return names | ({n.arg for n in each(given, ast.arg)} - cleared)


# Two losses of one pass that each train a network of its own, and take the other's output as something to aim at.

# The losses of torch.nn.functional whose second argument is what the first one is to become.
_WITH_TARGET = words(
    """
    kl_div mse_loss l1_loss smooth_l1_loss huber_loss cross_entropy binary_cross_entropy
    binary_cross_entropy_with_logits nll_loss gaussian_nll_loss poisson_nll_loss soft_margin_loss
    multilabel_soft_margin_loss
    """
)

Target = tuple[Frame, str]
Spot = tuple[str, int, int, int, int]


@dataclass
class Coupling:
    """Where a loss takes in the output of a network that it is not for.

    ``late`` are such edges of the failing loss, ``early`` those of the one before, ``places`` the expressions that are
    to be constants, each with the loss that it is the target of. ``own`` are the optimizers of the parameters that the
    failing loss reaches otherwise.
    """

    late: list[Carried]
    early: list[Carried]
    places: list[Target]
    own: set[int]


def one_way(
    evidence: Evidence, earlier: list[Carried], owners: Owners, failing: Event | None, freeing: Event | None
) -> Coupling | None:
    """The coupling of two losses that is meant to go one way; None where nothing says so.

    Only where each loss has an optimizer of its own: what one takes in of the other belongs to an optimizer that holds
    nothing else this loss reaches, and is taken in as a target alone.
    """
    if failing is None or freeing is None or {failing.kind, freeing.kind} != {"backward"}:
        return None
    dead = [c for c in carried(evidence, evidence.older_edges) if c.dead]
    late, own = _as_target(owners, dead, set(evidence.fresh_reaches))
    early: list[tuple[Carried, Target]] = []
    its: set[int] = set()
    if earlier:  # the earlier loss still lives
        early, its = _as_target(owners, earlier, set(freeing.reaches) - {n for c in earlier for n in c.behind})
    if own & its or not (late or early):
        return None
    meant = [c for c, _ in late]
    own = own or owners.holding({n for c in dead if c not in meant for n in c.behind})
    return Coupling(meant, [c for c, _ in early], [p for _, p in (*late, *early)], own)


def _as_target(
    owners: Owners, carries: Iterable[Carried], rest: set[str]
) -> tuple[list[tuple[Carried, Target]], set[int]]:
    """The edges that are targets and lead to another optimizer than all others do; and the optimizers of the others.

    ``rest`` are the parameters that the loss reaches beside these edges.
    """
    found = [(c, _target_of(c)) for c in carries]
    targets = [(c, target) for c, target in found if target is not None]
    others = {n for c, target in found if target is None for n in c.behind} | rest
    own = owners.holding(others)
    foreign = owners.holding({n for c, _ in targets for n in c.behind})
    if not targets or not own or not foreign or own & foreign:
        return [], own
    return targets, own


def is_aim(carry: Carried) -> bool:
    """Whether a loss takes a value in as its target."""
    return _target_of(carry) is not None


def is_fitted(carry: Carried) -> bool:
    """Whether a loss takes a value in as what is to become its target."""
    found = _argument_of(carry)
    return found is not None and not found[2]


def _target_of(carry: Carried) -> Target | None:
    """The expression given as the target of a loss through which the value is taken in, and the name of that loss."""
    found = _argument_of(carry)
    return found[:2] if found is not None and found[2] else None


def _argument_of(carry: Carried) -> tuple[Frame, str, bool] | None:
    """The expression given to a loss through which the value is taken in, the name of that loss, and whether it is the
    target's.

    Looked for outwards from the operation that takes the value in, through assignments of each function.
    """
    names, sources = set(carry.paths), carry.run.sources
    for frame in carry.using:
        scope = scope_at(sources, frame)
        for call in _losses(sources, scope):
            target = argument(call, 1, "target")
            given = argument(call, 0, "input")
            if target is None or given is None:
                continue
            name = text_of(call.func)
            place, first = (frame_of(sources, frame, e) for e in (target, given))
            if frame.column and frame.lies_in(place):
                return place, name, True
            if _spot(frame) == _spot(frame_of(sources, frame.file, call)):
                # The loss itself takes the value in: its name tells as which of the two.
                if text_of(target) in names - {text_of(given)}:
                    return place, name, True
                return (first, name, False) if text_of(given) in names - {text_of(target)} else None
            if _comes_from(sources, scope, target, frame):
                return None if _comes_from(sources, scope, given, frame) else (place, name, True)
            if (frame.column and frame.lies_in(first)) or _comes_from(sources, scope, given, frame):
                return first, name, False
    return None


def _losses(sources: SourceTexts, scope: ast.AST) -> list[ast.Call]:
    """The calls of losses with a target, those of a name too that was given a loss of ``torch.nn``:
    ``self.distance = nn.KLDivLoss()``."""
    made = [(n, function_of(tree(sources, file), n.value)) for file, n in everywhere(sources, ast.Assign)]
    modules = {text_of(t) for n, of in made if of.startswith("torch.nn.") and of.endswith("Loss") for t in n.targets}
    return [c for c in each(scope, ast.Call) if called(c) in _WITH_TARGET or text_of(c.func) in modules]


def _comes_from(sources: SourceTexts, scope: ast.AST, value: ast.expr, frame: Frame) -> bool:
    """Whether an expression is surely made, through assignments of its function, of what is computed at the frame."""
    return frame.column > 0 and flow_into(sources, scope, value, frame) is Flow.YES


def _spot(f: Frame) -> Spot:
    return (f.file, f.line, f.column, f.end_line or f.line, f.end_column)


# Losses that share an encoder and have a head with an optimizer of its own each: which steps do not part them.


def only_heads_stepped(journal: Journal, reaches: Sequence[str], freeing: Event, failing: Event) -> bool:
    """Whether what stepped between the two calls are optimizers of parameters that the failing loss never reaches.

    And whether each loss has parameters of its own, and an optimizer gathers the gradient of what both reach: it was
    set to zero before the two calls, or steps behind them, and has not stepped in between. Then the two calls are of
    one pass, and one call on the sum gives every optimizer the gradient that it was to have. ``reaches`` are the
    parameters that the failing call reaches, for want of a measurement of its own.
    """
    if failing.kind != "backward" or freeing.kind != "backward":
        return False
    mine, theirs = set(failing.reaches or reaches), set(freeing.reaches)
    holding = journal.owners.holding
    shared, own, its = holding(mine & theirs), holding(mine - theirs), holding(theirs - mine)
    stepped = journal.steps_between(freeing, failing) or frozenset()
    apart = not (own & its or shared & its or stepped & holding(mine)) and stepped & its
    return bool(apart and shared and own) and all(_gathers(journal, owner, failing, freeing) for owner in shared)


def _gathers(journal: Journal, owner: int, failing: Event, freeing: Event) -> bool:
    """Whether an optimizer is meant to step with what the two calls have added up."""
    if any(e.kind == "zero_grad" and e.optimizer in (owner, -1) for e in journal.between(freeing, failing)):
        return False
    written = journal.written_behind(owner, failing)
    if written and written != "any step":
        return written == "step"
    own = [e for e in journal.events if e.optimizer == owner and e.index < freeing.index]
    return bool(own) and own[-1].kind == "zero_grad"


# Backward calls that cannot have reached every parameter: an error ended them, or they were given ``inputs``.


@dataclass(frozen=True)
class Partial:
    """The user's line that makes the call, and whether an error ended it; otherwise ``inputs`` named its leaves.

    ``alone``: no other line of the run calls backward, so it was the graph of the same module.
    """

    place: Frame
    failed: bool
    alone: bool


def partial_backward(sources: SourceTexts, calls: Sequence[Event]) -> Partial | None:
    """The last backward call among these, oldest first; None where nothing kept it from any leaf."""
    backward = [e for e in calls if e.kind == "backward"]
    last = next(reversed(backward), None)
    place = user_line(last)
    if last is None or place is None or not (last.failed or asks_for_some(sources, last)):
        return None
    return Partial(place, last.failed, len({site(e.stack) for e in backward}) == 1)


def asks_for_some(sources: SourceTexts, call: Event) -> bool:
    """Whether the user's call names the leaves that it is to reach (``inputs`` of ``torch.autograd.backward``)."""
    return argument(call_at(sources, innermost_user(call.stack)), 3, "inputs") is not None


# Updates that one statement makes as a whole: it calls what clears gradients, differentiates a loss and steps.


def update_and_earlier(journal: Journal, failing: Event) -> tuple[Frame, Frame] | None:
    """The statement whose update has failed, and the first of those in front of it, in the same function, that made
    another update by the same helper since this one's optimizer stepped last; None where there is none.

    Each of them clears the gradients of its own optimizer before it differentiates: what another loss gives to these
    is never stepped with.
    """
    helper, works_for = innermost_user(failing.stack), journal.works_for(failing)
    if helper is None or not works_for or not _clears(journal, failing, works_for):
        return None
    first: tuple[Frame, Frame] | None = None
    steps = (e for e in journal.before(failing) if e.kind == "step")
    for event in takewhile(lambda e: e.optimizer not in works_for, steps):
        at, made = _parting(failing, event), user_line(event)
        if at is None or made is None or not made.in_function_of(helper):
            continue
        call = next((e for e in journal.before(event) if e.kind == "backward"), None)
        if call is None or not _clears(journal, call, frozenset({event.optimizer})):
            return None
        if first is None or at[1].line < first[1].line:
            first = at
    return first


def _clears(journal: Journal, call: Event, optimizers: frozenset[int]) -> bool:
    """Whether the helper that makes a call has cleared the gradients of these optimizers just before it."""
    since = takewhile(lambda e: e.kind not in ("backward", "step"), journal.before(call))
    last = next((e for e in since if e.kind == "zero_grad" and e.optimizer in optimizers), None)
    one, other = user_line(last), user_line(call)
    return one is not None and other is not None and one.in_function_of(other)


def _parting(failing: Event, step: Event) -> tuple[Frame, Frame] | None:
    """The lines of the innermost function that makes both, where that of the step stands first and calls the helper."""
    level = level_of(failing.stack, step.stack)
    if level is None or level[1].line >= level[0].line:
        return None
    helped = all(f != user_line(e) for f, e in zip(level, (failing, step), strict=True))
    return (level[0], level[1]) if helped else None
