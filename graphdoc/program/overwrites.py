"""An overwrite: what was written that backward needs, when, by whom, and what it is to the program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from functools import cached_property
from itertools import pairwise, takewhile

from graphdoc.evidence import PART_FRAMES, Event, Evidence, Folded, Frame, Node, OlderEdge, Stale
from graphdoc.program.bindings import statement_at
from graphdoc.program.calls_in_order import DIFFERENTIATING, Journal
from graphdoc.program.carried_names import Carried
from graphdoc.program.exception import VERSION, message_of
from graphdoc.program.lifetimes import Lifetime
from graphdoc.program.reuse import Reuse, Role, SlicedBuffer, is_reference
from graphdoc.program.rounds import made_for_each
from graphdoc.program.spans import in_function, is_at, level_of, node_loop_of
from graphdoc.program.writers import (
    By,
    Target,
    Writer,
    accounted,
    entry_written,
    is_optimizers,
    is_statement,
    target_of,
    writers_of,
    wrote_again,
)
from graphdoc.source.paths import only, plain_names

# What edges into an older graph mean: whether a loss learns through them, whether a value is old as a whole.


def is_needed(fresh_reaches: list[str], carries: Sequence[Carried], trained: frozenset[str] | None) -> bool:
    """Whether the failing loss reaches what it is meant to train by these edges alone: cutting them ends its learning.

    ``trained`` are the names of the parameters that it is to train. False also where they are not known, and for edges
    of an earlier loss.
    """
    behind = {name for c in carries for name in c.behind}
    alone = trained and trained & behind and not trained & set(fresh_reaches)
    return bool(alone) and not any(c.is_of_earlier_loss for c in carries)


def takes_only_older(folded: Folded | None, node: int) -> bool:
    """Whether all that the expression takes which made a node of the failing graph was there before the latest backward
    call: it computes nothing from what this pass has made, and from no parameter itself. False where unknown."""
    home = folded.home(node) if folded is not None else -1
    if folded is None or home < 0:
        return False
    taken = [folded.parts[to] for to in folded.below([home])]
    return bool(taken) and all(part.older and not part.parameters for part in taken)


def reached_without_nodes(folded: Folded | None, nodes: Iterable[int]) -> set[str] | None:
    """The parameters that the failing loss still reaches where what made these nodes gives constants; None where the
    graph is folded too much to tell.
    """
    return _reached_without(folded, {folded.home(n) for n in nodes} - {-1} if folded is not None else set())


def reached_without_line(folded: Folded | None, line: Frame) -> set[str] | None:
    """The same where all that is computed in or below a line gives constants. None as well where it is not known of
    every part at which line of that function it was computed: a part tells the innermost of its frames.
    """
    parts = [(n, p) for n, p in enumerate(folded.parts) if not p.parameters] if folded is not None else []
    level = [(n, f) for n, p in parts for f in p.stack if f.in_function_of(line)]
    if {n for n, _ in level} != {n for n, _ in parts}:
        return None
    return _reached_without(folded, {n for n, f in level if f.line == line.line})


def reached_without_values(folded: Folded | None, places: Sequence[Frame]) -> set[str] | None:
    """The same where all that is computed in or below these places gives constants; empty where that is the loss.
    None where of a part it is not known whether it was computed there.
    """
    cut: set[int] = set()
    for at in places:
        outside = _around(folded, at)
        for number, part in enumerate(folded.parts if folded is not None else ()):
            level = [f for f in part.stack if f.in_function_of(at)]
            whole = 0 < len(part.stack) < PART_FRAMES or any(map(outside.__contains__, map(_function, part.stack[:1])))
            if not part.parameters and (not at.column or not (level or whole)):
                return None
            cut |= {number for f in level if f.lies_in(at)}
    return set() if folded is not None and folded.root in cut else _reached_without(folded, cut)


def _function(frame: Frame) -> tuple[str, str]:
    return frame.file, frame.function


def _around(folded: Folded | None, at: Frame) -> set[tuple[str, str]]:
    """The functions that call the one of this place, be it through others, and that it does not call itself."""
    calls = {c for p in (folded.parts if folded is not None else ()) for c in pairwise(map(_function, p.stack))}
    callers, called = {_function(at)}, {_function(at)}
    for _ in calls:
        callers |= {a for a, b in calls if b in callers}
        called |= {b for a, b in calls if a in called}
    return callers - called


def is_all_of_loss(folded: Folded | None, line: Frame) -> bool:
    """Whether the failing loss is computed at this line from one value alone, which another line of the function has
    made: taken as a constant, the value leaves a loss without a graph. What the line itself calls, a network on its
    input, is no such value.
    """
    value = only(list(_taken_at(folded, line)))
    if folded is None or value is None:
        return False
    root = folded.parts[folded.root].stack[-1]
    made = [f.line for f in folded.parts[value].stack if f.in_function_of(root)]
    return bool(made) and line.line not in made


def is_the_loss_itself(folded: Folded | None, carries: Sequence[OlderEdge]) -> bool:
    """Whether what these edges lead to is all that the line of the failing loss takes (``other = -loss``): then the
    older part is the loss, and not something beside it.
    """
    root = folded.parts[folded.root].stack[-1:] if folded is not None and folded.root >= 0 else []
    taken = [n for line in root for n in _taken_at(folded, line)]
    return folded is not None and len(taken) == 1 and taken[0] in {folded.home(c.producer) for c in carries}


def _taken_at(folded: Folded | None, line: Frame) -> set[int]:
    """The parts from elsewhere that a line takes which the failing loss is computed at; empty for another line."""
    if folded is None or folded.root < 0:
        return set()
    here = {n for n, p in enumerate(folded.parts) if p.stack and p.stack[-1].start[:2] == line.start[:2]}
    return folded.below(here) if folded.root in here else set()


def _reached_without(folded: Folded | None, cut: set[int]) -> set[str] | None:
    if folded is None or folded.root < 0 or not cut or folded.root in cut:
        return None
    seen = {folded.root}
    while below := folded.below(seen) - cut:
        seen |= below
    return {name for n in seen for name in folded.parts[n].parameters}


# Earlier calls that kept their graph, ``retain_graph=True``, and what they kept it for.


def keeping_calls(journal: Journal, node: Node, behind: set[str], failing: Event | None) -> list[Event]:
    """The calls before the failing one, with the flag, that can have walked a node. ``behind`` are the parameters that
    lie behind it."""
    kept = (e for e in journal.events if e.kind in DIFFERENTIATING and e.retain_graph and not e.failed)
    before = (e for e in kept if failing is None or e.index < failing.index)
    # The root is newer than what it walks over, and the call is newer than both.
    newer = (e for e in before if e.sequence > node.sequence and not 0 <= e.root < node.sequence)
    return [e for e in newer if not behind or behind <= (reached := set(journal.reaches(e))) or not reached]


def kept_for_its_round(journal: Journal, calls: list[Event], behind: set[str]) -> bool:
    """Whether one of the calls had a reason of its own to keep it: another one went that way again before any step."""
    after = ([e for e in journal.events if e.index > kept.index] for kept in calls)
    later = (e for events in after for e in takewhile(lambda e: e.kind != "step", events))
    return any(e.kind == "backward" and behind & set(journal.reaches(e)) for e in later)


# What a tensor is to the program that was saved for backward and written since.


class Saved(Enum):
    """What the tensor is that was saved for backward and written since."""

    PARAMETER = "a leaf that is trained"
    BUFFER = "a buffer of a module"
    DATA = "a tensor without a graph of its own"
    RESULT = "a result of the forward pass"


def saved_as(stale: Stale) -> Saved:
    """What the stale tensor is to the program."""
    tensor = stale.tensor
    if tensor.kind == "parameter" or (tensor.kind == "leaf" and tensor.requires_grad):
        return Saved.PARAMETER
    if tensor.kind == "buffer":
        return Saved.BUFFER
    result = stale.output or stale.attribute.startswith(("_saved_result", "_saved_output"))
    # A result is saved without its own history; an argument without one is plain data.
    return Saved.RESULT if tensor.kind != "input" and (result or tensor.requires_grad) else Saved.DATA


# What was overwritten: the tensors that backward needs, who wrote them, and what they are to the program.


class OverwrittenTensor:
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
        if not self.own_writers:
            return Target()
        found = target_of(self._evidence, self.own_writers[0].frame)
        return replace(found, item=found.item or entry_written(self._evidence.sources, self.own_writers[0]))

    @cached_property
    def written_as(self) -> str:
        """The plain name by which every write of the first tensor reaches it, if only by a view; empty where several
        names do, or something else than the user's own lines wrote."""
        by_lines = all(w.by is By.LINE for w in self.own_writers)
        path = only(list({target_of(self._evidence, w.frame).path for w in self.own_writers})) if by_lines else None
        return path if path is not None and self.may_be(path) else ""

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
        of_view = path.isidentifier() and all(w.op.endswith("CopySlices") for w in self.own_writers)
        if writer is None or not of_view or not is_statement(sources, writer):
            return ""
        saver = statement_at(sources, in_function(reversed(self.node.stack), writer))
        entry = entry_written(sources, self.own_writers[0])
        return "" if saver is None or path in plain_names(saver) else entry or path

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
        own = [target_of(self._evidence, w.frame) for w in self.own_writers]
        return bool(own) and all(t.kept and t.path == f"self.{last}" for t in own)

    # -- when --------------------------------------------------------------------------------------------------------

    def ran_in(self, frame: Frame) -> list[Node]:
        """The nodes that saved one of the tensors in the call at this place, that of the first tensor in front."""
        nodes = (self._evidence.node(s.node) for s in self.stales)
        return [n for n in nodes if n is not None and any(is_at(f, frame) for f in n.stack)]

    def made_by(self, writer: Writer) -> Event | None:
        """The call in the journal that wrote, where it is known: the step, or the only load_state_dict there since."""
        node = self._evidence.node((writer.stale or self.stale).node)
        if writer.event is not None or writer.frame is None or node is None:
            return writer.event
        loads = (e for e in self._evidence.events if e.kind == "load_state_dict" and e.sequence >= node.sequence)
        return only([e for e in loads if any(is_at(f, writer.frame) for f in e.stack)])

    # -- what the tensor is to the program ---------------------------------------------------------------------------

    @cached_property
    def outlives(self) -> bool:
        """Whether it is a buffer, or data that is kept from one pass to the next."""
        silent = bool(self.own_writers) and not self.own_writers[0].grad_mode
        held = any(s.kind == "attribute" for h in self.stale.tensor.holders for s in h.steps)
        beyond = not self.target.local if self.target.path else held
        kept = self.saved is Saved.DATA and (self.target.kept or silent or beyond)
        return kept or self.saved is Saved.BUFFER

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
        again = any(map(wrote_again, self.stales)) and any(w.by is By.LINE for w in self.own_writers)
        writing = [w.frame for w in self.own_writers if w.frame is not None]
        looped = self.target.sliced and any(node_loop_of(self._evidence.sources, f) for f in writing)
        kept = self.target.path and not self.target.local and not self.target.parameter
        return again and bool(looped or kept)


# An overwrite: which tensor that backward needs was written, what it is to the program, by whom, and whose it is.


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
        through = self._learns_on_the_way or (self.reuse is not None and self.reuse.for_its_gradient)
        known = self.trained is not None and bool(self.behind)
        return known and not (through or self.own or self.same_loss)

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
        carries = self.reuse.carries if self.reuse is not None else []
        itself = is_the_loss_itself(self._evidence.folded, carries or self._evidence.earlier_edges)
        if self.same_loss or self._learns_on_the_way or itself or self.reuse is None:
            return self.same_loss or self._learns_on_the_way or itself
        # Where an earlier update has learned from entries of a store, no order of calls lets two do that.
        stored = self.reuse.lifetime is Lifetime.STORED and self.keeping_calls and not self.one_of_several
        learns = is_needed(self._evidence.fresh_reaches, carries, self.trained)
        return not stored and (learns or (bool(self.own) and self._of_one_update))

    @cached_property
    def _learns_on_the_way(self) -> bool:
        """Whether this loss trains something that lies between it and the stale part, in the same pass.

        A discriminator that learns from scores which were computed before the generator's step: the images are a
        constant for it, and the scores are not. Not where the values are what it compares its own output with.
        """
        reuse = self.reuse
        if reuse is None or not self.trained or not reuse.carries or reuse.lifetime is not Lifetime.SAME_PASS:
            return False
        own = [self.trained & set(c.behind) for c in reuse.carries if not c.is_of_earlier_loss]
        anew = set().union(*own) <= set(self._evidence.fresh_reaches)
        return len(own) == len(reuse.carries) and all(own) and not (anew and is_reference(reuse.carries))

    @cached_property
    def _of_one_update(self) -> bool:
        """Whether both losses train what lies behind, and nothing that this one trains was stepped since it was made.

        A generator that learns from the scores on which the discriminator has learned, in the same round.
        """
        reuse = self.reuse
        if reuse is None or reuse.lifetime is not Lifetime.SAME_PASS or reuse.role is not Role.TRAINED:
            return False
        made, mine = min((c.made.sequence for c in reuse.carries), default=None), reuse.works_for[1]
        steps = (e for e in self._evidence.events if e.kind == "step" and e.optimizer in mine)
        return made is not None and bool(mine) and not any(e.sequence > made for e in steps)

    @cached_property
    def covered_up(self) -> bool:
        """Whether an earlier call walked the stale part with ``retain_graph=True``, and it should not be in this graph.

        Without the flag the call would have freed it, and the error would have been the other one. The part does not
        belong here if it was carried over from before that call, or if this loss is not meant to train any of it; but
        not where this loss learns through it alone.
        """
        if self._made_once_for_all or self.needed:
            return self._made_once_for_all
        stored = self._carried and self.reuse is not None and self.reuse.lifetime is Lifetime.STORED
        # Where the flags serve the pass itself, it is the store that brings the old graph back.
        in_round = stored and kept_for_its_round(self._journal, self.keeping_calls, self._named_behind)
        foreign = (self._carried or self.constant) and not in_round
        return (foreign or self.slices is not None) and bool(self.keeping_calls)

    @cached_property
    def _made_once_for_all(self) -> bool:
        """Whether a closure walks, each time the step runs it, what was made once, and has kept that with the flag.

        That this loss learns through it alone makes no order of steps right: it is one step that moves the parameters.
        """
        reuse, failing = self.reuse, self.failing
        once = reuse is not None and reuse.same_line and reuse.lifetime is Lifetime.MADE_ONCE
        in_step = failing is not None and any(map(is_optimizers, failing.stack))
        return once and in_step and self._carried and not self.same_loss and bool(self.keeping_calls)

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
        walked = any(behind and behind <= set(self._journal.reaches(e)) for e in self.keeping_calls)
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
