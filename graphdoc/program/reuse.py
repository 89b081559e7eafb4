"""The older part of a graph that a backward call ran into: which tensors lead there, how long they live, what they are
for the loss."""

from __future__ import annotations

from enum import Enum
from functools import cached_property

from graphdoc.evidence import Event, Evidence, Frame, Holder, Node, OlderEdge, Raised
from graphdoc.program.carried_names import carried_on
from graphdoc.program.compared_values import is_reference
from graphdoc.program.container_entries import entry_of
from graphdoc.program.coupled_losses import Coupling, one_way
from graphdoc.program.exception import SECOND_TIME, VERSION, message_of
from graphdoc.program.first_use import kept_since_first_use
from graphdoc.program.gradient_reads import gradients_are_read
from graphdoc.program.graph_ways import without_graph
from graphdoc.program.journal import DIFFERENTIATING, Journal, Site, site
from graphdoc.program.roots import roots_of
from graphdoc.program.rounds import of_this_round
from graphdoc.program.sliced_buffers import SlicedBuffer, sliced_buffer
from graphdoc.program.spans import innermost_user
from graphdoc.program.two_calls import TwoCalls
from graphdoc.program.value_reads import grows_at


class Lifetime(Enum):
    """How values behind an older part come to be in a later graph."""

    RESULT = "an earlier call started from it"
    SUMMED = "an earlier call started from it, and the sum went on"
    RECURS = "each round makes it anew, out of the last one or beside it"
    STORED = "several of one expression are kept in a store"
    MADE_ONCE = "made once, and not again since"
    SAME_PASS = "made in the pass of both calls"
    UNKNOWN = "unknown"


class Role(Enum):
    """What a value is to a loss."""

    TRAINED = "the loss is to train what lies behind it"
    TARGET = "a constant: another loss trains what lies behind it"
    DATA = "a constant for every loss in sight: none of their optimizers has what lies behind it"
    REFERENCE = "a constant: compared with what the pass computes anew, through which the loss trains the same"
    UNKNOWN = "unknown"


CONSTANT = (Role.TARGET, Role.DATA)
_ADDING = ("Add", "Sub", "Stack", "Cat")
"""Nodes through which a term goes into a sum."""


class Reuse(TwoCalls):
    """An older part of the graph, and what it is to the call that failed.

    ``carries`` are the edges into it that matter, newest first; ``freeing`` is the call that used it before and
    ``failing`` the one that failed. ``meant`` are the parameters that the failing call is to train (``meant_known``
    tells whether that is known); ``coupling`` is set where the losses themselves show what in them is a target.
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
        self._evidence = evidence
        self._crossing = carries
        self._all_behind = {name for c in carries for name in c.behind}
        super().__init__(journal, failing, freeing, self._all_behind, evidence.reaches, evidence.sources)
        self._meant = meant

    # -- what the older part is --------------------------------------------------------------------------------------

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
    def lifetime(self) -> Lifetime:
        """How the older values come to be in this graph."""
        if self.from_one_root or (self.inner and self._is_term):
            return Lifetime.RESULT
        again = any(c.recurrent or c.remade for c in self._crossing)
        if self.in_one_pass or (not again and self.only_heads_stepped):
            return Lifetime.SAME_PASS
        if self._sums_up:
            return Lifetime.RESULT if self.adds_nothing else Lifetime.SUMMED
        if any(c.recurrent for c in self._crossing):
            return Lifetime.RECURS
        if self._in_turn:
            return Lifetime.SAME_PASS
        if again:
            return Lifetime.RECURS if self._made_per_call == 1 and not self._drawn_from_a_store else Lifetime.STORED
        if self._kept_since_first_use:
            return Lifetime.MADE_ONCE
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
        if (several and self._in_store) or self._one_of_a_list or self._left_a_list:
            return Lifetime.STORED
        return Lifetime.RECURS if self._renewed else Lifetime.MADE_ONCE

    @cached_property
    def role(self) -> Role:
        """What the values are to the loss that takes them in: the failing one, or the earlier one where
        ``in_earlier_loss`` says so."""
        if self.lifetime is Lifetime.SAME_PASS:
            return self._role_beside_another_loss
        if self._foreign:
            return Role.TARGET if self.owners else Role.DATA
        if self._meant is None or not self._all_behind:
            return Role.UNKNOWN
        return (
            Role.REFERENCE
            if is_reference(
                self._evidence.sources,
                self._evidence.fresh_reaches,
                self._evidence.nodes,
                self._crossing,
                self._all_behind & self._meant,
            )
            else (Role.TRAINED)
        )

    @cached_property
    def _role_beside_another_loss(self) -> Role:
        """Two losses of one pass: whose optimizer has what they share."""
        if self.calls is None:
            return Role.UNKNOWN
        if self.only_heads_stepped:
            return Role.TRAINED
        if self._of_one_side:
            return Role.TARGET
        if self._of_neither_side:
            return Role.DATA
        if self.coupling is not None:
            return Role.TARGET
        if self.one_step and self.failing is not None and not self.journal.zeroed_before(self.failing):
            return Role.TRAINED
        theirs, mine = self.works_for
        return Role.TRAINED if self.owners & mine and self.owners & theirs else Role.UNKNOWN

    @cached_property
    def _of_one_side(self) -> bool:
        """Whether the calls work for different optimizers, and those of one call alone have of what lies behind."""
        theirs, mine = self.works_for
        apart = bool(mine and theirs) and not mine & theirs
        return apart and bool(self.owners & mine) != bool(self.owners & theirs)

    @cached_property
    def _of_neither_side(self) -> bool:
        """Whether surely neither call is to train anything of what lies behind.

        Both work for known optimizers, which have none of it; those that have it work with a call of their own, and no
        line reads a gradient by hand.
        """
        theirs, mine = self.works_for
        if self.calls is None or not mine or not theirs or self.owners & (mine | theirs):
            return False
        if {c.kind for c in self.calls} != {"backward"} or not self._all_behind:
            return False
        if not self.journal.owners.of(self._all_behind).known or gradients_are_read(self._evidence.sources):
            return False
        others = [e for e in self.journal.events if e.kind == "backward" and e not in self.calls]
        elsewhere = {o for e in others for o in self.journal.steps_after(e)} - mine - theirs
        return self.owners <= elsewhere

    @cached_property
    def in_earlier_loss(self) -> bool:
        """Whether it is the earlier loss for which the values are constants, not the one that failed."""
        if self.lifetime is not Lifetime.SAME_PASS or self.role is not Role.TARGET:
            return False
        if self.coupling is not None:
            return not self.coupling.late
        return bool(self.owners & self.works_for[1])

    @cached_property
    def coupling(self) -> Coupling | None:
        """Where one of two losses only aims at what the other one trains; None where the losses do not show that."""
        if self.lifetime is not Lifetime.SAME_PASS or self.only_heads_stepped:
            return None
        if self._of_one_side or self._of_neither_side:
            return None  # the owners alone decide
        return one_way(self._evidence, self.journal.owners, self.failing, self.freeing)

    # -- values and parameters ---------------------------------------------------------------------------------------

    @cached_property
    def carries(self) -> list[OlderEdge]:
        """The edges into the older part that are the fault, newest first."""
        if self.from_one_root:
            return []
        if self.coupling is not None:
            return self.coupling.late or self.coupling.early
        return self._crossing

    @cached_property
    def slices(self) -> SlicedBuffer | None:
        """The buffer of which each loss takes a slice of its own, where nothing else connects this one to the older
        part."""
        return sliced_buffer(self._evidence.sources, self._evidence.nodes, self.carries) if self.same_line else None

    @cached_property
    def behind(self) -> set[str]:
        """The parameters behind these edges."""
        return {name for c in self.carries for name in c.behind}

    @cached_property
    def meant(self) -> set[str]:
        """The parameters that the failing loss is meant to train, as far as that is known."""
        if self.coupling is not None:
            return self.journal.owners.parameters(self.coupling.own)
        return set(self._meant or ())

    @cached_property
    def meant_known(self) -> bool:
        if self.coupling is not None:
            both = bool(self.coupling.late and self.coupling.early)
            return both and all(loss for _, loss in self.coupling.places)
        return self._meant is not None

    @property
    def own(self) -> set[str]:
        """What lies behind and is meant to be trained by the failing loss."""
        return self.behind & self.meant

    @cached_property
    def owned_by_others(self) -> bool:
        """Whether the owners prove it a constant: all of what lies behind is known to be owned by others than those
        that the loss which takes it in works for."""
        if not self.behind or not self.journal.owners.of(self.behind).known:
            return False
        if self.in_earlier_loss and self.coupling is None:
            return bool(self.works_for[0]) and not self.owners & self.works_for[0]
        return self.meant_known and (self.in_earlier_loss or not self.own)

    @cached_property
    def earlier_roots(self) -> list[OlderEdge]:
        """Edges into results that an earlier backward call started from."""
        roots = roots_of(self._evidence.events, self._evidence.packages)
        return [c for c in self._crossing if (n := self._evidence.node(c.producer)) is not None and n.sequence in roots]

    @cached_property
    def _sums_up(self) -> bool:
        """Whether the failing loss adds to what an earlier call started from, round after round: several earlier
        results are in it, the same line differentiates what grows, or a statement adds to it under its own name. One
        result of another line and name is a loss of its own that this one is computed from."""
        takers = [self._evidence.node(c.consumer) for c in self.earlier_roots]
        adds = bool(takers) and all(n is None or n.op.startswith(_ADDING) for n in takers)
        several = len({c.producer for c in self.earlier_roots}) > 1
        return adds and (self.same_line or several or any(map(self.carrying, self.earlier_roots)))

    @cached_property
    def adds_nothing(self) -> bool:
        """Whether the failing loss is a sum of what other lines have differentiated for the same step, and of nothing
        else: each of its terms would count twice. A sum that grew beside those calls is told by its growth."""
        if self.same_line or not self.calm or self._evidence.fresh_reaches:
            return False
        takers = [innermost_user(n.stack) for c in self.earlier_roots if (n := self._evidence.node(c.consumer))]
        return bool(takers) and not any(f is not None and grows_at(self._evidence.sources, f) for f in takers)

    @cached_property
    def carried_on(self) -> list[tuple[Frame, str]]:
        """The statements that take up a value and bind its own name to what they make of it; with the name."""
        out: list[tuple[Frame, str]] = []
        for found in (self.carrying(c) for c in self._crossing):
            if found is not None and found not in out:
                out.append(found)
        return out

    def without_graph(self, function: str) -> set[str]:
        """The tensors without a graph that a function of the failing call holds under names of its own."""
        return without_graph(self._evidence.extras, function)

    def carrying(self, carry: OlderEdge) -> tuple[Frame, str] | None:
        """The statement that carries this value on under its name, and the name; None where none does."""
        return carried_on(self._evidence.sources, self._evidence.nodes, carry)

    def is_start(self, carry: OlderEdge) -> bool:
        """Whether a value of a recurrence was made before it: the state with which the first round begins."""
        if self.lifetime is not Lifetime.RECURS or carry.recurrent or carry.remade:
            return False
        return self.carrying(carry) is not None or any(c.recurrent or c.remade for c in self._crossing)

    @cached_property
    def _foreign(self) -> bool:
        """Whether the failing call is known to train nothing of what lies behind."""
        return self._meant is not None and bool(self._all_behind) and not self._all_behind & self._meant

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
        roots = {e.root for e in self.journal.events if e.kind == "grad" and e.root >= 0 and not e.failed}
        makers = (self._evidence.node(c.producer) for c in self._crossing)
        return any(n is not None and n.sequence in roots for n in makers)

    @cached_property
    def _renewed(self) -> bool:
        """What is held under the tensor's names was made at the same place later: the expression ran again since."""
        holders = [h for c in self._crossing for h in c.tensor.holders]
        return bool(holders) and not any(h.exact for h in holders)

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
        return any(
            h.exact
            and any(s.kind in ("index", "key") for s in h.steps)
            and {"list", "deque", "dict"} & {s.type for s in h.steps}
            for c in self._crossing
            for h in c.tensor.holders
        )

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


def older_part(
    evidence: Evidence, journal: Journal, failing: Event | None, meant: frozenset[str] | None
) -> Reuse | None:
    """The older part behind the failing call, or None where no edge into one was seen, or where the call failed of
    something else and all of its graph was whole: an earlier call on the same root had kept it."""
    if not _was_used(evidence.raised, evidence.nodes, evidence.older_edges):
        return None

    def this_round(carry: OlderEdge) -> bool:
        """Whether the value was made for this very call, in the rounds of a loop before it, and only stepped over."""
        made = evidence.node(carry.producer)
        if made is None or failing is None or _was_kept(evidence.events, journal, made.sequence, set(carry.behind)):
            return False
        return of_this_round(evidence.sources, evidence.nodes, evidence.failing_node, failing, made)

    shared = evidence.extras.get("shared_with") or {}
    earlier = journal.earlier(failing) if failing is not None else None
    carries = [
        c
        for c in evidence.older_edges
        if c.dead and not _surely_unused(evidence, journal, failing, c) and not this_round(c)
    ]
    if shared.get("same_root") or earlier is not None:
        freeing = evidence.event(shared["event"]) if shared else earlier
        return Reuse(evidence, journal, failing, freeing, carries, meant)
    if not carries:
        return None
    freed = next((c.freed_by for c in carries if c.freed_by >= 0), -1)
    return Reuse(evidence, journal, failing, evidence.event(freed), carries, meant)


def _was_used(raised: Raised | None, nodes: list[Node], edges: list[OlderEdge]) -> bool:
    """Whether the error is one of a graph that was used up or written into, or a part of the graph is."""
    known = message_of(raised, *SECOND_TIME, *VERSION) is not None or raised is None or not raised.message
    return known or any(n.state != "live" for n in nodes) or any(c.dead for c in edges)


def _was_kept(events: list[Event], journal: Journal, made: int, behind: set[str]) -> bool:
    """Whether a call with ``retain_graph=True`` can have walked what was made at this number, and left it whole.

    One whose gradients are differentiated again (``create_graph=True``) belongs to the loss that does so.
    """
    calls = (e for e in events if e.kind in DIFFERENTIATING and e.sequence > made and not e.failed)
    kept = (e for e in calls if e.retain_graph and not e.create_graph)
    return any(not (known := set(journal.reaches(e))) or bool(known & behind) for e in kept)


def _surely_unused(evidence: Evidence, journal: Journal, failing: Event | None, carry: OlderEdge) -> bool:
    """Whether no earlier call has used what lies behind an edge, which is there by age alone: a value was written into,
    and what each call since its making reached is known, and is none of it.

    A discriminator that learned from detached images: its call came after them, and never went near their graph.
    """
    met, producer = evidence.failing_node, evidence.node(carry.producer)
    if met is None or met.state != "stale" or producer is None or failing is None or not carry.behind:
        return False
    if any(s.node == met.id and s.tensor.kind == "parameter" for s in evidence.stale):
        return False  # then it was a step that made the part old
    first = evidence.events[0]
    if (first.index and first.sequence > producer.sequence) or not journal.is_complete(first, failing):
        return False  # a call may have fallen out of the journal
    calls = [e for e in evidence.events if e.kind in DIFFERENTIATING and e.index < failing.index]
    behind = set(carry.behind)
    return all(e.reaches and not behind & set(e.reaches) for e in calls if e.sequence > producer.sequence)


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
