"""How values behind an older part of a graph come to be in a later one: kept, stored, carried on, or made once."""

from __future__ import annotations

from enum import Enum
from functools import cached_property

from graphdoc.evidence import Event, Evidence, Frame, Holder, OlderEdge
from graphdoc.program.calls_in_order import Journal, Site, site
from graphdoc.program.container_entries import entry_of
from graphdoc.program.earlier_losses import leads_to
from graphdoc.program.earlier_terms import EarlierTerms
from graphdoc.program.first_use import kept_by_package, kept_since_first_use
from graphdoc.program.made_each_round import in_loop_of, made_each_round
from graphdoc.program.spans import innermost_user


class Lifetime(Enum):
    """How values behind an older part come to be in a later graph."""

    RESULT = "an earlier call started from it"
    SUMMED = "an earlier call started from it, and the sum went on"
    RECURS = "each round makes it anew, out of the last one or beside it"
    STORED = "several of one expression are kept in a store"
    MADE_ONCE = "made once, and not again since"
    SAME_PASS = "made in the pass of both calls"
    UNKNOWN = "unknown"


class OlderValues(EarlierTerms):
    """The values by which a later graph enters an older part of it, and how they live.

    ``carries`` are the edges into it; ``meant`` are the parameters that the failing call is to train, None where that
    is not known.
    """

    def __init__(
        self,
        evidence: Evidence,
        journal: Journal,
        failing: Event | None,
        freeing: Event | None,
        carries: list[OlderEdge],
        meant: frozenset[str] | None,
    ) -> None:
        super().__init__(evidence, journal, failing, freeing, carries)
        self._meant = meant

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
        """How the older values come to be in this graph."""
        if self.from_one_root or (self.inner and self._is_term):
            return Lifetime.RESULT
        again = any(c.recurrent or c.remade for c in self._crossing)
        if self.in_one_pass or self.within_one_call or (not again and self.only_heads_stepped):
            return Lifetime.SAME_PASS
        if self._sums_up:
            return Lifetime.RESULT if self.counts_again else Lifetime.SUMMED
        if self.only_scaled:
            return Lifetime.RESULT
        if any(c.recurrent for c in self._crossing):
            return Lifetime.RECURS
        if self._in_turn:
            return Lifetime.SAME_PASS
        if again:
            return Lifetime.RECURS if self._made_per_call == 1 and not self._drawn_from_a_store else Lifetime.STORED
        if self._kept_since_first_use or self.kept_by_package:
            return Lifetime.MADE_ONCE
        if self._renewed_since and not self._left_a_list:
            return Lifetime.RECURS
        if self._stored_rounds_ago:
            return Lifetime.STORED
        if self.one_step or not (self.same_line or self.went_round):
            return Lifetime.SAME_PASS  # another loss of this pass has used the part before
        if self._only_the_root_is_fresh:
            return Lifetime.RESULT
        return self._of_one_making

    @cached_property
    def _kept_since_first_use(self) -> bool:
        """Whether the function that made each of the values has run again and taken it as it was."""
        sources, node, freeing = self._evidence.sources, self._evidence.node, self.freeing
        if freeing is None or not self._crossing:
            return False
        pairs = [(node(c.producer), node(c.consumer)) for c in self._crossing]
        return all(kept_since_first_use(sources, made, taken, freeing) for made, taken in pairs)

    @cached_property
    def kept_by_package(self) -> bool:
        """Whether a package keeps all of the values to itself, and a later pass has taken them up again."""
        node, sources = self._evidence.node, self._evidence.sources
        kept = [(c.tensor.holders, node(c.producer), node(c.consumer), self.freeing) for c in self._crossing]
        return bool(kept) and all(kept_by_package(sources, *k) for k in kept)

    @cached_property
    def _of_one_making(self) -> Lifetime:
        """Of values that the failing pass did not make again, and that the same line has differentiated before."""
        several = self._made_per_call > 1
        if self.carried_on:
            return Lifetime.RECURS
        if self._foreign:
            if several and self._in_store and not self.owners:
                return Lifetime.STORED
            once = self.made_before_all and not several and not self.for_different_optimizers
            return Lifetime.MADE_ONCE if once else Lifetime.UNKNOWN
        if (several and self._in_store) or self._one_of_a_list or self._left_a_list or self._each_round_makes_one:
            return Lifetime.STORED
        return Lifetime.RECURS if self._renewed else Lifetime.MADE_ONCE

    @cached_property
    def carried_on(self) -> list[tuple[Frame, str]]:
        """The statements that take up a value and bind its own name to what they make of it; with the name."""
        out: list[tuple[Frame, str]] = []
        for found in (self.carrying(c) for c in self._crossing):
            if found is not None and found not in out:
                out.append(found)
        return out

    def is_start(self, carry: OlderEdge) -> bool:
        """Whether a value of a recurrence was made before it: the state with which the first round begins."""
        if self.lifetime is not Lifetime.RECURS or carry.recurrent or carry.remade:
            return False
        return self.carrying(carry) is not None or any(c.recurrent or c.remade for c in self._crossing)

    @cached_property
    def _each_round_makes_one(self) -> bool:
        """Whether the failing round has made such values too, and what it took instead was kept from an earlier one,
        whose call has used it up."""
        makers = [self._evidence.node(c.producer) for c in self._crossing]
        sources, failing = self._evidence.sources, self.failing
        if self._evidence.stale:
            return False  # written to since; nothing need have used it before
        return bool(makers) and failing is not None and all(made_each_round(sources, n, failing) for n in makers)

    @cached_property
    def _stored_rounds_ago(self) -> bool:
        """Whether rounds of a loop around both calls have passed since the earlier one, each of which makes such
        values, and a store kept this one."""
        if self.calls is None or not self._in_store or self._evidence.stale:
            return False
        (freeing, failing), sources = self.calls, self._evidence.sources
        passed = any(site(e.stack) == site(freeing.stack) for e in self.journal.between(*self.calls))
        passed = passed and in_loop_of(sources, freeing, failing)
        makers = [self._evidence.node(c.producer) for c in self._crossing]
        return passed and any(made_each_round(sources, n, freeing) for n in makers)

    @cached_property
    def asks_for_it(self) -> bool:
        """Whether the failing call is an ``autograd.grad`` that asks for a gradient behind the values."""
        asked = {n for n in self._evidence.extras.get("asked") or () if n}
        return self.failing is not None and self.failing.kind == "grad" and bool(asked & self._all_behind)

    @cached_property
    def _foreign(self) -> bool:
        """Whether the failing call is known to train nothing of what lies behind."""
        if self._meant is None or self.asks_for_it:
            return False
        return bool(self._all_behind) and not self._all_behind & self._meant

    @cached_property
    def _in_turn(self) -> bool:
        """Whether the same line runs backward for one optimizer after the other, each of which owns a part of what
        lies behind."""
        if not self.same_line or not self.for_different_optimizers or self.calls is None:
            return False
        return bool(self.owners & self.works_for[1]) and bool(self.owners & self.journal.steps_after(self.calls[0]))

    @cached_property
    def made_before_all(self) -> bool:
        """Whether the values were made before the first backward call of the run."""
        makers = [self._evidence.node(c.producer) for c in self._crossing]
        return bool(makers) and all(n is not None and n.epoch == 0 for n in makers)

    @cached_property
    def _is_term(self) -> bool:
        """Whether the very tensor that an ``autograd.grad`` started from is itself a part of the failing loss."""
        calls = (e for e in self.journal.events if e.kind == "grad" and e.root >= 0 and not e.failed)
        roots = {root for e in calls for root in e.roots}
        return any(leads_to(c, self._evidence.node(c.producer), roots) for c in self._crossing)

    @cached_property
    def _renewed(self) -> bool:
        """What is held under the tensor's names was made at the same place later: the expression ran again since."""
        holders = [h for c in self._crossing for h in c.tensor.holders]
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
            node = self._evidence.node(c.producer)
            if node is not None:
                alike.setdefault((site(node.stack), node.epoch, node.op), set()).add(node.sequence)
        return max((len(v) for v in alike.values()), default=0)

    @cached_property
    def _in_store(self) -> bool:
        """Held in something that was filled entry by entry."""
        holders = [h for c in self._crossing for h in c.tensor.holders if h.exact]
        entered = [h for h in holders if any(s.kind in ("index", "key") for s in h.steps)]
        return any({"list", "deque", "dict"} & {s.type for s in h.steps} for h in entered)

    @cached_property
    def _one_of_a_list(self) -> bool:
        """Held in a list beside others that the same expression made: entries of a rollout, of which it reads one."""
        for c in self._crossing:
            producer = self._evidence.node(c.producer)
            mine = site(producer.stack) if producer is not None else ()
            held: dict[str, set[str]] = {}
            for tensor in self._evidence.held_tensors:
                if mine and site(tensor.made) == mine:
                    for h in tensor.holders:
                        held.setdefault(f"{h.function}:{kept_list(h)}", set()).add(h.path)
            if any(len(paths) > 1 for name, paths in held.items() if not name.endswith(":")):
                return True
        return False

    @cached_property
    def _left_a_list(self) -> bool:
        """Held by nobody any more: where it was in a list, and in other places of it, lie later ones of its making."""
        holders = [h for c in self._crossing for h in c.tensor.holders]
        paths: dict[str, set[str]] = {}
        for h in holders:
            paths.setdefault(f"{h.function}:{kept_list(h)}", set()).add(h.path)
        return not any(h.exact or not kept_list(h) for h in holders) and any(len(p) > 1 for p in paths.values())

    @cached_property
    def _drawn_from_a_store(self) -> bool:
        """One entry of many comes back: nothing but lists of such entries holds it, so no variable carries it on."""
        holders = [h for c in self._crossing for h in c.tensor.holders if h.exact]
        return bool(holders) and all(entry_of(h) is not None for h in holders) and self._one_of_a_list

    @cached_property
    def _only_the_root_is_fresh(self) -> bool:
        """All that is new stands in the statement of the backward call: ``(-score).backward()`` on one old score."""
        call = innermost_user(self.failing.stack) if self.failing is not None else None
        if call is None or self._evidence.fresh_reaches:
            return False
        taking = [self._evidence.node(c.consumer) for c in self._crossing]
        return all(_is_within(innermost_user(n.stack) if n is not None else None, call) for n in taking)


def kept_list(holder: Holder) -> str:
    """The name of the list or deque that a tensor is held in, itself or in a field of an entry; empty for none."""
    for i, step in enumerate(holder.steps):
        if step.kind == "index" and i and holder.steps[i - 1].type in ("list", "deque"):
            return holder.steps[i - 1].key
    return ""


def _is_within(frame: Frame | None, call: Frame) -> bool:
    """Whether a place lies in the lines of a call, in the same function."""
    if frame is None or (frame.file, frame.function) != (call.file, call.function):
        return False
    return call.line <= frame.line <= max(call.end_line, call.line)
