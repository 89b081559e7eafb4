"""What was overwritten: the tensors that backward needs, who wrote them, and what they are to the program."""

from __future__ import annotations

from functools import cached_property

from graphdoc.evidence import Evidence, Node, Stale
from graphdoc.program.in_place_writes import Target, in_loop, is_statement, target_of
from graphdoc.program.overwrite_times import OverwriteTimes
from graphdoc.program.rounds import made_for_each
from graphdoc.program.saved_tensors import Saved, saved_as
from graphdoc.program.spans import in_function
from graphdoc.program.value_reads import statement_names
from graphdoc.program.version_counts import accounted
from graphdoc.program.writers import By, Writer, writers_of, wrote_again
from graphdoc.program.written_entries import entry_written


class OverwrittenTensor(OverwriteTimes):
    """The part of an ``Overwrite`` that says what was written. ``stale`` is what backward met first, ``stales`` all of
    its kind, that one first."""

    def __init__(self, evidence: Evidence, known: list[Stale]) -> None:
        self._evidence = evidence
        self.stale = next((s for s in known if s.node == evidence.failing), known[0])
        self.saved = saved_as(self.stale)
        self.stales = sorted((s for s in known if saved_as(s) is self.saved), key=lambda s: s is not self.stale)
        if self.saved is Saved.PARAMETER and self._is_store:
            self.saved = Saved.BUFFER

    @cached_property
    def node(self) -> Node:
        """The node that saved the tensor."""
        node = self._evidence.node(self.stale.node)
        assert node is not None  # overwrite_of leaves out what no node is known of
        return node

    # -- who wrote, and into what ------------------------------------------------------------------------------------

    @cached_property
    def writers(self) -> list[Writer]:
        """The distinct places that wrote any of the tensors, those of the first tensor first, in order of time."""
        return writers_of(self._evidence.sources, self._evidence.events, self._evidence.optimizers, self.stales)

    @cached_property
    def own_writers(self) -> list[Writer]:
        """The same for the tensor that backward met first."""
        return writers_of(self._evidence.sources, self._evidence.events, self._evidence.optimizers, [self.stale])

    @cached_property
    def exact(self) -> bool:
        """Whether the known writers account for every step of the counter."""
        return accounted(self.stale)

    @cached_property
    def target(self) -> Target:
        """What the first write goes into, as the program spells it."""
        return (
            target_of(self._evidence.sources, self._evidence.raised, self.own_writers[0].frame)
            if self.own_writers
            else Target()
        )

    @cached_property
    def written_as(self) -> str:
        """The plain name by which every write of the first tensor reaches it, if only by a view; empty where several
        names do, or something else than the user's own lines wrote."""
        if any(w.by is not By.LINE for w in self.own_writers):
            return ""
        paths = {target_of(self._evidence.sources, self._evidence.raised, w.frame).path for w in self.own_writers}
        return next((p for p in paths if self.may_be(p)), "") if len(paths) == 1 else ""

    def may_be(self, path: str) -> bool:
        """Whether what was saved can be what the writing function calls by this plain name: it writes there itself,
        not what it calls, and the saved tensor is not another part of one memory.
        """
        writer = self.own_writers[0].frame if self.own_writers else None
        here = path.isidentifier() and is_statement(self._evidence.sources, writer)
        return here and path != self.shares_memory

    @cached_property
    def shares_memory(self) -> str:
        """The plain name of a view that is written, where the statement that saved the tensor stands in the same
        function and does not have it: two parts of one memory (``z1, z2 = z.chunk(2)``) share a version counter. Empty
        where it is the same tensor for all that is known.
        """
        sources, writer = self._evidence.sources, self.own_writers[0].frame if self.own_writers else None
        path = self.target.path
        if writer is None or not path.isidentifier() or not is_statement(sources, writer):
            return ""
        if not all(w.op.endswith("CopySlices") for w in self.own_writers):
            return ""
        saver = in_function(reversed(self.node.stack), writer)
        names = statement_names(sources, saver) if saver is not None else None
        entry = entry_written(sources, self.own_writers[0])
        return "" if names is None or path in names else entry or path

    @cached_property
    def by_step(self) -> bool:
        """Whether a step wrote first; where no write was seen, whether an optimizer holds the tensor."""
        if self.own_writers:
            return self.own_writers[0].by is By.STEP
        return bool(self.stale.tensor.owners)

    @cached_property
    def _is_store(self) -> bool:
        """Whether it is a parameter in name alone: frozen, in no optimizer, and filled by its own module's statements
        (``self.bank[i] = f``). A soft update or a copy of weights reaches its parameters by other names."""
        if self.stale.tensor.requires_grad or self.stale.tensor.owners:
            return False
        last = self.stale.tensor.name.rsplit(".", 1)[-1]
        own = [target_of(self._evidence.sources, self._evidence.raised, w.frame) for w in self.own_writers]
        return bool(own) and all(t.kept and t.path == f"self.{last}" for t in own)

    # -- what the tensor is to the program ---------------------------------------------------------------------------

    @cached_property
    def outlives(self) -> bool:
        """Whether it is a buffer, or data that is kept from one pass to the next."""
        if self.saved is not Saved.DATA:
            return self.saved is Saved.BUFFER
        silent = bool(self.own_writers) and not self.own_writers[0].grad_mode
        if self.target.kept or silent or (self.target.path and not self.target.local):
            return True
        held = any(s.kind == "attribute" for h in self.stale.tensor.holders for s in h.steps)
        return not self.target.path and held

    @cached_property
    def _made_for_each_write(self) -> bool:
        """Whether each of the writes goes into a tensor that was made for it."""
        maker = self.node if self.stale.output else self._evidence.node(self.stale.producer)
        sources, writers = self._evidence.sources, self.own_writers
        return maker is not None and all(made_for_each(sources, maker.stack, w.stack) for w in writers)

    @cached_property
    def in_steps(self) -> bool:
        """Whether it is a state that one line writes again and again while the graph is built."""
        if self.saved is Saved.RESULT and self.target.kept and not self._made_for_each_write:
            return True
        if not any(wrote_again(s) for s in self.stales) or not any(w.by is By.LINE for w in self.own_writers):
            return False
        looped = self.target.sliced and any(in_loop(self._evidence.sources, w.frame) for w in self.own_writers)
        return looped or bool(self.target.path and not self.target.local and not self.target.parameter)
