"""Values that gather the graph of every iteration, though no backward call can ever use it again."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from itertools import islice
from types import FrameType
from typing import Any

from graphdoc.capture.audit.watch import LOOKS, Sparse
from graphdoc.capture.events.journal import Seen
from graphdoc.capture.graph import walk
from graphdoc.capture.places import stacks
from graphdoc.capture.places.frames import made_at
from graphdoc.capture.tensors.access_paths import own_attributes, roots_of
from graphdoc.capture.tensors.facts import grad_fn_of
from graphdoc.capture.tensors.names import Census, child_modules
from graphdoc.evidence import Sign

MOST_SEARCHES = 6
MOST_VALUES = 3000
DEEPEST = 4
"""Objects, lists and dicts inside each other that are looked into, and of each list and dict:"""
MOST_ITEMS = 50
MOST_NODES = 3000
"""Nodes behind one value."""
MOST_MODULES = 1000
NEAR = 24
"""Nodes from one addition to the one before it."""
LINKS = 2
"""Further additions from the same expression, each of another iteration."""
MANY = 20_000
"""Nodes that a list keeps alive from which on it is worth a word: a record of a few losses does no harm."""


class Growing(Sparse):
    """``graph-grows``: ``stack`` is the addition that joins the iterations' graphs; ``facts["name"]`` is what holds it.
    With ``facts["list"]`` it is a list whose elements keep them; it has no ``stack``. ``facts["nodes"]``: how many are
    kept alive; ``facts["one"]``: it is one number. Of values that one line makes (several layers) one is told."""

    def set_up(self) -> None:
        self._before: dict[int, int] = {}
        """By optimizer: how many nodes there had been early on, or at the look before; a list that drops its first
        elements has none as old."""

    def stepped(self, optimizer: Any, seen: Seen) -> None:
        if seen.steps not in LOOKS or any(not s.weak for s in self._found) or not self._may_look(MOST_SEARCHES):
            return
        self._found = []
        audit, running = self._audit, self._audit.running()
        entries = audit.journal.entries()
        roots = {e.root for e in entries if e.kind == "backward"}
        # An unrolled optimizer differentiates within one update: what is gathered over updates is what grows.
        steps = sorted(e.sequence for e in entries if e.kind == "step")
        before = self._before.setdefault(seen.id, next(iter(steps[1:]), 0))
        self._before[seen.id] = before if seen.steps == LOOKS[0] else audit.journal.nodes_made
        census: Census | None = None  # names are searched for once, and only where something grows
        for value, of_list in values_at_hand(running, audit.torch):
            found = self._grown_list(value, steps, before) if of_list else self._grown(value, steps, roots)
            if found is not None and not (of_list and self._found):
                census = census or Census(roots_of(running), audit.torch)
                self._tell(seen, census, value if not of_list else value[-1], *found, of_list)
        if any(not s.weak for s in self._found):
            audit.tell_early()

    def _grown(self, tensor: Any, steps: list[int], roots: set[int]) -> tuple[Any, int] | None:
        """The addition at the top of a value that gathers graphs which were used up, and how many nodes it keeps; None
        for a loss that was differentiated itself: it was gathered for that."""
        node = grad_fn_of(tensor)
        if node is None or not steps or node._sequence_nr() < steps[0] or node._sequence_nr() in roots:
            return None
        at = node
        for _ in range(LINKS):
            at = _before(at, steps)
            if at is None:
                return None
        used_up, kept, alive = _kept_by(node)
        links = {bisect_right(steps, s) for s in used_up}
        return (kept, alive) if len(links) >= LINKS and kept is not None else None

    def _grown_list(self, values: Any, steps: list[int], before: int) -> tuple[Any, int] | None:
        """The same for what a list holds: the place of its last element."""
        *nodes, first = (grad_fn_of(values[n]) for n in (-1, -2, -3, 0) if type(values[n]) is type(values[-1]))
        if first is None or None in nodes or len(nodes) < 1 + LINKS or len({made_at(n) for n in nodes}) != 1:
            return None
        if first._sequence_nr() >= before:
            return None
        if len({bisect_right(steps, n._sequence_nr()) for n in nodes}) != len(nodes):
            return None
        used_up, kept, each = _kept_by(nodes[0])
        alive = each * len(values)
        counts = alive >= MANY or "audit-all" in self._audit.witness.words
        return (kept, alive) if used_up and counts and kept is not None else None

    def _tell(self, seen: Seen, census: Census, tensor: Any, at: Any, nodes: int, of_list: bool) -> None:
        audit = self._audit
        stack = self._frames(at)
        # Where the user's code does it: the same line for another layer is told once.
        lines = [next((f.start for f in reversed(s) if f.user), None) for s in (stack, *(s.stack for s in self._found))]
        holders = census.holders(id(tensor), True, audit.witness.cwd) if lines[0] not in lines[1:] else []
        holder = next((h for h in holders if not of_list or h.path.endswith("]")), None)
        if holder is None:
            return
        sign = Sign("graph-grows", stack, event=audit.journal.count, count=seen.steps)
        name = holder.path.rpartition("[")[0] if of_list else holder.told
        one = tensor.numel() == 1
        sign.facts = {"name": name, "list": of_list, "nodes": nodes, "file": holder.file, "one": one}
        sign.weak = of_list and nodes < MANY
        self._found.append(sign)


def _kept_by(node: Any) -> tuple[list[int], stacks.Stack | None, int]:
    """Of the graph behind a node the sequence numbers of what is released, where it was made, and its size."""
    order = walk.walk([node], MOST_NODES)
    walk.examine_all(order)
    return [f.sequence for f in order if f.released], stacks.stack_of(node), len(order)


def _before(node: Any, steps: list[int]) -> Any:
    """The node that the same expression made in an earlier iteration and that enters this one, a few nodes away."""
    site, epoch, kind = made_at(node), bisect_right(steps, node._sequence_nr()), type(node)
    if site is None:
        return None
    alike = (n for n in walk.reached([node], walk.inputs_of, NEAR) if type(n) is kind)
    return next((n for n in alike if bisect_right(steps, n._sequence_nr()) < epoch and made_at(n) == site), None)


def values_at_hand(running: list[FrameType], torch: Any) -> Iterator[tuple[Any, bool]]:
    """Tensors with a graph and lists of them, as the running functions hold them: by a name, an attribute, a key. The
    nearest come first: a trainer's own, then those of the meters in its dicts."""
    todo = deque((value, 0) for frame in running for value in list(frame.f_locals.values()))
    known: set[int] = set()
    while todo and len(known) < MOST_VALUES:
        value, depth = todo.popleft()
        if id(value) in known:
            continue
        known.add(id(value))
        kind = type(value)
        if kind is torch.Tensor:
            if value.requires_grad:
                yield value, False
            continue
        if kind is list and len(value) > LINKS:
            last = value[-1 - LINKS :]
            if all(type(t) is torch.Tensor for t in last) and last[-1].requires_grad:
                yield value, True
        if depth < DEEPEST:
            todo += ((v, depth + 1) for v in _inside(value, torch))


def _inside(value: Any, torch: Any) -> list[Any]:
    """What a list, a dict or an object of the program's own has; and the tensors that a module and those below it keep
    as plain attributes: running statistics, a state."""
    todo = [value] if torch.nn.Module in type(value).__mro__ else []
    kept = list[Any]()
    for module in islice(iter(todo), MOST_MODULES):
        todo += [m for m in child_modules(module) if m is not None]
        kept += (v for v in object.__getattribute__(module, "__dict__").values() if type(v) is torch.Tensor)
    kind = type(value)
    if kind is list:
        return list(value[:MOST_ITEMS])
    if kind in (dict, OrderedDict, defaultdict):
        return list(islice(dict.values(value), MOST_ITEMS))
    return [*own_attributes(value).values(), *kept]
