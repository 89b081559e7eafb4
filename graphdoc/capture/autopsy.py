"""The post-mortem: read off the graph, the version counters and the journal what happened, while all of it still lives.

Runs where the engine raised, before the exception goes on its way. It creates no node, draws no random number, keeps no
tensor alive after it returns, and touches no value.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from graphdoc.capture import saved, walk
from graphdoc.capture.facts import is_leaf, shape_of, version_of
from graphdoc.capture.folding import Folding
from graphdoc.capture.frames import frames_of, outside_compiled
from graphdoc.capture.journal import Entry, Journal
from graphdoc.capture.mismatches import Mismatches
from graphdoc.capture.names import Census
from graphdoc.capture.node_stacks import kept_in
from graphdoc.capture.older_edges import OlderEdges
from graphdoc.capture.search_roots import roots_of
from graphdoc.capture.sites import Sites
from graphdoc.capture.stacks import Stack
from graphdoc.capture.threads import on_one_scale
from graphdoc.evidence import (
    Event,
    Evidence,
    Node,
    Optimizer,
    Parameter,
)

MOST_NODES = 300
"""Nodes told in the Evidence: those that matter, not the whole graph."""
MOST_PER_KIND = 40


class Autopsy:
    """One examination. ``fill`` writes what it finds into an Evidence document."""

    limit = walk.MOST_NODES
    """Nodes of one graph that are looked at."""

    def __init__(
        self,
        torch: Any,
        journal: Journal,
        cwd: str,
        frames: list[FrameType],
        watch: Any = None,
        events: int | None = None,
        thread: int | None = None,
    ) -> None:
        """``events`` of the journal had been counted when the failure happened; what followed is left out.

        ``thread`` made the graph that is looked at, as far as is known; else the one that looks.
        """
        self.watch = watch
        self.torch = torch
        self.journal = journal
        self.cwd = cwd
        self.census = Census(roots_of(frames), torch)
        self.entries = [e for e in journal.entries() if events is None or e.index < events]
        self.thread = journal.here.number if thread is None else thread
        on_one_scale(self.entries, self.thread)
        self.order: list[walk.Found] = []
        self.sites = Sites()
        self.same_place: list[Entry] = []
        self.suspect: Callable[[list[walk.Found]], None] | None = None
        """Marks nodes as stale that no version counter tells."""
        self.missed: Any = None
        """The input of a ``grad`` call that the graph does not lead to, where the failure is about one."""
        self._numbers: dict[int, int] = {}

    # -- parts that need no graph --------------------------------------------------------------------------------

    def fill_program(self, evidence: Evidence) -> None:
        """Optimizers, parameters and the journal."""
        owners: dict[int, list[int]] = {}
        for seen, objects in self.journal.with_idle(o for o, _, _ in self.census.optimizers.values()):
            told = Optimizer(seen.id, seen.type, steps=seen.steps)
            self._describe(objects, told, owners)
            evidence.optimizers.append(told)
        self.owners = owners
        for ident, (name, tensor, buffer) in self.census.parameters.items():
            evidence.parameters.append(self._parameter(ident, name, tensor, buffer))
            if len(evidence.parameters) >= 3000:
                break
        evidence.events = [self._event(e) for e in self.entries]

    def _describe(self, optimizers: list[Any], told: Optimizer, owners: dict[int, list[int]]) -> None:
        told.name = next(filter(None, (self.census.optimizer_name(id(o)) for o in optimizers)), "")
        groups = optimizers[0].param_groups if optimizers and isinstance(optimizers[0].param_groups, list) else []
        for group in groups:
            for p in group["params"]:
                owners.setdefault(id(p), []).append(told.id)
                name = self.census.parameter_names.get(id(p))
                if name is not None:
                    told.parameters.append(name)

    def _parameter(self, ident: int, name: str, tensor: Any, buffer: bool) -> Parameter:
        grad = ""
        if is_leaf(tensor) and tensor.requires_grad:
            grad = "none" if tensor.grad is None else "present"
        return Parameter(
            name,
            shape_of(tensor),
            str(tensor.dtype),
            bool(tensor.requires_grad),
            buffer,
            is_leaf(tensor),
            version_of(tensor),
            self.owners.get(ident, []),
            grad,
            self.journal.with_grad.get(ident, 0),
            ident in self.census.several_names,
        )

    def _event(self, entry: Entry) -> Event:
        names = self.census.parameter_names
        return Event(
            entry.index,
            entry.kind,
            entry.sequence,
            frames_of(entry.raw, self.cwd),
            entry.root,
            entry.root_op,
            1 + len(entry.other_roots) // 2,
            entry.retain_graph,
            entry.create_graph,
            entry.optimizer,
            entry.occurrence,
            sorted(names[i] for i in entry.reaches if i in names) if entry.reaches is not None else [],
            entry.failed,
            entry.root_output,
            list(entry.other_roots),
        )

    # -- the graph -----------------------------------------------------------------------------------------------

    def fill_graph(self, evidence: Evidence, roots: list[Any], failing: Stack | None, name: str, entry: Entry) -> None:
        """Walk from the roots of the failing call and tell what is released, stale, and carried over from before."""
        self.same_place = [e for e in self.entries if e.place is entry.place]
        self.order = order = walk.walk(roots, self.limit)
        evidence.graph_size = len(order)
        if not order:
            return
        if len(order) >= self.limit:
            evidence.degraded.append(f"of a graph this large only {len(order)} nodes were looked at")
        if saved.all_unknown():
            evidence.degraded.append("saved tensor hooks are in use, so the state of saved tensors was not looked at")
        self.failing = self._failing(failing, name) if failing is not None else -1
        # What the engine met before the failing node was in order, and is released by now.
        inferred = walk.examine_all(order, order[self.failing].sequence if self.failing >= 0 else walk.NO_SEQUENCE)
        if self.suspect is not None:
            self.suspect(order)
        if inferred:
            evidence.degraded.append(f"{inferred} released nodes deep in the graph were inferred, not looked at")
        if failing is None:
            self.failing = self._failing(None, name)
        second_time = walk.of_released(evidence.message)
        limit = order[self.failing].sequence if self.failing >= 0 else walk.NO_SEQUENCE
        if second_time and failing is not None and self.failing >= 0:
            self._release_unseen(order[self.failing])
        # The failing call has itself released what it ran before it failed, highest sequence number first
        # (the engine's ready queue): only released nodes at or below the failing one were dead before.
        released = {f.number for f in order if f.released and f.sequence <= limit} if second_time else set()
        stale = {f.number for f in order if f.stale}
        self.dead = released if second_time else stale
        self.upward = walk.upward(order)
        self.bits, self.touched, self.leaves = walk.below(order, self.dead, self.upward)
        evidence.root = self.tell(evidence, 0)
        evidence.failing = self.tell(evidence, self.failing) if self.failing >= 0 else -1
        evidence.failing_event = entry.index
        evidence.reaches = self.names(self.bits[0] if len(roots) == 1 else self._union(roots))
        mismatches = Mismatches(self)
        for number in sorted(stale, key=lambda n: -order[n].sequence)[:MOST_PER_KIND]:
            mismatches.fill(evidence, order[number])
        if stale and not evidence.stale:
            evidence.degraded.append("the tensor that was overwritten cannot be had: who wrote to it is unknown")
        OlderEdges(self).fill(evidence, entry)
        for number in sorted(self.dead, key=lambda n: -order[n].sequence)[: MOST_PER_KIND * 2]:
            self.tell(evidence, number)
        evidence.folded = Folding(self).fold(evidence)

    def _release_unseen(self, met: walk.Found) -> None:
        """Of a write through a view Python sees nothing that it has saved (``CopySlices`` keeps the write's own node to
        itself): that the one which the engine names is released, its message says, and so are those before it that the
        same expression made."""
        if met.released or "CopySlices" not in met.op:
            return
        made = self.sites.of(met.node)
        for found in self.order:
            if found.op == met.op and found.sequence <= met.sequence and self.sites.of(found.node) == made:
                found.released = found.saves = True

    @property
    def numbers(self) -> dict[int, int]:
        """The ids of the nodes told so far, by their number in ``order``."""
        return self._numbers

    def _union(self, roots: list[Any]) -> int:
        nodes = {f.node: f.number for f in self.order}
        value = 0
        for r in roots:
            if r is not None:
                value |= self.bits[nodes[r]]
        return value

    def _failing(self, failing: Stack | None, name: str = "") -> int:
        if failing is not None:
            shared = [f for f in self.order if f.node.metadata.get("traceback_") is failing]
            if len(shared) > 1:
                # Nodes of one operation have one stack; the engine comes to the one with the highest number first.
                shared = [f for f in shared if f.node.name() == name] or [
                    f for f in shared if f.sequence < walk.NO_SEQUENCE
                ]
                shared.sort(key=lambda f: -f.sequence)
            if shared:
                return shared[0].number
        # Without the engine's word: the first node that it would have met, highest number first.
        hit = [f for f in self.order if f.released or f.stale]
        hit = [f for f in hit if f.node.name() == name] or hit
        return max(hit, key=lambda f: f.sequence).number if hit and failing is None else -1

    def names(self, bits: int) -> list[str]:
        out = []
        names = self.census.parameter_names
        for position, leaf in self.leaves.items():
            if bits >> position & 1:
                out.append(names.get(id(leaf)) or f"<unnamed {shape_of(leaf)}>")
        return sorted(out)

    def raw_stack(self, node: Any) -> list[Any]:
        kept = kept_in(node)
        # Anomaly mode's own text, where our stacks could not take its place.
        return kept.raw if isinstance(kept, Stack) else kept if isinstance(kept, list) else []

    def tell(self, evidence: Evidence, number: int) -> int:
        """Put a node into the Evidence (once) and return its id."""
        ident = self._numbers.get(number)
        if ident is not None:
            return ident
        found = self.order[number]
        if len(evidence.nodes) >= MOST_NODES:
            return -1
        ident = self._numbers[number] = len(evidence.nodes)
        state = "released" if number in self.dead and found.released else "stale" if found.stale else "live"
        evidence.nodes.append(self.describe_node(found.node, ident, state))
        return ident

    def describe_node(self, node: Any, ident: int, state: str = "live") -> Node:
        sequence = node._sequence_nr()
        sequence = sequence if sequence < walk.NO_SEQUENCE else -1
        op = str(node.name())
        return Node(
            ident,
            op,
            sequence,
            outside_compiled(op, frames_of(self.raw_stack(node), self.cwd)),
            state,
            self.epoch(sequence),
            self.iteration(sequence),
            self.output_shape(node, 0),
        )

    def output_shape(self, node: Any, index: int) -> list[int]:
        try:
            return [int(s) for s in node._input_metadata[index].shape]
        except Exception:
            return []

    def iteration(self, sequence: int) -> int:
        """How many calls from the place of the failing one had been made before a node with this number was.

        -1 where the journal no longer knows: it keeps a place's first calls and the latest.
        """
        earlier = [e for e in self.same_place if e.sequence <= sequence]
        if not earlier or sequence < 0:
            return 0 if self.same_place and sequence >= 0 else -1
        last = earlier[-1]
        following = self.same_place[len(earlier)] if len(earlier) < len(self.same_place) else None
        known = following is None or following.occurrence == last.occurrence + 1
        return last.occurrence + 1 if known else -1

    def epoch(self, sequence: int) -> int:
        """How many backward calls had been made before a node with this number was."""
        return sum(1 for e in self.entries if e.kind in ("backward", "grad") and e.sequence <= sequence)
