"""What earlier backward calls started from, as terms of a later loss: whether it adds to them, or counts them again."""

from __future__ import annotations

from functools import cached_property

from graphdoc.evidence import Event, Evidence, Frame, Node, OlderEdge
from graphdoc.program.calls_in_order import Journal
from graphdoc.program.carried_names import carried_on
from graphdoc.program.earlier_losses import leads_to, roots_of
from graphdoc.program.grown_sums import grows, is_divided, is_scaled, is_sum_that_goes_on, takes_term
from graphdoc.program.two_calls import TwoCalls


class EarlierTerms(TwoCalls):
    """Two backward calls, of which the later one may differentiate what earlier ones started from.

    ``carries`` are the edges by which its graph enters an older part.
    """

    def __init__(
        self,
        evidence: Evidence,
        journal: Journal,
        failing: Event | None,
        freeing: Event | None,
        carries: list[OlderEdge],
    ) -> None:
        self._evidence = evidence
        self._crossing = carries
        self._all_behind = {name for c in carries for name in c.behind}
        super().__init__(journal, failing, freeing, self._all_behind, evidence.reaches, evidence.sources)

    @cached_property
    def earlier_roots(self) -> list[OlderEdge]:
        """Edges into results that an earlier backward call started from."""
        roots = roots_of(self._evidence.events, self._evidence.packages)
        return [c for c in self._crossing if leads_to(c, self._evidence.node(c.producer), roots)]

    @property
    def kept_behind(self) -> bool:
        """Whether what goes on was made behind the earlier call, of values that this had used up."""
        return any(c.consumer < 0 for c in self._crossing)

    @cached_property
    def joined(self) -> Node | None:
        """The node through which ``DistributedDataParallel`` gives out all that one forward call returns, where the
        two losses meet in it: each backward call then walks what lies behind every one of them."""
        edges = self._crossing[:1]
        heads = [self._evidence.node(c.consumer if self.of_one_node else c.producer) for c in edges]
        return next((n for n in heads if n is not None and n.op.startswith("_DDPSink")), None)

    @cached_property
    def _takers(self) -> list[Node | None]:
        """The nodes that take up what an earlier call started from."""
        return [self._evidence.node(c.consumer) for c in self.earlier_roots]

    @cached_property
    def _sums_up(self) -> bool:
        """Whether the failing loss adds to what an earlier call started from, round after round: several earlier
        results are in it, the same line differentiates what grows, or a statement adds to it under its own name. One
        result of another line and name is a loss of its own that this one is computed from."""
        if self.same_line and self._crossing and all(self.goes_on(c) for c in self._crossing):
            return True
        adds = all(n is None or takes_term(self._evidence.sources, n) for n in self._takers)
        several = len({c.producer for c in self.earlier_roots}) > 1
        on = self.same_line or several or any(map(self.carrying, self.earlier_roots))
        return bool(self._takers) and adds and on

    def goes_on(self, carry: OlderEdge) -> bool:
        """Whether the failing loss is a sum that goes on, and this value is what the sum came to before."""
        seen = self._evidence
        return is_sum_that_goes_on(seen.sources, seen.folded, carry, seen.node(carry.consumer))

    @cached_property
    def counts_again(self) -> bool:
        """Whether the failing loss has terms that other lines have differentiated for the same step: each would count
        twice. A sum that grew beside those calls is told by its growth."""
        if (
            self.same_line
            or not self._takers
            or any(n is not None and grows(self._evidence.sources, n) for n in self._takers)
        ):
            return False
        calls = [*self.earlier_calls, *(self.calls or ())]
        return self.calm and self.journal.steps_between(calls[0], calls[-1]) == frozenset()

    @cached_property
    def earlier_calls(self) -> list[Event]:
        """The calls that started from a part of the failing loss, in the order in which they were made."""
        began = [(c, self._evidence.node(c.producer)) for c in self.earlier_roots]
        calls = [e for e in self._evidence.events if e.kind == "backward" and not e.failed]
        return [e for e in calls if any(leads_to(c, made, e.roots) for c, made in began)]

    @cached_property
    def adds_nothing(self) -> bool:
        """Whether it is a sum of such terms and of nothing else."""
        return self.counts_again and not self._evidence.fresh_reaches

    @cached_property
    def only_scaled(self) -> bool:
        """Whether it is one such result divided by a number, and nothing else: a trainer that shares the loss which it
        was given out over the batches of a step, and calls backward itself."""
        if not self.adds_nothing or len(self._crossing) != 1 or len(self.earlier_roots) != 1:
            return False
        carry, taker = self.earlier_roots[0], self._takers[0]
        if taker is None or not taker.op.startswith("Div") or not is_scaled(self._evidence.folded, carry.consumer):
            return False
        return is_divided(self._evidence.sources, taker.stack[-1] if taker.stack else None, carry.tensor.holders)

    def carrying(self, carry: OlderEdge) -> tuple[Frame, str] | None:
        """The statement that carries this value on under its name, and the name; None where none does."""
        return carried_on(self._evidence.sources, self._evidence.nodes, carry)
