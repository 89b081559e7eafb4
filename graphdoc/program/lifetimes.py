"""How values behind an older part of a graph come to be in a later one, and what earlier calls count as its terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import cached_property
from itertools import pairwise, takewhile
from typing import TypeVar

from graphdoc.evidence import Event, Evidence, Holder, Node
from graphdoc.program import rounds
from graphdoc.program.calls_in_order import DIFFERENTIATING, Journal, Site, only_heads_stepped, site
from graphdoc.program.carried_names import Carried, grows, is_divided, is_scaled, is_sum_that_goes_on, takes_term
from graphdoc.program.container_entries import entry_of
from graphdoc.program.custom_functions import runs_backward
from graphdoc.program.spans import user_line
from graphdoc.program.writers import without_step

_Answer = TypeVar("_Answer")


def first_row(*rows: tuple[Callable[[], object], _Answer]) -> _Answer:
    """What the first of these rows says that holds; none behind it is asked."""
    return next(answer for holds, answer in rows if holds())


# Two backward calls that meet in one part of a graph: whom each works for, and what came between them.


class TwoCalls:
    """The earlier call (``freeing``), which used a part of the graph, and the one that failed there (``failing``).

    ``carries`` are the edges by which the graph of the failing call enters that part; ``meant`` are the parameters that
    it is to train, None where that is not known.
    """

    def __init__(
        self,
        evidence: Evidence,
        journal: Journal,
        failing: Event | None,
        freeing: Event | None,
        carries: list[Carried],
        meant: frozenset[str] | None,
    ) -> None:
        self._evidence, self.sources, self.journal = evidence, evidence.sources, journal
        self.failing, self.freeing = failing, freeing
        self._crossing, self._meant = carries, meant
        self._all_behind = {name for c in carries for name in c.behind}
        self.fresh = set(evidence.fresh_reaches)
        """The parameters that the failing loss reaches by what was made since."""

    @cached_property
    def calls(self) -> tuple[Event, Event] | None:
        """The earlier call and the one that failed; None where one of them is not known."""
        return (self.freeing, self.failing) if self.freeing is not None and self.failing is not None else None

    @cached_property
    def works_for(self) -> tuple[frozenset[int], frozenset[int]]:
        """The optimizers that the earlier call and the failing one work for; empty where they are not known."""
        first, second = (self.journal.works_for(c) for c in self.calls) if self.calls else (frozenset(), frozenset())
        return first, second

    @cached_property
    def owners(self) -> frozenset[int]:
        """The optimizers that hold anything of what lies behind the older part."""
        return self.journal.owners.of(self._all_behind).optimizers

    @cached_property
    def same_line(self) -> bool:
        """Whether both calls were made at one place, reached in the same way; a step may call its closure from several
        lines of its own."""
        return self.calls is not None and len({site(without_step(c.stack)) for c in self.calls}) == 1

    @property
    def of_one_node(self) -> bool:
        """Whether the two calls start from different outputs of one node (``unbind``, a Function that returns two)."""
        if self.calls is None or self.calls[0].starts_with(self.calls[1]):
            return False
        (freeing, failing) = self.calls
        apart = freeing.root_output != failing.root_output or failing.root_output < 0
        return apart and failing.root >= 0 and (freeing.root, freeing.root_op) == (failing.root, failing.root_op)

    @cached_property
    def went_round(self) -> bool:
        """Whether both lines have run again since the earlier call, first the failing one's: a whole round of the loop
        around them lies between, so that what they share was made before it."""
        if self.calls is None:
            return False
        freeing, failing = (site(c.stack) for c in self.calls)
        seen = [site(e.stack) for e in self.journal.between(*self.calls)]
        return failing in seen and freeing in seen[seen.index(failing) :]

    @cached_property
    def within_one_call(self) -> bool:
        """Whether both were made while one backward call ran, below the backward of a custom Function."""
        if self.calls is None or not self.journal.is_complete(*self.calls):
            return False
        every = [*self.calls, *self.journal.between(*self.calls)]
        around = {_around(e) for e in every}
        return len(around) == 1 and () not in around and all(e.kind in ("backward", "grad") for e in every)

    @cached_property
    def reached_beside(self) -> set[str]:
        """The parameters into which other calls have sent gradient for the step that the failing call is to add to."""
        before = self.journal.before(self.failing) if self.failing is not None else iter(())
        since = takewhile(lambda e: e.kind not in ("step", "zero_grad"), before)
        return {n for e in since if e.kind == "backward" and not e.failed for n in self.journal.reaches(e)}

    @cached_property
    def stepped(self) -> bool:
        """Whether an optimizer is known to have stepped between the two calls."""
        return bool(self.calls is not None and self.journal.steps_between(*self.calls))

    @cached_property
    def calm(self) -> bool:
        """Whether surely no optimizer has stepped between the two calls."""
        return self.calls is not None and self.journal.steps_between(*self.calls) == frozenset()

    @cached_property
    def inner(self) -> bool:
        """Whether an ``autograd.grad`` has freed the graph, in a pass in which no optimizer has stepped since."""
        first = self.calls[0] if self.calls is not None else None
        return first is not None and first.kind == "grad" and not first.retain_graph and not self.stepped

    @cached_property
    def gathering_since(self) -> set[int]:
        """The optimizers that the failing call alone works for, of those that were set to zero before the earlier call
        and neither stepped nor were set to zero since: they may be meant to step with what both calls add."""
        if self.calls is None:
            return set()
        theirs, mine = self.works_for
        freeing, failing = self.calls
        last = {e.optimizer: e for e in self.journal.events if e.index < failing.index and e.optimizer >= 0}
        begun = {o for o, e in last.items() if e.kind == "zero_grad" and e.index < freeing.index}
        return set(mine - theirs) & begun

    @cached_property
    def only_heads_stepped(self) -> bool:
        """Whether the steps between the two calls touch nothing that both losses reach."""
        return self.calls is not None and only_heads_stepped(self.journal, self._evidence.reaches, *self.calls)

    @cached_property
    def held_by_second(self) -> bool:
        """Whether only heads stepped, and what both losses reach is in one optimizer with what the failing one alone
        reaches: the earlier loss, which has an optimizer of its own, may be meant to take it as data."""
        if self.calls is None or not self.only_heads_stepped:
            return False
        first, second = (set(self.journal.reaches(c)) for c in self.calls)
        holding = self.journal.owners.holding
        return bool(holding(first & second) & holding(second - first))

    @cached_property
    def one_step(self) -> bool:
        """Whether the two calls add to the gradients of one step: what lies behind is trained, and nothing was stepped
        or accumulated in between. Computing it again would give the very same numbers.

        An inner ``autograd.grad`` adds to no gradient.
        """
        if self.calls is None or not self.owners or self.journal.owners.of(self._all_behind).free:
            return False
        freeing, failing = self.calls
        if any("/torch/optim/" in f.file.replace("\\", "/") for f in failing.stack):
            return False  # a closure: the optimizer moves the parameters between its calls, within one step
        between = self.journal.between(freeing, failing)
        return self.journal.is_complete(freeing, failing) and not any(e.kind in ("backward", "step") for e in between)

    @cached_property
    def read_apart(self) -> bool:
        """Whether one line calls backward for one loss after the other, clears the gradients of what they share in
        between and steps for none: it wants the gradient of each loss by itself."""
        return self.same_line and self.cleared_between

    @cached_property
    def cleared_between(self) -> bool:
        """Whether what the earlier call gave to what both share is cleared before the later one, and before a step."""
        failing = self.failing if self.one_step else None
        return failing is not None and bool(self.journal.zeroed_before(failing) & self.owners)

    @cached_property
    def for_different_optimizers(self) -> bool:
        """Whether the failing call works for other optimizers than those that stepped after the earlier one."""
        mine, theirs = self.works_for[1], self.journal.steps_after(self.calls[0]) if self.calls else set()
        return bool(mine and theirs) and not mine & theirs


def _around(event: Event) -> Site:
    """The frames of the backward call below which a custom Function made this one; empty where none did."""
    applied = [i for i, f in enumerate(event.stack) if runs_backward(f)]
    return site(event.stack[: applied[-1]]) if applied else ()


# What earlier backward calls started from, as terms of a later loss: whether it adds to them, or counts them again.


class EarlierTerms(TwoCalls):
    """Two backward calls, of which the later one may differentiate what earlier ones started from."""

    @cached_property
    def earlier_roots(self) -> list[Carried]:
        """Edges into results that an earlier backward call started from."""
        roots = rounds.roots_of(self._evidence.events, self._evidence.packages)
        return [c for c in self._crossing if rounds.leads_to(c, roots)]

    @property
    def kept_behind(self) -> bool:
        """Whether what goes on was made behind the earlier call, of values that this had used up."""
        return any(c.consumer < 0 for c in self._crossing)

    @cached_property
    def joined(self) -> Node | None:
        """The node through which ``DistributedDataParallel`` gives out all that one forward call returns, where the
        two losses meet in it: each backward call then walks what lies behind every one of them."""
        edges = self._crossing[:1]
        heads = [c.taken if self.of_one_node else c.made for c in edges]
        return next((n for n in heads if n is not None and n.op.startswith("_DDPSink")), None)

    @cached_property
    def _takers(self) -> list[Node | None]:
        """The nodes that take up what an earlier call started from."""
        return [c.taken for c in self.earlier_roots]

    @cached_property
    def _sums_up(self) -> bool:
        """Whether the failing loss adds to what an earlier call started from, round after round: several earlier
        results are in it, the same line differentiates what grows, or a statement adds to it under its own name. One
        result of another line and name is a loss of its own that this one is computed from."""
        if self.same_line and self._crossing and all(map(is_sum_that_goes_on, self._crossing)):
            return True
        adds = all(n is None or takes_term(self._evidence.sources, n) for n in self._takers)
        several = len({c.producer for c in self.earlier_roots}) > 1
        on = self.same_line or several or any(c.carried_on for c in self.earlier_roots)
        return bool(self._takers) and adds and on

    @cached_property
    def counts_again(self) -> bool:
        """Whether the failing loss has terms that other lines have differentiated for the same step: each would count
        twice. A sum that grew beside those calls is told by its growth."""
        growing = any(n is not None and grows(self._evidence.sources, n) for n in self._takers)
        calls = [*self.earlier_calls, *(self.calls or ())]
        apart = self._takers and not self.same_line and not growing and self.calm
        return bool(apart) and self.journal.steps_between(calls[0], calls[-1]) == frozenset()

    @cached_property
    def earlier_calls(self) -> list[Event]:
        """The calls that started from a part of the failing loss, in the order in which they were made."""
        calls = [e for e in self._evidence.events if e.kind == "backward" and not e.failed]
        return [e for e in calls if any(rounds.leads_to(c, e.roots) for c in self.earlier_roots)]

    @cached_property
    def adds_nothing(self) -> bool:
        """Whether it is a sum of such terms and of nothing else."""
        return self.counts_again and not self.fresh

    @cached_property
    def only_scaled(self) -> bool:
        """Whether it is one such result divided by a number, and nothing else: a trainer that shares the loss which it
        was given out over the batches of a step, and calls backward itself."""
        if not self.adds_nothing or len(self._crossing) != 1 or len(self.earlier_roots) != 1:
            return False
        carry, taker = self.earlier_roots[0], self._takers[0]
        if taker is None or not taker.op.startswith("Div") or not is_scaled(self._evidence.folded, carry.consumer):
            return False
        return is_divided(self._evidence.sources, taker.stack[-1] if taker.stack else None, carry.holders)


# How values behind an older part of a graph come to be in a later one: kept, stored, carried on, or made once.


class Lifetime(Enum):
    """How values behind an older part come to be in a later graph."""

    RESULT = "an earlier call started from it"
    SUMMED = "an earlier call started from it, and the sum went on"
    RECURS = "each round makes it again, out of the last one or beside it"
    STORED = "several of one expression are kept in a store"
    MADE_ONCE = "made once, and not again since"
    SAME_PASS = "made in the pass of both calls"
    UNKNOWN = "unknown"


class OlderValues(EarlierTerms):
    """The values by which a later graph enters an older part of it, and how they live."""

    @cached_property
    def used_up(self) -> bool:
        """Whether the failing call met a node that an earlier one had used up, and not one whose values were written.

        A stale part may well be whole: no call need have freed it.
        """
        met = self._evidence.failing_node
        return met is None or met.state != "stale"

    @cached_property
    def in_one_pass(self) -> bool:
        """Whether nothing of the failing graph was made behind the earlier call."""
        return "shared_with" in self._evidence.extras

    @cached_property
    def both_seen(self) -> bool:
        """Whether the graph of the earlier call was still there, so that what both share was seen and not inferred."""
        shared = self._evidence.extras.get("shared_with") or {}
        return bool(self._evidence.earlier_edges) or bool(shared.get("exact"))

    @cached_property
    def from_one_root(self) -> bool:
        """Whether both calls started from the very same tensor."""
        shared = self._evidence.extras.get("shared_with") or {}
        return bool(shared.get("same_root")) or (
            self.failing is not None and self.journal.earlier(self.failing) is not None
        )

    @cached_property
    def calls_before(self) -> int:
        """How many calls on the very same tensor came before the one that failed; one where that is not known."""
        failing = self.failing
        if failing is None or failing.root < 0 or not self.from_one_root:
            return 1
        return sum(e.starts_with(failing) and e.index < failing.index for e in self._evidence.events)

    @cached_property
    def lifetime(self) -> Lifetime:
        """How the older values come to be in this graph: what the first row says that holds."""
        again = any(c.recurrent or c.remade for c in self._crossing)
        several = self._made_per_call > 1
        stored = several and self._in_store
        return first_row(
            (lambda: self.from_one_root or (self.inner and self._is_term), Lifetime.RESULT),
            (lambda: self.in_one_pass or self.within_one_call, Lifetime.SAME_PASS),
            (lambda: not again and self.only_heads_stepped, Lifetime.SAME_PASS),
            (lambda: self._sums_up and not self.counts_again, Lifetime.SUMMED),
            (lambda: self._sums_up or self.only_scaled, Lifetime.RESULT),
            (lambda: any(c.recurrent for c in self._crossing), Lifetime.RECURS),
            (lambda: self._in_turn, Lifetime.SAME_PASS),
            (lambda: again and (self._made_per_call != 1 or self._drawn_from_a_store), Lifetime.STORED),
            (lambda: again, Lifetime.RECURS),
            (lambda: self._kept_since_first_use or self.kept_by_package, Lifetime.MADE_ONCE),
            (lambda: self._renewed_since and not self._left_a_list, Lifetime.RECURS),
            (lambda: self._stored_rounds_ago, Lifetime.STORED),
            # another loss of this pass has used the part before
            (lambda: self.one_step or not (self.same_line or self.went_round), Lifetime.SAME_PASS),
            (lambda: self._only_the_root_is_fresh, Lifetime.RESULT),
            # not made again by the failing pass, and differentiated by the same line before
            (lambda: any(c.carried_on for c in self._crossing), Lifetime.RECURS),
            (lambda: self._foreign and stored and not self.owners, Lifetime.STORED),
            (
                lambda: self._foreign and not (several or self.for_different_optimizers) and self.made_before_all,
                Lifetime.MADE_ONCE,
            ),
            (lambda: self._foreign, Lifetime.UNKNOWN),
            (lambda: stored or self._one_of_a_list or self._left_a_list or self._each_round_makes_one, Lifetime.STORED),
            (lambda: self._renewed, Lifetime.RECURS),
            (lambda: True, Lifetime.MADE_ONCE),
        )

    @cached_property
    def _kept_since_first_use(self) -> bool:
        """Whether the function that made each of the values has run again and taken it as it was."""
        freeing = self.freeing if self._crossing else None
        return freeing is not None and all(rounds.kept_since_first_use(c, freeing) for c in self._crossing)

    @cached_property
    def kept_by_package(self) -> bool:
        """Whether a package keeps all of the values to itself, and a later pass has taken them up again."""
        return bool(self._crossing) and all(rounds.kept_by_package(c, self.freeing) for c in self._crossing)

    def is_start(self, carry: Carried) -> bool:
        """Whether a value of a recurrence was made before it: the state with which the first round begins."""
        if self.lifetime is not Lifetime.RECURS or carry.recurrent or carry.remade:
            return False
        return carry.carried_on is not None or any(c.recurrent or c.remade for c in self._crossing)

    @cached_property
    def _each_round_makes_one(self) -> bool:
        """Whether the failing round has made such values too, and what it took instead was kept from an earlier one,
        whose call has used it up."""
        # What is written to since, nothing need have used before.
        failing = self.failing if self._crossing and not self._evidence.stale else None
        return failing is not None and all(
            rounds.made_each_round(self.sources, c.made, failing) for c in self._crossing
        )

    @cached_property
    def _stored_rounds_ago(self) -> bool:
        """Whether rounds of a loop around both calls have passed since the earlier one, each of which makes such
        values, and a store kept this one."""
        if self.calls is None or not self._in_store or self._evidence.stale:
            return False
        freeing, failing = self.calls
        passed = any(site(e.stack) == site(freeing.stack) for e in self.journal.between(*self.calls))
        passed = passed and rounds.in_loop_of(self.sources, freeing, failing)
        return passed and any(rounds.made_each_round(self.sources, c.made, freeing) for c in self._crossing)

    @cached_property
    def asks_for_it(self) -> bool:
        """Whether the failing call is an ``autograd.grad`` that asks for a gradient behind the values."""
        asked = {n for n in self._evidence.extras.get("asked") or () if n}
        return self.failing is not None and self.failing.kind == "grad" and bool(asked & self._all_behind)

    @cached_property
    def _foreign(self) -> bool:
        """Whether the failing call is known to train nothing of what lies behind."""
        known = self._meant is not None and not self.asks_for_it and bool(self._all_behind)
        return known and not self._all_behind & (self._meant or frozenset())

    @cached_property
    def _in_turn(self) -> bool:
        """Whether the same line runs backward for one optimizer after the other, each of which owns a part of what
        lies behind."""
        theirs = self.journal.steps_after(self.calls[0]) if self.calls and self.for_different_optimizers else set()
        return self.same_line and bool(self.owners & self.works_for[1]) and bool(self.owners & theirs)

    @cached_property
    def made_before_all(self) -> bool:
        """Whether the values were made before the first backward call of the run, or the first from the failing one's
        line: an earlier training has nothing to do with them."""
        makers, here = [c.made for c in self._crossing], user_line(self.failing)
        calls = (e for e in self._evidence.events if e.kind in DIFFERENTIATING)
        began = next((e.sequence for e in calls if here is not None and user_line(e) == here), 0)
        return bool(makers) and all(self._epoch(n) == 0 or 0 <= n.sequence < began for n in makers)

    def _epoch(self, node: Node) -> int:
        """How many backward calls had been made before this node was."""
        return sum(e.sequence <= node.sequence for e in self._evidence.events if e.kind in DIFFERENTIATING)

    @cached_property
    def _is_term(self) -> bool:
        """Whether the very tensor that an ``autograd.grad`` started from is itself a part of the failing loss."""
        calls = (e for e in self.journal.events if e.kind == "grad" and e.root >= 0 and not e.failed)
        roots = {root for e in calls for root in e.roots}
        return any(rounds.leads_to(c, roots) for c in self._crossing)

    @cached_property
    def _renewed(self) -> bool:
        """What is held under the tensor's names was made at the same place later: the expression ran again since."""
        holders = [h for c in self._crossing for h in c.holders]
        return bool(holders) and not any(h.exact for h in holders)

    @cached_property
    def _renewed_since(self) -> bool:
        """Whether one line ran through two passes, each of which reads what is kept and keeps its own in its place.

        The names of all the values hold what the failing pass has put there.
        """
        return self.same_line and bool(self._crossing) and all(c.renewed for c in self._crossing)

    @cached_property
    def _made_per_call(self) -> int:
        """How many outputs of one expression, all made between the same two backward calls, are carried."""
        # One call can give several outputs of equal standing (h and c): of those, each operation counts for itself.
        alike: dict[tuple[Site, int, str], set[int]] = {}
        for c in self._crossing:
            alike.setdefault((site(c.made.stack), self._epoch(c.made), c.made.op), set()).add(c.made.sequence)
        return max((len(v) for v in alike.values()), default=0)

    @cached_property
    def _in_store(self) -> bool:
        """Held in something that was filled entry by entry."""
        holders = [h for c in self._crossing for h in c.holders if h.exact]
        entered = [h for h in holders if any(s.kind in ("index", "key") for s in h.steps)]
        return any({"list", "deque", "dict"} & {s.type for s in h.steps} for h in entered)

    @cached_property
    def _one_of_a_list(self) -> bool:
        """Held in a list beside others that the same expression made: entries of a rollout, of which it reads one."""
        sites = {site(c.made.stack) for c in self._crossing} - {()}
        alike = ([t for t in self._evidence.held_tensors if site(t.made) == mine] for mine in sites)
        return any(_in_several_places(h for t in found for h in t.holders if kept_list(h)) for found in alike)

    @cached_property
    def _left_a_list(self) -> bool:
        """Held by nobody any more: where it was in a list, and in other places of it, lie later ones of its making."""
        holders = [h for c in self._crossing for h in c.holders]
        return not any(h.exact or not kept_list(h) for h in holders) and _in_several_places(holders)

    @cached_property
    def _drawn_from_a_store(self) -> bool:
        """One entry of many comes back: nothing but lists of such entries holds it, so no variable carries it on."""
        holders = [h for c in self._crossing for h in c.holders if h.exact]
        return bool(holders) and all(entry_of(h) is not None for h in holders) and self._one_of_a_list

    @cached_property
    def _only_the_root_is_fresh(self) -> bool:
        """All that is new stands in the statement of the backward call: ``(-score).backward()`` on one old score."""
        call = user_line(self.failing) if not self.fresh else None
        taking = [user_line(c.taken) for c in self._crossing]
        return call is not None and all(f and f.in_function_of(call) and f.on_lines_of(call) for f in taking)


def _in_several_places(holders: Iterable[Holder]) -> bool:
    """Whether several places of one list are among these."""
    paths: dict[tuple[str, str], set[str]] = {}
    for h in holders:
        paths.setdefault((h.function, kept_list(h)), set()).add(h.path)
    return any(len(found) > 1 for found in paths.values())


def kept_list(holder: Holder) -> str:
    """The name of the list or deque that a tensor is held in, itself or in a field of an entry; empty for none."""
    lists = (a for a, b in pairwise(holder.steps) if b.kind == "index" and a.type in ("list", "deque"))
    return next((step.key for step in lists), "")
