"""The older part of a graph that a backward call ran into: which tensors lead there, and what they are for the loss."""

from __future__ import annotations

from functools import cached_property

from graphdoc.evidence import Event, OlderEdge
from graphdoc.program.compared_values import is_distance, is_reference
from graphdoc.program.coupled_losses import Coupling, is_aim, is_fitted, one_way
from graphdoc.program.gradient_alone import changes_the_gradient_alone
from graphdoc.program.gradient_reads import gradients_are_read
from graphdoc.program.graph_ways import without_graph
from graphdoc.program.lifetimes import Lifetime, OlderValues
from graphdoc.program.roles import CONSTANT, Role
from graphdoc.program.sliced_buffers import SlicedBuffer, sliced_buffer


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
        anew = bool(trained) and trained <= set(self._evidence.fresh_reaches)
        compared = anew and is_reference(self._evidence.sources, self._evidence.nodes, self._crossing)
        return Role.REFERENCE if compared else Role.TRAINED

    @cached_property
    def _role_beside_another_loss(self) -> Role:
        """Two losses of one pass: whose optimizer has what they share."""
        if self.calls is None:
            return Role.UNKNOWN
        if self.frozen_by_now:
            return Role.TARGET
        if self.only_heads_stepped:
            return Role.TRAINED
        if self.asks_for_it:
            return Role.TRAINED if self.calm else Role.UNKNOWN
        if self._of_one_side:
            return Role.TARGET
        if self._of_neither_side:
            return Role.DATA
        if self.coupling is not None or self.weighed_by is not None or self.aims_anew:
            return Role.TARGET
        if self.left_by_another_pass:
            return Role.REFERENCE
        if self.one_step and self.failing is not None and not self.journal.zeroed_before(self.failing):
            return Role.TRAINED
        theirs, mine = self.works_for
        return Role.TRAINED if self.owners & mine and self.owners & theirs else Role.UNKNOWN

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
    def fitted_by_one(self) -> bool:
        """Whether one of two losses of a pass trains what they share and nothing else, and the other one more.

        What the first fits may be data for the second, as an advantage is for the policy that it weights.
        """
        if self.lifetime is not Lifetime.SAME_PASS or self.calls is None:
            return False
        first, second = (set(self.journal.reaches(c)) for c in self.calls)
        return bool(first & second) and (first < second or second < first)

    @cached_property
    def left_by_another_pass(self) -> bool:
        """Whether the pass of the failing loss, made behind the earlier call, computes anew with all of the parameters
        behind, and takes besides what the earlier one's pass has left on an object: a teacher's output, a target."""
        anew = bool(self._all_behind) and self._all_behind <= set(self._evidence.fresh_reaches)
        if self.lifetime is not Lifetime.SAME_PASS or self.in_one_pass or self.within_one_call or self.asks_for_it:
            return False
        return anew and all(
            c.tensor.holders and all(h.exact and len(h.steps) > 1 for h in c.tensor.holders) for c in self._crossing
        )

    @cached_property
    def may_move_along(self) -> bool:
        """Whether a reference that was made once may be meant to be computed anew with what is compared with it."""
        kept = self.role is Role.REFERENCE and self.lifetime is Lifetime.MADE_ONCE
        return kept and is_distance(self._evidence.sources, self._evidence.nodes, self._crossing)

    @cached_property
    def may_be_held(self) -> bool:
        """Whether the loss only weighs or compares what it computes anew by what was made once, and reaches all that is
        to learn behind that anew, too: the old values may be meant as constants."""
        meant = self._all_behind & self._meant if self._meant is not None else self._all_behind
        if self.lifetime is not Lifetime.MADE_ONCE or not meant or not meant <= set(self._evidence.fresh_reaches):
            return False
        kinds = {c.compared or c.factor for c in self._crossing}
        return "" not in kinds and bool(kinds - {"alone"})  # an advantage is no more than a weight of others' terms

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
        anew = bool(own and theirs) and not theirs & mine and self.stepped and own <= set(self._evidence.fresh_reaches)
        return anew and all(c.is_compared for c in self._crossing)

    @cached_property
    def fitted(self) -> bool:
        """Whether the failing loss takes one of the values in as what is to become its target."""
        return any(is_fitted(self._evidence.sources, self._evidence.nodes, c) for c in self._crossing)

    @cached_property
    def two_losses_of_one_pass(self) -> bool:
        """Whether two known calls have walked one graph of one pass, of which neither takes it as data."""
        data = self.role in (*CONSTANT, Role.REFERENCE)
        return self.lifetime is Lifetime.SAME_PASS and not data and bool(self.calls) and bool(self.used_up)

    @cached_property
    def for_its_gradient(self) -> bool:
        """Whether a loss takes the values in through a Function that is there for what it makes of their gradient."""
        taking = {c.consumer for c in (*self._crossing, *self._evidence.earlier_edges)}
        ops = {n.op for n in self._evidence.nodes if n.id in taking}
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
        sources, nodes = self._evidence.sources, self._evidence.nodes
        aside = [c for c in edges if c.factor or is_aim(sources, nodes, c)] if larger is not None else []
        others = {name for c in edges if c not in aside for name in c.behind}
        return bool({name for c in aside for name in c.behind} - others)

    @cached_property
    def _larger(self) -> tuple[Event | None, list[OlderEdge]]:
        """Of two losses, of which one fits what they share and nothing else, the other one, and its edges into that."""
        if not self.fitted_by_one or self.calls is None or {c.kind for c in self.calls} != {"backward"}:
            return None, []
        first, second = (set(self.journal.reaches(c)) for c in self.calls)
        if second < first:
            return self.calls[0], self._evidence.earlier_edges
        return self.calls[1], self._crossing

    @cached_property
    def in_earlier_loss(self) -> bool:
        """Whether it is the earlier loss for which the values are constants, not the one that failed."""
        if self.lifetime is not Lifetime.SAME_PASS or self.role is not Role.TARGET:
            return False
        if self.coupling is not None or self.aims_anew or self.frozen_by_now:
            return self.coupling is not None and not self.coupling.late
        if self.weighed_by is not None:
            return self.weighed_by is self.freeing
        return bool(self.owners & self.works_for[1])

    @property
    def may_be_for_both(self) -> bool:
        """Whether the optimizer of what the earlier loss is not for may step with what that adds."""
        return self.in_earlier_loss and bool(self.owners & self.gathering_since)

    @cached_property
    def coupling(self) -> Coupling | None:
        """Where one of two losses only aims at what the other one trains; None where the losses do not show that."""
        if self.lifetime is not Lifetime.SAME_PASS or self.only_heads_stepped or self.asks_for_it:
            return None
        if self._of_one_side or self._of_neither_side:
            return None  # the owners alone decide
        return one_way(self._evidence, self.journal.owners, self.failing, self.freeing)

    @cached_property
    def carries(self) -> list[OlderEdge]:
        """The edges into the older part that are the fault, newest first."""
        if self.from_one_root:
            return []
        if self.coupling is not None:
            return self.coupling.late or self.coupling.early
        return self._crossing

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
        return sliced_buffer(self._evidence.sources, self._evidence.nodes, self.carries) if self.same_line else None

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
        if self.may_be_for_both or (self.weighed_by is not None and not self._of_one_side):
            return False
        if self.in_earlier_loss and self.coupling is None:
            return bool(self.works_for[0]) and not self.owners & self.works_for[0]
        return self.meant_known and (self.in_earlier_loss or not self.own)

    def without_graph(self, function: str) -> set[str]:
        return without_graph(self._evidence.extras, function)
