"""Two backward calls that meet in one part of a graph: whom each works for, and what came between them."""

from __future__ import annotations

from functools import cached_property

from graphdoc.evidence import Event, SourceTexts
from graphdoc.program.calls_in_order import Journal, Site, site
from graphdoc.program.custom_functions import runs_backward
from graphdoc.program.head_optimizers import only_heads_stepped
from graphdoc.program.step_closures import without_step


class TwoCalls:
    """The earlier call (``freeing``), which used a part of the graph, and the one that failed there (``failing``).

    ``shared`` are the parameters behind that part, ``reaches`` those that the failing call reaches.
    """

    def __init__(
        self,
        journal: Journal,
        failing: Event | None,
        freeing: Event | None,
        shared: set[str],
        reaches: list[str],
        sources: SourceTexts,
    ) -> None:
        self.journal = journal
        self.failing, self.freeing = failing, freeing
        self._shared, self._reaches, self._sources = shared, reaches, sources

    @cached_property
    def calls(self) -> tuple[Event, Event] | None:
        """The earlier call and the one that failed; None where one of them is not known."""
        return (self.freeing, self.failing) if self.freeing is not None and self.failing is not None else None

    @cached_property
    def works_for(self) -> tuple[frozenset[int], frozenset[int]]:
        """The optimizers that the earlier call and the failing one work for; empty where they are not known."""
        if self.calls is None:
            return frozenset(), frozenset()
        return self.journal.works_for(self.calls[0]), self.journal.works_for(self.calls[1])

    @cached_property
    def owners(self) -> frozenset[int]:
        """The optimizers that hold anything of what lies behind the older part."""
        return self.journal.owners.of(self._shared).optimizers

    @cached_property
    def same_line(self) -> bool:
        """Whether both calls were made at one place, reached in the same way; a step may call its closure from several
        lines of its own."""
        if self.calls is None:
            return False
        first, second = (site(without_step(c.stack)) for c in self.calls)
        return first == second

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
        out: set[str] = set()
        for e in reversed(self.journal.events):
            if self.failing is None or e.index >= self.failing.index:
                continue
            if e.kind in ("step", "zero_grad"):
                break
            if e.kind == "backward" and not e.failed:
                out |= set(self.journal.reaches(e))
        return out

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
        if first is None or first.kind != "grad" or first.retain_graph:
            return False
        return not self.stepped

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
        if self.calls is None:
            return False
        return only_heads_stepped(self.journal, self._reaches, *self.calls)

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
        if self.calls is None or not self.owners or self.journal.owners.of(self._shared).free:
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
        return (
            self.failing is not None and self.one_step and bool(self.journal.zeroed_before(self.failing) & self.owners)
        )

    @cached_property
    def for_different_optimizers(self) -> bool:
        """Whether the failing call works for other optimizers than those that stepped after the earlier one."""
        if self.calls is None:
            return False
        mine, theirs = self.works_for[1], self.journal.steps_after(self.calls[0])
        return bool(mine and theirs) and not mine & theirs


def _around(event: Event) -> Site:
    """The frames of the backward call below which a custom Function made this one; empty where none did."""
    applied = [i for i, f in enumerate(event.stack) if runs_backward(f)]
    return site(event.stack[: applied[-1]]) if applied else ()
