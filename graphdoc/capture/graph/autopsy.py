"""The post-mortem: what the graph, the version counters and the journal tell, while all of it still lives."""

from __future__ import annotations

import functools
import gc
import heapq
import inspect
import operator
from array import array
from collections.abc import Callable, Iterator
from itertools import compress
from types import FrameType
from typing import Any

from graphdoc.capture.events.journal import Entry, Journal, on_one_scale
from graphdoc.capture.graph import walk
from graphdoc.capture.graph.folding import Folding, GivenOut
from graphdoc.capture.graph.older_edges import OlderEdges
from graphdoc.capture.graph.walk import op_of
from graphdoc.capture.places.frames import frames_of, outside_compiled, site_of
from graphdoc.capture.places.stacks import Stack, is_known, kept_in
from graphdoc.capture.tensors import saved
from graphdoc.capture.tensors.access_paths import roots_of
from graphdoc.capture.tensors.facts import extent_of, grad_fn_of, held_by, is_leaf, shape_of, storage_of, version_of
from graphdoc.capture.tensors.names import Census
from graphdoc.capture.tensors.saved import stale_contents
from graphdoc.evidence import Event, Evidence, Holder, Node, Optimizer, Parameter, Stale, Tensor, Write

# How far one step of an optimizer moves the version counter of a parameter: the one table of it. They count the in-
# place operations on the parameter in an optimizer's ``_single_tensor_…`` and ``_multi_tensor_…`` functions
# (torch/optim, 2.6 to 2.15), and ``tests/capture/test_step_writes.py`` measures them for each optimizer and its
# options. A fused kernel writes without counting.

UNKNOWN = -1
"""An optimizer of another maker, or one whose number of writes depends on the data (the line search of ``LBFGS``)."""

_ONCE = "Adadelta Adafactor Adagrad Adam AdamW Adamax RAdam RMSprop Rprop SGD SparseAdam"
_ONE_STEP = dict.fromkeys(_ONCE.split(), 1) | {"ASGD": 2, "Muon": 2, "NAdam": 2}
_OF_MANY = {"ASGD": 1}
"""The same where one operation serves many tensors (``foreach``), as far as it differs."""
_DECAYS = frozenset(("Adam", "AdamW", "NAdam", "RAdam", "Adafactor"))
"""Those that decay the parameter by an operation of its own, where they decay it apart from the gradient."""


def versions_of(optimizer: Any, parameter: Any) -> int:
    """How far a step of ``optimizer`` moves the version of ``parameter``, if that has a gradient, or UNKNOWN."""
    # PyTorch wraps `step` in the class of the first optimizer that is made, also where a parent defines it.
    step = inspect.unwrap(type(optimizer).step)
    if not str(getattr(step, "__module__", "")).startswith("torch.optim"):
        return UNKNOWN
    group = next((g for g in optimizer.param_groups if any(p is parameter for p in held_by(g))), None)
    if group is None or group.get("differentiable"):
        return UNKNOWN
    return versions(step.__qualname__.partition(".")[0], group, bool(getattr(parameter, "is_cuda", False)))


def versions(name: str, options: dict[str, Any], cuda: bool = False) -> int:
    """The same from the name of PyTorch's class and a parameter group's options.

    ``cuda``: the parameter lies on a GPU, where ``foreach`` is the default.
    """
    if options.get("fused"):
        return 0
    many = options.get("foreach")
    each = _OF_MANY.get(name) if many or (many is None and cuda) else None
    if each is None:
        each = _ONE_STEP.get(name, UNKNOWN)
    apart = options.get("decoupled_weight_decay", name in ("AdamW", "Adafactor"))
    decays = name in _DECAYS and apart and options.get("weight_decay", 0) != 0
    if name == "AdamW" and "decoupled_weight_decay" not in options and not many and not cuda:
        decays = True  # PyTorch 2.6 multiplies by one as well
    return each + 1 if decays and each != UNKNOWN else each


# Version mismatches: which tensor it is that a node saved and somebody wrote to since, and who wrote.

MOST_TOLD = 40


class Mismatches:
    """Looks at the stale nodes of one examination."""

    def __init__(self, seen: Autopsy) -> None:
        self.seen = seen
        self._given_out = GivenOut(seen.order, seen.bits, seen.raw_stack)

    def fill(self, evidence: Evidence, found: walk.Found) -> None:
        """Tell every saved tensor of a node whose version is no longer the one that was saved."""
        for attribute, expected, current in found.stale:
            for tensor in stale_contents(found.node, attribute)[:8]:
                if attribute == "saved_tensors" and version_of(tensor) != current:
                    continue
                told, owner = self._identify(tensor)
                stale = Stale(self.seen.tell(evidence, found.number), attribute, told, expected, current)
                stale.output = attribute in ("_saved_result", "_saved_output")  # else it was an input
                stale.writes = self._writes(found, owner, tensor, current, current - expected)
                stale.behind = self.seen.names(self.seen.bits[found.number])
                stale.given_out = self._more_behind(found)
                stale.producer = self.seen.tell(evidence, found.number) if stale.output else -1
                evidence.stale.append(stale)
                break

    def _more_behind(self, found: walk.Found) -> list[list[str]]:
        """For each call of the program's that led to the node, innermost first, the parameters behind what it gave out
        that do not lie behind the calls inside it."""
        out: list[list[str]] = []
        known = self.seen.bits[found.number]
        for bits in self._given_out.behind(found.number):
            out.append(self.seen.names(bits & ~known))
            known |= bits
        return out

    def _identify(self, tensor: Any) -> tuple[Tensor, Any]:
        """Tell which parameter, buffer or reachable tensor shares this tensor's storage.

        Another part of the memory (the last row, where the first was saved) lends it its name only where nothing that
        has a part in common does.
        """
        told = Tensor(
            "activation", "", shape_of(tensor), str(tensor.dtype), version_of(tensor), bool(tensor.requires_grad)
        )
        storage = storage_of(tensor)
        if storage is None:
            return told, None
        for ident, (name, parameter, buffer) in self.seen.census.parameters.items():
            if storage_of(parameter) == storage:
                told.kind = "buffer" if buffer else "parameter"
                told.name = name
                told.is_leaf = is_leaf(parameter)
                told.requires_grad = bool(parameter.requires_grad)
                told.owners = self.seen.owners.get(ident, [])
                told.holders = self.seen.census.holders(ident, True, self.seen.cwd)
                return told, parameter
        best = None
        beside: list[Holder] = []
        for ident, other in self.seen.census.tensors.items():
            if storage_of(other) == storage:
                holders = self.seen.census.holders(ident, True, self.seen.cwd)
                (told.holders if _overlap(tensor, other) else beside).extend(holders)
                if best is None or is_leaf(other):
                    best = other
        told.holders = (told.holders or beside)[:8]
        if told.holders:
            told.name = min(told.holders, key=lambda h: (len(h.steps), len(h.path))).told
        if best is not None and is_leaf(best):
            told.is_leaf = True
            told.kind = "leaf" if best.requires_grad else "input"
        return told, best

    def _writes(self, found: walk.Found, owner: Any, tensor: Any, current: int, delta: int) -> list[Write]:
        """Who wrote, as far as this run knows: optimizer steps, and in-place operations that are part of a graph."""
        out: list[Write] = []
        if self.seen.watch is not None:
            out = self.seen.watch.writes_to(storage_of(tensor), current - delta, current, self.seen.cwd)
            if out:
                return out[:MOST_TOLD]
        if owner is not None and (out := self._steps(found, owner)):
            return out[:MOST_TOLD]
        storage = storage_of(tensor)
        nodes: dict[Any, int] = {}
        for other in _sharing(self.seen.torch, storage):
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
            raw = self.seen.raw_stack(node)
            if raw:
                out.append(Write(str(node.name()), frames_of(raw, self.seen.cwd), certain=False))
        return out[:MOST_TOLD]

    def _steps(self, found: walk.Found, owner: Any) -> list[Write]:
        """The steps of the optimizers that hold the parameter, since the node was made."""
        out: list[Write] = []
        ids = self.seen.owners.get(id(owner), [])
        for entry in self.seen.entries:
            if entry.kind == "step" and entry.sequence > found.sequence and entry.optimizer in ids:
                seen = next((s for s in self.seen.journal.optimizers.values() if s.id == entry.optimizer), None)
                stepped = seen.ref() if seen else None
                moved = versions_of(stepped, owner) if stepped is not None else UNKNOWN
                if moved != 0:  # what a fused kernel writes is not counted: another write moved the counter
                    name = seen.type if seen else "Optimizer"
                    frames = frames_of(entry.raw, self.seen.cwd)
                    out.append(Write(f"{name}.step", frames, moved=moved, event=entry.index))
        return out


def _sharing(torch: Any, storage: int | None) -> list[Any]:
    """Every live tensor with this storage, found through the garbage collector (``type``, never ``isinstance``)."""
    if storage is None:
        return []
    wanted = (torch.Tensor, torch.nn.Parameter)
    return [o for o in gc.get_objects() if type(o) in wanted and storage_of(o) == storage]


def _overlap(tensor: Any, other: Any) -> bool:
    """Whether two tensors of one storage may have elements in common; True where that is not known."""
    one, two = extent_of(tensor), extent_of(other)
    return one is None or two is None or (one[0] < two[1] and two[0] < one[1])


def _in_place(name: str) -> bool:
    return name.endswith("CopySlices") or "CopySlices" in name or not name.startswith(("View", "AsStrided", "Slice"))


# Which expression made each node of a graph: worked out once for all nodes that one running function made there.


class Made:
    """What made each node of a graph, by the node's number. For a graph whose nodes are all kept meanwhile.

    Two nodes have one site if they were made by the same expression, reached the same way. Library frames are part of
    that: two nodes of one module call are not the same expression.
    """

    def __init__(self, order: walk.Graph, failing: Stack | None = None) -> None:
        self.alike: list[int] = []
        """The nodes that have the stack ``failing``."""
        self.unknown = array("i")
        """The nodes of which nothing tells what made them."""
        self.kind = array("i")
        """The number of its site, its operation, and whether its stack is one of ours."""
        self.kinds: list[tuple[int, str, bool]] = []
        """Those, by that number."""
        sites: dict[tuple[int, ...], int] = {}
        kinds: dict[tuple[int, str, bool], int] = {}
        known: dict[tuple[int, int, str], int] = {}
        for number, node in enumerate(order.nodes):
            kept = kept_in(node)
            ours = isinstance(kept, Stack)
            if not ours and not is_known(kept):
                self.unknown.append(number)
            if kept is failing and ours:
                self.alike.append(number)
            # What one running function has made there is worked out once.
            key = (id(kept.chain), kept.lasti, op_of(node)) if ours else (id(kept), -1, op_of(node))
            kind = known.get(key)
            if kind is None:
                site = site_of(kept if ours or isinstance(kept, list) else [], library=True)
                told = sites.setdefault(site, len(sites)), key[2], ours
                kind = known[key] = kinds.setdefault(told, len(kinds))
            self.kind.append(kind)
        self.kinds = list(kinds)

    def site(self, number: int) -> int:
        """The number of the expression that made a node."""
        return self.kinds[self.kind[number]][0]


# The post-mortem: read off the graph, the version counters and the journal what happened, while all of it still
# lives. Runs where the engine raised, before the exception goes on its way. It creates no node, draws no random
# number, keeps no tensor alive after it returns, and touches no value.

MOST_NODES = 300
"""Nodes told in the Evidence: those that matter, not the whole graph."""
MOST_PER_KIND = 40
_OF_EVENTS = "root", "root_op", "root_output", "retain_graph", "create_graph", "optimizer", "occurrence", "failed"
"""What the journal says of an event in the words of the Evidence."""


class Autopsy:
    """One examination. ``fill`` writes what it finds into an Evidence document."""

    limit = walk.MOST_NODES
    """Nodes of one graph that are looked at."""

    def __init__(
        self,
        witness: Any,
        frames: list[FrameType],
        watch: Any = None,
        events: int | None = None,
        thread: int | None = None,
    ) -> None:
        """``events`` of the journal had been counted when the failure happened; what followed is left out.

        ``thread`` made the graph that is looked at, as far as is known; else the one that looks.
        """
        self.watch = watch
        self.torch, self.cwd = witness.torch, witness.cwd
        self.journal: Journal = witness.journal
        self.census = Census(roots_of(frames), self.torch)
        self.journal.living.note(tensor for _, tensor, _ in self.census.parameters.values())
        self.entries = [e for e in self.journal.entries() if events is None or e.index < events]
        self.which = self.journal.numbers()
        self.thread = self.journal.here.number if thread is None else thread
        on_one_scale(self.entries, self.thread)
        self.order = walk.Graph()
        self.made = Made(self.order)
        self.same_place: list[Entry] = []
        self.suspect: Callable[[walk.Graph], None] | None = None
        """Marks nodes as stale that no version counter tells."""
        self.missed: Any = None
        """The input of a ``grad`` call that the graph does not lead to, where the failure is about one."""
        self.numbers: dict[int, int] = {}
        """The ids of the nodes told so far, by their number in ``order``."""

    # -- parts that need no graph --------------------------------------------------------------------------------

    def fill_program(self, evidence: Evidence) -> None:
        """Optimizers, parameters and the journal."""
        owners: dict[int, list[int]] = {}
        for seen, objects in self.journal.with_idle(o for o, _, _ in self.census.optimizers.values()):
            told = Optimizer(seen.id, seen.type, steps=seen.steps)
            told.stack = [f for f in frames_of(seen.stack, self.cwd) if f.user] if seen.stack is not None else []
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
            for p in held_by(group):
                owners.setdefault(id(p), []).append(told.id)
                name = self.census.parameter_names.get(id(p))
                if name is not None:
                    told.parameters.append(name)

    def _parameter(self, ident: int, name: str, tensor: Any, buffer: bool) -> Parameter:
        told = Parameter(name, shape_of(tensor), str(tensor.dtype), bool(tensor.requires_grad), buffer)
        told.is_leaf, told.version, told.owners = is_leaf(tensor), version_of(tensor), self.owners.get(ident, [])
        if told.is_leaf and told.requires_grad:
            told.grad = "none" if tensor.grad is None else "present"
        told.steps_with_grad = self.journal.with_grad.get(ident, 0)
        told.several_names = ident in self.census.several_names
        return told

    def _event(self, entry: Entry) -> Event:
        names = self.census.parameter_names
        told = Event(entry.index, entry.kind, entry.sequence, frames_of(entry.raw, self.cwd))
        for name in _OF_EVENTS:
            setattr(told, name, getattr(entry, name))
        told.reaches = sorted(names[i] for i in entry.reaches if i in names) if entry.reaches is not None else []
        told.other_roots, told.number = list(entry.other_roots), self.which.get(entry.index, 0)
        return told

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
        self.made = Made(order, failing)
        self.failing = self._failing(failing, name) if failing is not None else -1
        # What the engine met before the failing node was in order, and is released by now: that is all of a part which
        # was walked in its order and ends before that node.
        limit = order.sequences[self.failing] if self.failing >= 0 else walk.NO_SEQUENCE
        if self.failing < 0 and failing is not None and self.limit < walk.DEEP and self.limit <= len(order):
            limit = -1
        inferred = walk.examine_all(order, limit)
        if self.suspect is not None:
            self.suspect(order)
        if inferred:
            evidence.degraded.append(f"{inferred} released nodes deep in the graph were inferred, not looked at")
        if failing is None:
            self.failing = self._failing(None, name)
            limit = order.sequences[self.failing] if self.failing >= 0 else limit
        second_time = walk.of_released(evidence.message)
        if second_time and failing is not None and self.failing >= 0:
            self._release_unseen(order[self.failing])
        # The failing call has itself released what it ran before it failed, highest sequence number first
        # (the engine's ready queue): only released nodes at or below the failing one were dead before.
        stale = set(order.stale)
        self.dead = bytearray(len(order))
        for n in order.released_ones() if second_time else stale:
            self.dead[n] = not second_time or order.sequences[n] <= limit
        self.bits, self.touched, self.leaves = walk.below(order, self.dead)
        evidence.root = self.tell(evidence, 0)
        evidence.failing = self.tell(evidence, self.failing) if self.failing >= 0 else -1
        evidence.failing_event = entry.index
        evidence.reaches = self.names(functools.reduce(operator.or_, map(self.bits.__getitem__, order.roots)))
        mismatches = Mismatches(self)
        for number in sorted(stale, key=lambda n: -order.sequences[n])[:MOST_PER_KIND]:
            mismatches.fill(evidence, order[number])
        if stale and not evidence.stale:
            evidence.degraded.append("the tensor that was overwritten cannot be had: who wrote to it is unknown")
        OlderEdges(self).fill(evidence, entry)
        for number in heapq.nsmallest(MOST_PER_KIND * 2, self.dead_ones(), key=lambda n: -order.sequences[n]):
            self.tell(evidence, number)
        evidence.folded = Folding(self).fold(evidence)

    def _release_unseen(self, met: walk.Found) -> None:
        """Of a write through a view Python sees nothing that it has saved (``CopySlices`` keeps the write's own node to
        itself): that the one which the engine names is released, its message says, and so are those before it that the
        same expression made."""
        if met.released or "CopySlices" not in met.op:
            return
        alike = self.made.kind[met.number]
        for number, kind in enumerate(self.made.kind):
            if kind == alike and self.order.sequences[number] <= met.sequence:
                self.order.released[number] = 1

    def dead_ones(self) -> Iterator[int]:
        """The numbers of the nodes that were of no use before the failing call."""
        return compress(range(len(self.dead)), self.dead)

    def _failing(self, failing: Stack | None, name: str = "") -> int:
        if failing is not None:
            alike = [self.order[n] for n in self.made.alike]
            shared = [f for f in alike if f.node.metadata.get("traceback_") is failing]
            # Nodes of one operation have one stack; the engine comes to the one with the highest number first.
            shared = [f for f in shared if f.op == name] or [f for f in shared if f.sequence < walk.NO_SEQUENCE]
            return max(shared, key=lambda f: f.sequence).number if shared else -1
        # Without the engine's word: the first node that it would have met, highest number first.
        hit = [self.order[n] for n in sorted({*self.order.released_ones(), *self.order.stale})]
        hit = [f for f in hit if f.op == name] or hit
        return max(hit, key=lambda f: f.sequence).number if hit else -1

    def names(self, bits: int) -> list[str]:
        names = self.census.parameter_names
        told = (leaf for position, leaf in self.leaves.items() if bits >> position & 1)
        return sorted(names.get(id(leaf)) or f"<unnamed {shape_of(leaf)}>" for leaf in told)

    def raw_stack(self, node: Any) -> list[Any]:
        kept = kept_in(node)
        # Anomaly mode's own text, where our stacks could not take its place.
        return kept.raw if isinstance(kept, Stack) else kept if isinstance(kept, list) else []

    def tell(self, evidence: Evidence, number: int) -> int:
        """Put a node into the Evidence (once) and return its id."""
        ident = self.numbers.get(number)
        if ident is not None:
            return ident
        found = self.order[number]
        if len(evidence.nodes) >= MOST_NODES:
            return -1
        ident = self.numbers[number] = len(evidence.nodes)
        state = "released" if self.dead[number] and found.released else "stale" if found.stale else "live"
        evidence.nodes.append(self.describe_node(found.node, ident, state))
        return ident

    def describe_node(self, node: Any, ident: int, state: str = "live") -> Node:
        sequence = node._sequence_nr()
        told = Node(ident, str(node.name()), sequence if sequence < walk.NO_SEQUENCE else -1, state=state)
        told.stack = outside_compiled(told.op, frames_of(self.raw_stack(node), self.cwd))
        told.iteration, told.shape = self.iteration(told.sequence), list(walk.output_shape(node) or ())
        return told

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
