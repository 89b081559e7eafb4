"""The post-mortem: read off the graph, the version counters and the journal what happened, while all of it still lives.

Runs where the engine raised, before the exception goes on its way. It creates no node, draws no random number, keeps no
tensor alive after it returns, and touches no value.
"""

from __future__ import annotations

import bisect
import gc
import sys
from types import FrameType
from typing import Any

from graphdoc.capture import walk
from graphdoc.capture.journal import Entry, Journal
from graphdoc.capture.names import Census, roots_of
from graphdoc.capture.stacks import Stack, frames_of, is_user_file, site_of
from graphdoc.evidence import (
    Carry,
    Event,
    Evidence,
    Frame,
    Holder,
    Node,
    Optimizer,
    Parameter,
    Stale,
    Tensor,
    Write,
)

MOST_NODES = 300
"""Nodes told in the Evidence: those that matter, not the whole graph."""
MOST_PER_KIND = 40


class Autopsy:
    """One examination. ``fill`` writes what it finds into an Evidence document."""

    def __init__(self, torch: Any, journal: Journal, cwd: str, frames: list[FrameType], watch: Any = None) -> None:
        self.watch = watch
        self.torch = torch
        self.journal = journal
        self.cwd = cwd
        self.census = Census(roots_of(frames), torch)
        self.entries = journal.entries()
        self.order: list[walk.Found] = []
        self.same_place: list[Entry] = []
        self._numbers: dict[int, int] = {}
        self._sites: dict[tuple[Any, ...], list[Any]] | None = None
        self._made_at: dict[tuple[Any, ...], list[int]] | None = None

    # -- parts that need no graph --------------------------------------------------------------------------------

    def fill_program(self, evidence: Evidence) -> None:
        """Optimizers, parameters and the journal."""
        owners: dict[int, list[int]] = {}
        for seen in self.journal.optimizers.values():
            optimizer = seen.ref()
            told = Optimizer(seen.id, seen.type, steps=seen.steps, alive=optimizer is not None)
            if optimizer is not None:
                self._describe(optimizer, seen.id, told, owners)
            evidence.optimizers.append(told)
        fresh = len(self.journal.optimizers)
        for ident, (optimizer, _, _) in self.census.optimizers.items():
            known = self.journal.optimizers.get(ident)
            if known is None or known.ref() is not optimizer:
                told = Optimizer(fresh, type(optimizer).__name__)
                self._describe(optimizer, fresh, told, owners)
                evidence.optimizers.append(told)
                fresh += 1
        self.owners = owners
        for ident, (name, tensor, buffer) in self.census.parameters.items():
            evidence.parameters.append(self._parameter(ident, name, tensor, buffer))
            if len(evidence.parameters) >= 3000:
                break
        evidence.events = [self._event(e) for e in self.entries]

    def _describe(self, optimizer: Any, ident: int, told: Optimizer, owners: dict[int, list[int]]) -> None:
        told.name = self.census.optimizer_name(id(optimizer))
        groups = optimizer.param_groups if isinstance(optimizer.param_groups, list) else []
        told.fused = any(bool(g.get("fused")) for g in groups)
        for group in groups:
            for p in group["params"]:
                owners.setdefault(id(p), []).append(ident)
                name = self.census.parameter_names.get(id(p))
                if name is None:
                    told.unnamed += 1
                else:
                    told.parameters.append(name)

    def _parameter(self, ident: int, name: str, tensor: Any, buffer: bool) -> Parameter:
        grad = ""
        if tensor.is_leaf and tensor.requires_grad:
            grad = "none" if tensor.grad is None else "present"
        return Parameter(
            name,
            shape_of(tensor),
            str(tensor.dtype),
            bool(tensor.requires_grad),
            buffer,
            bool(tensor.is_leaf),
            _version(tensor),
            self.owners.get(ident, []),
            grad,
            self.journal.with_grad.get(ident, 0),
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
            entry.root_count,
            entry.retain_graph,
            entry.create_graph,
            entry.optimizer,
            entry.occurrence,
            sorted(names[i] for i in entry.reaches if i in names) if entry.reaches is not None else [],
            entry.failed,
            entry.detail,
        )

    # -- the graph -----------------------------------------------------------------------------------------------

    def fill_graph(self, evidence: Evidence, roots: list[Any], failing: Stack | None, name: str, entry: Entry) -> None:
        """Walk from the roots of the failing call and tell what is released, stale, and carried over from before."""
        self.same_place = [e for e in self.entries if e.place is entry.place]
        self.order = order = walk.walk(roots)
        evidence.graph_size = len(order)
        if not order:
            return
        self.failing = self._failing(failing, name) if failing is not None else -1
        # What the engine met before the failing node was in order, and is released by now.
        inferred = walk.examine_all(order, order[self.failing].sequence if self.failing >= 0 else walk.NO_SEQUENCE)
        if inferred:
            evidence.degraded.append(f"{inferred} released nodes deep in the graph were inferred, not looked at")
        if failing is None:
            self.failing = self._failing(None)
        second_time = "second time" in evidence.message or "already been freed" in evidence.message
        limit = order[self.failing].sequence if self.failing >= 0 else walk.NO_SEQUENCE
        # The failing call has itself released what it ran before it failed, highest sequence number first
        # (the engine's ready queue): only released nodes at or below the failing one were dead before.
        released = {f.number for f in order if f.released and f.sequence <= limit} if second_time else set()
        stale = {f.number for f in order if f.stale}
        self.dead = released if second_time else stale
        self.bits, self.touched, self.leaves = walk.below(order, self.dead)
        evidence.root = self._tell(evidence, 0)
        evidence.failing = self._tell(evidence, self.failing) if self.failing >= 0 else -1
        evidence.failing_event = entry.index
        evidence.reaches = self._names(self.bits[0] if len(roots) == 1 else self._union(roots))
        for number in sorted(stale, key=lambda n: -order[n].sequence)[:MOST_PER_KIND]:
            self._fill_stale(evidence, order[number])
        self._fill_carries(evidence, entry)
        for number in sorted(self.dead, key=lambda n: -order[n].sequence)[: MOST_PER_KIND * 2]:
            self._tell(evidence, number)

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
        return max(hit, key=lambda f: f.sequence).number if hit and failing is None else -1

    def _names(self, bits: int) -> list[str]:
        out = []
        names = self.census.parameter_names
        for position, leaf in self.leaves.items():
            if bits >> position & 1:
                out.append(names.get(id(leaf)) or f"<unnamed {shape_of(leaf)}>")
        return sorted(out)

    def raw_stack(self, node: Any) -> list[Any]:
        kept = node.metadata.get("traceback_")
        # Anomaly mode's own text, where our stacks could not take its place.
        return kept.raw if isinstance(kept, Stack) else kept if isinstance(kept, list) else []

    def _tell(self, evidence: Evidence, number: int) -> int:
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
        return Node(
            ident,
            str(node.name()),
            sequence,
            frames_of(self.raw_stack(node), self.cwd),
            state,
            self.epoch(sequence),
            self.iteration(sequence),
            self._output_shape(node, 0),
        )

    def _output_shape(self, node: Any, index: int) -> list[int]:
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

    # -- stale tensors -------------------------------------------------------------------------------------------

    def _fill_stale(self, evidence: Evidence, found: walk.Found) -> None:
        for attribute, expected, current in found.stale:
            for tensor in walk.stale_tensors(found, attribute)[:8]:
                if attribute == "saved_tensors" and _version(tensor) != current:
                    continue
                told, owner = self._identify(tensor)
                stale = Stale(self._tell(evidence, found.number), attribute, told, expected, current)
                stale.is_view = bool(getattr(tensor, "_is_view", lambda: False)())
                stale.output = attribute in ("_saved_result", "_saved_output")
                stale.writes = self._writes(found, owner, tensor, current, current - expected)
                stale.behind = self._names(self.bits[found.number])
                producer = self._producer(found, attribute)
                stale.producer = self._tell(evidence, producer) if producer >= 0 else -1
                evidence.stale.append(stale)
                break

    def _producer(self, found: walk.Found, attribute: str) -> int:
        """The node whose output was saved: for a saved input the matching edge, for a saved result the node itself."""
        if attribute in ("_saved_result", "_saved_output"):
            return found.number
        return -1

    def _identify(self, tensor: Any) -> tuple[Tensor, Any]:
        """Tell which parameter, buffer or reachable tensor shares this tensor's storage."""
        told = Tensor(
            "activation", "", shape_of(tensor), str(tensor.dtype), _version(tensor), bool(tensor.requires_grad)
        )
        storage = _storage(tensor)
        if storage is None:
            return told, None
        for ident, (name, parameter, buffer) in self.census.parameters.items():
            if _storage(parameter) == storage:
                told.kind = "buffer" if buffer else "parameter"
                told.name = name
                told.is_leaf = bool(parameter.is_leaf)
                told.requires_grad = bool(parameter.requires_grad)
                told.owners = self.owners.get(ident, [])
                told.holders = self.census.holders(ident, True, self.cwd)
                return told, parameter
        best = None
        for ident, other in self.census.tensors.items():
            if _storage(other) == storage:
                told.holders += self.census.holders(ident, True, self.cwd)
                if best is None or other.is_leaf:
                    best = other
        told.holders = told.holders[:8]
        if told.holders:
            told.name = min(told.holders, key=lambda h: (len(h.steps), len(h.path))).path
        if best is not None and best.is_leaf:
            told.is_leaf = True
            told.kind = "leaf" if best.requires_grad else "input"
        return told, best

    def _writes(self, found: walk.Found, owner: Any, tensor: Any, current: int, delta: int) -> list[Write]:
        """Who wrote, as far as this run knows: optimizer steps, and in-place operations that are part of a graph."""
        out: list[Write] = []
        if self.watch is not None:
            out = self.watch.writes_to(_storage(tensor), current - delta, current, self.cwd)
            if out:
                return out[:MOST_PER_KIND]
        if owner is not None:
            ids = self.owners.get(id(owner), [])
            for entry in self.entries:
                if entry.kind == "step" and entry.sequence > found.sequence and entry.optimizer in ids:
                    seen = next((s for s in self.journal.optimizers.values() if s.id == entry.optimizer), None)
                    name = seen.type if seen else "Optimizer"
                    out.append(Write(f"{name}.step", frames_of(entry.raw, self.cwd), event=entry.index))
            if out:
                return out[:MOST_PER_KIND]
        storage = _storage(tensor)
        nodes: dict[Any, int] = {}
        for other in _sharing(self.torch, storage):
            node = grad_fn_of(other)
            # The chain of in-place operations on one storage, newest first: each is newer than the node that saved.
            for _ in range(max(delta, 1) * 4):
                if node is None:
                    break
                sequence = node._sequence_nr()
                if not found.sequence < sequence < walk.NO_SEQUENCE:
                    break
                if _in_place(node.name()):
                    nodes[node] = sequence
                node = node.next_functions[0][0] if node.next_functions else None
        for node, _ in sorted(nodes.items(), key=lambda pair: pair[1]):
            raw = self.raw_stack(node)
            if raw:
                out.append(Write(str(node.name()), frames_of(raw, self.cwd), certain=False))
        return out[:MOST_PER_KIND]

    # -- edges into older graphs ---------------------------------------------------------------------------------

    def _fill_carries(self, evidence: Evidence, entry: Entry) -> None:
        order = self.order
        backwards = [e for e in self.entries if e.kind in ("backward", "grad") and e.index < entry.index]
        freed_by = {n: self._freeing(order[n], backwards) for n in self.dead}
        edges = self._crossing(freed_by)
        if not edges and any(order[n].released for n in self.dead):
            edges, shared = self._shared(evidence, backwards)
            evidence.extras["shared_with"] = shared
        marks = {e.index: e.sequence for e in freed_by.values() if e is not None}
        # The newest first: what the failing iteration itself carried over says most.
        for consumer, producer in sorted(edges, key=lambda e: -order[e[0]].sequence)[: MOST_PER_KIND * 3]:
            freeing = self._freed_below(producer, freed_by)
            carry = Carry(
                self._tell(evidence, consumer),
                self._tell(evidence, producer),
                self._carried(order[producer].node),
                self._names(self.bits[producer]),
                freeing,
                bool(self.touched[producer]),
            )
            carry.recurrent, carry.remade = self._again(consumer, producer, max(marks.values(), default=-1))
            evidence.carries.append(carry)
        shared_event = (evidence.extras.get("shared_with") or {}).get("event", -1)
        for e in backwards:
            if e.index in {*marks, shared_event} and not evidence.siblings:
                self._fill_siblings(evidence, e)
        evidence.fresh_reaches = self._names(self._reach_without(edges + self._like(edges, marks)))
        if marks:
            self._fill_lingering(evidence, max(marks.values()))
        if freed_by:
            first = freed_by[max(freed_by, key=lambda n: order[n].sequence)]
            evidence.extras["freed_by"] = first.index if first is not None else -1
        evidence.extras["dead"] = len(self.dead)

    def _like(self, edges: list[tuple[int, int]], marks: dict[int, int]) -> list[tuple[int, int]]:
        """Edges to results of the same standing as those behind ``edges``: other entries of a store, used or not.

        An old one comes from the same expression, or goes into the same operation; a new one does both.
        """
        mark = max(marks.values(), default=-1)
        takers, makers = {n for n, _ in edges}, {m for _, m in edges}
        taking, making = self._alike(takers), self._alike(makers)
        out = []
        for f in self.order:
            new = f.sequence >= mark
            for m in f.following if new and f.leaf is None else ():
                old = self.order[m].sequence < mark and self.order[m].leaf is None
                if (m in making and (old or f.number in taking)) or (old and f.number in takers):
                    out.append((f.number, m))
        return out

    def _alike(self, numbers: set[int]) -> set[int]:
        """The nodes that the same expressions made as these."""
        wanted = {(self.order[n].op, site_of(self.raw_stack(self.order[n].node), library=True)) for n in numbers}
        ops = {op for op, _ in wanted}
        return {
            f.number
            for f in self.order
            if f.op in ops and (f.op, site_of(self.raw_stack(f.node), library=True)) in wanted
        }

    def _fill_lingering(self, evidence: Evidence, mark: int) -> None:
        """What else is kept with an old graph: the next thing to fail once the first is mended."""
        for ident, tensor in self.census.tensors.items():
            node = grad_fn_of(tensor)
            if node is None or not node._sequence_nr() < mark or len(evidence.lingering) >= MOST_PER_KIND:
                continue
            told = self._carried(node)
            told.holders = self.census.holders(ident, True, self.cwd)
            told.made = frames_of(self.raw_stack(node), self.cwd)
            evidence.lingering.append(told)

    def _carried(self, node: Any) -> Tensor:
        told = Tensor("activation", "", self._output_shape(node, 0))
        told.holders = self._holders_of(node)
        if told.holders:
            told.name = told.holders[0].path
        return told

    def _again(self, consumer: int, producer: int, mark: int) -> tuple[bool, bool]:
        """Whether the call that made the producer was made again since the last backward; and feeds on the producer."""
        if self._made_at is None:
            self._made_at = {}
            self._above: dict[int, list[int]] = {}
            sites: dict[tuple[int, int], tuple[int, ...]] = {}
            for found in self.order:
                kept = found.node.metadata.get("traceback_")
                if isinstance(kept, Stack):
                    site = sites.get((id(kept.chain), kept.lasti))
                    if site is None:
                        # Library frames included: two nodes of one module call are not the same expression.
                        site = sites[id(kept.chain), kept.lasti] = site_of(kept, library=True)
                    self._made_at.setdefault(site, []).append(found.number)
                for m in found.following:
                    self._above.setdefault(m, []).append(found.number)
        node = self.order[producer].node
        same = self._made_at.get(site_of(self.raw_stack(node), library=True), [])
        newer = {n for n in same if self.order[n].sequence >= mark > self.order[producer].sequence}
        remade = any(self.order[n].op == node.name() for n in newer)
        if not newer:
            return False, False
        seen = {consumer}
        todo = [consumer]
        while todo and len(seen) < 50_000:
            n = todo.pop()
            if n in newer:
                return True, True
            for m in self._above.get(n, ()):
                if m not in seen:
                    seen.add(m)
                    todo.append(m)
        return False, remade

    def _freeing(self, found: walk.Found, backwards: list[Entry]) -> Entry | None:
        """The backward call that released a node: the first one after it was made that reaches the same leaves."""
        ids = {id(leaf) for p, leaf in self.leaves.items() if self.bits[found.number] >> p & 1}
        for e in backwards:
            if e.retain_graph or e.sequence <= found.sequence or (0 <= e.root < found.sequence):
                continue
            if e.reaches is None or not ids or e.reaches & ids:
                return e
        # Kept graphs (retain_graph) have no releasing call: the first call after the node stands for it.
        return next((e for e in backwards if e.sequence > found.sequence), None)

    def _freed_below(self, number: int, freed_by: dict[int, Entry | None]) -> int:
        seen = {number}
        todo = [number]
        while todo:
            n = todo.pop()
            if n in freed_by:
                e = freed_by[n]
                return e.index if e is not None else -1
            for m in self.order[n].following:
                if m not in seen and self.touched[m]:
                    seen.add(m)
                    todo.append(m)
        return -1

    def _crossing(self, freed_by: dict[int, Entry | None]) -> list[tuple[int, int]]:
        """Edges from a node made after the call that freed what lies below to one made before that call."""
        marks = sorted({e.sequence for e in freed_by.values() if e is not None})
        place = {mark: i for i, mark in enumerate(marks)}
        own = {n: 1 << place[e.sequence] for n, e in freed_by.items() if e is not None}
        masks = walk.gather(self.order, own)
        out = []
        for found in self.order:
            if found.sequence >= walk.NO_SEQUENCE:
                continue
            for m in found.following:
                if masks[m]:
                    low = bisect.bisect_right(marks, self.order[m].sequence)
                    high = bisect.bisect_right(marks, found.sequence)
                    # Marks with v.sequence < mark <= u.sequence, as a range of bits.
                    if high > low and masks[m] >> low & ((1 << (high - low)) - 1):
                        out.append((found.number, m))
        return sorted(set(out))

    def _shared(self, evidence: Evidence, backwards: list[Entry]) -> tuple[list[tuple[int, int]], dict[str, Any]]:
        """Edges into the part shared with an earlier backward call of the same forward pass."""
        used: set[int] = set()
        told: dict[str, Any] = {}
        numbers = {f.node: f.number for f in self.order}
        for e in reversed(backwards):
            root = self._live_root(e)
            if root is None:
                continue
            used = {numbers[f.node] for f in walk.walk([root]) if f.node in numbers and f.leaf is None}
            if used & self.dead:
                told = {"event": e.index, "exact": True, "same_root": self.order[0].node is root}
                break
            used = set()
        if not used:
            used = set(self.dead)
        out = {(f.number, m) for f in self.order if f.number not in used for m in f.following if m in used}
        return [edge for edge in sorted(out) if self.touched[edge[1]]], told

    def _fill_siblings(self, evidence: Evidence, entry: Entry) -> None:
        """The edges by which an earlier call, whose loss still lives, enters what it shares with the failing one."""
        root = self._live_root(entry)
        if root is None or root is self.order[0].node:
            return
        numbers = {f.node: f.number for f in self.order}
        other = walk.walk([root])
        for found in other:
            if found.node in numbers or len(evidence.siblings) >= MOST_PER_KIND:
                continue
            for m in found.following:
                number = numbers.get(other[m].node)
                if number is None or other[m].leaf is not None or not self.touched[number]:
                    continue
                ident = len(evidence.nodes)
                evidence.nodes.append(self.describe_node(found.node, ident))
                evidence.siblings.append(
                    Carry(
                        ident,
                        self._tell(evidence, number),
                        self._carried(other[m].node),
                        self._names(self.bits[number]),
                        entry.index,
                    )
                )

    def _live_root(self, entry: Entry) -> Any:
        for tensor in self.census.tensors.values():
            node = grad_fn_of(tensor)
            if node is not None and entry.root >= 0 and node._sequence_nr() == entry.root:
                return node
        return None

    def _reach_without(self, edges: list[tuple[int, int]]) -> int:
        """The leaves that the root reaches without crossing the given edges."""
        blocked = set(edges)
        seen = {0}
        todo = [0]
        value = 0
        position = {id(leaf): p for p, leaf in self.leaves.items()}
        while todo:
            n = todo.pop()
            found = self.order[n]
            if found.leaf is not None:
                value |= 1 << position[id(found.leaf)]
            for m in found.following:
                if m not in seen and (n, m) not in blocked:
                    seen.add(m)
                    todo.append(m)
        return value

    def _holders_of(self, node: Any) -> list[Holder]:
        """Who holds the output of this node; else who holds what was made at the same place later."""
        if self._sites is None:
            self._sites = {}
            for tensor in self.census.tensors.values():
                made = grad_fn_of(tensor)
                if made is not None:
                    raw = self.raw_stack(made)
                    if raw:
                        self._sites.setdefault((made.name(), *site_of(raw)), []).append(tensor)
        out: list[Holder] = []
        for tensor in self.census.tensors.values():
            if grad_fn_of(tensor) is node:
                out += self.census.holders(id(tensor), True, self.cwd)
        if not out:
            for tensor in self._sites.get((node.name(), *site_of(self.raw_stack(node))), ()):
                out += self.census.holders(id(tensor), False, self.cwd)
        out.sort(key=lambda h: (len(h.steps), len(h.path)))
        return out[:24]

    # -- tensors in the frames -----------------------------------------------------------------------------------

    def locals_of(self, most: int = 200) -> list[dict[str, Any]]:
        """Every tensor near the surface of the live frames, with how it was made: facts for causes without a graph."""
        out: list[dict[str, Any]] = []
        for ident, paths in self.census.tensor_paths.items():
            tensor = self.census.tensors[ident]
            _, path = min(paths, key=lambda p: len(p[1]))
            if len(path) > 4 or ident in self.census.parameter_names:
                continue
            node = grad_fn_of(tensor)
            made: list[Frame] = frames_of(self.raw_stack(node), self.cwd) if node is not None else []
            holder = self.census.holders(ident, True, self.cwd)[0]
            out.append(
                {
                    "path": holder.path,
                    "function": holder.function,
                    "shape": shape_of(tensor),
                    "dtype": str(tensor.dtype),
                    "requires_grad": bool(tensor.requires_grad),
                    "is_leaf": bool(tensor.is_leaf),
                    "op": str(node.name()) if node is not None else "",
                    "made": [vars(f) for f in made if f.user][-3:],
                    "inference": bool(tensor.is_inference()),
                    "grad": "none" if not tensor.is_leaf or tensor.grad is None else "present",
                }
            )
            if len(out) >= most:
                break
        return out


def user_frames(frame: FrameType | None) -> list[FrameType]:
    """The user's frames from here outwards."""
    out = []
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            out.append(frame)
        frame = frame.f_back
    return out


def frames_of_traceback(tb: Any) -> list[FrameType]:
    """The user's frames of a traceback, innermost first."""
    out = []
    while tb is not None:
        if is_user_file(tb.tb_frame.f_code.co_filename):
            out.append(tb.tb_frame)
        tb = tb.tb_next
    return out[::-1]


def grad_fn_of(tensor: Any) -> Any:
    """``tensor.grad_fn`` or None; reading it can raise for a view made under no_grad and written to since."""
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def shape_of(tensor: Any) -> list[int]:
    """The shape; empty for a tensor that has none (nested, or with sizes not known yet)."""
    try:
        return [int(s) for s in tensor.shape]
    except Exception:
        return []


def _version(tensor: Any) -> int:
    try:
        return int(tensor._version)
    except Exception:
        return -1  # inference tensors keep no version counter


def _shape(tensor: Any) -> list[int]:
    try:
        return list(tensor.shape)
    except Exception:
        return []  # a lazy module's parameter has no shape until the first forward


def _storage(tensor: Any) -> int | None:
    try:
        return int(tensor.untyped_storage()._cdata)
    except Exception:
        return None  # sparse and other tensors without storage


def _sharing(torch: Any, storage: int | None) -> list[Any]:
    """Every live tensor with this storage, found through the garbage collector (``type``, never ``isinstance``)."""
    if storage is None:
        return []
    wanted = (torch.Tensor, torch.nn.Parameter)
    return [o for o in gc.get_objects() if type(o) in wanted and _storage(o) == storage]


def _in_place(name: str) -> bool:
    return name.endswith("CopySlices") or "CopySlices" in name or not name.startswith(("View", "AsStrided", "Slice"))


def main_module_file() -> str:
    main = sys.modules.get("__main__")
    return str(getattr(main, "__file__", "") or "")
