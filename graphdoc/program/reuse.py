"""The older part of a graph that a backward call ran into: what leads there, and what it is for the loss."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from graphdoc.evidence import PART_FRAMES, PART_NAMES, Event, Folded, Frame, SourceTexts
from graphdoc.program.bindings import expression_at, made_of, scope_at, source_at, statement_at
from graphdoc.program.calls_in_order import Coupling, is_aim, is_fitted, one_way
from graphdoc.program.carried_names import Carried, bound_names, by_places, carried
from graphdoc.program.custom_functions import changes_the_gradient_alone
from graphdoc.program.gradient_reads import gradients_are_read
from graphdoc.program.lifetimes import Lifetime, OlderValues, first_row
from graphdoc.program.spans import reached, user_line
from graphdoc.source.expressions import counts, first_index
from graphdoc.source.module import Source, each, given_to
from graphdoc.source.paths import called, key, sole_target, without_subscripts

# A value from before the updates that the loss compares with what it computes anew: the old policy's log-probability,
# a prediction taken as a target. It is data, whatever trains what lies behind it.

MOST_ASSIGNMENTS = 2
"""Assignments that are followed from an operand to the call that computed it."""
_SUMS = ("AddBackward0", "SubBackward0")
_COMPARING = (
    "SubBackward",
    "DivBackward",
    "RsubBackward",
    "MseLoss",
    "L1Loss",
    "SmoothL1",
    "Huber",
    "KlDiv",
    "CrossEntropy",
)


def is_reference(carries: list[Carried]) -> bool:
    """Whether the failing pass only compares with each of these values: the operation that takes it up sets it against
    another one (a difference, a ratio, a distance) which the same function or method has computed anew.

    To be asked where everything that the loss is meant to train behind them gets gradient through the rest, too.
    """
    set_against = [c.compared in ("ratio", "distance") or _compared(c) for c in carries]
    # What it weighs with is no more to be learned through than what it compares with.
    beside = [c.factor or c.compared for c in carries]
    return any(set_against) and all(s or b for s, b in zip(set_against, beside, strict=True))


def _compared(carry: Carried) -> bool:
    at, sources = user_line(carry.taken), carry.run.sources
    if at is None or carry.taken is None or not carry.taken.op.startswith(_COMPARING):
        return False
    # The functions that computed the old value, by their last name, and the call of the user's own line.
    makers = {f.function.rpartition(".")[2] for f in carry.making}
    makers |= {called(expression_at(sources, f)) for f in carry.making}
    # What this function itself has kept the old value as is the old value, and not the new one beside it.
    here = [f for f in carry.making if f.in_function_of(at)]
    kept = {name for f in here for name in bound_names(sources, f)}
    others = [n for n in _operands(sources, at) if ast.unparse(n) not in kept]
    return any(_called_in(sources, at, n) & makers - {"<module>", "__init__", "main", ""} for n in others)


def _operands(sources: SourceTexts, at: Frame) -> list[ast.expr]:
    node = expression_at(sources, at)
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    return given_to(node) if isinstance(node, ast.Call) else []


def _called_in(sources: SourceTexts, at: Frame, value: ast.expr) -> set[str]:
    """The functions called in an expression, and in what was assigned to the names that it reads."""
    behind = made_of(scope_at(sources, at), value, most=MOST_ASSIGNMENTS).expressions
    return {called(n) for e in behind for n in each(e, ast.Call)}


# Which statements a graph leads through: read off the nodes that they made, where the source shows names alone. A
# name that goes into `reward = score(image)` need not bring its graph along: what comes back may have been through
# NumPy, `.item()`, `detach()` or no_grad. Then no node between the loss and the older part was made there.


def ways_to(folded: Folded | None, nodes: Iterable[int], level: Frame) -> list[tuple[int, int]] | None:
    """The lines (first, last) of a function at which the failing graph was made between its root and these nodes.

    ``level`` is any place of the function. None where the graph is folded too much to tell them.
    """
    if folded is None or folded.root < 0:
        return None
    ends = {folded.home(n) for n in nodes} - {-1}
    found = above(folded, ends)
    return _lines_of(folded, found, level) if ends and folded.root in found | ends else None


def _lines_of(
    folded: Folded, numbers: Iterable[int], level: Frame, every: bool = False
) -> list[tuple[int, int]] | None:
    """The lines (first, last) of a function at or below which these parts were made; None where the level that would
    tell is not among the frames that were kept. ``every``: also where one was made elsewhere."""
    lines: list[tuple[int, int]] = []
    for number in numbers:
        part = folded.parts[number]
        at = [f for f in part.stack if f.in_function_of(level)]
        if not at and (every or len(part.stack) in (0, PART_FRAMES)):
            return None
        lines += [(f.line, f.end_line or f.line) for f in at]
    return sorted(set(lines))


def above(folded: Folded, parts: set[int]) -> set[int]:
    """The other parts that lead to any of these, as backward goes."""
    seen = set(parts)
    while upper := folded.taking(seen):
        seen |= upper
    return seen - parts


def lines_with(folded: Folded | None, names: set[str], level: Frame) -> list[tuple[int, int]] | None:
    """The lines (first, last) of a function below which the failing graph takes up any of these parameters.

    ``level`` is any place of the function. None where the graph is folded too much to tell them all.
    """
    leaves = {i: p.parameters for i, p in enumerate(folded.parts) if names & set(p.parameters)} if folded else {}
    if folded is None or not leaves or not names.issubset(n for own in leaves.values() for n in own):
        return None
    return _lines_of(folded, folded.taking(leaves), level, every=True)


def takes_up_anew(folded: Folded | None, names: set[str]) -> bool | None:
    """Whether what was computed since the latest backward call takes up any of these parameters; None where the graph
    is folded too much to tell."""
    if folded is None or any(len(p.parameters) >= PART_NAMES for p in folded.parts):
        return None  # the rest of these are not named
    leaves = {i for i, part in enumerate(folded.parts) if names & set(part.parameters)}
    return any(not folded.parts[number].older for number in folded.taking(leaves))


def without_graph(extras: dict[str, Any], function: str) -> set[str]:
    """The tensors without a graph that a function held under names of its own when the program failed."""
    return {t.path for t in reached(extras) if t.function == function and not t.requires_grad}


def with_graph(extras: dict[str, Any], function: str) -> set[str]:
    """The tensors with a graph behind them that a function held under names of its own when the program failed."""
    return {t.path for t in reached(extras) if t.function == function and t.requires_grad and not t.is_leaf}


# What the values of an older graph are to the loss that takes them in.


class Role(Enum):
    """What a value is to a loss."""

    TRAINED = "the loss is to train what lies behind it"
    TARGET = "a constant: another loss trains what lies behind it"
    DATA = "a constant for every loss in sight: none of their optimizers has what lies behind it"
    REFERENCE = "a constant: compared with what the pass computes again, through which the loss trains the same"
    UNKNOWN = "unknown"


CONSTANT = (Role.TARGET, Role.DATA)


# One buffer of which each of several losses takes a slice of its own: the buffer ties them, not what they use.
# ``values[i][t] = critic_i(x)`` for all ``i``, then a loss and a step for each ``values[i]``. Every write goes into
# the one tensor, so the graph of each slice is that of all of them, and the other slices' part of it gets zeros.


@dataclass(frozen=True)
class SlicedBuffer:
    """``path`` is the buffer in the function that reads it; ``read`` the slice there, ``write`` what fills a slice."""

    path: str
    read: Frame
    write: Frame


def sliced_buffer(carries: Sequence[Carried]) -> SlicedBuffer | None:
    """The buffer through which all these edges go into the older part; None where they go through anything else.

    Each edge comes out of a slice assignment (``CopySlices``) and goes into a read of one slice, which a loop around
    the call that needs it picks by its own counter: the rounds of the loop take different slices.
    """
    found = [_through(c) for c in carries]
    first = found[0] if found else None
    return first if first is not None and all(b is not None and b.path == first.path for b in found) else None


def _through(carry: Carried) -> SlicedBuffer | None:
    write, read = user_line(carry.made), user_line(carry.taken)
    sliced = carry.taken is not None and carry.taken.op.startswith("Select") and carry.made.op.endswith("CopySlices")
    if write is None or read is None or not sliced:
        return None
    sources = carry.run.sources
    path = _sliced(source_at(sources, read), expression_at(sources, read))
    held = {h.path for h in carry.holders if h.exact and h.function == read.function}
    filled = _sliced(source_at(sources, write), sole_target(statement_at(sources, write)))
    return SlicedBuffer(path, read, write) if path and path in held and path == filled else None


def _sliced(source: Source, node: ast.expr | None) -> str:
    """``self.values`` of ``self.values[i]``, ``i`` being the counter of a loop around it; empty for all else."""
    first = first_index(node) if isinstance(node, ast.Subscript) else None
    picked = isinstance(node, ast.Subscript) and isinstance(first, ast.Name) and counts(source, first)
    return key(without_subscripts(node)) if picked and node is not None else ""


# The older part of a graph that a backward call ran into: which tensors lead there, and what they are for the loss.


class Reuse(OlderValues):
    """An older part of the graph, and what it is to the call that failed.

    ``carries`` are the edges into it that matter, newest first; ``freeing`` is the call that used it before and
    ``failing`` the one that failed. ``meant`` are the parameters that the failing call is to train (``meant_known``
    tells whether that is known); ``coupling`` is set where the losses themselves show what in them is a target.
    """

    @cached_property
    def role(self) -> Role:
        """What the values are to the loss that takes them in: the failing one, or the earlier one where
        ``in_earlier_loss`` says so."""
        if self.lifetime is Lifetime.SAME_PASS:
            return self._role_beside_another_loss
        if self._foreign and not self.for_its_gradient:
            return Role.TARGET if self.owners else Role.DATA
        if self._meant is None or not self._all_behind:
            return Role.UNKNOWN
        trained = self._all_behind & self._meant
        anew = bool(trained) and trained <= self.fresh
        compared = anew and is_reference(self._crossing)
        return Role.REFERENCE if compared else Role.TRAINED

    @cached_property
    def _role_beside_another_loss(self) -> Role:
        """Two losses of one pass: whose optimizer has what they share."""
        return first_row(
            (lambda: self.calls is None, Role.UNKNOWN),
            (lambda: self.frozen_by_now, Role.TARGET),
            (lambda: self.only_heads_stepped or (self.asks_for_it and self.calm), Role.TRAINED),
            (lambda: self.asks_for_it, Role.UNKNOWN),
            (lambda: self._of_one_side, Role.TARGET),
            (lambda: self._of_neither_side, Role.DATA),
            (lambda: self.coupling is not None or self.weighed_by is not None or self.aims_anew, Role.TARGET),
            (lambda: self.left_by_another_pass, Role.REFERENCE),
            (lambda: self.one_step and self.failing and not self.journal.zeroed_before(self.failing), Role.TRAINED),
            (lambda: all(self.owners & works for works in self.works_for), Role.TRAINED),
            (lambda: True, Role.UNKNOWN),
        )

    @cached_property
    def _of_one_side(self) -> bool:
        """Whether the calls work for different optimizers, and those of one call alone have of what lies behind."""
        theirs, mine = self.works_for
        apart = bool(mine and theirs) and not mine & theirs and not self.for_its_gradient
        return apart and bool(self.owners & mine) != bool(self.owners & theirs)

    @cached_property
    def _of_neither_side(self) -> bool:
        """Whether surely neither call is to train anything of what lies behind.

        Both work for known optimizers, which have none of it; those that have it work with a call of their own, and no
        line reads a gradient by hand.
        """
        theirs, mine = self.works_for
        if self.calls is None or not mine or not theirs or self.owners & (mine | theirs) or not self._all_behind:
            return False
        known = {c.kind for c in self.calls} == {"backward"} and self.journal.owners.of(self._all_behind).known
        others = [e for e in self.journal.events if e.kind == "backward" and e not in self.calls]
        elsewhere = {o for e in others for o in self.journal.steps_after(e)} - mine - theirs
        return known and self.owners <= elsewhere and not gradients_are_read(self._evidence.sources)

    @cached_property
    def fitted_by_one(self) -> bool:
        """Whether one of two losses of a pass trains what they share and nothing else, and the other one more.

        What the first fits may be data for the second, as an advantage is for the policy that it weights.
        """
        pass_of_both = self.lifetime is Lifetime.SAME_PASS and self.calls is not None
        first, second = (set(self.journal.reaches(c)) for c in self.calls or ()) if pass_of_both else (set(), set())
        return bool(first & second) and (first < second or second < first)

    @cached_property
    def left_by_another_pass(self) -> bool:
        """Whether the pass of the failing loss, made behind the earlier call, computes anew with all of the parameters
        behind, and takes besides what the earlier one's pass has left on an object: a teacher's output, a target."""
        anew = bool(self._all_behind) and self._all_behind <= self.fresh and self.lifetime is Lifetime.SAME_PASS
        left = all(c.holders and all(h.exact and len(h.steps) > 1 for h in c.holders) for c in self._crossing)
        return anew and left and not (self.in_one_pass or self.within_one_call or self.asks_for_it)

    @cached_property
    def may_move_along(self) -> bool:
        """Whether a reference that was made once may be meant to be computed anew with what is compared with it: what
        a pass is drawn to by a distance (the mean of a class), not the one side of a ratio or of a divergence."""
        kept = self.role is Role.REFERENCE and self.lifetime is Lifetime.MADE_ONCE
        return kept and any(c.compared == "distance" and not _compared(c) for c in self._crossing)

    @cached_property
    def may_be_held(self) -> bool:
        """Whether the loss only weighs or compares what it computes anew by what was made once, and reaches all that is
        to learn behind that anew, too: the old values may be meant as constants."""
        meant = self._all_behind & self._meant if self._meant is not None else self._all_behind
        once = self.lifetime is Lifetime.MADE_ONCE and bool(meant) and meant <= self.fresh
        kinds = {c.compared or c.factor for c in self._crossing}
        # An advantage is no more than a weight of others' terms.
        return once and "" not in kinds and bool(kinds - {"alone"})

    @cached_property
    def frozen_by_now(self) -> bool:
        """Whether all that lies behind was frozen between the two calls: the second loss is to train nothing of it."""
        known = {p.name: p for p in self._evidence.parameters}
        behind = [known[name] for name in self._all_behind if name in known]
        return bool(self.owners) and bool(behind) and not any(p.requires_grad for p in behind)

    @cached_property
    def aims_anew(self) -> bool:
        """Whether the second of two losses for different optimizers, behind the first one's step, only compares the
        values with what it computes anew, through which it trains all that it is for."""
        theirs, mine = self.works_for
        own = self._all_behind & self.journal.owners.parameters(mine)
        anew = bool(own and theirs) and not theirs & mine and self.stepped and own <= self.fresh
        return anew and all(c.is_compared for c in self._crossing)

    @cached_property
    def fitted(self) -> bool:
        """Whether the failing loss takes one of the values in as what is to become its target."""
        return any(map(is_fitted, self._crossing))

    @cached_property
    def two_losses_of_one_pass(self) -> bool:
        """Whether two known calls have walked one graph of one pass, of which neither takes it as data."""
        data = self.role in (*CONSTANT, Role.REFERENCE)
        return self.lifetime is Lifetime.SAME_PASS and not data and bool(self.calls) and bool(self.used_up)

    @cached_property
    def for_its_gradient(self) -> bool:
        """Whether a loss takes the values in through a Function that is there for what it makes of their gradient."""
        ops = {c.taken.op for c in (*self._crossing, *self.earlier) if c.taken is not None}
        return any(changes_the_gradient_alone(self._evidence.sources, op) for op in ops)

    @cached_property
    def weighed_by(self) -> Event | None:
        """Of two losses of a pass, the one that takes what the other one alone fits as a weight, and as nothing else:
        it multiplies by it what leads to parameters of other optimizers, as a policy's loss does with an advantage.

        None where it is not known, or where one optimizer holds both.
        """
        larger, edges = self._larger
        behind = {name for c in edges for name in c.behind}
        reached = {name for call in self.calls or () for name in self.journal.reaches(call)}
        own = self.journal.owners.holding(reached - behind)
        apart = bool(own) and bool(self.owners) and not own & self.owners
        return larger if apart and edges and all(c.factor == "alone" for c in edges) else None

    @cached_property
    def may_be_data(self) -> bool:
        """Whether one of two losses of a pass reaches something that the other one fits by a weight alone, or by what
        it aims at: that may be meant as data, whoever steps for both."""
        larger, edges = self._larger
        aside = [c for c in edges if c.factor or is_aim(c)] if larger is not None else []
        others = {name for c in edges if c not in aside for name in c.behind}
        return bool({name for c in aside for name in c.behind} - others)

    @cached_property
    def _larger(self) -> tuple[Event | None, list[Carried]]:
        """Of two losses, of which one fits what they share and nothing else, the other one, and its edges into that."""
        if not self.fitted_by_one or self.calls is None or {c.kind for c in self.calls} != {"backward"}:
            return None, []
        first, second = (set(self.journal.reaches(c)) for c in self.calls)
        return (self.calls[0], self.earlier) if second < first else (self.calls[1], self._crossing)

    @cached_property
    def in_earlier_loss(self) -> bool:
        """Whether it is the earlier loss for which the values are constants, not the one that failed."""
        target = self.lifetime is Lifetime.SAME_PASS and self.role is Role.TARGET
        if not target or self.coupling is not None or self.aims_anew or self.frozen_by_now:
            return target and self.coupling is not None and not self.coupling.late
        weighed = self.weighed_by
        return weighed is self.freeing if weighed is not None else bool(self.owners & self.works_for[1])

    @property
    def may_be_for_both(self) -> bool:
        """Whether the optimizer of what the earlier loss is not for may step with what that adds."""
        return self.in_earlier_loss and bool(self.owners & self.gathering_since)

    @cached_property
    def coupling(self) -> Coupling | None:
        """Where one of two losses only aims at what the other one trains; None where the losses do not show that."""
        shown = self.lifetime is Lifetime.SAME_PASS and not (self.only_heads_stepped or self.asks_for_it)
        if not shown or self._of_one_side or self._of_neither_side:
            return None  # the owners alone decide
        return one_way(self._evidence, self.earlier, self.journal.owners, self.failing, self.freeing)

    @cached_property
    def earlier(self) -> list[Carried]:
        """The values by which the earlier loss, where it still lives, enters what both share."""
        return carried(self._evidence, self._evidence.earlier_edges)

    @cached_property
    def values(self) -> list[Carried]:
        """Of the values that are the fault one for each pair of places, newest first."""
        return by_places(self.carries)

    @cached_property
    def carries(self) -> list[Carried]:
        """The edges into the older part that are the fault, newest first."""
        coupled = (self.coupling.late or self.coupling.early) if self.coupling is not None else self._crossing
        return coupled if not self.from_one_root else []

    @cached_property
    def adds_up(self) -> bool:
        """Whether each iteration adds to the value what trained parameters give, and takes it into nothing else: the
        graph has no other way from the newer value to the older one."""
        fresh = self.behind & self.fresh
        return self.lifetime is Lifetime.RECURS and bool(fresh) and all(map(self._adds, self.carries))

    def _adds(self, carry: Carried) -> bool:
        summed = carry.taken is not None and carry.made.op == carry.taken.op and carry.taken.op in _SUMS
        return summed and len({f.extent for f in (*carry.making[:1], *carry.using[:1])}) == 1

    @cached_property
    def ran_beside(self) -> int:
        """How many operations were recorded since the earlier call that this loss does not use, where they are as many
        as the older part has: that ran again, and the loss was given what it gave before. Else 0."""
        unused, older = self._recorded_since
        return older if unused == older else 0

    @cached_property
    def may_have_run_again(self) -> bool:
        """Whether as many operations as the older part has, or more, were recorded since the earlier call and are not
        used by this loss: where the source shows that the same call ran again among them, that was to be used."""
        unused, older = self._recorded_since
        return unused >= older > 0

    @cached_property
    def _recorded_since(self) -> tuple[int, int]:
        """How many operations were recorded since the earlier call of this pass that this loss does not use, and how
        many the older part has; nothing where that is too few to tell anything by."""
        since, fresh, older = self._evidence.extras.get("recorded") or (0, 0, 0)
        return (since - fresh, older) if self.lifetime is Lifetime.SAME_PASS and older > 2 else (0, 0)

    @cached_property
    def slices(self) -> SlicedBuffer | None:
        """The buffer of which each loss takes a slice of its own and nothing else connects the two."""
        return sliced_buffer(self.carries) if self.same_line else None

    @cached_property
    def behind(self) -> set[str]:
        """The parameters behind these edges."""
        return {name for c in self.carries for name in c.behind}

    @cached_property
    def never_trained(self) -> set[str]:
        """The parameters that are frozen and have had no gradient in this run, whoever holds them."""
        known = self._evidence.parameters
        return {p.name for p in known if not p.requires_grad and not p.steps_with_grad and p.grad != "present"}

    @cached_property
    def meant(self) -> set[str]:
        """The parameters that the failing loss is meant to train, as far as that is known."""
        if self.coupling is not None:
            return self.journal.owners.parameters(self.coupling.own)
        return set(self._meant or ())

    @cached_property
    def meant_known(self) -> bool:
        return bool(self.coupling.late and self.coupling.early) if self.coupling else self._meant is not None

    @property
    def own(self) -> set[str]:
        """What lies behind and is meant to be trained by the failing loss."""
        return self.behind & self.meant

    @property
    def lost(self) -> set[str]:
        """The parameters that this loss is meant to train and reaches through the old graph alone, and to which no
        other loss of the same step sends gradient; without those that are frozen and have never had any."""
        return self.own - self.fresh - self.reached_beside - self.never_trained

    @property
    def learns_by_it_alone(self) -> bool:
        """Whether the loss reaches nothing of what it is to train but through its older part: cut off, it trains
        nobody."""
        return bool(self.own) and self.own >= self.meant and not self.meant & self.fresh

    @cached_property
    def owned_by_others(self) -> bool:
        """Whether the owners prove it a constant: all of what lies behind is known to be owned by others than those
        that the loss which takes it in works for."""
        known = bool(self.behind) and self.journal.owners.of(self.behind).known
        if not known or self.may_be_for_both or (self.weighed_by is not None and not self._of_one_side):
            return False
        if self.in_earlier_loss and self.coupling is None:
            return bool(self.works_for[0]) and not self.owners & self.works_for[0]
        return self.meant_known and (self.in_earlier_loss or not self.own)

    def without_graph(self, function: str) -> set[str]:
        return without_graph(self._evidence.extras, function)
