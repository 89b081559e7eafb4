"""Edges into older graphs: what they have in common with earlier calls, who holds it, what is only compared with it."""

from __future__ import annotations

import bisect
import heapq
import threading
from array import array
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from graphdoc.capture.events.journal import Entry
from graphdoc.capture.graph import walk
from graphdoc.capture.graph.clearing import clearing
from graphdoc.capture.graph.summands import emptied
from graphdoc.capture.graph.walk import NO_SEQUENCE, Above, Graph
from graphdoc.capture.places.frames import frames_of, site_of
from graphdoc.capture.places.stacks import is_below
from graphdoc.capture.tensors.facts import grad_fn_of
from graphdoc.evidence import Evidence, Holder, OlderEdge, Tensor

if TYPE_CHECKING:
    from graphdoc.capture.graph.autopsy import Autopsy

_PRODUCT = "MulBackward0"


# Values that a loss takes in as weights alone: by which it multiplies what leads to other parameters.


def weight_of(order: Graph, upper: Above, bits: list[int], consumer: int, shared: int) -> str:
    """Whether all that a graph makes of a value, above the node that takes it in, ends as a factor of a product.

    ``alone`` where the other factor leads to parameters, and to none of those behind the value; ``beside`` where it
    leads to some of these as well; empty where something else becomes of the value.

    Args:
        order: the nodes of the graph, as ``walk`` found them.
        upper: the nodes that lead to each of them at once, of the whole graph.
        bits: the leaves that each of them leads to, as bit sets.
        consumer: the number of the node that takes the value in.
        shared: the leaves behind the value.
    """
    if not any(bits[n] & ~shared for n in order.leaves):
        return ""
    how = "alone"
    for n in walk.reached([consumer], lambda n: () if bits[n] & ~shared else upper[n]):
        if bits[n] & ~shared and order.op(n) == _PRODUCT:
            beside = any(bits[m] & shared for m in order.following(n) if bits[m] & ~shared)
            how = "beside" if beside else how
        elif bits[n] & ~shared or not upper[n]:
            return ""
    return how


# Who holds the output of a node of the graph, or what was made in its place since.

MOST_HOLDERS = 24
"""Ways told to reach the output of one node."""
MOST_ALIKE = 100
"""Tensors of one place that are looked at for them."""


class OutputHolders:
    """Answers for one examination; the program's tensors are sorted at the first question."""

    def __init__(self, seen: Autopsy) -> None:
        self._seen = seen
        self._sites: dict[tuple[Any, ...], list[Any]] | None = None
        self._outputs: dict[int, tuple[Any, list[Any]]] = {}
        self._known: dict[tuple[Any, ...], list[Holder]] = {}

    def of(self, node: Any, taken_by: Any = None) -> list[Holder]:
        """Who holds the output of this node; else who holds what was made at the same place later.

        What a loop goes through has another name that keeps it. Of several outputs (``chunk``, ``unbind``)
        only those that the node ``taken_by`` takes, where one is given.
        """
        if self._sites is None:
            self._look_at_tensors()
        census, cwd = self._seen.census, self._seen.cwd
        taken = {n for other, n in (taken_by.next_functions if taken_by is not None else ()) if other is node}
        _, outputs = self._outputs.get(id(node), (None, ()))
        own = [t for t in outputs if not taken or t.output_nr in taken]
        out = [h for tensor in own for h in census.holders(id(tensor), True, cwd, passing=False)]
        if not out:
            out = self._made_alike(node, taken)
        out.sort(key=lambda holder: (len(holder.steps), len(holder.path)))
        return out[:MOST_HOLDERS]

    def renewed(self, node: Any, holders: list[Holder], mark: int) -> bool:
        """Whether what is held in place of this node's output was made where it was, behind the earlier call."""
        if not holders or any(h.exact for h in holders) or self._sites is None:
            return False
        alike = self._sites.get((node.name(), *site_of(self._seen.raw_stack(node))), ())
        made = (grad_fn_of(tensor) for tensor in alike)
        return any(m is not None and m._sequence_nr() >= mark for m in made)

    def _look_at_tensors(self) -> None:
        """Sort the program's tensors by the node that made them, and by the place of that node."""
        self._sites = {}
        for tensor in self._seen.census.tensors.values():
            made = grad_fn_of(tensor)
            if made is not None:
                self._outputs.setdefault(id(made), (made, []))[1].append(tensor)
                raw = self._seen.raw_stack(made)
                if raw:
                    self._sites.setdefault((made.name(), *site_of(raw)), []).append(tensor)

    def _made_alike(self, node: Any, taken: set[int]) -> list[Holder]:
        """Who holds what was made where this node was: asked for many nodes of one place, worked out once for it.

        Of very many tensors only those are looked at that the fewest steps lead to.
        """
        assert self._sites is not None
        site = (node.name(), *site_of(self._seen.raw_stack(node)))
        known = self._known.get((*site, *taken))
        if known is None:
            census = self._seen.census
            alike = [t for t in self._sites.get(site, ()) if not taken or t.output_nr in taken]
            nearest = heapq.nsmallest(MOST_ALIKE, alike, key=lambda t: census.nearest(id(t)))
            known = [h for t in nearest for h in census.holders(id(t), False, self._seen.cwd, passing=False)]
            self._known[(*site, *taken)] = known
        return list(known)


# Values of an older graph that a loss only compares with what it computes anew from the same parameters.

COMPARING = (
    *("SubBackward", "RsubBackward", "DivBackward", "MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss"),
    *("KlDivBackward", "BinaryCrossEntropy"),
)
"""Names of the nodes of a difference, a ratio, a distance (torch/csrc/autograd/generated)."""
_RATIO = ("KlDivBackward", "BinaryCrossEntropy")
_DIFFERENCE = ("SubBackward", "RsubBackward")
_LINEAR = "linear"
_WEAK = _WEIGHED, _ASIDE = "weighed", "aside"
_TURNS = ("PowBackward", "AbsBackward", "NormBackward", "LinalgVectorNormBackward", "ExpBackward")
"""What makes a distance, or a ratio, of a difference: the terms of a loss are subtracted as well, and that is all."""
_PASSES = (
    *("MeanBackward", "SumBackward", "NegBackward", "ViewBackward", "ReshapeBackward", "UnsafeViewBackward"),
    *("SelectBackward", "IndexBackward", "SliceBackward", "SqueezeBackward", "UnsqueezeBackward", "ExpandBackward"),
    *("MulBackward", "DivBackward", "StackBackward", "CatBackward", "TBackward", "TransposeBackward"),
)
"""Through these a difference stays one."""
_LOG_OF_DISTRIBUTION = "LogSoftmaxBackward0"
"""A cross entropy of two distributions, of which ``F.kl_div`` makes a part, is the one times the logarithm of the
other."""


def compared_edges(
    order: Graph, upper: Above, bits: list[int], edges: list[tuple[int, int]]
) -> dict[tuple[int, int], str]:
    """Those of the edges whose value, on every way up, is set against something that reaches all the same parameters
    without such an edge, before anything else is mixed with it: as a ``ratio`` (of probabilities), or a ``distance``;
    ``part`` where it reaches some of them, ``aside`` where it reaches others alone; ``weighed`` where it is multiplied
    with what reaches some of them, too.

    What has both on its way up (``xlogy(p, p) - p * log_q``) is asked at each of the operations that take the value in.

    Args:
        order: the nodes of the graph, as ``walk`` found them.
        upper: the nodes that lead to each of them at once.
        bits: the leaves that each of them leads to, as bit sets.
        edges: from a fresh node to one of the older graph.
    """
    if not edges:
        return {}
    old, older = set(edges), {m for _, m in edges}
    fresh = walk.gather(order, ((n, bits[n]) for n in order.leaves), old)
    marked = bytearray(len(order))
    for m in older:
        marked[m] = 1
    mixed = walk.reaching(order, marked)
    told = {(n, m): _compared(order, upper, fresh, mixed, older, (n, m), bits[m]) for n, m in edges}
    sure = {m for (_, m), how in told.items() if how not in ("", _LINEAR, *_WEAK)}
    # A difference alone may be one of two terms of a loss; beside a ratio it is an estimate of the divergence.
    told.update({edge: "ratio" if edge[1] in sure else "" for edge, how in told.items() if how == _LINEAR})
    return {edge: how for edge, how in told.items() if how}


def _compared(
    order: Graph, upper: Above, fresh: list[int], mixed: bytearray, older: set[int], edge: tuple[int, int], shared: int
) -> str:
    consumer, producer = edge
    way = {producer, consumer}
    todo = [consumer]
    how, whole = "ratio", True
    weak: set[str] = set()
    while todo:
        n = todo.pop()
        op = order.op(n)
        others = [m for m in order.following(n) if m != producer and m not in older]
        # A parameter itself was not computed: what is divided by its size is only scaled.
        against = [m for m in others if fresh[m] & shared and m not in order.leaves]
        whole = whole and (not against or any(fresh[m] & shared == shared for m in against))
        if against and op.startswith(COMPARING):
            turned = _turned(order, upper, n) if op.startswith(_DIFFERENCE) else ""
            # Of a divergence, the term that has both in it. What is times a number is a term of any loss.
            cross = any(order.op(m) == _PRODUCT and any(mixed[k] for k in order.following(m)) for m in against)
            if op.startswith(_DIFFERENCE) and not turned and not cross:
                how = _LINEAR
                continue
            ratio = cross or op.startswith(_RATIO) or turned.startswith("Exp")
            how = how if ratio or how == _LINEAR else "distance"
            continue
        if op == _PRODUCT and against:
            if not any(order.op(m) == _LOG_OF_DISTRIBUTION for m in against):
                weak.add(_WEIGHED)
            continue
        beside = [m for m in others if fresh[m] and m not in way]
        computed = bool(beside) and order.leaves.keys().isdisjoint(beside)
        if computed and op.startswith(COMPARING) and (not op.startswith(_DIFFERENCE) or _turned(order, upper, n)):
            weak.add(_ASIDE)
            continue
        if beside or not upper[n]:
            return ""
        new = set(upper[n]) - way
        way |= new
        todo += new
    if weak:
        return min(weak)
    return how if whole or how == _LINEAR else "part"


def _turned(order: Graph, upper: Above, start: int) -> str:
    """What a difference is first made into, of ``_TURNS``, through what leaves it one; or nothing."""
    for n in walk.reached(upper[start], lambda n: upper[n] if order.op(n).startswith(_PASSES) else ()):
        op, taken = order.op(n), order.following(n)
        if op.startswith(_TURNS) or (op == _PRODUCT and len(set(taken)) < len(taken)):
            return op
    return ""


# Edges into older graphs: what the failing call's graph has in common with earlier ones, and who holds it.

MOST_TOLD = 40
MOST_USERS = 50_000
"""Nodes above an edge that are looked at for a call that is made again."""

_BEGIN = threading.Thread._bootstrap.__code__  # type: ignore[attr-defined]
"""The outermost function of each thread but the first (CPython's ``threading``)."""


class OlderEdges:
    """Looks for the edges of one examination."""

    def __init__(self, seen: Autopsy) -> None:
        self.seen = seen
        self._holders = OutputHolders(seen)

    def fill(self, evidence: Evidence, entry: Entry) -> None:
        """Tell the carried tensors, the calls that freed what lies behind them, and what else is kept."""
        order = self.seen.order
        backwards = [e for e in self.seen.entries if e.kind in ("backward", "grad") and e.index < entry.index]
        freed_by, calls = self._freed(backwards, entry)
        edges = self._crossing(freed_by, calls)
        if not edges and any(order.released[n] for n in self.seen.dead_ones()):
            edges, shared = self._shared(backwards, entry)
            evidence.extras["shared_with"] = shared
        marks = {e.index: e.sequence for e in calls if e is not None}
        empty = emptied(order, edges)
        compared = compared_edges(order, self._above, self.seen.bits, edges)
        # The newest first: what the failing iteration itself carried over says most.
        for consumer, producer in sorted(edges, key=lambda e: -order.sequences[e[0]])[: MOST_TOLD * 3]:
            used = bool(self.seen.dead[consumer])  # the root: an earlier call started from another output of it
            freeing = self._freed_below(consumer if used else producer, freed_by, calls)
            told = self.seen.tell(evidence, consumer), self.seen.tell(evidence, producer)
            carry = OlderEdge(*told, self._carried(order.nodes[producer], order.nodes[consumer]))
            carry.behind, carry.freed_by = self.seen.names(self.seen.bits[producer]), freeing
            carry.dead = used or bool(self.seen.touched[producer])
            taken = order.nodes[consumer].next_functions
            carry.outputs = sorted({n for other, n in taken if other is order.nodes[producer]})
            mark = max(marks.values(), default=-1)
            carry.recurrent, carry.remade = self._again(consumer, producer, mark)
            carry.renewed = bool(marks) and self._holders.renewed(order.nodes[producer], carry.tensor.holders, mark)
            carry.term, carry.compared = (consumer, producer) in empty, compared.get((consumer, producer), "")
            carry.factor = weight_of(order, self._above, self.seen.bits, consumer, self.seen.bits[producer])
            carry.apart = any(self._of_other_thread(order.nodes[n], entry) for n in (consumer, producer))
            evidence.older_edges.append(carry)
        self._fill_clearing(evidence)
        shared_event = (evidence.extras.get("shared_with") or {}).get("event", -1)
        for e in backwards:
            if e.index in {*marks, shared_event} and not evidence.earlier_edges:
                self._fill_siblings(evidence, e)
        evidence.fresh_reaches = self.seen.names(self._reach_without(self._like(edges, marks)))
        if marks:
            self._fill_lingering(evidence, max(marks.values()))
            self._fill_recorded(evidence, entry, max(marks.values()))
        if calls:
            first = calls[freed_by[max(self.seen.dead_ones(), key=order.sequences.__getitem__)]]
            evidence.extras["freed_by"] = first.index if first is not None else -1
        evidence.extras["dead"] = sum(self.seen.dead)

    def _fill_clearing(self, evidence: Evidence) -> None:
        """``extras["clearing"]``: the call that lets a package clear what it keeps of these values."""
        try:
            carried = [carry.tensor for carry in evidence.older_edges[:3]]
            if found := clearing(self.seen.census, carried, self.seen.cwd):
                evidence.extras["clearing"] = found
        except Exception as e:
            evidence.degraded.append(f"how a package clears what it keeps was not looked up: {type(e).__name__}: {e}")

    @cached_property
    def _above(self) -> walk.Above:
        return walk.Above(self.seen.order)

    def _fill_recorded(self, evidence: Evidence, entry: Entry, mark: int) -> None:
        """``extras["recorded"]``: how many operations were recorded since the freeing call, how many of these are in
        this graph, and how many older ones are."""
        order = self.seen.order
        if len(order) < self.seen.limit and not any(e.apart for e in evidence.older_edges):
            recorded = sum(s < NO_SEQUENCE for s in order.sequences)
            fresh = sum(mark <= s < NO_SEQUENCE for s in order.sequences)
            evidence.extras["recorded"] = [entry.sequence - mark, fresh, recorded - fresh]

    def _of_other_thread(self, node: Any, entry: Entry) -> bool:
        """Whether a node was made in a thread that the program has started, and the call does not run in one."""
        made, called = self.seen.raw_stack(node)[-2:-1], entry.raw.raw[-2:-1]
        return made == [_BEGIN] and called != [_BEGIN]

    def _like(self, edges: list[tuple[int, int]], marks: dict[int, int]) -> Callable[[int, int], bool]:
        """Whether an edge is one of these, or leads to a result of the same standing as those behind them: other
        entries of a store, used or not.

        An old one comes from the same expression, or goes into the same operation; a new one does both.
        """
        mark = max(marks.values(), default=-1)
        takers, makers = {n for n, _ in edges}, {m for _, m in edges}
        kind, sequences = self.seen.made.kind, self.seen.order.sequences
        taking, making = ({kind[n] for n in some} for some in (takers, makers))
        own = set(edges)

        def alike(n: int, m: int) -> bool:
            makes = kind[m] in making
            fresh = (makes or n in takers) and sequences[n] >= mark
            return (n, m) in own or (fresh and (sequences[m] < mark or (makes and kind[n] in taking)))

        return alike

    def _fill_lingering(self, evidence: Evidence, mark: int) -> None:
        """What else is kept with an old graph: the next thing to fail once the first is mended."""
        for ident, tensor in self.seen.census.tensors.items():
            node = grad_fn_of(tensor)
            if node is None or not node._sequence_nr() < mark or len(evidence.held_tensors) >= MOST_TOLD:
                continue
            told = self._carried(node)
            told.holders = self.seen.census.holders(ident, True, self.seen.cwd)
            told.made = frames_of(self.seen.raw_stack(node), self.seen.cwd)
            evidence.held_tensors.append(told)

    def _carried(self, node: Any, taken_by: Any = None) -> Tensor:
        told = Tensor("activation", "", list(walk.output_shape(node) or ()))
        told.holders = self._holders.of(node, taken_by)
        if told.holders:
            told.name = told.holders[0].told
        return told

    @cached_property
    def _latest(self) -> dict[tuple[int, str], int]:
        """The highest number of a node by the expression that made it, and by that and its operation."""
        made = self.seen.made
        latest = [-1] * len(made.kinds)
        for sequence, kind in zip(self.seen.order.sequences, made.kind, strict=True):
            if sequence > latest[kind]:
                latest[kind] = sequence
        out: dict[tuple[int, str], int] = {}
        for (site, op, ours), number in zip(made.kinds, latest, strict=True):
            if ours:
                out[site, op] = number
                out[site, ""] = max(number, out.get((site, ""), -1))
        return out

    def _again(self, consumer: int, producer: int, mark: int) -> tuple[bool, bool]:
        """Whether the call that made the producer was made again since the last backward; and feeds on the producer."""
        order, made = self.seen.order, self.seen.made
        site = made.site(producer)
        if not self._latest.get((site, ""), -1) >= mark > order.sequences[producer]:
            return False, False
        remade = self._latest.get((site, order.op(producer)), -1) >= mark
        users = walk.reached([consumer], self._above.__getitem__, MOST_USERS)
        alike = (n for n in users if order.sequences[n] >= mark and made.site(n) == site)
        feeds = any(made.kinds[made.kind[n]][2] for n in alike)
        return feeds, feeds or remade

    def _freed(self, backwards: list[Entry], failing: Entry) -> tuple[array[int], list[Entry | None]]:
        """For each node the number of the call that released it, -1 for one that is not dead; and these calls. What
        lies between the same calls is asked once."""
        made, roots = sorted(e.sequence for e in backwards), sorted(e.root for e in backwards)
        known: dict[tuple[int, int, int], int] = {}
        calls: list[Entry | None] = []
        out = array("i", [-1]) * len(self.seen.order)
        for n in self.seen.dead_ones():
            number = self.seen.order.sequences[n]
            key = bisect.bisect_right(made, number), bisect.bisect_left(roots, number), self.seen.bits[n]
            call = known.get(key)
            if call is None:
                entry = self._freeing(self.seen.order[n], backwards, failing)
                if entry not in calls:
                    calls.append(entry)
                call = known[key] = calls.index(entry)
            out[n] = call
        return out, calls

    def _freeing(self, found: walk.Found, backwards: list[Entry], failing: Entry) -> Entry | None:
        """The backward call that released a node: the first one after it was made that reaches the same leaves.

        ``autograd.grad`` ends at its inputs and may not have come to the node; a call behind it from the failing place,
        which reaches the leaves as well, would have found the node released.
        """
        ids = {id(leaf) for p, leaf in self.seen.leaves.items() if self.seen.bits[found.number] >> p & 1}
        came = [
            e for e in backwards if e.sequence > found.sequence and (e.reaches is None or not ids or e.reaches & ids)
        ]
        able = [e for e in came if not (e.retain_graph or 0 <= e.root < found.sequence)]
        if len(able) > 1 and is_below(failing.raw, able[0].raw) and is_below(able[1].raw, able[0].raw):
            del able[0]  # it is still on its way, and what was called below it has come to its end
        if able:
            again = (e for e in able if e.kind == "backward" and e.place is failing.place)
            return next(again, able[0]) if able[0].kind == "grad" else able[0]
        # Kept graphs (retain_graph), and what was made behind the root, have no releasing call: the first behind the
        # node that came to its leaves stands for it.
        return came[0] if came else None

    def _freed_below(self, number: int, freed_by: array[int], calls: list[Entry | None]) -> int:
        """The event that freed what lies nearest at or below a node; -1: not known."""
        following, touched = self.seen.order.following, self.seen.touched
        below = walk.reached([number], lambda n: [m for m in following(n) if touched[m]])
        call = next((calls[freed_by[n]] for n in below if freed_by[n] >= 0), None)
        return call.index if call is not None else -1

    def _crossing(self, freed_by: array[int], calls: list[Entry | None]) -> list[tuple[int, int]]:
        """Edges from a node made after the call that freed what lies below to one made before that call."""
        marks = sorted({e.sequence for e in calls if e is not None})
        if not marks:
            return []
        order = self.seen.order
        own = [1 << marks.index(e.sequence) if e is not None else 0 for e in calls]
        masks = walk.gather(order, ((n, own[freed_by[n]]) for n in self.seen.dead_ones()))
        after = array("i", (bisect.bisect_right(marks, s) if s < NO_SEQUENCE else 0 for s in order.sequences))
        # Marks with low.sequence < mark <= high.sequence, as a range of bits.
        return sorted(
            {
                (n, m)
                for n, m in zip(order.sources, order.targets, strict=True)
                if (high := after[n]) > (low := after[m]) and masks[m] >> low & ((1 << (high - low)) - 1)
            }
        )

    def _shared(self, backwards: list[Entry], entry: Entry) -> tuple[list[tuple[int, int]], dict[str, Any]]:
        """Edges into the part shared with an earlier backward call of the same forward pass."""
        used: set[int] = set()
        told: dict[str, Any] = {}
        order = self.seen.order
        for e in reversed(backwards):
            root = self._live_root(e)
            if root is None:
                continue
            other = walk.walk([root], self.seen.limit)
            used = set(order.numbers_of(f.node for f in other if f.leaf is None).values())
            if any(self.seen.dead[n] for n in used):
                one_node = order.nodes[0] is root
                same = one_node and (e.root_output, e.other_roots) == (entry.root_output, entry.other_roots)
                told = {"event": e.index, "exact": True, "same_root": same}
                if one_node and not same:  # that call has started from another output of the root's node
                    taken = sorted(set(order.following(0)))
                    return [(0, m) for m in taken if self.seen.touched[m]] or [(0, m) for m in taken], told
                break
            used = set()
        if not used:
            used = set(self.seen.dead_ones())
        out = {(n, m) for n, m in zip(order.sources, order.targets, strict=True) if m in used and n not in used}
        return [edge for edge in sorted(out) if self.seen.touched[edge[1]]], told

    def _fill_siblings(self, evidence: Evidence, entry: Entry) -> None:
        """The edges by which an earlier call, whose loss still lives, enters what it shares with the failing one."""
        root = self._live_root(entry)
        if root is None or root is self.seen.order.nodes[0]:
            return
        other = walk.walk([root], self.seen.limit)
        numbers = self.seen.order.numbers_of(other.nodes)
        bits, _, _ = walk.below(other, bytearray(len(other)))
        upper = walk.Above(other)
        for found in other:
            if found.node in numbers or len(evidence.earlier_edges) >= MOST_TOLD:
                continue
            for m in found.following:
                number = numbers.get(other[m].node)
                if number is None or other[m].leaf is not None or not self.seen.touched[number]:
                    continue
                ident = len(evidence.nodes)
                evidence.nodes.append(self.seen.describe_node(found.node, ident))
                shared = OlderEdge(ident, self.seen.tell(evidence, number), self._carried(other[m].node))
                shared.behind, shared.freed_by = self.seen.names(self.seen.bits[number]), entry.index
                shared.factor = weight_of(other, upper, bits, found.number, bits[m])
                evidence.earlier_edges.append(shared)

    def _live_root(self, entry: Entry) -> Any:
        made = (grad_fn_of(t) for t in self.seen.census.tensors.values()) if entry.root >= 0 else ()
        return next((node for node in made if node is not None and node._sequence_nr() == entry.root), None)

    def _reach_without(self, blocked: Callable[[int, int], bool]) -> int:
        """The leaves that the root reaches without crossing the edges of which this holds."""
        order = self.seen.order
        met = walk.reached([0], lambda n: [m for m in order.following(n) if not blocked(n, m)])
        leaves = {id(order.leaves[n]) for n in met if n in order.leaves}
        return sum(1 << p for p, leaf in self.seen.leaves.items() if id(leaf) in leaves)
