"""An overwrite: which tensor that backward needs was written, what it is to the program, by whom, and whose it is."""

from __future__ import annotations

from enum import Enum
from functools import cached_property

from graphdoc.evidence import Event, Evidence, Stale
from graphdoc.program.calls_in_order import Journal
from graphdoc.program.compared_values import is_reference
from graphdoc.program.connections import is_needed, is_the_loss_itself
from graphdoc.program.exception import VERSION, message_of
from graphdoc.program.kept_graphs import keeping_calls, kept_for_its_round
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.overwritten_tensor import OverwrittenTensor
from graphdoc.program.reuse import Reuse
from graphdoc.program.roles import Role
from graphdoc.program.saved_tensors import Saved
from graphdoc.program.sliced_buffers import SlicedBuffer
from graphdoc.program.stack_levels import level_of
from graphdoc.program.step_closures import is_optimizers


class Fault(Enum):
    """Which fault an overwrite is: exactly one of these."""

    STEPPED = "a parameter that an optimizer's step wrote first"
    COVERED_UP = "the same in a part that an earlier call kept, and that should not be in this graph"
    PARAMETER = "a parameter that something else wrote"
    CONSTANT = "the same, behind a value that is a constant for this loss and came with its graph"
    OUTLIVES = "a buffer or data that is kept from one pass to the next"
    STATE = "a state that one line writes again and again"
    ACTIVATION = "a result of this pass"


class Overwrite(OverwrittenTensor):
    """Why a version did not fit."""

    def __init__(
        self,
        evidence: Evidence,
        journal: Journal,
        known: list[Stale],
        failing: Event | None,
        reuse: Reuse | None,
        trained: frozenset[str] | None,
    ) -> None:
        super().__init__(evidence, known)
        self._journal = journal
        self.failing, self.reuse = failing, reuse
        self.trained = trained
        """The parameters that the failing loss is meant to train; None where that is not known."""

    @cached_property
    def fault(self) -> Fault:
        """Which of the faults it is: what was written, by whom, and whether it belongs here."""
        if self.saved is Saved.PARAMETER:
            if not self.by_step:
                return Fault.CONSTANT if self.constant and self._carried else Fault.PARAMETER
            return Fault.COVERED_UP if self.covered_up else Fault.STEPPED
        if self.outlives:
            return Fault.OUTLIVES
        return Fault.STATE if self.in_steps else Fault.ACTIVATION

    # -- whose business it is ----------------------------------------------------------------------------------------

    @cached_property
    def behind(self) -> set[str]:
        """The parameters behind the stale parts, and behind what the calls gave out in which these were made: the calls
        in the function that steps and calls backward, where a cut would be made.
        """
        return {n for s in self.stales for n in (*s.behind, *self._given_out(s))}

    def _given_out(self, stale: Stale) -> list[str]:
        """What lies behind the value of the call of that function, beyond what the stale node itself leads to."""
        node, write = self._evidence.node(stale.node), self.writers[0] if self.writers else None
        users = [f for f in node.stack if f.user] if node is not None else []
        inside = 0
        if node is not None and write is not None and self.failing is not None:
            at = level_of(node.stack, write.stack, self.failing.stack)
            inside = len(users) - 1 - users.index(at[0]) if at is not None else 0
        return [name for names in stale.given_out[: inside + 1] for name in names]

    @property
    def slices(self) -> SlicedBuffer | None:
        """The buffer of which this loss and the older ones take a slice each, where nothing else ties them together."""
        return self.reuse.slices if self.reuse is not None else None

    @cached_property
    def own(self) -> set[str]:
        """Those of them that the failing loss is meant to train."""
        return self.behind & set(self.trained or ())

    @cached_property
    def constant(self) -> bool:
        """Whether the failing loss is surely not meant to train anything behind the stale parts.

        Where the same loss was differentiated before, for another optimizer, a constant would end what that one learns.
        """
        if self._learns_on_the_way or (self.reuse is not None and self.reuse.for_its_gradient):
            return False
        return self.trained is not None and bool(self.behind) and not self.own and not self.same_loss

    @cached_property
    def same_loss(self) -> bool:
        """Whether an earlier call started from the very tensor that the failing one starts from."""
        return self.reuse is not None and self.reuse.from_one_root

    @cached_property
    def steps(self) -> list[Event]:
        """The optimizers' steps among the writes."""
        return [w.event for w in self.writers if w.event is not None]

    @cached_property
    def repeats(self) -> bool:
        """Whether the same loss is differentiated once more for parameters that were written since: with the values of
        its forward the call would give them the very gradient of the earlier call."""
        return self.same_loss and bool(set(self.trained or ()) & {s.tensor.name for s in self.stales})

    @cached_property
    def needed(self) -> bool:
        """Whether the failing loss learns through what leads to the stale part: to part the two ends its learning.

        Then it is the order of the step and the calls that is wrong, not the connection.
        """
        if self.slices is not None:
            return False  # it learns through its own slice, and the stale part is that of another one
        if self.same_loss or self._learns_on_the_way:
            return True
        carries = self.reuse.carries if self.reuse is not None else []
        if is_the_loss_itself(self._evidence.folded, carries or self._evidence.earlier_edges):
            return True
        if self.reuse is None:
            return False
        if self.reuse.lifetime is Lifetime.STORED and self.keeping_calls and not self.one_of_several:
            return False  # an earlier update has learned from these entries: no order of calls lets two do that
        learns = is_needed(self._evidence.fresh_reaches, self._evidence.earlier_edges, self.reuse.carries, self.trained)
        return learns or (bool(self.own) and self._of_one_update)

    @cached_property
    def _learns_on_the_way(self) -> bool:
        """Whether this loss trains something that lies between it and the stale part, in the same pass.

        A discriminator that learns from scores which were computed before the generator's step: the images are a
        constant for it, and the scores are not. Not where the values are what it compares its own output with.
        """
        reuse = self.reuse
        if reuse is None or not self.trained or not reuse.carries or reuse.lifetime is not Lifetime.SAME_PASS:
            return False
        if any(c in self._evidence.earlier_edges for c in reuse.carries):
            return False
        own = [self.trained & set(c.behind) for c in reuse.carries]
        anew = set().union(*own) <= set(self._evidence.fresh_reaches)
        return all(own) and not (anew and is_reference(self._evidence.sources, self._evidence.nodes, reuse.carries))

    @cached_property
    def _of_one_update(self) -> bool:
        """Whether both losses train what lies behind, and nothing that this one trains was stepped since it was made.

        A generator that learns from the scores on which the discriminator has learned, in the same round.
        """
        reuse = self.reuse
        if reuse is None or reuse.lifetime is not Lifetime.SAME_PASS or reuse.role is not Role.TRAINED:
            return False
        makers = [n.sequence for c in reuse.carries if (n := self._evidence.node(c.producer)) is not None]
        mine = reuse.works_for[1]
        if not makers or not mine:
            return False
        return not any(
            e.kind == "step" and e.optimizer in mine and e.sequence > min(makers) for e in self._evidence.events
        )

    @cached_property
    def covered_up(self) -> bool:
        """Whether an earlier call walked the stale part with ``retain_graph=True``, and it should not be in this graph.

        Without the flag the call would have freed it, and the error would have been the other one. The part does not
        belong here if it was carried over from before that call, or if this loss is not meant to train any of it; but
        not where this loss learns through it alone.
        """
        if self._made_once_for_all:
            return True
        if self.needed:
            return False
        if self.slices is not None:
            return bool(self.keeping_calls)
        stored = self._carried and self.reuse is not None and self.reuse.lifetime is Lifetime.STORED
        if stored and kept_for_its_round(self._journal, self.keeping_calls, self._named_behind):
            return False  # the flags serve the pass itself: it is the store that brings the old graph back
        return (self._carried or self.constant) and bool(self.keeping_calls)

    @cached_property
    def _made_once_for_all(self) -> bool:
        """Whether a closure walks, each time the step runs it, what was made once, and has kept that with the flag.

        That this loss learns through it alone makes no order of steps right: it is one step that moves the parameters.
        """
        reuse, failing = self.reuse, self.failing
        if reuse is None or not reuse.same_line or reuse.lifetime is not Lifetime.MADE_ONCE:
            return False
        if failing is None or not any(is_optimizers(f) for f in failing.stack):
            return False
        return self._carried and not self.same_loss and bool(self.keeping_calls)

    @cached_property
    def one_of_several(self) -> bool:
        """Whether this loss takes some entries of a store alone, beside others of the same age: an earlier call that
        reached the same leaves may have walked one of those, and never this one."""
        carries = self.reuse.carries if self.reuse is not None else []
        taken = {h.path for c in carries for h in c.tensor.holders}
        stores = {path.partition("[")[0] for path in taken if "[" in path}
        kept = {h.path for t in self._evidence.held_tensors for h in t.holders}
        return any(path.partition("[")[0] in stores and path not in taken for path in kept if "[" in path)

    @cached_property
    def _carried(self) -> bool:
        """Whether the values are known by which the older part came into this graph."""
        return self.reuse is not None and bool(self.reuse.carries)

    @cached_property
    def surely_covered_up(self) -> bool:
        """Whether a call with the flag is known to have reached the stale part, and why the part does not belong here.

        Version counts prove who wrote; that the connection is the fault needs a role or a lifetime beside them.
        """
        if not self.covered_up:
            return False
        behind = self._named_behind
        walked = bool(behind) and any(behind <= set(self._journal.reaches(e)) for e in self.keeping_calls)
        lifetime = self.reuse.lifetime if self.reuse is not None else Lifetime.UNKNOWN
        return walked and (self.constant or lifetime not in (Lifetime.SAME_PASS, Lifetime.UNKNOWN))

    @cached_property
    def keeping_calls(self) -> list[Event]:
        """The earlier calls with ``retain_graph=True`` that can have walked the stale part."""
        return keeping_calls(self._journal, self.node, self._named_behind, self.failing)

    @cached_property
    def _named_behind(self) -> set[str]:
        """The parameters behind what backward met first, by name."""
        return {n for n in self.stale.behind if not n.startswith("<")}


def overwrite_of(
    evidence: Evidence, journal: Journal, failing: Event | None, reuse: Reuse | None, trained: frozenset[str] | None
) -> Overwrite | None:
    """The overwrite that a version error is about; None where it is another error or nothing stale was seen."""
    known = [s for s in evidence.stale if evidence.node(s.node) is not None]
    if not known or message_of(evidence.raised, *VERSION) is None:
        return None
    return Overwrite(evidence, journal, known, failing, reuse, trained)
